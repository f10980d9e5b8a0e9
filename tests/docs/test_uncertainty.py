"""The numbers on the page about uncertainty, by a smaller run of the simulation that they come from."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from lmassay.statistics.variance import PRIOR_CORRELATION

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "uncertainty.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_benchmark", ROOT / "benchmarks" / "coverage.py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up the module that they are defined in.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def rows_of_the_page() -> dict[tuple[str, str], list[list[float]]]:
    """(clusters, sizes) → for each rule the mean coverage, the least, and the relative width."""
    rows = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and re.match(r"\d+ to \d+", cells[0]):
            rows[cells[0], cells[1]] = [[float(number) for number in cell.split(",")] for cell in cells[2:]]
    return rows


def test_the_table_of_coverage_is_what_the_simulation_gives(coverage):
    stated = rows_of_the_page()
    assert len(stated) == 6
    rng = np.random.default_rng(5)
    for (clusters, shape), cells in stated.items():
        counts = [count for count in coverage.CLUSTERS if (count <= 8) is (clusters == "3 to 8")]
        settings = []
        for count in counts:
            for size in coverage.SIZES:
                sizes = coverage.sizes_of(shape, count, size, rng)
                for rate in coverage.RATES:
                    for correlation in coverage.CORRELATIONS:
                        settings.append(coverage.measure("", sizes, rate, correlation, 60, rng))
        for name, (mean, _, width) in zip(coverage.RULES, cells, strict=True):
            assert np.mean([setting.coverage[name] for setting in settings]) == pytest.approx(mean, abs=0.025)
            relative = np.mean([setting.width[name] / setting.width["new"] for setting in settings])
            assert relative == pytest.approx(width, abs=0.1)


def test_published_sizes_cover_as_stated(coverage):
    rng = np.random.default_rng(6)
    covered = []
    for name, sizes in coverage.published_sizes().items():
        for rate in coverage.PUBLISHED_RATES:
            for correlation in coverage.PUBLISHED_CORRELATIONS:
                covered.append(coverage.measure(name, sizes, rate, correlation, 200, rng).coverage["new"])
    # Stated are 94.6 to 100 %; 200 data sets have a standard error of 1.6 points.
    assert min(covered) > 0.946 - 0.05


def test_the_page_names_the_prior_correlation_of_the_code():
    assert f"pulled towards {PRIOR_CORRELATION:g}" in PAGE
