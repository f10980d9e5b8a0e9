"""Runs as data frames."""

from __future__ import annotations

import json
import sys

import pytest

import lmassay
from lmassay.errors import MissingExtra, UserError
from lmassay.interchange.frames import _columns, frame
from tests.helpers import EVALUATIONS
from tests.interchange.kit import generated_run, pairs_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return pairs_run(tmp_path_factory.mktemp("pairs"))


def test_pandas_has_a_row_an_example_with_scores_groups_inputs_and_error(run):
    pytest.importorskip("pandas")
    table = run.to_pandas()
    assert len(table) == 8
    assert list(table.columns[:2]) == ["id", "state"]
    scored = table[table["state"] == "scored"]
    assert scored["score.accuracy"].mean() == run["accuracy"].value
    assert set(table["group.phenomenon"]) == {"subject_verb_agreement"}
    assert scored["input.good"].iloc[0] == "The author laughs."
    assert set(table[table["state"] == "error"]["error"]) == {"the server is down"}
    assert table[table["state"] == "error"]["score.accuracy"].isna().all()


def test_polars_has_the_same(run):
    polars = pytest.importorskip("polars")
    pytest.importorskip("pandas")
    table = run.to_polars()
    assert table.columns == list(run.to_pandas().columns)
    assert table["score.accuracy"].dtype == polars.Float64
    assert table["score.accuracy"].mean() == run["accuracy"].value
    assert table["error"].null_count() == 6


def test_what_was_answered_stands_beside_what_was_asked(tmp_path):
    pytest.importorskip("pandas")
    table = generated_run(tmp_path).to_pandas()
    assert table["answer"].str.len().min() > 10
    assert table["reference"].iloc[0] == "The little cat sleeps under the old table."


def test_outputs_from_files_are_among_the_details(tmp_path):
    pytest.importorskip("pandas")
    task = lmassay.task("robustness", src=["Hallo Welt."], attack={"file": ["Hlalo Welt."]}, ref=["Hello world."])
    outputs = lmassay.model("outputs", files={"out": ["Hello world."], "adv_out": ["Hlalo world."]})
    table = lmassay.evaluate(task, outputs, tmp_path / "results")[0].to_pandas()
    assert table[["detail.adv_src", "detail.out", "detail.adv_out"]].iloc[0].tolist() == [
        "Hlalo Welt.",
        "Hello world.",
        "Hlalo world.",
    ]


def test_results_of_several_runs_are_one_table(run):
    pytest.importorskip("pandas")
    table = lmassay.results_frame(lmassay.all_runs(run.folder))
    assert list(table.columns[:7]) == ["run", "task", "label", "model", "status", "metric", "group"]
    row = table[(table["metric"] == "accuracy") & (table["group"] == "overall")].iloc[0]
    assert (row["value"], row["low"], row["n"], row["n_error"]) == (run["accuracy"].value, run["accuracy"].low, 6, 2)
    polars = pytest.importorskip("polars")
    assert isinstance(lmassay.results_frame([run], "polars"), polars.DataFrame)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_missing_is_named_with_the_pip_command(run, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=r"pip install 'lmassay\[tables\]'"):
        getattr(run, f"to_{library}")()


def test_an_unknown_library_is_refused():
    with pytest.raises(UserError, match="there is no library 'numpy'"):
        frame({}, "numpy")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_mixed_kinds_become_text_and_missing_values_stay_missing(library):
    pytest.importorskip(library)
    rows = [
        {"id": "a", "input.x": 1, "input.y": True},
        {"id": "b", "input.x": "one", "input.z": [1, {"a": 2}]},
        {"id": "c", "score.m": 0.5, "input.x": None},
    ]
    columns = _columns(rows, ("id",), ("error",))
    assert list(columns) == ["id", "score.m", "input.x", "input.y", "input.z", "error"]
    assert columns["input.x"] == ["1", "one", None]
    assert columns["input.y"] == [True, None, None]
    assert columns["input.z"] == [None, '[1, {"a": 2}]', None]
    assert len(frame(columns, library)) == 3


def test_a_weighted_metric_is_the_mean_over_its_column_with_the_weights_beside_it(tmp_path):
    pytest.importorskip("pandas")
    verbs = [("cat", "sleeps", "sleep", -1), ("cat", "runs", "run", -1), ("dogs", "run", "runs", -2)]
    rows = [{"sentence_good": f"The {n} {g}.", "sentence_bad": f"The {n} {b}.", "label": k} for n, g, b, k in verbs]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "text.txt").write_text(
        "the cat sleeps\nthe cat runs\nthe dogs runs\na dog sleep\na dog run\n", encoding="utf-8"
    )
    model = {
        "name": f"{EVALUATIONS / 'syntax/sample/my_language_model.py'}:Bigrams",
        "text": str(tmp_path / "text.txt"),
    }
    task = {"name": "syntax", "data": str(tmp_path / "pairs.jsonl"), "clusters": "none"}
    (syntax,) = lmassay.evaluate({"task": task, "model": model}, tmp_path / "results")
    table = syntax.to_pandas().dropna(subset="score.tse")
    weights = table["score." + syntax.record.design.weights["tse"]]
    assert table["score.tse"].mean() == 0.5
    assert (table["score.tse"] * weights).sum() / weights.sum() == pytest.approx(syntax["tse"].value) == 2 / 3
