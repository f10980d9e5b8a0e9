"""Texts of examples, shortened for a table to the part in which they differ.

Prompts often begin with the same instructions, and questions about one story with the same story. A table with only the
beginning of each text would show the same words in every row. ``templates/rows.js`` shortens texts on a page in the
same way.
"""

from __future__ import annotations

from collections.abc import Sequence

# This many characters of a shared beginning are kept, so that a reader sees that the text is about the same story.
_SHOWN_OF_SHARED = 18
# Shorter shared beginnings are not skipped: that would save little, and a text that starts in the middle is hard to
# read.
# ``_MIN_SHARED_WITH_ABOVE`` is for what a text shares with the one above, ``_MIN_SHARED`` for what all texts share.
_MIN_SHARED_WITH_ABOVE = 60
_MIN_SHARED = 20
# Longer than almost any word: text of this length without a space is in a script that has none, such as Chinese.
_MAX_WORD = 40


def distinct_parts(texts: Sequence[str], length: int) -> list[str]:
    """Shorten the texts of a column, in their order, to lines of about ``length`` characters.

    The beginning that all texts share is left out, and so is most of what a text shares with the text above it.

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
    """Return the length of the beginning that all texts share, in whole words.

    It is 0 if the beginning is short, or if one of the texts consists of nothing else.
    """
    filled = [text for text in texts if text]
    if not filled:
        return 0
    # What the first and the last text in alphabetical order share, all texts between them share as well.
    shared = max(filled)[: _count_shared(min(filled), max(filled))]
    is_worth_skipping = len(shared) > _MIN_SHARED and all(len(text) > len(shared) for text in filled)
    return _word_start(shared, len(shared)) if is_worth_skipping else 0


def _distinct_part(text: str, begin: int, above: str, length: int) -> str:
    """Shorten a text from position ``begin`` on; most of what it shares with the text ``above`` is left out."""
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
    """Return the beginning of the word at a position; in a script without spaces, the position itself."""
    start = position
    while start > 0 and not text[start - 1].isspace():
        start -= 1
    return start if position - start <= _MAX_WORD else position


def _line(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}…"
