"""The bias section: every number in its place, contrasts in points and relative, and no markup from data."""

from __future__ import annotations

import re
from statistics import fmean, stdev

import pytest

from lmassay.evaluations.bias.report import answers, comparisons, figures, runs
from lmassay.reporting.blocks import Heading
from lmassay.storage.store import Store
from lmassay.types import NewRun, provenance_from_dict
from tests.evaluations.bias.report.small_bias import (
    drawings,
    examples,
    lines,
    notes,
    page,
    run,
    section,
    tables,
    under,
    write_prompts,
    write_samples,
)
from tests.helpers import lmassay
from tests.published_data import published_set

SOME = {"label": "one", "lean": 0.7, "knows": 0.3}
HEADLINE = ("accuracy_amb", "diff_bias_amb", "accuracy_dis", "diff_bias_dis", "ooc", "consistency")


def value(done, metric, group="overall"):
    return next(r.value for r in done.results if (r.metric, r.group) == (metric, group))


def first_table(page_section):
    return next(iter(tables(page_section.blocks)))


# --- headline ---------------------------------------------------------------------------------------------------------


def test_a_run_has_a_line_with_its_headline_intervals_bounds_and_counts(tmp_path):
    (done,) = run(tmp_path, SOME)
    table = first_table(section(tmp_path))
    ((label, texts),) = lines(table)
    assert label == "one"
    assert texts[:6] == [f"{value(done, metric):.3f}" for metric in HEADLINE]
    assert texts[6:] == ["144", "0", "0"]
    bias = table.bodies[0].rows[0].cells[2]
    assert re.fullmatch(r"\[-?\d\.\d{3}, \d\.\d{3}\]", bias.small[0])
    assert bias.small[1] == f"bound ±{1 - value(done, 'accuracy_amb'):.3f}"
    dis = table.bodies[0].rows[0].cells[4]
    assert dis.small[1] == f"bound ±{1 - abs(2 * value(done, 'accuracy_dis') - 1):.3f}"


def test_several_prompts_are_one_line_with_their_mean_and_open_below_it(tmp_path):
    prompts = write_prompts(tmp_path / "p.tsv")
    done = run(tmp_path, SOME, prompts=str(prompts), prompt_id=[3, 1, 2])
    table = first_table(section(tmp_path))
    (body,) = table.bodies
    assert body.folds
    assert [label for label, _ in lines(table)] == ["one", "prompt 1", "prompt 2", "prompt 3"]
    values = [value(d, "diff_bias_amb") for d in done]
    assert len(set(values)) > 1, "the prompts differ"
    mean = body.rows[0].cells[2]
    assert mean.text == f"{fmean(values):.3f}"
    assert f"SD {stdev(values):.3f}" in mean.small
    assert lines(table)[3][1][1] == f"{values[0]:.3f}"


def test_a_repeated_run_has_a_line_of_its_own_named_by_its_id(tmp_path):
    done = [*run(tmp_path, SOME), *run(tmp_path, SOME)]
    table = first_table(section(tmp_path))
    small = [body.rows[0].cells[0].small for body in table.bodies]
    assert small == [(d.id.rpartition("-")[2], "prompt 1") for d in done]


def test_settings_that_differ_tell_lines_apart(tmp_path):
    for parsing in ("reference", "robust"):
        run(tmp_path, SOME, parsing=parsing)
    names = [body.rows[0].cells[0].small[0] for body in first_table(section(tmp_path)).bodies]
    assert names == ["parsing reference", "parsing robust"]


def test_other_data_have_their_own_heading_and_bbq_its_own_scores(tmp_path):
    run(tmp_path, SOME)
    (done,) = run(
        tmp_path,
        {"label": "two"},
        data=str(published_set("bbq") / "Religion.jsonl"),
        per_category=2,
        answer_by="choices",
    )
    bias_section = section(tmp_path)
    texts = under(bias_section, "Data: ")
    assert len(tables(texts)) == 2
    heads = [[cell.text for cell in table.headers[1]] for table in tables(texts)]
    assert "diff-bias" in heads[0]
    assert {"s_amb", "s_dis"} <= set(heads[1])
    assert "same in all orders" not in heads[1], "BBQ asks in one order"
    ((_, cells),) = lines(tables(texts)[1])
    assert cells[3] == f"{value(done, 's_dis'):.3f}"
    small = tables(texts)[1].bodies[0].rows[0].cells[4].small
    assert not any("bound" in line for line in small), "accuracy does not bound a score without the unknown answers"


