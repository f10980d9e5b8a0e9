"""Where an answer names a choice: by its letter, by its text, or by saying in other words that it cannot be known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from lmassay.answers import patterns
from lmassay.answers.plain_text import lower, tidy

_ARTICLE = re.compile(r"(?:the|an?) (?=\w)")
_LABELLED = re.compile(r"[)\]\"'* ]{0,4}[:.)][ \"'*]{0,4}(?:the |an? )?([^\s].{0,80})$")
_NAMED = re.compile(f" {patterns.TEXT}+")
_NEXT_WORD = re.compile(r" ([a-z0-9][a-z0-9'-]{0,40})")
_LONGEST_NAME = 16
_MARK = re.compile(r"\b(?:got|gets?|earn(?:s|ed)|received|scored|gave|gives?)(?: [a-z]+)? an? $")
_OPEN, _CLOSE = "([{<\"'*_", ")]}>\"'*_"


@dataclass(frozen=True, slots=True)
class Mention:
    """A place in a line that names a choice; more than one where several choices have the same text."""

    start: int
    end: int
    letters: str
    by: Literal["letter", "text", "unknown"]


@dataclass(frozen=True, slots=True)
class ChoiceLookup:
    """The choices of a question as they are looked for: lower-case, the longest first."""

    letters: str
    texts: Sequence[tuple[str, str]]
    """(text, its letters)"""
    exact: dict[str, str]
    """text → its letters, also with all blanks left out"""
    unknown: str
    """The letter of the only choice that says that it cannot be known, or nothing."""
    unknown_words: tuple[re.Pattern[str], ...]
    letter: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class MaskedLine:
    """A line with its mentions masked: places are those of the line."""

    low: str
    mentions: Sequence[Mention]


@lru_cache(maxsize=1 << 15)
def look_for(choices: tuple[str, ...], letters: str) -> ChoiceLookup:
    """Prepare the choices of a question."""
    letters = letters[: len(choices)]
    written = [_normal(choice) for choice in choices]
    bare = [_ARTICLE.sub("", text, count=1) if _ARTICLE.match(text) else text for text in written]
    if len(set(bare)) < len(set(written)):
        bare = written
    by_text: dict[str, str] = {}
    for text, letter in zip(bare, letters, strict=False):
        # A choice whose text is itself a letter cannot be told from the letter.
        if text and not (len(text) == 1 and text.upper() in letters):
            by_text[text] = by_text.get(text, "") + letter
    exact: dict[str, str] = {}
    for text, full, letter in zip(bare, written, letters, strict=False):
        if text in by_text:
            for form in {text, full, text.replace(" ", ""), full.replace(" ", "")}:
                exact[form] = exact.get(form, "") + letter
    unknown, unknown_words = _unknown(bare, letters)
    some = re.escape(f"{letters}{letters.lower()}")
    return ChoiceLookup(
        letters,
        sorted(by_text.items(), key=lambda entry: -len(entry[0])),
        exact,
        unknown,
        unknown_words,
        re.compile(rf"(?<![A-Za-z0-9])([{some}])(?![A-Za-z0-9])" if some else r"(?!)"),
    )


def find(line: str, choices: ChoiceLookup) -> MaskedLine:
    """The mentions in a line, in their order."""
    low = lower(line)
    mentions: list[Mention] = []
    for text, letters in choices.texts:
        if text in low:
            low = _mask(low, [Mention(*span, letters, "text") for span in _texts(low, text)], mentions)
    for pattern in choices.unknown_words if patterns.UNKNOWN_HINT.search(low) else ():
        found = [Mention(*match.span(), choices.unknown, "unknown") for match in pattern.finditer(low)]
        low = _mask(low, found, mentions)
    if "/" in low:
        low = patterns.NOT_APPLICABLE.sub(lambda match: "-" * len(match[0]), low)
    singles = [
        match
        for match in choices.letter.finditer(line)
        if low[match.start()] == match[1].lower() and _is_letter(line, low, match.start())
    ]
    low = _mask(low, [Mention(*match.span(), match[1].upper(), "letter") for match in singles], mentions)
    mentions.sort(key=lambda mention: mention.start)
    if mentions and mentions[-1].by == "letter":
        low = _cut_off(low, choices, mentions)
    return MaskedLine(low, mentions)


def _cut_off(low: str, choices: ChoiceLookup, mentions: list[Mention]) -> str:
    """An answer of bounded length may end within the text of a choice: ``B: 알 ``."""
    found = _LABELLED.match(low, mentions[-1].end)
    if found is None:
        return low
    named = "".join(letters for text, letters in choices.texts if text.startswith(found[1]))
    own = mentions[-1].letters
    return _mask(low, [Mention(*found.span(1), own if own in named else named, "text")], mentions) if named else low


def _normal(choice: str) -> str:
    return " ".join(lower(tidy(choice)).split()).strip(" .!?,;:\"'")


def _unknown(texts: Sequence[str], letters: str) -> tuple[str, tuple[re.Pattern[str], ...]]:
    wordings = (patterns.CANNOT_BE_KNOWN, patterns.IS_NOT_KNOWN_TO_ME, patterns.CANNOT_BE_ANSWERED)
    kinds = {letter: [p for p in wordings if p.search(text)] for text, letter in zip(texts, letters, strict=False)}
    found = [letter for letter, kind in kinds.items() if kind]
    if len(found) != 1:
        return "", ()
    return found[0], tuple(dict.fromkeys([patterns.CANNOT_BE_KNOWN, *kinds[found[0]]]))


def _mask(low: str, found: Sequence[Mention], mentions: list[Mention]) -> str:
    """The line with these mentions masked; they are added to the others."""
    if not found:
        return low
    pieces, place = [], 0
    for mention in found:
        mask = patterns.LETTER if mention.by == "letter" else patterns.TEXT
        pieces += [low[place : mention.start], mask * (mention.end - mention.start)]
        place = mention.end
    mentions += found
    return "".join([*pieces, low[place:]])


def _texts(low: str, text: str) -> list[tuple[int, int]]:
    spans = []
    start = low.find(text)
    while start >= 0:
        end = start + len(text)
        if _begins(low, start, text[0]) and _ends(low, end, text[-1]):
            spans.append((start, end))
        else:
            end = start + 1
        start = low.find(text, end)
    return spans


def _latin(character: str) -> bool:
    return "a" <= character <= "z" or "0" <= character <= "9"


def _hangul(character: str) -> bool:
    return "가" <= character <= "힣"


def _begins(low: str, start: int, first: str) -> bool:
    before = low[start - 1] if start else " "
    if _latin(before):
        return not _latin(first) and not _hangul(first)
    # 정규직 is not named in 비정규직.
    return not (_hangul(before) and _hangul(first)) or low.endswith(patterns.RUN_ON, 0, start)


def _ends(low: str, end: int, last: str) -> bool:
    after = low[end] if end < len(low) else " "
    if _latin(after):
        return not _latin(last)
    return not _hangul(after) or after in patterns.BEHIND_A_TEXT


def _is_letter(line: str, low: str, place: int) -> bool:
    """Whether the single letter at this place stands for a choice: not an article, not part of a word or a name."""
    before, after = low[place - 1] if place else " ", low[place + 1] if place + 1 < len(low) else " "
    if after in "+#&@%" or before in "&@" or (before in "-.'_" and place > 1 and _latin(low[place - 2])):
        return False
    if after in "'-./" and _latin(low[place + 2 : place + 3]):
        # B's, B-side and a.m. name no choice; B.The grandson does, and A/B names two.
        a_word = _latin(low[place + 3 : place + 4])
        return (after == "." and a_word) or (after == "/" and not a_word)
    if (after == " " and patterns.OF_A_NAME_BEHIND.match(low, place + 1)) or _of_a_name(low, place, before):
        return False
    if _hangul(after):
        return after in patterns.BEHIND_A_LETTER
    if line[place].isupper():
        return low[place] not in "ai" or not _is_word(line, low, place)
    return _is_meant_in_lower_case(low, place, before, after)


def _of_a_name(low: str, place: int, before: str) -> bool:
    """Whether the letter belongs to what stands before it, as in Plan B."""
    if not place or not (before == " " or _hangul(before)):
        return False
    head = low[max(0, place - _LONGEST_NAME) : place]
    if head.rstrip(" ").rpartition(" ")[2].lstrip("([\"'*") in patterns.OF_A_NAME_BEFORE:
        return True
    return head.endswith((" a ", " an ")) and _MARK.search(head) is not None


def _is_word(line: str, low: str, place: int) -> bool:
    """Whether the ``A`` or ``I`` at this place is the English word."""
    named = _NAMED.match(low, place + 1)
    if named:
        return low[place] == "a" and line[named.start() : named.end()].isascii()
    found = _NEXT_WORD.match(low, place + 1)
    return found is not None and len(found[1]) > 1 and found[1] not in patterns.NO_ARTICLE_BEFORE


def _is_meant_in_lower_case(low: str, place: int, before: str, after: str) -> bool:
    head = low[max(0, place - 40) : place]
    tail = low[place + 1 : place + 3]
    if tail.lstrip(" ")[:1] == ")" or (before in _OPEN and after in _CLOSE):
        return True
    if not head.strip(patterns.DECORATION) and place < 40:
        return after in ":.,(])'\"*" or not low[place + 1 :].strip(patterns.DECORATION)
    question_traits = head.rstrip(patterns.DECORATION).endswith(patterns.ASKS_FOR_A_LETTER)
    return question_traits and low[place + 1 : place + 3].strip(" ")[:1] in ".,:;!?)]}'\"*"
