"""The main loop: each distinct request is sent once, answers are stored at once, errors are not scores, runs resume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmassay
from lmassay.contracts import Model, Task, ask
from lmassay.errors import ConfigError, DataError, PluginError, StoreError, UserError
from lmassay.plugins.registry import Registry, current_registry
from lmassay.running import runner
from lmassay.running.config import RunConfig
from lmassay.statistics.caveats import caveats
from lmassay.statistics.comparison import compare_runs
from lmassay.statistics.intervals import Settings, mean_results, paired_difference
from lmassay.statistics.sides import load_side
from lmassay.storage import progress, provenance
from lmassay.storage.store import Store, is_cacheable_request
from lmassay.types import Design, Example, Generate, Outcome, Response, Score, Slot, SourceLocation


class Lengths(Task):
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


class Counting(Model):
    """A model that records its prompts, and fails or refuses on chosen ones."""

    name = "counting"
    can = frozenset({"generate"})
    prompts: list[str] = []
    fail: set[str] = set()
    refuse: set[str] = set()
    stop_after: int | None = None

    def __init__(self, revision: str = "1") -> None:
        self.revision = revision

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, "revision": self.revision}

    def generate(self, requests: Sequence[Generate]) -> Iterator[tuple[int, Response]]:
        for place, request in reversed(list(enumerate(requests))):
            if self.stop_after is not None and len(self.prompts) >= self.stop_after:
                raise KeyboardInterrupt
            self.prompts.append(request.prompt)
            if request.prompt in self.fail:
                yield place, Response(error="HTTP 500")
            elif request.prompt in self.refuse:
                yield place, Response(finish="refusal")
            else:
                yield place, Response(request.prompt * 2)


@pytest.fixture
def model():
    Counting.prompts, Counting.fail, Counting.refuse, Counting.stop_after = [], set(), set(), None
    return Counting


@pytest.fixture(autouse=True)
def registry(model):
    child = Registry(current_registry())
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
    assert sorted(model.prompts) == ["a", "bb", "ccc", "dd", "e"]
    assert record.status == "done"
    assert record.results[0].value == pytest.approx(20 / 6)
    assert record.results[0].n == 6


def test_groups_get_results_of_their_own(store):
    groups = {r.group: r.value for r in runner.start(planned(), store).results}
    assert groups == {"overall": pytest.approx(20 / 6), "size=1": 2, "size=2": 4, "size=3": 6}


def test_a_second_run_asks_nothing(store, model):
    runner.start(planned(), store)
    model.prompts.clear()
    runner.start(planned(), store)
    assert model.prompts == []


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    "changes",
    [{"model": {"name": "counting", "revision": "2"}}, {"seed": 7}, {"task": {"name": "lengths", "words": ["zz"]}}],
)
def test_another_model_seed_or_question_misses_the_cache(store, model, changes):
    runner.start(planned(), store)
    model.prompts.clear()
    runner.start(planned(**changes), store)
    assert model.prompts


@pytest.mark.fault(20)
def test_sampled_answers_are_never_shared(store, model):
    sampled = {"name": "lengths", "temperature": 1.0}
    runner.start(planned(task=sampled), store)
    assert len(model.prompts) == 6, "two equal prompts of one run are two draws"
    runner.start(planned(task=sampled), store)
    assert len(model.prompts) == 12, "another run draws again"


def test_an_error_is_no_score_and_resume_tries_it_again(store, model):
    model.fail.add("bb")
    record = runner.start(planned(), store)
    assert record.status == "incomplete"
    assert (record.results[0].n, record.results[0].n_error) == (5, 1)
    assert record.results[0].value == pytest.approx(16 / 5)
    model.fail.clear()
    model.prompts.clear()
    record = runner.resume(record, store)
    assert model.prompts == ["bb"]
    assert record.status == "done"
    assert record.results[0].value == pytest.approx(20 / 6)


@pytest.mark.fault(12)
def test_a_refusal_is_unscored_and_not_remembered_as_an_answer(store, model):
    model.refuse.add("bb")
    record = runner.start(planned(), store)
    assert (record.results[0].n, record.results[0].n_error, record.results[0].n_unscored) == (5, 0, 1)
    assert next(row for row in store.rows(record.id) if row.state == "unscored").score.unscored == {
        "answer": "no answer: refusal"
    }
    model.prompts.clear()
    runner.start(planned(), store)
    assert model.prompts == ["bb"]


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_results(store, model, tmp_path):
    with Store(tmp_path / "whole", create=True) as other:
        whole = runner.start(planned(), other)
    model.prompts.clear()
    model.stop_after = 3
    with pytest.raises(KeyboardInterrupt):
        runner.start(planned(), store)
    record = store.run("latest")
    assert record.status == "cancelled"
    model.stop_after = None
    finished = runner.resume(record, store)
    assert len(model.prompts) == 5, "nothing is asked twice"
    assert finished.results == whole.results
    assert list(store.rows(finished.id)) == list(_rows(tmp_path / "whole", whole.id))


def _rows(folder: Path, run: str):
    with Store(folder) as store:
        yield from store.rows(run)


def test_a_run_that_an_earlier_release_began_can_be_resumed(store, model):
    model.stop_after = 1
    with pytest.raises(KeyboardInterrupt):
        runner.start(planned(), store)
    record = store.run("latest")
    earlier = {**record.depends_on, "lmassay": "0.0.9"}
    store.set_signature(record.id, provenance.signature(earlier), earlier)
    model.stop_after = None
    finished = runner.resume(store.run("latest"), store)
    assert finished.status == "done"
    assert finished.depends_on["lmassay"] == lmassay.__version__


def test_a_changed_input_cannot_be_resumed(store, model):
    model.stop_after = 1
    with pytest.raises(KeyboardInterrupt):
        runner.start(planned(), store)
    record = store.run("latest")
    other = {**record.depends_on, "data": "other"}
    began_with = replace(record, signature="other", provenance=replace(record.provenance, signature=other))
    with pytest.raises(StoreError, match="have changed since it began"):
        runner.resume(began_with, store)


def test_the_limit_is_honoured(store):
    assert runner.start(planned(limit=2), store).results[0].n == 2


def test_progress_is_reported_up_to_the_end(store):
    progress_values: list[float] = []
    runner.start(planned(), store, progress=lambda done, total: progress_values.append(done))
    assert progress_values == sorted(progress_values)
    assert progress_values[-1] == 6


def test_progress_can_be_watched_from_elsewhere_until_the_run_ends(store, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_WRITES", 0.0)
    watched: list[float | None] = []

    def watch(done: float, total: int | None) -> None:
        (record,) = store.runs()
        recorded = progress.recorded_progress(store.folder, record.id)
        watched.append(None if recorded is None else recorded.done)
        assert recorded is not None
        assert recorded.done == done

    runner.start(planned(), store, progress=watch)
    assert watched[-1] == 6
    assert not (store.folder / ".progress").exists()


@pytest.mark.fault(22)
def test_duplicate_ids_are_refused(store, monkeypatch):
    monkeypatch.setattr(Lengths, "examples", lambda self: iter([Example("x", {"word": "a"})] * 2))
    with pytest.raises(PluginError, match="two examples have the id 'x'"):
        runner.start(planned(), store)


def test_a_task_without_examples_is_refused(store):
    with pytest.raises(DataError, match="no examples"):
        runner.start(planned(task={"name": "lengths", "words": []}), store)


@pytest.mark.fault(14)
def test_a_model_that_cannot_do_the_verb_is_refused_before_anything_is_asked(model, monkeypatch):
    monkeypatch.setattr(Lengths, "needs", frozenset({"slot"}))
    with pytest.raises(ConfigError, match="counting cannot rank words at a blank"):
        planned()
    assert model.prompts == []


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
    [
        ["one"],
        [("a", "b"), ("c", "d")],
        [("a", "b", "c")] * 2,
        ["one", "two", "three"],
        [(0, Response("x")), (0, Response("y"))],
        [(5, Response("x"))],
        [1, 2],
    ],
)
def test_a_model_must_answer_every_request_once(returned):
    class Odd(Model):
        name = "odd"
        can = frozenset({"generate"})

        def generate(self, requests):
            return returned

    with pytest.raises(PluginError, match="the model odd"):
        list(ask(Odd(), "generate", [Generate("a"), Generate("b")]))


def test_plain_strings_are_answers():
    class Plain(Model):
        name = "plain"

        def generate(self, requests):
            return [request.prompt for request in requests]

    assert list(ask(Plain(), "generate", [Generate("a", location=SourceLocation("out", 0))])) == [(0, Response("a"))]


def test_long_lists_of_candidates_are_not_kept_but_short_ones_are():
    assert is_cacheable_request(Slot("x ", ".", ("a", "b")))
    assert not is_cacheable_request(Slot("x ", ".", tuple(str(i) for i in range(1000))))
    assert is_cacheable_request(Generate("x"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "x"])
def test_a_score_that_is_no_finite_number_is_refused_with_its_example(store, monkeypatch, value):
    monkeypatch.setattr(Lengths, "score", lambda self, examples, responses: [Score({"length": value})] * len(examples))
    with pytest.raises(PluginError, match="as length of the example 0"):
        runner.start(planned(), store)


def test_numbers_of_numpy_are_numbers(store, monkeypatch):
    monkeypatch.setattr(
        Lengths, "score", lambda s, e, r: [Score({"length": np.float32(0.5), "n": np.int64(2)})] * len(e)
    )
    assert runner.start(planned(), store).results[0].value == 0.5


def test_a_run_of_errors_alone_still_tells_how_many(store, model):
    model.fail.update(["a", "bb", "ccc", "dd", "e"])
    record = runner.start(planned(), store)
    assert record.status == "incomplete"
    assert (record.results[0].value, record.results[0].n, record.results[0].n_error) == (None, 0, 6)
    assert store.errors(record.id) == [("HTTP 500", 6)]


def test_a_run_in_which_nothing_can_be_scored_is_not_done(store, model):
    model.refuse.update(["a", "bb", "ccc", "dd", "e"])
    record = runner.start(planned(), store)
    assert record.status == "incomplete"
    assert record.results[0].n_unscored == 6


def test_a_model_class_that_forgets_an_option_in_its_identity_is_not_served_the_answers_of_another(store, model):
    class Forgetful(Counting):
        name = "forgetful"

        def __init__(self, warmth: float = 0.0) -> None:
            super().__init__()

    current_registry().add("model", "forgetful", Forgetful)
    for warmth in (0.0, 1.0):
        runner.start(planned(model={"name": "forgetful", "warmth": warmth}), store)
    assert len(model.prompts) == 10


def test_a_model_whose_file_changes_under_its_name_is_asked_again(store, model, tmp_path):
    class Reader(Counting):
        name = "reader"

        def __init__(self, files: list[str]) -> None:
            super().__init__()

    current_registry().add("model", "reader", Reader)
    weights = tmp_path / "weights.txt"
    for content in ("one", "two", "two"):
        weights.write_text(content, encoding="utf-8")
        runner.start(
            planned(model={"name": "reader", "files": ["no file", str(weights), "long" * 5000, "~nobody here"]}), store
        )
    assert len(model.prompts) == 10


def test_a_model_that_lacks_the_method_it_promises_is_refused(model):
    current_registry().add(
        "model", "mute", type("Mute", (), {"name": "mute", "can": frozenset({"generate"}), "identity": dict})
    )
    with pytest.raises(PluginError, match="says that it can generate, but has no such method"):
        planned(model="mute")


def test_a_failure_in_a_model_of_the_users_own_names_it_with_file_and_line(store, monkeypatch):
    monkeypatch.setattr(Counting, "generate", lambda self, requests: 1 / 0)
    with pytest.raises(PluginError, match=r"the model counting failed: ZeroDivisionError.*test_runner\.py, line \d+"):
        runner.start(planned(), store)


def test_clusters_named_by_the_task_are_used_when_runs_are_compared(store, monkeypatch):
    class Templates(Lengths):
        name = "templates"
        design = Design(clusters=("template",))

        def __init__(self, bias: float = 0.0) -> None:
            super().__init__([f"{i}" for i in range(200)])
            self.bias = bias

        def examples(self):
            for i in range(200):
                yield Example(str(i), {"word": "x"}, groups={"template": str(i % 10)})

        def score(self, examples, responses):
            effects = np.random.default_rng(int(self.bias)).normal(size=10)
            return [Score({"length": effects[int(e.id) % 10]}) for e in examples]

    current_registry().add("task", "templates", Templates)
    a, b = (runner.start(planned(task={"name": "templates", "bias": bias}), store) for bias in (0.0, 1.0))
    sides = [load_side(store, record) for record in (a, b)]
    (clustered,) = compare_runs(sides[0], sides[1:])
    before, after = (np.array(list(side.table.by_id("length").values())) for side in sides)
    labels = [str(i % 10) for i in range(200)]
    expected = paired_difference(before, after, Settings(resamples=100), [labels])
    assert (clustered.low, clustered.high, clustered.p) == (expected.low, expected.high, expected.p)
    naive = paired_difference(before, after, Settings(resamples=100))
    assert clustered.p > naive.p


def test_a_cluster_that_no_example_has_is_reported(store, monkeypatch):
    monkeypatch.setattr(
        Lengths, "aggregate", lambda s, table, settings: mean_results(table, ["length"], settings, "none")
    )
    with pytest.raises(PluginError, match="no example has the group 'none'"):
        runner.start(planned(), store)


def test_comparing_with_a_run_that_has_no_rows_is_reported(store, model, monkeypatch):
    monkeypatch.setattr(Lengths, "design", Design(clusters=("size",)))
    done = runner.start(planned(), store)
    model.prompts.clear()
    model.stop_after = 0
    with pytest.raises(KeyboardInterrupt):
        runner.start(planned(seed=9), store)
    sides = [load_side(store, store.run("latest")), load_side(store, done)]
    with pytest.raises(UserError, match="has no examples"):
        compare_runs(sides[0], sides[1:])


def test_runs_with_other_intervals_can_be_compared(store):
    a = runner.start(planned(), store)
    b = runner.start(planned(confidence=0.9), store)
    # Another rule for intervals measures nothing else, and a comparison computes its own.
    assert caveats(load_side(store, a), [load_side(store, b)]) == []


def test_a_hundred_thousand_rows_make_a_table_in_linear_time():
    from lmassay.statistics.table import ScoreTable
    from lmassay.types import Row

    def rows(n):
        return (Row(Example(str(i), {}, groups={"g": "x"}), "scored", Score({"a": 0.5, "b": 1.0})) for i in range(n))

    table = ScoreTable(rows(100_000))
    assert len(table) == 100_000
    assert table.counts("a") == (100_000, 0, 0)


def test_a_class_that_is_no_task_is_refused(registry):
    registry.add("task", "nothing", type("Nothing", (), {}))
    with pytest.raises(PluginError, match="does not define name, examples, requests, score"):
        planned(task="nothing")


def test_a_reader_can_be_shown_what_was_asked_and_answered(store, model):
    model.refuse, model.fail = {"bb"}, {"ccc"}
    record = runner.start(planned(), store)
    shown = {
        i: [(request["prompt"], response.answer, response.finish) for request, response in exchanges]
        for i, exchanges in store.requests_and_responses(record.id)
    }
    assert shown["0"] == [("a", "aa", "stop")]
    assert shown["1"] == [("bb", None, "refusal")]
    assert shown["3"] == []


@pytest.mark.parametrize(
    ("crossed", "outcomes", "problem"),
    [
        ({}, [Outcome("a", 1.0)], "its design.crossed does not say what their labels are"),
        ({"length": "letter"}, [Outcome("a", 2.0, 3.0)], "whose mean is not the value of the metric, 1.0"),
        ({"length": "letter"}, [], "whose mean is not the value of the metric, 1.0"),
        ({"length": "letter"}, [Outcome("a", 1.0, 0.0)], "whose mean is not the value of the metric, 1.0"),
    ],
)
def test_outcomes_that_do_not_give_the_score_are_refused(store, monkeypatch, crossed, outcomes, problem):
    score = Score({"length": 1.0}, outcomes={"length": outcomes})
    monkeypatch.setattr(Lengths, "design", Design(crossed=crossed))
    monkeypatch.setattr(Lengths, "score", lambda self, examples, responses: [score] * len(examples))
    with pytest.raises(PluginError, match=f"gave outcomes of length for the example 0.*{problem}"):
        runner.start(planned(), store)


# --- requests that depend on answers ----------------------------------------------------------------------------------


class Chains(Lengths):
    """Asks about the answer to the last question, until the answer is eight letters long."""

    name = "chains"

    def requests(self, example: Example) -> list[Generate]:
        return [Generate(prompt) for prompt in (example.inputs["word"], *example.inputs.get("further", []))]

    def follow_up(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Example]:
        extended = []
        for example, answers in zip(examples, responses, strict=True):
            further = [answer.text for answer in answers]
            if len(further[-1]) < 8:
                example = replace(example, inputs={**example.inputs, "further": further})
            extended.append(example)
        return extended

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        return [Score({"length": float(len(answers))}) for answers in responses]


class Forgetful(Chains):
    """Replaces its earlier requests."""

    name = "forgetful"

    def follow_up(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Example]:
        return [replace(example, inputs={"word": "another"}) for example in examples]


@pytest.mark.parametrize("cached", [True, False])
def test_requests_that_depend_on_answers_are_sent_in_rounds(store, model, registry, monkeypatch, cached):
    registry.add("task", "chains", Chains)
    monkeypatch.setattr(model, "cached", cached)
    record = runner.start(planned(task={"name": "chains", "words": ["a", "bb", "ccccc"]}), store)
    rows = {row.example.inputs["word"]: row for row in store.rows(record.id)}
    assert rows["a"].example.inputs["further"] == ["aa", "aaaa"]
    assert rows["bb"].example.inputs["further"] == ["bbbb"]
    assert "further" not in rows["ccccc"].example.inputs
    assert [rows[word].score.values["length"] for word in ("a", "bb", "ccccc")] == [3, 2, 1]
    assert sorted(model.prompts) == sorted(["a", "aa", "aaaa", "bb", "bbbb", "ccccc"]), "nothing is asked twice"


class Grouped(Chains):
    """Finds its examples by their ids, and gives extended ones new groups."""

    name = "grouped"

    def follow_up(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Example]:
        own_examples = {example.id: example for example in self.examples()}
        extended = []
        for before, after in zip(examples, super().follow_up(examples, responses), strict=True):
            assert before.groups.keys() <= {*own_examples[before.id].groups, "rounds"}
            if after is not before:
                after = replace(after, groups={"rounds": "several"})
            extended.append(after)
        return extended


def test_a_task_that_asks_in_rounds_sees_its_own_examples_and_not_samples(store, registry):
    registry.add("task", "grouped", Grouped)
    configured = {"task": {"name": "grouped", "words": ["a", "bb"]}, "samples": 2, "temperature": 0.7}
    record = runner.start(planned(**configured), store)
    rows = {row.example.id: row.example.groups for row in store.rows(record.id)}
    assert list(rows) == ["0~1", "0~2", "1~1", "1~2"]
    assert rows["0~2"] == {"rounds": "several", "sampled_example": "0"}


def test_a_later_request_that_fails_is_an_error_and_resumed_from_there(store, model, registry):
    registry.add("task", "chains", Chains)
    model.fail = {"aa"}
    record = runner.start(planned(task={"name": "chains", "words": ["a", "bb"]}), store)
    assert record.status == "incomplete"
    assert store.count(record.id)["error"] == 1
    model.fail, model.prompts = set(), []
    assert runner.resume(record, store).status == "done"
    assert model.prompts == ["aa", "aaaa"]


def test_a_task_that_changes_earlier_requests_is_reported(store, registry):
    registry.add("task", "forgetful", Forgetful)
    with pytest.raises(PluginError, match="the task forgetful: follow_up changed the id or the earlier requests of 0"):
        runner.start(planned(task="forgetful"), store)
