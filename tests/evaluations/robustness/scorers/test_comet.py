"""COMET in another environment: the worker is a real process, and only the package that it imports stands in."""

import json
import sys

import pytest

from lmassay import evaluate
from lmassay.errors import UserError
from lmassay.evaluations.robustness.scorers.base import ScorerError
from lmassay.evaluations.robustness.scorers.comet import COMET
from tests.helpers import EVALUATIONS, lmassay, write_config, write_lines

# As unbabel-comet: it prints while it works, and its scores may exceed 1.
PACKAGE = """
import os

def load_from_checkpoint(path):
    print("Lightning automatically upgraded your loaded checkpoint")
    if os.path.getsize(path) == 0:
        raise EOFError("Ran out of input")
    return Model()

class Model:
    def predict(self, samples, batch_size, gpus, progress_bar):
        print("Predicting:", len(samples))
        scores = []
        for sample in samples:
            if sample["mt"] == "die":
                os.write(2, b"Killed by the kernel\\n")
                os._exit(9)
            if sample["mt"] == "overflow":
                return {"scores": [float("nan")]}
            if sample["mt"] == "fail":
                raise RuntimeError("CUDA out of memory")
            same = len(set(sample["mt"].split()) & set(sample["ref"].split()))
            scores.append(same / len(sample["ref"].split()) + 0.1 * (sample["src"] == "eins zwei"))
        return {"scores": scores, "system_score": sum(scores) / len(scores)}
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The Python of an environment that has the package."""
    folder = tmp_path_factory.mktemp("environment")
    (folder / "comet").mkdir()
    (folder / "comet" / "__init__.py").write_text(PACKAGE, encoding="utf-8")
    metadata = folder / "unbabel_comet-2.2.7.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: unbabel-comet\nVersion: 2.2.7\n", encoding="utf-8")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return python


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "model.ckpt"
    path.write_bytes(b"weights")
    return path


def test_sources_translations_and_references_reach_the_model(environment, checkpoint):
    comet = COMET(checkpoint, environment)
    scores = comet.score_with_sources(
        ["one two", "one three", "one two"], ["one two"] * 3, ["uno due", "eins zwei", "eins zwei"]
    )
    # The last one would be 1.1.
    assert scores == pytest.approx([1.0, 0.6, 1.0])
    assert comet.signature.startswith("COMET(model:model|sha:")
    assert comet.signature.endswith("|version:2.2.7)")


