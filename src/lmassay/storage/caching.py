"""Which answers are remembered."""

from __future__ import annotations

from lmassay.types import Request, Response, Slot

MOST_CACHED_CANDIDATES = 64


def keeps(response: Response) -> bool:
    """Only answers are remembered; an error, a refusal or an empty answer may be different the next time."""
    return response.usable and response.finish in ("stop", "length")


def fits_cache(request: Request) -> bool:
    """Hundreds of words a blank would fill a disk with answers that a local model gives again in milliseconds; what
    was made of them is in the rows."""
    return not isinstance(request, Slot) or len(request.candidates) <= MOST_CACHED_CANDIDATES
