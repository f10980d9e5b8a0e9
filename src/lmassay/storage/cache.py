"""Where lmassay keeps what it has fetched or converted: models and data sets."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$LMASSAY_CACHE``, or the user's cache folder of this system."""
    configured = os.environ.get("LMASSAY_CACHE")
    if configured:
        return Path(configured).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("lmassay", appauthor=False)
