"""``lmassay predict``: new texts get labels from a model that a run kept."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from pathlib import Path

import pytest

from tests import in_process
from tests.evaluations.fewshot.commands.fewnlu_kit import save_bert, write_data, write_rows

QUICK = {
    "name": "pet",
    "max_steps": 2,
    "batch_size": 4,
    "eval_ratios": 0.5,
    "learning_rate": 0.01,
    "max_seq_length": 48,
}


def setup_module() -> None:
    pytest.importorskip("torch", reason="the hf extra is not installed")


def lmassay(*words, cwd):
    return in_process.run([str(word) for word in words], cwd=cwd)


def configuration(folder: Path, **task) -> Path:
    options = {"name": "fewshot", "data": "rte", "data_dir": "RTE", "labelled": ["train"], "method": QUICK}
    options |= {"splits": {"k": 2}, "keep": "best", **task}
    path = folder / "run.yaml"
    path.write_text(json.dumps({"task": options, "model": {"name": "hf", "model": "bert"}, "resamples": 200}))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder with a finished run that kept its two models."""
    folder = tmp_path_factory.mktemp("predict")
    save_bert(folder / "bert")
    write_data(folder / "RTE")
    write_rows(folder / "new.jsonl", 7, 100, labels=False)
    done = lmassay("run", configuration(folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def kept_folders(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "results/models").iterdir() if path.is_dir())


def test_every_text_gets_a_label_and_probabilities(finished):
    done = lmassay("predict", "--in", "new.jsonl", cwd=finished)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["idx"] for row in rows] == list(range(100, 107))
    for row in rows:
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert row["label"] == max(row["probabilities"], key=row["probabilities"].get)
    assert "labelled 7 texts with bert + pet on rte (split-" in done.stderr


def test_the_best_split_is_the_one_with_the_highest_dev_score(finished):
    scores = {
        path.name: json.loads((path / "lmassay.json").read_text())["choice"]["dev"] for path in kept_folders(finished)
    }
    best = max(scores, key=lambda name: scores[name]["acc"])
    by_folder = lmassay("predict", f"results/models/{best}", "--in", "new.jsonl", cwd=finished)
    assert lmassay("predict", "--in", "new.jsonl", cwd=finished).stdout == by_folder.stdout


def test_compressed_input_and_tables_are_read_and_written(copy):
    with gzip.open(copy / "new.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.write((copy / "new.jsonl").read_text(encoding="utf-8"))
    lmassay("predict", "--in", "new.jsonl.gz", "-o", "labels.csv", cwd=copy)
    with (copy / "labels.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    plain = lmassay("predict", "--in", "new.jsonl", cwd=copy).stdout.splitlines()
    assert [row["label"] for row in rows] == [json.loads(line)["label"] for line in plain]
    assert set(rows[0]) == {"idx", "label", "p(entailment)", "p(not_entailment)"}


def test_a_kept_model_needs_neither_data_nor_base_model_nor_run(copy, tmp_path):
    expected = lmassay("predict", "--in", "new.jsonl", "--split", "0", cwd=copy).stdout
    listed = lmassay("predict", "--list", cwd=copy).stdout.splitlines()
    folder = next(path for path in kept_folders(copy) if path.name in listed[1])
    alone = tmp_path / "alone"
    shutil.copytree(folder, alone / "model")
    shutil.copy(copy / "new.jsonl", alone / "new.jsonl")
    shutil.rmtree(copy)
    assert lmassay("predict", "model", "--in", "new.jsonl", cwd=alone).stdout == expected


def test_a_deleted_model_is_noticed_and_trained_again_with_the_same_weights(copy):
    first, _ = kept_folders(copy)
    weights = (first / "model.safetensors").read_bytes()
    shutil.rmtree(first)
    done = lmassay("predict", "--in", "new.jsonl", cwd=copy)
    assert done.returncode == 2
    assert "is missing; train it again: lmassay resume" in done.stderr
    resumed = lmassay("resume", cwd=copy)
    assert (resumed.returncode, "is missing; it is trained again" in resumed.stderr) == (0, True)
    assert (first / "model.safetensors").read_bytes() == weights
    assert "nothing to do" in lmassay("resume", cwd=copy).stderr


def test_a_training_that_was_done_before_without_keeping_is_repeated_to_keep_it(tmp_path, finished):
    for name in ("bert", "RTE"):
        shutil.copytree(finished / name, tmp_path / name)
    lmassay("run", configuration(tmp_path, keep="none"), cwd=tmp_path)
    assert "kept no trained models; write keep: best" in lmassay("predict", "--in", "x.jsonl", cwd=tmp_path).stderr
    lmassay("run", configuration(tmp_path), cwd=tmp_path)
    assert len(kept_folders(tmp_path)) == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "--in is missing"),
        (["--in", "gone.jsonl"], "gone.jsonl does not exist"),
        (["--in", "new.jsonl", "-o", "out.txt"], "the name must end in .jsonl, .tsv, .csv"),
        (
            ["--in", "new.jsonl", "--split", "7"],
            "--split 7: there is no such trained model; the run has split-0-p0, split-1-p0",
        ),
        (["--in", "new.jsonl", "-o", "new.jsonl"], "would overwrite"),
        (["RTE", "--in", "new.jsonl"], "is not a kept model: it has no lmassay.json"),
        (["--in", "bad.jsonl"], "bad.jsonl, line 1: the field 'premise' is missing"),
    ],
)
def test_a_mistake_gets_one_line(copy, words, reason):
    (copy / "bad.jsonl").write_text('{"text": "x"}\n', encoding="utf-8")
    done = lmassay("predict", *words, cwd=copy)
    assert (done.returncode, reason in done.stderr, len(done.stderr.splitlines())) == (2, True, 1), done.stderr


def test_what_cannot_be_saved_is_refused_before_anything_is_trained(copy):
    done = lmassay("check", configuration(copy, method="majority"), cwd=copy)
    assert done.returncode == 2
    assert "task.keep: classifiers of the method majority cannot be saved" in done.stderr
