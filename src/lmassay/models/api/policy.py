"""How requests are sent: how many at once, how long one may take, how often it is tried. The SDKs' retries are off."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from lmassay.errors import ConfigError
from lmassay.models.api.failures import Failure

_LONGEST_BACKOFF = 60.0
# A server that answers nobody is not asked thousands of questions, each several times.
MOST_FAILURES_IN_A_ROW = 50
# Limits are counted by the minute: who is told to come later is not given up before more than one has passed, however
# often it came, but in any case after the longer time.
BUSY_PATIENCE = 90.0
LONGEST_BUSY_PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Policy:
    """The one policy for all requests of a model."""

    concurrency: int
    timeout: float
    tries: int
    wait: float

    def check(self) -> None:
        finite = math.isfinite(self.timeout) and math.isfinite(self.wait)
        if self.concurrency < 1 or self.tries < 1 or not finite or self.timeout <= 0 or self.wait < 0:
            told = "concurrency and tries must be at least 1, timeout above 0, wait at least 0, and all of them finite"
            raise ConfigError(f"model: {told}")

    def pause(self, failure: Failure, tries: int, *, uncounted: int = 0, busy_for: float | None = None) -> float | None:
        """Seconds until a request that was tried so often is tried again; None to give it up.

        ``uncounted`` tries are no reason to give up; ``busy_for`` is the time since the server was first too busy.
        """
        enough = tries - uncounted >= self.tries
        if failure.busy and busy_for is not None:
            enough = busy_for >= LONGEST_BUSY_PATIENCE or (enough and busy_for >= BUSY_PATIENCE)
        if enough or not failure.passing:
            return None
        backoff = min(self.wait * 2.0 ** min(tries - 1, 30), _LONGEST_BACKOFF) + random.uniform(0, self.wait)
        if failure.wait is None:
            return backoff
        # Who did as the server asked and was refused again was told too short a time.
        return failure.wait if tries == 1 else max(failure.wait, backoff / 2)


def in_words(failure: Failure, tries: int) -> str:
    """The reason why a request was given up."""
    return f"{failure.told} (tried {tries} times)" if tries > 1 else failure.told
