"""What a command may spend, and what it has spent: tokens always, money where the prices are known."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from lmassay.errors import FatalModelError
from lmassay.types import Response

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Money for a million tokens."""

    input: float
    output: float

    def of(self, tokens_in: int, tokens_out: int) -> float:
        return (self.input * tokens_in + self.output * tokens_out) / _MILLION


@dataclass(slots=True)
class Budget:
    """Limits for all runs of a command; none given means no limit. Safe to share between threads."""

    usd: float | None = None
    tokens: int | None = None
    spent_usd: float = 0.0
    spent_tokens: int = 0
    answers: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def spend(self, response: Response, prices: Prices | None) -> None:
        """Count an answer, be it a good one or not; a failure that took no tokens says nothing of what others cost."""
        tokens_in, tokens_out = response.tokens_in or 0, response.tokens_out or 0
        with self._lock:
            self.answers += 1 if tokens_in or tokens_out else 0
            self.spent_tokens += tokens_in + tokens_out
            self.spent_usd += prices.of(tokens_in, tokens_out) if prices else 0.0

    @property
    def limited(self) -> bool:
        return self.usd is not None or self.tokens is not None

    def allows(self, in_flight: int) -> bool:
        """Whether one more question may go out while some are unanswered; these are taken to cost as much as usual."""
        with self._lock:
            share = (in_flight + 1) / self.answers if self.answers else 0.0
            return _fits(self.spent_usd, self.usd, share) and _fits(self.spent_tokens, self.tokens, share)

    def require_usage(self, response: Response) -> None:
        """Raise if there is a limit and an answer does not say how many tokens it took."""
        if self.limited and lacks_usage(response):
            raise FatalModelError(
                "the server does not say how many tokens it took, so the budget cannot be kept; leave the budget out"
            )

    def describe(self) -> str:
        """Which limit there is and how much of it is gone."""
        parts = []
        if self.usd is not None:
            parts.append(f"{self.spent_usd:.4f} of {self.usd:g} USD")
        if self.tokens is not None:
            parts.append(f"{self.spent_tokens:,} of {self.tokens:,} tokens")
        return " and ".join(parts)


def _fits(spent: float, limit: float | None, share: float) -> bool:
    return limit is None or (spent < limit and spent * (1 + share) <= limit)


def lacks_usage(response: Response) -> bool:
    """True for an answer that does not say how many tokens it took."""
    return response.error is None and response.tokens_in is None and response.tokens_out is None
