"""Published data sets, which are not part of the repository: where the tests look for them and how to get them."""

from __future__ import annotations

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
        places = [f"{path} as data/{self.folder}/{name}" for name, path in self.files.items()]
        return (
            f"needs the data of https://github.com/{self.repository} at commit {self.commit}: set LMASSAY_SHARED to a "
            f"folder that has {', '.join(places)}"
        )

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
    {"adjunct_island.jsonl": "data/adjunct_island.jsonl and the other files of data"},
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
