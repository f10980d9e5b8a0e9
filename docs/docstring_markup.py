"""Turn the docstrings of lmassay into Markdown for the API reference.

The docstrings are written to be read in a terminal: examples are plain doctests, and some names carry a Sphinx role.
Markdown would show ``>>>`` as three nested quotations and a role as literal text.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:mod|class|func|meth|attr|data):`~?([^`]+)`")
_DOCTEST = re.compile(r"^(?P<indent> *)>>> ")
# The tree of errors is drawn with these characters; only a code block keeps its lines apart.
_TREE = re.compile(r"^[├└│]")


class DocstringMarkup(griffe.Extension):
    """Change every docstring once, right after griffe has read the object that it belongs to."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """Write roles as code, and put doctests and drawn trees into code blocks.

    >>> print(as_markdown("See :mod:`lmassay.types`."))
    See `lmassay.types`.
    """
    lines: list[str] = []
    open_block = ""
    paragraphs = docstring.split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if number:
            lines.append("")
        if any(_TREE.match(line) for line in paragraph.splitlines()):
            lines += ["```text", *paragraph.splitlines(), "```"]
            continue
        for line in paragraph.splitlines():
            if not open_block and _DOCTEST.match(line):
                open_block = "```"
                lines.append("```pycon")
            lines.append(line if open_block else _ROLE.sub(r"`\1`", line))
        # A doctest ends at a blank line.
        if open_block:
            lines.append(open_block)
            open_block = ""
    return "\n".join(lines)
