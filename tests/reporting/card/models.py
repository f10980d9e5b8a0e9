"""Fast, deterministic models with different abilities."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from lmassay.errors import FatalModelError
from lmassay.types import Candidates, Continuation, Generate, LogProbs, Response, Slot


def share(*texts: str) -> float:
    """A number between 0 and 1 that the texts decide."""
    return int.from_bytes(hashlib.sha256("|".join(texts).encode()).digest()[:4]) / 2**32


class Talker:
    """Writes text and keeps to choices."""

    name = "talker"
    can = frozenset({"generate", "choices"})

    def __init__(self, label: str = "talker", seed: int = 0) -> None:
        self.label, self.seed = label, seed

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, "seed": self.seed}

    def generate(self, requests: Sequence[Generate]) -> list[Response]:
        return [Response(self._answer(request)) for request in requests]

    def _answer(self, request: Generate) -> str:
        text = request.prompt or str(request.messages)
        if request.choices:
            return max(request.choices, key=lambda choice: share(str(self.seed), text, choice))
        # The last word of the sentence that is asked about: letters out of order change the answer.
        return text.rsplit("Sentence: ", 1)[-1].split("\n")[0].split()[-1]


class Knower(Talker):
    """Ranks words and gives log-probabilities as well."""

    name = "knower"
    can = frozenset({"generate", "choices", "logprobs", "slot"})
    sees_right = False

    def logprobs(self, requests: Sequence[LogProbs]) -> list[Response]:
        values = [-1 - 5 * share(str(self.seed), r.context, str(r.messages), r.continuation) for r in requests]
        return [Response(Continuation(value, (value,))) for value in values]

    def slot(self, requests: Sequence[Slot]) -> list[Response]:
        return [Response(self._candidates(request)) for request in requests]

    def _candidates(self, request: Slot) -> Candidates:
        values = [-1 - 5 * share(str(self.seed), request.left, word) for word in request.candidates]
        order = sorted(range(len(values)), key=lambda place: -values[place])
        ranks = [0.0] * len(values)
        for rank, place in enumerate(order):
            ranks[place] = float(rank)
        above = [rank / len(values) for rank in ranks]
        below = [1 - rank / len(values) for rank in ranks]
        return Candidates(values, ranks, above, below)


class Ranker:
    """Gives log-probabilities and nothing else."""

    name = "ranker"
    can = frozenset({"logprobs"})
    logprobs = Knower.logprobs
    seed = 0

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name}


class Mute:
    """Can do nothing that a card asks for."""

    name = "mute"
    can: frozenset[str] = frozenset()

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name}


class Stumbler(Talker):
    """Completes sentences, but fails on whatever has choices."""

    name = "stumbler"

    def __init__(self) -> None:
        super().__init__("stumbler")

    def generate(self, requests: Sequence[Generate]) -> list[Response]:
        return [Response(error="HTTP 500") if r.choices else Response(self._answer(r)) for r in requests]


class Mortal(Talker):
    """Dies for good after the first attack."""

    name = "mortal"
    asked = 0

    def __init__(self) -> None:
        super().__init__("mortal")

    def generate(self, requests: Sequence[Generate]) -> list[Response]:
        Mortal.asked += len(requests)
        if Mortal.asked > 80:
            raise FatalModelError("the server is gone")
        return super().generate(requests)


class NarrowTalker(Talker):
    """Cannot read any prompt: its window is too small."""

    name = "narrow"

    def __init__(self) -> None:
        super().__init__("narrow")

    def generate(self, requests: Sequence[Generate]) -> list[Response]:
        return [Response(finish="too_long") for _ in requests]
