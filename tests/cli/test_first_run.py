"""What somebody meets who has just installed it: exit codes, streams, terminals, mistakes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from rich.cells import cell_len

from lmassay.cli.actions.doctor import _CORE, _evaluations, _extras
from lmassay.cli.commands import command_table
from tests.helpers import ROOT, lmassay, lmassay_process, write_config, write_lines
from tests.terminal import in_terminal

ESCAPE = "\x1b"
FULL = Path("/dev/full")
SLOW = """
import time
class Slow:
    name, can = "slow", frozenset({"generate"})
    def identity(self):
        return {"name": self.name}
    def generate(self, requests):
        for request in requests:
            open("asked", "a").close()
            time.sleep(0.05)
            yield request.prompt
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a configuration that was run."""
    place = tmp_path_factory.mktemp("user")
    write_lines(place / "src.txt", ["the cat sat on the mat", "a dog barked loudly"])
    task = {"name": "robustness", "src": "src.txt", "attack": ["charswap", "worddrop"]}
    write_config(place / "two.yaml", {"task": task, "model": "echo", "resamples": 200})
    (place / "deep.yaml").write_text(f"task: {'[' * 3000}", encoding="utf-8")
    done = lmassay("run", "two.yaml", cwd=place)
    assert done.returncode == 0, done.stderr
    return place


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command line in bash, with ``lmassay`` as a command. Prints the exit code of its first part last."""
    return subprocess.run(
        ["bash", "-c", f'lmassay() {{ "$PYTHON" -m lmassay "$@"; }}; {command}; echo "code ${{PIPESTATUS[0]}}"'],
        cwd=folder,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


# --- help and mistakes ------------------------------------------------------------------------------------------------


def test_the_help_shows_every_verb_in_a_section_and_the_exit_codes():
    help_text = lmassay_process("-h").stdout
    table = command_table()
    for title, verbs in table.sections.items():
        assert f"\n{title}:\n" in help_text
        for verb in verbs:
            assert re.search(rf"^  {verb.name} ", help_text, flags=re.MULTILINE), verb
    assert "130  stopped by Ctrl-C" in help_text
    assert len(table.by_name) == sum(map(len, table.sections.values()))


def test_the_help_says_in_what_forms_results_are_written():
    line_of_command = {line.split()[0]: line for line in lmassay("-h").stdout.splitlines() if line.startswith("  ")}
    for word in ("JSON Lines", "CSV", "lm-eval", "Every Eval Ever"):
        assert word in line_of_command["export"]
    for word in ("HTML", "Markdown", "LaTeX", "CSV", "figures"):
        assert word in line_of_command["report"]


def test_a_listing_can_be_narrowed_to_a_name():
    (row,) = json.loads(lmassay("scorers", "chrf", "--json").stdout)["scorers"]
    assert row["name"] == "chrf"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["crad"], "did you mean 'card'?"),
        (["kobbq", "expnd"], "did you mean 'expand'?"),
        (["run", "two.yaml", "--limt", "3"], "did you mean '--limit'?"),
        (["search", "two.yaml", "--sampler", "gird"], "did you mean 'grid'?"),
        (["init", "bais"], "did you mean 'bias'?"),
        (["scorers", "chfr"], "there is no scorer 'chfr'; did you mean 'chrf'?"),
        (["tasks", "robustnes"], "there is no task 'robustnes'; did you mean 'robustness'?"),
        (["methods", "pett"], "there is no method 'pett'; did you mean 'pet'?"),
        (["completion"], "Choose from: bash, zsh, fish"),
        (["run", "two.yaml", "--set", "task.atack=x"], "did you mean 'attack'?"),
        (["run", "two.yaml", "--set", "modle=x"], "did you mean 'model'?"),
        (["run", "two.yaml", "--set", "model=ecko"], "did you mean 'echo'?"),
        (["run", "two.yaml", "--set", "task.s_src=chfr"], "did you mean 'chrf'?"),
        (["run", "two.yaml", "--set", "task=robustnes"], "did you mean 'robustness'?"),
        (["run", "two.yaml", "--set", 'task.src="a\\0b"'], "task.src: this is not a path"),
        (["run", "two.yaml", "--set", "task.src=~nobody-of-that-name/x"], "task.src: this is not a path"),
        (["run", "two.yaml", "--limit", "x"], "help: lmassay run -h"),
        (["run", "two.yaml", "--results", "src.txt"], "src.txt"),
        (["run", "x" * 300], "File name too long"),
        (["run", "two.yaml", "--limit", "9" * 30], "limit: "),
        (["run", "two.yaml", "--set", "seed=2001-02-30"], "seed: "),
        (["run", "two.yaml", "--set", "task.side=sorce"], "did you mean 'source'?"),
        (["run", "two.yaml", "--set", f"task={'[' * 3000}"], "nested more than 40 levels deep"),
        (["check", "deep.yaml"], "nested more than 40 levels deep"),
        (["check", "/dev/zero"], "is not a configuration"),
        (["resume", "--budget-usd", "nan"], "--budget-usd nan"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_was_meant(folder, arguments, message):
    done = lmassay(*arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


# --- streams and signals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["ls", "ls --json", "export latest", "-h"])
def test_a_reader_that_stops_reading_is_no_error(folder, verb):
    done = shell(f"lmassay {verb} | true", folder)
    assert done.stderr == ""
    assert done.stdout in ("code 0\n", "code 1\n")


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["ls > /dev/full", "ls --json > /dev/full", "export latest -o /dev/full"])
def test_a_full_disk_is_reported_in_one_line(folder, command):
    done = shell(f"lmassay {command}", folder)
    assert done.stdout == "code 2\n"
    assert done.stderr.startswith("error: ")
    assert done.stderr.endswith("No space left on device\n")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "code"), [("ls >&-", 0), ("ls --results none 2>&-", 2), ("ls --results none 2> /dev/full", 2)]
)
def test_closed_and_full_streams_do_not_change_the_exit_code(folder, command, code):
    assert shell(f"lmassay {command}", folder).stdout.endswith(f"code {code}\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_run_that_is_stopped_can_be_taken_up_again(tmp_path, number, code):
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    write_lines(tmp_path / "src.txt", [f"sentence number {number}" for number in range(40)])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    write_config(tmp_path / "c.yaml", {"task": task, "model": "slow.py:Slow", "resamples": 200})
    process = subprocess.Popen(
        [sys.executable, "-m", "lmassay", "run", "c.yaml"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while not (tmp_path / "asked").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, error_output = process.communicate(timeout=300)
    assert process.returncode == code
    assert "lmassay resume" in error_output
    assert "Traceback" not in error_output
    (run,) = json.loads(lmassay("ls", "--json", cwd=tmp_path).stdout)["runs"]
    assert run["status"] == "cancelled"
    assert lmassay("resume", cwd=tmp_path).returncode == 0


# --- terminals --------------------------------------------------------------------------------------------------------


def test_a_terminal_has_colours_unless_told_otherwise(folder):
    assert f"{ESCAPE}[1;31merror: {ESCAPE}[0m" in in_terminal("show", "none", cwd=folder).screen
    assert "31m" not in in_terminal("show", "none", cwd=folder, env={"NO_COLOR": "1"}).screen
    assert ESCAPE not in in_terminal("show", "none", cwd=folder, env={"TERM": "dumb"}).screen


def test_what_is_no_terminal_has_neither_colours_nor_bars(folder):
    for arguments in (["run", "two.yaml"], ["ls"], ["show", "none"], ["doctor"]):
        done = lmassay(*arguments, cwd=folder)
        assert ESCAPE not in done.stdout + done.stderr
        assert "━" not in done.stdout + done.stderr
    assert ESCAPE in lmassay("show", "none", cwd=folder, env={"FORCE_COLOR": "1"}).stderr


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_narrow_terminals_show_everything_without_running_over(folder, columns):
    listed, shown = (
        re.sub(rf"{ESCAPE}\[[0-9;]*m", "", in_terminal(*arguments, cwd=folder, columns=columns).screen)
        for arguments in (["ls"], ["show", "latest"])
    )
    for words in ("robustness", "echo", "done", "success", "[0."):
        assert words in listed, words
    assert "s_src.std" in shown
    assert "unscored" in shown
    head, *table, hint = shown.splitlines()
    # Whoever copies these lines wants them whole: it is the terminal that breaks them.
    assert "robustness: worddrop on echo" in head
    assert hint.endswith("to list them: lmassay ls")
    assert len(table) > 8
    for line in (*listed.splitlines(), *table):
        assert cell_len(line) <= columns, line


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_any_encoding_of_the_console_will_do(folder, encoding):
    done = lmassay_process("doctor", cwd=folder, env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
    assert done.returncode == 0, done.stderr
    assert ("PYTHONUTF8=1" in done.stdout) == (encoding != "utf-8")


# --- doctor -----------------------------------------------------------------------------------------------------------


def test_doctor_knows_every_package_that_an_extra_brings():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.compile(r"^[A-Za-z0-9-]+")
    findings = [*_extras(), *_evaluations()]
    for extra, packages in project["optional-dependencies"].items():
        if extra not in ("all", "test", "dev", "docs"):
            wanted = {match[0] for text in packages if (match := named.match(text)) and match[0] != "lmassay"}
            shown = {package for package in wanted if any(f"({package})" in finding.what for finding in findings)}
            assert shown == wanted, extra
    core = {text.partition(">")[0] for text in project["dependencies"]}
    assert set(_CORE) == core


def test_doctor_ends_with_what_to_do_next(folder):
    done = lmassay("doctor", cwd=folder)
    assert "next: " in done.stderr
    assert "lmassay card" in done.stderr
    finding_of = {row["what"]: row for row in json.loads(lmassay("doctor", "--json", cwd=folder).stdout)["findings"]}
    assert "GB free" in finding_of["results folder"]["found"]
    assert "GB free" in finding_of["model cache"]["found"]
    assert finding_of["terminal"]["found"].startswith("none, ")


def test_doctor_says_what_is_broken(folder):
    done = lmassay("doctor", cwd=folder, env={"LMASSAY_RESULTS": str(folder / "src.txt" / "results")})
    assert done.returncode == 1
    assert "set LMASSAY_RESULTS" in done.stdout
    assert "first fix what is broken: results folder" in done.stderr


def test_the_plan_of_runs_without_a_model_has_a_dash(tmp_path):
    assert lmassay("init", "fewshot", cwd=tmp_path).returncode == 0
    plan = lmassay("check", "fewshot.yaml", cwd=tmp_path)
    assert re.search(r"^fewshot +reviews majority +– +4 +0 *$", plan.stdout, flags=re.MULTILINE), plan.stdout
