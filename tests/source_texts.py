"""The texts in the source of the package. Reading all files takes seconds, so tests of one process share it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.helpers import ROOT

SOURCE = ROOT / "src" / "lmassay"


@dataclass(frozen=True, slots=True)
class Text:
    """A text that stands in the source, unless it is a statement of its own, as every docstring is."""

    parts: tuple[str | None, ...]
    """What is written, with None for each value that is filled in."""
    line: int
    in_template: bool = False
    """Whether it is a part of another text, between two values that are filled in."""

    def filled(self, gap: str) -> str:
        """The text with the same characters for every value that is filled in."""
        return "".join(gap if part is None else part for part in self.parts)


@cache
def source_texts() -> dict[Path, list[Text]]:
    """File of the package → its texts."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        found[file] = list(texts_in(file.read_text(encoding="utf-8")))
    return found


def texts_in(source: str) -> Iterator[Text]:
    """All texts of one file."""
    silent: set[int] = set()
    of_templates: set[int] = set()
    tree = ast.parse(source)
    # Nodes are visited after those that they are part of.
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            silent.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            of_templates.update(map(id, node.values))
            parts = tuple(str(part.value) if isinstance(part, ast.Constant) else None for part in node.values)
            yield Text(parts, node.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield Text((node.value,), node.lineno, id(node) in of_templates)
