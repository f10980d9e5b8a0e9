"""``lmassay compare``: what it prints, what a program gets, and its exit codes."""

from __future__ import annotations

import json
import re

import pytest

from lmassay.cli import main
from lmassay.cli.actions.compare import _shortened_pair
from tests.compare_kit import add, failed, rates, scored
from tests.reporting.small_runs import NASTY


@pytest.fixture
def compare(capsys, tmp_path):
    """Runs the command in this process; gives exit code, standard output and standard error."""

    def run(*arguments, results=tmp_path):
        with pytest.raises(SystemExit) as stop:
            main(["compare", *map(str, arguments), "--results", str(results)])
        shown = capsys.readouterr()
        return stop.value.code, shown.out, shown.err

    return run


@pytest.fixture
def folder(tmp_path):
    """A base run, one that is much worse, and one that is nearly the same; all with a category."""
    groups = [{"category": "Age" if i < 20 else "Faith"} for i in range(40)]
    add(tmp_path, "run-base", rates([1] * 30 + [0] * 10, groups=groups))
    add(tmp_path, "run-worse", rates([0] * 15 + [1] * 15 + [0] * 10, groups=groups))
    add(tmp_path, "run-alike", rates([1] * 28 + [0] * 12, groups=groups))
    return tmp_path


def test_a_difference_is_printed_with_all_that_it_rests_on(folder, compare):
    code, out, err = compare("base", "worse")
    assert (code, err) == (0, "")
    assert "label on model run-worse against run-base (label on model run-base); paired by example" in out
    cells = out.splitlines()[-1]
    assert re.fullmatch(
        r"accuracy +0\.7500 +0\.3750 +-0\.3750 +\[-0\.\d+, -0\.\d+\] +-50\.0% +< 0\.0001 +40 *", cells
    ), cells


