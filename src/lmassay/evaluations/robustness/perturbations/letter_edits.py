"""Changes of letters: ``charswap``, ``delete``, ``insert``, ``case``, ``diacritics``, ``homoglyph``."""

from __future__ import annotations

import random
import unicodedata
from typing import Literal

import regex  # type: ignore[import-untyped,unused-ignore]

from lmassay.evaluations.robustness.perturbations import hangul
from lmassay.evaluations.robustness.perturbations.base import one_of
from lmassay.evaluations.robustness.perturbations.graphemes import Units, WordEdit, composed, edit_words, graphemes
from lmassay.evaluations.robustness.perturbations.keyboards import Layout, neighbours

# What to add to a letter that is on no key of the layout.
_ALPHABETS = {
    "Latin": "abcdefghijklmnopqrstuvwxyz",
    "Greek": "αβγδεζηθικλμνξοπρστυφχψω",
    "Cyrillic": "абвгдежзийклмнопрстуфхцчшщыэюя",
    "Hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
}
_SCRIPTS = {name: regex.compile(rf"\p{{Script={name}}}") for name in _ALPHABETS}


def charswap(text: str, rng: random.Random, rate: float) -> str:
    """Swap two adjacent letters inside a word; its first and last letter stay (the attack of TEAPOT's paper).

    A word is eligible if it has at least four letters (in Korean: syllables) and two unequal neighbours between the
    first and the last. Each eligible word is changed with the probability ``rate``, independently of the others, by
    one swap. Words that are not eligible stay as they are.

    >>> charswap("A wonderful noon, isn't it?", random.Random(0), 1)
    "A wondreful noon, isn't it?"
    """
    return edit_words(text, rng, rate, _swaps)


