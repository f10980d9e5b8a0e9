"""The constraints of `make test-lowest`: a pin for each direct dependency, at its lower bound."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.helpers import ROOT
from tools import lowest

PYPROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")


def test_every_dependency_has_a_pin():
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(item for extra in project["optional-dependencies"].values() for item in extra),
    ]
    names = {re.split(r"[\[<>=]", item)[0] for item in wanted} - {"lmassay"}
    pinned = lowest.pins(lowest.requirements(PYPROJECT), CONSTRAINTS)
    assert set(pinned) == names
    assert pinned["scipy"] == next(item.partition(">=")[2] for item in wanted if item.startswith("scipy"))


def test_torch_is_pinned_as_in_the_constraints():
    assert lowest.pins(["torch>=2.4"], "numpy==2.0\ntorch==2.13.0\n") == {"torch": "2.13.0"}


def test_extras_of_a_dependency_are_no_part_of_its_pin():
    assert lowest.pins(["distributed[complete]>=2026.1", "x == 1.0"], "") == {"distributed": "2026.1", "x": "1.0"}


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        (["rich"], "rich: no lower bound; write rich>=VERSION"),
        (["rich~=13.0"], "rich~=13.0: write it as NAME>=VERSION"),
        (["rich>=13,<15"], "write it as NAME>=VERSION"),
        (["rich>=13", "rich>=14"], "rich has two lower bounds in pyproject.toml: 13 and 14"),
    ],
)
def test_a_dependency_whose_lowest_version_is_unclear_is_refused(requirements, message):
    with pytest.raises(SystemExit, match=re.escape(message)):
        lowest.pins(requirements, "")


def test_the_list_is_printed_as_pip_reads_it(capsys):
    lowest.main()
    lines = capsys.readouterr().out.splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    names = [line.partition("==")[0].lower() for line in lines]
    assert names == sorted(names)
