"""A table whose rows, columns and metrics are chosen, with the best numbers marked by tests."""

from __future__ import annotations

import csv

import pytest

from lmassay.errors import UserError
from lmassay.reporting.formats.latex import floating_table
from lmassay.reporting.formats.markdown import table_text
from lmassay.reporting.run_table import TableLayout, run_table
from lmassay.storage.store import Store
from tests.compare_kit import add, rates, scored
from tests.reporting.test_latex_format import compiled

GOOD = [1] * 38 + [0] * 2
BAD = [1] * 10 + [0] * 30
NEARLY = [1] * 37 + [0] * 3


def result(values, metric="accuracy", group="overall"):
    return {
        "metric": metric,
        "group": group,
        "value": sum(values) / len(values),
        "low": 0.1,
        "high": 0.9,
        "n": len(values),
    }


def add_run(folder, run, values, model="m", **task):
    rows = rates(values)
    config = {"task": {"name": "quiz", **task}, "model": {"name": model}}
    add(folder, run, rows, model=model, results=[result(values)], config=config, metrics=[{"name": "accuracy"}])


def table(folder, **layout):
    with Store(folder) as store:
        return run_table(store, store.runs(), TableLayout(**layout))


def texts(made):
    return [[row, *(made.text(row, column, bold="*") for column in made.columns)] for row in made.rows]


@pytest.fixture
def two_by_two(tmp_path):
    add_run(tmp_path, "a", GOOD, "large", attack={"name": "swap", "rate": 0.3})
    add_run(tmp_path, "b", BAD, "small", attack={"name": "swap", "rate": 0.3})
    add_run(tmp_path, "c", GOOD, "large", attack={"name": "drop", "rate": 0.3})
    add_run(tmp_path, "d", NEARLY, "small", attack={"name": "drop", "rate": 0.3})
    return tmp_path


def test_rows_and_columns_are_the_values_of_keys(two_by_two):
    made = table(two_by_two, rows="model", columns="attack", metrics=["accuracy"])
    assert [column[0] for column in made.columns] == ["swap", "drop"]
    assert texts(made) == [["large", "*0.950*", "0.950†"], ["small", "0.250", "0.925†"]]


def test_runs_that_differ_in_two_keys_show_both_and_are_not_tested_against_each_other(two_by_two):
    with Store(two_by_two) as store:
        runs = [record for record in store.runs() if record.id in ("a", "d")]
        made = run_table(store, runs, TableLayout(metrics=["accuracy"]))
    assert texts(made) == [["large, swap", "0.950"], ["small, drop", "0.925"]]


def test_a_name_with_spaces_is_a_row_without_quotes(tmp_path):
    add_run(tmp_path, "a", GOOD, attack={"name": "typing errors", "file": "a.txt"})
    add_run(tmp_path, "b", BAD, attack={"name": "", "file": "b.txt"})
    for key in ("attack", "attack.name"):
        assert table(tmp_path, rows=key, metrics=["accuracy"]).rows == ["typing errors", '""']


def test_rows_and_columns_can_change_places(two_by_two):
    made = table(two_by_two, rows="task.attack", columns="model", metrics=["accuracy"], digits=1)
    assert [column[0] for column in made.columns] == ["large", "small"]
    assert [row[0] for row in texts(made)] == ["swap", "drop"]


def test_without_keys_the_table_shows_what_the_runs_differ_in(two_by_two):
    made = table(two_by_two, metrics=["accuracy"])
    assert (made.row_key, [column[0] for column in made.columns]) == ("model", ["swap", "drop"])


def test_without_keys_every_run_has_a_row_if_the_metrics_are_the_columns(two_by_two):
    made = table(two_by_two)
    assert made.row_key == "model, task.attack"
    assert made.rows == ["large, swap", "small, swap", "large, drop", "small, drop"]
    assert made.columns == [("accuracy",)]


