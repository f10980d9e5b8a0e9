"""Your own system as a model: a class with ``name``, ``can``, ``identity`` and ``generate``.

It is a word-for-word French-English translator with a small dictionary (data/dictionary.tsv). With ``careful``, it
looks up an unknown word by its nearest spelling, so it should break less often under attack. The example measures
whether it does.

    model: {name: examples/toy_translator.py:ToyTranslator, careful: true}
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from lmassay import Generate, Model

DICTIONARY = Path(__file__).parent / "data" / "dictionary.tsv"


class ToyTranslator(Model):
    """Word-for-word French-English translation; unknown words are copied, or corrected first if ``careful``."""

    name = "toy-translator"
    can = frozenset({"generate"})

    def __init__(self, careful: bool = False, label: str = "") -> None:
        self.careful = careful
        self.label = label or ("careful translator" if careful else "plain translator")
        content = DICTIONARY.read_bytes()
        self._digest = hashlib.sha256(content).hexdigest()[:8]
        self._words = dict(csv.reader(io.StringIO(content.decode("utf-8"), newline=""), delimiter="\t"))
        self._plain = {_skeleton(word): word for word in self._words}

    def identity(self) -> Mapping[str, object]:
        # What the dictionary says, not how long it is: with another translation of a word, stored answers are another
        # system's.
        return {"name": self.name, "careful": self.careful, "dictionary": self._digest}

    def generate(self, requests: Sequence[Generate]) -> list[str]:
        return [self._translate(request.prompt) for request in requests]

    def _translate(self, sentence: str) -> str:
        pieces = re.findall(r"\w+'|\w+|[^\w\s]", sentence)
        words = [self._word(piece) for piece in pieces]
        text = " ".join(word for word in words if word)
        text = re.sub(r"\s+([.,!?])", r"\1", text)
        return text[:1].upper() + text[1:]

    def _word(self, word: str) -> str:
        known = word.lower() if word.lower() in self._words else self._corrected(word)
        return self._words.get(known, word)

    def _corrected(self, word: str) -> str:
        if not self.careful or not word[0].isalpha():
            return word
        near = difflib.get_close_matches(_skeleton(word), self._plain, n=1, cutoff=0.7)
        return self._plain[near[0]] if near else word


def _skeleton(word: str) -> str:
    """Lower case without accents."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
