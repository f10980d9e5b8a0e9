"""The files that the repository's host and other tools read: they parse, and what they name is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import lmassay
from tests.helpers import ROOT

GITHUB = ROOT / ".github"
FORMS = sorted(file for file in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if file.stem != "config")
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
PAPERS = (
    "10.18653/v1/N19-1314",
    "10.18653/v1/2021.naacl-main.290",
    "10.1162/tacl_a_00661",
    "10.18653/v1/2022.acl-long.38",
)


def read_yaml(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def workflow() -> Any:
    return read_yaml(GITHUB / "workflows" / "tests.yml")


def steps_of(workflow: Any) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_the_citation_names_this_version_and_the_four_papers():
    citation = read_yaml(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert str(citation["version"]) == lmassay.__version__
    assert tuple(paper["doi"] for paper in citation["references"]) == PAPERS
    for paper in citation["references"]:
        assert {"type", "title", "authors", "year"} <= set(paper)


def test_the_workflow_names_targets_that_exist(workflow):
    named = re.findall(r"\bmake ([\w-]+)", "\n".join(step.get("run", "") for step in steps_of(workflow)))
    assert set(named) == {"check", "dist", "docs", "fuzz", "sbom", "soak", "test-lowest"}
    assert set(named) <= TARGETS


def test_the_workflow_names_files_that_exist(workflow):
    text = (GITHUB / "workflows" / "tests.yml").read_text(encoding="utf-8")
    for name in re.findall(r"[\w/-]+\.(?:toml|txt|py|md)\b", text):
        assert (ROOT / name).is_file(), name
    for name in re.findall(r"\[(\w+)\]\"", text):
        assert f"\n{name} = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8"), name


def test_the_workflow_tests_three_systems_and_all_pythons(workflow):
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert {entry["os"] for entry in matrix["include"]} <= set(matrix["os"])


def test_the_workflow_needs_nothing_of_one_machine(workflow):
    text = (GITHUB / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert not re.search(r"shared|index-url|find-links|https?://", text)
    assert workflow["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_an_issue_form_is_complete_and_names_files_that_exist(form):
    content = read_yaml(form)
    assert {"name", "description", "body"} <= set(content)
    ids = [field["id"] for field in content["body"] if field["type"] != "markdown"]
    assert len(ids) == len(set(ids)) >= 2
    for name in re.findall(r"\b(?:docs|tests)/[\w/]+|\b[A-Z_]+\.md\b", form.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


def test_there_is_a_form_for_bugs_features_and_numbers():
    assert [form.stem for form in FORMS] == ["bug", "feature", "number"]


def test_links_and_targets_of_the_pull_request_template_are_there():
    text = (GITHUB / "pull_request_template.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (GITHUB / target).exists(), target
    for name in re.findall(r"`([\w/]+\.md)`", text):
        assert (ROOT / name).exists(), name
    assert set(re.findall(r"`make ([\w-]+)`", text)) <= TARGETS


def test_dependabot_updates_the_constraints_and_the_actions():
    updates = read_yaml(GITHUB / "dependabot.yml")["updates"]
    assert [update["package-ecosystem"] for update in updates] == ["pip", "github-actions"]


def test_the_hooks_call_tools_of_the_environment_and_leave_recorded_files_alone():
    content = read_yaml(ROOT / ".pre-commit-config.yaml")
    assert [repository["repo"] for repository in content["repos"]] == ["local"]
    for hook in content["repos"][0]["hooks"]:
        assert hook["entry"].startswith(".venv/bin/"), hook["id"]
        for script in re.findall(r"\S+\.py\b", hook["entry"]):
            assert (ROOT / script).is_file(), script
    excluded = re.compile(content["exclude"])
    for folder in (
        "tests/published/reference",
        "tests/published/figures",
        "tests/storage/old_store",
        "tests/interchange/logs",
    ):
        assert (ROOT / folder).is_dir(), folder
        assert excluded.match(f"{folder}/file")
    assert not excluded.match("tests/published/test_teapot_reference.py")
