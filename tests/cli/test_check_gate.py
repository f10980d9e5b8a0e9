"""``lmassay check`` with a gate: how many examples it needs."""

from __future__ import annotations

import json

import pytest

from lmassay.cli import main
from tests.compare_kit import add, rates
from tests.evaluations.bias.report.small_bias import write_samples
from tests.helpers import EVALUATIONS


@pytest.fixture
def check(capsys, tmp_path, monkeypatch):
    config = tmp_path / "c.yaml"
    data = EVALUATIONS / "robustness/sample"
    config.write_text(
        f"task: {{name: robustness, src: {data / 'src.fr'}, ref: {data / 'ref.en'}, attack: charswap, s_src: chrf, "
        f"s_tgt: chrf}}\nmodel: {EVALUATIONS / 'robustness/sample/my_system.py'}:MySystem\n",
        encoding="utf-8",
    )

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["check", str(config), *map(str, arguments), "--results", str(tmp_path / "results")])
        shown = capsys.readouterr()
        return stop.value.code, shown.out, shown.err

    return run


def test_the_examples_that_a_gate_needs_are_listed_by_how_much_changes(check):
    code, out, err = check("--fail-if", "success>0.02", "--pass-only-if", "success<0.02")
    assert (code, err) == (0, "")
    assert "--fail-if 'success>0.02': examples needed to detect a change of 0.04 (twice the threshold)" in out
    assert "--pass-only-if 'success<0.02': examples needed to pass if neither run is better" in out
    for share in ("2%", "5%", "10%"):
        assert sum(line.startswith(f"{share} ") for line in out.splitlines()) == 2
    assert " no " in f"{out} "


def test_programs_get_the_same_numbers(check):
    _, out, _ = check("--fail-if", "success>0.02", "--json")
    document = json.loads(out)
    assert [row["examples"] for row in document["gate"]] == [40, 40, 40]
    assert document["gate"][0]["examples_needed"] > 40
    assert "gate" not in json.loads(check("--json")[1])


def test_an_earlier_run_can_be_named(check, tmp_path):
    add(tmp_path / "results", "yesterday", rates([1, 0] * 20, "success"))
    code, out, _ = check("--fail-if", "success>10%", "--like", "yesterday")
    assert code == 0
    assert "detect a change of 0.1 " in out
    assert "clusters and sizes of changes as in yesterday" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fail-if", "sucess>0.02"), "the task has no metric 'sucess'; did you mean 'success'?"),
        (("--fail-if", "success>-0.02"), "did you mean 'success>0.02'?"),
        (("--like", "x"), "--like requires --fail-if or --pass-only-if"),
        (("--fail-if", "success>0.02", "--like", "x"), "there are no results in"),
        (("--fail-if", "success>0.02", "--like", "x", "--like", "y", "--like", "z"), "at most twice"),
    ],
)
def test_what_cannot_be_planned_is_one_line(check, arguments, message):
    code, out, err = check(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_threshold_that_cannot_be_reached_is_refused_as_by_compare(check):
    code, _, err = check("--fail-if", "success>2")
    assert code == 2
    assert "can never hold: success lies between 0 and 1" in err


def test_only_the_examples_that_a_metric_is_about_are_counted(capsys, tmp_path):
    """Bias in ambiguous contexts is about half of the questions; all were counted."""
    write_samples(tmp_path / "samples.tsv")
    config = tmp_path / "bias.yaml"
    config.write_text(
        f"task: {{name: bias, data: {tmp_path / 'samples.tsv'}}}\nmodel: {{name: echo}}\n", encoding="utf-8"
    )
    counted = []
    for metric, limit in (("accuracy_amb", ""), ("accuracy_dis", ""), ("ooc", ""), ("accuracy_amb", "limit=8")):
        options = ["--set", limit] if limit else []
        with pytest.raises(SystemExit):
            main(["check", str(config), "--fail-if", f"{metric} worse by 0.02", "--json", *options])
        counted.append(json.loads(capsys.readouterr().out)["gate"][0]["examples"])
    both, ambiguous = counted[2], counted[0]
    assert ambiguous == counted[1] == both / 2
    assert counted[3] == 6
