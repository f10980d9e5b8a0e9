"""Where lines may break: between the parts of a long name, and never inside an interval, a p-value or a date."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

# After these signs inside a word. A point before a digit is that of a number.
_JOINT = re.compile(r"(?<=\w)(?:[_/:=]+|\.(?=[^\W\d]))(?=\w)")
_WHOLE = re.compile(r"\[[^\[\] ]{1,20}, [^\[\] ]{1,20}\]|\b\d{4}-\d\d-\d\d\b|\bp (?:=|&lt;) 0\.\d+")


def breakable(text: object) -> Markup:
    """Return a name that may break after an underscore, slash, colon, equals sign or point. Copies of it stay the same.

    >>> breakable("determiner_noun")
    Markup('determiner_<wbr>noun')
    """
    return Markup(_JOINT.sub(lambda match: f"{match[0]}<wbr>", str(escape(text))))  # noqa: S704 - it is escaped


def unbroken(text: object) -> Markup:
    """Return a text whose intervals, p-values and dates stay on one line.

    >>> unbroken("0.3 [0.1, 0.5]")
    Markup('0.3 <span class="whole">[0.1, 0.5]</span>')
    """
    escaped = str(escape(text))
    return Markup(_WHOLE.sub(lambda match: f'<span class="whole">{match[0]}</span>', escaped))  # noqa: S704 - escaped
