"""The numbers on the page about comparisons and gates, by smaller runs of the simulation that they come from."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from types import ModuleType

import numpy as np
import pytest

from lmassay.statistics.comparison import compare_runs
from lmassay.statistics.conditions import parse_condition
from tests.compare_kit import rates, two
from tests.helpers import ROOT

PAGE = " ".join((ROOT / "docs" / "compare.md").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def gate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate_benchmark", ROOT / "benchmarks" / "gate.py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up the module that they are defined in.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def stated(pattern: str) -> list[float]:
    """The numbers in a sentence of the page."""
    return [float(number) for number in re.search(pattern, PAGE).groups()]


def designs(gate, correlation=0.1):
    independent = [gate.design(rows, clustered=False) for rows in gate.INDEPENDENT]
    return independent + [gate.design(rows, clustered=True, correlation=correlation) for rows in gate.CLUSTERED]


def shares(gate, all_designs, *, at_threshold, passes, draws=600):
    """The share of simulated comparisons that fail (or pass ``--pass-only-if``), for each setting."""
    rng = np.random.default_rng(11)
    alarm_rates = []
    for design, churn, threshold in itertools.product(all_designs, gate.CHURN, gate.THRESHOLDS):
        drops = np.full(draws, threshold if at_threshold else 0.0)
        tested = gate.test(gate.simulate(design, churn, drops, rng), design)
        p = tested.p_above(-threshold) if passes else tested.p_below(-threshold)
        alarm_rates.append(float((p < gate.ALPHA).mean()))
    return alarm_rates


def test_false_alarms_are_as_rare_as_stated(gate):
    worst, settings = stated(
        r"fails falsely in about 5 % of cases or fewer \(([\d.]+) % in the worst of (\d+) settings\)"
    )
    failed = []
    for at_threshold in (False, True):
        alarm_rates = shares(gate, designs(gate), at_threshold=at_threshold, passes=False)
        assert len(alarm_rates) == settings
        failed += alarm_rates
    # 600 comparisons have a standard error of .9 points, and the worst of 162 is above its expectation.
    assert max(failed) == pytest.approx(worst / 100, abs=0.02)
    assert np.median(failed) < 0.05


def test_false_passes_are_as_rare_as_stated(gate):
    least, most = stated(r"passes falsely in up to (\d+) or (\d+) % of cases if the threshold")
    passed = shares(gate, designs(gate), at_threshold=True, passes=True)
    assert least / 100 - 0.015 < max(passed) < most / 100 + 0.025


def test_false_passes_are_more_frequent_if_examples_of_a_cluster_change_together(gate):
    most, correlation = stated(r"and in up to (\d+) % if, in addition, .*? \(correlation ([\d.]+)\)")
    clustered = designs(gate, correlation)[len(gate.INDEPENDENT) :]
    passed = shares(gate, clustered, at_threshold=True, passes=True, draws=500)
    assert max(passed) == pytest.approx(most / 100, abs=0.03)


@pytest.mark.parametrize(("rows", "is_clustered"), [(100, False), (1000, False), (300, True)])
def test_the_stated_drop_is_found_as_often_as_stated(gate, rows, is_clustered):
    least, most = stated(r"would be found in 4 of 5 comparisons, it fails in (\d+) to (\d+) %")
    rng = np.random.default_rng(12)
    design = gate.design(rows, clustered=is_clustered)
    tested = gate.test(gate.simulate(design, 0.1, np.zeros(20), rng), design)
    drops = np.repeat(gate.stated_drops(tested, design, 0.02), 50)
    again = gate.test(gate.simulate(design, 0.1, drops, rng), design)
    share = float((again.p_below(-0.02) < gate.ALPHA).mean())
    assert least / 100 - 0.04 < share < most / 100 + 0.04


def judged(before: list[int], after: list[int], condition: str):
    from lmassay.statistics.gate import judge

    base, new = two(rates(before), rates(after))
    return judge([parse_condition(condition)], [(base, new)], compare_runs(base, [new], ["accuracy"]))


def test_the_examples_of_too_little_data_are_right():
    few = int(re.search(r"with (\d+) examples scored 0 or 1, nothing is significant at 0.05", PAGE)[1])
    assert judged([1] * few, [0] * few, "accuracy<0").state == "cannot judge"
    assert judged([1] * (few + 1), [0] * (few + 1), "accuracy<0").state == "fail"

    right, rows = map(int, re.search(r"if the base run has (\d+) of (\d+) right, only 5 can fall", PAGE).groups())
    before = [1] * right + [0] * (rows - right)
    assert judged(before, [0] * rows, "accuracy<-0.02").state == "cannot judge"
    assert "a significant change in the other direction also passes" in PAGE
    assert judged(before, [1] * rows, "accuracy<-0.02").state == "pass"

    right, rows = map(int, re.search(r"a base run with (\d+) of (\d+) right cannot fall", PAGE).groups())
    before = [1] * right + [0] * (rows - right)
    assert judged(before, [0] * rows, "accuracy<-0.02").state == "pass"


MEASURED = ROOT / "benchmarks" / "measured" / "gate.txt"


def measured_rows() -> list[list[str]]:
    """The cells of the table that the benchmark printed: one row for each setting."""
    rows = []
    for line in MEASURED.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r" {2,}", line.strip())]
        if len(cells) == 8 and cells[1].endswith("each way"):
            rows.append(cells)
    return rows


def test_the_page_states_what_the_whole_simulation_gave():
    rows = measured_rows()
    worst, settings = stated(r"\(([\d.]+) % in the worst of (\d+) settings\)")
    assert len(rows) == settings
    alarms = [float(cell.rstrip("*")) for row in rows for cell in row[3:5]]
    assert 100 * max(alarms) == pytest.approx(worst)
    _, most = stated(r"passes falsely in up to (\d+) or (\d+) % of cases if the threshold")
    assert round(100 * max(float(row[5].rstrip("*")) for row in rows)) <= most
    least_found, most_found = stated(r"it fails in (\d+) to (\d+) %")
    for name, churn, *_, detected in rows:
        changed = 2 * float(churn.partition("%")[0]) / 100 * int(name.split()[0])
        if "clusters" in name and changed < 20:
            continue
        assert least_found <= 100 * float(detected.rstrip("*")) <= most_found, (name, churn)
