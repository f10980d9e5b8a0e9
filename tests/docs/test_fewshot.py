"""The numbers on the few-shot page, by the functions and a smaller run of the simulation that they come from."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import re
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lmassay.evaluations.fewshot.protocol.estimates import range_by_chance, stability_by_chance
from lmassay.evaluations.fewshot.protocol.overlap import train_correlation
from lmassay.running.config import load_runs
from lmassay.statistics.distributions import normal_quantile, t_quantile
from lmassay.statistics.replicates import overlap_factor
from tests.helpers import EVALUATIONS, ROOT

PAGE = (ROOT / "docs" / "fewshot.md").read_text(encoding="utf-8")
# How the rows of the table of rules begin, in the order of the simulation's rules.
RULE_ROWS = ("only the spread over splits", "the same combined with Wilson's interval", "lmassay's rule")


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fewshot_coverage", ROOT / "benchmarks" / "fewshot_coverage.py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up the module that they are defined in.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def row(start: str) -> list[str]:
    """The cells of the first table row that begins so, without the first."""
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_level_of_stability_that_chance_reaches():
    deviations, points = (
        row("in standard deviations"),
        row("in percentage points, for an accuracy of .70 on 100 test examples"),
    )
    for k, deviation, point in zip((2, 4, 8, 16), deviations, points, strict=True):
        counts = tuple(range(1, k + 1))
        assert range_by_chance(counts) == pytest.approx(float(deviation), abs=0.006)
        assert 100 * stability_by_chance(counts, 0.7, 100) == pytest.approx(float(point), abs=0.06)
    in_experiment = [100 * stability_by_chance((1, 2, 3, 4), *of) for of in ((0.5, 150), (0.68, 56))]
    stated = re.search(
        r"expect a range of ([\d.]+) on RTE and WiC \(150 test examples\) and of about ([\d.]+) on CB",
        " ".join(PAGE.split()),
    )
    assert [f"{level:.1f}" for level in in_experiment] == list(stated.groups())


@pytest.mark.parametrize("strategy", ["multi_splits", "bagging", "cross_validation", "mdl"])
def test_the_factors_of_the_strategies(strategy):
    factor = row(f"`{strategy}`")[1]
    assert overlap_factor(4, train_correlation(strategy, 4, 0.5)) == pytest.approx(float(factor), abs=0.005)


@pytest.mark.parametrize(("name", "strategy"), [("CV", "cross_validation"), ("MS", "multi_splits")])
def test_the_intervals_of_the_experiment_follow_from_its_deviations(name, strategy):
    width = t_quantile(0.975, 3) * math.sqrt(overlap_factor(4, train_correlation(strategy, 4, 0.5)))
    cells = [re.fullmatch(r"([\d.]+)±([\d.]+) \[([\d.]+), ([\d.]+)\]", cell) for cell in row(f"{name} | 50")]
    for cell in filter(None, cells):
        mean, deviation, low, high = map(float, cell.groups())
        assert (low, high) == pytest.approx((mean - width * deviation, mean + width * deviation), abs=0.06)
    assert sum(cell is not None for cell in cells) == 4


def test_the_coverage_is_that_of_the_simulation(simulation):
    rng = np.random.default_rng(4)
    coverage_of_rule: dict[str, list[tuple[float, float]]] = {name: [] for name in simulation.RULES}
    for setting in simulation.settings():
        for name, covered in simulation.simulate(setting, rng, 10).items():
            coverage_of_rule[name].append((covered.coverage, covered.width))
    assert len(coverage_of_rule["new: overlap and tests"]) == int(re.search(r"in each of (\d+) settings", PAGE)[1])
    for start, values in zip(RULE_ROWS, coverage_of_rule.values(), strict=True):
        mean, _, width = row(start)
        assert np.mean(values, axis=0) == pytest.approx((float(mean), float(width)), abs=0.015)


def test_the_worst_settings_of_the_simulation_are_as_stated(simulation):
    stated = re.search(
        r"\(([.\d]+), [^)]*\), all with the strongest effect, (\d+) test examples and an accuracy of (\.\d+)", PAGE
    )
    least, tests, accuracy = map(float, stated.groups())
    rng = np.random.default_rng(5)
    covered = []
    for setting in simulation.settings():
        if (setting.effect, setting.tests, setting.accuracy) == ("strong", tests, accuracy):
            covered.append(simulation.simulate(setting, rng, 100)["new: overlap and tests"].coverage)
    # 100 data sets have a standard error of 2.5 points.
    assert min(covered) == pytest.approx(least, abs=0.07)


def test_the_strongest_effect_moves_an_accuracy_as_far_as_stated(simulation):
    on_all, on_single = simulation.EFFECTS["strong"]
    ability = normal_quantile(0.8) * math.sqrt(1 + on_all**2 + on_single**2)
    pools = np.random.default_rng(6).normal(ability, on_all, 20_000)
    accuracies = [0.5 * math.erfc(-pool / math.sqrt(2 * (1 + on_single**2))) for pool in pools]
    stated = re.search(r"from none to (\d+) points", PAGE)
    assert f"{100 * np.std(accuracies):.0f}" == stated[1]


@pytest.mark.parametrize(
    ("gain", "pattern"), [(0.1, r"is detected in (\d+) % of"), (0.2, r"one of 20 points in (\d+) %")]
)
def test_gains_are_detected_as_often_as_stated(simulation, gain, pattern):
    share = int(re.search(pattern, PAGE)[1]) / 100
    detected = simulation.simulate_gain(96, "weak", gain, np.random.default_rng(7), 300).found
    # 300 data sets have a standard error of up to 2.9 points.
    assert detected == pytest.approx(share, abs=0.08)


def test_a_gain_on_the_quick_card_is_detected_one_time_in_five(simulation):
    card = " ".join((ROOT / "docs" / "card.md").read_text(encoding="utf-8").split())
    assert "With 48 test examples, a gain of 10 percentage points is detected one time in five." in card
    detected = simulation.simulate_gain(48, "weak", 0.1, np.random.default_rng(8), 300).found
    assert detected == pytest.approx(0.2, abs=0.08)


def test_the_deviation_of_an_accuracy_on_cb_is_as_stated():
    accuracy, tests, deviation = re.search(
        r"accuracy of ([.\d]+) on CB's (\d+) test examples alone is ([.\d]+)\.\n", PAGE
    ).groups()
    rate = float(accuracy)
    assert math.sqrt(rate * (1 - rate) / int(tests)) == pytest.approx(float(deviation), abs=0.005)


def test_another_seed_gave_what_the_page_says():
    measured = (ROOT / "benchmarks" / "measured" / "fewshot_coverage.txt").read_text(encoding="utf-8")
    command = measured.splitlines()[0]
    seed, below, least = re.search(r"`--seed (\d+)`\), (one) setting is below \.92 \((\.\d+)\)", PAGE).groups()
    assert command.endswith(f"--seed {seed}")
    totals = re.findall(r"^  all +([\d.]+) +([\d.]+) +[\d.]+% +([\d.]+)$", measured, re.M)
    for start, (mean, _, width) in zip(RULE_ROWS, totals, strict=True):
        stated_mean, _, stated_width = row(start)
        assert (f"{float(mean):.2f}", f"{float(width):.2f}") == (f"0{stated_mean}", f"0{stated_width}")
    assert f"0{least}" == totals[2][1]
    worst = [float(coverage) for coverage in re.findall(r"^  ([\d.]+) at Setting", measured, re.M)[-3:]]
    assert (below, sum(coverage < 0.92 for coverage in worst)) == ("one", 1)
    assert measured.rstrip().endswith("met")


def cells(start: str) -> list[float]:
    """The first numbers of the cells of a table row, with a minus sign as on the page."""
    numbers = []
    for cell in row(start):
        numbers.append(float(re.match(r"−?[\d.]+", cell)[0].replace("−", "-")))
    return numbers


@pytest.mark.parametrize("strategy", ["CV", "MS"])
def test_the_averages_of_the_experiment_are_those_of_its_rows(strategy):
    rte, wic, cb_accuracy, cb_f1, average = cells(f"{strategy} | 5")
    # As in FewNLU, the two metrics of CB count as one task.
    assert average == pytest.approx((rte + wic + (cb_accuracy + cb_f1) / 2) / 3, abs=0.006)
    second_row = f"{strategy} | " + ("−.06" if strategy == "CV" else ".72")
    *correlations, correlation = cells(second_row)[:4]
    *stabilities, stability = cells(second_row)[4:]
    # The numbers of the row are rounded themselves.
    assert correlation == pytest.approx(np.mean(correlations), abs=0.0101)
    assert stability == pytest.approx(np.mean(stabilities), abs=0.006)


def test_the_advantage_on_cb_is_that_of_the_table():
    points = re.search(r"The configuration that multi-splits select is (\d+) points better there", PAGE)
    assert round(cells("MS | 5")[2] - cells("CV | 5")[2]) == int(points[1])


def test_as_many_outputs_of_the_original_are_compared_as_stated():
    folder = ROOT / "tests" / "published" / "reference" / "fewnlu"
    counts = []
    for name in ("encodings_bert", "pet_cls_logits", "splits"):
        counts.append(len(json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))))
    commands = [json.loads(line) for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
    trainings = sum(len(command["trainings"]) for command in commands)
    stated = re.search(
        r"compares (\d+) encodings, (\d+) sets of logits, (\d+) splits and (\d+) whole commands \((\d+) trainings\)",
        PAGE,
    )
    assert [int(number) for number in stated.groups()] == [*counts, len(commands), trainings]


def constants(name: str) -> dict[str, Any]:
    """The upper-case names that a benchmark assigns, without importing it, because it imports torch."""
    assigned = {}
    for statement in ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign):
            try:
                value = ast.literal_eval(statement.value)
            except ValueError:
                continue
            target = statement.targets[0]
            names = [target] if isinstance(target, ast.Name) else target.elts
            values = [value] if isinstance(target, ast.Name) else value
            assigned.update({name.id: part for name, part in zip(names, values, strict=True)})
    return assigned


def test_the_targets_of_speed_are_those_of_the_benchmarks():
    micro, training = constants("fewshot_micro")["TARGETS"], constants("fewshot_training")["TARGETS"]
    assert row("`micro`")[1] == (
        f"at least {micro['wic']:g} times as fast on WiC, {micro['rte']:g} on RTE and {micro['boolq']:g} on BoolQ"
    )
    assert row("`training`")[1] == f"at least {training['rte']:g} times as fast on RTE and {training['wic']:g} on WiC"
    assert row("`intervals`")[1] == f"at most {constants('fewshot_intervals')['MOST']:g} times the cost"
    assert row("`sweep`")[1].startswith(f"at least {constants('fewshot_sweep')['TIMES']:g} times as fast")
    assert f"dev every {constants('fewshot_training')['EVERY']}," in PAGE


def test_the_experiment_has_as_many_trainings_as_stated():
    *factors, product = map(
        int,
        re.search(
            r"(\d+) configurations × (\d+) splits × (\d+) strategies × (\d+) tasks = (\d+) trainings", PAGE
        ).groups(),
    )
    runs = load_runs(EVALUATIONS / "fewshot" / "starters" / "fewnlu" / "experiment.yaml")
    options = [run.task for run in runs]
    methods = {json.dumps(one["method"], sort_keys=True) for one in options}
    strategies = {one["splits"]["strategy"] for one in options}
    tasks = {one["data"] for one in options}
    (splits,) = {one["splits"]["k"] for one in options}
    assert factors == [len(methods), splits, len(strategies), len(tasks)]
    assert sum(one["splits"]["k"] for one in options) == product == math.prod(factors)
