"""The runs of one command share their trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from lmassay.contracts import Task
from lmassay.errors import ModelError
from lmassay.plugins.registry import Registry, current_registry
from lmassay.running.config import RunConfig
from lmassay.running.executors import InProcessExecutor
from lmassay.running.planning import plan
from lmassay.running.sweep import prefetch_trainings, record_runs
from lmassay.storage import progress
from lmassay.storage.progress import RunProgress, recorded_progress, trainings_of
from lmassay.storage.store import Store
from lmassay.types import Example, Request, Response, Score, Train


class Lessons(Task):
    """Two trainings of a toy."""

    name = "lessons"
    needs: frozenset[str] = frozenset()
    trains = True

    def __init__(self, first: str = "one") -> None:
        self.first = first

    def examples(self) -> Iterator[Example]:
        for lesson in (self.first, "shared"):
            yield Example(lesson, {"lesson": lesson})

    def requests(self, example: Example) -> list[Request]:
        return [Train("toy", {"name": example.inputs["lesson"]})]

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        return [Score({"learned": 1.0}) for _ in examples]


class Continued(Lessons):
    """One training that continues the shared one."""

    def examples(self) -> Iterator[Example]:
        yield Example(self.first, {"lesson": self.first})

    def requests(self, example: Example) -> list[Request]:
        earlier = Train("toy", {"name": "shared"})
        return [Train("toy", {"name": example.inputs["lesson"]}, after=(earlier,))]


def teach(model: Any, spec: Mapping[str, Any], **_: Any) -> dict[str, Any]:
    return {"name": spec["name"]}


def test_whoever_watches_the_runs_sees_how_far_their_trainings_are(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_WRITES", 0.0)
    with Registry(current_registry()).active() as registry, Store(tmp_path, create=True) as store:
        registry.add("trainer", "toy", teach)
        registry.add("task", "lessons", Lessons)
        plans = [plan(RunConfig(task={"name": "lessons", "first": first})) for first in ("one", "two")]
        runs = record_runs(plans, store, "a sweep")
        watched: list[RunProgress | None] = []

        def watch(done: float, total: int | None) -> None:
            watched.append(recorded_progress(tmp_path, trainings_of("a sweep")))

        prefetched = prefetch_trainings(runs, store, InProcessExecutor(), watch)
        statuses = [record.status for record in store.runs()]
    # The training that both runs need is done once.
    assert prefetched.done == 3
    assert [(seen.done, seen.total) for seen in watched if seen is not None] == [(1, 3), (2, 3), (3, 3)]
    assert statuses == ["done", "done"]
    assert not (tmp_path / ".progress").exists()


@pytest.mark.parametrize("other", [Lessons, Continued])
def test_a_training_that_failed_is_not_repeated_for_another_run(tmp_path, other):
    trained: list[str] = []

    def teach_all_but_the_shared_one(model: Any, spec: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        trained.append(spec["name"])
        if spec["name"] == "shared":
            raise ModelError("the loss is not finite")
        return {"name": spec["name"]}

    with Registry(current_registry()).active() as registry, Store(tmp_path, create=True) as store:
        registry.add("trainer", "toy", teach_all_but_the_shared_one)
        registry.add("task", "lessons", Lessons)
        registry.add("task", "other", other)
        names = ("other", "lessons")
        plans = [plan(RunConfig(task={"name": name, "first": f"first of {name}"})) for name in names]
        runs = record_runs(plans, store, "a sweep")
        # The command ends before it comes to the other run, which has no record of the failure.
        prefetch_trainings(runs[1:], store, InProcessExecutor())
        prefetch_trainings(runs, store, InProcessExecutor(), retry_failed=False)
        errors = [row.error for row in store.rows(runs[0].record.id) if row.error is not None]
    assert trained.count("shared") == 1
    assert len(errors) == 1
    assert "the loss is not finite" in errors[0]