def test_runs_that_are_the_same_are_said_to_be(folder, compare):
    add(folder, "run-same", rates([1] * 30 + [0] * 10))
    _, out, _ = compare("base", "same", "-o", folder / "same.html")
    assert re.search(r"\+0\.0000 +same in all 40 ", out)
    assert "same in all 40" in (folder / "same.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("gated", [[], ["--fail-if", "accuracy<-0.02"]])
def test_another_attack_or_prompt_behind_one_label_is_reported(tmp_path, compare, gated):
    for run, rate, prompt in (("run-mild", 0.02, "x"), ("run-hard", 0.9, "y")):
        signature = {"attack": f"charswap(rate:{rate})", "prompt": prompt}
        add(tmp_path, run, rates([1] * 40), task="robustness", label="charswap", signature=signature)
    code, _, err = compare("mild", "hard", *gated)
    assert code == 0
    differences = "attack (charswap(rate:0.9) instead of charswap(rate:0.02)) and prompt (y instead of x)"
    assert f"run-hard differs from run-mild in {differences}" in err


def test_flips_are_printed_on_demand_with_their_answers(folder, compare):
    code, out, _ = compare("base", "worse", "--flips", "2")
    assert code == 0
    assert "changes in accuracy: 15 from 1 to 0, 0 from 0 to 1, 15 both 1, 10 both 0; none left out" in out
    assert [line.split() for line in out.splitlines()[-2:]] == [
        ["0", "1", "0", "accuracy", "1", "accuracy", "0"],
        ["1", "1", "0", "accuracy", "1", "accuracy", "0"],
    ]
    _, out, _ = compare("base", "worse", "--flips")
    assert sum(line.endswith(("accuracy 1  accuracy 0", "accuracy 0")) for line in out.splitlines()) == 10


def test_long_answers_are_shown_from_where_they_part():
    same = "all of this is the same in both answers, however long it goes on and on, "
    before, after = _shortened_pair(f"{same}then left it is", f"{same}then right")
    assert (before, after) == ("…then left it is", "…then right")
    assert _shortened_pair("short left", "short right") == ("short left", "short right")
    assert _shortened_pair(same, same)[0].endswith("…")


def test_flips_without_a_number_before_the_runs_are_reported(folder, compare):
    code, _, err = compare("--flips", "base", "worse")
    assert code == 2
    assert "error: --flips takes a number of examples, not 'base'; write --flips after the runs" in err


def test_json_has_differences_flips_and_the_verdict(folder, compare):
    code, out, err = compare("base", "worse", "--json", "--flips", 1, "--fail-if", "accuracy<-0.02")
    document = json.loads(out)
    assert (code, err) == (1, "")
    assert document["comparisons"][0]["difference"] == -0.375
    (flips,) = document["flips"]
    assert (flips["fallen"], flips["risen"], flips["both_one"], flips["both_zero"]) == (15, 0, 15, 10)
    assert flips["examples"] == [
        {"id": "0", "before": 1.0, "after": 0.0, "base_answer": "accuracy 1", "new_answer": "accuracy 0"}
    ]
    assert document["gate"]["verdict"] == "fail"
    assert document["gate"]["checks"][0]["new"] == "run-worse"
    _, out, _ = compare("base", "worse", "--json")
    assert json.loads(out)["flips"][0]["examples"] == []
    assert json.loads(out)["gate"] is None


def test_other_metrics_than_the_headline_can_be_named(compare, tmp_path):
    rows = [scored(i, **{"accuracy": 1.0, "ew@top0.95": i / 10}) for i in range(8)]
    for run in ("base", "new"):
        add(tmp_path, run, rows, headline=["accuracy"])
    assert "ew@top0.95" not in compare("base", "new")[1]
    code, out, _ = compare("base", "new", "--metric", "ew@top0.95", "--fail-if", "ew@top0.95<-0.1")
    assert code == 0
    assert "ew@top0.95" in out
    code, _, err = compare("base", "new", "--metric", "acuracy")
    assert code == 2
    assert err == "error: base has no metric 'acuracy'; did you mean 'accuracy'?\n"


def test_a_group_can_be_compared_alone(folder, compare):
    code, out, _ = compare("base", "worse", "--group", "category=Age")
    assert code == 0
    assert "examples with category=Age" in out
    assert out.splitlines()[-1].split()[-1] == "20"
    assert "-0.7500" in out


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("category=Agee", "no example with category=Agee; did you mean 'Age'?"),
        ("categories=Age", "did you mean 'category'?"),
        ("Age", "--group 'Age' cannot be read; write KIND=LABEL"),
    ],
)
def test_a_group_that_is_not_there_is_one_line(folder, compare, group, message):
    code, _, err = compare("base", "worse", "--group", group)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1


def test_several_runs_and_metrics_have_p_adjusted_and_say_for_what(folder, compare):
    _, out, _ = compare("base", "worse", "alike")
    assert "p (FDR)" in out
    assert "p (FDR): adjusted for 2 p-values (false discovery rate, Benjamini and Hochberg)" in out
    assert "p (FDR)" not in compare("base", "worse")[1]


def test_more_than_two_runs_are_compared_with_the_best_and_ties_are_marked(folder, compare):
    _, out, _ = compare("worse", "base", "alike", "-o", folder / "c.html")
    table = out[out.index("all runs against the best") :].splitlines()
    assert table[2].split()[:3] == ["accuracy", "model", "run-base"]
    assert table[2].split()[-1] == "best"
    assert table[3].split()[-1] == "tie"
    assert "run-worse" in table[4]
    assert table[4].split()[-1] not in ("best", "tie")
    assert "adjusted by Holm's method for all pairs of the runs with this metric" in out
    assert "All runs against the best" in (folder / "c.html").read_text(encoding="utf-8")
    _, out, _ = compare("worse", "base", "alike", "--json")
    standings = json.loads(out)["against_best"]
    assert [(row["run"], row["mark"]) for row in standings] == [
        ("run-base", "best"), ("run-alike", "tie"), ("run-worse", "")
    ]  # fmt: skip
    assert "all runs against the best" not in compare("worse", "base")[1]
    assert json.loads(compare("worse", "base", "--json")[1])["against_best"] == []


