"""An inventory of the hints in the source: every command, option and extra that a message names exists."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache

import click
import pytest

from lmassay.cli import app
from lmassay.cli.commands import command_table
from lmassay.models.embedded import EMBEDDED
from lmassay.storage.store import Store
from tests.helpers import ROOT, lmassay, write_config, write_lines
from tests.servers import openai_server
from tests.source_texts import source_texts

# A command in a text, with words, placeholders and options behind it.
COMMAND = re.compile(r"(?<![.\w-])lmassay ((?:[a-z][a-z-]*)(?: (?:--?[a-z][a-z-]*|[A-Z]+|[a-z][a-z-]*|\{\}))*)")
# Words after the name of the program that are not commands.
NOT_COMMANDS = {
    *(
        "and",
        "because",
        "can",
        "cannot",
        "changes",
        "did",
        "does",
        "for",
        "has",
        "in",
        "is",
        "itself",
        "made",
        "objects",
        "of",
    ),
    *("neither", "or", "store", "the", "to", "was", "with", "writes", "wrote"),
}
# These have the options of the originals, which may be abbreviated.
COMPATIBILITY = {"fewnlu", "kobbq", "teapot", "tse"}


@cache
def texts() -> list[tuple[str, str]]:
    """Every text in the source that is not a docstring, with its place; a value in it is written ``{}``."""
    found = []
    for file, texts_of_file in source_texts().items():
        if "starters" in file.parts:
            # Files for users, who install commands with them.
            continue
        name = file.relative_to(ROOT)
        for text in texts_of_file:
            if not text.in_template:
                found.append((f"{name}, line {text.line}", text.filled("{}")))
    return found


def resolved(words: list[str]) -> tuple[click.Command, list[str]] | None:
    """The command that the words name, with subcommands, and the words after it; None if there is none."""
    command: click.Command = app
    context = click.Context(app)
    rest = list(words)
    while rest and isinstance(command, click.Group):
        inner = command.get_command(context, rest[0])
        if inner is None:
            return None if command is app else (command, rest)
        command = inner
        rest.pop(0)
    return command, rest


def hints():
    for place, text in texts():
        for match in COMMAND.finditer(text):
            words = match[1].split()
            if words[0] not in NOT_COMMANDS:
                yield place, words


def test_every_command_in_a_message_exists():
    problems = []
    count = 0
    for place, words in hints():
        if words[0] not in command_table().by_name:
            # "lmassay report" is a heading, "lmassay card" a command; a noun would be a mistake of this test.
            problems.append(f"{place}: lmassay {words[0]}")
        count += 1
    assert not problems
    assert count > 60


def test_every_option_in_a_message_is_one_of_its_command():
    problems = []
    for place, words in hints():
        found = resolved(words)
        if found is None or words[0] in COMPATIBILITY:
            continue
        command, rest = found
        known = {option for parameter in command.params for option in parameter.opts} | {"-h", "--help"}
        problems += [f"{place}: {' '.join(words)}" for word in rest if word.startswith("-") and word not in known]
    assert not problems


def test_every_extra_in_a_message_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    named = set()
    for _, text in texts():
        named.update(re.findall(r"lmassay\[([a-z]+)\]", text))
    assert named
    assert named <= extras


def test_every_model_that_is_to_be_fetched_is_known():
    named = set()
    for _, text in texts():
        named.update(re.findall(r"lmassay models get ([a-z0-9]+)", text))
    assert named
    assert named <= set(EMBEDDED)


# --- suggestions ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("user")
    write_lines(place / "src.txt", ["one two three", "four five six"])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    write_config(place / "right.yaml", {"task": task, "model": "echo", "resamples": 100})
    assert lmassay("run", "right.yaml", cwd=place).returncode == 0
    return place


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("shwo latest", "show latest"),
        ("show latest --jsn", "show latest --json"),
        ("report --format cvs -o -", "report --format csv -o -"),
        ("init robustnes -o new.yaml", "init robustness -o new.yaml"),
        ("check rigt.yaml", "check right.yaml"),
        ("check right.yaml --set task.atack=case", "check right.yaml --set task.attack=homoglyph"),
        ("check right.yaml --set task.attack=charswp", "check right.yaml --set task.attack=charswap"),
        ("check right.yaml --set model=ecko", "check right.yaml --set model=echo"),
        ("data show blmp", "data show blimp"),
    ],
)
def test_the_suggested_word_works(folder, wrong, right):
    refused = lmassay(*wrong.split(), cwd=folder)
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    meant = re.search(r"did you mean '([^']+)'", refused.stderr)[1]
    assert meant in re.split(r"[ =.]|(?<=right)(?=\.)", right) or meant in right.split()
    done = lmassay(*right.split(), cwd=folder)
    assert done.returncode == 0, done.stderr


def test_a_budget_stops_a_sweep_and_the_hint_finishes_all_of_it(tmp_path):
    write_lines(tmp_path / "src.txt", ["three sentences with long words", "another sentence", "something else"])
    task = {"name": "robustness", "src": "src.txt", "attack": ["charswap", "delete"]}
    with openai_server() as server:
        model = {"name": "openai", "base_url": server.url, "model": "m", "concurrency": 1}
        write_config(tmp_path / "c.yaml", {"task": task, "model": model})
        stopped = lmassay("run", "c.yaml", "--budget-tokens", "1", cwd=tmp_path)
        assert stopped.returncode == 1
        waiting = [run["run"] for run in runs_of(tmp_path) if run["status"] == "waiting"]
        assert len(waiting) == 1
        assert f"waiting: {waiting[0].rpartition('-')[2]}" in stopped.stdout
        # The server was not running, say, when the second run began.
        with Store(tmp_path / "results") as store:
            store.set_status(waiting[0], "failed", "no server answers")
        stopped = lmassay("resume", "--budget-tokens", "2", cwd=tmp_path)
        hint = re.search(r"to continue with a larger budget: lmassay (resume .*)", stopped.stderr)[1]
        words = hint.split()
        words[words.index("--budget-tokens") + 1] = "1000"
        assert lmassay(*words, cwd=tmp_path).returncode == 0
    assert {run["status"] for run in runs_of(tmp_path)} == {"done"}


def test_resume_names_unfinished_runs_of_earlier_commands(tmp_path):
    write_lines(tmp_path / "src.txt", ["three sentences with long words", "another sentence"])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    for seed in (0, 1):
        write_config(tmp_path / "c.yaml", {"task": task, "model": "echo", "seed": seed})
        assert lmassay("run", "c.yaml", cwd=tmp_path).returncode == 0
    first, _ = (run["run"] for run in runs_of(tmp_path))
    with Store(tmp_path / "results") as store:
        store.set_status(first, "interrupted", "its process died")
    done = lmassay("resume", cwd=tmp_path)
    assert done.returncode == 0
    assert f"1 run of other commands is unfinished; continue with: lmassay resume {first}" in done.stderr


def test_a_new_limit_in_usd_keeps_the_limit_in_tokens(tmp_path):
    write_lines(tmp_path / "src.txt", ["three sentences with long words", "another sentence"])
    with openai_server() as server:
        prices = {"input": 1, "output": 1}
        model = {"name": "openai", "base_url": server.url, "model": "m", "concurrency": 1, "prices": prices}
        task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
        write_config(tmp_path / "c.yaml", {"task": task, "model": model, "budget": {"usd": 1, "tokens": 1}})
        assert lmassay("run", "c.yaml", cwd=tmp_path).returncode == 1
        stopped = lmassay("resume", "--budget-usd", "2", cwd=tmp_path)
        assert stopped.returncode == 1
        assert "--budget-usd 4 --budget-tokens 2" in stopped.stderr
        assert lmassay("resume", "--budget-tokens", "1000", cwd=tmp_path).returncode == 0
    assert {run["status"] for run in runs_of(tmp_path)} == {"done"}


def runs_of(folder):
    return json.loads(lmassay("ls", "--json", cwd=folder).stdout)["runs"]
