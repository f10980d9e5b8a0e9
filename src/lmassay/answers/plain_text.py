"""Normalise what a model wrote: one spelling, no reasoning, and answers taken out of JSON, LaTeX and tags."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Normalising a long run of combining marks takes quadratic time, and no word has more than a few marks. In texts of at
# least _LONG_TEXT characters, only the first _MAX_MARKS of a run are kept; shorter texts take milliseconds anyway.
_LONG_TEXT = 2000
_MAX_MARKS = 8

# Characters that a reader does not see, and those that ``patterns`` writes over mentions of choices.
_INVISIBLE = (
    # Control characters, except tab, line feed, carriage return and the four separators after ESC.
    *range(9),
    *(11, 12),
    *range(14, 28),
    # Delete, the soft hyphen and the Mongolian vowel separator.
    *(127, 0xAD, 0x180E),
    # Zero-width spaces and joiners, and marks for the direction of text.
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    # Variation selectors, and the byte order mark.
    *range(0xFE00, 0xFE10),
    0xFEFF,
    # Private use: ``patterns`` masks mentions with these, so an answer must not contain them.
    *range(0xE000, 0xE010),
)


def _replacements() -> dict[int, str]:
    """Return a table for ``str.translate`` with the replacements that are made before normalisation."""
    table: dict[int, str] = dict.fromkeys(_INVISIBLE, "")
    # NFKC leaves white letters on black discs and squares as they are.
    for first in (0x1F150, 0x1F170):
        for number in range(26):
            table[first + number] = chr(ord("A") + number)
    table[ord("`")] = "'"
    # NFKC would turn an acute accent into a space with a combining accent, and a double prime into two primes.
    table[ord("´")] = "'"
    table[ord("″")] = '"'
    return table


def _plain_punctuation() -> dict[int, str]:
    """Return a table for ``str.translate`` from typographic quotes, brackets and dashes to plain ones."""
    table = dict.fromkeys(map(ord, "‘’‚‛′「」『』〈〉《》"), "'")
    table.update(dict.fromkeys(map(ord, "“”„‟«»"), '"'))
    table.update(zip(map(ord, "【】〔〕‐‑‒–—―−。"), "[][]-------.", strict=True))
    return table


def _any_of(table: Iterable[int]) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(''.join(map(chr, table)))}]")


_REPLACED = _replacements()
_PUNCTUATION = _plain_punctuation()
# A search is faster than a translation, and in most answers there is nothing to translate.
_NEEDS_REPLACEMENT = _any_of(_REPLACED)
_NEEDS_PUNCTUATION = _any_of(_PUNCTUATION)

# The tags around a model's reasoning.
_THOUGHT = re.compile(
    r"[<\[◁]\s{0,3}(/?)\s{0,3}(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)\s{0,3}[>\]▷]", re.IGNORECASE
)
# Special tokens of chat templates.
_END_OF_TURN = re.compile(r"<\|(?:im_end|eot_id|endoftext|end|return|end_of_text)\|>|</s>|<eos>|<end_of_turn>")
_TOKEN = re.compile(r"<\|[^|<>]{0,40}\|>|<s>|<bos>|<start_of_turn>|\[/?INST\]")
_LEADING = re.compile(rf"(?:\s|{_END_OF_TURN.pattern}|{_TOKEN.pattern})*")
# A LaTeX command with text in it, and the one around a final answer.
_LATEX = re.compile(r"\\(?!boxed|fbox)[a-zA-Z]{2,12} ?\{([^{}]{0,300})\}")
_BOXED = re.compile(r"\\(?:boxed|fbox) ?\{([^{}]{0,300})\}")
_TAG = re.compile(r"<(?:final_?)?answer>([^<>]{0,300})</(?:final_?)?answer>", re.IGNORECASE)
# A line that begins another question, as in the prompt.
_NEW_QUESTION = re.compile(
    r"(?:\A|\n)[ \t]{0,8}[#*-]{0,4} ?(?:맥락|지문|내용|글|상황|이야기|질문|물음|문제|context|passage|text|question|q)"
    r"[ \d.]{0,5}\*{0,2} ?:",
    re.IGNORECASE,
)

# Keys of a JSON object that mean the answer, in lower case without punctuation.
_KEYS = """
answer finalanswer correctanswer youranswer choice finalchoice selectedchoice option selectedoption selected selection
letter prediction result response output 정답 답 답변 최종답변 최종정답 선택 선택지 보기 답안
"""
_ANSWER_KEYS = frozenset(_KEYS.split())
_DECODER = json.JSONDecoder(strict=False)
# How many opening braces of a text are tried as the beginning of a JSON object.
_MAX_OBJECTS = 4


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """A normalised answer."""

    text: str
    held_in: str = ""
    """The format that the answer was taken out of: ``json``, ``boxed`` or ``answer tag``; empty for plain text."""
    unfinished: bool = False
    """Whether the text ends within the model's reasoning, before any answer."""


