"""What a release consists of: one version everywhere, a changelog that says which numbers changed, a whole package."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
import yaml

import lmassay
from tests.helpers import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HEADINGS = re.findall(r"^## \[([^]]+)\] - (.+)$", CHANGELOG, flags=re.MULTILINE)


def test_the_changelog_begins_with_this_version():
    assert HEADINGS[0][0] in (lmassay.__version__, "Unreleased")
    assert lmassay.__version__ in [version for version, _ in HEADINGS]
    for _, date in HEADINGS:
        assert date in ("unreleased", "not published") or re.fullmatch(r"\d{4}-\d\d-\d\d", date)


def test_the_readme_has_absolute_addresses_as_soon_as_the_project_has_one():
    """Package indexes show the README without the repository."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    addresses = re.findall(r"\]\(([^)#]+)", readme)
    relative = [address for address in addresses if "://" not in address]
    if "urls" in PROJECT["project"]:
        assert relative == []
    else:
        # Without an address of the project, they can only be read in the repository, where they must lead somewhere.
        assert relative
        for address in relative:
            assert (ROOT / address).exists(), address


def test_the_changelog_says_of_each_changed_number_what_it_was_what_it_is_and_why():
    section = CHANGELOG.partition(f"## [{lmassay.__version__}]")[2].partition("\n## [")[0]
    numbers = section.partition("### Numbers that changed\n")[2].partition("\n### ")[0]
    rows = [line.strip("|").split(" | ") for line in numbers.splitlines() if line.startswith("| ")]
    reasoned = [row for row in rows if rows[0] != row and len(row) == len(rows[0])]
    assert [cell.strip() for cell in rows[0]] == ["number", "before", "now", "why"]
    assert len(reasoned) >= 10
    for row in reasoned:
        assert all(cell.strip() for cell in row[-3:]), row


def test_versioned_docs_extend_the_site_and_have_a_menu_of_versions():
    versioned = yaml.safe_load((ROOT / "mkdocs-versioned.yml").read_text(encoding="utf-8"))
    assert versioned == {
        "INHERIT": "mkdocs.yml",
        "extra": {"version": {"provider": "mike", "default": "latest", "alias": True}},
    }


def test_make_names_the_folder_of_the_docs_after_the_version():
    done = subprocess.run(
        ["make", "--dry-run", "docs-version", "PYTHON=true"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    major_and_minor = ".".join(lmassay.__version__.split(".")[:2])
    assert f"mike deploy --config-file mkdocs-versioned.yml --update-aliases {major_and_minor} latest" in done.stdout


def test_make_dist_builds_checks_and_tries_both_distributions():
    done = subprocess.run(
        ["make", "--dry-run", "dist", "TESTS=tests/statistics"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    steps = ("-m build --outdir dist", "-m twine check --strict dist/*", "tools/smoke.py dist/*.whl --tests")
    places = [done.stdout.index(step) for step in steps]
    assert places == sorted(places)


def test_licences_of_everything_in_the_package_come_with_it():
    files = PROJECT["project"]["license-files"]
    assert files == ["LICENSE", "src/lmassay/reporting/fonts/LICENSE.txt"]
    for name in files:
        assert (ROOT / name).stat().st_size > 1000


def test_links_to_folders_are_not_in_the_source_distribution():
    """hatchling visits each folder once: what a link shows would be missing in the place that it points to."""
    target = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert target["skip-excluded-dirs"]
    for folder in ("benchmarks", "docs", "examples", "src", "tests", "tools"):
        for path in (ROOT / folder).rglob("*"):
            assert not path.is_symlink() or f"/{path.relative_to(ROOT).as_posix()}" in target["exclude"]


@pytest.fixture
def smoke(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("smoke")


def test_the_smoke_test_reports_a_command_that_fails(smoke, tmp_path):
    with pytest.raises(SystemExit, match="ended with 3"):
        smoke._run([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)


def test_the_smoke_test_reports_files_that_are_missing_in_the_wheel(smoke, tmp_path, capsys):
    source = tmp_path / "src"
    (source / "package" / "starters").mkdir(parents=True)
    (source / "package" / "code.py").touch()
    wheel = tmp_path / "package.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(source / "package" / "code.py", "package/code.py")
    smoke.require_all_files(wheel, source)
    assert "ok" in capsys.readouterr().out
    (source / "package" / "starters" / "first.yaml").touch()
    with pytest.raises(SystemExit, match=r"package\.whl lacks .*: package/starters/first\.yaml"):
        smoke.require_all_files(wheel, source)
