"""Verb pairs from a lexicon in UniMorph's format: ``lemma<TAB>form<TAB>features``, such as ``V;IND;PRS;3;SG``.

UniMorph (Sylak-Glassman 2016; Batsuren et al. 2022) has such lexicons for more than 150 languages. Its files write the
same features in several ways, all of which are read here: flat (``V;IND;PRS;3;SG``), nested (``V;IND;PRS;NOM(3,SG)``,
the files called ``.args``), and with a fourth column and ``|`` between some features (``.segmentations``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.syntax.lemmas import Lemma
from lmassay.storage.files import TextFile, open_text

SINGULAR = "V;IND;PRS;3;SG"
PLURAL = "V;IND;PRS;3;PL"
"""The default forms: third person, present, indicative."""

# Many lexicons do not mark the mood where a language has only one, or the person where all persons have the same form
# (Dutch plurals, Hebrew participles). A row without such a feature matches any.
_MOODS = frozenset({"IND", "SBJV", "IMP", "COND", "OPT", "POT", "SIM", "ADM", "DEB", "OBLIG", "PERM", "PURP", "LKLY"})
_PERSONS = frozenset({"0", "1", "2", "3", "4"})
_OFTEN_UNMARKED = (_MOODS, _PERSONS)
_NON_FINITE = frozenset({"NFIN", "V.PTCP", "V.CVB", "V.MSDR"})
_GENDERS = frozenset({"MASC", "FEM", "NEUT"})
_NUMBERS = frozenset({"SG", "PL"})
_THIRD_PERSON = "3"
_IMPERATIVE = "IMP"
# NOM(3,SG) is the agreement with the subject. Other arguments, such as ACC(1,PL), say nothing about it.
_SUBJECT = re.compile(r"NOM\(([^()]*)\)")
_OTHER_ARGUMENT = re.compile(r"[A-Z.]+\([^()]*\)")
_BETWEEN_FEATURES = re.compile(r"[;|,/+{}\s]+")
_MIN_COLUMNS = 3

# Why a verb is dropped.
SEVERAL_WORDS = "forms of several words"
BOTH_NUMBERS = "forms that are both singular and plural"
ONE_SIDE = "verbs with only one of the two forms"
OTHER_SPELLINGS = "further spellings of a form"


@dataclass(frozen=True, slots=True)
class LexiconRow:
    """One form of a lemma with its features."""

    lemma: str
    form: str
    features: frozenset[str]

    @property
    def is_finite(self) -> bool:
        """Whether it is a form that agrees with a subject, as far as the features say."""
        return not self.features & _NON_FINITE


@dataclass(slots=True)
class LexiconVerbs:
    """The verb pairs of a lexicon, and what was dropped: reason → forms or lemmas."""

    pairs: dict[Lemma, None] = field(default_factory=dict)
    """The pairs in the order of the lexicon; a dictionary, because two lemmas may have the same forms."""
    dropped: dict[str, list[str]] = field(default_factory=dict)
    genders: set[str] = field(default_factory=set)
    """The genders that the pairs have."""

    @property
    def lemmas(self) -> list[Lemma]:
        """The pairs as a verb list has them."""
        return list(self.pairs)

    def drop(self, reason: str, form_or_lemma: str) -> None:
        """Record a form or a lemma that cannot be used."""
        self.dropped.setdefault(reason, []).append(form_or_lemma)


def features_of(text: str) -> frozenset[str]:
    """Return the features of a row or of a bundle that a user asks for.

    >>> sorted(features_of("V;IND;PRS;NOM(3,SG)")) == sorted(features_of("v;ind;prs;3;sg"))
    True
    """
    flat = _SUBJECT.sub(r"\1", text.upper())
    arguments = _OTHER_ARGUMENT.findall(flat)
    simple = _OTHER_ARGUMENT.sub("", flat)
    names = {name for name in _BETWEEN_FEATURES.split(simple) if name}
    return frozenset(names | set(arguments))


def matches(row: LexiconRow, wanted: frozenset[str]) -> bool:
    """Return True if a row has all wanted features; a mood or person that the lexicon leaves unmarked is not missing.

    >>> row = LexiconRow("lopen", "lopen", features_of("V;IND;PRS;PL"))
    >>> matches(row, features_of("V;IND;PRS;3;PL")), matches(row, features_of("V;SBJV;PRS;3;PL"))
    (True, False)
    """
    if not row.is_finite and not wanted & _NON_FINITE:
        return False
    required = wanted
    for dimension in _OFTEN_UNMARKED:
        if not row.features & dimension:
            required = required - dimension
    return required <= row.features


def is_lexicon(file: TextFile) -> bool:
    """Return True if the first line with text has the three columns of a lexicon."""
    for line in file.read():
        if line.strip():
            return line.count("\t") >= _MIN_COLUMNS - 1
    return False


def read_lexicon(file: TextFile) -> Iterator[LexiconRow]:
    """Yield the rows of a lexicon. Empty lines separate lemmas in some files and are skipped."""
    for number, line in enumerate(file.read(), 1):
        if not line.strip():
            continue
        # Some files have further columns, for example the morphemes of the form.
        columns = line.rstrip("\r\n").split("\t")
        if len(columns) < _MIN_COLUMNS or not all(column.strip() for column in columns[:_MIN_COLUMNS]):
            raise DataError(
                f"{file.name}, line {number}: a row must be lemma, form and features with tabs between them, such as "
                f"gehen, geht, {SINGULAR}"
            )
        # Accents may be composed or decomposed, and words are compared as text.
        normalized = [unicodedata.normalize("NFC", column.strip()) for column in columns[:_MIN_COLUMNS]]
        lemma, form, features = normalized
        yield LexiconRow(lemma, form, features_of(features))


def verbs_of_lexicon(file: Path | TextFile, singular: str = SINGULAR, plural: str = PLURAL) -> LexiconVerbs:
    """Return the pairs of a singular and a plural form that a lexicon has.

    ``singular`` and ``plural`` are the features of the two forms. Two forms are a pair if they belong to the same lemma
    and agree in all other features, such as gender or aspect.
    """
    wanted_singular = _wanted(singular, "--singular")
    wanted_plural = _wanted(plural, "--plural")
    if wanted_singular == wanted_plural:
        raise DataError(f"--singular and --plural are both {singular}; they must differ, for example in SG and PL")
    numbers_of_form: dict[str, set[str]] = {}
    # (lemma, further features) → forms; a dictionary keeps the order of the lexicon.
    singular_forms: dict[tuple[str, frozenset[str]], list[str]] = {}
    plural_forms: dict[tuple[str, frozenset[str]], list[str]] = {}
    has_rows = False
    if isinstance(file, Path):
        file = open_text(file, "lexicon")
    for row in read_lexicon(file):
        has_rows = True
        _record_number(row, numbers_of_form)
        if matches(row, wanted_singular):
            _add(singular_forms, row, wanted_singular)
        if matches(row, wanted_plural):
            _add(plural_forms, row, wanted_plural)
    if not has_rows:
        raise DataError(f"{file.name} is empty; a lexicon has rows of lemma, form and features")
    verbs = LexiconVerbs()
    for key, forms in singular_forms.items():
        _add_pair(verbs, key, forms, plural_forms.pop(key, []), numbers_of_form)
    for lemma, _ in plural_forms:
        verbs.drop(ONE_SIDE, lemma)
    if not verbs.pairs:
        raise DataError(
            f"{file.name} has no verb with the forms {singular} and {plural}{_what_was_dropped(verbs)}; choose the "
            "features that this lexicon has with --singular and --plural"
        )
    return verbs


def _wanted(bundle: str, option: str) -> frozenset[str]:
    wanted = features_of(bundle)
    if not wanted:
        raise DataError(f"{option}: no feature is given; write features such as {SINGULAR}")
    return wanted


def _record_number(row: LexiconRow, numbers_of_form: dict[str, set[str]]) -> None:
    """Remember the number that a form has with a subject of the third person, in any tense."""
    # An imperative has no such subject, and many lexicons leave its person unmarked.
    if not row.is_finite or "V" not in row.features or _IMPERATIVE in row.features:
        return
    persons = row.features & _PERSONS
    if persons and _THIRD_PERSON not in persons:
        return
    for number in row.features & _NUMBERS:
        numbers_of_form.setdefault(row.form, set()).add(number)


def _add(forms: dict[tuple[str, frozenset[str]], list[str]], row: LexiconRow, wanted: frozenset[str]) -> None:
    # A lexicon may mark the mood in one number only; the two forms are still a pair.
    other_features = row.features - wanted - _MOODS - _PERSONS - _NUMBERS
    of_lemma = forms.setdefault((row.lemma, other_features), [])
    if row.form not in of_lemma:
        of_lemma.append(row.form)


def _add_pair(
    verbs: LexiconVerbs,
    key: tuple[str, frozenset[str]],
    singular_forms: list[str],
    plural_forms: list[str],
    numbers_of_form: dict[str, set[str]],
) -> None:
    """Add the pair of a lemma, or count why it is dropped."""
    lemma, other_features = key
    one_word_singular = _single_words(verbs, singular_forms)
    one_word_plural = _single_words(verbs, plural_forms)
    if not one_word_singular or not one_word_plural:
        # If it has plural forms, they were of several words and are counted as such already.
        if not plural_forms:
            verbs.drop(ONE_SIDE, lemma)
        return
    # Other spellings of the same form (French paie and paye) would count the verb twice, so the first one is used.
    for form in one_word_singular[1:] + one_word_plural[1:]:
        verbs.drop(OTHER_SPELLINGS, form)
    pair = Lemma(one_word_singular[0], one_word_plural[0])
    for form in dict.fromkeys((pair.singular, pair.plural)):
        if pair.singular == pair.plural or len(numbers_of_form.get(form, ())) > 1:
            verbs.drop(BOTH_NUMBERS, form)
            return
    verbs.pairs[pair] = None
    verbs.genders |= other_features & _GENDERS


def _single_words(verbs: LexiconVerbs, forms: Iterable[str]) -> list[str]:
    """Return the forms that are single words. Separable and reflexive verbs have others (*kommt an*, *se lave*)."""
    single_words = []
    for form in forms:
        if len(form.split()) == 1:
            single_words.append(form)
        else:
            verbs.drop(SEVERAL_WORDS, form)
    return single_words


def _what_was_dropped(verbs: LexiconVerbs) -> str:
    if not verbs.dropped:
        return ""
    counts = [f"{len(dropped)} {reason}" for reason, dropped in verbs.dropped.items()]
    return f" (dropped: {', '.join(counts)})"
