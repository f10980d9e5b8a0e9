"""Write a software bill of materials (CycloneDX): all packages that lmassay and its optional parts need.

``make sbom`` calls it. cyclonedx-py lists everything that is installed; tools for development are left out here.

    python tools/sbom.py build/lmassay.cdx.json
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "lmassay"
RELEASED_EXTRA = "all"
"""The extra that stands for all optional parts; those for tests and documentation are not part of a release."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def normalised(name: str) -> str:
    """Return a package name in the form in which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct_dependencies(pyproject: Path) -> set[str]:
    """Return the names of the packages that lmassay and its optional parts require directly."""
    with pyproject.open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"]
    names: set[str] = set()
    unread = [*project["dependencies"], f"{PROJECT}[{RELEASED_EXTRA}]"]
    while unread:
        requirement = unread.pop()
        name = _name_of(requirement)
        if name != PROJECT:
            names.add(name)
            continue
        for extra in _extras_of(requirement):
            unread += extras[extra]
    return names


def _name_of(requirement: str) -> str:
    matched = _NAME.match(requirement)
    if matched is None:
        raise SystemExit(f"{requirement}: not a requirement")
    return normalised(matched[0])


def _extras_of(requirement: str) -> list[str]:
    inside_brackets = requirement.partition("[")[2].partition("]")[0]
    return [extra.strip() for extra in inside_brackets.split(",") if extra.strip()]


def installed_components(python: str) -> dict[str, Any]:
    """Return the document that cyclonedx-py writes about the environment of a Python interpreter."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON"]
    pyproject = ["--pyproject", str(ROOT / "pyproject.toml")]
    done = subprocess.run([*command, *pyproject, python], capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise SystemExit(f"cyclonedx-py failed: {done.stderr.strip()[-500:]}; pip install cyclonedx-bom")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def released(document: Mapping[str, Any], direct: set[str], version: str) -> dict[str, Any]:
    """Reduce a document to lmassay itself, the packages that it requires, and those that these require."""
    components = {component["bom-ref"]: component for component in document["components"]}
    requires = {entry["ref"]: list(entry.get("dependsOn", [])) for entry in document["dependencies"]}
    root = document["metadata"]["component"]["bom-ref"]
    first = [ref for ref, component in components.items() if normalised(component["name"]) in direct]
    missing = direct - {normalised(components[ref]["name"]) for ref in first}
    if missing:
        raise SystemExit(f"not installed: {', '.join(sorted(missing))}; run make install-test")
    needed: set[str] = set()
    unvisited = list(first)
    while unvisited:
        ref = unvisited.pop()
        if ref not in needed and ref in components:
            needed.add(ref)
            unvisited += requires.get(ref, [])
    dependencies = [{"ref": root, "dependsOn": sorted(first)}]
    for ref in sorted(needed):
        dependencies.append({"ref": ref, "dependsOn": sorted(set(requires.get(ref, [])) & needed)})
    metadata = {**document["metadata"], "component": {**document["metadata"]["component"], "version": version}}
    kept = [components[ref] for ref in sorted(needed)]
    return {**document, "metadata": metadata, "components": kept, "dependencies": dependencies}


def project_version() -> str:
    """Return the version of lmassay, read from its source without importing it."""
    source = (ROOT / "src" / PROJECT / "__init__.py").read_text(encoding="utf-8")
    matched = re.search(r'^__version__ = "([^"]+)"', source, flags=re.MULTILINE)
    if matched is None:
        raise SystemExit("src/lmassay/__init__.py has no __version__")
    return matched[1]


def main(arguments: Sequence[str]) -> None:
    """Write the document to the file that the command line names."""
    if len(arguments) != 1:
        raise SystemExit("usage: python tools/sbom.py FILE")
    output = Path(arguments[0])
    document = installed_components(sys.executable)
    reduced = released(document, direct_dependencies(ROOT / "pyproject.toml"), project_version())
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(reduced, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(f"{output}: {len(reduced['components'])} packages\n")


if __name__ == "__main__":
    main(sys.argv[1:])
