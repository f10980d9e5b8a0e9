"""An attack that changes nothing is refused, one that changes little is pointed out, and every result says how much."""

from __future__ import annotations

import pytest

import lmassay as package
from lmassay.errors import ConfigError
from lmassay.evaluations.robustness.coverage import Coverage, measure
from tests.helpers import lmassay, write_config, write_lines
from tests.servers import openai_server

RUSSIAN = ["Кошка сидит на окне.", "Мы любим читать книги.", "", "Погода сегодня хорошая."]
CHINESE = ["我们喜欢读书。", "今天天气很好。"]
ENGLISH = ["the cat sat on the mat", "", "123", "", "we lost the house key"]


def configuration(tmp_path, lines, attack, model="echo", **task):
    source = write_lines(tmp_path / "src.txt", lines)
    return {"task": {"name": "robustness", "src": str(source), "attack": attack, **task}, "model": model}


@pytest.mark.parametrize(
    ("lines", "attack", "advice"),
    [
        (RUSSIAN, "keyboard", r"set its option for this script: options: \{layout: jcuken\}"),
        (RUSSIAN, {"name": "s", "search": {"perturbations": ["keyboard"]}}, "change more of them: charswap, delete"),
        (CHINESE, "wordswap", r"set its option for this script: options: \{segment: zh\}"),
        (ENGLISH, {"name": "case", "rate": 0.0}, r"raise its rate \(now 0\) or let it draw again"),
        (ENGLISH, {"name": "s", "search": {"rates": [0.0], "budget": 3}}, r"raise its rates \(now 0\)"),
        (["the cat"], "charswap", "change more of them: keyboard"),
        (["", "123"], "charswap", "attacked inputs can also come from a file"),
    ],
)
def test_an_attack_that_changes_no_input_is_refused_before_anything_is_requested(tmp_path, lines, attack, advice):
    with openai_server() as server:
        model = {"name": "openai", "base_url": server.url, "model": "m"}
        message = rf"task\.attack: the attack .* changes none of {len(lines)} inputs?, .*{advice}"
        with pytest.raises(ConfigError, match=message):
            package.evaluate(configuration(tmp_path, lines, attack, model), tmp_path / "results")
        assert server.bodies == []
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_file_with_the_inputs_themselves_is_refused(tmp_path, command):
    same = write_lines(tmp_path / "same.txt", ENGLISH)
    config = write_config(tmp_path / "c.yaml", configuration(tmp_path, ENGLISH, {"file": str(same)}))
    done = lmassay(command, config, cwd=tmp_path)
    assert done.returncode == 2
    assert f"same.txt changes none of 5 inputs, so nothing would be attacked; check that {same}" in done.stderr


def test_the_advice_works_when_it_is_followed(tmp_path):
    (run,) = package.evaluate(configuration(tmp_path, RUSSIAN, "delete"), tmp_path / "results")
    assert run["unchanged"].value < 1


@pytest.mark.parametrize("arguments", [("check",), ("run", "--dry-run"), ("run",)])
def test_an_attack_that_changes_few_inputs_is_a_warning(tmp_path, arguments):
    config = write_config(tmp_path / "c.yaml", configuration(tmp_path, ENGLISH, {"name": "case", "rate": 1.0}))
    done = lmassay(*arguments, config, cwd=tmp_path)
    assert done.returncode == 0
    assert "warning: the attack case leaves 3 of 5 inputs unchanged (60%)" in done.stderr


def test_an_attack_that_changes_half_of_the_inputs_is_no_warning(tmp_path):
    config = write_config(tmp_path / "c.yaml", configuration(tmp_path, [*ENGLISH, "one more"], "delete"))
    assert "unchanged" not in lmassay("check", config, cwd=tmp_path).stderr


def test_only_the_inputs_of_the_run_count(tmp_path):
    attack = {"name": "case", "rate": 1.0}
    config = configuration(tmp_path, ["", "123", *ENGLISH], attack)
    package.evaluate(config, tmp_path / "results")
    with pytest.raises(ConfigError, match="changes none of 2 inputs"):
        package.evaluate(config | {"limit": 2}, tmp_path / "results")


def test_every_result_has_the_share_of_unchanged_inputs(tmp_path):
    attacked = write_lines(tmp_path / "adv.txt", ["the cta sat on the mat", *ENGLISH[1:]])
    attacks = [{"name": "case", "rate": 1.0}, {"file": str(attacked)}, {"name": "s", "search": {"budget": 3}}]
    runs = package.evaluate(configuration(tmp_path, ENGLISH, attacks), tmp_path / "results")
    assert [run["unchanged"].value for run in runs] == [0.6, 0.8, 0.6]
    assert {run["unchanged"].n for run in runs} == {5}
    # TEAPOT's numbers are over all inputs, as in the original.
    assert {run["success"].n for run in runs} == {5}


