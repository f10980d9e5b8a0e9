"""``lmassay scorers``, ``lmassay perturbations``"""

from __future__ import annotations

from lmassay.cli.components import listing

scorers = listing("scorer")
perturbations = listing("perturbation")
