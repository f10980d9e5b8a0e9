"""The few-shot section of the page."""

from __future__ import annotations

import re
import shlex

import pytest

from lmassay.reporting.blocks import Figures, Folded, Heading, Note, Table
from lmassay.reporting.page import render
from lmassay.reporting.sections import section_of
from lmassay.running import trained_models
from lmassay.storage.store import Store
from tests.evaluations.fewshot.report.small_fewshot import GRID, NAN, failed, fewshot_run, fill, row, sweep, task

NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """PET under two strategies on two tasks, with a failed training, and a method with one configuration."""
    runs = []
    for strategy in ("multi_splits", "cross_validation"):
        splits = {"strategy": strategy, "k": 2}
        runs += sweep(GRID, splits=splits) + sweep(GRID, "superglue/cb", splits=splits)
        runs.append(
            fewshot_run("broken", task(method={"name": "pet", "learning_rate": 1e-3}, splits=splits), [failed(0)])
        )
    runs.append(
        fewshot_run("floor", task(method="majority", splits={"k": 2}), [row(0, pattern=None), row(1, pattern=None)])
    )
    folder = fill(tmp_path_factory.mktemp("results"), runs)
    with Store(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def section(store):
    return section_of(store, store.runs())


def tables(blocks) -> list[Table]:
    return [block for block in blocks if isinstance(block, Table)]


def text_of(table: Table) -> list[list[str]]:
    return [[cell.text for cell in line.cells] for body in table.bodies for line in body.rows]


def after(blocks, heading: str):
    """The blocks behind a heading."""
    place = next(n for n, block in enumerate(blocks) if isinstance(block, Heading) and block.text.startswith(heading))
    return blocks[place + 1 :]


def test_methods_stand_in_one_table(section):
    methods = text_of(tables(section.blocks)[0])
    assert [line[:2] for line in methods] == [
        ["pet", "cross-validation"],
        ["pet", "multi-splits"],
        ["majority", "multi-splits"],
    ]
    assert methods[0][2:] == ["71.00±1.41", "71.00±1.41", "71.00"]
    assert methods[2][3:] == ["", "–"], "a method without a task has no average"


def test_the_costs_of_all_methods_come_before_the_part_of_the_first_method(section):
    headings = [block.text for block in section.blocks if isinstance(block, Heading)]
    assert headings[0] == "Scores and cost"
    assert headings[1].startswith("pet")


def test_each_strategy_has_its_criteria_and_its_selected_configuration(section):
    criteria, selected = tables(after(section.blocks, "MS: Multi-Splits"))[:2]
    assert [line[0] for line in text_of(criteria)] == ["test", "dev–test correlation", "test, K=1", "correlation, K=1"]
    assert text_of(selected)[0][:2] == ["superglue/rte", "learning_rate=4e-05"]
    assert text_of(selected)[0][4:] == ["2 of 2", "6", "32/32/277"]


def test_all_figures_are_drawn(section):
    titles = {
        heading: len(after(section.blocks, heading)[0].figures)
        for heading in ("Splits of the selected", "Dev against test", "Stability over K", "Dev scores during")
    }
    assert titles == {
        "Splits of the selected": 2,
        "Dev against test": 2,
        "Stability over K": 4,
        "Dev scores during": 4,
    }


def test_the_scatter_tells_the_correlation_with_interval_and_n(section):
    (figure, _) = after(section.blocks, "Dev against test")[0].figures
    assert re.search(r"multi-splits 0\.90 \[-0\.17, 1\.00\], n = 5", figure.caption)
    assert str(figure.drawing).count('class="interval"') == 2, "one ring a strategy"


def test_splits_are_dots_of_dev_and_test(section):
    drawing = str(after(section.blocks, "Splits of the selected")[0].figures[1].drawing)
    assert "split 1: test 72.0" in drawing
    assert "split 0: dev 74.0" in drawing
    assert "71.0±1.4" in drawing


def test_a_dev_curve_marks_the_step_whose_weights_were_taken(section):
    drawing = str(after(section.blocks, "Dev scores during")[0].figures[0].drawing)
    assert drawing.count("<polyline") == 2
    assert drawing.count("update 4:") == 2
    assert "update 6:" not in drawing


def test_configurations_are_sorted_by_dev_those_that_lack_splits_last(section):
    folded = next(b for b in after(section.blocks, "All configurations") if isinstance(b, Folded))
    names = [line[0] for line in text_of(folded.blocks[0])]
    assert names[0] == "learning_rate=4e-05"
    assert names[-1] == "learning_rate=0.001"
    assert folded.blocks[0].bodies[0].rows[0].cells[0].small == ("selected",)


def test_failed_trainings_are_listed_with_their_reason(section):
    lists = [b for b in section.blocks if isinstance(b, Folded) and b.summary.startswith("Trainings without")]
    (folded,) = lists
    assert folded.summary == "Trainings without a result: 2 failed, 2 not done"
    reasons = [line.cells[4].small[0] for line in folded.blocks[0].bodies[0].rows]
    assert reasons.count(NAN) == 2


def test_no_figure_without_something_to_draw(tmp_path):
    fill(tmp_path, [fewshot_run("a", task(splits={"k": 2}), [], status="waiting")])
    with Store(tmp_path) as store:
        blocks = section_of(store, store.runs()).blocks
    assert not any(isinstance(block, Figures) for block in blocks)
    assert any(isinstance(block, Folded) and "2 not done" in block.summary for block in blocks)


def test_sixteen_splits_and_equal_scores_are_drawn(tmp_path):
    fill(tmp_path, sweep({1e-5: [(0.5, 0.5)] * 16, 2e-5: [(0.5, 0.5)] * 16}, splits={"k": 16}))
    with Store(tmp_path) as store:
        blocks = section_of(store, store.runs()).blocks
    assert "nan" not in "".join(str(f.drawing) for b in blocks if isinstance(b, Figures) for f in b.figures)
    rows = [line[0] for line in text_of(tables(after(blocks, "MS:"))[0])]
    assert [name for name in rows if name.startswith("test")] == ["test", *(f"test, K={k}" for k in (1, 2, 4, 8))]


def test_two_metrics_stand_side_by_side(tmp_path):
    rows = [row(split, 0.6, 0.5, metrics=("acc", "f1-macro")) for split in (0, 1)]
    fill(tmp_path, [fewshot_run("a", task("superglue/cb", splits={"k": 2}), rows)])
    with Store(tmp_path) as store:
        blocks = section_of(store, store.runs()).blocks
    criteria = tables(blocks)[0]
    assert criteria.headers[0][1].text == "CB acc/F1"
    assert text_of(criteria)[0][1] == "50.00±0.00 / 50.00±0.00"


def test_everything_is_escaped(tmp_path):
    method = {"name": "pet", "prompt": NASTY}
    runs = [
        fewshot_run("a", task(method=method, splits={"k": 2}), [row(0), failed(1, NASTY)], model=NASTY),
        fewshot_run("b", task(method={"name": "pet", "prompt": "b"}, splits={"k": 2}), [row(0), row(1)], model=NASTY),
    ]
    fill(tmp_path, runs, notes=[NASTY])
    with Store(tmp_path) as store:
        page = render(store, store.runs())
    assert NASTY not in page
    assert "&lt;script&gt;" in page


def test_the_page_holds_the_section_and_where_it_comes_from(store):
    page = render(store, store.runs())
    assert "<h2>fewshot <small>Does it learn from a few examples?</small></h2>" in page
    assert page.count("<svg") == page.count("</svg>") > 10
    assert "from the same paired t-test" not in page, "configurations are compared by the protocol"
    assert "<code>lmassay run</code>" in page


def test_the_note_says_what_the_numbers_are(section):
    first = section.blocks[0]
    assert isinstance(first, Note)
    assert "95 %" in first.text


def test_the_section_names_the_command_that_uses_kept_models(tmp_path):
    splits = {"k": 2}
    fill(tmp_path, [fewshot_run("trained", task(splits=splits), [row(0), row(1)])])
    with Store(tmp_path) as store:
        assert "Kept models" not in str(section_of(store, store.runs()).blocks)
        (run,) = (record.id for record in store.runs())
        trained_models.write_list(tmp_path, run, {"split-0": ["one"], "split-1": ["two"]})
        for name in ("one", "two"):
            (tmp_path / "models" / name).mkdir(parents=True)
        note = after(section_of(store, store.runs()).blocks, "Kept models")[0]
    command = f"lmassay predict {run} --results {shlex.quote(str(tmp_path))} --in new.jsonl"
    assert note == Note(f"2 trained models kept. Label new texts: {command}")
