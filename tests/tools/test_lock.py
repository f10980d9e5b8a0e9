"""The lock file has every package of the development environment with its digests."""

from __future__ import annotations

import re

import pytest

from tests.helpers import ROOT
from tools import lock, lowest, sbom

TEXT = lock.LOCK.read_text(encoding="utf-8")
PINNED = {sbom.normalised(entry.partition("==")[0]): entry for entry in lock.entries(TEXT)}


def test_every_entry_has_a_version_and_a_digest():
    assert len(PINNED) > 100
    for entry in PINNED.values():
        assert re.match(r"[A-Za-z0-9._-]+==[^\s;]+", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry


def test_every_direct_dependency_is_locked_except_torch():
    for requirement in lowest.requirements(ROOT / "pyproject.toml"):
        name = sbom.normalised(re.split(r"[\[><=~! ]", requirement)[0])
        assert (name in PINNED) == (name != "torch"), name


def test_versions_are_those_of_the_constraints():
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", constraints, flags=re.MULTILINE):
        if name != "torch":
            assert PINNED[sbom.normalised(name)].startswith(f"{name}=={version} "), "run tools/lock.py"


def test_no_address_is_in_the_file():
    assert "://" not in TEXT
    assert "index-url" not in TEXT


def test_torch_and_its_accelerators_are_left_out_and_others_are_sorted():
    names = ("torch==2.0", "nvidia-x==1", "b==1", "a==1")
    compiled = "".join(f"{name} \\\n    --hash=sha256:{number}\n" for number, name in enumerate(names))
    lines = lock.locked(compiled).splitlines()[2:]
    assert lines == ["a==1 \\", "    --hash=sha256:3", "b==1 \\", "    --hash=sha256:2"]


def test_an_entry_without_a_digest_is_an_error():
    with pytest.raises(SystemExit, match="a==1: no digest"):
        lock.locked("a==1\n")
