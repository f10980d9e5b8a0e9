"""The bill of materials lists what lmassay needs, directly and indirectly, and nothing else."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tools import sbom

PYPROJECT = """
[project]
name = "lmassay"
dependencies = ["Alpha_One>=1", "beta>=2"]
[project.optional-dependencies]
fast = ["gamma>=3"]
all = ["lmassay[fast]"]
test = ["pytest>=8", "lmassay[all]"]
"""


def component(name: str) -> dict[str, str]:
    return {"bom-ref": f"{name}==1", "name": name, "version": "1", "type": "library"}


def document(**requires: list[str]) -> dict:
    names = ["alpha-one", "beta", "gamma", "delta", "pytest", "pluggy"]
    dependencies = [{"ref": "root"}]
    for name in names:
        dependencies.append({"ref": f"{name}==1", "dependsOn": [f"{other}==1" for other in requires.get(name, [])]})
    return {
        "metadata": {"component": {"bom-ref": "root", "name": "lmassay"}},
        "components": [component(name) for name in names],
        "dependencies": dependencies,
    }


def test_direct_dependencies_are_those_of_the_core_and_of_all_optional_parts(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    assert sbom.direct_dependencies(tmp_path / "pyproject.toml") == {"alpha-one", "beta", "gamma"}


def test_every_dependency_of_lmassay_itself_is_read():
    names = sbom.direct_dependencies(ROOT / "pyproject.toml")
    assert {"click", "numpy", "torch", "distributed", "sentence-transformers"} <= names
    assert not {"pytest", "mypy", "mkdocs-material", "lmassay"} & names


def test_indirect_dependencies_are_kept_and_tools_are_left_out():
    direct = {"alpha-one", "beta", "gamma"}
    reduced = sbom.released(document(beta=["delta"], pytest=["pluggy"], delta=["beta"]), direct, "0.9")
    assert [entry["name"] for entry in reduced["components"]] == ["alpha-one", "beta", "delta", "gamma"]
    assert reduced["metadata"]["component"]["version"] == "0.9"
    requires = {entry["ref"]: entry["dependsOn"] for entry in reduced["dependencies"]}
    assert requires["root"] == ["alpha-one==1", "beta==1", "gamma==1"]
    assert requires["beta==1"] == ["delta==1"]


def test_a_dependency_that_is_not_installed_is_an_error():
    with pytest.raises(SystemExit, match="not installed: omega"):
        sbom.released(document(), {"beta", "omega"}, "1")


def test_the_real_tool_lists_what_is_installed(tmp_path):
    pytest.importorskip("cyclonedx_py", reason="cyclonedx-bom is not installed")
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.rglob("site-packages")
    for name in ("click", "numpy"):
        # The metadata of a package are enough for the tool.
        source = Path(str(importlib.metadata.distribution(name)._path))
        shutil.copytree(source, packages / source.name)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    reduced = sbom.released(sbom.installed_components(str(python)), {"click", "numpy"}, sbom.project_version())
    listed = {entry["name"]: entry for entry in reduced["components"]}
    assert listed.keys() == {"click", "numpy"}
    assert listed["click"]["version"] == importlib.metadata.version("click")
    assert listed["click"]["purl"].startswith("pkg:pypi/click@")
    assert (reduced["bomFormat"], reduced["metadata"]["component"]["name"]) == ("CycloneDX", "lmassay")
    assert str(tmp_path) not in json.dumps(reduced)
