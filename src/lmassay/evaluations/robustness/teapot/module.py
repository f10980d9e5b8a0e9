"""Provide the module ``teapot`` for scorers that were written for TEAPOT: its names stand for lmassay's classes."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmassay.evaluations.robustness import criterion
from lmassay.evaluations.robustness.scorers import base
from lmassay.plugins.registry import current_registry

# TEAPOT's class names → lmassay's scorers, and the keys of scorers on TEAPOT's command line.
_CLASSES = {"ZeroOne": "zero_one", "BLEU": "bleu", "ChrF": "chrf", "METEOR": "meteor"}
_KEYS = ("zero_one", "exact_match", "bleu", "chrf", "meteor")


def install() -> None:
    """Make ``import teapot`` work in this process, unless TEAPOT was imported already.

    An installed TEAPOT is ignored on purpose: its scorer classes are not those that lmassay runs.
    """
    if "teapot" in sys.modules:
        return
    names: dict[str, Any] = {
        "Scorer": base.Scorer,
        "register_scorer": base.register_scorer,
        **{name: current_registry().get("scorer", key) for name, key in _CLASSES.items()},
    }
    # The version of TEAPOT whose interface this is. An empty __path__ makes it a package.
    package = _module("teapot", {**names, "__version__": "0.2.2", "__all__": list(names), "__path__": []})
    scorers = _module(
        "teapot.scorers", {**names, "scorers": {key: current_registry().get("scorer", key) for key in _KEYS}}
    )
    tools = (relative_decrease, check_tokenization, loadtxt, savetxt)
    utils = _module("teapot.utils", {tool.__name__: tool for tool in tools})
    vars(package).update(scorers=scorers, utils=utils)
    sys.modules |= {"teapot": package, "teapot.scorers": scorers, "teapot.utils": utils}


def relative_decrease(base_score: float, score: float) -> float:
    """d_tgt of one sentence: max(0, base - score) / base, and 0 if the base is 0."""
    return float(criterion.relative_decrease(np.asarray(float(base_score)), np.asarray(float(score))))


def check_tokenization(sentences: Sequence[str]) -> None:
    """Do nothing: ``lmassay teapot`` itself warns about tokenized text."""


def loadtxt(filename: str) -> list[str]:
    """The lines of a text file without trailing white space."""
    with Path(filename).open(encoding="utf-8") as stream:
        return [line.rstrip() for line in stream]


def savetxt(filename: str, sentences: Sequence[str]) -> None:
    """Write sentences, one per line."""
    Path(filename).write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")


def _module(name: str, members: dict[str, Any]) -> types.ModuleType:
    module = types.ModuleType(name, "TEAPOT's interface, provided by lmassay.")
    vars(module).update(members)
    return module
