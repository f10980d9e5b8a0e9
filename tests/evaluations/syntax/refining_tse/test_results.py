"""The paper's table and figures: right in every cell and curve, and a real LaTeX accepts the table."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import DataError, MissingExtra
from lmassay.evaluations.syntax.refining_tse import figures
from lmassay.evaluations.syntax.refining_tse.results import (
    TEMPLATES,
    Curve,
    ExperimentCurves,
    FolderResults,
    _read,
    latex_table,
    read_results,
)
from lmassay.reporting.chart import Chart, ChartLine, LinearAxis, LogAxis
from lmassay.reporting.figure_style import page_style_sheet
from lmassay.reporting.formats.latex import escape_signs
from tests.helpers import write_lines
from tests.reporting.chart.boxes import outside, overlaps, size_of, text_boxes

# MW, EW, TSE: two columns of the paper's table.
PAPER = {
    "bert-large-cased": """.99 .94 1.00  .92 .67 .89  .91 .89 .90  .91 .83 .93  .87 .84 .84  .91 .88 .91  .92 .88 .90
        .93 .95 .97  .90 .91 .92  .81 .73 .90""",
    "roberta-large": """.98 .93 1.00  .92 .67 .88  .93 .90 .93  .87 .83 .89  .76 .72 .80  .88 .85 .91  .86 .82 .89
        .89 .91 .97  .82 .83 .90  .70 .66 .78""",
}
CUTOFFS = {"top-k": [0.5, 1.0], "bottom-k": [0.5, 1e-3]}


def write_run(folder, model, templates, kind, score, tse=None, name="custom_m_main", config=True, **run_facts):
    """A result folder as the original writes it, with the score at the last top cut-off."""
    run = folder / model / templates / kind / name
    for part in ("metrics", "npzs"):
        (run / part).mkdir(parents=True)
    lines = ["Metric: main", "Overall model score: 0.123", "Number of examples: 3"]
    for side, cutoffs in CUTOFFS.items():
        lines.append(f"Cutoffs ({side}): {', '.join(map(str, cutoffs))}")
        lines.append(f"Overall scores ({side}): 0.4, {score if side == 'top-k' else 'nan'}")
        lines.append(f"Writing npz with name Prob counted ({side}).")
        lines.append(f"% examples invalid ({side}): 0.25, 0.0")
        np.savez(run / "npzs" / f"Prob counted ({side}).npz", np.array([[0.1, 0.2], [0.3, np.nan]]))
    write_lines(run / "metrics/main.txt", lines)
    if tse is not None:
        write_lines(run / "metrics/ML.txt", ["Metric: ML", f"Overall model score: {tse}", "Number of examples: 7"])
    if config:
        write_lines(run / "config.yaml", [f"metrics: {{main: {{use_equal_verb_voting: {str('ew' in kind).lower()}}}}}"])
    if run_facts:
        (run / "json").mkdir()
        write_lines(
            run / "json/run.json", [json.dumps({"compat": "none", "time": "2026-01-01T00:00:00+00:00", **run_facts})]
        )
    return run


@pytest.fixture
def paper(tmp_path):
    for model, text in PAPER.items():
        numbers = [float(number) for number in text.split()]
        for templates, (mw, ew, tse) in zip(TEMPLATES, _threes(numbers), strict=True):
            write_run(tmp_path, model, templates, "mw", mw)
            write_run(tmp_path, model, templates, "tse_ew", ew, tse)
    return read_results(tmp_path)


def _threes(numbers):
    return list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))


def cells(table):
    """The rows of the table's body as lists of cells."""
    body = table.partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    return [line.removesuffix(r" \\").split(" & ") for line in body.splitlines() if "&" in line]


