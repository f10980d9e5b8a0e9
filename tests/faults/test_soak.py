"""The soak in its short form, and that it would notice what it looks for."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from lmassay.contracts import ask
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.types import Generate
from tests.faults import soak
from tests.faults.chaos import FAULTS, Behaviour, ChaosServer, chaos_server
from tests.helpers import lmassay

pytestmark = pytest.mark.skipif(not hasattr(soak.signal, "SIGKILL"), reason="needs SIGKILL")
SHORT = soak.Options(requests=400, concurrency=16, seed=5, kills=1)


@pytest.mark.fault(3)
@pytest.mark.slow
def test_a_run_with_faults_a_kill_and_a_full_disk_equals_one_without(tmp_path):
    lines: list[str] = []
    problems = soak.soak(SHORT, tmp_path, lines.append)
    assert problems == [], "\n".join(lines)


def test_two_servers_with_one_seed_misbehave_in_the_same_way():
    prompts = [f"prompt {number}" for number in range(2000)]
    first, second, other = (ChaosServer(Behaviour(seed=seed, rate=0.3)) for seed in (1, 1, 2))
    replies = [first.reply(prompt) for prompt in prompts]
    assert [second.reply(prompt) for prompt in reversed(prompts)][::-1] == replies
    assert [other.reply(prompt) for prompt in prompts] != replies


def test_the_server_has_at_least_twenty_kinds_of_faults_at_the_rate_that_was_asked_for():
    server = ChaosServer(Behaviour(seed=3, rate=0.05, odd_rate=0.0))
    for number in range(20_000):
        server.reply(f"prompt {number}")
    assert len(FAULTS) == len(server.faults) >= 20
    assert 0.045 < server.faults.total() / server.requests < 0.055


def test_a_prompt_that_is_answered_twice_is_counted():
    server = ChaosServer(Behaviour(rate=0.0))
    for prompt in ("a", "b", "a"):
        server.reply(prompt)
    assert (server.requests, server.answered_twice) == (3, 1)


def test_a_lost_row_is_noticed(tmp_path):
    folder = tmp_path / "run"
    with chaos_server(Behaviour(rate=0.0)) as server:
        file = soak.write_task(folder, server.url, soak.Options(requests=20))
        for name in ("whole", "broken"):
            done = lmassay("run", file, "--results", tmp_path / name)
            assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(tmp_path / "broken" / soak.STORE_FILE, isolation_level=None)) as database:
        database.execute("DELETE FROM rows WHERE position = 3")
        database.execute("DELETE FROM digests WHERE part = 'rows'")
    problems = _compared(tmp_path)
    assert any("rows" in problem for problem in problems)


def _compared(folder) -> list[str]:
    work = soak.Soak(folder, soak.Options(requests=20), lambda _: None)
    work._check_rows(folder / "whole", folder / "broken")
    return work.problems


def test_growing_memory_is_noticed():
    segment = soak.Segment("run", requests=100_000, samples=[(n * 1000, 100 + n) for n in range(101)])
    flat = soak.Segment("run", requests=100_000, samples=[(n * 1000, 100.0) for n in range(101)])
    assert segment.growth() == pytest.approx(100)
    assert flat.growth() == pytest.approx(0)
    jump = soak.Segment("run", requests=100_000, samples=[(n * 1000, 100 + 200 * (n > 50)) for n in range(101)])
    assert jump.growth() > soak.LARGEST_GROWTH
    work = soak.Soak(None, soak.Options(), lambda _: None)
    work._check_memory([flat, flat])
    assert work.problems == []
    work._check_memory([flat, segment])
    assert len(work.problems) == 1


def test_a_jump_of_memory_is_reported_with_the_libraries_that_were_loaded():
    program = (
        "import sys, time; print(flush=True); input(); import numpy; x = b'x' * (64 << 20); print(flush=True); input()"
    )
    command = [soak.sys.executable, "-c", program]
    pipe = soak.subprocess.PIPE
    with soak.subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        segment = soak.Segment("run")
        for requests in (0, 1000):
            process.stdout.readline()
            segment.add_sample(requests, soak.psutil.Process(process.pid))
            process.stdin.write("\n")
            process.stdin.flush()
    jump = segment.jumps[-1]
    assert jump.requests == 1000
    assert jump.megabytes > 64
    assert any("multiarray" in name for name in jump.libraries)
    assert "libraries loaded" in str(jump)


def test_a_disk_that_is_full_refuses_to_grow(tmp_path):
    disk = soak.Disk(tmp_path / "disk")
    try:
        (disk.folder / "results").mkdir()
        (disk.folder / "results" / soak.STORE_FILE).write_bytes(b"x" * 5000)
        disk.fill(8192)
        program = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_bytes(b'x' * 100_000)"
        command = [soak.sys.executable, "-c", program, str(disk.folder / "file")]
        run = soak.subprocess.run
        assert run(command, preexec_fn=disk.limit_process, capture_output=True, check=False).returncode != 0
        disk.free()
        assert run(command, preexec_fn=disk.limit_process, check=False).returncode == 0
    finally:
        disk.close()


def test_the_command_reads_its_options(capsys, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(soak, "soak", lambda options, folder, report: seen.append(options) or ["a problem"])
    assert soak.main(["--requests", "10", "--seed", "9", "--keep", str(tmp_path / "kept")]) == 1
    assert (seen[0].requests, seen[0].seed, seen[0].concurrency) == (10, 9, 64)
    assert "1 problems" in capsys.readouterr().out


def test_all_prompts_reach_the_server():
    with chaos_server(Behaviour(rate=0.0, odd_rate=0.0)) as server:
        model = OpenAICompatible(model="m", base_url=server.url, concurrency=8)
        answers = dict(ask(model, "generate", [Generate(f"q {number}") for number in range(50)]))
    assert Counter(answer.text for answer in answers.values()) == Counter(f"Q {number}" for number in range(50))
