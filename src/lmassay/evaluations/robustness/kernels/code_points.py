"""A batch of strings as one array of code points."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]

# Native byte order, so that the bytes need no swap; a lone surrogate is encoded like any other code point.
_ENCODING = f"utf-32-{sys.byteorder[0]}e"
_LAST_WHITESPACE = 0x3000


class JoinedTexts(NamedTuple):
    """Text ``i`` is ``codes[starts[i]:starts[i] + its length]``; ``starts`` has one entry more than there are texts."""

    codes: Codes
    starts: Ints


def lengths(texts: Sequence[str]) -> Ints:
    """How many code points each text has."""
    return np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))


def join(texts: Sequence[str], gap: str = "") -> JoinedTexts:
    """All texts one after the other, each followed by ``gap``.

    >>> join(["ab", "", "c"]).codes.tolist(), join(["ab", "", "c"]).starts.tolist()
    ([97, 98, 99], [0, 2, 2, 3])
    """
    starts = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(lengths(texts) + len(gap), out=starts[1:])
    data = (gap.join(texts) + gap if texts else "").encode(_ENCODING, "surrogatepass")
    return JoinedTexts(np.frombuffer(data, dtype=np.uint32), starts)


@cache
def whitespace() -> npt.NDArray[np.uint8]:
    """1 at each code point that ``str.split()`` splits at; there are none beyond the end of the table."""
    table = np.array([chr(code).isspace() for code in range(_LAST_WHITESPACE + 1)], dtype=np.uint8)
    table.flags.writeable = False  # shared by all threads
    return table
