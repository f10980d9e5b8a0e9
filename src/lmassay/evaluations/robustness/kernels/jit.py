"""numba's compiler, set up once for all kernels. Import this only after numba was chosen.

Compiled code is kept next to the source or in the user's cache folder. numba looks for changes only in the file of the
kernel itself, not in those of the functions that it calls: after editing :mod:`.ngrams_numba`, touch its callers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

# A 64-bit unsigned number in compiled code. numpy's type for it does not mix with int, and numba infers it anyway.
Unsigned: TypeAlias = Any

# nogil: without the interpreter's lock, threads run in parallel. error_model: a division by zero gives inf or NaN as in
# numpy and raises no error, so it needs no check.
_OPTIONS = {"nogil": True, "error_model": "numpy"}


def part(function: Function) -> Function:
    """Compile a function that kernels call."""
    compiled: Function = njit(**_OPTIONS)(function)
    return compiled


def kernel(function: Function) -> Function:
    """Compile a function that Python calls, and keep the result on disk with all parts in it."""
    try:
        compiled: Function = njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        # There is no folder to write to, so it is compiled again in each process.
        return part(function)
    return compiled
