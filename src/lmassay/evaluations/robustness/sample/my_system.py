"""Your own system: replace `translate` with yours.

lmassay calls `generate` with a list of requests and expects one text per request. This system translates word for word
from French to English with a small dictionary. It copies words that it does not know, so a single typo defeats it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lmassay import Generate, Model, data_file


class MySystem(Model):
    """Word-for-word translation."""

    name = "my-system"
    can = frozenset({"generate"})

    def __init__(self, dictionary: Path = Path(__file__).parent / "dictionary.tsv") -> None:
        # Declared, because answers depend on it: if the file changes, stored answers are not used any more.
        with data_file(dictionary).open(encoding="utf-8", newline="") as stream:
            self.words = dict(csv.reader(stream, delimiter="\t"))

    def identity(self) -> Mapping[str, object]:
        """What answers depend on, in addition to this file and the dictionary."""
        return {"name": self.name}

    def generate(self, requests: Sequence[Generate]) -> list[str]:
        return [self.translate(request.prompt) for request in requests]

    def translate(self, sentence: str) -> str:
        translated = []
        for piece in re.findall(r"\w+'|\w+|[^\w\s]", sentence):
            word = self.words.get(piece.lower(), piece)
            # Some words, such as articles, have no translation.
            if word:
                translated.append(word)
        text = re.sub(r"\s+([.,!?])", r"\1", " ".join(translated))
        return text[:1].upper() + text[1:]
