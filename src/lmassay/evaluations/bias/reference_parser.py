"""Reading a choice out of a model's answer exactly as KoBBQ's own program does, its oddities included.

What it misreads ("Answer: B" is A, "Context" is C) and gives up on ("( B )") is kept: published numbers rest on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# The beginning of an answer, without blanks and one bracket, up to the end of its sentence.
_BEGINNING = re.compile(r"\s*\(?([^.\n]*)")
_MARK = re.compile("[:)]")
_STATED = tuple(
    re.compile(lead + r"([^.\n*'\"]*)")
    for lead in (
        r"\*\*['\"]?",  # in bold
        r"답변?[은:]\s*['\"]?",  # after "the answer is"
        r"['\"]",  # in quotes
    )
)


def parse_reference(raw: str, choices: Mapping[str, str]) -> str:
    """The letter that an answer chooses, or the text that is then out of choice.

    ``choices`` is letter → text, the text in lower case (see :func:`lowered`).

    >>> choices = {"A": "손자", "B": "알 수 없음", "C": "할머니"}
    >>> parse_reference("정답은 할머니입니다.", choices), parse_reference("Answer: B", choices)
    ('C', 'A')
    >>> parse_reference("( B )", choices)
    '( B )'
    """
    while True:
        found = _at_the_beginning(raw, choices)
        if found is not None:
            return found
        for stated in _STATED:
            part = stated.search(raw)
            if part is not None:
                break
        else:
            return _marked(raw, choices)
        # What is stated is read as an answer of its own, and counts whatever comes of it.
        raw = part.group(1)


def lowered(a: str, b: str, c: str) -> dict[str, str]:
    """Choices as :func:`parse_reference` wants them."""
    return {"A": a.lower(), "B": b.lower(), "C": c.lower()}


def _at_the_beginning(raw: str, choices: Mapping[str, str]) -> str | None:
    text = _BEGINNING.match(raw).group(1)  # type: ignore[union-attr]  # it matches anything
    text = text.replace("없습니다", "없음").replace("입니다", "")
    upper = text.upper()
    letter = upper[:1]
    if letter in choices:
        mark = _MARK.search(upper)
        stated = upper[mark.end() :].strip() if mark else ""
        if stated:
            if stated.lower() == choices[letter] or sum(upper.count(c.upper()) for c in choices.values()) <= 1:
                # The letter counts even where the text after it is another.
                return letter
            return text
        if sum(map(upper.count, choices)) == 1:
            return letter
    lower = text.lower()
    return next((letter for letter, choice in choices.items() if lower == choice), None)


def _marked(raw: str, choices: Mapping[str, str]) -> str:
    """The one letter that is followed by a colon or a bracket, else all of the text."""
    upper = raw.upper()
    marked = [letter for letter in choices if f"{letter}:" in upper or f"{letter})" in upper]
    return marked[0] if len(marked) == 1 else raw
