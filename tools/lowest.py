"""Print a constraints file that pins every direct dependency to its lower bound in pyproject.toml.

``make test-lowest`` installs these versions and runs the tests, so that each lower bound is known to work. The bound
itself has to be a published version: ``scipy>=1.15`` becomes ``scipy==1.15``, which pip reads as 1.15.0.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "lmassay"
# torch: an older release pulls in gigabytes of accelerator libraries, so the pin of constraints.txt is used instead.
AS_IN_CONSTRAINTS = frozenset({"torch"})
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?:(?P<operator>>=|==)\s*(?P<version>[\w.]+))?")


def requirements(pyproject: Path) -> list[str]:
    """Return the direct dependencies of the core and of all extras, without those on lmassay's own extras."""
    with pyproject.open("rb") as file:
        project = tomllib.load(file)["project"]
    declared = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        declared += extra
    return [requirement for requirement in declared if _parse(requirement)["name"] != PROJECT]


def pins(requirements: list[str], constraints: str) -> dict[str, str]:
    """Return the lowest version of each dependency by name. A dependency without a lower bound is an error."""
    lowest: dict[str, str] = {}
    for requirement in requirements:
        parsed = _parse(requirement)
        name, version = parsed["name"], parsed["version"]
        if name in AS_IN_CONSTRAINTS:
            version = _constrained(name, constraints)
        if version is None:
            raise SystemExit(f"{requirement}: no lower bound; write {name}>=VERSION in pyproject.toml")
        if lowest.setdefault(name, version) != version:
            raise SystemExit(f"{name} has two lower bounds in pyproject.toml: {lowest[name]} and {version}")
    return lowest


def _parse(requirement: str) -> re.Match[str]:
    parsed = _REQUIREMENT.fullmatch(requirement.strip())
    if parsed is None:
        raise SystemExit(f"{requirement}: write it as NAME>=VERSION or NAME==VERSION in pyproject.toml")
    return parsed


def _constrained(name: str, constraints: str) -> str | None:
    pinned = re.search(rf"^{re.escape(name)}==(\S+)$", constraints, flags=re.MULTILINE)
    return pinned[1] if pinned else None


def main() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lowest = pins(requirements(ROOT / "pyproject.toml"), constraints)
    for name in sorted(lowest, key=str.lower):
        sys.stdout.write(f"{name}=={lowest[name]}\n")


if __name__ == "__main__":
    main()