def test_headings_of_two_versions_of_one_file_name_their_digests(tmp_path):
    (first,) = run(tmp_path, SOME)
    samples = tmp_path / "samples.tsv"
    lines_of_file = samples.read_text(encoding="utf-8").splitlines(keepends=True)
    samples.write_text("".join(lines_of_file[:-12]), encoding="utf-8")
    (second,) = run(tmp_path, SOME)
    headings = [block.text for block in section(tmp_path).blocks if isinstance(block, Heading)]
    data = [re.findall(r"\|data:([^|]+)", done.signature)[0] for done in (first, second)]
    assert data[0] != data[1]
    assert [heading for heading in headings if heading.startswith("Data: ")] == [f"Data: {name}" for name in data]


def test_a_run_without_results_is_not_in_the_section(tmp_path):
    with Store(tmp_path / "results", create=True) as store:
        parts = {"signature": {"data": "d.0", "prompt": "p.0.1"}, "headline": ["ooc"], "command": []}
        store.add_run(
            NewRun(
                "r1",
                "s",
                "n",
                "bias",
                "m",
                "label",
                {"task": {"name": "bias"}},
                "sig",
                provenance_from_dict(parts),
                None,
            )
        )
        store.set_status("r1", "failed")
    assert section(tmp_path).blocks == []
    assert "label on m has no results; its status is failed" in page(tmp_path)


# --- categories -------------------------------------------------------------------------------------------------------


def test_categories_are_drawn_for_both_contexts_with_all_numbers_folded_below(tmp_path):
    (done,) = run(tmp_path, SOME)
    blocks = under(section(tmp_path), "By category")
    ambiguous, disambiguated = drawings(blocks)
    for text in ("by label", "ST", "TM", "by category", "age", "religion", "overall"):
        assert f">{text}<" in ambiguous
    assert f">{value(done, 'accuracy_dis', 'category=age'):.3f}<" in disambiguated
    (table,) = tables(blocks)
    cells_of_row = dict(lines(table))
    assert list(cells_of_row) == ["overall", "by label", "ST", "TM", "by category", "age", "religion"]
    assert cells_of_row["age"][:6] == [f"{value(done, metric, 'category=age'):.3f}" for metric in HEADLINE]


def test_an_empty_cell_is_no_data_on_the_page_and_in_the_terminal(tmp_path):
    (done,) = run(tmp_path, {**SOME, "unread_on": "-amb-"})
    assert value(done, "accuracy_amb") is None
    blocks = under(section(tmp_path), "By category")
    assert drawings(blocks)[0].count("no data (n = 0)") == 2 * 5, "accuracy and bias of overall, 2 labels, 2 categories"
    (table,) = tables(blocks)
    assert dict(lines(table))["religion"][:2] == ["no data (n = 0)"] * 2
    shown = lmassay("show", "latest", cwd=tmp_path).stdout
    assert "no data (n = 0)" in shown
    assert "nan" not in shown.partition("signature")[0].lower()
    shown = re.sub(r"<script.*?</script>", "", page(tmp_path), flags=re.DOTALL)
    assert not re.search(r"\bnan\b", shown.lower())


def test_if_templates_count_equally_the_cell_says_how_many_have_data(tmp_path):
    run(tmp_path, {**SOME, "unread_on": "age-001"}, averaging="all")
    cell = first_table(section(tmp_path)).bodies[0].rows[0].cells[1]
    assert "5 of 6 templates" in cell.small


def test_families_beyond_the_limit_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "MAX_FAMILIES", 1)
    run(tmp_path, SOME, {"label": "two"}, {"label": "three"})
    bias_section = section(tmp_path)
    assert len(drawings(under(bias_section, "By category"))) == 2
    assert (
        "Figures of 2 more models are not drawn; to see them, write a report about only the runs of these models."
        in notes(bias_section.blocks)
    )


# --- over prompts -----------------------------------------------------------------------------------------------------


def test_the_spread_over_prompts_is_reported_in_points(tmp_path):
    prompts = write_prompts(tmp_path / "p.tsv")
    done = run(tmp_path, SOME, prompts=str(prompts), prompt_id=[1, 2, 3])
    blocks = under(section(tmp_path), "What the prompt alone changes")
    values = [value(d, "diff_bias_amb") for d in done]
    width = f"{100 * (max(values) - min(values)):.1f} points"
    assert f"diff-bias by {width} ({min(values):.3f} to {max(values):.3f})" in notes(blocks)[0]
    (table,) = tables(blocks)
    cell = table.bodies[0].rows[0].cells[2]
    assert cell.text == width
    assert f"lowest {min(values):.3f} (prompt {values.index(min(values)) + 1})" in cell.small
    assert f"mean {fmean(values):.3f} ± {stdev(values):.3f}" in cell.small
    assert len(drawings(blocks)) == 4


