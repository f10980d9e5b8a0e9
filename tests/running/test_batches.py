"""Requests as batches: they follow shared prefixes, come back complete, and carry no secret."""

from __future__ import annotations

import json
import pickle
import random
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmassay
from lmassay.errors import ClusterError
from lmassay.plugins.options import build
from lmassay.plugins.registry import current_registry
from lmassay.running.batches import BatchOutcome, WorkerModel, answer_batch, cut_into_batches
from lmassay.running.config import RunConfig
from lmassay.running.executors import InProcessExecutor
from lmassay.running.runner import begin, plan, record_waiting_runs
from lmassay.running.worker_model import ModelDescription
from lmassay.storage.store import Store
from lmassay.types import Generate, LogProbs, Response, Slot

LOREM = "the pilot who admires the surgeon laughs and swims near the old house of the author " * 6


def contexts(groups: int, each: int) -> list[LogProbs]:
    """Requests in random order; those of a group share a long context."""
    requests = []
    for group in range(groups):
        for number in range(each):
            requests.append(LogProbs(f"{group:03d} {LOREM}", f" answer {number}"))
    random.Random(0).shuffle(requests)
    return requests


@given(
    st.lists(st.text("ab ", max_size=200).map(lambda text: Generate(text, max_tokens=len(text) + 1)), max_size=60),
    st.integers(1, 5),
    st.sampled_from([0, 1, 100, 2048]),
)
def test_every_request_is_in_exactly_one_batch(requests, workers, decoding_tokens):
    batches = cut_into_batches(requests, workers, decoding_tokens)
    numbers = [number for batch in batches for number in batch]
    assert sorted(numbers) == list(range(len(requests)))
    assert all(batches) or not requests


def test_requests_with_a_common_beginning_stay_together():
    requests = contexts(groups=40, each=12)
    batches = cut_into_batches(requests, workers=2)
    assert len(batches) >= 6
    batches_of_group: dict[str, set[int]] = {}
    for index, batch in enumerate(batches):
        for number in batch:
            batches_of_group.setdefault(requests[number].context[:3], set()).add(index)
    assert all(len(indices) == 1 for indices in batches_of_group.values())


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_workers_end_at_about_the_same_time(workers):
    requests = [Slot(f"{number} {LOREM[: number % 300]}", "", ("is", "are")) for number in range(3000)]
    batches = cut_into_batches(requests, workers)
    # Each batch goes to the worker that is idle first, as in a run.
    busy_until = [0] * workers
    for batch in batches:
        first_idle = busy_until.index(min(busy_until))
        busy_until[first_idle] += sum(len(requests[number].left) for number in batch)
    assert max(busy_until) < 1.1 * sum(busy_until) / workers
    assert len(batches[0]) > len(batches[-1])


def test_one_long_common_beginning_is_not_read_again_in_many_batches():
    requests = [LogProbs(LOREM * 20, f" {number}") for number in range(200)]
    assert len(cut_into_batches(requests, workers=2)) <= 2


def test_a_few_short_requests_are_one_batch():
    assert len(cut_into_batches([LogProbs("a", "b"), LogProbs("a", "c")], workers=8)) == 1


def prompts(count: int) -> list[Generate]:
    return [Generate(f"{number} {LOREM[:40]}", max_tokens=32) for number in range(count)]


def test_generation_that_fits_into_one_batch_of_the_model_is_one_batch_per_worker():
    sizes = [len(batch) for batch in cut_into_batches(prompts(72), workers=2, decoding_tokens=2048)]
    assert len(sizes) == 2
    assert abs(sizes[0] - sizes[1]) <= 2


def test_generation_nearly_fills_the_batches_of_the_model_and_never_exceeds_them():
    batches = cut_into_batches(prompts(1000), workers=2, decoding_tokens=2048)
    tokens = [len(batch) * (len(LOREM[:40]) / 4 + 3 + 32) for batch in batches]
    assert len(batches) % 2 == 0
    assert all(0.75 * 2048 < each <= 2048 for each in tokens)


def test_little_generation_is_not_distributed_to_all_workers():
    assert len(cut_into_batches(prompts(12), workers=8, decoding_tokens=2048)) == 1


def test_choices_are_not_generated_so_their_batches_get_smaller_towards_the_end():
    requests = [Generate(request.prompt, choices=("yes", "no")) for request in prompts(2000)]
    assert cut_into_batches(requests, 2, decoding_tokens=2048) == cut_into_batches(requests, 2)


# --- workers ----------------------------------------------------------------------------------------------------------