def tidy(text: str) -> str:
    """Return a text in one spelling, so that equal words are equal strings.

    Hangul is composed, circled and full-width letters and typographic quotes become plain ones, and characters that a
    reader does not see are removed.
    """
    if _NEEDS_REPLACEMENT.search(text) is not None:
        text = text.translate(_REPLACED)
    if not text.isascii():
        text = _with_few_marks(text)
        if not unicodedata.is_normalized("NFKC", text):
            text = unicodedata.normalize("NFKC", text)
    if _NEEDS_PUNCTUATION.search(text) is not None:
        text = text.translate(_PUNCTUATION)
    return text


def _with_few_marks(text: str) -> str:
    """Return a text in which long runs of combining marks are shortened."""
    if len(text) < _LONG_TEXT:
        return text
    characters = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MAX_MARKS:
            characters.append(character)
    return "".join(characters)


def lower(text: str) -> str:
    """Return a text in lower case, converted character by character so that positions stay the same."""
    low = text.lower()
    if len(low) == len(text):
        return low
    # A few letters, such as İ, become two characters in lower case. They stay as they are.
    characters = []
    for character in text:
        low_character = character.lower()
        characters.append(low_character if len(low_character) == 1 else character)
    return "".join(characters)


def plain(raw: str) -> PlainAnswer:
    """Return an answer without the reasoning before it, in one spelling.

    An answer in JSON, a LaTeX box or an answer tag becomes a line ``answer: …``.
    """
    text = tidy(raw)
    unfinished = False
    if "<" in text or "[" in text or "◁" in text:
        text, unfinished = _without_thoughts(_last_channel(text))
        text = _this_turn(text)
    held_in = ""
    if "\\" in text:
        text = _LATEX.sub(r" \1 ", text)
        text, held_in = _matches_as_answers(_BOXED, text, held_in, "boxed")
    if "<" in text:
        text, held_in = _matches_as_answers(_TAG, text, held_in, "answer tag")
    if "{" in text:
        text, held_in = _out_of_json(text, held_in)
    return PlainAnswer(text, held_in, unfinished)


def before_next_question(text: str) -> str:
    """Return the part of a text before the model begins to write the next question itself.

    The whole text is returned if the model does not do so, or if nothing precedes the question.
    """
    question = _NEW_QUESTION.search(text)
    if question is None:
        return text
    before = text[: question.start()]
    if before.strip():
        return before
    return text


def _last_channel(text: str) -> str:
    """Return the final channel of an answer in OpenAI's harmony format; an opened reasoning tag if it has none.

    Text in any other format is returned as it is.
    """
    if "<|channel|>" not in text:
        return text
    _, marker, final = text.rpartition("<|channel|>final")
    if marker:
        return final
    # Without a final channel, all of the answer is reasoning: ``_without_thoughts`` reads this as unfinished.
    return "<think>"


def _without_thoughts(text: str) -> tuple[str, bool]:
    """Return the text outside reasoning tags, and whether the text ends before such a tag is closed."""
    pieces: list[str] = []
    done = 0
    inside = False
    for tag in _THOUGHT.finditer(text):
        is_closing = bool(tag[1])
        if is_closing:
            if not inside:
                # The opening tag was in the prompt, so everything before this was reasoning.
                pieces.clear()
            inside = False
        elif not inside:
            pieces.append(text[done : tag.start()])
            inside = True
        done = tag.end()
    if not inside:
        pieces.append(text[done:])
    return "\n".join(pieces), inside


def _this_turn(text: str) -> str:
    """Return the model's own turn, without special tokens. What the model writes as the user's next turn is cut off."""
    leading = _LEADING.match(text)
    if leading is not None:
        text = text[leading.end() :]
    end = _END_OF_TURN.search(text)
    if end is not None:
        text = text[: end.start()]
    return _TOKEN.sub("\n", text)


def _matches_as_answers(pattern: re.Pattern[str], text: str, held_in: str, name: str) -> tuple[str, str]:
    """Write the content of each match as ``answer: …``.

    Return the text and ``held_in``, which becomes ``name`` if there is a match and no answer was found before.
    """
    text, count = pattern.subn(lambda match: f"\nanswer: {_one_line(match[1])}\n", text)
    if count and not held_in:
        held_in = name
    return text, held_in


def _out_of_json(text: str, held_in: str) -> tuple[str, str]:
    """Replace JSON objects with the answers in them; an object without an answer stays as it is."""
    start = text.find("{")
    for _ in range(_MAX_OBJECTS):
        if start < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        answers = _answers(value)
        if answers:
            plain_answers = "".join(f"\nanswer: {answer}\n" for answer in answers)
            text = f"{text[:start]}{plain_answers}{text[end:]}"
            held_in = held_in or "json"
            end = start + len(plain_answers)
        start = text.find("{", end)
    return text, held_in


def _answers(value: Any) -> list[str]:
    """Return the texts under keys that mean the answer, also in nested objects, but not in objects within a list."""
    answers: list[str] = []
    if not isinstance(value, dict):
        return answers
    for key, inner in value.items():
        if isinstance(inner, dict):
            answers += _answers(inner)
            continue
        bare_key = "".join(character for character in key.lower() if character.isalnum())
        if bare_key not in _ANSWER_KEYS:
            continue
        texts = inner if isinstance(inner, list) else [inner]
        answers += [_one_line(text) for text in texts if isinstance(text, str)]
    return answers


def _one_line(text: str) -> str:
    return " ".join(text.split())
