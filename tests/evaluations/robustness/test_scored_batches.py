"""Outputs from files are scored as columns, with the same rows and results as example by example."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import lmassay
from lmassay.errors import PluginError
from lmassay.evaluations.robustness.task import Robustness
from lmassay.running import runner
from lmassay.running.config import RunConfig
from lmassay.storage.store import Store
from lmassay.types import Row
from tests.helpers import write_lines

WORDS = ["chat", "wonderful", "le", "été", "강아지", "🙂", ".", "a", "(b)", "12,5", "e\u0301"]


def random_line(rng: random.Random) -> str:
    """Empty lines and lines with a single word are frequent, so that lines repeat and scores are 0 or 1."""
    return " ".join(rng.choices(WORDS, k=rng.choice([0, 1, 1, 2, 5, 9])))


def write_files(folder: Path, seed: int, lines: int) -> dict[str, str]:
    """Five parallel files; in some lines, attacked input, outputs or reference are the same."""
    rng = random.Random(seed)
    columns: dict[str, list[str]] = {role: [] for role in ("src", "adv", "out", "adv_out", "ref")}
    for _ in range(lines):
        for column in columns.values():
            column.append(random_line(rng))
        for role, other in (("adv", "src"), ("adv_out", "out"), ("ref", "out")):
            if rng.random() < 0.3:
                columns[role][-1] = columns[other][-1]
    return {role: str(write_lines(folder / role, column)) for role, column in columns.items()}


def config(files: dict[str, str], **task: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        "name": "robustness",
        "src": files["src"],
        "ref": files["ref"],
        "attack": {"file": files["adv"]},
    }
    options |= task
    model = {"name": "outputs", "files": {"out": files["out"], "adv_out": files["adv_out"]}}
    document: dict[str, Any] = {"task": {name: value for name, value in options.items() if value is not None}}
    if task.get("side") != "source":
        document["model"] = model
    return document


def run(document: dict[str, Any], folder: Path) -> tuple[list[Row], list[dict[str, Any]], int]:
    """The rows, the results, and how many examples are stored in batches."""
    (done,) = lmassay.evaluate(document, folder)
    with Store(folder) as store:
        in_batches = sum(map(len, store.finished_positions(done.id)))
        return list(store.rows(done.id)), [result.as_dict() for result in store.run(done.id).results], in_batches


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ref": None},
        {"s_src": "exact_match", "s_tgt": "exact_match"},
        {"s_tgt": "exact_match", "ref": None},
        {"s_src": "bleu", "s_tgt": "zero_one", "success_threshold": 0.4},
        {"side": "source"},
        {"side": "target"},
        {"side": "target", "attack": None, "src": None},
        {"side": "target", "attack": None, "src": None, "ref": None, "s_tgt": "zero_one"},
    ],
    ids=str,
)
def test_columns_give_the_same_rows_and_results_as_single_examples(tmp_path, monkeypatch, options):
    # Chunks of 8: several batches, the last one shorter, and some without a right answer.
    monkeypatch.setattr(Robustness, "chunk", 8)
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        document = config(write_files(folder, seed, lines=30), **options)
        rows, results, in_batches = run(document, folder / "columns")
        with monkeypatch.context() as patched:
            patched.setattr(Robustness, "scored_batches", lambda *_: None)
            single_rows, single_results, none_in_batches = run(document, folder / "single")
        assert (in_batches, none_in_batches) == (30, 0)
        assert rows == single_rows
        assert results == single_results


@pytest.mark.parametrize(
    "changes",
    [
        {"task": {"attack": "charswap"}},
        {"model": {"name": "echo"}},
        {"model": {"name": "echo"}, "samples": 2, "temperature": 0.5},
    ],
    ids=str,
)
def test_a_model_that_must_be_asked_or_an_attack_to_be_made_goes_example_by_example(tmp_path, changes):
    document = config(write_files(tmp_path, 1, lines=10), **changes.get("task", {}))
    document |= {name: value for name, value in changes.items() if name != "task"}
    _, _, in_batches = run(document, tmp_path / "results")
    assert in_batches == 0


def test_a_limit_is_kept(tmp_path):
    document = config(write_files(tmp_path, 1, lines=10)) | {"limit": 4}
    rows, _, in_batches = run(document, tmp_path / "results")
    assert len(rows) == in_batches == 4


def test_a_byte_order_mark_is_not_part_of_the_first_line(tmp_path):
    files = write_files(tmp_path, 1, lines=10)
    Path(files["src"]).write_text("\ufeffchat\n" + "le\n" * 9, encoding="utf-8")
    rows, _, _ = run(config(files), tmp_path / "results")
    assert rows[0].example.inputs["src"] == "chat"


def test_an_error_of_a_scorer_names_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr(Robustness, "chunk", 4)
    files = write_files(tmp_path, 1, lines=10)
    lines = Path(files["adv"]).read_text(encoding="utf-8").splitlines()
    lines[6] = "boom"
    write_lines(Path(files["adv"]), lines)
    (tmp_path / "mine.py").write_text(
        "from lmassay.evaluations.robustness.scorers.base import scorer\n"
        "@scorer('mine')\n"
        "def mine(hypothesis, reference):\n"
        "    return 7.0 if hypothesis == 'boom' else 1.0\n",
        encoding="utf-8",
    )
    with pytest.raises(PluginError, match=r"src, line 7: the scorer mine gave 7\.0"):
        lmassay.evaluate(config(files, s_src=f"{tmp_path / 'mine.py'}:mine"), tmp_path / "results")


def interrupt_after(batches: int) -> Any:
    """A progress callback that stops the run when this number of batches is stored."""
    calls = 0

    def progress(_done: float, _total: int | None) -> None:
        nonlocal calls
        calls += 1
        if calls > batches:
            raise KeyboardInterrupt

    return progress


def test_a_run_that_was_interrupted_continues_with_the_next_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(Robustness, "chunk", 8)
    document = config(write_files(tmp_path, 1, lines=30))
    rows, results, _ = run(document, tmp_path / "whole")
    scored: list[int] = []
    original = Robustness._scored_batch

    def counted(self: Robustness, model: Any, positions: range, texts: Any) -> Any:
        scored.append(positions.start)
        return original(self, model, positions, texts)

    monkeypatch.setattr(Robustness, "_scored_batch", counted)
    with Store(tmp_path / "results", create=True) as store:
        with pytest.raises(KeyboardInterrupt):
            runner.start(runner.plan(RunConfig.model_validate(document)), store, progress=interrupt_after(2))
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                runner.resume(store.run("latest"), store, progress=interrupt_after(1))
        finished = runner.resume(store.run("latest"), store)
        assert scored == [0, 8, 16, 24]
        assert finished.status == "done"
        assert list(store.rows(finished.id)) == rows
        assert [result.as_dict() for result in finished.results] == results


def test_a_damaged_batch_is_scored_again(tmp_path, monkeypatch):
    monkeypatch.setattr(Robustness, "chunk", 8)
    document = config(write_files(tmp_path, 1, lines=30))
    rows, results, _ = run(document, tmp_path / "results")
    with Store(tmp_path / "results", create=True) as store:
        store.database.execute("UPDATE batches SET texts = x'00' WHERE first = 8")
        finished = runner.resume(store.run("latest"), store)
        assert list(store.rows(finished.id)) == rows
        assert [result.as_dict() for result in finished.results] == results
        assert [len(positions) for positions in store.finished_positions(finished.id)] == [8, 8, 8, 6]
