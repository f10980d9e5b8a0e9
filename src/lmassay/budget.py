"""The budget of a command: what it may spend and what it has spent, in tokens and, if prices are known, in USD."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from lmassay.errors import BudgetNotEnforceable
from lmassay.types import Response

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a model in USD per million tokens."""

    input: float
    """Per million input tokens."""
    output: float
    """Per million generated tokens."""

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost in USD of a request with these numbers of input and generated tokens.

        >>> Prices(input=1.0, output=4.0).of(500_000, 250_000)
        1.5
        """
        return (self.input * tokens_in + self.output * tokens_out) / _MILLION


@dataclass(slots=True)
class Budget:
    """The limits that all runs of a command share, and what they have spent so far. It is safe to use from threads."""

    usd: float | None = None
    """The limit in USD; None for no limit."""
    tokens: int | None = None
    """The limit in tokens; None for no limit."""
    spent_usd: float = 0.0
    """The cost so far."""
    spent_tokens: int = 0
    """The number of input and output tokens so far."""
    answers: int = 0
    """The number of answers that used tokens."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def spend(self, response: Response, prices: Prices | None) -> None:
        """Count the tokens of a response, whether it is usable or not."""
        tokens_in = response.tokens_in or 0
        tokens_out = response.tokens_out or 0
        with self._lock:
            # A failure that used no tokens would make the average cost of an answer too low.
            if tokens_in or tokens_out:
                self.answers += 1
            self.spent_tokens += tokens_in + tokens_out
            if prices is not None:
                self.spent_usd += prices.of(tokens_in, tokens_out)

    @property
    def limited(self) -> bool:
        """Whether there is a limit in USD or in tokens."""
        return self.usd is not None or self.tokens is not None

    def allows(self, in_flight: int) -> bool:
        """Return whether another request may be sent while ``in_flight`` requests are unanswered.

        Unanswered requests, and the new one, are assumed to cost as much as the average answer so far.
        """
        with self._lock:
            # The expected cost of the unanswered requests and the new one, as a share of what was spent so far. Before
            # the first answer, nothing is known about their cost, so it is taken to be 0.
            share = (in_flight + 1) / self.answers if self.answers else 0.0
            fits_usd = _fits(self.spent_usd, self.usd, share)
            fits_tokens = _fits(self.spent_tokens, self.tokens, share)
            return fits_usd and fits_tokens

    def require_usage(self, response: Response) -> None:
        """Raise BudgetNotEnforceable if there is a limit and the response does not report its tokens."""
        if self.limited and lacks_usage(response):
            raise BudgetNotEnforceable(
                "the server does not report how many tokens it used, so the budget cannot be enforced; "
                "remove the budget from the configuration and start a new run, which reuses the answers"
            )

    def describe(self) -> str:
        """Return the limits and how much of them is spent, such as ``0.1800 of 1 USD``."""
        parts = []
        if self.usd is not None:
            parts.append(f"{self.spent_usd:.4f} of {self.usd:g} USD")
        if self.tokens is not None:
            parts.append(f"{self.spent_tokens:,} of {self.tokens:,} tokens")
        return " and ".join(parts)


def _fits(spent: float, limit: float | None, share: float) -> bool:
    """Return whether a limit leaves room for a further cost, which is given as a share of what was spent so far."""
    return limit is None or (spent < limit and spent * (1 + share) <= limit)


def lacks_usage(response: Response) -> bool:
    """Return whether a response with an answer does not report how many tokens it used."""
    return response.error is None and response.tokens_in is None and response.tokens_out is None
