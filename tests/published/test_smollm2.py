"""The embedded model on real data: the figures that are known for it."""

from __future__ import annotations

import pytest

from lmassay.api import evaluate
from tests.published_data import published_set

# (TSE, rows, EW, MW): SmolLM2-135M-Instruct, Q4_1 weights in float32, left context without a prefix, 955 lemmas.
KNOWN = {
    "simple_agrmt_all": (0.9900, 100, 0.8604, 0.8672),
    "sent_comp_all": (0.9425, 1200, 0.7744, 0.9529),
}


@pytest.fixture(scope="module")
def run(smollm2, tmp_path_factory):
    folder = published_set("tse")
    task = {
        "name": "syntax",
        "data": {name: str(folder / "ML" / f"{name}.jsonl") for name in KNOWN},
        "verbs": str(folder / "verbs" / "combined_verb_list.csv"),
    }
    (finished_run,) = evaluate({"task": task, "model": "smollm2"}, tmp_path_factory.mktemp("results"))
    return finished_run


@pytest.mark.parametrize("name", KNOWN)
def test_the_known_figures_come_out(run, name):
    tse, rows, ew, mw = KNOWN[name]
    result_of = {r.metric: r for r in run.results if r.group == f"construction={name}"}
    assert result_of["tse"].n == rows
    assert result_of["tse"].value == pytest.approx(tse, abs=1e-4)
    assert result_of["ew"].value == pytest.approx(ew, abs=1e-4)
    assert result_of["mw"].value == pytest.approx(mw, abs=1e-4)


def test_every_lemma_with_two_single_tokens_counts(run):
    assert {row["details"]["lemmas"] for row in run.rows()} == {955}


def test_the_prefix_is_recorded_and_moves_the_score(smollm2, tmp_path):
    paradigm = published_set("blimp") / "anaphor_number_agreement.jsonl"
    task = {"name": "minimal_pairs", "data": str(paradigm), "max_per_file": 40}
    models = [{"name": "smollm2", "prefix": prefix} for prefix in ("auto", "bos", "none")]
    runs = evaluate({"task": task, "model": models}, tmp_path)
    assert [
        next(
            part for part in ("prefix=none/<|endoftext|>", "prefix=<|im_start|>", "prefix=none,") if part in r.signature
        )
        for r in runs
    ] == ["prefix=none/<|endoftext|>", "prefix=<|im_start|>", "prefix=none,"]
    margins = [[row["scores"]["margin"] for row in r.rows()] for r in runs]
    assert margins[0] != margins[1]
    assert runs[0]["accuracy"].value > 0.8
