"""Trainings that build upon each other: each done once, in an order that fits, failures kept to those they concern."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from lmassay import __version__
from lmassay.errors import ClusterError, ConfigError
from lmassay.plugins.registry import Registry, current_registry
from lmassay.running.config import RunConfig
from lmassay.running.executors import InProcessExecutor
from lmassay.running.runner import Worker, plan, record_waiting_runs
from lmassay.running.trainings import TrainingJob, run_training, run_trainings
from lmassay.running.worker_model import forget_model
from lmassay.storage.store import Store
from lmassay.types import Response, Train, TrainingOutcome, request_as_dict, response_as_dict, response_from_dict


def teach(model, spec, *, data_paths, earlier, on_progress):
    on_progress(1.0)
    if spec.get("fail"):
        raise ConfigError("it cannot be learned")
    return {"name": spec["name"], "given": [outcome["name"] for outcome in earlier]}


@pytest.fixture(autouse=True)
def trainer():
    with Registry(current_registry()).active() as registry:
        registry.add("trainer", "toy", teach)
        yield


def training(name: str, *after: Train, **more: Any) -> Train:
    return Train("toy", {"name": name, **more}, after)


def orders(*trainings: Train) -> dict[str, TrainingJob]:
    jobs: dict[str, TrainingJob] = {}
    for wanted in trainings:
        for earlier in wanted.after:
            jobs |= {k: o for k, o in orders(earlier).items() if k not in jobs}
        jobs[wanted.key] = TrainingJob(wanted.key, wanted, None, Path(), tuple(t.key for t in wanted.after))
    return jobs


def outcomes(responses: dict[str, Response]) -> dict[str, Any]:
    return {
        r.answer.outcome["name"]: r.answer.outcome["given"]
        for r in responses.values()
        if isinstance(r.answer, TrainingOutcome)
    }


def test_what_comes_before_is_done_once_and_handed_on():
    first, second = training("first"), training("second")
    last, other = training("last", first, second), training("other", first)
    responses = dict(run_trainings(orders(last, other), {}, InProcessExecutor()))
    done = list(responses)
    assert len(done) == 4
    assert done.index(first.key) < done.index(last.key)
    assert outcomes(responses)["last"] == ["first", "second"]


def test_only_what_others_build_upon_stays_in_memory():
    first = training("first")
    last = training("last", first)
    known: dict[str, Response] = {}
    list(run_trainings(orders(last), known, InProcessExecutor()))
    assert known[first.key].answer == TrainingOutcome({"name": "first", "given": []})
    assert known[last.key].answer == TrainingOutcome({})


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyError("x"), SystemExit(0)])
def test_whatever_goes_wrong_in_a_training_costs_that_training_only(error):
    def broken(model, spec, *, data_paths, earlier, on_progress):
        raise error

    current_registry().add("trainer", "broken", broken)
    wanted = [Train("broken", {"name": "bad"}), training("fine")]
    responses = dict(run_trainings(orders(*wanted), {}, InProcessExecutor()))
    assert [bool(response.error) for response in responses.values()] == [True, False]


def payload_of_run(folder: Path, model: Any) -> dict[str, Any]:
    """The payload of a training in a run with this model."""
    (folder / "src.txt").write_text("a cat sat\n", encoding="utf-8")
    task = {"name": "robustness", "src": "src.txt", "attack": {"name": "homoglyph", "rate": 1}}
    planned = plan(RunConfig(task=task, model=model, base_dir=folder))
    with Store(folder / "results", create=True) as store:
        (record,) = record_waiting_runs([planned], store, "sweep")
        jobs = Worker(planned, store, record.id).training_jobs({"key": training("first")})
    return jobs["key"].payload({})


MODEL_WITH_WEIGHTS = """
from pathlib import Path
from lmassay import Model

class WithWeights(Model):
    name = "with-weights"
    can = frozenset({"generate", "train"})

    def identity(self):
        return {"name": self.name, "weights": Path(__file__).with_name("weights").read_text(encoding="utf-8")}

    def generate(self, requests):
        return ["" for _ in requests]
