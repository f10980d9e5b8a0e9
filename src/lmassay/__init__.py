"""lmassay evaluates language models and NLP systems: robustness, syntax, bias and few-shot learning.

>>> import lmassay
>>> lmassay.ChrF().score(["the cat sat"], ["the cat sat"])
[1.0]
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from lmassay.moved import MovedModules

__version__ = "0.2.0"

if TYPE_CHECKING:
    from lmassay.api import (
        Comparisons,
        ModelOptions,
        Results,
        Run,
        RunExample,
        RunExamples,
        RunFigure,
        Runs,
        TaskOptions,
        all_runs,
        compare,
        evaluate,
        load,
        load_run,
        model,
        results_frame,
        task,
    )
    from lmassay.budget import Prices
    from lmassay.contracts import Command, Evaluation, Model, StoredAnswers, Task, TaskEntry
    from lmassay.errors import LmassayError, UserError
    from lmassay.evaluations.robustness.perturbations.base import perturbation
    from lmassay.evaluations.robustness.scorers.base import Scorer, register_scorer, scorer
    from lmassay.evaluations.robustness.scorers.bleu import BLEU
    from lmassay.evaluations.robustness.scorers.chrf import ChrF
    from lmassay.evaluations.robustness.scorers.exact import ZeroOne
    from lmassay.evaluations.robustness.scorers.meteor import METEOR
    from lmassay.evaluations.robustness.scorers.semantic import Semantic
    from lmassay.models.functions import FunctionModel
    from lmassay.plugins.data_options import InMemory
    from lmassay.plugins.registry import register
    from lmassay.running.word_surprisal import surprisal
    from lmassay.statistics.intervals import mean_result, mean_results
    from lmassay.statistics.table import ScoreTable
    from lmassay.storage.files import data_file
    from lmassay.storage.in_memory import Rows, rows
    from lmassay.types import (
        Candidates,
        Combination,
        Continuation,
        Design,
        Example,
        Generate,
        LogProbs,
        Metric,
        Outcome,
        Response,
        Result,
        RowBatch,
        Score,
        Settings,
        Slot,
    )

# Public name → its module, which is imported when the name is first used, so that `import lmassay` is fast.
_MODULES = {
    "BLEU": "lmassay.evaluations.robustness.scorers.bleu",
    "Candidates": "lmassay.types",
    "ChrF": "lmassay.evaluations.robustness.scorers.chrf",
    "Combination": "lmassay.types",
    "Command": "lmassay.contracts",
    "Comparisons": "lmassay.api",
    "Continuation": "lmassay.types",
    "Design": "lmassay.types",
    "Evaluation": "lmassay.contracts",
    "Example": "lmassay.types",
    "FunctionModel": "lmassay.models.functions",
    "Generate": "lmassay.types",
    "InMemory": "lmassay.plugins.data_options",
    "LmassayError": "lmassay.errors",
    "LogProbs": "lmassay.types",
    "METEOR": "lmassay.evaluations.robustness.scorers.meteor",
    "Metric": "lmassay.types",
    "Model": "lmassay.contracts",
    "ModelOptions": "lmassay.api",
    "Outcome": "lmassay.types",
    "Prices": "lmassay.budget",
    "Response": "lmassay.types",
    "Result": "lmassay.types",
    "Results": "lmassay.api",
    "RowBatch": "lmassay.types",
    "Rows": "lmassay.storage.in_memory",
    "Run": "lmassay.api",
    "RunExample": "lmassay.api",
    "RunExamples": "lmassay.api",
    "RunFigure": "lmassay.api",
    "Runs": "lmassay.api",
    "Score": "lmassay.types",
    "ScoreTable": "lmassay.statistics.table",
    "Scorer": "lmassay.evaluations.robustness.scorers.base",
    "Semantic": "lmassay.evaluations.robustness.scorers.semantic",
    "Settings": "lmassay.types",
    "Slot": "lmassay.types",
    "StoredAnswers": "lmassay.contracts",
    "Task": "lmassay.contracts",
    "TaskEntry": "lmassay.contracts",
    "TaskOptions": "lmassay.api",
    "UserError": "lmassay.errors",
    "ZeroOne": "lmassay.evaluations.robustness.scorers.exact",
    "all_runs": "lmassay.api",
    "compare": "lmassay.api",
    "data_file": "lmassay.storage.files",
    "evaluate": "lmassay.api",
    "load": "lmassay.api",
    "load_run": "lmassay.api",
    "mean_result": "lmassay.statistics.intervals",
    "mean_results": "lmassay.statistics.intervals",
    "model": "lmassay.api",
    "perturbation": "lmassay.evaluations.robustness.perturbations.base",
    "register": "lmassay.plugins.registry",
    "register_scorer": "lmassay.evaluations.robustness.scorers.base",
    "results_frame": "lmassay.api",
    "rows": "lmassay.storage.in_memory",
    "scorer": "lmassay.evaluations.robustness.scorers.base",
    "surprisal": "lmassay.running.word_surprisal",
    "task": "lmassay.api",
}

__all__ = [
    "BLEU",
    "METEOR",
    "Candidates",
    "ChrF",
    "Combination",
    "Command",
    "Comparisons",
    "Continuation",
    "Design",
    "Evaluation",
    "Example",
    "FunctionModel",
    "Generate",
    "InMemory",
    "LmassayError",
    "LogProbs",
    "Metric",
    "Model",
    "ModelOptions",
    "Outcome",
    "Prices",
    "Response",
    "Result",
    "Results",
    "RowBatch",
    "Rows",
    "Run",
    "RunExample",
    "RunExamples",
    "RunFigure",
    "Runs",
    "Score",
    "ScoreTable",
    "Scorer",
    "Semantic",
    "Settings",
    "Slot",
    "StoredAnswers",
    "Task",
    "TaskEntry",
    "TaskOptions",
    "UserError",
    "ZeroOne",
    "all_runs",
    "compare",
    "data_file",
    "evaluate",
    "load",
    "load_run",
    "mean_result",
    "mean_results",
    "model",
    "perturbation",
    "register",
    "register_scorer",
    "results_frame",
    "rows",
    "scorer",
    "surprisal",
    "task",
]


# Import paths of earlier versions keep working.
if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
    sys.meta_path.append(MovedModules())


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'lmassay' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
