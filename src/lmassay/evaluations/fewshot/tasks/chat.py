"""How a task is put to a chat model: an instruction, the question about an example, and the answers to choose from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

BLANK = "____"
"""A chat model sees this in place of a pattern's mask."""
ANSWERS = "{answers}"
"""Stands for the list of possible answers in an instruction."""
DEFAULT_INSTRUCTION = f'Fill in the blank "{BLANK}" in the last text. {{answers}} Answer with one of them only.'
"""The default instruction, for tasks that do not define one."""
_FIELD = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class ChatWording:
    """The wording of a task for chat models. Each part has a default."""

    instruction: str = DEFAULT_INSTRUCTION
    """The beginning of the conversation. ``{answers}`` is replaced by the possible answers."""
    question: str = ""
    """The text about one example, with its fields in braces; if empty, the pattern with a blank at its mask."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """Label → the answer that means it; if empty, the first word of each label."""

    def text(self, fields: Mapping[str, str]) -> str:
        """The question about an example with these fields."""
        return _FIELD.sub(lambda match: fields[match[1]], self.question)


def fields_in(text: str) -> list[str]:
    """The names in braces.

    >>> fields_in("Is {a} the same as {b}?")
    ['a', 'b']
    """
    return _FIELD.findall(text)
