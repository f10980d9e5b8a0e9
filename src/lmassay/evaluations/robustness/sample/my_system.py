"""A system of your own: put yours where `translate` is.

lmassay asks it by `generate`: so many requests, so many texts. This one translates word for word from French to
English with a small dictionary and copies what it does not know, so a single typo defeats it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lmassay import Generate, Model


class MySystem(Model):
    """Word-for-word translation."""

    name = "my-system"
    can = frozenset({"generate"})

    def __init__(self, dictionary: Path = Path(__file__).parent / "dictionary.tsv") -> None:
        with dictionary.open(encoding="utf-8", newline="") as stream:
            self.words = dict(csv.reader(stream, delimiter="\t"))

    def identity(self) -> Mapping[str, object]:
        """What an answer depends on, besides this file: answers are asked for again when it changes."""
        return {"name": self.name, "words": self.words}

    def generate(self, requests: Sequence[Generate]) -> list[str]:
        return [self.translate(request.prompt) for request in requests]

    def translate(self, sentence: str) -> str:
        pieces = re.findall(r"\w+'|\w+|[^\w\s]", sentence)
        text = " ".join(word for piece in pieces if (word := self.words.get(piece.lower(), piece)))
        text = re.sub(r"\s+([.,!?])", r"\1", text)
        return text[:1].upper() + text[1:]