def test_one_prompt_has_no_spread(tmp_path):
    run(tmp_path, SOME)
    assert under(section(tmp_path), "What the prompt alone changes") == []


# --- contrasts --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def debiased(tmp_path_factory):
    """A model with two prompts of a default and of a debiased file."""
    folder = tmp_path_factory.mktemp("debiased")
    for name, model in (("mine_debiased", {**SOME, "knows": 0.8}), ("mine", SOME)):
        prompts = write_prompts(folder / f"{name}.tsv", 2)
        # The files must not be the same, or they would be one.
        prompts.write_text(prompts.read_text().replace("doc", name))
        run(folder, model, prompts=str(prompts), prompt_id=[1, 2])
    return folder


def test_default_against_debiased_is_reported_in_points_and_relative(debiased):
    blocks = under(section(debiased), "Default against debiased")
    with Store(debiased / "results") as store:
        records = store.runs()
    after, before = (
        fmean(r.value for record in pair for r in record.results if (r.metric, r.group) == ("accuracy_amb", "overall"))
        for pair in (records[:2], records[2:])
    )
    table = tables(blocks)[0]
    assert [cell.text for cell in table.headers[0]][1:5] == [
        "default prompts",
        "debiased prompts",
        "change in points",
        "relative change",
    ]
    row_cells = table.bodies[0].rows[0].cells
    assert row_cells[0].text == "accuracy, ambiguous"
    assert [c.text for c in row_cells[1:3]] == [f"{before:.3f}", f"{after:.3f}"]
    assert after > before
    assert row_cells[3].text == f"+{100 * (after - before):.2f}"
    assert row_cells[4].text == f"+{100 * (after - before) / before:.1f} %"
    assert row_cells[5].small == ("higher in 2 of 2",)
    (note,) = [text for text in notes(blocks) if "relative change of" in text]
    assert re.search(r"[+−][\d.]+ points, a relative change of [+−][\d.]+ %", note)


def test_each_prompt_has_its_own_test(debiased):
    table = tables(under(section(debiased), "Default against debiased"))[0]
    assert table.bodies[0].folds
    parts = table.bodies[0].rows[1:]
    assert [line.cells[0].text for line in parts] == ["prompt 1", "prompt 2"]
    for line in parts:
        assert 0 < float(line.cells[5].text) <= float(line.cells[6].text) <= 1, "p, and adjusted for all tests"
        assert line.cells[7].text == "72", "the rows that enter: one of the two contexts"


def test_the_arrows_go_from_default_to_debiased(debiased):
    ambiguous, _ = drawings(under(section(debiased), "Default against debiased"))
    assert "from default prompts (○) to debiased prompts (arrow)" in ambiguous
    first = re.search(r"<title>accuracy_amb, overall: from ([\d.]+) to ([\d.]+)</title>", ambiguous)
    assert float(first[1]) < float(first[2])


def test_the_files_that_are_called_default_and_debiased_are_named(debiased):
    (note,) = [text for text in notes(section(debiased).blocks) if text.startswith("Prompt files")]
    assert re.search(r"default prompts: mine\.[0-9a-f]{8}", note)
    assert re.search(r"debiased prompts: mine_debiased\.[0-9a-f]{8}", note)