def test_the_table_is_the_papers(paper):
    rows = cells(latex_table(paper))
    assert [row[0] for row in rows] == list(TEMPLATES.values())
    assert rows[0][1:] == [r"\textit{0.99}", "0.94", r"\textbf{1.00}", r"\textit{0.98}", "0.93", r"\textbf{1.00}"]
    assert rows[4][1:4] == [r"\textit{0.87}", r"\textbf{0.84}", r"\textbf{0.84}"], "a tie is bold on both sides"
    plain = [[re.sub(r"\\text\w+{(.*)}", r"\1", cell) for cell in row[1:]] for row in rows]
    for place, text in enumerate(PAPER.values()):
        expected = [f"{float(number):.2f}" for number in text.split()]
        assert [cell for row in plain for cell in row[3 * place : 3 * place + 3]] == expected


def test_the_head_names_each_model_over_its_three_metrics(paper):
    head = latex_table(paper).partition("\\midrule")[0]
    assert r"\multicolumn{3}{c}{BERT-large cased} & \multicolumn{3}{c}{RoBERTa-large}" in head
    assert r"\cmidrule(lr){2-4} \cmidrule(lr){5-7}" in head
    assert r"Templates & MW & EW & TSE & MW & EW & TSE \\" in head


def test_ties_are_decided_by_two_decimals(tmp_path):
    write_run(tmp_path, "m", "blimp", "tse_ew", 0.8949, 0.8901)
    assert cells(latex_table(read_results(tmp_path)))[-1][1:] == ["-", r"\textbf{0.89}", r"\textbf{0.89}"]


def test_what_is_missing_is_a_dash_and_beats_nothing(tmp_path):
    write_run(tmp_path, "m", "ML_subj", "tse_ew", 0.5)
    write_run(tmp_path, "m", "ML_obj", "mw", "nan", tse=0.7)
    rows = {row[0]: row[1:] for row in cells(latex_table(read_results(tmp_path)))}
    assert len(rows) == 10
    assert rows["Across subject relative clause"] == ["-", "0.50", "-"]
    assert rows["Across object relative clause"] == ["-", "-", "0.70"]
    assert rows["Simple"] == ["-", "-", "-"]


def test_templates_of_the_users_own_stand_below_the_papers(tmp_path):
    write_run(tmp_path, "m", "my_100%_set", "mw", 0.5)
    table = latex_table(read_results(tmp_path))
    assert table.count("\\midrule") == 2
    assert cells(table)[-1] == [r"my\_100\%\_set", r"\textit{0.50}", "-", "-"]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30))
def test_escaped_text_has_no_special_sign_left(text):
    rest = re.sub(
        r"\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar)\{\}|\\[{}$&#%_]",
        "",
        escape_signs(text),
    )
    assert not set(rest) & set("\\{}$&#%_~^")


@given(st.data())
def test_every_row_has_a_cell_for_every_column(data):
    names = st.sampled_from(["bert-large-cased", "a_b", "c & d", "gpt2"])
    score = st.none() | st.floats(0, 1)
    results = FolderResults()
    for model in data.draw(st.lists(names, min_size=1, unique=True)):
        for templates in data.draw(st.lists(st.sampled_from([*TEMPLATES, "own"]), min_size=1, unique=True)):
            for voting in ("ew", "mw"):
                value = data.draw(score)
                if value is not None:
                    results.experiments[model, templates, voting] = ExperimentCurves(Curve([1.0], [value]), Curve())
            results.tse[model, templates] = data.draw(st.floats(0, 1))
    rows = cells(latex_table(results).replace(r"\&", "and"))
    assert {len(row) for row in rows} == {1 + 3 * len(results.models)}


DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\begin{document}
\input{latex_table.tex}
\end{document}
"""


def test_a_real_latex_compiles_the_table(paper, tmp_path):
    latex = next(filter(None, map(shutil.which, ("pdflatex", "tectonic", "lualatex", "xelatex"))), None)
    if latex is None:
        pytest.skip("no LaTeX is installed (pdflatex, tectonic, lualatex or xelatex)")
    paper.tse[r"odd_{name}$&#%~^\<|>", "own_set 100%"] = 0.5
    folder = tmp_path / "tex"
    folder.mkdir()
    (folder / "latex_table.tex").write_text(latex_table(paper), encoding="utf-8")
    (folder / "table.tex").write_text(DOCUMENT, encoding="utf-8")
    options = [] if latex.endswith("tectonic") else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run([latex, *options, "table.tex"], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert any((folder / f"table.{kind}").is_file() for kind in ("pdf", "dvi"))


# --- reading ----------------------------------------------------------------------------------------------------------


def test_of_several_runs_the_newest_counts_and_half_written_ones_do_not(tmp_path):
    newest = write_run(tmp_path, "m", "blimp", "mw", 0.1)
    older = write_run(tmp_path, "m", "blimp", "mw", 0.2, name="custom_m_main_26-01-02-03-04-05")
    write_run(tmp_path, "m", "blimp", "mw", 0.3, name=".custom_m_main_27.unfinished")
    for path in [older / "metrics", *(older / "metrics").iterdir()]:
        os.utime(path, (1e9, 1e9))
    results = read_results(tmp_path)
    assert results.score("m", "blimp", "mw") == 0.1
    assert results.warnings == [f"m, blimp, MW: 2 runs; using the newest, {newest}"]


def test_the_time_that_a_run_tells_outweighs_that_of_its_files(tmp_path):
    write_run(tmp_path, "m", "blimp", "mw", 0.1, name="a", time="2026-03-01T12:00:00+01:00")
    write_run(tmp_path, "m", "blimp", "mw", 0.2, name="b", time="2026-03-01T11:30:00+01:00")
    assert read_results(tmp_path).score("m", "blimp", "mw") == 0.1


def test_runs_as_released_are_never_mixed_with_others(tmp_path):
    released = {"compat": "released", "time": "2026-02-01T00:00:00+00:00"}
    write_run(tmp_path, "m", "blimp", "mw", 0.1, compat="none")
    write_run(tmp_path, "m", "blimp", "mw", 0.2, name="late", **released)
    write_run(tmp_path, "m", "ML_subj", "mw", 0.3, name="theirs")
    write_run(tmp_path, "n", "blimp", "mw", 0.4, **released)
    results = read_results(tmp_path)
    assert {key[:2]: e.headline for key, e in results.experiments.items()} == {("m", "blimp"): 0.1, ("n", "blimp"): 0.4}
    assert "m: runs are left out because they have the numbers of the released program" in results.warnings[0]
    assert "n: all runs have the numbers of the released program" in results.warnings[1]
    assert read_results(tmp_path, "none").models == ["m"]
    experiments = read_results(tmp_path, "released").experiments
    assert [experiments[key].headline for key in sorted(experiments)] == [0.3, 0.2, 0.4]


def test_when_no_run_is_left_the_reasons_are_reported(tmp_path):
    broken = write_run(tmp_path, "n", "blimp", "mw", "a lot")
    odd = write_run(tmp_path, "m", "blimp", "mw", 0.5, compat="none")
    write_lines(odd / "json/run.json", ["[]"])
    with pytest.raises(DataError, match="has no results") as caught:
        read_results(tmp_path)
    notes = "\n".join(caught.value.__notes__)
    assert f"{broken} is left out" in notes
    assert f"{odd} is left out: json/run.json lacks compat or time" in notes


def test_a_cut_off_that_no_context_reaches_has_no_mean_and_no_warning(tmp_path):
    run = write_run(tmp_path, "m", "blimp", "mw", 0.5)
    np.savez(run / "npzs/Prob counted (top-k).npz", np.array([[np.nan, 0.5], [np.nan, 0.7]]))
    counted = read_results(tmp_path).experiments["m", "blimp", "mw"].top.counted
    assert np.isnan(counted[0])
    assert counted[1] == pytest.approx(0.6)


def test_the_configuration_tells_ew_from_mw_and_without_one_the_folder_does(tmp_path):
    odd = write_run(tmp_path, "m", "blimp", "first", 0.1)
    write_lines(odd / "config.yaml", ["metrics: {main: {use_equal_verb_voting: true}}"])
    write_run(tmp_path, "m", "blimp", "mw", 0.2, config=False)
    results = read_results(tmp_path)
    assert (results.score("m", "blimp", "ew"), results.score("m", "blimp", "mw")) == (0.1, 0.2)


def test_a_broken_run_is_left_out_with_a_warning(tmp_path):
    write_run(tmp_path, "m", "blimp", "mw", 0.2)
    broken = write_run(tmp_path, "n", "blimp", "mw", "a lot")
    results = read_results(tmp_path)
    assert results.models == ["m"]
    assert len(results.warnings) == 1
    assert str(broken) in results.warnings[0]


def test_a_run_with_an_empty_file_of_probabilities_is_left_out_with_a_warning(tmp_path):
    write_run(tmp_path, "m", "blimp", "mw", 0.2)
    broken = write_run(tmp_path, "n", "blimp", "mw", 0.5)
    (broken / "npzs/Prob counted (top-k).npz").write_bytes(b"")
    results = read_results(tmp_path)
    assert results.models == ["m"]
    assert str(broken) in results.warnings[0]


def test_a_run_without_the_folders_that_name_it_is_refused_with_the_reason(tmp_path):
    with pytest.raises(ValueError, match="must be <model>/<templates>/<metric>"):
        _read(Path(tmp_path.anchor) / "templates" / "metric" / "run")


def test_no_results_is_an_error_that_says_where_they_lie(tmp_path):
    with pytest.raises(DataError, match="<model>/<templates>/<metric>/<run>"):
        read_results(tmp_path)
    with pytest.raises(DataError, match="there is no folder"):
        read_results(tmp_path / "none")


# --- figures ----------------------------------------------------------------------------------------------------------


def lines_of(marks) -> list[list[tuple[float, float]]]:
    """The points of each line among the marks of a panel."""
    return [mark.points for group in marks for mark in group.marks if isinstance(mark, ChartLine)]


def labels(chart) -> list[str]:
    return [key.label for key in chart.legend]


def test_figures_are_written_in_every_format(tmp_path):
    pytest.importorskip("typst", reason="the figures extra is not installed")
    write_run(tmp_path / "results", "bert-large-cased", "blimp", "tse_ew", 0.5)
    results = read_results(tmp_path / "results")
    files = figures.write_figures(results, tmp_path / "plots", ["png", "pdf", "svg"])
    names = ["bert-large-cased-ew", "supp_top-bottom-scores", "supp_probcounted", "supp_invalid-pcnt"]
    assert [file.name for file in files] == [f"{name}.{kind}" for name in names for kind in ("png", "pdf", "svg")]
    beginnings = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for file in files:
        assert file.read_bytes().startswith(beginnings[file.suffix[1:]])


def test_svg_files_need_no_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    write_run(tmp_path / "results", "bert-large-cased", "blimp", "tse_ew", 0.5)
    results = read_results(tmp_path / "results")
    assert len(figures.write_figures(results, tmp_path / "plots", ["svg"])) == 4
    with pytest.raises(MissingExtra, match=r"pip install 'lmassay\[figures\]'"):
        figures.write_figures(results, tmp_path / "plots")


def test_a_figure_shows_what_was_measured_under_the_right_title(paper):
    drawn = dict(figures.charts(paper))
    assert list(drawn)[:2] == ["bert-large-cased-ew", "bert-large-cased-mw"]
    chart = drawn["bert-large-cased-mw"]
    (panel,) = chart.panels
    assert panel.title == "BERT-large cased (MW)"
    assert (panel.top.title, panel.x.title, panel.y.title) == ("Top cutoff", "Bottom cutoff", "Score")
    assert (type(panel.top), type(panel.x)) == (LinearAxis, LogAxis)
    assert (panel.y.low, panel.y.high) == (0.0, 1.0)
    top, bottom = lines_of(panel.top_marks), lines_of(panel.marks)
    assert len(top) == len(bottom) == 4
    assert top[0] == [(0.5, 0.4), (1.0, 0.99)]
    assert [cutoff for cutoff, _ in bottom[0]] == [1e-3, 0.5]
    assert labels(chart) == [
        "Simple",
        "Across object relative clause",
        "Across object relative (no that)",
        "BLiMP",
        "Top cutoffs",
        "Bottom cutoffs",
    ]


def test_the_supplement_has_a_panel_for_every_model_and_metric(paper):
    drawn = dict(figures.charts(paper))
    titles = [panel.title for panel in drawn["supp_top-bottom-scores"].panels]
    assert titles == ["BERT-large cased (EW)", "BERT-large cased (MW)", "RoBERTa-large (EW)", "RoBERTa-large (MW)"]
    counted = drawn["supp_probcounted"]
    assert [panel.title for panel in counted.panels] == ["BERT-large cased", "RoBERTa-large"]
    lines = lines_of(counted.panels[0].top_marks)
    assert len(lines) == 10
    assert [value for _, value in lines[0]] == pytest.approx([0.2, 0.2])
    invalid = drawn["supp_invalid-pcnt"]
    assert [value for _, value in lines_of(invalid.panels[0].top_marks)[0]] == [0.25, 0.0]


def test_a_cutoff_without_a_score_has_no_mark(paper):
    (panel,) = dict(figures.charts(paper))["bert-large-cased-mw"].panels
    drawing = ET.fromstring(Chart("", [replace(panel, top=None, top_marks=())]).svg())
    # Four templates with two bottom cut-offs each, and nan at one of them.
    assert sum(1 for mark in drawing.iter("path") if mark.get("class") == "cross") == 4
    assert "nan" not in ET.tostring(drawing, encoding="unicode")


def test_ten_templates_have_ten_colours(paper):
    assert len({figures.curve_style(name, paper).colour for name in TEMPLATES}) == 10


def test_templates_of_the_users_own_look_like_no_other(paper):
    for number in range(40):
        paper.tse["m", f"own{number}"] = 0.5
    styles = [figures.curve_style(name, paper) for name in paper.templates]
    assert len({(style.colour, style.top) for style in styles}) == 50
    papers, own = styles[:10], styles[10:]
    assert not {style.colour for style in papers} & {style.colour for style in own}


def test_every_colour_is_in_the_style_sheet(paper):
    for number in range(56):
        paper.tse["m", f"own{number}"] = 0.5
    colours = {figures.curve_style(name, paper).colour for name in paper.templates}
    assert colours <= page_style_sheet().classes


ODD = "costs $5 or $\\frac"
LONG = "a set of templates with a name that goes on " * 4


def test_names_with_dollar_signs_or_hangul_or_of_any_length_are_drawn_whole(tmp_path):
    names = [ODD, LONG.strip(), "W" * 120, "한국어 틀"]
    for name in names:
        write_run(tmp_path / "results", ODD, name, "mw", 0.5)
    for _, chart in figures.charts(read_results(tmp_path / "results")):
        svg = chart.svg()
        boxes = text_boxes(svg)
        assert overlaps(boxes) == []
        assert outside(boxes, *size_of(svg)) == []
        # Lines of a wrapped name follow each other.
        text = "".join(box.text for box in boxes).replace(" ", "")
        for name in names:
            assert name.replace(" ", "") in text


def test_a_model_with_one_metric_leaves_a_hole_so_that_columns_stay(tmp_path):
    write_run(tmp_path, "a", "blimp", "mw", 0.5)
    write_run(tmp_path, "b", "blimp", "tse_ew", 0.5)
    chart = dict(figures.charts(read_results(tmp_path)))["supp_top-bottom-scores"]
    assert [panel and panel.title for panel in chart.panels] == [None, "a (MW)", "b (EW)", None]
    root = ET.fromstring(chart.svg())
    titles = {text.text: float(text.get("x")) for text in root.iter("text") if "(" in text.text}
    assert titles["b (EW)"] < chart.width / 2 < titles["a (MW)"]
    scores = [text for text in root.iter("text") if text.text == "Score"]
    assert len(scores) == 2, "each panel stands first in its row"
