"""Runs and comparisons are easy to read, in a terminal and in a notebook."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import lmassay
from lmassay.api.runs import Results, _example
from lmassay.storage.single_rows import StoredRow
from lmassay.types import Example, Response, Row, Substitute, Substitutions, request_as_dict

TEXTS = ["The <b>cat</b> sat on the mat today.", "It rains again in the city.", "We walk home slowly."]
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebook") / "results"


@pytest.fixture(scope="module")
def runs(folder):
    def careful(prompts):
        return [f"{SCRIPT}{prompt}" for prompt in prompts]

    def careless(prompts):
        return [prompt[::-1] for prompt in prompts]

    task = lmassay.task("robustness", src=TEXTS, attack="charswap")
    return lmassay.evaluate(task, [careful, careless], folder)


def test_results_are_found_by_metric_and_position(runs):
    results = runs[0].results
    assert results["s_src"].n == 3
    assert results["s_src"] == runs[0]["s_src"] == results.get("s_src", "overall")
    assert results[0].metric == results.metrics[0]
    assert results.get("s_src", "category=none") is None
    with pytest.raises(KeyError, match="did you mean 's_src'"):
        results["s_scr"]


def test_runs_are_found_by_name(runs, folder):
    loaded = lmassay.load(folder)
    assert len(loaded) == 2
    assert [run.id for run in loaded] == [run.id for run in runs]
    assert loaded["latest"].id == runs[1].id == loaded[runs[1].id[-6:]].id
    assert loaded["careful"].id == runs[0].id
    assert loaded[:1] == lmassay.Runs([loaded[0]])
    assert loaded.where(model="careless") == loaded[1:]
    with pytest.raises(KeyError, match="did you mean 'careful'"):
        loaded["carefull"]
    with pytest.raises(KeyError, match="2 runs match"):
        loaded["charswap"]
    with pytest.raises(lmassay.UserError, match="runs have no 'modell'; did you mean 'model'"):
        loaded.where(modell="x")


def test_the_repr_is_one_line_per_run(runs):
    assert repr(runs[0]).startswith(f"<Run {runs[0].id} robustness: charswap on careful: success ")
    assert "(n = 3)" in repr(runs[0])
    assert len(repr(runs).splitlines()) == 3
    assert repr(lmassay.Runs()) == "<0 runs>"


@pytest.mark.parametrize("what", ["run", "runs", "results", "examples", "comparisons", "figure"])
def test_html_is_well_formed_and_escaped(runs, what):
    shown = {
        "run": runs[0],
        "runs": runs,
        "results": runs[0].results,
        "examples": runs[0].examples,
        "comparisons": lmassay.compare(runs[0], runs[1]),
        "figure": runs.plot(),
    }[what]
    html = shown._repr_html_()
    # Images are the only elements without an end.
    ET.fromstring(f"<div>{html.replace('></figure>', '/></figure>')}</div>")
    assert "<script" not in html
    assert "http" not in html
    if what == "examples":
        assert "&lt;script&gt;" in html
        assert "&lt;b&gt;cat" in html
    if what in ("run", "runs", "comparisons", "figure"):
        assert "data:image/svg+xml;base64," in html


def test_examples_are_iterated_indexed_and_sliced(runs):
    examples = runs[1].examples
    assert len(examples) == len(list(examples)) == 3
    assert examples[-1].prompt == TEXTS[-1]
    assert [example.id for example in examples[::-1]] == [example.id for example in examples][::-1]
    assert examples[examples[1].id] == examples[1]
    assert examples[0].answers[0] == TEXTS[0][::-1]
    assert set(examples[0].scores) >= {"s_src", "success"}
    with pytest.raises(KeyError, match="no example"):
        examples["x"]
    with pytest.raises(IndexError):
        examples[3]


def test_an_example_is_looked_up_without_reading_the_others(runs, folder, monkeypatch):
    examples = lmassay.load(folder)[0].examples
    expected = list(examples)
    parsed: list[str] = []
    parse = StoredRow.parsed

    def counting(row: StoredRow):
        parsed.append(row.id)
        return parse(row)

    monkeypatch.setattr(StoredRow, "parsed", counting)
    assert examples[2] == examples[-1] == examples[expected[2].id] == expected[2]
    assert parsed == [expected[2].id] * 3
    assert examples[:2] == expected[:2]
    assert len(parsed) == 5


def test_examples_from_files_are_looked_up_in_their_batches(tmp_path):
    for name in ("src", "adv", "out", "adv_out"):
        (tmp_path / name).write_text("".join(f"{name} {number}\n" for number in range(5)))
    task = lmassay.task("robustness", src=tmp_path / "src", attack={"file": tmp_path / "adv"})
    files = {"out": tmp_path / "out", "adv_out": tmp_path / "adv_out"}
    (run,) = lmassay.evaluate(task, {"name": "outputs", "files": files}, tmp_path / "results")
    examples = run.examples
    expected = list(examples)
    assert examples[3] == examples[expected[3].id] == expected[3]
    assert examples[4:1:-1] == expected[4:1:-1]
    with pytest.raises(KeyError, match="no example with the id"):
        examples["x"]


def test_data_frames_have_a_row_per_example_result_or_difference(runs):
    pytest.importorskip("pandas")
    assert len(runs[0].to_pandas()) == 3
    assert set(runs.to_pandas()["model"]) == {"careful", "careless"}
    differences = lmassay.compare(runs[0], runs[1])
    assert list(differences.to_pandas()["metric"]) == [row.metric for row in differences]


def test_figures_are_saved_for_papers(runs, tmp_path):
    pytest.importorskip("typst")
    figure = runs[0].plot()
    column = figure.save(tmp_path / "column.svg", width="one-column").read_text(encoding="utf-8")
    assert 'width="84.00mm"' in column
    assert "<text" not in column, "texts are outlines"
    grey = figure.save(tmp_path / "grey.svg", width="150mm", style="grey", text="text").read_text(encoding="utf-8")
    assert 'width="150.00mm"' in grey
    assert "<text" in grey
    assert "#b0421c" in column.lower()
    assert "#b0421c" not in grey.lower()
    assert figure.save(tmp_path / "a.pdf", width=100).read_bytes().startswith(b"%PDF")
    assert runs.figures()[0].save(tmp_path / "b.svg", width="two-column").stat().st_size > 1000
    with pytest.raises(lmassay.UserError, match="write one-column, two-column"):
        figure.save(tmp_path / "a.pdf", width="huge")
    with pytest.raises(lmassay.UserError, match="write colour or grey"):
        figure.save(tmp_path / "a.pdf", style="gray")


def test_figures_are_saved_in_the_format_of_the_suffix(runs, tmp_path):
    figure = runs[0].plot()
    assert figure.save(tmp_path / "a.svg").read_text(encoding="utf-8") == figure.svg
    assert ET.fromstring(figure.svg.encode()).tag.endswith("svg")
    pytest.importorskip("typst")
    assert runs.plot("s_src").save(tmp_path / "b.PDF").read_bytes().startswith(b"%PDF")
    with pytest.raises(lmassay.UserError, match=r"does not end in \.svg, \.png or \.pdf"):
        figure.save(tmp_path / "a.jpg")
    with pytest.raises(lmassay.UserError, match="has no metric 's_scr'; did you mean 's_src'"):
        runs[0].plot("s_scr")


def test_the_figures_of_the_report_are_figures_too(runs):
    assert [figure.title for figure in runs.figures()]


FORMATS = {"r.html": "<!doctype html>", "r.md": "## ", "r.tex": r"\documentclass", "r.csv": "metric"}


@pytest.mark.parametrize("name", FORMATS)
def test_reports_are_written_in_the_format_of_the_suffix(runs, tmp_path, name):
    assert FORMATS[name] in runs.report(tmp_path / name).read_text(encoding="utf-8")
    with pytest.raises(lmassay.UserError, match=r"use \.html, \.md, \.tex or \.csv"):
        runs[0].report(tmp_path / "r.docx")


def test_what_evaluate_returned_is_compared(runs):
    first, second = runs[0], runs[1]
    one, other = runs.where(model=first.model), runs.where(model=second.model)
    assert lmassay.compare(one, other) == lmassay.compare(first, second)
    assert lmassay.compare(one + other) == lmassay.compare(first, second)
    assert lmassay.compare([one, other]) == lmassay.compare(first, second)
    assert lmassay.compare((first, second)) == lmassay.compare(first, second)
    with pytest.raises(lmassay.UserError, match="the base run is a list of 2 runs; choose one by its position"):
        lmassay.compare(one + other, first)


@pytest.mark.parametrize("value", [None, 3, {"run": 1}])
def test_what_is_not_a_run_cannot_be_compared(runs, value):
    message = f"a run is a Run, an id or a results folder, not a value of type {type(value).__name__}"
    for given in ([value], [runs[0], value], [[runs[0], value]]):
        with pytest.raises(lmassay.UserError, match=message):
            lmassay.compare(*given)


def test_runs_ids_and_folders_are_compared(runs, folder, tmp_path):
    rows = lmassay.compare(runs[0], runs[1])
    assert [row.metric for row in rows][:1] == ["success"]
    assert rows["s_src"].difference == 0
    by_id = lmassay.compare(runs[0].id, folder, results=folder)
    assert list(by_id) == list(rows)
    assert "p = " in repr(rows)
    assert repr(rows[1]).startswith("<Comparison s_src: +0.0000 [")
    assert repr(rows[1]).endswith("n = 3: charswap on careless against charswap on careful>")
    assert rows.report(tmp_path / "c.html").stat().st_size > 1000
    with pytest.raises(lmassay.UserError, match="give at least two runs"):
        lmassay.compare(runs[0])
    with pytest.raises(KeyError, match="the compared metrics are success, "):
        rows["nothing"]


def test_each_metric_is_named_once_if_several_runs_are_compared(runs):
    rows = lmassay.compare(runs[0], runs[1], runs[1])
    with pytest.raises(KeyError) as error:
        rows["nothing"]
    metrics = str(error.value).partition(" are ")[2].strip("'\"").split(", ")
    assert len(metrics) == len(set(metrics))


def test_a_run_without_results_says_so_if_a_metric_is_requested():
    with pytest.raises(KeyError, match="this run has no results"):
        Results([])["success"]


def test_a_figure_that_is_too_wide_is_a_warning_at_the_line_that_saves_it(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("lmassay.api.figures.is_too_wide", lambda drawing, layout: True)
    with pytest.warns(UserWarning, match="figure.svg") as caught:
        runs[0].plot().save(tmp_path / "figure.svg", width="one-column", text="text")
    assert [warning.filename for warning in caught] == [__file__]


def test_a_run_that_is_not_done_says_so(tmp_path):
    def fails(prompts):
        raise RuntimeError("<no> connection")

    with pytest.raises(lmassay.UserError):
        lmassay.evaluate(lmassay.task("robustness", src=TEXTS, attack="charswap"), fails, tmp_path / "r")
    (run,) = lmassay.load(tmp_path / "r")
    assert "failed (" in repr(run)
    assert "&lt;no&gt; connection" in run._repr_html_()
    assert run.plot().is_empty


def test_the_prompt_of_a_white_box_request_contains_the_instruction():
    request = Substitute("le chat", "the cat", left="Translate: ", right=" =>")
    example = _example(Row(Example("a", {}, None), "scored"), [(request_as_dict(request), Response(Substitutions(())))])
    assert example.prompt == "Translate: le chat =>"
