"""Trainings side by side: the same numbers on one worker or many, and nothing lost or done twice when one dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lmassay.running import executors
from lmassay.storage.store import Store
from lmassay.types import Score
from tests.evaluations.fewshot.toys import trained, write_sweep
from tests.faults.test_crash import answers_in_store
from tests.helpers import lmassay


def numbers(folder: Path) -> dict[str, Any]:
    """Status, results and rows of all runs, by label."""
    with Store(folder / "results") as store:
        results_of: dict[str, Any] = {}
        for record in store.runs():
            results_of[record.label] = (
                record.status,
                record.results,
                [(row.example.id, without_cost(row.score)) for row in store.rows(record.id)],
            )
        return results_of


def without_cost(score: Score) -> Score:
    """The seconds that a training took are never the same twice."""
    return replace(score, details={key: value for key, value in score.details.items() if key != "cost"})


def plain(results_of: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Labels show the method's options, which name the folder."""
    return {label.replace(str(folder), "HERE"): rest for label, rest in results_of.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, Any]:
    """The unbroken sweep in one process."""
    folder = tmp_path_factory.mktemp("whole")
    done = lmassay("run", write_sweep(folder), "--results", folder / "results")
    assert done.returncode == 0, done.stderr
    assert len(trained(folder)) == 8
    return plain(numbers(folder), folder)


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A real scheduler with two workers, each watched by a nanny that replaces it when it dies."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
    ) as local_cluster:
        yield local_cluster.scheduler_address


def started(folder: Path, file: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lmassay", "run", str(file), "--results", str(folder / "results"), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(condition: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_for_end(pid: int) -> None:
    """Wait until a process that is no child of ours is gone; one that nobody has buried yet counts as gone."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError(f"the process {pid} is still there")


@pytest.mark.fault(38)
def test_two_processes_give_the_numbers_of_one(tmp_path, whole):
    done = lmassay("run", write_sweep(tmp_path), "--results", tmp_path / "results", "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert plain(numbers(tmp_path), tmp_path) == whole
    assert len({line.split()[1] for line in (tmp_path / "log").read_text().splitlines()}) == 2


def test_a_dask_cluster_gives_the_numbers_of_one_process(tmp_path, whole, cluster):
    options = ("--executor", "dask", "--scheduler", cluster)
    done = lmassay("run", write_sweep(tmp_path), "--results", tmp_path / "results", *options)
    assert done.returncode == 0, done.stderr
    assert plain(numbers(tmp_path), tmp_path) == whole


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sweep_that_is_killed_is_finished_by_resume_and_only_open_trainings_run(tmp_path, whole, workers):
    file = write_sweep(tmp_path, wait=0.15)
    process = started(tmp_path, file, "--workers", str(workers))
    wait_until(lambda: answers_in_store(tmp_path) >= 3, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    # Workers whose parent is gone end within a moment; what they began is not counted as done.
    for pid in {int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines()}:
        wait_for_end(pid)
    kept, before = answers_in_store(tmp_path), trained(tmp_path)
    done = lmassay("resume", "--results", tmp_path / "results", "--workers", workers)
    assert done.returncode == 0, done.stderr
    assert plain({k.replace(" wait=0.15", ""): v for k, v in numbers(tmp_path).items()}, tmp_path) == whole
    again = trained(tmp_path)[len(before) :]
    assert len(again) == 8 - kept
    assert max(Counter(trained(tmp_path)).values()) <= 2


def test_a_worker_process_that_dies_is_replaced_and_its_training_redone(tmp_path, whole):
    (tmp_path / "die").write_text("once")
    file = write_sweep(tmp_path, die=str(tmp_path / "die"))
    done = lmassay("run", file, "--results", tmp_path / "results", "--workers", 2)
    assert done.returncode == 0, done.stderr
    repeated = {label.split(" die=")[0]: rest for label, rest in plain(numbers(tmp_path), tmp_path).items()}
    assert repeated == whole


def test_a_training_that_always_kills_its_process_is_an_error_and_the_others_go_on(tmp_path, whole):
    (tmp_path / "die").write_text("always")
    file = write_sweep(tmp_path, die=str(tmp_path / "die"))
    done = lmassay("run", file, "--results", tmp_path / "results", "--workers", 2)
    assert done.returncode == 1
    assert "died 2 times" in done.stderr
    with Store(tmp_path / "results") as store:
        by_weight = {record.config["task"]["method"]["weight"]: record for record in store.runs()}
        assert {w: record.status for w, record in by_weight.items()} == {
            1: "done",
            2: "done",
            13: "incomplete",
            28: "done",
        }
        assert store.count(by_weight[13].id)["error"] == 2


def test_a_dask_worker_that_dies_is_replaced_and_its_training_redone(tmp_path, whole, cluster):
    (tmp_path / "die").write_text("once")
    file = write_sweep(tmp_path, die=str(tmp_path / "die"))
    done = lmassay("run", file, "--results", tmp_path / "results", "--executor", "dask", "--scheduler", cluster)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "die").exists(), "no worker died"
    repeated = {label.split(" die=")[0]: rest for label, rest in plain(numbers(tmp_path), tmp_path).items()}
    assert repeated == whole


def test_a_training_that_fails_is_marked_and_the_sweep_goes_on(tmp_path):
    done = lmassay("run", write_sweep(tmp_path, fail="2/"), "--results", tmp_path / "results")
    assert done.returncode == 1
    assert "the loss became NaN" in done.stderr
    with Store(tmp_path / "results") as store:
        states = {r.config["task"]["method"]["weight"]: store.count(r.id) for r in store.runs()}
    assert states[2]["error"] == 2
    assert states[2]["scored"] == 0
    assert states[1]["scored"] == 2
    assert len(trained(tmp_path)) == 8, "a failed training was tried again"


@pytest.mark.fault(3)
def test_a_full_disk_in_a_training_is_reported(tmp_path):
    done = lmassay("run", write_sweep(tmp_path, fail="28/"), "--results", tmp_path / "results")
    assert done.returncode == 1
    assert "No space left on device" in done.stderr


def test_a_second_resume_beside_a_live_sweep_is_refused(tmp_path):
    file = write_sweep(tmp_path, gate=str(tmp_path / "open"))
    process = started(tmp_path, file)
    wait_until(lambda: trained(tmp_path), process)
    refused = lmassay("resume", "--results", tmp_path / "results")
    (tmp_path / "open").touch()
    process.communicate()
    assert refused.returncode == 2
    assert "another process is working on" in refused.stderr
    assert process.returncode == 0


def test_a_scheduler_that_is_not_there_is_reported_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "_SECONDS_TO_REACH_SCHEDULER", 0.5)
    done = lmassay("run", write_sweep(tmp_path), "--results", tmp_path / "results", "--scheduler", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "there is no Dask scheduler at tcp://127.0.0.1:9 (" in done.stderr
    assert "Traceback" not in done.stderr
