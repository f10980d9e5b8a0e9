"""Which weights of a training are kept: FewNLU's early stopping, for several evaluation intervals of one training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.contract import Choice
from lmassay.evaluations.fewshot.methods.weights import Weights


@dataclass(slots=True)
class Watch:
    """One evaluation interval: its best weights so far and when it would have stopped."""

    ratio: float | None
    """The share of the training between two looks; None: the last weights are taken unseen."""
    every: int | None
    """The same in updates."""
    patience: int
    best: float = 0.0
    unimproved: int = 0
    step: int = 0
    dev: dict[str, float] = field(default_factory=dict)
    weights: Weights | None = None
    stopped_at: int | None = None

    def looks_at(self, update: int) -> bool:
        return self.every is not None and self.stopped_at is None and update % self.every == 0

    def look(self, update: int, dev: dict[str, float]) -> bool:
        """Whether the weights of now are the best: at least as good as any before, so that of equals the latest wins.

        Only what is strictly better sets the patience back.
        """
        score = sum(dev.values()) / len(dev)
        chosen = score >= self.best
        self.unimproved = 0 if score > self.best else self.unimproved + 1
        if chosen:
            self.best, self.step, self.dev = score, update, dev
        if self.unimproved >= self.patience:
            self.stopped_at = update
        return chosen

    def choice(self, updates: int) -> Choice:
        """What was chosen when the training has ended after ``updates``."""
        return Choice(
            self.ratio, self.step or updates, self.dev, self.stopped_at if self.stopped_at is not None else updates
        )


def watches(ratios: Sequence[float], total: int, patience: int, *, has_dev: bool) -> list[Watch]:
    """One watch a ratio. Without a dev set, or with ratio 1, the last weights are taken."""
    if not has_dev:
        return [Watch(None, None, patience)]
    if len(set(ratios)) != len(ratios):
        raise ConfigError(f"eval_ratios: a ratio stands there twice: {', '.join(f'{ratio:g}' for ratio in ratios)}")
    made = []
    for ratio in ratios:
        if not 0 < ratio <= 1:
            raise ConfigError(f"eval_ratios: {ratio} is no share of a training; write a number above 0, at most 1")
        every = int(ratio * total)
        if every == 0:
            raise ConfigError(
                f"eval_ratios: {ratio} of {total} updates is less than one update, so the dev set would never be "
                f"looked at; the smallest possible is {_smallest(total)}, or train longer (max_steps)"
            )
        made.append(Watch(ratio, None if ratio == 1 else every, patience))
    return made


def _smallest(total: int) -> float:
    """The smallest ratio that comes to an update, in four digits or as many as it takes."""
    for digits in range(4, 16):
        ratio: float = math.ceil(10**digits / total) / 10**digits
        if int(ratio * total) == 1:
            return ratio
    return 1 / total