def test_models_in_columns_compete_within_a_row(two_by_two):
    made = table(two_by_two, rows="attack", columns="model", metrics=["accuracy"])
    assert texts(made) == [["swap", "*0.950*", "0.250"], ["drop", "0.950†", "0.925†"]]
    assert any("paired tests of the runs of the row" in note for note in made.notes)


def test_rows_of_models_and_attacks_compare_models_under_the_same_attack(two_by_two):
    made = table(two_by_two, rows="model,attack")
    assert [row[1] for row in texts(made)] == ["*0.950*", "0.250", "0.950†", "0.925†"]
    assert any("paired tests of the runs of the column with the same attack" in note for note in made.notes)


def test_runs_of_a_task_without_main_metrics_are_in_a_table_with_others(tmp_path):
    add(tmp_path, "a", rates(GOOD), model="a", results=[result(GOOD)], headline=["accuracy"])
    add(tmp_path, "b", rates(BAD, "loss"), model="b", results=[result(BAD, "loss"), result(BAD, "loss.std")])
    made = table(tmp_path)
    assert [column[0] for column in made.columns] == ["accuracy", "loss"]
    assert texts(made) == [["a", "0.950", ""], ["b", "", "0.250"]]


@pytest.mark.parametrize("rows", ["run", "model,attack"])
def test_a_key_that_the_rows_determine_is_not_used_for_the_columns(two_by_two, rows):
    made = table(two_by_two, rows=rows, metrics=["accuracy"])
    assert [column[0] for column in made.columns] == ["accuracy"]


def test_the_end_of_a_key_is_enough_for_the_default_of_the_columns(two_by_two):
    made = table(two_by_two, rows="attack", metrics=["accuracy"])
    assert [column[0] for column in made.columns] == ["large", "small"]


def test_two_keys_are_joined(two_by_two):
    made = table(two_by_two, rows="model,attack")
    assert made.rows == ["large, swap", "small, swap", "large, drop", "small, drop"]


def test_runs_that_share_a_cell_are_refused_with_what_they_differ_in(two_by_two):
    with pytest.raises(
        UserError, match=r"a and c are both in the cell \(large; accuracy\); they differ in task.attack"
    ):
        table(two_by_two, rows="model", columns="metric")


def test_metrics_cannot_be_combined_with_other_keys(two_by_two):
    with pytest.raises(UserError, match=r"--columns: metric cannot be combined with other keys; give metric alone"):
        table(two_by_two, rows="attack", columns="model,metric")


def test_a_group_cannot_be_combined_with_other_keys(tmp_path):
    results = [result(GOOD), result(GOOD[:20], group="category=Age"), result(GOOD[20:], group="category=Sex")]
    add(tmp_path, "a", rates(GOOD), model="a", results=results)
    with pytest.raises(UserError, match=r"--rows: category cannot be combined with other keys"):
        table(tmp_path, rows="category,model")


def test_a_key_that_no_run_has_is_an_error_with_a_hint(two_by_two):
    with pytest.raises(UserError, match=r"--rows modle: no run has this key or group; did you mean 'model'\?"):
        table(two_by_two, rows="modle")


def test_the_hint_knows_keys_by_their_last_part(two_by_two):
    with pytest.raises(UserError, match=r"--rows atack: no run has this key or group; did you mean 'attack'\?"):
        table(two_by_two, rows="atack")


def test_a_metric_that_no_run_has_is_an_error_with_a_hint(two_by_two):
    with pytest.raises(UserError, match=r"--metric acuracy: no run has this metric; did you mean 'accuracy'\?"):
        table(two_by_two, metrics=["acuracy"])


def test_options_of_one_plugin_are_told_apart(tmp_path):
    add_run(tmp_path, "a", GOOD, attack={"name": "swap", "rate": 0.3})
    add_run(tmp_path, "b", BAD, attack={"name": "swap", "rate": 0.9})
    assert table(tmp_path, rows="attack").rows == ["swap, rate=0.3", "swap, rate=0.9"]
    assert table(tmp_path, rows="rate").rows == ["0.3", "0.9"]