MODEL = """
from lmassay import Model, Response

class Mine(Model):
    name = "mine"
    can = frozenset({"generate"})
    distributable = True

    def __init__(self, token: str = "", api_key: str = ""):
        self.token, self.api_key = token, api_key

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        for number, request in reversed(list(enumerate(requests))):
            yield number, Response(request.prompt.upper())
"""


class Recording(InProcessExecutor):
    """Behaves like an executor with workers: everything that is sent is pickled. It can lose workers."""

    in_process = False

    def __init__(self, deaths: int = 0) -> None:
        self.sent: list[bytes] = []
        self.deaths = deaths

    def capacity(self, resources):
        return 3

    def submit(self, function, payload, resources):
        self.sent.append(pickle.dumps(payload))
        if self.deaths:
            self.deaths -= 1
            future: Future[Any] = Future()
            future.set_exception(BrokenProcessPool())
            return future
        return super().submit(lambda sent: pickle.loads(pickle.dumps(function(sent))), payload, resources)


def worker_model(folder: Path, executor: Recording, spec: Any = "model.py:Mine") -> WorkerModel:
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    model = build("model", spec, folder)
    source = current_registry().source_of("model.py:Mine", folder)
    return WorkerModel(model, ModelDescription(spec, folder, source), executor)


PROMPTS = [Generate(f"prompt {number} {LOREM}", max_tokens=9) for number in range(40)]


def test_workers_answer_every_request(tmp_path):
    executor = Recording()
    responses = dict(worker_model(tmp_path, executor).ask("generate", PROMPTS))
    assert {number: response.text for number, response in responses.items()} == {
        number: request.prompt.upper() for number, request in enumerate(PROMPTS)
    }
    assert len(executor.sent) > 3


def test_a_batch_whose_worker_died_is_repeated(tmp_path):
    whole, broken = Recording(), Recording(deaths=1)
    list(worker_model(tmp_path, whole).ask("generate", PROMPTS))
    responses = dict(worker_model(tmp_path, broken).ask("generate", PROMPTS))
    assert all(response.usable for response in responses.values())
    assert len(broken.sent) == len(whole.sent) + 1


def test_a_batch_that_kills_two_workers_is_an_error_of_its_requests_and_the_others_are_answered(tmp_path):
    requests = PROMPTS[:1]
    responses = dict(worker_model(tmp_path, Recording(deaths=2)).ask("generate", requests))
    assert responses == {
        0: Response(error="the worker died 2 times while answering this request (batch of 1); was it out of memory?")
    }


def test_a_run_stops_if_workers_die_before_they_have_answered_anything(tmp_path):
    executor = Recording(deaths=100)
    answers = worker_model(tmp_path, executor).ask("generate", PROMPTS)
    with pytest.raises(ClusterError, match="every worker died before it had answered a single batch; is there enough"):
        list(answers)
    batches = len(cut_into_batches(PROMPTS, executor.capacity({})))
    assert batches > 3
    assert len(executor.sent) < 2 * batches, "every batch was tried"


def test_no_secret_is_sent_to_workers(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "open-sesame-42")
    executor = Recording()
    spec = {"name": "model.py:Mine", "api_key": "${MY_KEY}"}
    assert dict(worker_model(tmp_path, executor, spec).ask("generate", PROMPTS))
    assert not any(b"open-sesame-42" in sent for sent in executor.sent)


def payload(folder: Path, **changes: Any) -> dict[str, Any]:
    executor = Recording()
    dict(worker_model(folder, executor).ask("generate", PROMPTS[:1]))
    return {**pickle.loads(executor.sent[0]), **changes}


def test_a_worker_refuses_a_job_of_another_version(tmp_path):
    outcome = answer_batch(payload(tmp_path, version="0.0.9"))
    assert f"this worker has lmassay {lmassay.__version__}, the run uses 0.0.9" in outcome.error


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"name": "mine", "weights": "0123"}, "weights is None on this worker and 0123 where the run was started"),
        ({"name": "mine", "device": "cuda"}, "set model.device and model.dtype"),
    ],
)
def test_a_worker_refuses_to_answer_with_another_model(tmp_path, other, message):
    outcome = answer_batch(payload(tmp_path, identity=json.dumps(other)))
    assert outcome.responses == []
    assert message in outcome.error


def test_a_file_that_the_worker_does_not_have_is_reported_with_the_worker(tmp_path):
    job = payload(tmp_path)
    (tmp_path / "model.py").unlink()
    outcome = answer_batch({**job, "model": {**job["model"], "base_dir": str(tmp_path / "elsewhere")}})
    assert outcome.error.startswith("worker ")
    assert "model.py" in outcome.error


