"""The loop: each question asked once, answers kept at once, errors apart from scores, resumable anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lmassay import runner
from lmassay.config import RunConfig
from lmassay.contracts import ask
from lmassay.errors import ConfigError, DataError, PluginError, StoreError
from lmassay.registry import Registry, current
from lmassay.stats import mean_results
from lmassay.store import Store
from lmassay.types import Example, Generate, Place, Response, Score


class Lengths:
    """A task in a dozen lines: how long is the answer?"""

    name = "lengths"
    version = 1
    needs = frozenset({"generate"})
    chunk = 4

    def __init__(self, words: list[str] = ["a", "bb", "a", "ccc", "dd", "e"], temperature: float = 0.0) -> None:  # noqa: B006
        self.words, self.temperature = words, temperature

    def examples(self) -> Iterator[Example]:
        for number, word in enumerate(self.words):
            yield Example(str(number), {"word": word}, groups={"size": str(len(word))})

    def requests(self, example: Example) -> list[Generate]:
        return [Generate(example.inputs["word"], temperature=self.temperature)]

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        return [Score({"length": float(len(r[0].text))}) for r in responses]

    def aggregate(self, table, settings):
        return mean_results(table, ["length"], settings)

    def signature(self) -> Mapping[str, Any]:
        return {"words": len(self.words)}


class Counting:
    """A model that remembers what it was asked, and fails or refuses where told."""

    name = "counting"
    can = frozenset({"generate"})
    asked: list[str] = []
    fail: set[str] = set()
    refuse: set[str] = set()
    stop_after: int | None = None

    def __init__(self, revision: str = "1") -> None:
        self.revision = revision

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, "revision": self.revision}

    def generate(self, requests: Sequence[Generate]) -> Iterator[tuple[int, Response]]:
        for place, request in reversed(list(enumerate(requests))):
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
            self.asked.append(request.prompt)
            if request.prompt in self.fail:
                yield place, Response(error="HTTP 500")
            elif request.prompt in self.refuse:
                yield place, Response(finish="refusal")
            else:
                yield place, Response(request.prompt * 2)


@pytest.fixture
def model():
    Counting.asked, Counting.fail, Counting.refuse, Counting.stop_after = [], set(), set(), None
    return Counting


@pytest.fixture(autouse=True)
def registry(model):
    child = Registry(current())
    child.add("task", "lengths", Lengths)
    child.add("model", "counting", model)
    with child.active():
        yield child


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path, create=True) as opened:
        yield opened


def planned(**changes: Any) -> runner.Plan:
    return runner.plan(RunConfig(**{"task": "lengths", "model": "counting", "resamples": 100, **changes}))


def test_each_distinct_question_is_asked_once(store, model):
    record = runner.start(planned(), store)
    assert sorted(model.asked) == ["a", "bb", "ccc", "dd", "e"]
    assert record.status == "done"
    assert record.results[0]["value"] == pytest.approx(20 / 6)
    assert record.results[0]["n"] == 6


def test_groups_get_results_of_their_own(store):
    groups = {r["group"]: r["value"] for r in runner.start(planned(), store).results}
    assert groups == {"overall": pytest.approx(20 / 6), "size=1": 2, "size=2": 4, "size=3": 6}


def test_a_second_run_asks_nothing(store, model):
    runner.start(planned(), store)
    model.asked.clear()
    runner.start(planned(), store)
    assert model.asked == []


@pytest.mark.parametrize(
    "changes",
    [{"model": {"name": "counting", "revision": "2"}}, {"seed": 7}, {"task": {"name": "lengths", "words": ["zz"]}}],
)
def test_another_model_seed_or_question_misses_the_cache(store, model, changes):
    runner.start(planned(), store)
    model.asked.clear()
    runner.start(planned(**changes), store)
    assert model.asked


def test_sampled_answers_are_never_shared(store, model):
    sampled = {"name": "lengths", "temperature": 1.0}
    runner.start(planned(task=sampled), store)
    assert len(model.asked) == 6, "two equal prompts of one run are two draws"
    runner.start(planned(task=sampled), store)
    assert len(model.asked) == 12, "another run draws again"


def test_an_error_is_no_score_and_resume_tries_it_again(store, model):
    model.fail.add("bb")
    record = runner.start(planned(), store)
    assert record.status == "incomplete"
    assert (record.results[0]["n"], record.results[0]["n_error"]) == (5, 1)
    assert record.results[0]["value"] == pytest.approx(16 / 5)
    model.fail.clear()
    model.asked.clear()
    record = runner.resume(record, store)
    assert model.asked == ["bb"]
    assert record.status == "done"
    assert record.results[0]["value"] == pytest.approx(20 / 6)


def test_a_refusal_is_unscored_and_not_remembered_as_an_answer(store, model):
    model.refuse.add("bb")
    record = runner.start(planned(), store)
    assert (record.results[0]["n"], record.results[0]["n_error"], record.results[0]["n_unscored"]) == (5, 0, 1)
    assert next(row for row in store.rows(record.id) if row.state == "unscored").score.unscored == {
        "answer": "no answer: refusal"
    }
    model.asked.clear()
    runner.start(planned(), store)
    assert model.asked == ["bb"]


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_results(store, model, tmp_path):
    with Store(tmp_path / "whole", create=True) as other:
        whole = runner.start(planned(), other)
    model.asked.clear()
    model.stop_after = 3
    with pytest.raises(KeyboardInterrupt):
        runner.start(planned(), store)
    record = store.run("latest")
    assert record.status == "cancelled"
    model.stop_after = None
    finished = runner.resume(record, store)
    assert len(model.asked) == 5, "nothing is asked twice"
    assert finished.results == whole.results
    assert list(store.rows(finished.id)) == list(_rows(tmp_path / "whole", whole.id))


def _rows(folder: Path, run: str):
    with Store(folder) as store:
        yield from store.rows(run)


def test_a_changed_input_cannot_be_resumed(store, model):
    model.stop_after = 1
    with pytest.raises(KeyboardInterrupt):
        runner.start(planned(), store)
    record = store.run("latest")
    store._db.execute("UPDATE runs SET signature = 'other'")
    with pytest.raises(StoreError, match="have changed since it began"):
        runner.resume(store.run(record.id), store)


def test_the_limit_is_honoured(store):
    assert runner.start(planned(limit=2), store).results[0]["n"] == 2


def test_progress_is_told_up_to_the_end(store):
    told: list[float] = []
    runner.start(planned(), store, progress=lambda done, total: told.append(done))
    assert told == sorted(told)
    assert told[-1] == 6


def test_duplicate_ids_are_refused(store, monkeypatch):
    monkeypatch.setattr(Lengths, "examples", lambda self: iter([Example("x", {"word": "a"})] * 2))
    with pytest.raises(DataError, match="two examples have the id 'x'"):
        runner.start(planned(), store)


def test_a_task_without_examples_is_refused(store):
    with pytest.raises(DataError, match="no examples"):
        runner.start(planned(task={"name": "lengths", "words": []}), store)


def test_a_model_that_cannot_do_the_verb_is_refused_before_anything_is_asked(model, monkeypatch):
    monkeypatch.setattr(Lengths, "needs", frozenset({"slot"}))
    with pytest.raises(ConfigError, match="counting cannot slot"):
        planned()
    assert model.asked == []


def test_a_task_that_needs_a_model_says_so():
    with pytest.raises(ConfigError, match="needs a model that can generate"):
        planned(model=None)


def test_a_task_that_miscounts_its_scores_is_stopped(store, monkeypatch):
    monkeypatch.setattr(Lengths, "score", lambda *_: [])
    with pytest.raises(PluginError, match=r"gave 0 scores for \d+ examples"):
        runner.start(planned(), store)
    assert store.run("latest").status == "failed"


@pytest.mark.parametrize(
    "returned",
    [["one"], ["one", "two", "three"], [(0, Response("x")), (0, Response("y"))], [(5, Response("x"))], [1, 2]],
)
def test_a_model_must_answer_every_request_once(returned):
    class Odd:
        name = "odd"
        can = frozenset({"generate"})

        def generate(self, requests):
            return returned

    with pytest.raises(PluginError, match="the model odd"):
        list(ask(Odd(), "generate", [Generate("a"), Generate("b")]))


def test_plain_strings_are_answers():
    class Plain:
        name = "plain"

        def generate(self, requests):
            return [request.prompt for request in requests]

    assert list(ask(Plain(), "generate", [Generate("a", place=Place("out", 0))])) == [(0, Response("a"))]


def test_a_class_that_is_no_task_is_refused(registry):
    registry.add("task", "nothing", type("Nothing", (), {}))
    with pytest.raises(PluginError, match="lacks a method"):
        planned(task="nothing")