def test_examples_that_only_one_run_scored_are_reported(folder, compare):
    add(folder, "run-half", rates([1] * 25))
    code, out, _ = compare("base", "half", "-o", folder / "c.html", "--fail-if", "accuracy<-0.02")
    assert code == 0
    assert "accuracy: not compared: 15 examples that only the base run scored" in out
    assert "not compared: 15 examples that only the base run scored" in (folder / "c.html").read_text(encoding="utf-8")


def test_a_document_has_the_method_and_not_every_cluster(folder, compare):
    (row,) = json.loads(compare("base", "worse", "--json")[1])["comparisons"]
    assert (row["method"], row["degrees_of_freedom"]) == ("t", 39.0)
    assert "estimate" not in row


@pytest.mark.fault(46)
def test_answers_cannot_steer_the_terminal(compare, tmp_path):
    add(tmp_path, "base", [scored("\x1b[31mred", accuracy=1.0), scored("b", accuracy=1.0)])
    add(tmp_path, "new", [scored("\x1b[31mred", accuracy=0.0), scored("b", accuracy=1.0)])
    assert "\x1b" not in compare("base", "new", "--flips")[1]


# --- the gate ---------------------------------------------------------------------------------------------------------


def test_the_gate_fails_on_a_significant_drop(folder, compare):
    code, out, err = compare("base", "worse", "--fail-if", "accuracy<-0.02")
    assert (code, err) == (1, "")
    assert "FAIL  accuracy<-0.02: the difference is -0.3750, significantly below -0.02" in out


def test_the_gate_passes_where_a_drop_is_not_significant_and_says_why(folder, compare):
    code, out, err = compare("base", "alike", "--fail-if", "accuracy < -0.02")
    assert (code, err) == (0, "")
    assert "PASS  accuracy<-0.02: the difference is -0.0500, but not significantly below -0.02 (0.7500 → 0.7000" in out
    assert re.search(r"a drop of 0\.\d+ would be found in 4 of 5 such comparisons", out)


def test_the_gate_takes_several_conditions_and_says_that_p_is_adjusted(folder, compare):
    code, out, _ = compare("base", "alike", "worse", "--fail-if", "accuracy<-0.02", "--fail-if", "accuracy>0.5")
    assert code == 1
    assert out.count("PASS") == 3
    assert "FAIL  accuracy<-0.02 (model run-worse)" in out
    assert "adjusted for 4 tests by Holm's method" in out


