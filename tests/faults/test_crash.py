"""A run over a live server is killed in the middle and taken up again: nothing recorded is asked or paid for twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lmassay.storage.store import STORE_FILE, Store
from tests.helpers import lmassay, write_config, write_lines
from tests.servers import Reply, completion, failure, openai_server, prompt_of

SENTENCES = [f"sentence number {i} goes round the house" for i in range(120)]
CONCURRENCY = 4


def config(folder: Path, url: str) -> Path:
    write_lines(folder / "src.txt", SENTENCES)
    write_lines(folder / "ref.txt", [s.upper() for s in SENTENCES])
    task = {"name": "robustness", "src": "src.txt", "ref": "ref.txt", "attack": "charswap"}
    model = {"name": "openai", "base_url": url, "model": "m", "concurrency": CONCURRENCY, "wait": 0.01, "tries": 2}
    return write_config(folder / "config.yaml", {"task": task, "model": model, "resamples": 200})


def started(folder: Path, file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lmassay", "run", str(file), "--results", str(folder / "results")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answers_in_store(folder: Path) -> int:
    file = folder / "results" / STORE_FILE
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
            return db.execute("SELECT COUNT(*) FROM responses").fetchone()[0]
    except sqlite3.Error:
        return 0


def wait_for_answers(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while answers_in_store(folder) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def results_of(folder: Path):
    with Store(folder / "results") as store:
        record = store.run("latest")
        return record.status, record.results, list(store.rows(record.id))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The results of the run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    with openai_server() as server:
        assert lmassay("run", config(folder, server.url), "--results", folder / "results").returncode == 0
    return results_of(folder)


@pytest.mark.fault(1)
@pytest.mark.parametrize("when", [1, 60, 180])
def test_kill_minus_nine_then_resume_equals_an_unbroken_run_and_pays_nothing_twice(whole, tmp_path, when):
    broken = tmp_path / "broken"
    broken.mkdir()
    with openai_server(latency=0.01) as server:
        process = started(broken, config(broken, server.url))
        wait_for_answers(broken, when, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        recorded = answers_in_store(broken)
        asked_before = len(server.prompts)
        assert "interrupted" in lmassay("ls", "--results", broken / "results").stdout
        # The port must be the same, for the endpoint is part of the model's identity; so the server lives on.
        done = lmassay("resume", "latest", "--results", broken / "results")
        assert done.returncode == 0, done.stderr
        repeated = sum(count - 1 for count in Counter(server.prompts).values())
        # Only what was in flight at the moment of death, and so never recorded, can have been asked again.
        assert repeated <= asked_before - recorded <= CONCURRENCY
    assert results_of(broken) == whole


def chat_config(folder: Path, url: str) -> Path:
    """In-context learning in chat form: 2 splits, each of which asks about 8 dev and 30 test examples."""
    for name, count in (("train", 16), ("test", 30)):
        texts = [f"{name} text {number} was {('awful', 'lovely')[number % 2]}" for number in range(count)]
        rows = [f"{text},{number % 2}" for number, text in enumerate(texts)]
        write_lines(folder / f"{name}.csv", ["text,label", *rows])
    description = {
        "data": {"train": "train.csv", "dev": "test.csv"},
        "fields": ["text"],
        "label": "label",
        "labels": ["0", "1"],
        "patterns": ["{text} It was [mask]"],
        "words": {"0": "bad", "1": "good"},
    }
    write_config(folder / "texts.yaml", description)
    task = {"name": "fewshot", "data": "texts.yaml", "labelled": ["train"], "splits": {"k": 2}}
    task["method"] = {"name": "icl", "shots": 4}
    model = {"name": "openai", "base_url": url, "model": "m", "concurrency": CONCURRENCY}
    return write_config(folder / "config.yaml", {"task": task, "model": model})


def chat_answer(body: dict[str, Any], _: int) -> Reply:
    question = body["messages"][-1]["content"]
    if "text 7 " in question:
        return completion("Who knows?")
    return completion("good" if "lovely" in question else "bad")


def test_kill_minus_nine_of_a_chat_run_loses_no_answer_and_repeats_no_request(tmp_path):
    with openai_server(chat_answer, latency=0.01) as server:
        process = started(tmp_path, chat_config(tmp_path, server.url))
        wait_for_answers(tmp_path, 25, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        recorded = answers_in_store(tmp_path)
        asked_before = len(server.prompts)
        done = lmassay("resume", "latest", "--results", tmp_path / "results")
        assert done.returncode == 0, done.stderr
    requests = Counter(json.dumps(body["messages"]) for body in server.bodies)
    # Only requests that were in flight, and so had no recorded answer, may have been sent again.
    assert sum(requests.values()) - len(requests) <= asked_before - recorded <= CONCURRENCY
    status, results, _ = results_of(tmp_path)
    values = {result.metric: result.value for result in results if result.group == "overall"}
    assert status == "done"
    assert values["acc"] == 1.0
    assert values["ooc"] == pytest.approx(1 / 30)


@pytest.mark.fault(2)
def test_ctrl_c_says_how_to_go_on_and_exits_130(tmp_path):
    with openai_server(latency=0.01) as server:
        process = started(tmp_path, config(tmp_path, server.url))
        wait_for_answers(tmp_path, 20, process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 130, errors
        assert "lmassay resume" in errors
        assert "Traceback" not in errors
        assert results_of(tmp_path)[0] == "cancelled"
        assert lmassay("resume", "latest", "--results", tmp_path / "results").returncode == 0
        assert results_of(tmp_path)[0] == "done"


@pytest.mark.fault(10)
def test_an_example_that_fails_for_ever_is_an_error_and_the_exit_code_says_so(tmp_path):
    broken = SENTENCES[7]
    with openai_server(lambda body, _: failure(500) if prompt_of(body) == broken else completion("x")) as server:
        done = lmassay("run", config(tmp_path, server.url), "--results", tmp_path / "results")
    assert done.returncode == 1
    assert "1 example with errors" in done.stderr
    status, results, rows = results_of(tmp_path)
    assert status == "incomplete"
    assert (results[0].n, results[0].n_error) == (119, 1)
    assert "HTTP 500" in rows[7].error


@pytest.mark.fault(13)
def test_a_wrong_key_stops_the_run_at_the_first_call(tmp_path):
    with openai_server(lambda *_: failure(401, "bad key")) as server:
        done = lmassay("run", config(tmp_path, server.url), "--results", tmp_path / "results")
        assert len(server.bodies) == 1
    assert done.returncode == 2
    assert "the key was refused" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.fault(4)
def test_a_results_folder_that_cannot_be_written_is_reported_before_the_first_paid_call(tmp_path):
    (tmp_path / "file").touch()
    with openai_server() as server:
        done = lmassay("run", config(tmp_path, server.url), "--results", tmp_path / "file" / "results")
        assert server.bodies == []
    assert done.returncode == 2
    assert "cannot write to the results folder" in done.stderr


@pytest.mark.fault(45)
def test_the_key_is_in_no_file_log_or_page(tmp_path):
    key = "sentinel-key-0123456789"
    environment = {"OPENAI_API_KEY": key}
    with openai_server(
        lambda body, before: failure(400, f"no: {key}") if "7" in prompt_of(body) else completion("x")
    ) as server:
        file = config(tmp_path, server.url)
        done = lmassay("run", file, "--results", tmp_path / "results", env=environment)
    shown = lmassay("show", "latest", "--provenance", "--results", tmp_path / "results", env=environment)
    page = lmassay("report", "--results", tmp_path / "results", "-o", tmp_path / "page.html", env=environment)
    export = lmassay("export", "latest", "--results", tmp_path / "results", env=environment)
    for text in (done.stdout, done.stderr, shown.stdout, page.stderr, export.stdout):
        assert key not in text
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert key.encode() not in path.read_bytes(), path


@pytest.mark.fault(6)
def test_two_runs_may_share_a_results_folder_at_the_same_time(tmp_path):
    with openai_server(latency=0.002) as server:
        file = config(tmp_path, server.url)
        first, second = started(tmp_path, file), started(tmp_path, file)
        for process in (first, second):
            assert process.wait(timeout=300) == 0, process.communicate()
            process.communicate()
    with Store(tmp_path / "results") as store:
        one, two = store.runs()
        assert one.status == two.status == "done"
        assert one.results == two.results


@pytest.mark.fault(37)
def test_check_and_dry_run_touch_neither_network_nor_disk(tmp_path):
    with openai_server() as server:
        file = config(tmp_path, server.url)
        before = sorted(os.listdir(tmp_path))
        checked = lmassay("check", file, cwd=tmp_path)
        planned = lmassay("run", file, "--dry-run", cwd=tmp_path)
        assert server.bodies == []
    assert checked.returncode == planned.returncode == 0
    assert "240" in planned.stdout, "two requests for each of 120 sentences"
    assert sorted(os.listdir(tmp_path)) == before