def test_plugins_are_named_with_only_the_options_that_distinguish_them(tmp_path):
    shared = {"max_steps": 60, "batch_size": 4, "warmup_ratio": 0.1}
    add_run(tmp_path, "a", GOOD, method="majority")
    add_run(tmp_path, "b", GOOD, method={"name": "pet", **shared, "learning_rate": 0.001})
    add_run(tmp_path, "c", BAD, method={"name": "pet", **shared, "learning_rate": 0.003})
    add_run(tmp_path, "d", BAD, method={"name": "methods/mine.py:Mine", "power": 2})
    made = table(tmp_path, rows="method")
    assert made.rows == ["majority", "pet, learning_rate=0.001", "pet, learning_rate=0.003", "mine.py:Mine"]


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path):
    add_run(tmp_path, "a", GOOD, method={"name": "one/mine.py:Mine", "power": 2})
    add_run(tmp_path, "b", BAD, method={"name": "two/mine.py:Mine", "power": 2})
    assert table(tmp_path, rows="method").rows == ["one/mine.py:Mine", "two/mine.py:Mine"]


def test_an_option_that_a_plugin_leaves_out_needs_no_text(tmp_path):
    add_run(tmp_path, "a", GOOD, attack="shout")
    add_run(tmp_path, "b", BAD, attack={"name": "shout", "rate": 0.8, "options": {"mark": "!!"}})
    assert table(tmp_path, rows="attack").rows == ["shout", "shout, rate=0.8, options.mark=!!"]


def test_mappings_without_a_name_show_what_distinguishes_them(tmp_path):
    add_run(tmp_path, "a", GOOD, splits={"strategy": "multi_splits", "k": 4})
    add_run(tmp_path, "b", BAD, splits={"strategy": "mdl", "k": 4})
    assert table(tmp_path, rows="splits").rows == ["strategy=multi_splits", "strategy=mdl"]


def test_three_runs_are_adjusted_for_all_pairs(tmp_path):
    for run, values in (("a", GOOD), ("b", NEARLY), ("c", BAD)):
        add_run(tmp_path, run, values, model=run)
    made = table(tmp_path, rows="model", metrics=["accuracy"])
    assert [row[1] for row in texts(made)] == ["0.950†", "0.925†", "0.250"]
    assert any("Holm-adjusted, level 0.05" in note for note in made.notes)


def test_a_note_replaces_the_marks_if_all_numbers_tie(tmp_path):
    for run, values in (("a", GOOD), ("b", NEARLY)):
        add_run(tmp_path, run, values, model=run)
    made = table(tmp_path, rows="model", metrics=["accuracy"])
    assert [row[1] for row in texts(made)] == ["0.950", "0.925"]
    assert made.notes[0].startswith("No number is significantly better than the others (paired tests")
    assert not any("†" in note for note in made.notes)
    assert made.csv().count(",tie") == 2, "a file keeps what a program may read"


def test_a_key_that_a_run_does_not_have_is_a_dash_with_a_note(tmp_path):
    add_run(tmp_path, "a", GOOD, attack={"name": "swap", "rate": 0.3})
    add_run(tmp_path, "b", BAD, attack="drop")
    made = table(tmp_path, rows="rate")
    assert made.rows == ["0.3", "–"]
    assert "–: the configuration of the run does not set rate." in made.notes
    assert not any("–" in note for note in table(tmp_path, rows="attack").notes)


def test_lower_is_better_for_a_metric_that_says_so(tmp_path):
    for run, values in (("a", GOOD), ("b", BAD)):
        add(
            tmp_path,
            run,
            rates(values, "loss"),
            model=run,
            results=[result(values, "loss")],
            metrics=[{"name": "loss", "better": "lower"}],
        )
    assert [row[1] for row in texts(table(tmp_path, rows="model"))] == ["0.950", "*0.250*"]


