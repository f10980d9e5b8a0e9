"""Where lines of a page may break: between the parts of a long name, but not inside an interval, p-value or date."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

# A line may break after these signs inside a word. A point before a digit belongs to a number.
_JOINT = re.compile(r"(?<=\w)(?:[_/:=]+|\.(?=[^\W\d]))(?=\w)")
_WHOLE = re.compile(r"\[[^\[\] ]{1,20}, [^\[\] ]{1,20}\]|\b\d{4}-\d\d-\d\d\b|\bp (?:=|&lt;) 0\.\d+")


def breakable(text: object) -> Markup:
    """Return a name with possible line breaks after underscores, slashes, colons, equals signs and points.

    They are ``<wbr>`` elements, so text that is copied from the page stays the same.

    >>> breakable("determiner_noun")
    Markup('determiner_<wbr>noun')
    """
    return Markup(_JOINT.sub(lambda match: f"{match[0]}<wbr>", str(escape(text))))  # noqa: S704 - it is escaped


def unbroken(text: object) -> Markup:
    """Return a text in which no line breaks inside an interval, a p-value or a date.

    >>> unbroken("0.3 [0.1, 0.5]")
    Markup('0.3 <span class="whole">[0.1, 0.5]</span>')
    """
    escaped = str(escape(text))
    return Markup(_WHOLE.sub(lambda match: f'<span class="whole">{match[0]}</span>', escaped))  # noqa: S704 - escaped