def delete(text: str, rng: random.Random, rate: float) -> str:
    """Leave out one letter of each chosen word, chosen with the probability ``rate``; no word vanishes.

    A Korean syllable loses a stroke (한 → 하, 과 → 고); a syllable is left out whole only in words in which none can.

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
    """Type a letter of each chosen word twice, or one more after it; words are chosen with the probability ``rate``.

    What is added is on a neighbouring key, or from the same alphabet if the layout does not have the letter; in
    scripts without an alphabet on file, letters are doubled whatever the mode. A Korean syllable gets a final
    consonant: the one that the next syllable begins with (하나 → 한나), or any. Modes: ``double``, ``add``, ``both``.

    >>> insert("One more letter", random.Random(0), 1)
    'Onje mkore lettter'
    """
    one_of("mode", mode, ("both", "double", "add"))
    table = neighbours(layout)

    def propose(word: Units) -> list[WordEdit]:
        doubled = _doubled(word) if mode != "add" else []
        added = _added(word, table) if mode != "double" else []
        # With only syllables that can take no final consonant, one is typed twice.
        return doubled + added or [WordEdit(i, i + 1, [(unit, unit)]) for i, unit in enumerate(word)]

    return edit_words(text, rng, rate, propose)


def case(text: str, rng: random.Random, rate: float, *, letters: Literal["all", "one"] = "all") -> str:
    """Flip upper and lower case in each chosen word, chosen with the probability ``rate``.

    ``letters="all"`` flips the whole word, ``"one"`` a single letter. Letters whose other case is no single letter
    (ß) stay.

    >>> case("Shout at me", random.Random(0), 1)
    'sHOUT AT ME'
    """
    one_of("letters", letters, ("all", "one"))

    def propose(word: Units) -> list[WordEdit]:
        flipped = tuple(_flipped(unit) for unit in word)
        if letters == "all":
            return [WordEdit(0, len(word), [flipped])]
        return [WordEdit(i, i + 1, [(unit,)]) for i, unit in enumerate(flipped) if unit != word[i]]

    return edit_words(text, rng, rate, propose)


def _swaps(word: Units) -> list[WordEdit]:
    inner = range(1, len(word) - 2)
    return [WordEdit(i, i + 2, [(word[i + 1], word[i])]) for i in inner if word[i] != word[i + 1]]


def _losses(word: Units) -> list[WordEdit]:
    found, syllables = [], []
    for i, unit in enumerate(word):
        letter = composed(unit)
        if not hangul.is_syllable(letter):
            found.append(WordEdit(i, i + 1, [()]))
        elif shorter := hangul.shorter(letter):
            found.append(WordEdit(i, i + 1, [(s,) for s in shorter]))
        else:
            syllables.append(WordEdit(i, i + 1, [()]))
    return [c for c in found or syllables if len(word) > 1 or c.choices != [()]]


def _doubled(word: Units) -> list[WordEdit]:
    found = []
    for i, unit in enumerate(word):
        letter, after = composed(unit), composed(word[i + 1]) if i + 1 < len(word) else ""
        if not hangul.is_syllable(letter):
            found.append(WordEdit(i, i + 1, [(unit, unit)]))
        elif hangul.is_syllable(after) and (longer := hangul.longer(letter, hangul.initial_of(after))):
            found.append(WordEdit(i, i + 1, [(s,) for s in longer]))
    return found


def _added(word: Units, table: dict[str, str]) -> list[WordEdit]:
    found = []
    for i, unit in enumerate(word):
        letter = composed(unit)
        if hangul.is_syllable(letter):
            choices: list[Units] = [(s,) for s in hangul.longer(letter)]
        else:
            choices = [(unit, other) for other in table.get(letter) or _alphabet(letter)]
        if choices:
            found.append(WordEdit(i, i + 1, choices))
    return found


def _alphabet(letter: str) -> str:
    for name, script in _SCRIPTS.items():
        if script.match(letter):
            return _ALPHABETS[name].upper() if letter[0].isupper() else _ALPHABETS[name]
    return ""


def _flipped(unit: str) -> str:
    other = unit[0].swapcase()
    return composed(other + unit[1:]) if len(other) == 1 and other != unit[0] else unit


# --- diacritics: leave accents out, or put one where none belongs -----------------------------------------------------

_GRAVE, _ACUTE, _CIRCUMFLEX, _TILDE, _DIAERESIS = "\u0300", "\u0301", "\u0302", "\u0303", "\u0308"
_TO_ADD = (_GRAVE, _ACUTE, _CIRCUMFLEX, _TILDE, _DIAERESIS)
# Only this block: the marks of Arabic, Hebrew, Japanese or Indic writing are no accents and stay.
_ACCENTS = regex.compile(r"[\u0300-\u036F]")
# Unicode does not take these apart.
_STROKED = str.maketrans("ØøŁłĐđĦħŦŧ", "OoLlDdHhTt")
_BEARS_ACCENTS = regex.compile(r"[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}]")


def diacritics(text: str, rng: random.Random, rate: float, *, mode: Literal["both", "strip", "add"] = "both") -> str:
    """Change the accents of each chosen word, chosen with the probability ``rate``.

    ``strip`` takes all accents off words that have some, ``add`` puts one on a letter without (Latin, Greek, Cyrillic;
    a letter that Unicode has with an accent, if there is one), ``both`` strips where it can and adds elsewhere.

    >>> diacritics("Élève modèle", random.Random(0), 1, mode="strip")
    'Eleve modele'
    >>> diacritics("plain", random.Random(0), 1)
    'plaîn'
    """
    one_of("mode", mode, ("both", "strip", "add"))

    def propose(word: Units) -> list[WordEdit]:
        changes = _stripped(word) if mode != "add" else []
        return changes or (_accented(word) if mode != "strip" else [])

    return edit_words(text, rng, rate, propose)


def _stripped(word: Units) -> list[WordEdit]:
    bare = tuple(_bare(unit) for unit in word)
    return [WordEdit(0, len(word), [bare])] if bare != tuple(composed(unit) for unit in word) else []


def _bare(unit: str) -> str:
    return composed(_ACCENTS.sub("", unicodedata.normalize("NFD", unit)).translate(_STROKED))


def _accented(word: Units) -> list[WordEdit]:
    single, combining = [], []
    for i, unit in enumerate(word):
        if not _BEARS_ACCENTS.match(unit) or _bare(unit) != composed(unit):
            continue
        choices = [composed(unit[0] + accent + unit[1:]) for accent in _TO_ADD]
        combining.append(WordEdit(i, i + 1, [(c,) for c in choices]))
        if short := [(c,) for c in choices if len(c) == 1]:
            single.append(WordEdit(i, i + 1, short))
    return single or combining


# --- homoglyph: letters that look the same and are not; the table can be read both ways -------------------------------

# Latin, Greek and Cyrillic letters of one shape; the first is what `plain` gives back. No letter is in two groups.
_SAME_SHAPE = (
    "aа cсϲ dԁ eе hһ iі jј lӏ oоο pрρ qԛ sѕ uυ vνѵ wԝ xх yу "
    "AАΑ BВΒ CСϹ EЕΕ GԌ HНΗ IІΙ JЈͿ KКΚ MМΜ NΝ OОΟ PРΡ QԚ SЅ TТΤ VѴ WԜ XХΧ YΥҮ ZΖ "
    "ГΓ ПΠ ФΦ"
)
_TO_FULL_WIDTH = 0xFEE0


def _groups(kind: str) -> list[str]:
    latin = [chr(code) for start in "aA" for code in range(ord(start), ord(start) + 26)]
    groups = {group[0]: group for group in _SAME_SHAPE.split()} if kind != "fullwidth" else {}
    if kind != "script":
        groups |= {letter: groups.get(letter, letter) + chr(ord(letter) + _TO_FULL_WIDTH) for letter in latin}
    return list(groups.values())


_LOOKALIKES = {
    kind: {letter: group.replace(letter, "") for group in _groups(kind) for letter in group}
    for kind in ("any", "script", "fullwidth")
}
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
        found = []
        for i, unit in enumerate(word):
            base, marks = _split(unit)
            if base in table:
                found.append(WordEdit(i, i + 1, [(composed(other + marks),) for other in table[base]]))
        return found

    return edit_words(text, rng, rate, propose)


def plain(text: str) -> str:
    """Every look-alike as the first letter of its group, which is the Latin one where there is one.

    >>> plain("раураl")
    'paypal'
    """
    units = []
    for unit in graphemes(text):
        base, marks = _split(unit)
        units.append(composed(_PLAIN[base] + marks) if base in _PLAIN else unit)
    return "".join(units)


def _split(unit: str) -> tuple[str, str]:
    """The letter that a grapheme is built on, and its marks. 'Ѐ' is a Cyrillic 'Е' with one."""
    if unit in _PLAIN:
        return unit, ""
    apart = unicodedata.normalize("NFD", unit)
    return apart[0], apart[1:]
