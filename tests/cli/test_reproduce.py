"""``lmassay reproduce``"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers import lmassay


@pytest.fixture
def environment(shared: Path, tmp_path: Path) -> dict[str, str]:
    return {"LMASSAY_CACHE": str(tmp_path / "cache"), "LMASSAY_DATA_MIRROR": str(shared / "data")}


def test_the_list_names_what_can_be_reproduced_and_the_data_it_needs(environment):
    printed = lmassay("reproduce", "--json", env=environment).stdout
    needs = {row["name"]: row["datasets"] for row in json.loads(printed)["reproductions"]}
    assert {"teapot": ["teapot"], "blimp": ["blimp"], "bbq": ["bbq"], "kobbq": ["kobbq"]}.items() <= needs.items()
    assert "teapot" in lmassay("reproduce", env=environment).stdout


def test_without_the_data_the_command_to_fetch_it_is_named(environment):
    done = lmassay("reproduce", "blimp", env=environment)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("run lmassay data get blimp")


def test_an_unknown_name_is_one_line_with_a_hint(environment):
    done = lmassay("reproduce", "blimb", env=environment)
    assert done.returncode == 2
    assert "did you mean 'blimp'?" in done.stderr


@pytest.mark.parametrize(("name", "figures"), [("teapot", 9), ("blimp", 53), ("kobbq", 4)])
def test_published_numbers_agree_to_the_last_digit(environment, name, figures):
    lmassay("data", "get", name, env=environment)
    done = lmassay("reproduce", name, env=environment)
    assert done.returncode == 0, done.stdout
    assert f"{figures} of {figures} figures agree to the last printed digit." in done.stdout


def test_only_six_figures_of_bbq_are_excused(environment):
    lmassay("data", "get", "bbq", "--partial", env=environment)
    done = lmassay("reproduce", "bbq", "--json", env=environment)
    assert done.returncode == 0
    figures = json.loads(done.stdout)["figures"]
    assert len(figures) == 60
    excused = [figure["name"] for figure in figures if not figure["agrees"]]
    assert len(excused) == 6
    assert all(name.startswith("Physical_appearance") for name in excused)
    assert {figure["verdict"] for figure in figures} == {"agrees", "differs, cause unknown"}


def test_a_number_that_should_agree_and_does_not_is_an_error(environment, monkeypatch):
    from lmassay.evaluations.robustness import reproduce

    lmassay("data", "get", "teapot", env=environment)
    changed = (("source preservation (chrF), mean", "86.909"), *reproduce._PUBLISHED[1:])
    monkeypatch.setattr(reproduce, "_PUBLISHED", changed)
    done = lmassay("reproduce", "teapot", env=environment)
    assert done.returncode == 1
    row = next(line for line in done.stdout.splitlines() if "DIFFERS" in line)
    assert row.split()[-4:] == ["86.909", "86.908", "-0.001", "DIFFERS"]
