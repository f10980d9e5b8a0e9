"""Replaces or escapes characters that control a terminal or reorder text, in texts of models, files and servers."""

from __future__ import annotations

import re

# The C0 and C1 control characters (with which the escape sequences of terminals begin) except tab and line feed, and
# the Unicode marks that change the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# The same characters and lone surrogates, which UTF-8 cannot represent, in a text that is already JSON. C0 control
# characters cannot occur there, because JSON requires that they are escaped.
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def replace_controls(text: str) -> str:
    r"""Return a text in which each control character is replaced by U+FFFD; line breaks and tabs stay.

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
