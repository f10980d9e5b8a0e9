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


@dataclass(frozen=True, slots=True)
class Policy:
    """The one policy for all requests of a model."""

    concurrency: int
    timeout: float
    tries: int
    wait: float

    def check(self) -> None:
        if self.concurrency < 1 or self.tries < 1 or not self.timeout > 0 or not self.wait >= 0:
            raise ConfigError("model: concurrency and tries must be at least 1, timeout above 0, wait at least 0")

    def pause(self, failure: Failure, tries: int) -> float | None:
        """Seconds until a request that was tried so often is tried again; None to give it up."""
        if not failure.passing or tries >= self.tries:
            return None
        backoff = min(math.ldexp(self.wait, tries - 1), _LONGEST_BACKOFF) + random.uniform(0, self.wait)
        if failure.wait is None:
            return backoff
        # Who did as the server asked and was refused again was told too short a time.
        return failure.wait if tries == 1 else max(failure.wait, backoff / 2)


def in_words(failure: Failure, tries: int) -> str:
    """The reason why a request was given up."""
    return f"{failure.told} (tried {tries} times)" if tries > 1 else failure.told
