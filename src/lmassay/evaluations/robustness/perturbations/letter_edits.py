"""Perturbations of letters: ``charswap``, ``delete``, ``insert``, ``case``, ``diacritics`` and ``homoglyph``."""

from __future__ import annotations

import random
import string
import unicodedata
from collections.abc import Iterable
from typing import Literal

import regex  # type: ignore[import-untyped,unused-ignore]

from lmassay.evaluations.robustness.perturbations import hangul
from lmassay.evaluations.robustness.perturbations.base import one_of
from lmassay.evaluations.robustness.perturbations.graphemes import Units, WordEdit, composed, edit_words, graphemes
from lmassay.evaluations.robustness.perturbations.keyboards import Layout, neighbours

# The letters that ``insert`` may add after a letter that is not on the keyboard layout.
_ALPHABETS = {
    "Latin": "abcdefghijklmnopqrstuvwxyz",
    "Greek": "αβγδεζηθικλμνξοπρστυφχψω",
    "Cyrillic": "абвгдежзийклмнопрстуфхцчшщыэюя",
    "Hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
}
_SCRIPTS = {name: regex.compile(rf"\p{{Script={name}}}") for name in _ALPHABETS}


def charswap(text: str, rng: random.Random, rate: float) -> str:
    """Swap two adjacent letters inside a word; its first and last letter stay.

    TEAPOT's paper attacks with such swaps, but chooses the words by a gradient; here they are chosen at random.

    A word is eligible if it has at least four letters (in Korean: syllables) and two unequal neighbours between the
    first and the last. Each eligible word is changed with the probability ``rate``, independently of the others, by
    one swap. Words that are not eligible stay as they are.

    >>> charswap("A wonderful noon, isn't it?", random.Random(0), 1)
    "A wondreful noon, isn't it?"
    """
    return edit_words(text, rng, rate, _swaps)


def delete(text: str, rng: random.Random, rate: float) -> str:
    """Leave out one letter of each chosen word, chosen with the probability ``rate``; no word disappears.

    A Korean syllable loses a stroke (한 → 하, 과 → 고). A whole syllable is left out only if no syllable can lose a
    stroke.

    >>> delete("Leave me out", random.Random(0), 1)
    'Leae m ut'
    """
    return edit_words(text, rng, rate, _losses)


def insert(
    text: str,
    rng: random.Random,
    rate: float,
    *,
    mode: Literal["both", "double", "add"] = "both",
    layout: Layout = "qwerty",
) -> str:
    """Type a letter of each chosen word twice, or add another after it; words are chosen with the probability ``rate``.

    The added letter is on a neighbouring key or, if the layout does not have the letter, from the same alphabet (Latin,
    Greek, Cyrillic, Hebrew or Arabic). In scripts with neither, letters are doubled in every mode. A Korean syllable
    gets a final consonant: the initial of the next syllable (``double``: 하나 → 한나), or any (``add``). Modes:
    ``double``, ``add``, ``both``.

    >>> insert("One more letter", random.Random(0), 1)
    'Onje mkore lettter'
    """
    one_of("mode", mode, ("both", "double", "add"))
    table = neighbours(layout)

    def propose(word: Units) -> list[WordEdit]:
        edits = []
        if mode != "add":
            edits += _doubled(word)
        if mode != "double":
            edits += _added(word, table)
        if edits:
            return edits
        # Nothing else is possible: no syllable of the word can take a final consonant, or with ``add``, there is no
        # letter to add. So a letter or a whole syllable is typed twice.
        return [WordEdit(i, i + 1, [(unit, unit)]) for i, unit in enumerate(word)]

    return edit_words(text, rng, rate, propose)


def case(text: str, rng: random.Random, rate: float, *, letters: Literal["all", "one"] = "all") -> str:
    """Flip upper and lower case in each chosen word, chosen with the probability ``rate``.

    ``letters="all"`` flips the whole word, ``"one"`` a single letter. Letters whose other case is not a single letter
    (ß) stay.

    >>> case("Shout at me", random.Random(0), 1)
    'sHOUT AT ME'
    """
    one_of("letters", letters, ("all", "one"))

    def propose(word: Units) -> list[WordEdit]:
        flipped = tuple(_flipped(unit) for unit in word)
        if letters == "all":
            return [WordEdit(0, len(word), [flipped])]
        edits = []
        for index, unit in enumerate(flipped):
            # A letter without another case would be replaced by itself.
            if unit != word[index]:
                edits.append(WordEdit(index, index + 1, [(unit,)]))
        return edits

    return edit_words(text, rng, rate, propose)