def test_answers_before_a_failure_are_not_lost_and_the_run_stops(tmp_path):
    class Failing(Recording):
        def submit(self, function, payload, resources):
            future: Future[Any] = Future()
            future.set_result(BatchOutcome([(0, Response("a"))], "worker w: no memory"))
            return future

    answers = worker_model(tmp_path, Failing()).ask("generate", PROMPTS[:2])
    assert next(answers)[1] == Response("a")
    with pytest.raises(ClusterError, match="worker w: no memory"):
        list(answers)


FAILING_MODEL = """
from lmassay import Model, Response

class Mine(Model):
    name = "mine"
    can = frozenset({"generate"})
    distributable = True

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        yield Response("first")
        raise FAILURE
"""


@pytest.mark.parametrize("failure", ["SystemExit(3)", "KeyboardInterrupt", "ValueError('key sk-abcdefgh12345678')"])
def test_a_model_that_raises_anything_ends_neither_its_worker_nor_the_message(tmp_path, failure):
    (tmp_path / "model.py").write_text(FAILING_MODEL.replace("FAILURE", failure), encoding="utf-8")
    model = build("model", "model.py:Mine", tmp_path)
    source = current_registry().source_of("model.py:Mine", tmp_path)
    executor = Recording()
    answers = WorkerModel(model, ModelDescription("model.py:Mine", tmp_path, source), executor).ask(
        "generate", PROMPTS[:2]
    )
    assert next(answers)[1] == Response("first")
    with pytest.raises(ClusterError, match=r"^worker .*(tried to exit the program|\[redacted\])"):
        list(answers)


def test_a_worker_that_cannot_read_the_job_is_reported_as_a_fault_of_the_cluster(tmp_path):
    class WithoutLmassay(Recording):
        def submit(self, function, payload, resources):
            future: Future[Any] = Future()
            future.set_exception(ModuleNotFoundError("No module named 'lmassay'"))
            return future

    with pytest.raises(ClusterError, match=r"a worker could not do its work: .*No module named 'lmassay'"):
        list(worker_model(tmp_path, WithoutLmassay()).ask("generate", PROMPTS[:2]))


MODEL_WITH_FILE = """
from pathlib import Path
from lmassay import Model, Response

class WithFile(Model):
    name = "with-file"
    can = frozenset({"generate"})
    distributable = True

    def __init__(self, table: Path):
        self.suffix = table.read_text(encoding="utf-8")

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        return [Response(request.prompt + self.suffix) for request in requests]
"""


@pytest.fixture
def config_with_file(tmp_path):
    (tmp_path / "with_file.py").write_text(MODEL_WITH_FILE, encoding="utf-8")
    (tmp_path / "table.txt").write_text("!", encoding="utf-8")
    (tmp_path / "src.txt").write_text("a cat sat\n", encoding="utf-8")
    task = {"name": "robustness", "src": "src.txt", "attack": {"name": "homoglyph", "rate": 1}}
    model = {"name": "with_file.py:WithFile", "table": "table.txt"}
    return RunConfig(task=task, model=model, base_dir=tmp_path)


def outputs_of_run(config: RunConfig) -> list[str]:
    """Answer the requests of a run on workers, which keep the model of the run before."""
    with Store(config.base_dir / "results", create=True) as store:
        (record,) = record_waiting_runs([plan(config)], store, "sweep")
        done = begin(plan(config), record, store, executor=Recording())
        return [row.score.details["out"] for row in store.rows(done.id)]


def test_a_worker_that_keeps_a_model_reads_its_changed_files_again(config_with_file):
    assert outputs_of_run(config_with_file) == ["a cat sat!"]
    (config_with_file.base_dir / "table.txt").write_text("?", encoding="utf-8")
    assert outputs_of_run(config_with_file) == ["a cat sat?"]


def test_a_worker_whose_files_differ_from_those_of_the_run_refuses_the_work(config_with_file):
    class OtherMachine(Recording):
        def submit(self, function, payload, resources):
            (config_with_file.base_dir / "table.txt").write_text("other", encoding="utf-8")
            return super().submit(function, payload, resources)

    planned = plan(config_with_file)
    with Store(config_with_file.base_dir / "results", create=True) as store:
        (record,) = record_waiting_runs([planned], store, "sweep")
        with pytest.raises(ClusterError, match=r"the files that with_file.py:WithFile reads are not the same"):
            begin(planned, record, store, executor=OtherMachine())
