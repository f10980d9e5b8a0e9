"""BLiMP's facts, against the data and the published summaries they were read from."""

from __future__ import annotations

import csv
import json

import pytest

from lmassay.evaluations.syntax.blimp import paradigms
from tests.published_data import published_set


def published_models():
    with (published_set("blimp") / "models_summary.jsonl").open(encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def test_there_are_67_paradigms_in_four_fields():
    all_paradigms = paradigms()
    assert len(all_paradigms) == 67
    assert len({p.phenomenon for p in all_paradigms.values()}) == 12
    assert {p.field for p in all_paradigms.values()} == {"morphology", "semantics", "syntax", "syntax_semantics"}
    assert all(name == p.name and 0 < p.human <= 1 and 0 < p.gpt2 <= 1 for name, p in all_paradigms.items())


def test_nobody_can_change_them():
    with pytest.raises(TypeError):
        paradigms()["adjunct_island"] = None  # type: ignore[index]


def test_field_and_phenomenon_are_those_that_every_row_of_the_data_names():
    files = [f for f in published_set("blimp").glob("*.jsonl") if f.stem != "models_summary"]
    assert {file.stem for file in files} == set(paradigms())
    for file in files:
        known = paradigms()[file.stem]
        with file.open(encoding="utf-8") as stream:
            rows = [json.loads(line) for line in stream]
        # BLiMP spells one field in two ways.
        published = {"s-selection": "argument_structure"}
        terms = [published.get(row["linguistics_term"], row["linguistics_term"]) for row in rows]
        named = {(r["UID"], r["field"].replace("/", "_"), term) for r, term in zip(rows, terms, strict=True)}
        assert named == {(known.name, known.field, known.phenomenon)}


def test_human_accuracy_is_that_of_the_validation():
    with (published_set("blimp") / "human_validation_summary.csv").open(encoding="utf-8") as stream:
        published = {row["Condition"]: float(row["total_mean"]) for row in csv.DictReader(stream)}
    for name, paradigm in paradigms().items():
        assert paradigm.human == pytest.approx(published[name], abs=5e-5), name


def test_gpt2_accuracy_is_the_published_one():
    published = {row["UID"]: row["gpt2"] for row in published_models()}
    assert {name: p.gpt2 for name, p in paradigms().items()} == {name: published[name] for name in paradigms()}


def test_the_means_are_the_published_means():
    known = paradigms().values()
    (overall,) = (r["gpt2"] for r in published_models() if r["linguistics_term"] == "overall")
    assert sum(p.gpt2 for p in known) / 67 == pytest.approx(overall, abs=1e-6)
    assert sum(p.human for p in known) / 67 == pytest.approx(0.886, abs=5e-4)
