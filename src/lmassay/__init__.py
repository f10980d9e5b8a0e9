"""lmassay puts language models and NLP systems to the test.

>>> import lmassay
>>> lmassay.ChrF().score(["the cat sat"], ["the cat sat"])
[1.0]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lmassay.api import Run, all_runs, compare, evaluate, load_run, results_frame
    from lmassay.contracts import Model, Task
    from lmassay.errors import LmassayError, UserError
    from lmassay.evaluations.robustness.perturbations.base import perturbation
    from lmassay.evaluations.robustness.scorers.base import Scorer, register_scorer, scorer
    from lmassay.evaluations.robustness.scorers.bleu import BLEU
    from lmassay.evaluations.robustness.scorers.chrf import ChrF
    from lmassay.evaluations.robustness.scorers.exact import ZeroOne
    from lmassay.evaluations.robustness.scorers.meteor import METEOR
    from lmassay.evaluations.robustness.scorers.semantic import Semantic
    from lmassay.plugins.registry import register
    from lmassay.types import Candidates, Continuation, Example, Generate, LogProbs, Response, Result, Score, Slot

# Where each public name lives; imported when first used, so that `import lmassay` costs next to nothing.
_HOMES = {
    "BLEU": "lmassay.evaluations.robustness.scorers.bleu",
    "Candidates": "lmassay.types",
    "ChrF": "lmassay.evaluations.robustness.scorers.chrf",
    "Continuation": "lmassay.types",
    "Example": "lmassay.types",
    "Generate": "lmassay.types",
    "LmassayError": "lmassay.errors",
    "LogProbs": "lmassay.types",
    "METEOR": "lmassay.evaluations.robustness.scorers.meteor",
    "Model": "lmassay.contracts",
    "Response": "lmassay.types",
    "Result": "lmassay.types",
    "Run": "lmassay.api",
    "Score": "lmassay.types",
    "Scorer": "lmassay.evaluations.robustness.scorers.base",
    "Semantic": "lmassay.evaluations.robustness.scorers.semantic",
    "Slot": "lmassay.types",
    "Task": "lmassay.contracts",
    "UserError": "lmassay.errors",
    "ZeroOne": "lmassay.evaluations.robustness.scorers.exact",
    "all_runs": "lmassay.api",
    "compare": "lmassay.api",
    "evaluate": "lmassay.api",
    "load_run": "lmassay.api",
    "perturbation": "lmassay.evaluations.robustness.perturbations.base",
    "register": "lmassay.plugins.registry",
    "register_scorer": "lmassay.evaluations.robustness.scorers.base",
    "results_frame": "lmassay.api",
    "scorer": "lmassay.evaluations.robustness.scorers.base",
}

__all__ = [
    "BLEU",
    "METEOR",
    "Candidates",
    "ChrF",
    "Continuation",
    "Example",
    "Generate",
    "LmassayError",
    "LogProbs",
    "Model",
    "Response",
    "Result",
    "Run",
    "Score",
    "Scorer",
    "Semantic",
    "Slot",
    "Task",
    "UserError",
    "ZeroOne",
    "all_runs",
    "compare",
    "evaluate",
    "load_run",
    "perturbation",
    "register",
    "register_scorer",
    "results_frame",
    "scorer",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lmassay' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
