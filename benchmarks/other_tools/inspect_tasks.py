"""Tasks for inspect_ai that need no data from elsewhere: see docs/comparison.md."""

from __future__ import annotations

from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, Sample, json_dataset
from inspect_ai.scorer import accuracy, ci, match, stderr
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash

_QUESTIONS = str(Path(__file__).with_name("questions.jsonl"))


@task  # type: ignore[untyped-decorator]
def questions() -> Task:
    """Ask to repeat a number; the metrics are accuracy, its standard error and its interval."""
    data = json_dataset(_QUESTIONS, FieldSpec(input="question", target="answer"))
    return Task(dataset=data, solver=generate(), scorer=match(), metrics=[accuracy(), stderr(), ci()])


@task  # type: ignore[untyped-decorator]
def agent() -> Task:
    """Let the model use a shell, here that of this machine."""
    data = [Sample(input="What is 6 times 7?", target="42")]
    return Task(dataset=data, solver=[use_tools([bash()]), generate()], scorer=match(), sandbox="local")
