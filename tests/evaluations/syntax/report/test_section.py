"""The section of the syntax evaluation: every number in its place, every text a text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import pytest

from lmassay.evaluations.syntax.report import section
from lmassay.evaluations.syntax.report.accuracy_chart import accuracy_chart
from lmassay.evaluations.syntax.report.curves import curve_chart
from lmassay.evaluations.syntax.report.cutoffs import CutoffCurve, CutoffPoint, series_style
from lmassay.reporting.blocks import Note, Section
from lmassay.reporting.chart import MAX_SERIES
from lmassay.reporting.run_labels import short_run_titles
from lmassay.statistics.comparison import compare_runs
from lmassay.statistics.sides import load_side
from lmassay.storage.store import Store
from lmassay.types import Example, NewRun, Provenance, Result, Row, RunRecord, Score, provenance_from_dict
from tests.reporting.small_runs import NASTY, cells, page, run, tables, two_constructions, write_agreement


def syntax_section(folder) -> Section:
    with Store(folder / "results") as store:
        return section.section(store, store.runs())


def notes(folder) -> list[str]:
    return [block.text for block in syntax_section(folder).blocks if isinstance(block, Note)]


# --- the syntax section -----------------------------------------------------------------------------------------------


def test_a_run_has_a_row_a_construction_and_two_that_sum_up(tmp_path):
    (done,) = run(tmp_path, two_constructions(tmp_path))
    (table,) = tables(syntax_section(tmp_path))
    drawn_cells = cells(table)
    assert list(drawn_cells) == ["Simple", "Across", "overall", "mean of constructions"]
    result_of = {(r.metric, r.group): r for r in done.results}
    for place, metric in enumerate(("mw", "ew", "tse")):
        assert drawn_cells["Simple"][place] == f"{result_of[metric, 'construction=Simple'].value:.3f}"
        assert drawn_cells["overall"][place] == f"{result_of[metric, 'overall'].value:.3f}"
        assert drawn_cells["mean of constructions"][place] == f"{result_of[metric, 'mean of constructions'].value:.3f}"


def test_contexts_rows_dropped_errors_lemmas_and_nouns_stand_beside_the_scores(tmp_path):
    run(tmp_path, two_constructions(tmp_path), {"unknown": ["swim"]})
    (table,) = tables(syntax_section(tmp_path))
    assert [c.text for c in table.headers[0][5:]] == ["contexts", "rows", "dropped", "errors", "lemmas", "nouns"]
    # Two nouns in two numbers with three verbs, one of which the model cannot spell.
    assert cells(table)["Simple"][4:] == ["4", "8", "4", "0", "3", "2"]
    assert cells(table)["overall"][4:] == ["10", "20", "10", "0", "3", "3"]


def test_the_number_of_verb_pairs_stands_below_the_rows(tmp_path):
    run(tmp_path, two_constructions(tmp_path), {"unknown": ["swim"]})
    (table,) = tables(syntax_section(tmp_path))
    rows = {line.cells[0].text: line.cells[6] for body in table.bodies for line in body.rows}
    assert (rows["Simple"].text, list(rows["Simple"].small)) == ("8", ["2 verb pairs"])


def test_singular_and_plural_are_distinguished_in_small_print(tmp_path):
    (done,) = run(tmp_path, two_constructions(tmp_path))
    (table,) = tables(syntax_section(tmp_path))
    values = {(r.metric, r.group): r.value for r in done.results}
    small = table.bodies[0].rows[0].cells[2].small[1]
    singular, plural = (values["ew", f"construction=Simple,number={n}"] for n in ("singular", "plural"))
    assert small == f"sg {singular:.2f} · pl {plural:.2f}"


def test_several_models_stand_side_by_side_as_in_the_paper(tmp_path):
    run(tmp_path, two_constructions(tmp_path), {"label": "one"}, {"label": "two"})
    first, *rests = tables(syntax_section(tmp_path))
    assert [(c.text, c.span) for c in first.headers[0][1:]] == [("one", 3), ("two", 3)]
    assert [c.text for c in first.headers[1][1:]] == ["MW", "EW", "TSE"] * 2
    assert all(len(row) == 6 for row in cells(first).values())
    assert len(rests) == 2, "what the numbers of each rest on"


def test_a_run_on_one_construction_is_called_by_it_and_drawn_with_a_line_a_model(tmp_path):
    simple = write_agreement(tmp_path / "a.jsonl", ["author", "pilot"])
    run(tmp_path, {"name": "syntax", "data": {"Simple": str(simple)}}, {"label": "one"}, {"label": "two"})
    assert list(cells(tables(syntax_section(tmp_path))[0])) == ["Simple"]
    drawing = re.findall(r"<svg.*?</svg>", page(tmp_path), flags=re.DOTALL)[2]
    assert [t.text for t in ElementTree.fromstring(drawing).iter("text")][-2:] == ["one", "two"]


def test_runs_on_one_construction_each_share_the_column_of_their_model(tmp_path):
    for name in ("a", "b"):
        write_agreement(tmp_path / f"{name}.jsonl", ["author", name])
        run(tmp_path, {"name": "syntax", "data": str(tmp_path / f"{name}.jsonl")}, {"label": "one"}, {"label": "two"})
    first = tables(syntax_section(tmp_path))[0]
    assert [c.text for c in first.headers[0][1:]] == ["one", "two"]
    assert list(cells(first)) == ["a", "b"]
    assert all("" not in row for row in cells(first).values())


def test_runs_on_other_constructions_have_a_table_of_their_own(tmp_path):
    run(tmp_path, two_constructions(tmp_path))
    third = write_agreement(tmp_path / "c.jsonl", ["dancer"])
    run(tmp_path, {"name": "syntax", "data": {"C": str(third), "D": str(third)}})
    assert [next(iter(cells(table))) for table in tables(syntax_section(tmp_path))] == ["Simple", "C"]


def test_a_construction_that_one_model_did_not_see_is_not_measured(tmp_path):
    task = two_constructions(tmp_path)
    run(tmp_path, task, {"label": "one"})
    run(tmp_path, {**task, "data": {"Simple": task["data"]["Simple"]}}, {"label": "two"})
    first = tables(syntax_section(tmp_path))[0]
    across = first.bodies[0].rows[1].cells
    assert [c.small for c in across[4:]] == [("not measured",)] * 3


def test_the_note_tells_by_how_many_nouns_intervals_are_clustered(tmp_path):
    run(tmp_path, two_constructions(tmp_path))
    assert "clustered by the agreement noun: 3 nouns (2–3 per construction)." in page(tmp_path)


def test_without_known_nouns_the_note_says_that_contexts_count_as_independent(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"sentence_good": "it is here", "sentence_bad": "it are here", "label": -1}\n', encoding="utf-8")
    run(tmp_path, {"name": "syntax", "data": {"Simple": str(file)}})
    assert "No agreement noun is known; intervals treat every context as independent of the others." in notes(tmp_path)


def test_without_clusters_neither_the_note_nor_the_table_speaks_of_nouns(tmp_path):
    run(tmp_path, {**two_constructions(tmp_path), "clusters": "none"})
    assert notes(tmp_path)[0] == "Intervals treat every context as independent of the others (clusters: none)."
    (table,) = tables(syntax_section(tmp_path))
    assert table.headers[0][-1].text == "clusters"
    assert (table.bodies[0].rows[0].cells[-1].text, list(table.bodies[0].rows[0].cells[-1].small)) == ("", [])


def test_clusters_of_a_field_of_the_data_are_not_called_nouns(tmp_path):
    file = write_agreement(tmp_path / "a.jsonl", ["author", "pilot", "chef"])
    file.write_text(file.read_text().replace('"noun": "chef"', '"noun": "author"').replace('"noun"', '"template"'))
    task = {"name": "syntax", "data": {"Simple": str(file)}}
    run(tmp_path, {**task, "clusters": "template"})
    assert notes(tmp_path)[0] == "Intervals are clustered by the field 'template': 2 values."
    (table,) = tables(syntax_section(tmp_path))
    assert (table.headers[0][-1].text, cells(table)["Simple"][-1]) == ("clusters", "2")


def test_models_with_other_clusters_have_a_note_each(tmp_path):
    task = two_constructions(tmp_path)
    run(tmp_path, task, {"label": "one"})
    run(tmp_path, {**task, "clusters": "none"}, {"label": "two"})
    first, second = notes(tmp_path)[:2]
    assert first == "one: Intervals are clustered by the agreement noun: 3 nouns (2–3 per construction)."
    assert second.startswith("two: Intervals treat every context as independent")


def test_runs_on_one_construction_each_share_their_notes(tmp_path):
    for name in ("a", "b"):
        run(tmp_path, {"name": "syntax", "data": str(write_agreement(tmp_path / f"{name}.jsonl", ["author"]))})
    (few_pairs,) = [note for note in notes(tmp_path) if "verb pairs only" in note]
    assert few_pairs.startswith("TSE rests on 3 verb pairs only")
    file = write_agreement(tmp_path / "c.jsonl", ["author"])
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "swim" not in line))
    run(tmp_path, {"name": "syntax", "data": str(file)})
    few_pairs, fewer_pairs = [note for note in notes(tmp_path) if "verb pairs only" in note]
    assert few_pairs.startswith("a and b: TSE rests on 3 verb pairs only")
    assert fewer_pairs.startswith("c: TSE rests on 2 verb pairs only")


def test_curves_of_a_model_on_many_constructions_are_all_drawn_and_not_reported_as_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(section, "MAX_SYSTEMS", 1)
    for name in ("a", "b"):
        run(tmp_path, {"name": "syntax", "data": str(write_agreement(tmp_path / f"{name}.jsonl", ["author"]))})
    shown = syntax_section(tmp_path)
    assert len(shown.examples) == 1
    assert [note for note in notes(tmp_path) if "the first" in note] == [
        "Only the first 1 runs have examples; for the others, write another report of their runs."
    ]
    run(tmp_path, {"name": "syntax", "data": str(tmp_path / "a.jsonl")}, {"label": "two"})
    assert any(note.startswith("Only the first 1 models or settings") for note in notes(tmp_path))


def test_the_comparison_weights_tse_by_rows_as_its_note_says(tmp_path):
    file = write_agreement(tmp_path / "a.jsonl", ["author", "pilot"])
    first, *others = file.read_text().splitlines(keepends=True)
    file.write_text(first * 30 + "".join(others))
    base, new = run(tmp_path, {"name": "syntax", "data": {"S": str(file)}}, {"label": "one"}, {"label": "two"})
    with Store(tmp_path / "results") as store:
        sides = [load_side(store, record) for record in store.runs()]
        (row,) = compare_runs(sides[0], [sides[1]], ["tse"])
        shown = section.section(store, store.runs())
    table_values = []
    for done in (base, new):
        table_values += [r.value for r in done.results if (r.metric, r.group) == ("tse", "overall")]
    assert [row.base_mean, row.new_mean] == pytest.approx(table_values)
    assert shown.comparison_note == "TSE weights each context by its rows, as in the table above."


def test_a_model_without_masses_has_numbers_but_no_curves(tmp_path):
    run(tmp_path, two_constructions(tmp_path), {"label": "plain", "masses": False})
    text = page(tmp_path)
    assert len(re.findall(r"<svg\b.*?</svg>", text, flags=re.DOTALL)) == 2, "the overview, the map of constructions"
    assert "No curves, because the model does not rank its whole vocabulary" in text
    assert "no data" not in " ".join(cells(tables(syntax_section(tmp_path))[0])["Simple"][:3])


def test_without_cutoffs_nothing_is_said_of_curves(tmp_path):
    run(tmp_path, {**two_constructions(tmp_path), "cutoffs_top": [], "cutoffs_bottom": []})
    assert "No curves" not in page(tmp_path)


def test_a_cell_without_data_says_so_with_its_n(tmp_path):
    run(tmp_path, two_constructions(tmp_path), {"unknown": ["laugh", "are", "swim"]})
    (table,) = tables(syntax_section(tmp_path))
    assert cells(table)["Simple"][2] == "no data (n = 0)"


def test_errors_are_counted_and_the_rest_is_shown(tmp_path):
    run(tmp_path, two_constructions(tmp_path), {"fails_on": "pilot"})
    (table,) = tables(syntax_section(tmp_path))
    assert cells(table)["Simple"][7] == "2"
    text = page(tmp_path)
    assert "4 × the &lt;b&gt;server&lt;/b&gt; is on fire" in text
    assert text.count("<svg") == 6


def test_a_run_in_which_everything_failed_has_cells_without_data(tmp_path):
    run(tmp_path, two_constructions(tmp_path), {"fails_on": "The"})
    (table,) = tables(syntax_section(tmp_path))
    assert cells(table)["Simple"][:3] == ["no data (n = 0)"] * 3
    assert "10 × the &lt;b&gt;server" in page(tmp_path)


def test_an_unfinished_run_is_called_so_beside_a_finished_one(tmp_path):
    (done,) = run(tmp_path, two_constructions(tmp_path))
    with Store(tmp_path / "results") as store:
        begun = NewRun("begun", "s", "", "syntax", "half", "2 constructions", {}, "", Provenance(), None)
        store.add_run(begun)
        store.add_rows("begun", [(0, next(iter(store.rows(done.id))))])
    text = page(tmp_path)
    assert "2 constructions on half has no results; its status is interrupted" in text
    assert len(tables(syntax_section(tmp_path))) == 1


def test_the_contexts_shown_are_those_with_most_probability_on_wrong_verbs(tmp_path):
    (done,) = run(tmp_path, two_constructions(tmp_path))
    (shown,) = syntax_section(tmp_path).examples
    with Store(tmp_path / "results") as store:
        rows = {row.example.id: row for row in store.rows(done.id)}
    worst = max(rows.values(), key=lambda row: (1 - row.score.values["mw"]) * row.score.values["mass"])
    assert shown.examples[0].id == worst.example.id
    texts = dict(shown.examples[0].texts)
    assert texts["context"] == f"{worst.example.inputs['left']}___{worst.example.inputs['right']}"
    assert texts["number of the right verb"] == worst.example.reference
    verdict_texts = " ".join(texts.get(verdict, "") for verdict in ("TSE right", "TSE wrong", "TSE dropped"))
    assert verdict_texts.count("/") == len(worst.example.inputs["rows"])
    nouns = [(dict(e.texts)["construction"], rows[e.id].example.groups["noun"]) for e in shown.examples]
    assert len(nouns) == len(set(nouns)), "one context a noun and construction"


def test_nothing_of_the_data_becomes_markup(tmp_path):
    task = two_constructions(tmp_path, first=NASTY)
    write_agreement(tmp_path / "a.jsonl", ["author"], f"the {{noun}} <img src=x> {NASTY} {{verb}} {NASTY}")
    run(tmp_path, task, {"label": f"{NASTY} one"}, {"label": "two & <b>"})
    text = page(tmp_path)
    assert NASTY not in text
    assert "<img" not in text
    assert "<b>" not in text
    assert "&lt;script&gt;" in text
    policy = "default-src 'none'; style-src 'sha256-"
    assert policy in text
    assert "style=" not in text, "the policy forbids it"
    for drawing in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        ElementTree.fromstring(drawing)


def test_a_task_of_that_name_with_other_results_is_shown_as_it_is(tmp_path):
    results = [Result("m", "overall", 0.5, None, None, 1)]
    with Store(tmp_path / "results", create=True) as store:
        for task in ("syntax", "minimal_pairs", "robustness", "something"):
            store.add_run(NewRun(task, "s", "", task, "mine", "own", {}, "", Provenance(), None))
            store.add_rows(task, [(0, Row(Example("1", {}, None, {}), "scored", Score({"m": 0.5})))])
            store.set_results(task, results)
            store.set_status(task, "done")
    assert page(tmp_path).count("0.5000") == 4


def test_metrics_of_the_users_own_have_a_table_of_their_own(tmp_path):
    (done,) = run(tmp_path, two_constructions(tmp_path))
    with Store(tmp_path / "results") as store:
        own = {"metric": "mine", "group": "overall", "value": 0.125, "low": None, "high": None, "n": 7}
        store.set_results(done.id, [*store.run(done.id).results, Result(**own)])
    _, table = tables(syntax_section(tmp_path))
    assert cells(table) == {"mine": ["overall", "0.1250", "n/a", "7", "0", "0"]}


# --- curves -----------------------------------------------------------------------------------------------------------


def curve(name: str, value: float = 0.5) -> CutoffCurve:
    at = [("top", 0.5), ("top", 1.0), ("bottom", 1e-6), ("bottom", 1e-3)]
    points = [CutoffPoint(side, cutoff, value, f"{name} {cutoff}") for side, cutoff in at]
    return CutoffCurve(name, points, series_style(0))


def test_top_cutoffs_are_linear_solid_circles_and_bottom_ones_logarithmic_dashed_crosses():
    root = ElementTree.fromstring(curve_chart([curve("a")], "EW", "about it").svg())
    dashed, solid = [line.get("points").split() for line in root.iter("polyline")]
    assert [line.get("class") for line in root.iter("polyline")] == ["curve dashed", "curve"]
    ends = [float(point.split(",")[0]) for point in (dashed[0], dashed[1], solid[0], solid[1])]
    assert ends[1] == ends[2] == pytest.approx((ends[0] + ends[3]) / 2), "half-way in its own measure"
    assert sum(1 for _ in root.iter("circle")) == 3, "two points and the legend"
    assert sum(1 for _ in root.iter("path")) == 3


def test_the_legend_is_below_the_plot_row_by_row_and_inside_the_figure():
    long = "with a name that is longer than what fits into two lines of a figure, whatever is written into them"
    names = [f"construction {i} {long}" for i in range(MAX_SERIES)]
    root = ElementTree.fromstring(curve_chart([curve(name) for name in names], "EW", "about it").svg())
    texts = [t for t in root.iter("text") if t.text.startswith("construction")]
    heights = [float(t.get("y")) for t in texts]
    assert [t.find("title").text for t in texts] == names
    assert all(later - earlier >= 14 for earlier, later in pairwise(heights))
    others = [float(t.get("y")) for t in root.iter("text") if t not in texts]
    assert max(others) < min(heights)
    assert max(heights) < float(root.get("viewBox").split()[3])


def test_more_curves_than_can_be_distinguished_are_refused_by_the_figure_and_spread_by_the_page(tmp_path):
    with pytest.raises(ValueError, match="6 curves"):
        curve_chart([curve(str(i)) for i in range(6)], "EW", "about it")
    with pytest.raises(ValueError, match="6 series"):
        accuracy_chart([], [str(i) for i in range(6)], "people", "accuracy", "about it")
    file = write_agreement(tmp_path / "a.jsonl", ["author", "pilot"])
    run(tmp_path, {"name": "syntax", "data": {f"C{i}": str(file) for i in range(7)}})
    text = page(tmp_path)
    assert text.count("<svg") == 10, "the overview, the map, and two panels of EW, MW, mass and invalid"
    drawn = [ElementTree.fromstring(d) for d in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)]
    assert [sum(1 for t in d.iter("text") if t.text.startswith("C")) for d in drawn] == [0, 7, 4, 4, 3, 3, 4, 4, 3, 3]


def test_a_point_on_few_contexts_is_faint(tmp_path):
    run(tmp_path, two_constructions(tmp_path))
    assert 'class="faint"' in page(tmp_path)


# --- names ------------------------------------------------------------------------------------------------------------


def record(name: str, model: str, label: str = "l", **signature: str) -> RunRecord:
    provenance = {"signature": signature}
    return RunRecord(
        name, "s", "", "t", model, label, "done", {}, "", provenance_from_dict(provenance), [], "", None, "", None
    )


def test_runs_are_named_by_as_little_as_tells_them_apart():
    some = [record("x-1", "a"), record("x-2", "b", "l"), record("x-3", "b", "m")]
    assert short_run_titles(some) == ["a", "b · l", "b · m"]
    same = [record("x-1", "a", method="s"), record("x-2", "a", method="p"), record("x-3", "a", method="p")]
    assert short_run_titles(same) == ["a · method s", "a · method p · 2", "a · method p · 3"]
    assert short_run_titles([replace(same[0])]) == ["a"]
