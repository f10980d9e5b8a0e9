"""No stale results: whatever a plug-in is made from is part of the key of its answers and of the run's signature."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmassay import __version__
from lmassay.api import evaluate
from lmassay.plugins.registry import Registry, current_registry
from lmassay.running.trainings import run_training
from lmassay.storage.store import Store
from tests.evaluations.fewshot.toys import METHOD, trained, write_sweep
from tests.helpers import EVALUATIONS, lmassay, write_config, write_lines

TASK = """
from lmassay import Example, Generate, Score, Task


class Lengths(Task):
    name = "lengths"
    needs = frozenset({"generate"})

    def examples(self):
        yield from (Example(word, {}) for word in ("a", "bb", "ccc"))

    def requests(self, example):
        return [Generate(example.id)]

    def score(self, examples, responses):
        return [Score({"length": float(len(answers[0].text))}) for answers in responses]
"""
MODEL = """
from lmassay import Model


class Mine(Model):
    name = "mine"
    can = frozenset({"generate"})

    def __init__(self, fail: bool = False):
        self.fail = fail

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        import utils
        return [utils.answer(request.prompt) for request in requests]
"""
ONCE, TWICE = "def answer(text):\n    return text\n", "def answer(text):\n    return text * 2\n"


def write(folder: Path, **sources: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    return folder


def value(folder: Path, metric: str = "length", run: str = "latest") -> float | None:
    with Store(folder / "results") as store:
        return next(result.value for result in store.run(run).results if result.metric == metric)


def run(folder: Path, config: str = "c.yaml") -> None:
    done = lmassay("run", config, "--results", "results", cwd=folder)
    assert done.returncode == 0, done.stderr


def interrupt(folder: Path) -> str:
    """Make the latest run look like one that was broken off; its name."""
    with Store(folder / "results") as store:
        name = store.run("latest").id
        store.set_status(name, "cancelled")
    return name


def assert_not_resumed(folder: Path) -> None:
    done = lmassay("resume", interrupt(folder), "--results", "results", cwd=folder)
    assert done.returncode == 2, done.stdout
    assert "have changed since it began" in done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, task=TASK, model=MODEL, utils=ONCE)
    write_config(tmp_path / "c.yaml", {"task": "task.py:Lengths", "model": "model.py:Mine", "resamples": 100})
    return tmp_path


@pytest.mark.fault(19)
def test_answers_are_not_reused_after_a_module_next_to_the_plug_in_has_changed(folder):
    run(folder)
    assert value(folder) == 2
    write(folder, utils=TWICE)
    run(folder)
    assert value(folder) == 4


def test_a_notebook_uses_the_edited_module_in_its_next_run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with Registry(current_registry()).active():
        values = []
        for source in (ONCE, TWICE):
            write(folder, utils=source)
            (done,) = evaluate("c.yaml", "results")
            values.append(done["length"].value)
    assert values == [2, 4]


def test_a_run_is_not_resumed_after_a_module_next_to_the_plug_in_has_changed(folder):
    run(folder)
    write(folder, utils=ONCE + "\n")
    assert_not_resumed(folder)


def test_a_run_is_resumed_if_nothing_has_changed(folder):
    run(folder)
    write(folder, unrelated="x = 1\n")
    done = lmassay("resume", interrupt(folder), "--results", "results", cwd=folder)
    assert done.returncode == 0, done.stderr


def test_a_run_is_not_resumed_after_a_module_of_its_own_task_has_changed(folder):
    write(folder, task=f"import scoring\n{TASK}", scoring="x = 1\n")
    run(folder)
    write(folder, scoring="x = 2\n")
    assert_not_resumed(folder)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from model import Mine\nimport extra\n", "Mine"),
        ("import extra\nfrom lmassay.models.echo import Echo\ndef make():\n    return Echo()\n", "make"),
    ],
    ids=["a class that the file imports", "a function that makes a model"],
)
def test_the_file_that_a_configuration_names_always_counts(folder, source, name):
    write(folder, named=source, extra="x = 1\n")
    write_config(folder / "c.yaml", {"task": "task.py:Lengths", "model": f"named.py:{name}", "resamples": 100})
    run(folder)
    write(folder, extra="x = 2\n")
    assert_not_resumed(folder)


READER = """
from pathlib import Path

from lmassay import Model, data_file


