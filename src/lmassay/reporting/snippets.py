"""Texts of examples, shortened for a table to what distinguishes them.

Prompts begin with the same instructions, and questions about one story with the same story. A table that shows only the
beginning of each text would show the same text in every row. ``templates/rows.js`` does the same on a page.
"""

from __future__ import annotations

from collections.abc import Sequence

# Characters of a shared beginning that stay, so that a reader sees that the text is about the same story.
_SHOWN_OF_SHARED = 18
# Less than this is not skipped: it saves little, and a text that starts in the middle is harder to read.
_MIN_SHARED_WITH_ABOVE = 60
_MIN_SHARED = 20
# Longer than almost any word: text of this length without a space is in a script that has none, such as Chinese.
_MAX_WORD = 40


def distinct_parts(texts: Sequence[str], length: int) -> list[str]:
    """Return texts in the order of a column as short lines: without the beginning that all share, and without most of
    what each shares with the text above it.

    >>> distinct_parts(["Answer the question. Who left?", "Answer the question. What stayed?"], 40)
    ['… Who left?', '… What stayed?']
    """
    begin = _shared_by_all(texts)
    shortened = []
    above = ""
    for text in texts:
        shortened.append(_distinct_part(text, begin if len(text) > begin else 0, above, length))
        above = text
    return shortened


def _shared_by_all(texts: Sequence[str]) -> int:
    """Return how many characters, in whole words, all texts begin with; 0 if these are few or one text has no more."""
    filled = [text for text in texts if text]
    if not filled:
        return 0
    # What the first and the last text in alphabetical order share, all texts between them share as well.
    shared = max(filled)[: _count_shared(min(filled), max(filled))]
    is_worth_skipping = len(shared) > _MIN_SHARED and all(len(text) > len(shared) for text in filled)
    return _word_start(shared, len(shared)) if is_worth_skipping else 0


def _distinct_part(text: str, begin: int, above: str, length: int) -> str:
    shared = _count_shared(text, above)
    difference = _word_start(text, shared)
    lead = "… " if begin else ""
    is_worth_skipping = shared < len(text) and difference - begin > _MIN_SHARED_WITH_ABOVE
    if not is_worth_skipping:
        return lead + _line(text[begin:], length)
    # Whole words of the beginning; a script without spaces is cut anywhere.
    beginning = _line(text[begin : begin + _SHOWN_OF_SHARED], length)
    beginning = beginning.rpartition(" ")[0] or beginning
    return f"{lead}{beginning} … {_line(text[difference:], length)}"


def _count_shared(first: str, second: str) -> int:
    """Return how many characters at the beginning of two texts are the same."""
    number = 0
    for character, other_character in zip(first, second, strict=False):
        if character != other_character:
            break
        number += 1
    return number


def _word_start(text: str, position: int) -> int:
    """Return where the word begins that a position is in; the position itself in a script without spaces."""
    start = position
    while start > 0 and not text[start - 1].isspace():
        start -= 1
    return start if position - start <= _MAX_WORD else position


def _line(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}…"
