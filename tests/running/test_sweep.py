"""The runs of one command share their trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmassay.contracts import Task
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
