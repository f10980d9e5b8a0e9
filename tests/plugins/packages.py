"""Packages with an evaluation, written to a folder as pip would install them."""

from __future__ import annotations

import textwrap
from pathlib import Path

from lmassay.contracts import Evaluation
from lmassay.plugins.evaluations import evaluations

# A task that needs no model's knowledge: every answer scores 1.
TASK = """
from lmassay import Design, Example, Generate, Score, Task

class Polite(Task):
    name = "{task}"
    needs = frozenset({{"generate"}})
    evaluation = evaluation
    design = Design(headline=("polite",))

    def examples(self):
        for number in range(4):
            yield Example(str(number), {{"prompt": f"hello {{number}}"}})

    def requests(self, example):
        return [Generate(example.inputs["prompt"])]

    def score(self, examples, responses):
        return [Score({{"polite": 1.0, "slurs": 0.25}}) for _ in examples]
"""
IMPORTS = """
from pathlib import Path
from lmassay.contracts import CardVariant, Command, Evaluation, Finding, PublishedCard, Sample, TaskEntry
from lmassay.types import Metric
"""


def write_package(folder: Path, name: str, code: str) -> Path:
    """A package whose module holds ``code``, which defines ``evaluation``. Returns the folder for the search path."""
    module = name.replace("-", "_")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(IMPORTS + textwrap.dedent(code), encoding="utf-8")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[lmassay.evaluations]\n{module} = {module}:evaluation\n", encoding="utf-8")
    return folder


def politeness(module: str, members: str = "", *, name: str = "politeness", task: str = "polite") -> str:
    """The code of an evaluation that works; ``members`` are added to its declaration."""
    declaration = f"""
evaluation = Evaluation(
    name="{name}",
    question="Is it polite?",
    tasks={{"{task}": TaskEntry(path="{module}:Polite", summary="is it polite?")}},
    metrics=(Metric("polite", bounds=(0, 1)), Metric("slurs", better="lower", bounds=(0, 5))),
    {members}
)
"""
    return declaration + TASK.format(task=task)


def evaluation_called(name: str) -> Evaluation:
    return next(evaluation for evaluation in evaluations() if evaluation.name == name)
