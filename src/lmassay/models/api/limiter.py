"""How many requests may be out at a time: fewer when the server says that it is too much, more when it answers."""

from __future__ import annotations

import math

_FIRST_LIMIT = 4
# So many answers make up for one refusal: where fewer than one request in twenty is refused, the limit rises.
_ANSWERS_FOR_ONE_MORE = 19
_FORGIVEN = 2.0


class Limiter:
    """A limit that adapts, as congestion control does. It knows no clock: the time is told.

    Each refusal says "one too many" and lowers the limit by one; answers raise it again slowly, but quickly up to half
    of what it was before. One refusal now and then thus changes nothing, a server that takes three at a time is soon
    asked three at a time. When as many refusals come in a row as requests may be out, the server refuses everybody:
    nothing is sent until the latest time that it asked for, and then one request alone, to see.
    """

    def __init__(self, concurrency: int) -> None:
        self._most = concurrency
        # May be more than the concurrency: after a long time of peace, the first refusals are forgiven.
        self._limit = float(min(concurrency, _FIRST_LIMIT))
        self._known_good = float(concurrency)
        self._in_flight = 0
        self._sent = 0
        self._lowered_at = 0
        self._refused_in_a_row = 0
        self._asked_to_wait = -math.inf
        self._held_until = -math.inf
        self._trying = False

    @property
    def limit(self) -> int:
        return 1 if self._trying else min(self._most, int(self._limit))

    @property
    def trying(self) -> bool:
        """Everybody was refused; one request goes alone, to see."""
        return self._trying

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def wait(self, now: float) -> float:
        """Seconds until a request may go out: 0 for at once, infinity for when another one has come back."""
        if self._in_flight >= self.limit:
            return math.inf
        return max(0.0, self._held_until - now)

    def sent(self) -> int:
        """A request goes out; the ticket is to be given back if it is refused."""
        self._in_flight += 1
        self._sent += 1
        return self._sent

    def answered(self) -> None:
        self._in_flight -= 1
        self._refused_in_a_row = 0
        self._asked_to_wait = -math.inf
        self._trying = False
        step = 1.0 if self._limit < self._known_good else 1 / _ANSWERS_FOR_ONE_MORE
        self._limit = min(self._most + _FORGIVEN, self._limit + step)

    def failed(self) -> None:
        """A request came to nothing for a reason that has nothing to do with how many are out."""
        self._in_flight -= 1

    def refused(self, ticket: int, now: float, wait: float) -> None:
        """The server said that it is too much, and that this request should come again after ``wait`` seconds."""
        self._refused_in_a_row += 1
        self._asked_to_wait = max(self._asked_to_wait, now + wait)
        if self._refused_in_a_row >= self.limit:
            self._held_until = max(self._held_until, self._asked_to_wait)
            self._trying = True
        self._in_flight -= 1
        if ticket > self._lowered_at:
            # The first refusal among the requests that are out now; the others speak of the same moment.
            self._known_good = self._limit / 2
            self._lowered_at = self._sent
        self._limit = max(1.0, self._limit - 1)
