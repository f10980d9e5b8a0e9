"""The Python interface: the same runs, results folders and comparisons as on the command line.

:mod:`~lmassay.api.evaluation` starts runs, :mod:`~lmassay.api.runs` reads and shows them, and
:mod:`~lmassay.api.comparisons` compares them.
"""

from lmassay.api.comparisons import Comparisons, compare
from lmassay.api.evaluation import evaluate
from lmassay.api.figures import RunFigure
from lmassay.api.plugins import ModelOptions, TaskOptions, model, task
from lmassay.api.runs import (
    Results,
    Run,
    RunExample,
    RunExamples,
    Runs,
    all_runs,
    load,
    load_run,
    results_frame,
)

__all__ = [
    "Comparisons",
    "ModelOptions",
    "Results",
    "Run",
    "RunExample",
    "RunExamples",
    "RunFigure",
    "Runs",
    "TaskOptions",
    "all_runs",
    "compare",
    "evaluate",
    "load",
    "load_run",
    "model",
    "results_frame",
    "task",
]