class Mine(Model):
    name = "mine"
    can = frozenset({"generate"})

    def __init__(self):
        self.words = data_file(Path(__file__).parent / "words.txt")

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        return [self.words.read_text(encoding="utf-8")] * len(requests)
"""


def test_answers_are_not_reused_after_a_file_has_changed_that_is_read_through_lmassay(folder):
    write(folder, model=READER)
    (folder / "words.txt").write_text("one", encoding="utf-8")
    run(folder)
    assert value(folder) == 3
    (folder / "words.txt").write_text("three", encoding="utf-8")
    assert_not_resumed(folder)
    run(folder)
    assert value(folder) == 5


def test_a_data_file_that_is_not_there_is_an_error(folder):
    write(folder, model=READER)
    done = lmassay("check", "c.yaml", cwd=folder)
    assert done.returncode == 2
    assert "words.txt does not exist" in done.stderr


def test_a_run_is_not_resumed_after_a_file_has_changed_that_its_own_task_reads(folder):
    reading = TASK.replace('"lengths"\n', '"lengths"\n\n    def __init__(self):\n        data_file("words.txt")\n')
    write(folder, task=f"from lmassay import data_file\n{reading}")
    (folder / "words.txt").write_text("one", encoding="utf-8")
    run(folder)
    (folder / "words.txt").write_text("two", encoding="utf-8")
    assert_not_resumed(folder)


def test_a_run_is_not_resumed_after_a_module_of_its_own_scorer_has_changed(tmp_path):
    write(tmp_path, own="import utils\ndef same(hyp, ref):\n    return utils.x\n", utils="x = 1.0\n")
    write_lines(tmp_path / "src.txt", ["several wonderful people travelled through distant mountains together"])
    scorer = "from lmassay import scorer\nimport utils\n@scorer('same')\ndef same(hyp, ref):\n    return utils.x\n"
    write(tmp_path, own=scorer)
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap", "s_src": "own.py:same"}
    write_config(tmp_path / "c.yaml", {"task": task, "model": "echo", "resamples": 100})
    run(tmp_path)
    write(tmp_path, utils="x = 0.5\n")
    assert_not_resumed(tmp_path)


def test_two_folders_that_each_have_a_module_of_the_same_name_work_in_one_sweep(tmp_path):
    write(tmp_path, task=TASK)
    for name, source in (("one", ONCE), ("두 번째 폴더", TWICE)):
        write(tmp_path / name, model=MODEL, utils=source)
    models = ["one/model.py:Mine", "두 번째 폴더/model.py:Mine"]
    write_config(tmp_path / "c.yaml", {"task": "task.py:Lengths", "model": models, "resamples": 100})
    run(tmp_path)
    with Store(tmp_path / "results") as store:
        assert [record.results[0].value for record in store.runs()] == [2, 4]


def test_the_shipped_translator_is_asked_again_after_its_dictionary_has_changed(tmp_path):
    source = (EVALUATIONS / "robustness/sample/my_system.py").read_text(encoding="utf-8")
    write(tmp_path, my_system=source)
    dictionary = tmp_path / "dictionary.tsv"
    lines = (EVALUATIONS / "robustness/sample/dictionary.tsv").read_text(encoding="utf-8").splitlines()
    write_lines(dictionary, lines)
    write_lines(tmp_path / "src.fr", ["le chat mange la souris"])
    task = {"name": "robustness", "src": "src.fr", "attack": "charswap"}
    write_config(tmp_path / "c.yaml", {"task": task, "model": "my_system.py:MySystem", "resamples": 100})
    run(tmp_path)
    write_lines(dictionary, ["\t".join([line.split("\t")[0], "zzz"]) for line in lines])
    run(tmp_path)
    with Store(tmp_path / "results") as store:
        first, second = ([row.score.details for row in store.rows(record.id)] for record in store.runs())
    assert "zzz" in json.dumps(second)
    assert first != second


# --- trainings, in other processes ------------------------------------------------------------------------------------


def test_trainings_in_other_processes_use_the_modules_next_to_the_method(tmp_path):
    file = write_sweep(tmp_path, weight=[1, 2])
    write(tmp_path, toy=METHOD.replace("import os, time", "import os, time, utils"), utils="x = 1\n")
    done = lmassay("run", file, "--results", tmp_path / "results", "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert len(trained(tmp_path)) == 4
    lmassay("run", file, "--results", tmp_path / "results", "--workers", 2)
    assert len(trained(tmp_path)) == 4
    write(tmp_path, utils="x = 2\n")
    done = lmassay("run", file, "--results", tmp_path / "results", "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert len(trained(tmp_path)) == 8


def test_a_worker_does_not_train_with_code_that_is_not_that_of_the_run(tmp_path):
    write(tmp_path, model=MODEL, utils=ONCE)
    job = {
        "version": __version__,
        "model": {"spec": "model.py:Mine", "base_dir": str(tmp_path), "source": "src:01234567"},
        "identity": "{}",
        "base_dir": str(tmp_path),
        "trainer": "fewshot",
        "spec": {},
        "data_paths": {},
        "earlier": [],
    }
    assert "has changed since the run began; start a new run" in run_training(job)["error"]


def test_the_signature_says_with_which_correlation_intervals_of_repetitions_are_computed(tmp_path):
    lmassay("init", "fewshot", cwd=tmp_path)
    checked = lmassay("check", "fewshot.yaml", "--json", cwd=tmp_path)
    signatures = [run["signature"] for run in json.loads(checked.stdout)["runs"]]
    assert any("clusters=split,replicates=acc:0.5" in signature for signature in signatures)
