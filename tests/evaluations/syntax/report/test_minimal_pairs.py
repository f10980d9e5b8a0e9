"""The section of whole-sentence pairs: fields, phenomena, paradigms, and people beside them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from lmassay.api import evaluate
from lmassay.evaluations.syntax.blimp import paradigms
from lmassay.evaluations.syntax.report import minimal_pairs
from lmassay.evaluations.syntax.report.accuracy_chart import Accuracy, AccuracyRow, accuracy_chart
from lmassay.reporting.blocks import Note, Section
from lmassay.storage.store import Store
from tests.reporting.small_runs import NASTY, cells, page, run, tables, write_pairs

BLIMP = {
    "npi_present_1": {"field": "semantics", "linguistics_term": "npi_licensing"},
    "npi_present_2": {"field": "semantics", "linguistics_term": "npi_licensing"},
    "matrix_question_npi_licensor_present": {"field": "syntax/semantics", "linguistics_term": "npi_licensing"},
    "wh_island": {"field": "syntax", "linguistics_term": "island_effects"},
}

UNDECIDED = """
from lmassay.types import Continuation

class Same:
    name = "same"
    can = frozenset({"logprobs"})

    def identity(self):
        return {"name": self.name}

    def logprobs(self, requests):
        return [Continuation(-1.0, (-1.0,)) for _ in requests]