def _swaps(word: Units) -> list[WordEdit]:
    """Edits that swap two unequal neighbours inside a word."""
    edits = []
    # The first and the last letter stay, as in TEAPOT: people read such words easily.
    for left in range(1, len(word) - 2):
        right = left + 1
        if word[left] != word[right]:
            swapped = (word[right], word[left])
            edits.append(WordEdit(left, right + 1, [swapped]))
    return edits


def _losses(word: Units) -> list[WordEdit]:
    """Edits that leave out a letter, or a stroke of a syllable."""
    edits = []
    # Leaving out a whole syllable is the last resort.
    whole_syllables = []
    for i, unit in enumerate(word):
        letter = composed(unit)
        if not hangul.is_syllable(letter):
            edits.append(WordEdit(i, i + 1, [()]))
            continue
        shorter = hangul.shorter(letter)
        if shorter:
            edits.append(WordEdit(i, i + 1, _single_units(shorter)))
        else:
            whole_syllables.append(WordEdit(i, i + 1, [()]))
    edits = edits or whole_syllables
    if len(word) > 1:
        return edits
    # A word of one grapheme must not disappear.
    return [edit for edit in edits if edit.choices != [()]]


def _doubled(word: Units) -> list[WordEdit]:
    """Edits that type a letter twice; in Korean, the initial of the next syllable becomes a final consonant."""
    edits = []
    for i, unit in enumerate(word):
        letter = composed(unit)
        if not hangul.is_syllable(letter):
            edits.append(WordEdit(i, i + 1, [(unit, unit)]))
            continue
        after = composed(word[i + 1]) if i + 1 < len(word) else ""
        if hangul.is_syllable(after):
            longer = hangul.longer(letter, hangul.initial_of(after))
            if longer:
                edits.append(WordEdit(i, i + 1, _single_units(longer)))
    return edits


def _added(word: Units, table: dict[str, str]) -> list[WordEdit]:
    """Edits that add a letter after another; ``table`` has the letters on neighbouring keys."""
    edits = []
    for i, unit in enumerate(word):
        letter = composed(unit)
        if hangul.is_syllable(letter):
            choices = _single_units(hangul.longer(letter))
        else:
            choices = [(unit, other) for other in table.get(letter) or _alphabet(letter)]
        if choices:
            edits.append(WordEdit(i, i + 1, choices))
    return edits


def _single_units(graphemes: Iterable[str]) -> list[Units]:
    """Turn graphemes into the choices of an edit, each of which is a sequence of one grapheme."""
    return [(grapheme,) for grapheme in graphemes]


def _alphabet(letter: str) -> str:
    """The alphabet of a letter, in its case; empty for scripts that are not listed."""
    for name, script in _SCRIPTS.items():
        if script.match(letter):
            alphabet = _ALPHABETS[name]
            if letter[0].isupper():
                return alphabet.upper()
            return alphabet
    return ""


def _flipped(unit: str) -> str:
    """A grapheme in the other case, or as it is if it has none."""
    other = unit[0].swapcase()
    if len(other) != 1 or other == unit[0]:
        return unit
    return composed(other + unit[1:])


# --- diacritics: leave accents out, or add one ------------------------------------------------------------------------

_GRAVE, _ACUTE, _CIRCUMFLEX, _TILDE, _DIAERESIS = "\u0300", "\u0301", "\u0302", "\u0303", "\u0308"
_ACCENTS_TO_ADD = (_GRAVE, _ACUTE, _CIRCUMFLEX, _TILDE, _DIAERESIS)
# Only this block: the marks of Arabic, Hebrew, Japanese and Indic writing are not accents, and stay.
_ACCENTS = regex.compile(r"[\u0300-\u036F]")
# Letters with a stroke, which Unicode does not decompose into a letter and an accent.
_STROKED = str.maketrans("ØøŁłĐđĦħŦŧ", "OoLlDdHhTt")
_BEARS_ACCENTS = regex.compile(r"[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}]")


def diacritics(text: str, rng: random.Random, rate: float, *, mode: Literal["both", "strip", "add"] = "both") -> str:
    """Change the accents of each chosen word, chosen with the probability ``rate``.

    ``strip`` removes all accents of words that have some. ``add`` puts one on a letter that has none (Latin, Greek,
    Cyrillic; preferably on a letter that Unicode has with an accent). ``both`` strips if it can, and adds otherwise.

    >>> diacritics("Élève modèle", random.Random(0), 1, mode="strip")
    'Eleve modele'
    >>> diacritics("plain", random.Random(0), 1)
    'plaîn'
    """
    one_of("mode", mode, ("both", "strip", "add"))

    def propose(word: Units) -> list[WordEdit]:
        edits: list[WordEdit] = []
        if mode != "add":
            edits = _stripped(word)
        if not edits and mode != "strip":
            edits = _accented(word)
        return edits

    return edit_words(text, rng, rate, propose)