def test_groups_of_examples_are_rows_and_runs_compete_within_a_row(tmp_path):
    for run, easy, hard in (("a", GOOD, BAD), ("b", GOOD, GOOD)):
        rows = [scored(f"e{i}", {"kind": "easy"}, accuracy=float(v)) for i, v in enumerate(easy)]
        rows += [scored(f"h{i}", {"kind": "hard"}, accuracy=float(v)) for i, v in enumerate(hard)]
        results = [result(easy + hard), result(easy, group="kind=easy"), result(hard, group="kind=hard")]
        add(tmp_path, run, rows, model=run, results=results, metrics=[{"name": "accuracy"}])
    made = table(tmp_path, rows="kind", columns="model")
    assert texts(made) == [
        ["overall", "0.600", "*0.950*"],
        ["easy", "0.950†", "0.950†"],
        ["hard", "0.250", "*0.950*"],
    ]


def test_metrics_that_are_not_means_over_examples_are_named_in_one_note(tmp_path):
    for run, values in (("a", GOOD), ("b", BAD)):
        results = [result(values), result(values, "drop"), result(values, "spread")]
        add(tmp_path, run, rates(values), model=run, results=results, metrics=[{"name": "accuracy"}])
    made = table(tmp_path, rows="model", metrics=["accuracy", "drop", "spread"])
    assert texts(made)[0] == ["a", "*0.950*", "0.950", "0.950"]
    assert [note for note in made.notes if "test" in note and "drop" in note] == [
        "Not tested, because not a mean over examples: drop and spread."
    ]


def test_runs_that_share_no_example_are_not_marked_and_the_reason_is_given(tmp_path):
    add_run(tmp_path, "a", GOOD, "a")
    other = [scored(f"x{i}", accuracy=1.0) for i in range(5)]
    add(tmp_path, "b", other, model="b", results=[result([1] * 5)])
    made = table(tmp_path, rows="model")
    assert not made.marks
    assert any(note.startswith("No test for accuracy: ") for note in made.notes)


def test_interval_and_n_are_shown_on_request_and_the_caption_always_says_n(two_by_two):
    plain = table(two_by_two, rows="model", columns="attack", metrics=["accuracy"])
    assert plain.small("large", ("swap",)) == []
    assert plain.notes[-1] == "n = 40 in every cell."
    full = table(
        two_by_two, rows="model", columns="attack", metrics=["accuracy"], with_intervals=True, with_n=True, digits=1
    )
    assert full.small("large", ("swap",)) == ["[0.1, 0.9]", "n = 40"]


def test_csv_has_every_cell_unrounded(two_by_two):
    made = table(two_by_two, rows="model", columns="attack", metrics=["accuracy"])
    rows = list(csv.DictReader(made.csv().splitlines()))
    assert [(row["row"], row["column"], row["value"], row["mark"], row["run"]) for row in rows] == [
        ("large", "swap", "0.95", "best", "a"),
        ("small", "swap", "0.25", "", "b"),
        ("large", "drop", "0.95", "tie", "c"),
        ("small", "drop", "0.925", "tie", "d"),
    ]


def test_markdown_has_bold_numbers(two_by_two):
    text = table_text(table(two_by_two, rows="model", columns="attack", metrics=["accuracy"]).block())
    assert "| large | **0.950** | 0.950† |" in text


def test_a_real_latex_compiles_the_table_with_caption_and_label(two_by_two, tmp_path):
    made = table(two_by_two, rows="model", columns="attack", metrics=["accuracy"], caption="50 % of_all & more")
    text = floating_table(made.block(), "tab:attacks")
    assert r"\textbf{0.950}" in text
    assert r"\label{tab:attacks}" in text
    document = rf"\documentclass{{article}}\usepackage{{array,booktabs}}\begin{{document}}{text}\end{{document}}"
    done = compiled(document, tmp_path)
    assert done.returncode == 0, done.stdout[-2000:]


def test_a_label_that_latex_cannot_read_is_refused(two_by_two):
    with pytest.raises(UserError, match=r"--label a b"):
        floating_table(table(two_by_two, rows="model,attack").block(), "a b")
