"""A run as the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.statistics.intervals import Settings


@dataclass(frozen=True, slots=True)
class NewRun:
    """What is known of a run when it starts."""

    id: str
    sweep: str
    name: str
    task: str
    model: str
    label: str
    config: Mapping[str, Any]
    signature: str
    provenance: Mapping[str, Any]
    planned: int | None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the store knows it."""

    id: str
    sweep: str
    name: str
    task: str
    model: str
    label: str
    status: str
    config: Mapping[str, Any]
    signature: str
    provenance: Mapping[str, Any]
    results: Sequence[Mapping[str, Any]]
    note: str
    planned: int | None
    created: str
    finished: str | None

    @property
    def settings(self) -> Settings:
        """How the run computes its intervals; runs of early versions may not say."""
        known = {name: self.config[name] for name in ("confidence", "resamples", "seed") if name in self.config}
        return Settings(**known)

    def as_json(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return {
            "run": self.id,
            "task": self.task,
            "model": self.model,
            "label": self.label,
            "status": self.status,
            "signature": self.signature,
            "results": list(self.results),
        }


@dataclass(frozen=True, slots=True)
class Spending:
    """What was asked of a model behind an API; ``usd`` is None where the prices are unknown."""

    answers: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0

    def told(self) -> str:
        cost = "cost unknown (give the model's prices)" if self.usd is None else f"{self.usd:.4f} USD"
        return f"{self.answers:,} answers, {self.tokens_in:,} tokens in, {self.tokens_out:,} out, {cost}"
