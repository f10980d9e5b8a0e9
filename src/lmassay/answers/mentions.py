"""Find the places where an answer names a choice: by its letter, by its text, or in other words.

Other words are recognised only for the unknown choice, which says that the answer cannot be known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from lmassay.answers import patterns
from lmassay.answers.plain_text import lower, tidy

_ARTICLE = re.compile(r"(?:the|an?) (?=\w)")
# What follows a letter that is used as a label, up to the end of the line, such as ": the gran" in "B: the gran".
_LABELLED = re.compile(r"[)\]\"'* ]{0,4}[:.)][ \"'*]{0,4}(?:the |an? )?([^\s].{0,80})$")
_TEXT_AFTER_SPACE = re.compile(f" {patterns.TEXT}+")
_NEXT_WORD = re.compile(r" ([a-z0-9ş][a-z0-9'äöüßğış-]{0,40})")
# "A war es": the German verb, and not the English noun.
_GERMAN_WAS = re.compile(r" war (?:es|'s|der|die|das|derjenige|diejenige|nicht)\b")
# "got an A": a mark at school, and not a choice.
_SCHOOL_MARK = re.compile(r"\b(?:got|gets?|earn(?:s|ed)|received|scored|gave|gives?)(?: [a-z]+)? an? $")
# How many characters before a letter are searched for a name ("Plan B"), and for words that ask for a letter.
_MAX_NAME_LENGTH = 16
_MAX_REQUEST_LENGTH = 40
_OPENING = "([{<\"'*_"
_CLOSING = ")]}>\"'*_"


@dataclass(frozen=True, slots=True)
class Mention:
    """A part of a line that names a choice; it has several letters if several choices have the same text."""

    start: int
    end: int
    letters: str
    by: Literal["letter", "text", "unknown"]
    """What names the choice: its letter, its text, or other words for the unknown choice."""


@dataclass(frozen=True, slots=True)
class ChoiceLookup:
    """The choices of a question, prepared for the search: in lower case, the longest first."""

    letters: str
    texts: Sequence[tuple[str, str]]
    """(text, letters) pairs: a text has several letters if several choices have this text."""
    exact: dict[str, str]
    """Text → its letters; each text also with its article, and with all spaces removed."""
    unknown: str
    """The letter of the choice that says that the answer cannot be known; empty unless exactly one choice says so."""
    unknown_words: tuple[re.Pattern[str], ...]
    """The wordings that stand for this choice."""
    letter: re.Pattern[str]
    """A pattern of single letters that may name a choice."""


@dataclass(frozen=True, slots=True)
class MaskedLine:
    """A line in lower case with its mentions masked. It is as long as the original line, so positions agree."""

    low: str
    mentions: Sequence[Mention]


@lru_cache(maxsize=1 << 15)
def choice_lookup(choices: tuple[str, ...], letters: str) -> ChoiceLookup:
    """Prepare the choices of a question. Cached, because the same questions are asked with every model and prompt."""
    letters = letters[: len(choices)]
    full_texts = [_normalised(choice) for choice in choices]
    # Answers often leave out the article. It is kept only if two choices differ in nothing else.
    texts = [_without_article(text) for text in full_texts]
    if len(set(texts)) < len(set(full_texts)):
        texts = full_texts

    by_text: dict[str, str] = {}
    for text, letter in zip(texts, letters, strict=False):
        # A choice whose text is itself a letter cannot be distinguished from the letter.
        is_letter = len(text) == 1 and text.upper() in letters
        if text and not is_letter:
            by_text[text] = by_text.get(text, "") + letter

    exact: dict[str, str] = {}
    for text, full_text, letter in zip(texts, full_texts, letters, strict=False):
        if text in by_text:
            for form in {text, full_text, text.replace(" ", ""), full_text.replace(" ", "")}:
                exact[form] = exact.get(form, "") + letter

    unknown, unknown_words = _unknown_choice(texts, letters)
    both_cases = re.escape(f"{letters}{letters.lower()}")
    letter_pattern = rf"(?<![A-Za-z0-9])([{both_cases}])(?![A-Za-z0-9])" if both_cases else r"(?!)"
    return ChoiceLookup(
        letters=letters,
        texts=sorted(by_text.items(), key=lambda entry: -len(entry[0])),
        exact=exact,
        unknown=unknown,
        unknown_words=unknown_words,
        letter=re.compile(letter_pattern),
    )


def _without_article(text: str) -> str:
    if not _ARTICLE.match(text):
        return text
    return _ARTICLE.sub("", text, count=1)


def find_mentions(line: str, choices: ChoiceLookup) -> MaskedLine:
    """Find the mentions in a line, in their order.

    Longer texts come first, and each mention is masked at once, so that nothing is found inside another mention.
    """
    low = lower(line)
    mentions: list[Mention] = []
    for text, letters in choices.texts:
        if text in low:
            by_text = [Mention(start, end, letters, "text") for start, end in _occurrences(low, text)]
            low = _mask(low, by_text, mentions)
    if patterns.UNKNOWN_HINT.search(low):
        for pattern in choices.unknown_words:
            unknowns = []
            for match in pattern.finditer(low):
                unknowns.append(Mention(match.start(), match.end(), choices.unknown, "unknown"))
            low = _mask(low, unknowns, mentions)
    if "/" in low:
        low = patterns.NOT_APPLICABLE.sub(lambda match: "-" * len(match[0]), low)
    by_letter = []
    for match in choices.letter.finditer(line):
        # A letter that is masked already belongs to the text of a choice, or to "n/a".
        is_masked = low[match.start()] != match[1].lower()
        if not is_masked and _is_letter(line, low, match.start()):
            by_letter.append(Mention(match.start(), match.end(), match[1].upper(), "letter"))
    low = _mask(low, by_letter, mentions)
    mentions.sort(key=lambda mention: mention.start)
    if mentions and mentions[-1].by == "letter":
        low = _mask_cut_off_text(low, choices, mentions)
    return MaskedLine(low, mentions)


def _mask_cut_off_text(low: str, choices: ChoiceLookup, mentions: list[Mention]) -> str:
    """Mask the beginning of a choice's text at the end of a line, where an answer of limited length was cut off.

    For example, ``B: 알`` is the beginning of ``B: 알 수 없음``.
    """
    last = mentions[-1]
    labelled = _LABELLED.match(low, last.end)
    if labelled is None:
        return low
    possible = "".join(letters for text, letters in choices.texts if text.startswith(labelled[1]))
    if not possible:
        return low
    # If the beginning fits the choice of the letter, it is that choice, even if it fits others as well.
    letters = last.letters if last.letters in possible else possible
    return _mask(low, [Mention(labelled.start(1), labelled.end(1), letters, "text")], mentions)


def _normalised(choice: str) -> str:
    return " ".join(lower(tidy(choice)).split()).strip(" .!?,;:\"'")


def _unknown_choice(texts: Sequence[str], letters: str) -> tuple[str, tuple[re.Pattern[str], ...]]:
    """Return the letter of the choice that says that the answer cannot be known, and the wordings that stand for it.

    Both are empty if there is no such choice, or more than one.
    """
    wordings = (patterns.CANNOT_BE_KNOWN, patterns.IS_NOT_KNOWN_TO_ME, patterns.CANNOT_BE_ANSWERED)
    wordings_of: dict[str, list[re.Pattern[str]]] = {}
    for text, letter in zip(texts, letters, strict=False):
        matching = [wording for wording in wordings if wording.search(text)]
        if matching:
            wordings_of[letter] = matching
    if len(wordings_of) != 1:
        return "", ()
    [(letter, matching)] = wordings_of.items()
    return letter, tuple(dict.fromkeys([patterns.CANNOT_BE_KNOWN, *matching]))


def _mask(low: str, new_mentions: Sequence[Mention], mentions: list[Mention]) -> str:
    """Return the line with the new mentions masked, and add these to the list ``mentions``."""
    if not new_mentions:
        return low
    pieces = []
    done = 0
    for mention in new_mentions:
        mask = patterns.LETTER if mention.by == "letter" else patterns.TEXT
        pieces.append(low[done : mention.start])
        pieces.append(mask * (mention.end - mention.start))
        done = mention.end
    pieces.append(low[done:])
    mentions += new_mentions
    return "".join(pieces)


def _occurrences(low: str, text: str) -> list[tuple[int, int]]:
    """Return the start and end of each occurrence of a text, except where it is part of a longer word."""
    spans = []
    start = low.find(text)
    while start >= 0:
        end = start + len(text)
        if _can_begin(low, start, text[0]) and _can_end(low, end, text[-1]):
            spans.append((start, end))
            start = low.find(text, end)
        else:
            start = low.find(text, start + 1)
    return spans


def _is_latin(character: str) -> bool:
    return "a" <= character <= "z" or "0" <= character <= "9"


def _is_hangul(character: str) -> bool:
    return "가" <= character <= "힣"


def _can_begin(low: str, start: int, first: str) -> bool:
    """Return whether a word that begins with the character ``first`` can begin at a position."""
    before = low[start - 1] if start else " "
    if _is_latin(before):
        return not _is_latin(first) and not _is_hangul(first)
    if not (_is_hangul(before) and _is_hangul(first)):
        return True
    # 정규직 (permanent employee) is not named in 비정규직 (temporary employee).
    return low.endswith(patterns.RUN_ON, 0, start)


def _can_end(low: str, end: int, last: str) -> bool:
    """Return whether a word that ends with the character ``last`` can end at a position."""
    after = low[end] if end < len(low) else " "
    if _is_latin(after):
        return not _is_latin(last)
    return not _is_hangul(after) or after in patterns.BEHIND_A_TEXT


def _is_letter(line: str, low: str, position: int) -> bool:
    """Return whether the single letter at a position means a choice, not an article or a part of a word or name."""
    before = low[position - 1] if position else " "
    after = low[position + 1] if position + 1 < len(low) else " "
    # The letter is part of a word in B+, C#, R&B, A@, "e-b" and "co.b".
    if after in "+#&@%" or before in "&@":
        return False
    if before in "-.'_" and position > 1 and _is_latin(low[position - 2]):
        return False
    if after in "'-./" and _is_latin(low[position + 2 : position + 3]):
        # B's, B-side and a.m. do not name a choice; B.The grandson does, and A/B names two.
        is_word = _is_latin(low[position + 3 : position + 4])
        return (after == "." and is_word) or (after == "/" and not is_word)
    if after == " " and patterns.OF_A_NAME_BEHIND.match(low, position + 1):
        return False
    if _is_part_of_name(low, position, before):
        return False
    if _is_hangul(after):
        return after in patterns.BEHIND_A_LETTER
    if line[position].isupper():
        # "A" and "I" are also English words.
        return low[position] not in "ai" or not _is_english_word(line, low, position)
    return _is_meant_in_lower_case(low, position, before, after)


def _is_part_of_name(low: str, position: int, before: str) -> bool:
    """Return whether the letter belongs to the word before it, as in Plan B."""
    if not position or not (before == " " or _is_hangul(before)):
        return False
    head = low[max(0, position - _MAX_NAME_LENGTH) : position]
    last_word = head.rstrip(" ").rpartition(" ")[2].lstrip("([\"'*")
    if last_word in patterns.OF_A_NAME_BEFORE:
        return True
    return head.endswith((" a ", " an ")) and _SCHOOL_MARK.search(head) is not None


def _is_english_word(line: str, low: str, position: int) -> bool:
    """Return whether the ``A`` or ``I`` at a position is the English word."""
    choice_text = _TEXT_AFTER_SPACE.match(low, position + 1)
    if choice_text:
        # "A grandson": the article before the text of an English choice.
        return low[position] == "a" and line[choice_text.start() : choice_text.end()].isascii()
    next_word = _NEXT_WORD.match(low, position + 1)
    if next_word is None or _GERMAN_WAS.match(low, position + 1):
        return False
    return len(next_word[1]) > 1 and next_word[1] not in patterns.NO_ARTICLE_BEFORE


def _is_meant_in_lower_case(low: str, position: int, before: str, after: str) -> bool:
    """Return whether a lower-case letter means a choice: only if it is marked as one, or is the whole answer."""
    # Strict, because "a" is also an article: "a doctor" must not be read as choice A.
    next_characters = low[position + 1 : position + 3]
    has_closing_bracket = next_characters.lstrip(" ")[:1] == ")"
    is_enclosed = before in _OPENING and after in _CLOSING
    if has_closing_bracket or is_enclosed:
        return True
    head = low[max(0, position - _MAX_REQUEST_LENGTH) : position]
    at_beginning = position < _MAX_REQUEST_LENGTH and not head.strip(patterns.DECORATION)
    if at_beginning:
        is_whole_answer = not low[position + 1 :].strip(patterns.DECORATION)
        return after in ":.,(])'\"*" or is_whole_answer
    # Elsewhere only after words such as "the answer is", and only if no word follows.
    if not head.rstrip(patterns.DECORATION).endswith(patterns.ASKS_FOR_A_LETTER):
        return False
    return next_characters.strip(" ")[:1] in ".,:;!?)]}'\"*"
