"""TEAPOT's examples by name."""

from __future__ import annotations

import json

import pytest

from tests.helpers import lmassay, write_config

MT = "data:teapot/MT"


def config() -> dict:
    return {
        "task": {
            "name": "robustness",
            "src": f"{MT}/src.fr",
            "ref": f"{MT}/ref.en",
            "attack": {"file": f"{MT}/adv.charswap.fr"},
        },
        "model": {
            "name": "outputs",
            "files": {"out": f"{MT}/base.en", "adv_out": f"{MT}/adv.charswap.en"},
        },
    }


def test_a_configuration_names_the_files_of_a_data_set(fetched, tmp_path):
    fetched("teapot")
    write_config(tmp_path / "c.yaml", config())
    done = lmassay("run", "c.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    success = next(result for result in run["results"] if result["metric"] == "success")
    # As in TEAPOT's README.
    assert (success["value"], success["n"]) == (pytest.approx(0.652), 1000)


def test_a_file_that_was_not_fetched_is_one_line(tmp_path):
    write_config(tmp_path / "c.yaml", config())
    done = lmassay("check", "c.yaml", cwd=tmp_path, env={"LMASSAY_CACHE": str(tmp_path / "empty")})
    assert done.returncode == 2
    assert "run lmassay data get teapot" in done.stderr
