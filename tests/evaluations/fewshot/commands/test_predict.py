"""``lmassay predict``: new texts get labels from a model that a run kept."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import threading
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


TEXTS = ["the author laughs", "a customer swims", "Some dancers are tall"]


@pytest.fixture(scope="module")
def trained_reviews(tmp_path_factory) -> Path:
    """A folder with a finished run of a task of one's own."""
    folder = tmp_path_factory.mktemp("reviews")
    save_bert(folder / "bert")
    rows = [f"{TEXTS[number % 2]} {number},{('bad', 'good')[number % 2]}" for number in range(16)]
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    description = {
        "data": dict.fromkeys(("train", "dev", "unlabeled"), "texts.csv"),
        "fields": ["text"],
        "label": "label",
        "labels": ["bad", "good"],
        "patterns": ["{text} [mask]", "the movie {text} [mask]"],
        "words": {"bad": "no", "good": "yes"},
    }
    (folder / "reviews.yaml").write_text(json.dumps(description), encoding="utf-8")
    done = lmassay("run", configuration(folder, data="reviews.yaml", data_dir=None, splits={"k": 1}), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def reviews(trained_reviews, tmp_path) -> Path:
    shutil.copytree(trained_reviews, tmp_path / "reviews")
    return tmp_path / "reviews"


def piped(path: Path, text: str) -> None:
    """A named pipe that gets this text, once."""
    os.mkfifo(path)
    threading.Thread(target=path.write_text, args=(text,), kwargs={"encoding": "utf-8"}, daemon=True).start()


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
    scores = {path.name: json.loads((path / "lmassay.json").read_text())["dev"] for path in kept_folders(finished)}
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


@pytest.mark.parametrize("name", ["new.csv", "new.tsv", "new.csv.gz", "pipe"])
def test_tables_and_streams_get_the_labels_of_json_lines(reviews, name):
    """Texts are numbered from 0, whatever the format; empty lines do not count."""
    (reviews / "new.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    expected = lmassay("predict", "--in", "new.jsonl", cwd=reviews).stdout
    separator = "\t" if "tsv" in name else ","
    table = "\n".join([f"text{separator}more", *(f"{text}{separator}x" for text in TEXTS)])
    if name == "pipe":
        piped(reviews / name, f"{table}\n")
    elif name.endswith(".gz"):
        (reviews / name).write_bytes(gzip.compress(f"{table}\n\n".encode()))
    else:
        (reviews / name).write_text(f"{table}\n\n", encoding="utf-8")
    done = lmassay("predict", "--in", name, cwd=reviews)
    assert done.stdout == expected
    assert [json.loads(line)["idx"] for line in done.stdout.splitlines()] == [0, 1, 2]


def test_an_error_in_a_stream_names_the_stream(reviews):
    piped(reviews / "pipe", '{"text": "a"}\n{"txt": "b"}\n')
    done = lmassay("predict", "--in", "pipe", cwd=reviews)
    assert done.returncode == 2
    assert done.stderr == "error: pipe, line 2: the field 'text' is missing; did you mean 'txt'?\n"


@pytest.mark.parametrize(
    ("regime", "names", "models"),
    [
        ({"name": "ensemble", "patterns": [0, 1]}, ["split-0"], 2),
        ({"name": "ipet", "patterns": [0, 1], "generations": 2}, ["split-0-p0", "split-0-p1"], 2),
        ({"name": "distillation", "patterns": [0, 1], "student": {**QUICK, "name": "pet"}}, ["split-0"], 1),
    ],
    ids=["ensemble", "ipet", "distillation"],
)
def test_combined_trainings_are_kept_and_label_texts(reviews, regime, names, models):
    # With one evaluation at the end, nothing is chosen by dev scores, but they are there.
    task = {"data": "reviews.yaml", "data_dir": None, "splits": {"k": 1}, "regime": regime}
    task["method"] = {**QUICK, "eval_ratios": 1.0}
    done = lmassay("run", configuration(reviews, **task), "--results", regime["name"], cwd=reviews)
    assert done.returncode == 0, done.stderr
    listed = lmassay("predict", "--list", "--results", regime["name"], cwd=reviews).stdout
    assert [line.split()[1] for line in listed.splitlines() if line[:1].isdigit()] == names
    assert "none held out" not in listed
    assert len([*(reviews / regime["name"] / "models").glob("[!.]*/lmassay.json")]) == models
    (reviews / "new.jsonl").write_text('{"text": "the author laughs"}\n', encoding="utf-8")
    labelled = lmassay("predict", "--in", "new.jsonl", "--results", regime["name"], cwd=reviews)
    assert json.loads(labelled.stdout)["label"] in ("bad", "good")


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
    ) as running:
        yield running.scheduler_address


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_models_that_workers_keep_label_texts_as_those_of_one_process(copy, executor, request):
    expected = lmassay("predict", "--in", "new.jsonl", cwd=copy).stdout
    options = ["--executor", executor]
    if executor == "dask":
        options += ["--scheduler", request.getfixturevalue("cluster")]
    else:
        options += ["--workers", "2"]
    done = lmassay("run", "run.yaml", "--results", "elsewhere", *options, cwd=copy)
    assert done.returncode == 0, done.stderr
    assert lmassay("predict", "--in", "new.jsonl", "--results", "elsewhere", cwd=copy).stdout == expected


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
    assert (resumed.returncode, "is missing and will be trained again" in resumed.stderr) == (0, True)
    assert (first / "model.safetensors").read_bytes() == weights
    assert "nothing to do" in lmassay("resume", cwd=copy).stderr


def test_the_advice_about_a_damaged_list_of_models_works(copy):
    expected = lmassay("predict", "--in", "new.jsonl", cwd=copy).stdout
    (listing,) = (copy / "results/models").glob("*.json")
    listing.write_text("damaged", encoding="utf-8")
    done = lmassay("predict", "--in", "new.jsonl", cwd=copy)
    assert done.returncode == 2
    assert f"{listing.name} cannot be read" in done.stderr
    assert "delete it and run the configuration again" in done.stderr
    listing.unlink()
    times = {path: path.stat().st_mtime_ns for path in kept_folders(copy)}
    assert lmassay("run", "run.yaml", cwd=copy).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in kept_folders(copy)} == times
    assert lmassay("predict", "--in", "new.jsonl", cwd=copy).stdout == expected


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
        (["--in", "new.jsonl", "-o", "out.txt"], "the name must end in .jsonl, .tsv or .csv"),
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
