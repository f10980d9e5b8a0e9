"""Your own system: replace `translate` with yours.

lmassay calls `generate` with a list of requests and expects one text per request. This system translates word for word
from French to English with a small dictionary. It copies words that it does not know, so a single typo defeats it. With
`careful: true`, it first looks for a word with a similar spelling: does it break less often?
"""

from __future__ import annotations

import csv
import difflib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from lmassay import Generate, Model, data_file


class MySystem(Model):
    """Word-for-word translation."""

    name = "my-system"
    can = frozenset({"generate"})

    def __init__(
        self,
        careful: bool = False,
        dictionary: Path = Path(__file__).parent / "dictionary.tsv",
        label: str = "",
    ) -> None:
        self.careful = careful
        # The name in tables and figures.
        self.label = label or ("my-system, careful" if careful else self.name)
        # Declared, because answers depend on it: if the file changes, stored answers are not used any more.
        with data_file(dictionary).open(encoding="utf-8", newline="") as stream:
            self.words = dict(csv.reader(stream, delimiter="\t"))
        self.by_plain_spelling = {without_accents(word): word for word in self.words}

    def identity(self) -> Mapping[str, object]:
        """What answers depend on, in addition to this file and the dictionary."""
        return {"name": self.name, "careful": self.careful}

    def generate(self, requests: Sequence[Generate]) -> list[str]:
        return [self.translate(request.prompt) for request in requests]

    def translate(self, sentence: str) -> str:
        translated = []
        for piece in re.findall(r"\w+'|\w+|[^\w\s]", sentence):
            word = self.words.get(self.known_word(piece.lower()), piece)
            # Some words, such as articles, have no translation.
            if word:
                translated.append(word)
        text = re.sub(r"\s+([.,!?])", r"\1", " ".join(translated))
        return text[:1].upper() + text[1:]

    def known_word(self, word: str) -> str:
        """The word itself or, if the system is careful and does not know it, the most similar word that it knows."""
        if word in self.words or not self.careful or not word[0].isalpha():
            return word
        similar = difflib.get_close_matches(without_accents(word), self.by_plain_spelling, n=1, cutoff=0.7)
        return self.by_plain_spelling[similar[0]] if similar else word


def without_accents(word: str) -> str:
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