def test_the_package_is_found_if_python_does_not_search_the_folder_of_a_script(environment, checkpoint, monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert COMET(checkpoint, environment).score_with_sources(["a b"], ["a b"], ["x"]) == [1.0]


def test_one_process_answers_all_requests(environment, checkpoint):
    comet = COMET(checkpoint, environment)
    for _ in range(3):
        comet.score_with_sources(["a\u2028b"], ["a b"], ["x"])
    assert comet.score_with_sources([], [], []) == []
    assert comet._worker is comet._worker


def test_the_process_ends_with_the_scorer(environment, checkpoint):
    comet = COMET(checkpoint, environment)
    comet.score_with_sources(["a"], ["a"], ["x"])
    process = comet._worker._process
    del comet
    assert process.poll() is not None


def test_an_error_of_the_package_is_reported_and_the_next_request_works(environment, checkpoint):
    comet = COMET(checkpoint, environment)
    with pytest.raises(ScorerError, match="comet failed: RuntimeError: CUDA out of memory"):
        comet.score_with_sources(["fail"], ["a"], ["x"])
    assert comet.score_with_sources(["a"], ["a"], ["x"]) == [1.0]


def test_a_score_that_is_not_a_number_is_an_error_and_not_0(environment, checkpoint):
    comet = COMET(checkpoint, environment)
    with pytest.raises(ScorerError, match="COMET gave nan"):
        comet.score_with_sources(["overflow"], ["a"], ["x"])


def test_a_process_that_dies_is_an_error_with_its_last_words(environment, checkpoint):
    comet = COMET(checkpoint, environment)
    with pytest.raises(ScorerError, match="the program ended: Killed by the kernel"):
        comet.score_with_sources(["die"], ["a"], ["x"])
    with pytest.raises(ScorerError, match="the program ended"):
        comet.score_with_sources(["a"], ["a"], ["x"])


def test_a_process_that_prints_something_else_is_an_error_and_not_waited_for(environment, checkpoint, tmp_path):
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\necho 2.2.7\n[ "$1" = -c ] || exec "{environment}" "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    with pytest.raises(ScorerError, match=r"comet cannot load the model: wrapper printed '2\.2\.7' instead"):
        COMET(checkpoint, wrapper).score_with_sources(["a"], ["a"], ["x"])


def test_a_checkpoint_that_cannot_be_loaded_is_reported(environment, tmp_path):
    (tmp_path / "empty.ckpt").touch()
    with pytest.raises(ScorerError, match="comet cannot load the model: EOFError: Ran out of input"):
        COMET(tmp_path / "empty.ckpt", environment).score_with_sources(["a"], ["a"], ["x"])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "needs a checkpoint and an environment with unbabel-comet"),
        ({"model": "none.ckpt"}, "there is no checkpoint none.ckpt"),
        ({"model": __file__}, "requires transformers below 5; install it in another environment"),
        ({"model": __file__, "python": "/no/such/python"}, "cannot be run"),
    ],
)
def test_what_is_missing_is_said_before_the_run(options, complaint):
    with pytest.raises(UserError, match=complaint):
        COMET(**options).check()


def test_sources_are_required():
    with pytest.raises(UserError, match="also reads the source"):
        COMET().score(["a"], ["a"])


def config(folder, environment, checkpoint, **task):
    write_lines(folder / "src.txt", ["eins zwei", "drei vier"])
    write_lines(folder / "ref.txt", ["EINS ZWEI", "DREI VIER"])
    comet = {"name": "comet", "model": str(checkpoint), "python": str(environment)}
    task = {
        "name": "robustness",
        "src": "src.txt",
        "ref": "ref.txt",
        "attack": {"name": "delete", "rate": 1.0},
        "s_tgt": comet,
        **task,
    }
    model = {"name": str(EVALUATIONS / "robustness/starters/my_model.py:Program"), "command": ["tr", "a-z", "A-Z"]}
    return write_config(folder / "c.yaml", {"task": task, "model": model})


def test_an_attack_is_scored_by_comet(environment, checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = config(tmp_path, environment, checkpoint)
    (run,) = evaluate(json.loads(file.read_text(encoding="utf-8")))
    rows = list(run.rows())
    assert [row["scores"]["s_out"] for row in rows] == [1.0, 1.0]
    # Both words are hit; the first input earns its 0.1, because the model reads the original input.
    assert [row["scores"]["s_adv"] for row in rows] == pytest.approx([0.1, 0.0])
    assert "s_tgt:COMET(model:model|sha:" in run.record.signature


@pytest.mark.parametrize(
    ("task", "complaint"),
    [
        ({"s_src": {"name": "comet", "model": "c"}}, "task.s_src: COMET scores translations, not inputs"),
        ({"src": None, "attack": None, "side": "target"}, "task.s_tgt: COMET also reads the inputs; give them as src"),
    ],
)
def test_comet_where_it_cannot_work_is_refused(environment, checkpoint, tmp_path, task, complaint):
    done = lmassay("check", config(tmp_path, environment, checkpoint, **task), cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_teapots_command_refuses_it_in_one_line(tmp_path):
    write_lines(tmp_path / "a", ["x"])
    done = lmassay("teapot", "--out", "a", "--adv-out", "a", "--ref", "a", "--s-tgt", "comet", cwd=tmp_path)
    assert done.returncode == 2
    assert "also reads the source of each translation" in done.stderr
