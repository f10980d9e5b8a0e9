"""The code blocks of a page, and the comments before them that tell the tests what to do.

A page is run from top to bottom in an empty folder. These blocks are run:

- ```` ```sh ```` – the whole block with bash, until a command fails. It must end with exit code 0.
- ```` ```console ```` – each line that starts with ``$ ``; the command must print the lines below it.
- ```` ```python ```` – with ``>>>``, as a doctest; otherwise as a program if ``<!-- run -->`` is before it.

Comments before a block, one per line:

- ``<!-- needs: smollm2, data_folder -->``: the block is skipped if one of these is missing; see NEEDS in running.py.
- ``<!-- prints -->`` before a ```` ```text ```` block: the block above must have printed each of its lines;
  ``…`` matches anything.
- ``<!-- exits: 1 -->``: the block has one command, which ends with this exit code.
- ``<!-- until: listening -->``: the block has one command, which is stopped when it has printed this.
- ``<!-- run -->`` before a ```` ```python ```` block: it is run as a program.
- ``<!-- file: NAME -->``: the block is a complete file. If a command above has written it, it must have exactly this
  text; otherwise it is written before the following blocks are run.
- ``<!-- changed -->`` together with ``file``: the reader replaces a file that is already there.
- ``<!-- part: NAME -->``: the block is a part of this file, which a command above has written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.helpers import ROOT

_AT_THE_TOP = ["README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"]
PAGES = [*_AT_THE_TOP, *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
KNOWN = frozenset({"needs", "prints", "exits", "until", "run", "file", "part", "changed"})
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+)(?P<language>[\w+-]*)")
_NOTE = re.compile(r"<!--\s*([a-z]+)(?:\s*:\s*(.*?))?\s*-->\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block with the comments before it."""

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def needs(self) -> list[str]:
        return [name.strip() for name in self.notes.get("needs", "").split(",") if name.strip()]


def page_text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(text: str, page: str = "page") -> list[Block]:
    """All fenced blocks of a page, in order."""
    return list(_blocks(text.splitlines(), page))


def _blocks(lines: list[str], page: str) -> Iterator[Block]:
    notes: dict[str, str] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        opened = _FENCE.match(line)
        noted = _NOTE.match(line.strip())
        number += 1
        if noted and noted[1] in KNOWN:
            notes[noted[1]] = noted[2] or ""
        elif opened:
            first = number
            while number < len(lines) and lines[number].strip() != opened["fence"]:
                number += 1
            text = "".join(f"{inner.removeprefix(opened['indent'])}\n" for inner in lines[first:number])
            yield Block(page, first, opened["language"], text, notes)
            notes, number = {}, number + 1
        elif notes and line.strip() and not line.strip().startswith("<!--"):
            raise AssertionError(f"{page}:{number}: a note ({', '.join(notes)}) with no block below it")


def texts(page: str, language: str) -> list[str]:
    """The texts of a page's blocks in one language."""
    return [block.text for block in blocks_of(page_text(page), page) if block.language == language]


def prose_of(text: str) -> str:
    """A page without its fenced blocks."""
    prose, fence = [], ""
    for line in text.splitlines():
        opened = _FENCE.match(line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif opened:
            fence = opened["fence"]
        else:
            prose.append(line)
    return "\n".join(prose)
