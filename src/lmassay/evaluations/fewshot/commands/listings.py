"""``lmassay methods``"""

from __future__ import annotations

from lmassay.cli.components import listing

methods = listing("method")