def test_the_source_side_alone_has_the_share_as_well(tmp_path):
    config = configuration(tmp_path, ENGLISH, {"name": "case", "rate": 1.0}, model=None, side="source")
    (run,) = package.evaluate(config, tmp_path / "results")
    assert run["unchanged"].value == 0.6


def test_unchanged_inputs_can_be_left_out_of_a_comparison(tmp_path):
    attacks = [{"name": "case", "rate": 1.0}, {"name": "delete", "rate": 1.0}]
    one, two = package.evaluate(configuration(tmp_path, ENGLISH, attacks), tmp_path / "results")
    done = lmassay("compare", one.id, two.id, "--group", "input=changed", "--results", tmp_path / "results", "--json")
    assert done.returncode == 0, done.stderr
    assert '"n": 2' in done.stdout


def test_a_comparison_has_no_row_for_unchanged_inputs(tmp_path):
    """Under one attack it is the same for all systems: a test of it would only make the other p-values larger."""
    attacks = [{"name": "case", "rate": 1.0}, {"name": "delete", "rate": 1.0}]
    one, two = package.evaluate(configuration(tmp_path, ENGLISH, attacks), tmp_path / "results")
    compared = {row.metric for row in package.compare(one, two)}
    assert "success" in compared
    assert "unchanged" not in compared


def test_a_long_file_is_checked_by_its_first_inputs_and_nothing_is_perturbed_twice(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from lmassay import perturbation\n"
        "calls = []\n"
        "@perturbation('mine')\n"
        "def mine(text, rng, rate):\n"
        "    calls.append(text)\n"
        "    open(__file__ + '.calls', 'w').write(str(len(calls)))\n"
        "    return text + '!'\n"
    )
    config = write_config(
        tmp_path / "c.yaml",
        configuration(tmp_path, [f"line {n}" for n in range(3000)], {"name": "m", "perturb": "mine.py:mine"}),
    )
    assert lmassay("check", config, cwd=tmp_path).returncode == 0
    calls = tmp_path / "mine.py.calls"
    assert calls.read_text() == "1000"
    assert lmassay("run", config, cwd=tmp_path).returncode == 0
    assert calls.read_text() in ("3000", "4000"), "with the thousand of the check, if the file was not loaded again"


def test_all_inputs_are_checked_where_the_first_ones_are_unchanged():
    assert measure([False] * 1500) == Coverage(1500, 1500)
    assert measure([False] * 1500 + [True] * 10) == Coverage(1501, 1500)
    assert measure([True, False] * 1000) == Coverage(1000, 500)


def test_redraws_change_a_sentence_that_one_draw_left_unchanged(tmp_path):
    sentences = [f"sentence number {n} about a cat" for n in range(20)]
    attacks = [{"name": "delete", "rate": 0.05, "redraws": redraws} for redraws in (0, 200)]
    few, many = package.evaluate(configuration(tmp_path, sentences, attacks), tmp_path / "results")
    assert many["unchanged"].value == 0
    assert few["unchanged"].value > 0
    assert few.signature != many.signature


def test_right_answers_that_turn_wrong_are_counted_among_right_answers_to_changed_inputs(tmp_path):
    lines = {
        "src": ["right stays right", "right turns wrong", "wrong stays wrong", "wrong turns right", "unchanged"],
        "adv": ["x stays right", "x turns wrong", "x stays wrong", "x turns right", "unchanged"],
        "ref": ["a", "a", "a", "a", "a"],
        "out": ["a", "A.", "b", "b", "a"],
        "adv_out": ["a", "b", "c", "a", "b"],
    }
    files = {name: str(write_lines(tmp_path / name, texts)) for name, texts in lines.items()}
    task = {"name": "robustness", "src": files["src"], "ref": files["ref"], "attack": {"file": files["adv"]}}
    model = {"name": "outputs", "files": {"out": files["out"], "adv_out": files["adv_out"]}}
    scorers = ["zero_one", {"name": "exact_match", "quasi": True}, "chrf"]
    exact, quasi, graded = package.evaluate({"task": {**task, "s_tgt": scorers}, "model": model}, tmp_path / "results")
    assert (exact["turned_wrong"].value, exact["turned_wrong"].n, exact["turned_wrong"].n_unscored) == (0.0, 1, 0)
    assert (quasi["turned_wrong"].value, quasi["turned_wrong"].n, quasi["turned_wrong"].n_unscored) == (0.5, 2, 0)
    assert "turned_wrong" not in {result.metric for result in graded.results}
