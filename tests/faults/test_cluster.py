"""Requests to local models on a real Dask cluster: each kind of request, and workers that die, are slow or lack a part.

The workers of a test are chosen by the resources that they advertise, so all tests share one scheduler.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lmassay.running import executors
from lmassay.storage.store import Store
from tests.dask_cluster import DaskCluster, dask_cluster
from tests.faults.test_crash import answers_in_store
from tests.helpers import lmassay, write_config
from tests.tiny_models import FIGURES_GPT2


def setup_module() -> None:
    """Import distributed when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("distributed", reason="distributed is not installed")


TASK = """
from lmassay import Example, Generate, LogProbs, Score, Slot, Task

TEXT = "the author who admires the pilots laughs and the surgeons swim near the old house"

class Mine(Task):
    name = "mine"

    def __init__(self, verb: str, examples: int = 12, long: bool = False):
        self.verb, self.number, self.long = verb, examples, long
        self.needs = frozenset({verb})

    def size(self):
        return self.number

    def examples(self):
        for number in range(self.number):
            yield Example(id=str(number), inputs={"text": f"{TEXT[:number + 20]}"})

    def requests(self, example):
        text = example.inputs["text"] + TEXT * (20 if self.long else 0)
        if self.verb == "generate":
            return [Generate(f"{example.id} {text}", max_tokens=5)]
        if self.verb == "logprobs":
            return [LogProbs(text, " laughs"), LogProbs(text, " swim")]
        return [Slot(text.rstrip() + " ", " here.", ("is", "are", "laughs"))]

    def score(self, examples, responses):
        scores = []
        for of_example in responses:
            answer = of_example[0].answer
            if self.verb == "generate":
                scores.append(Score({"value": float(sum(map(ord, answer)))}))
            elif self.verb == "logprobs":
                scores.append(Score({"value": answer.total, "other": of_example[1].answer.total}))
            else:
                scores.append(Score({"value": answer.logprobs[0], "above": answer.masses_above[0]}))
        return scores
"""
MODEL = '''
import os, time
from pathlib import Path

from lmassay import Model, Response

class Mine(Model):
    """Writes down which process answers which request. Its process can be slow, or die."""

    name = "mine"
    can = frozenset({"generate"})
    distributable = True

    def __init__(self, folder: str, wait: float = 0.0, resources: dict[str, float] | None = None):
        self.log, self.die, self.resources = Path(folder) / "log", Path(folder) / "die", resources or {}
        self.pause = wait + float(os.environ.get("PAUSE_OF_TEST", "0"))

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        for request in requests:
            number = request.prompt.split()[0]
            with self.log.open("a", encoding="utf-8") as log:
                log.write(f"{number} {os.getpid()}\\n")
            time.sleep(self.pause)
            if number == "3" and self.die.exists():
                if self.die.read_text() == "once":
                    self.die.unlink()
                os.kill(os.getpid(), 9)
            yield Response(request.prompt.upper())
'''


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A scheduler with two workers, which a nanny restarts when they die."""
    with dask_cluster(tmp_path_factory.mktemp("dask")) as started:
        for _ in range(2):
            started.add_worker("--resources", "PAIR=1", nanny=True)
        yield started


@pytest.fixture
def cluster(shared_cluster: DaskCluster) -> DaskCluster:
    """The cluster when both workers are there: those that an earlier test killed are restarted first."""
    shared_cluster.wait_for_workers(2)
    return shared_cluster


def write_files(folder: Path, model: Any, **task: Any) -> Path:
    (folder / "task.py").write_text(TASK, encoding="utf-8")
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    return write_config(folder / "run.yaml", {"task": {"name": "task.py:Mine", **task}, "model": model})


def own_model(folder: Path, **options: Any) -> dict[str, Any]:
    return {"name": "model.py:Mine", "folder": str(folder), **options}


def requests_by_process(folder: Path) -> list[tuple[str, str]]:
    """The requests that were begun, each with the process that answered it."""
    lines = (folder / "log").read_text(encoding="utf-8").splitlines()
    return [(line.split()[0], line.split()[1]) for line in lines]


def values(results: Path) -> list[dict[str, float]]:
    """The scores of the latest run, by example."""
    with Store(results) as store:
        record = store.run("latest")
        assert record.status == "done", record.note
        rows = sorted(store.rows(record.id), key=lambda row: int(row.example.id))
        return [dict(row.score.values) for row in rows]


EXPECTED = [
    {"value": float(sum(map(ord, f"{number} {text[: number + 20]}".upper() + (text * 20).upper())))}
    for text in ["the author who admires the pilots laughs and the surgeons swim near the old house"]
    for number in range(12)
]


# --- each kind of request ---------------------------------------------------------------------------------------------


@pytest.mark.fault(38)
@pytest.mark.parametrize("verb", ["generate", "logprobs", "slot"])
def test_a_cluster_answers_as_one_process_does(tmp_path, cluster, verb):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    model = {"name": "hf", "model": FIGURES_GPT2, "chat": "never", "resources": {"PAIR": 1}}
    file = write_files(tmp_path, model, verb=verb)
    alone = lmassay("run", file, "--results", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    done = lmassay("run", file, "--results", tmp_path / "cluster", "--scheduler", cluster.address)
    assert done.returncode == 0, done.stderr
    expected = values(tmp_path / "alone")
    cluster_values = values(tmp_path / "cluster")
    assert len(cluster_values) == 12
    for row, row_alone in zip(cluster_values, expected, strict=True):
        assert row == pytest.approx(row_alone, abs=1e-5)


# --- workers that die, are slow or lack a part ------------------------------------------------------------------------


def test_a_worker_that_dies_costs_its_current_batch_only(tmp_path, cluster):
    (tmp_path / "die").write_text("once")
    model = own_model(tmp_path, resources={"PAIR": 1})
    done = lmassay(
        "run", write_files(tmp_path, model, verb="generate", long=True), "--results", tmp_path / "results",
        "--scheduler", cluster.address,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "die").exists(), "no worker died"
    assert values(tmp_path / "results") == EXPECTED
    begun = Counter(number for number, _ in requests_by_process(tmp_path))
    # The batch of the request that kills has at most three of the twelve requests here.
    assert sum(begun.values()) <= 12 + 3


@pytest.mark.parametrize("executor", ["dask", "processes"])
def test_a_batch_that_always_kills_its_worker_is_an_error_and_resume_tries_it_again(tmp_path, cluster, executor):
    (tmp_path / "die").write_text("always")
    resources = {"PAIR": 1} if executor == "dask" else {}
    model = own_model(tmp_path, resources=resources)
    file = write_files(tmp_path, model, verb="generate", long=True)
    options = ("--scheduler", cluster.address) if executor == "dask" else ("--workers", "2")
    done = lmassay("run", file, "--results", tmp_path / "results", *options)
    assert done.returncode == 1, done.stderr
    assert "died 2 times while answering this request" in done.stderr
    with Store(tmp_path / "results") as store:
        counts = store.count(store.run("latest").id)
    assert 1 <= counts["error"] <= 3
    assert counts["scored"] == 12 - counts["error"]
    (tmp_path / "die").unlink()
    resumed = lmassay("resume", "--results", tmp_path / "results")
    assert resumed.returncode == 0, resumed.stderr
    assert values(tmp_path / "results") == EXPECTED


def test_a_slow_worker_gets_less_work(tmp_path, cluster):
    slow = cluster.add_worker("--resources", "RACE=1", env={"PAUSE_OF_TEST": "1"})
    fast = cluster.add_worker("--resources", "RACE=1")
    try:
        model = own_model(tmp_path, resources={"RACE": 1})
        file = write_files(tmp_path, model, verb="generate", long=True)
        done = lmassay("run", file, "--results", tmp_path / "results", "--scheduler", cluster.address)
        assert done.returncode == 0, done.stderr
        assert values(tmp_path / "results") == EXPECTED
        by_process = Counter(process for _, process in requests_by_process(tmp_path))
        assert by_process[str(fast)] > by_process[str(slow)] > 0
    finally:
        cluster.remove_worker(slow)
        cluster.remove_worker(fast)


BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def test_a_worker_without_the_hf_extra_is_reported_with_the_pip_command(tmp_path, cluster):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(BLOCKER, encoding="utf-8")
    worker = cluster.add_worker("--resources", "BARE=1", env={"PYTHONPATH": str(tmp_path / "path")})
    try:
        model = {"name": "hf", "model": FIGURES_GPT2, "resources": {"BARE": 1}}
        file = write_files(tmp_path, model, verb="logprobs")
        done = lmassay("run", file, "--results", tmp_path / "results", "--scheduler", cluster.address)
        assert done.returncode == 2
        (line,) = [line for line in done.stderr.splitlines() if "pip install" in line]
        assert "worker " in line
        assert "pip install 'lmassay[hf]'" in line
        assert "Traceback" not in done.stderr
    finally:
        cluster.remove_worker(worker)
    resumed = lmassay("resume", "--results", tmp_path / "results")
    assert resumed.returncode == 0, resumed.stderr
    assert len(values(tmp_path / "results")) == 12


def test_a_worker_with_another_version_is_refused_with_both_versions(tmp_path, cluster):
    metadata = tmp_path / "path" / "lmassay-0.0.9.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: lmassay\nVersion: 0.0.9\n", encoding="utf-8")
    worker = cluster.add_worker(env={"PYTHONPATH": str(tmp_path / "path")})
    try:
        file = write_files(tmp_path, own_model(tmp_path), verb="generate")
        done = lmassay("run", file, "--results", tmp_path / "results", "--scheduler", cluster.address)
        assert done.returncode == 2
        assert f"has lmassay 0.0.9, this is {importlib.metadata.version('lmassay')}" in done.stderr
    finally:
        cluster.remove_worker(worker)


def test_resources_that_no_worker_has_are_reported_with_the_command(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(executors, "_SECONDS_TO_WAIT_FOR_WORKERS", 0.2)
    file = write_files(tmp_path, own_model(tmp_path, resources={"GPU": 2}), verb="generate")
    done = lmassay("run", file, "--results", tmp_path / "results", "--scheduler", cluster.address)
    assert done.returncode == 2
    command = f'dask worker {cluster.address} --nthreads 1 --memory-limit 0 --resources "GPU=2"'
    assert f"start some: {command}" in done.stderr


# --- a scheduler that disappears --------------------------------------------------------------------------------------


def test_a_scheduler_without_workers_and_one_that_disappears_are_reported_and_resume_finishes(tmp_path):
    with dask_cluster(tmp_path) as cluster:
        file = write_files(tmp_path, own_model(tmp_path, wait=0.3), verb="generate", long=True)
        without = lmassay("run", file, "--results", tmp_path / "other", "--scheduler", cluster.address)
        assert without.returncode == 2
        assert f"the cluster has no workers; start some: dask worker {cluster.address} --nthreads 1" in without.stderr
        cluster.add_worker()
        command = [sys.executable, "-m", "lmassay", "run", str(file), "--results", str(tmp_path / "results")]
        process = subprocess.Popen(
            [*command, "--scheduler", cluster.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 240
        while answers_in_store(tmp_path) < 1:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(cluster.scheduler.pid, signal.SIGKILL)
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 2
    assert "the Dask scheduler stopped, and what its workers were computing is lost" in errors
    assert "Traceback" not in errors
    stored, before = answers_in_store(tmp_path), len(requests_by_process(tmp_path))
    resumed = lmassay("resume", "--results", tmp_path / "results")
    assert resumed.returncode == 0, resumed.stderr
    assert values(tmp_path / "results") == EXPECTED
    # Answers that had arrived are not requested again.
    assert len(requests_by_process(tmp_path)) - before == 12 - stored