"""


def test_a_worker_with_other_weights_than_the_run_refuses_the_training(tmp_path):
    (tmp_path / "with_weights.py").write_text(MODEL_WITH_WEIGHTS, encoding="utf-8")
    (tmp_path / "weights").write_text("0123", encoding="utf-8")
    payload = payload_of_run(tmp_path, "with_weights.py:WithWeights")
    assert "error" not in run_training(payload)
    (tmp_path / "weights").write_text("4567", encoding="utf-8")
    message = "model: weights is 4567 on this worker and 0123 where the run was started; workers need the same model"
    assert message in run_training(payload)["error"]


def test_a_worker_of_another_version_refuses_the_training():
    payload = TrainingJob("key", training("first"), None, Path()).payload({})
    message = f"this worker has lmassay {__version__}, the run uses 0.0.9"
    assert message in run_training({**payload, "version": "0.0.9"})["error"]


def test_a_worker_that_refuses_ends_the_trainings_and_nothing_counts_as_failed(monkeypatch):
    def refuse(run_version: str) -> None:
        raise ClusterError(f"this worker has lmassay 0.0.9, the run uses {run_version}")

    monkeypatch.setattr("lmassay.running.trainings.check_version", refuse)
    responses: dict[str, Response] = {}
    with pytest.raises(ClusterError, match=r"worker .*: this worker has lmassay 0\.0\.9"):
        list(run_trainings(orders(training("first")), responses, InProcessExecutor()))
    assert responses == {}


MODEL_WITH_FILE = """
from pathlib import Path
from lmassay import Model

class WithFile(Model):
    name = "with-file"
    can = frozenset({"generate", "train"})

    def __init__(self, table: Path):
        self.words = table.read_text(encoding="utf-8")

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        return [self.words for _ in requests]
"""


def test_a_worker_whose_files_differ_from_those_of_the_run_refuses_the_training(tmp_path):
    (tmp_path / "with_file.py").write_text(MODEL_WITH_FILE, encoding="utf-8")
    (tmp_path / "table.txt").write_text("old", encoding="utf-8")
    payload = payload_of_run(tmp_path, {"name": "with_file.py:WithFile", "table": "table.txt"})
    assert "error" not in run_training(payload)
    forget_model()
    (tmp_path / "table.txt").write_text("new", encoding="utf-8")
    message = "the files that with_file.py:WithFile reads are not the same on this worker"
    assert message in run_training(payload)["error"]


def test_what_is_known_is_not_done_again():
    first = training("first")
    known = {first.key: Response(TrainingOutcome({"name": "first", "given": []}))}
    assert [key for key, _ in run_trainings(orders(training("last", first)), known, InProcessExecutor())] == [
        training("last", first).key
    ]


def test_a_failed_training_fails_those_that_build_upon_it_and_no_others():
    bad = training("bad", fail=True)
    responses = dict(run_trainings(orders(training("last", bad), training("fine")), {}, InProcessExecutor()))
    errors = [response.error for response in responses.values() if response.error]
    assert errors == ["it cannot be learned", "a training that this one needs failed: it cannot be learned"]
    assert outcomes(responses) == {"fine": []}


def test_where_the_data_lie_is_no_part_of_what_is_asked():
    here = Train("toy", {"name": "x"}, data_paths={"data_dir": "/here"})
    there = Train("toy", {"name": "x"}, data_paths={"data_dir": "/there"})
    assert here.key == there.key
    assert here == there
    assert "data_paths" not in request_as_dict(here)


def test_what_comes_before_tells_trainings_apart():
    assert training("x").key != training("x", training("y")).key


def test_an_outcome_survives_a_trip_through_json():
    response = Response(TrainingOutcome({"name": "x", "scores": [1.5, None]}), seconds=2.0)
    assert response_from_dict(response_as_dict(response)) == response


def test_two_trainings_in_one_process_do_not_overlap():
    running, most = 0, 0

    def slow(model, spec, *, data_paths, earlier, on_progress):
        nonlocal running, most
        running += 1
        most = max(most, running)
        threading.Event().wait(0.05)
        running -= 1
        return {}

    current_registry().add("trainer", "slow", slow)
    job = TrainingJob("key", Train("slow", {}), None, Path()).payload({})
    registry = current_registry()

    def work() -> None:
        with registry.active():
            run_training(job)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


class Fragile(InProcessExecutor):
    """An executor whose worker dies whenever it runs a certain training."""

    def __init__(self, deadly: str) -> None:
        self.deadly = deadly

    def submit(self, function, payload, resources):
        if payload["spec"]["name"] != self.deadly:
            return super().submit(function, payload, resources)
        future: Future[Any] = Future()
        future.set_exception(BrokenProcessPool())
        return future


def test_only_the_training_that_kills_its_process_is_given_up():
    jobs = orders(training("a"), training("deadly"), training("b"), training("last"))
    responses = dict(run_trainings(jobs, {}, Fragile("deadly")))
    assert set(outcomes(responses)) == {"a", "b", "last"}
    assert [r.error for r in responses.values() if r.error] == [
        "the process that ran this training died 2 times; was it out of memory?"
    ]