"""


def pairs_section(folder) -> Section:
    with Store(folder / "results") as store:
        return minimal_pairs.section(store, store.runs())


def blimp(folder, word: str = "this"):
    for name, fields in BLIMP.items():
        write_pairs(folder / f"{name}.jsonl", word=word, UID=name, **fields)
    return {"name": "minimal_pairs", "data": {name: str(folder / f"{name}.jsonl") for name in BLIMP}}


def test_paradigms_fold_under_their_phenomenon_and_phenomena_stand_in_their_field(tmp_path):
    run(tmp_path, blimp(tmp_path))
    (table,) = tables(pairs_section(tmp_path))
    shape = [(body.folds, [line.cells[0].text for line in body.rows]) for body in table.bodies]
    npi = ["npi licensing", "npi_present_1", "npi_present_2", "matrix_question_npi_licensor_present"]
    assert shape == [
        (False, ["overall"]),
        (False, ["semantics"]),
        (True, npi),
        (False, ["syntax"]),
        (True, ["island effects", "wh_island"]),
    ]


def test_human_and_published_accuracy_stand_beside_as_means_over_the_same_paradigms(tmp_path):
    (done,) = run(tmp_path, blimp(tmp_path))
    (table,) = tables(pairs_section(tmp_path))
    row_of, known = cells(table), paradigms()
    assert [c.text for c in table.headers[0][4:6]] == ["human", "GPT-2"]
    assert row_of["wh_island"][3:5] == [f"{known['wh_island'].human:.3f}", f"{known['wh_island'].gpt2:.3f}"]
    humans = [known[name].human for name in BLIMP]
    assert row_of["overall"][3] == f"{sum(humans) / 4:.3f}"
    assert row_of["npi licensing"][3] == f"{sum(humans[:3]) / 3:.3f}"
    assert row_of["overall"][0] == f"{done['accuracy'].value:.3f}"
    assert row_of["overall"][5:] == ["24", "0", "0"]


def test_other_pairs_have_no_human_column_and_stand_for_themselves(tmp_path):
    files = {name: str(write_pairs(tmp_path / f"{name}.jsonl")) for name in ("mine", "yours")}
    run(tmp_path, {"name": "minimal_pairs", "data": files})
    (table,) = tables(pairs_section(tmp_path))
    assert "human" not in [c.text for c in table.headers[0]]
    assert not any(body.folds for body in table.bodies)
    assert list(cells(table)) == ["overall", "mine", "yours"]
    assert "what people reach" not in page(tmp_path)


def test_a_run_on_one_paradigm_shows_its_results_under_its_names(tmp_path):
    write_pairs(tmp_path / "w.jsonl", UID="wh_island", **BLIMP["wh_island"])
    (done,) = run(tmp_path, {"name": "minimal_pairs", "data": str(tmp_path / "w.jsonl")})
    (table,) = tables(pairs_section(tmp_path))
    for name in ("overall", "syntax", "island effects", "wh_island"):
        assert cells(table)[name][0] == f"{done['accuracy'].value:.3f}"


def test_several_models_have_a_column_each_and_a_dot_in_every_row(tmp_path):
    run(tmp_path, blimp(tmp_path), {"label": "one"}, {"label": "two"})
    first, *rests = tables(pairs_section(tmp_path))
    assert [c.text for c in first.headers[0]] == ["", "one", "two", "human", "GPT-2", "pairs"]
    assert len(rests) == 2
    *_, drawing = re.findall(r"<svg.*?</svg>", page(tmp_path), flags=re.DOTALL)
    root = ElementTree.fromstring(drawing)
    assert sum(1 for _ in root.iter("circle")) == 2 * 2 + 2, "two phenomena, and the legend"
    assert sum(1 for line in root.iter("line") if line.get("class") == "mark") == 2 + 1


def test_methods_of_one_model_are_distinguished(tmp_path):
    for method in ("sentence", "one_prefix"):
        fields = {"one_prefix_method": True, "one_prefix_prefix": "this", "one_prefix_word_good": "is"}
        write_pairs(tmp_path / "p.jsonl", **fields, one_prefix_word_bad="are")
        run(tmp_path, {"name": "minimal_pairs", "data": str(tmp_path / "p.jsonl"), "method": method})
    assert [c.text for c in tables(pairs_section(tmp_path))[0].headers[0][1:3]] == [
        "made · method sentence",
        "made · method one_prefix",
    ]


def test_the_pairs_shown_are_the_most_confident_mistakes_one_a_paradigm(tmp_path):
    (done,) = run(tmp_path, blimp(tmp_path))
    with Store(tmp_path / "results") as store:
        margins = {row.example.id: row.score.values["margin"] for row in store.rows(done.id)}
    (shown,) = pairs_section(tmp_path).examples
    assert margins[shown.examples[0].id] == min(margins.values())
    assert len({dict(e.texts)["paradigm"] for e in shown.examples}) == len(shown.examples)
    assert "preferred" in dict(shown.examples[0].texts)


def test_pairs_in_error_are_counted_and_those_without_a_verdict_too(tmp_path):
    task = blimp(tmp_path)
    file = tmp_path / "wh_island.jsonl"
    same = '{"sentence_good": "x", "sentence_bad": "x", "UID": "wh_island", "field": "syntax", '
    file.write_text(file.read_text() + same + '"linguistics_term": "island_effects"}\n')
    run(tmp_path, task, {"fails_on": "good 3 wh_island"})
    (table,) = tables(pairs_section(tmp_path))
    assert cells(table)["wh_island"][5:] == ["5", "1", "1"]


def test_sentences_and_names_of_pairs_stay_text(tmp_path):
    run(tmp_path, blimp(tmp_path, word=NASTY), {"label": NASTY}, {"label": "two"})
    write_pairs(tmp_path / "n.jsonl", UID=NASTY, field="<b>", linguistics_term="<i>")
    run(tmp_path, {"name": "minimal_pairs", "data": str(tmp_path / "n.jsonl")})
    text = page(tmp_path)
    for tag in (NASTY, "<b>", "<i>"):
        assert tag not in text


def test_a_dot_without_interval_or_value_is_drawn_as_far_as_it_is_known():
    row = AccuracyRow("r", [Accuracy("a", 0.5), None])
    root = ElementTree.fromstring(accuracy_chart([row], ["one", "two"], "people", "x", "d").svg())
    assert sum(1 for _ in root.iter("circle")) == 3
    assert "people" not in [t.text for t in root.iter("text")], "there is no mark to explain"


def test_ties_are_reported_with_their_share(tmp_path):
    (tmp_path / "same.py").write_text(UNDECIDED, encoding="utf-8")
    evaluate({"task": blimp(tmp_path), "model": str(tmp_path / "same.py:Same")}, tmp_path / "results")
    texts = [block.text for block in pairs_section(tmp_path).blocks if isinstance(block, Note)]
    assert len(texts) == 1
    assert texts[0].startswith("Pairs whose sentences are equally probable, which count as wrong: 1.000 [0.")
