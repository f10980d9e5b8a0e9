"""What the conditions of skipped tests refer to."""

from __future__ import annotations

from typing import Any


def pytest_markeval_namespace() -> dict[str, Any]:
    from lmassay.evaluations.robustness.kernels import backend

    return {"numba_is_usable": backend.numba_is_usable}
