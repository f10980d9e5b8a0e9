"""Remove characters that control a terminal or reorder text from what a model, a file or a server sends."""

from __future__ import annotations

import re

# C0 and C1 controls except tab and line feed (escape sequences start with one), and the marks that reorder text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# The same and lone surrogates, which UTF-8 cannot represent, in a text that is JSON already. JSON escapes C0 itself.
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def replace_controls(text: str) -> str:
    r"""Return a text in which each control character is a replacement character; a line break stays one.

    >>> replace_controls("a\r\nb\x1b[2J") == "a\nb\N{REPLACEMENT CHARACTER}[2J"
    True
    """
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def escape_controls_in_json(json_text: str) -> str:
    r"""Return the same JSON document with control characters written as escapes.

    >>> escape_controls_in_json('"a\x9b"')
    '"a\\u009b"'
    """
    return _ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)
