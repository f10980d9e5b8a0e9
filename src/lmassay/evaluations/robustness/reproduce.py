"""The numbers that TEAPOT's README prints for its example of an attack on a translation system."""

from __future__ import annotations

import re

from lmassay.contracts import ReproducedFigure
from lmassay.datasets.catalogue import select
from lmassay.errors import DataError
from lmassay.evaluations.robustness.teapot.program import run

# https://github.com/pmichel31415/teapot-nlp, README, "Basic Usage (sequence-to-sequence)"
_PUBLISHED = (
    ("source preservation (chrF), mean", "86.908"),
    ("source preservation (chrF), standard deviation", "11.622"),
    ("source preservation (chrF), 5th percentile", "64.109"),
    ("source preservation (chrF), 95th percentile", "97.683"),
    ("target degradation (chrF), mean", "21.085"),
    ("target degradation (chrF), standard deviation", "22.106"),
    ("target degradation (chrF), 5th percentile", "0.000"),
    ("target degradation (chrF), 95th percentile", "67.162"),
    ("successful attacks, %", "65.20"),
)
# The numbers after a label. They are matched with their label, because headings and "5%-95%" contain other digits.
_RESULT = re.compile(r"^(?:Mean:|Std:|5%-95%:|Success percentage:)\s*([\d.]+)(?:-([\d.]+))?", re.MULTILINE)


def teapot() -> list[ReproducedFigure]:
    """The README's numbers, in its order."""
    selection = select("teapot/MT")
    if selection is None:
        raise DataError("the data set teapot is not in the catalogue")
    files = {path.name: str(path) for path in selection.paths}
    printed = run(
        [
            *("--src", files["src.fr"], "--adv-src", files["adv.charswap.fr"]),
            *("--out", files["base.en"], "--adv-out", files["adv.charswap.en"]),
            *("--ref", files["ref.en"]),
        ]
    ).text
    computed: list[str] = []
    for match in _RESULT.finditer(printed):
        computed.extend(number for number in match.groups() if number is not None)
    figures: list[ReproducedFigure] = []
    for (name, published), number in zip(_PUBLISHED, computed, strict=True):
        figures.append(ReproducedFigure(name, published, number))
    return figures
