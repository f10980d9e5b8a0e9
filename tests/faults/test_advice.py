"""Every hint that is printed is followed: the command in it does what the hint says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lmassay.storage.commands import command_on_results
from lmassay.storage.store import Store
from tests.evaluations.fewshot.toys import trained, write_sweep
from tests.helpers import lmassay, write_config, write_lines
from tests.servers import completion, failure, openai_server

MODEL = '''
from pathlib import Path

from lmassay import Model, Response

class Own(Model):
    """Does what the file next to it says, for as long as it is there."""

    name = "own"
    can = frozenset({"generate"})

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        order = Path(__file__).with_name("order")
        if order.exists() and order.read_text() == "stop":
            raise KeyboardInterrupt
        if order.exists() and order.read_text() == "too long":
            return [Response(finish="too_long") for request in requests]
        return [Response(request.prompt.upper()) for request in requests]
'''


def write_run(folder, **further):
    """A configuration of two attacks on the model above, in a folder with a space in its name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "own.py").write_text(MODEL, encoding="utf-8")
    write_lines(folder / "src.txt", [f"sentence {number} of a text" for number in range(6)])
    task = {"name": "robustness", "src": "src.txt", "attack": ["charswap", "homoglyph"]}
    return write_config(folder / "c.yaml", {"task": task, "model": "own.py:Own", "resamples": 100, **further})


def commands_in(text):
    """The commands that a message tells the user to run."""
    return [shlex.split(command) for command in re.findall(r": lmassay ([^\n;]+?)(?=;|$)", text, re.MULTILINE)]


def follow(text, cwd):
    """Run the only command in a message."""
    (command,) = commands_in(text)
    return lmassay(*command, cwd=cwd)


def statuses(folder):
    with Store(folder) as store:
        return [record.status for record in store.runs()]


@pytest.mark.parametrize("results", [[], ["--results", "my results"]])
def test_after_ctrl_c_in_a_sweep_one_command_finishes_all_runs(tmp_path, results):
    write_run(tmp_path)
    (tmp_path / "order").write_text("stop")
    stopped = lmassay("run", "c.yaml", *results, cwd=tmp_path)
    assert stopped.returncode == 130, stopped.stderr
    (tmp_path / "order").unlink()
    done = follow(stopped.stderr, tmp_path)
    assert done.returncode == 0, done.stderr
    assert statuses(tmp_path / (results or ["", "results"])[1]) == ["done", "done"]


def test_after_ctrl_c_in_a_single_run_the_command_finishes_it(tmp_path):
    write_run(tmp_path)
    (tmp_path / "order").write_text("stop")
    stopped = lmassay("run", "c.yaml", "--only", "attack=charswap", cwd=tmp_path)
    assert stopped.returncode == 130, stopped.stderr
    (tmp_path / "order").unlink()
    assert follow(stopped.stderr, tmp_path).returncode == 0
    assert statuses(tmp_path / "results") == ["done"]


def paid(folder, url, budget, attacks=("charswap", "homoglyph")):
    write_run(folder)
    task = {"name": "robustness", "src": "src.txt", "attack": list(attacks)}
    model = {"name": "openai", "base_url": url, "model": "m", "concurrency": 1, "tries": 2, "wait": 0.01}
    model["prices"] = {"input": 1e5, "output": 1e5}
    config = {"task": task, "model": model, "resamples": 100}
    if budget:
        config["budget"] = budget
    return write_config(folder / "paid.yaml", config)


@pytest.mark.parametrize("budget", [{"usd": 2.0}, {"tokens": 20}, {"usd": 2.0, "tokens": 1_000}])
@pytest.mark.parametrize("attacks", [("charswap",), ("charswap", "homoglyph")])
def test_after_a_spent_budget_the_command_with_a_larger_one_goes_on(tmp_path, budget, attacks):
    # Each answer has 5 tokens, which cost half a USD; a run has 6 sentences and their 6 attacked forms.
    with openai_server(lambda *_: completion("x")) as server:
        paid(tmp_path, server.url, budget, attacks)
        done = lmassay("run", "paid.yaml", cwd=tmp_path)
        rounds = 0
        while done.returncode == 1 and rounds < 6:
            assert "try again" not in done.stderr
            stopped = re.search(r"error: .*larger budget: .*", done.stderr)[0]
            before = len(server.bodies)
            done = follow(stopped, tmp_path)
            assert len(server.bodies) > before, "the larger budget allows more requests"
            rounds += 1
    assert rounds
    assert done.returncode == 0, done.stderr
    assert set(statuses(tmp_path / "results")) == {"done"}