def _stripped(word: Units) -> list[WordEdit]:
    """The edit that removes all accents of a word, if it has some."""
    bare = tuple(_bare(unit) for unit in word)
    if bare == tuple(composed(unit) for unit in word):
        return []
    return [WordEdit(0, len(word), [bare])]


def _bare(unit: str) -> str:
    """A grapheme without accents."""
    decomposed = unicodedata.normalize("NFD", unit)
    return composed(_ACCENTS.sub("", decomposed).translate(_STROKED))


def _accented(word: Units) -> list[WordEdit]:
    """Edits that add an accent to a letter without one."""
    with_composed = []
    with_combining = []
    for i, unit in enumerate(word):
        has_accent = _bare(unit) != composed(unit)
        if has_accent or not _BEARS_ACCENTS.match(unit):
            continue
        accented = [composed(unit[0] + accent + unit[1:]) for accent in _ACCENTS_TO_ADD]
        with_combining.append(WordEdit(i, i + 1, _single_units(accented)))
        # Letters that Unicode has with this accent look natural, and are preferred.
        single_letters = [letter for letter in accented if len(letter) == 1]
        if single_letters:
            with_composed.append(WordEdit(i, i + 1, _single_units(single_letters)))
    return with_composed or with_combining


# --- homoglyph: different letters that look the same ------------------------------------------------------------------

# Groups of Latin, Greek and Cyrillic letters of the same shape. `plain` replaces each with the first letter of its
# group. No letter is in two groups.
_SAME_SHAPE = (
    "aа cсϲ dԁ eе hһ iі jј lӏ oоο pрρ qԛ sѕ uυ vνѵ wԝ xх yу "
    "AАΑ BВΒ CСϹ EЕΕ GԌ HНΗ IІΙ JЈͿ KКΚ MМΜ NΝ OОΟ PРΡ QԚ SЅ TТΤ VѴ WԜ XХΧ YΥҮ ZΖ "
    "ГΓ ПΠ ФΦ"
)
# The distance of a Latin letter to its full-width form.
_TO_FULL_WIDTH = 0xFEE0


def _groups(kind: str) -> list[str]:
    """Groups of letters that look the same."""
    groups: dict[str, str] = {}
    if kind != "fullwidth":
        for group in _SAME_SHAPE.split():
            groups[group[0]] = group
    if kind != "script":
        for letter in string.ascii_letters:
            full_width = chr(ord(letter) + _TO_FULL_WIDTH)
            groups[letter] = groups.get(letter, letter) + full_width
    return list(groups.values())


def _lookalikes(kind: str) -> dict[str, str]:
    """Letter → the letters that look the same."""
    table: dict[str, str] = {}
    for group in _groups(kind):
        for letter in group:
            table[letter] = group.replace(letter, "")
    return table


_LOOKALIKES = {kind: _lookalikes(kind) for kind in ("any", "script", "fullwidth")}
_PLAIN = {letter: group[0] for group in _groups("any") for letter in group}


def homoglyph(
    text: str, rng: random.Random, rate: float, *, kind: Literal["any", "script", "fullwidth"] = "any"
) -> str:
    """Replace one letter in each chosen word by one that looks the same; accents stay on.

    A word is eligible if one of its letters has a look-alike; each is chosen with the probability ``rate``. Kinds:
    ``script`` (Latin, Greek, Cyrillic), ``fullwidth`` (the wide Latin letters of East Asian fonts), ``any``.

    >>> homoglyph("Look alike", random.Random(0), 1) == "Look alike"
    False
    >>> plain(homoglyph("Look alike", random.Random(0), 1))
    'Look alike'
    """
    one_of("kind", kind, tuple(_LOOKALIKES))
    table = _LOOKALIKES[kind]

    def propose(word: Units) -> list[WordEdit]:
        edits = []
        for i, unit in enumerate(word):
            base, marks = _split(unit)
            if base in table:
                lookalikes = [composed(other + marks) for other in table[base]]
                edits.append(WordEdit(i, i + 1, _single_units(lookalikes)))
        return edits

    return edit_words(text, rng, rate, propose)


def plain(text: str) -> str:
    """Replace every look-alike with the first letter of its group, which is the Latin one if there is one.

    >>> plain("раураl")
    'paypal'
    """
    units = []
    for unit in graphemes(text):
        base, marks = _split(unit)
        if base in _PLAIN:
            unit = composed(_PLAIN[base] + marks)
        units.append(unit)
    return "".join(units)


def _split(unit: str) -> tuple[str, str]:
    """The base letter of a grapheme, and its marks: 'Ѐ' is a Cyrillic 'Е' with a grave accent."""
    if unit in _PLAIN:
        return unit, ""
    decomposed = unicodedata.normalize("NFD", unit)
    return decomposed[0], decomposed[1:]