def test_a_gate_can_ask_for_evidence_that_nothing_got_worse(folder, compare):
    code, out, err = compare("base", "alike", "--pass-only-if", "accuracy>-0.02", "-o", folder / "c.html")
    assert (code, "error" in err) == (1, False)
    assert "NOT SHOWN  only if accuracy>-0.02: the difference is -0.0500, not above -0.02" in out
    assert re.search(r"with about [\d,]+ examples, a run that is neither better nor worse would pass", out)
    assert "The gate says: not shown." in (folder / "c.html").read_text(encoding="utf-8")
    code, out, _ = compare("base", "alike", "--pass-only-if", "accuracy not worse by 0.3")
    assert code == 0
    assert "PASS  only if accuracy>-0.3: the difference is -0.0500, significantly above -0.3" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("base", "worse", "--pass-only-if", "accuracy worse by 0.02"), "did you mean 'accuracy not worse by 0.02'?"),
        (("base", "worse", "--pass-only-if", "accuracy>-2"), "always holds: accuracy lies between 0 and 1"),
        (("base", "worse", "--fail-if", "accurcy<-0.02"), "run-base has no metric 'accurcy'; did you mean 'accuracy'?"),
        (("base", "worse", "--fail-if", "accuracy-0.02"), "--fail-if 'accuracy-0.02' cannot be read"),
        (("base", "worse", "--fail-if", "accuracy<0.02"), "did you mean 'accuracy<-0.02'?"),
        (("base", "base", "--fail-if", "accuracy<0"), "run-base is given twice; a run compared with itself"),
        (("base", "--fail-if", "accuracy<0"), "give at least two runs"),
        (("base", "nowhere", "--fail-if", "accuracy<0"), "there is no run 'nowhere'"),
    ],
)
def test_a_gate_that_cannot_judge_is_one_line_and_exit_code_2(folder, compare, arguments, message):
    code, out, err = compare(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_runs_without_a_shared_example_are_refused(folder, compare):
    add(folder, "run-other", [scored(f"x{i}", accuracy=1.0) for i in range(10)])
    code, _, err = compare("base", "other", "--fail-if", "accuracy<-0.02")
    assert code == 2
    assert "share no example with a score" in err


def test_runs_of_different_tasks_are_refused(folder, compare):
    add(folder, "run-other", [scored(0, success=1.0)], task="other")
    code, _, err = compare("base", "other", "--fail-if", "accuracy<-0.02")
    assert code == 2
    assert "run-other is a other run, run-base a quiz run; compare runs of one task" in err


def test_an_unfinished_run_is_judged_only_if_allowed(folder, compare):
    rows = [*rates([0] * 39), failed(39)]
    add(folder, "run-half", rows, status="incomplete", note="1 example with errors")
    code, out, err = compare("base", "half", "--fail-if", "accuracy<-0.02", "--json")
    assert code == 2
    assert "error: the gate cannot judge: run-half is incomplete (1 example with errors)" in err
    assert json.loads(out)["gate"]["verdict"] == "cannot judge"
    _, out, _ = compare("base", "half", "--fail-if", "accuracy>0.5")
    assert "CANNOT JUDGE  accuracy>0.5" in out
    assert "PASS" not in out
    code, _, err = compare("base", "half", "--fail-if", "accuracy<-0.02", "--allow-incomplete")
    assert code == 1
    assert "warning: run-half is incomplete" in err


def test_the_base_run_may_be_in_another_folder(folder, compare, tmp_path_factory):
    new = tmp_path_factory.mktemp("new")
    add(new, "today", rates([0] * 15 + [1] * 15 + [0] * 10), model="tomorrow's model")
    code, out, _ = compare("base", "latest", "--base-results", folder, "--fail-if", "accuracy<-0.02", results=new)
    assert code == 1
    assert "against run-base" in out
    code, _, err = compare("run-base", "latest", "--fail-if", "accuracy<-0.02", results=new)
    assert code == 2
    assert "there is no run 'run-base'" in err


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_has_verdict_differences_figure_flips_and_examples(folder, compare, tmp_path):
    page = tmp_path / "compare.html"
    code, _, err = compare("base", "worse", "-o", page, "--fail-if", "accuracy<-0.02")
    assert code == 1
    assert "page written to" in err
    text = page.read_text(encoding="utf-8")
    for heading in (
        "Verdict",
        "What is compared",
        "Differences",
        "Changed scores",
        "Examples that changed",
        "Provenance",
    ):
        assert f"<h2>{heading}</h2>" in text
    assert '<line class="zero"' in text
    assert '<circle class="full"' in text
    assert "both 1: 15, both 0: 10" in text
    assert "default-src 'none'" in text
    # The name of SVG's vocabulary is not an address that a browser opens.
    assert "http://" not in text.replace('"http://www.w3.org/2000/svg"', "")
    assert "https://" not in text


def test_the_page_is_written_even_if_the_gate_cannot_judge(folder, compare, tmp_path):
    add(folder, "run-half", rates([0] * 30), status="interrupted")
    code, _, _ = compare("base", "half", "-o", tmp_path / "c.html", "--fail-if", "accuracy<-0.02")
    assert code == 2
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert "It cannot judge: run-half is interrupted" in text
    assert "Note: run-half is interrupted." in text


def test_everything_on_the_page_is_escaped(compare, tmp_path):
    groups = {NASTY: NASTY}
    for run, value in (("base", 1.0), ("new", 0.0)):
        rows = [scored(f"{NASTY}{i}", groups, **{NASTY: value, "other": 5 * value}) for i in range(8)]
        add(tmp_path, run, rows, model=f"{NASTY} {run}")
    code, _, _ = compare("base", "new", "-o", tmp_path / "c.html", "--group", f"{NASTY}={NASTY}")
    assert code == 0
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert NASTY not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;0" in text
    # A metric beyond 1 has a scale of its own.
    assert text.count("<svg") == 2


# --- runs that asked a different number of times ----------------------------------------------------------------------


def sampled(scores_of_question):
    """Rows as a run with several samples leaves them."""
    rows = []
    for question, scores in enumerate(scores_of_question):
        for number, score in enumerate(scores, start=1):
            rows.append(scored(f"{question}~{number}", {"sampled_example": str(question)}, accuracy=float(score)))
    return rows


@pytest.fixture
def sampled_runs(tmp_path):
    """One answer to each of 40 questions, and four or two answers to each."""
    add(tmp_path, "run-once", rates([1] * 30 + [0] * 10))
    clusters = {"design": {"clusters": ["sampled_example"]}}
    add(tmp_path, "run-four", sampled([[1, 1, 1, 0]] * 20 + [[0, 0, 0, 0]] * 20), **clusters)
    add(tmp_path, "run-two", sampled([[1, 0]] * 20 + [[0, 0]] * 20), **clusters)
    return tmp_path


@pytest.mark.parametrize(
    ("base", "new", "means", "times"),
    [
        ("once", "four", (0.75, 0.375), "run-once asked each question once and run-four asked each question 4 times"),
        ("four", "once", (0.375, 0.75), "run-four asked each question 4 times and run-once asked each question once"),
        ("four", "two", (0.375, 0.25), "run-four asked each question 4 times and run-two asked each question 2 times"),
    ],
)
def test_runs_with_different_numbers_of_samples_are_paired_by_the_mean_of_each_question(
    sampled_runs, compare, base, new, means, times
):
    code, out, _ = compare(base, new, "--json", "--flips", 1)
    assert code == 0
    document = json.loads(out)
    (row,) = document["comparisons"]
    assert (row["base_mean"], row["new_mean"], row["n"], row["units"]) == (*means, 40, 40)
    assert row["p"] < 0.01
    assert f"{times}, so the mean score of each question is compared" in document["caveats"]


def test_a_gate_judges_runs_with_different_numbers_of_samples(sampled_runs, compare):
    code, out, _ = compare("once", "four", "--fail-if", "accuracy<-0.02", "-o", sampled_runs / "page.html")
    assert code == 1
    assert "FAIL  accuracy<-0.02: the difference is -0.3750" in out
    assert "mean score of each question" in (sampled_runs / "page.html").read_text(encoding="utf-8")


def test_a_question_with_a_sample_in_error_is_not_compared(tmp_path, compare):
    add(tmp_path, "run-once", rates([1] * 10))
    broken = [*sampled([[1, 0]] * 10)[:-1], failed("9~2")]
    broken[-1].example.groups["sampled_example"] = "9"
    add(tmp_path, "run-two", broken)
    _, out, _ = compare("once", "two", "--json")
    (row,) = json.loads(out)["comparisons"]
    assert (row["n"], row["new_mean"]) == (9, 0.5)
    code, _, err = compare("once", "two", "--fail-if", "accuracy<-0.02")
    assert code == 2
    assert "error" in err