def test_temporary_errors_are_tried_again(tmp_path):
    down = True
    with openai_server(lambda *_: failure(500) if down else completion("x")) as server:
        paid(tmp_path, server.url, None, ["charswap"])
        done = lmassay("run", "paid.yaml", cwd=tmp_path)
        assert done.returncode == 1
        assert "try again with" in done.stderr
        down = False
        assert follow(done.stderr, tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        (failure(400, "bad request"), "bad request"),
        (failure(401, "no"), "the key was refused"),
        (failure(402, "no"), "out of credit"),
        (failure(404, "no"), "no such model"),
        ((200, {}, b"[" * 5000), "levels deep"),
    ],
)
def test_permanent_errors_are_not_to_be_tried_again_as_they_are(tmp_path, reply, word):
    with openai_server(lambda *_: reply) as server:
        paid(tmp_path, server.url, None, ["charswap"])
        done = lmassay("run", "paid.yaml", cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert word in done.stderr
    assert "try again" not in done.stderr
    assert re.search(r"when (this|the cause) is fixed, continue with: lmassay resume", done.stderr)


def test_an_error_that_ends_every_run_of_a_sweep_is_reported_once_with_a_command_for_all(tmp_path):
    is_key_wrong = True
    with openai_server(lambda *_: failure(401, "bad key") if is_key_wrong else completion("x")) as server:
        paid(tmp_path, server.url, None, ["charswap", "homoglyph", "wordswap"])
        done = lmassay("run", "paid.yaml", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.count("the key was refused") == 1, done.stderr
        assert "check the environment variable" in done.stderr
        assert "the same error ended 2 further runs" in done.stderr
        is_key_wrong = False
        assert follow(done.stderr, tmp_path).returncode == 0
    assert statuses(tmp_path / "results") == ["done"] * 3


def test_a_corrected_plug_in_needs_a_new_run_and_an_unchanged_one_can_be_resumed(tmp_path):
    write_run(tmp_path)
    crash = 'if order.exists(): raise RuntimeError("the server is down")\n        if order.exists()'
    (tmp_path / "own.py").write_text(MODEL.replace("if order.exists()", crash, 1), encoding="utf-8")
    (tmp_path / "order").write_text("x")
    failed = lmassay("run", "c.yaml", "--only", "attack=charswap", cwd=tmp_path)
    assert failed.returncode == 2
    assert "if you correct the plug-in, start a new run, which reuses the answers" in failed.stderr
    # What is printed about the run has no header of an empty table.
    assert "metric" not in failed.stdout
    (tmp_path / "order").unlink()
    assert follow(failed.stderr, tmp_path).returncode == 0
    (tmp_path / "own.py").write_text(MODEL, encoding="utf-8")
    assert lmassay("run", "c.yaml", "--only", "attack=charswap", cwd=tmp_path).returncode == 0
    assert statuses(tmp_path / "results") == ["done"] * 2


def test_a_window_that_is_too_small_is_named_with_no_command_that_cannot_help(tmp_path):
    write_run(tmp_path)
    (tmp_path / "order").write_text("too long")
    done = lmassay("run", "c.yaml", "--only", "attack=charswap", cwd=tmp_path)
    assert done.returncode == 1
    assert "6 × no answer: too_long" in done.stderr
    assert not commands_in(done.stderr)
    assert "6 × no answer: too_long" in lmassay("show", "latest", cwd=tmp_path).stdout


def test_failed_trainings_are_repeated_only_on_request(tmp_path):
    done = lmassay("run", write_sweep(tmp_path, fail="2/"), "--results", tmp_path / "results")
    assert done.returncode == 1
    assert len(trained(tmp_path)) == 8
    again = lmassay("resume", "--results", tmp_path / "results")
    assert again.returncode == 1
    assert "the loss became NaN" in again.stderr
    assert len(trained(tmp_path)) == 8, "a failed training was repeated without being asked for"
    (command,) = commands_in(again.stderr)
    assert "--retry-failed" in command
    assert lmassay(*command).returncode == 1
    assert len(trained(tmp_path)) == 10


def test_a_full_disk_is_reported_once_and_the_command_in_it_finishes_all_runs(tmp_path):
    resource = pytest.importorskip("resource", reason="this system cannot limit the size of files")
    attacks = ["charswap", "homoglyph", "wordswap", "worddrop"]
    write_run(tmp_path, task={"name": "robustness", "src": "src.txt", "attack": attacks})
    lines = [f"sentence {number} {'of a long text ' * 40}" for number in range(200)]
    write_lines(tmp_path / "src.txt", lines)
    limit = 200_000
    done = subprocess.run(
        [sys.executable, "-m", "lmassay", "run", "c.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("disk is full or the file may not grow") == 1, done.stderr
    assert "further runs not started" in done.stderr
    resumed = follow(done.stderr, tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert statuses(tmp_path / "results") == ["done"] * 4


def test_commands_name_the_results_folder_only_if_it_is_needed(monkeypatch):
    monkeypatch.delenv("LMASSAY_RESULTS", raising=False)
    assert command_on_results(Path("results"), "resume") == "lmassay resume"
    assert command_on_results(Path("a b"), "resume", "R") == "lmassay resume R --results 'a b'"
    monkeypatch.setenv("LMASSAY_RESULTS", "a b")
    assert command_on_results(Path("a b"), "resume") == "lmassay resume"
    assert command_on_results(Path("results"), "resume") == "lmassay resume --results results"
