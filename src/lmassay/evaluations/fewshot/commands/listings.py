"""``lmassay methods``"""

from __future__ import annotations

from lmassay.cli.listings import listing

methods = listing("method")