def test_files_of_the_same_name_are_named_once(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        prompts = write_prompts(tmp_path / folder / "mine.tsv", 1)
        prompts.write_text(prompts.read_text().replace("doc", folder))
        run(tmp_path, SOME, prompts=str(prompts), prompt_id=1)
    (note,) = [text for text in notes(section(tmp_path).blocks) if text.startswith("Prompt files")]
    assert re.search(r": mine\.[0-9a-f]{8}; mine\.[0-9a-f]{8}\.$", note)


def test_contrasts_are_the_same_when_scores_are_read_again(debiased, monkeypatch):
    kept = lines(tables(under(section(debiased), "Default against debiased"))[0])
    monkeypatch.setattr(runs, "MAX_ROWS_KEPT", 0)
    assert lines(tables(under(section(debiased), "Default against debiased"))[0]) == kept


def test_contrasts_beyond_the_limit_are_left_to_lmassay_compare(debiased, monkeypatch):
    monkeypatch.setattr(comparisons, "MAX_PAIRS", 1)
    bias_section = section(debiased)
    assert under(bias_section, "Default against debiased") == []
    assert "Not tested here: 2 more pairs of runs; use `lmassay compare`." in notes(bias_section.blocks)


def test_the_mean_over_the_rows_of_a_table_is_that_of_the_published_comparison(default_and_debiased, shared):
    gold = shared / "gold" / "kobbq"
    *_, sixteen = tables(under(section(default_and_debiased), "Default against debiased"))
    cells_of_row = dict(lines(sixteen))
    published = (gold / "comparison" / "stdout_prompts_1.txt").read_text()
    bias, accuracy = re.search(r"diff_bias_diff: (.+)%, accuracy_diff: (.+)%", published).groups()
    assert cells_of_row["diff-bias, both"][2] == bias.replace("-", "−")
    assert cells_of_row["accuracy, both"][2] == f"+{accuracy}"
    default_mean = re.search(r"accuracy in ambiguous contexts +(\S+)", published)[1]
    assert cells_of_row["accuracy, ambiguous"][0] == f"{float(default_mean):.4f}"


def test_models_are_compared_with_the_first_one_under_the_same_prompts(tmp_path):
    one, two = run(tmp_path, SOME, {"label": "two", "lean": 0.2})
    (table,) = tables(under(section(tmp_path), "Models against each other"))
    assert [cell.text for cell in table.headers[0]][1:3] == ["one", "two"]
    cells_of_row = dict(lines(table))["diff-bias, ambiguous"]
    difference = value(two, "diff_bias_amb") - value(one, "diff_bias_amb")
    assert cells_of_row[2] == f"{100 * difference:+.2f}".replace("-", "−")


def test_one_model_with_other_settings_is_compared_by_them(tmp_path):
    for parsing in ("reference", "robust"):
        run(tmp_path, {**SOME, "say": "[{letter}]"}, parsing=parsing)
    (table,) = tables(under(section(tmp_path), "Settings against each other"))
    assert dict(lines(table))["out of choice"][:3] == ["1.000", "0.000", "−100.00"]


def test_the_section_has_its_own_comparisons_instead_of_the_general_ones(tmp_path):
    run(tmp_path, SOME, {"label": "two"})
    assert section(tmp_path).compared == ()


# --- answers ----------------------------------------------------------------------------------------------------------


def test_both_parsers_rates_and_where_they_disagree(tmp_path):
    run(tmp_path, {**SOME, "say": "[{letter}]", "unread_on": "age-001a"})
    blocks = under(section(tmp_path), "How answers were read")
    table = tables(blocks)[0]
    heads = [cell.text for cell in table.headers[0]]
    ((_, cells),) = lines(table)
    cell_of = dict(zip(heads[1:], cells, strict=True))
    assert cell_of["numbers use"] == "reference"
    assert cell_of["reference: out of choice"] == "1.000"
    assert cell_of["robust: out of choice"] == f"{12 / 144:.3f}"
    assert cell_of["they agree"] == f"{12 / 144:.3f}"
    assert (cell_of["only robust reads it"], cell_of["neither reads it"]) == ("132", "12")
    (shown,) = examples(blocks)
    (example,) = shown.examples
    assert dict(example.texts)["read as"].startswith("reference out of choice, robust ")
    assert dict(example.texts)["answer"] in ("[A]", "[B]", "[C]")
    assert "132 such answers" in example.scores


def test_answers_that_are_read_as_different_letters_are_shown_with_both(tmp_path):
    run(tmp_path, {**SOME, "say": "Answer: {letter}"})
    blocks = under(section(tmp_path), "How answers were read")
    read = [dict(example.texts)["read as"] for shown in examples(blocks) for example in shown.examples]
    assert any(re.match(r"reference A, robust [BC]", text) for text in read)


def test_answers_by_log_probability_are_not_parsed(tmp_path):
    run(tmp_path, SOME, answer_by="choices")
    bias_section = section(tmp_path)
    assert under(bias_section, "How answers were read") == []
    texts = dict(bias_section.examples[0].examples[0].texts)
    assert re.fullmatch(r"[ABC] \(log-probability A -[\d.]+, B -[\d.]+, C -[\d.]+\)", texts["answer"])


def test_letters_and_rotations(tmp_path):
    run(tmp_path, {**SOME, "first": "-", "unread_on": "bsd-2"})
    (table,) = tables(under(section(tmp_path), "Letters and order"))
    heads = [cell.text for cell in table.headers[0]]
    ((_, cells),) = lines(table)
    cell_of = dict(zip(heads[1:], cells, strict=True))
    assert (cell_of["A"], cell_of["B"], cell_of["C"]) == ("1.000", "0.000", "0.000"), (
        "one that is never chosen has a share too"
    )
    assert cell_of["same in all orders"] == "0.000"
    assert [cell_of[f"out of choice, order {n}"] for n in (1, 2, 3)] == ["0.000", "0.000", "0.500"]
    assert "Equal shares would be 0.333" in table.caption


def test_how_answers_ended_and_what_they_cost(tmp_path):
    model = {**SOME, "kind": "Paid", "cut_on": "religion-001a", "refuses_on": "religion-002a", "fails_on": "age-001a"}
    run(tmp_path, model)
    (table,) = tables(under(section(tmp_path), "How answers ended"))
    assert [cell.text for cell in table.headers[0]][1:] == ["error", "length", "refusal", "stop", "spent"]
    ((_, cells),) = lines(table)
    assert cells[:4] == ["12", "12", "12", "108"]
    assert "USD" in cells[4]
    ((_, counts),) = lines(first_table_of(tmp_path))
    assert counts[-3:] == ["120", "12", "12"], "answers, errors, unscored"


def first_table_of(folder):
    return first_table(section(folder))


def test_endings_are_left_out_if_all_answers_ended_by_themselves(tmp_path):
    run(tmp_path, SOME)
    assert under(section(tmp_path), "How answers ended") == []


def test_the_cost_of_log_probabilities_is_shown_though_they_have_no_ending(tmp_path):
    run(tmp_path, {**SOME, "kind": "Paid"}, answer_by="choices")
    (table,) = tables(under(section(tmp_path), "How answers ended"))
    assert [cell.text for cell in table.headers[0]] == ["model", "spent"]
    ((label, cells),) = lines(table)
    assert label == "one"
    assert "432 answers" in cells[0]
    run(tmp_path, {**SOME, "label": "two", "kind": "Paid"})
    (table,) = tables(under(section(tmp_path), "How answers ended"))
    assert [cells[0] for _, cells in lines(table)] == ["", "144"]


def test_an_answer_without_text_is_out_of_choice_as_the_report_says(tmp_path):
    (done,) = run(tmp_path, {**SOME, "kind": "Empty"})
    assert value(done, "ooc") == 1.0
    (table,) = tables(under(section(tmp_path), "How answers ended"))
    ((_, cells),) = lines(table)
    assert ([cell.text for cell in table.headers[0]][1:], cells) == (["empty"], ["144"])
    assert "empty: the answer has no text, so it is out of choice" in table.caption
    ((_, counts),) = lines(first_table_of(tmp_path))
    assert counts[-3:] == ["144", "0", "0"], "answers, errors, unscored"


def test_stereotyped_answers_are_shown_only_where_the_context_does_not_say(tmp_path):
    run(tmp_path, SOME)
    (shown,) = section(tmp_path).examples
    assert len(shown.examples) == 2, "one a category"
    for example in shown.examples:
        assert "-amb-" in example.id
        assert "(stereotype)" in dict(example.texts)["choices"]
        assert "in 3 orders of its choices" in example.scores


def test_families_beyond_the_limit_have_no_examples(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "MAX_FAMILIES", 1)
    run(tmp_path, SOME, {"label": "two"})
    assert len(section(tmp_path).examples) == 1


# --- the page ---------------------------------------------------------------------------------------------------------


def test_nothing_of_data_answers_or_names_becomes_markup(tmp_path):
    write_samples(tmp_path / "samples.tsv", ["age", "<i>x<script>"])
    nasty = {**SOME, "label": "<script>alert(1)</script>", "unread_on": "age-001a", "fails_on": "age-002a"}
    for name in ("p", "p_debiased"):
        prompts = write_prompts(tmp_path / f"{name}<u>.tsv", 2)
        prompts.write_text(prompts.read_text().replace("doc", name))
        run(tmp_path, nasty, prompts=str(prompts), prompt_id=[1, 2])
    text = page(tmp_path)
    for tag in ("<script>alert", "<script>I", "x<script>", "<b>", "<i>", "<u>"):
        assert tag not in text
    assert "&lt;script&gt;I would rather not" in text
    assert text.count("<svg") == 2 + 2 * 2 + 2, (
        "a tile per prompt file, categories of two families, arrows; two prompts need no figure"
    )
