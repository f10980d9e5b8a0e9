r"""The template notation: ``the {subject:Noun} (often) {verb:Verb agrees subject, contrast number}``.

| in a template | stands for |
|---|---|
| ``{Noun}``, ``{subject:Noun}`` | a word of the category Noun; the slot is called Noun, or subject |
| ``{Noun pl}`` | a word of the category Noun whose number (or another feature) has the value ``pl`` |
| ``agrees subject`` | has the same values as the slot ``subject``, in every feature that both have |
| ``agrees subject in number`` | has the same number as the slot ``subject`` |
| ``unlike subject in number`` | has the other number; the feature must have exactly two values |
| ``not subject`` | a different word than the one in ``subject`` |
| ``contrast number`` | the bad sentence has another value here; exactly one slot of a template has a contrast |
| ``head`` | the word by which pairs are clustered; without it, the word that the contrasted slot agrees with |
| ``attractor`` | a word that could be mistaken for the one that the contrasted slot agrees with |
| ``bystander`` | a word that has the contrasted feature but does not distract |
| ``{next to|behind}`` | one of these texts |
| ``{place:next to|behind}`` | one of these texts; each row of the data records which one, in the field ``place`` |
| ``(that)`` | words that may be left out |
| ``\(``, ``\|`` … | the character itself |
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lmassay.errors import did_you_mean
from lmassay.evaluations.syntax.grammar.source import GrammarMistake

KEYWORDS = ("agrees", "unlike", "not", "contrast", "head", "attractor", "bystander")
_SIGNS = "{}()|:\\"
# While a template is parsed, escaped signs are replaced by Unicode noncharacters, which no text contains.
_HIDDEN = {sign: chr(0xFDD0 + number) for number, sign in enumerate(_SIGNS)}
_UNHIDDEN = str.maketrans({hidden: sign for sign, hidden in _HIDDEN.items()})
_PIECE = re.compile(r"\{(?P<slot>[^{}]*)\}|\((?P<optional>[^(){}]*)\)")
_NAME = re.compile(r"\w[\w-]*")


@dataclass(frozen=True, slots=True)
class Tie:
    """``agrees target in feature`` (``same``) or ``unlike target in feature``.

    Without a feature, the tie applies to all features that both words have.
    """

    target: str
    feature: str | None
    same: bool


@dataclass(slots=True)
class ParsedSlot:
    """A slot as it is written; categories are not yet looked up."""

    name: str
    category: str
    values: list[str] = field(default_factory=list)
    ties: list[Tie] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    contrast: str | None = None
    head: bool = False
    attractor: bool = False
    bystander: bool = False


@dataclass(frozen=True, slots=True)
class ParsedChoice:
    """A choice between several texts; if it has a name (``recorded``), the rows record which text was chosen."""

    name: str
    texts: tuple[str, ...]
    recorded: bool


@dataclass(frozen=True, slots=True)
class ParsedTemplate:
    """The texts around the slots (``literals``) and the slots; there is one more text than slots."""

    literals: tuple[str, ...]
    slots: tuple[ParsedSlot | ParsedChoice, ...]


def parse(text: str, values: Mapping[str, str]) -> ParsedTemplate:
    """Parse a template; ``values`` is a dict from every value of a feature, such as ``pl``, to its feature."""
    text = re.sub(r"\\(.?)", _hide_escaped, text, flags=re.DOTALL)
    literals: list[str] = []
    slots: list[ParsedSlot | ParsedChoice] = []
    end = 0
    for match in _PIECE.finditer(text):
        literals.append(text[end : match.start()])
        end = match.end()
        slots.append(_parse_piece(match, len(slots), values))
    literals.append(text[end:])
    # This comes before the escaped signs are restored, because an escaped bracket needs no partner.
    _check_literals(literals)
    _check_names([slot.name for slot in slots])
    texts = [_unhide(literal) for literal in literals]
    return ParsedTemplate(tuple(texts), tuple(slots))


def _parse_piece(match: re.Match[str], number: int, values: Mapping[str, str]) -> ParsedSlot | ParsedChoice:
    """Parse ``{slot}``, ``{a|b}`` or ``(optional)``; choices without a name are named by their position."""
    inside = match["slot"]
    optional = match["optional"]
    if optional is not None:
        if "|" in optional:
            words = _unhide(optional)
            raise GrammarMistake(f"'({words})' has a '|'; for one of these words or none, write {{{words}|}}")
        return _choice(f"#{number}", ("", optional), recorded=False)
    if "|" not in inside:
        return _slot(inside, values)
    name, colon, named_texts = inside.partition(":")
    if colon:
        return _choice(_checked_name(name), named_texts.split("|"), recorded=True)
    return _choice(f"#{number}", inside.split("|"), recorded=False)


def _hide_escaped(match: re.Match[str]) -> str:
    """Return the noncharacter that stands for an escaped sign."""
    if match[1] not in _HIDDEN:
        raise GrammarMistake(f"a '\\' may only precede one of {' '.join(_SIGNS)}; got '{match[0]}'")
    return _HIDDEN[match[1]]


def _unhide(text: str) -> str:
    """Return the text with its escaped signs."""
    return text.translate(_UNHIDDEN)


def _choice(name: str, texts: Collection[str], *, recorded: bool) -> ParsedChoice:
    """Return a choice between texts, without superfluous spaces."""
    clean = tuple(_unhide(" ".join(text.split())) for text in texts)
    if len(set(clean)) < len(clean):
        raise GrammarMistake(f"'{'|'.join(clean)}' offers the same words twice; leave one of them out")
    return ParsedChoice(name, clean, recorded)


def _slot(inside: str, values: Mapping[str, str]) -> ParsedSlot:
    """Parse what is inside the braces of a slot."""
    if _unhide(inside) != inside:
        raise GrammarMistake(f"the slot {{{_unhide(inside)}}} has a '\\'; it may only be used in literal words")
    # Commas are optional: they help readers, but every keyword says where a condition begins.
    opening, *words = inside.replace(",", " ").split() or [""]
    name, colon, category = opening.partition(":")
    if not colon:
        # A slot without a name has that of its category.
        category = name
    slot = ParsedSlot(_checked_name(name), _checked_name(category))
    while words:
        word = words.pop(0)
        if word in ("agrees", "unlike"):
            target = _operand(word, words, "the name of a slot")
            feature = None
            if words[:1] == ["in"]:
                words.pop(0)
                feature = _operand(f"{word} {target} in", words, "a feature")
            slot.ties.append(Tie(target, feature, word == "agrees"))
        elif word == "not":
            slot.different.append(_operand(word, words, "the name of a slot"))
        elif word == "contrast":
            if slot.contrast is not None:
                raise GrammarMistake(f"the slot {{{inside}}} has two contrasts; a pair differs in one feature")
            slot.contrast = _operand(word, words, "a feature")
        elif word == "head":
            slot.head = True
        elif word == "attractor":
            slot.attractor = True
        elif word == "bystander":
            slot.bystander = True
        elif word in values:
            slot.values.append(word)
        else:
            raise GrammarMistake(
                f"the slot {{{inside}}} has '{word}', which is neither a value of a feature nor one of "
                f"{', '.join(KEYWORDS)}{did_you_mean(word, [*KEYWORDS, *values])}"
            )
    return slot


def _operand(keyword: str, words: list[str], expected: str) -> str:
    """Remove and return the word that follows a keyword."""
    if not words or words[0] in KEYWORDS:
        raise GrammarMistake(f"'{keyword}' must be followed by {expected}")
    return words.pop(0)


def _checked_name(name: str) -> str:
    """Return the name of a slot, a choice or a category without spaces around it, if it may be a name."""
    name = _unhide(name.strip())
    if not _NAME.fullmatch(name) or name in KEYWORDS or name == "in":
        raise GrammarMistake(f"'{name}' cannot be the name of a slot; write {{Category}} or {{name:Category …}}")
    return name


def _check_literals(literals: list[str]) -> None:
    """Raise a GrammarMistake if the text between the slots has a sign of the notation."""
    for literal in literals:
        stray = re.search(r"[{}()|]", literal)
        if not stray:
            continue
        place = f"near '{_unhide(literal.strip())}'"
        for_itself = f"for the sign itself, write '\\{stray[0]}'"
        if stray[0] == "|":
            raise GrammarMistake(f"a '|' may only be inside braces: {{a|b}}; there is one {place}; {for_itself}")
        raise GrammarMistake(
            f"there is a '{stray[0]}' without its partner {place}; "
            f"slots are {{…}} and optional words (…); neither may be inside the other; {for_itself}"
        )


def _check_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise GrammarMistake(
                f"two slots are called '{name}'; give one of them another name, e.g. {{second:{name} …}}"
            )
