"""Published data sets, which are not part of the repository: where the tests look for them and how to get them.

    make published-data SHARED=../shared

brings those that the tests need, with git, and checks out the commit that the figures were computed from.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import shared_folder

FIGURES = Path(__file__).with_name("figures")
"""What the original programs give on published data: numbers and digests, without the texts."""


@dataclass(frozen=True)
class DataSet:
    """Files of a public repository."""

    folder: str
    """Below $LMASSAY_SHARED/data."""
    repository: str
    commit: str
    files: dict[str, str]
    """Name in the folder → path in the repository."""

    def how_to_get_it(self) -> str:
        return (
            f"needs the data of https://github.com/{self.repository} at commit {self.commit} in data/{self.folder} of "
            "../shared, or of the folder that LMASSAY_SHARED names: make published-data SHARED=../shared"
        )

    def bring(self, shared: Path, host: str) -> None:
        """Copy the files out of a clone of the repository."""
        with tempfile.TemporaryDirectory() as clone:
            _git("clone", "--quiet", "--filter=blob:none", "--no-checkout", f"{host}/{self.repository}", clone)
            _git("-C", clone, "checkout", "--quiet", self.commit, "--", *self.files.values())
            for name, path in self.files.items():
                source, target = Path(clone, path), shared / "data" / self.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    shutil.copytree(source, target, dirs_exist_ok=True)
                else:
                    shutil.copy(source, target)

    def require(self) -> Path:
        """The folder with the files; skips the test if one is missing."""
        shared = shared_folder()
        folder = None if shared is None else shared / "data" / self.folder
        if folder is None or not all((folder / name).exists() for name in self.files):
            pytest.skip(self.how_to_get_it())
        return folder


TEAPOT = DataSet(
    "teapot",
    "pmichel31415/teapot-nlp",
    "0c252a81421f065eb3e75296a29b169806f253b6",
    {"MT": "examples/MT", "sentiment": "examples/sentiment"},
)
KOBBQ = DataSet(
    "kobbq",
    "naver-ai/KoBBQ",
    "0dd165aeaaacd1bd46c63513a9b2e9875eb6dce7",
    {
        "KoBBQ_test_samples.tsv": "data/KoBBQ_test_samples.tsv",
        "KoBBQ_templates.tsv": "data/KoBBQ_templates.tsv",
        "0_evaluation_prompts.tsv": "evaluation/0_evaluation_prompts.tsv",
    },
)
TSE = DataSet(
    "tse",
    "bnewm0609/refining-tse",
    "db423f80246ba2d7c2fc602fc514943949cfaf71",
    {"ML": "data/ML", "blimp": "data/blimp", "verbs": "data/verbs"},
)
BLIMP = DataSet(
    "blimp",
    "alexwarstadt/blimp",
    "3e56b06fcabca9b30822fc66435fca6b1aa40bb1",
    {".": "data"},
)
_SUPERGLUE = ("BoolQ", "CB", "COPA", "MultiRC", "RTE", "ReCoRD", "WiC", "WSC")
FEWGLUE = DataSet(
    "fewglue",
    "THUDM/P-tuning",
    "f4225d4d8003868b31ed659dfe9732a351ad42d9",
    {name: f"FewGLUE_32dev/{name}" for name in _SUPERGLUE},
)
FEWGLUE_UNLABELED = DataSet(
    "fewglue",
    "timoschick/fewglue",
    "f52d9515de38cad663869c9e25b79107cda1d345",
    {"WiC/unlabeled.jsonl": "FewGLUE/WiC/unlabeled.jsonl"},
)


def digests(path: Path) -> dict[str, str]:
    """File → SHA-256, from a file in the format of sha256sum."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        digest, name = line.split("  ", 1)
        found[name] = digest
    return found


def _git(*arguments: str) -> None:
    git = shutil.which("git")
    if git is None:
        raise SystemExit("git is not installed")
    subprocess.run([git, *arguments], check=True)


ALL = (TEAPOT, KOBBQ, TSE, BLIMP, FEWGLUE, FEWGLUE_UNLABELED)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Bring the published data that tests need.")
    parser.add_argument("shared", type=Path, help="the folder that LMASSAY_SHARED names, e.g. ../shared")
    parser.add_argument("--host", default="https://github.com", help="default: %(default)s")
    options = parser.parse_args(arguments)
    for data_set in ALL:
        print(f"{data_set.repository} → {options.shared / 'data' / data_set.folder}")
        data_set.bring(options.shared, options.host)


if __name__ == "__main__":
    main()
