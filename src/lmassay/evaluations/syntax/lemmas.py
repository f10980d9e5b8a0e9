"""The verbs that the metrics EW (equally weighted) and MW (model-weighted) ask about.

A verb is a pair of third-person forms, read from a CSV file or built from a base form.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from lmassay.errors import DataError, did_you_mean
from lmassay.evaluations.syntax.english_spelling import VERB_ENDINGS_WITH_ES, with_s
from lmassay.storage.files import open_text

_COLUMNS = ("idx", "sing", "plur", "freq")
_IRREGULAR = {"be": ("is", "are"), "have": ("has", "have"), "do": ("does", "do"), "go": ("goes", "go")}
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")


@dataclass(frozen=True, slots=True)
class Lemma:
    """The singular and the plural form of a verb, such as *is* and *are*; *was* and *were* are a separate lemma."""

    singular: str
    plural: str


@dataclass(frozen=True, slots=True)
class VerbList:
    """Lemmas in the order of their file.

    ``indices`` has one value of the column ``idx`` per lemma; they are empty strings if the column is missing.
    ``duplicates`` is the number of rows that repeat an earlier lemma.
    """

    name: str
    sha256: str
    lemmas: Sequence[Lemma]
    indices: Sequence[str]
    duplicates: int

    @property
    def forms(self) -> list[str]:
        """All different forms, in the order of the lemmas."""
        forms: dict[str, None] = {}
        for lemma in self.lemmas:
            forms[lemma.singular] = None
            forms[lemma.plural] = None
        return list(forms)


NO_VERBS = VerbList("none", "", (), (), 0)
"""An empty verb list: only TSE (targeted syntactic evaluation of the two given verbs) is computed, not EW and MW."""


def read_verbs(path: Path) -> VerbList:
    """Read a verb list with the columns ``sing`` and ``plur``; ``idx`` matters only with ``compat: released``."""
    file = open_text(path, "verb list")
    rows = csv.reader(file.read())
    try:
        return _read(path, file.sha256, rows)
    except csv.Error as error:
        raise DataError(f"{path}, line {rows.line_num}: {error}") from None


def _read(path: Path, sha256: str, rows: Any) -> VerbList:
    header = [name.strip() for name in next(rows, [])]
    missing = [name for name in ("sing", "plur") if name not in header]
    if missing:
        hint = did_you_mean(missing[0], header)
        raise DataError(
            f"{path}, line 1: the column '{missing[0]}' is missing{hint}; "
            "name the columns sing and plur, separated by commas"
        )
    singular_column = header.index("sing")
    plural_column = header.index("plur")
    index_column = header.index("idx") if "idx" in header else None
    duplicates = 0
    # The values of the column idx; the lemmas are in the order of the file.
    index_of_lemma: dict[Lemma, str] = {}
    for row in rows:
        if not row:
            continue
        if len(row) != len(header):
            raise DataError(f"{path}, line {rows.line_num}: {len(row)} cells, but the header has {len(header)}")
        lemma = Lemma(row[singular_column].strip(), row[plural_column].strip())
        # A form with a space would be two words, which cannot fill one blank.
        if len(lemma.singular.split()) != 1 or len(lemma.plural.split()) != 1:
            raise DataError(f"{path}, line {rows.line_num}: each form must be a single word; got {row!r}")
        if lemma.singular == lemma.plural:
            raise DataError(
                f"{path}, line {rows.line_num}: both forms are '{lemma.singular}', "
                "so they cannot distinguish singular from plural"
            )
        if lemma in index_of_lemma:
            duplicates += 1
        index = ""
        if index_column is not None:
            index = row[index_column].strip()
        # If a verb is listed twice, its last index counts.
        index_of_lemma[lemma] = index
    if not index_of_lemma:
        raise DataError(f"{path} lists no verbs; give at least one row under the header")
    return VerbList(path.name, sha256, list(index_of_lemma), list(index_of_lemma.values()), duplicates)


def shipped_verbs() -> Path:
    """Return the list that comes with lmassay."""
    return Path(str(files("lmassay.evaluations.syntax").joinpath("verbs/english.csv")))


def conjugate(base: str) -> Lemma:
    """Return the third-person forms of an English verb.

    >>> conjugate("carry")
    Lemma(singular='carries', plural='carry')
    """
    if base in _IRREGULAR:
        return Lemma(*_IRREGULAR[base])
    return Lemma(with_s(base, VERB_ENDINGS_WITH_ES), base)


def build_verb_list(bases: Iterable[str], existing: Sequence[Lemma] = ()) -> str:
    """Return a verb list as CSV text: base forms conjugated and joined with ``existing``, sorted and numbered.

    refining-tse's own list has no numbers in the column idx, which is why its program counts only one lemma.
    """
    lemmas = set(existing)
    for base in bases:
        word = base.strip().lower()
        if _WORD.fullmatch(word) is None:
            raise DataError(f"'{base}' cannot be a base form: use the letters a to z and hyphens, such as fine-tune")
        lemmas.add(conjugate(word))
        if word == "be":
            lemmas.add(Lemma("was", "were"))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    # By plural form, so that the same verbs always give the same file.
    ordered = sorted(lemmas, key=lambda lemma: (lemma.plural, lemma.singular))
    for number, lemma in enumerate(ordered):
        # The columns are those of refining-tse's list. Frequencies are unknown here.
        writer.writerow((number, lemma.singular, lemma.plural, "_"))
    return text.getvalue()
