"""The shell of every page we write: one HTML file, no network, a policy that lets nothing run but our own script."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

import lmassay
from lmassay.reporting.numbers import number_text, p_text
from lmassay.storage.provenance import command_line

# HTML knows no NUL, and UTF-8 no lone surrogate; either may come out of a model or a file. Signs that turn the
# direction of writing would turn our own words and numbers, too.
_UNWRITABLE = re.compile("[\x00\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
STYLES = ("page.css", "figures.css", "tiles.css")


def document(title: str, body: Markup, *, browser: bool = False) -> str:
    """A whole HTML document; ``browser`` adds the script that the example browser needs.

    >>> "<script" in document("a <b>", Markup("<p>text</p>"))
    False
    """
    style = "".join(map(_template, STYLES))
    script = _script() if browser else ""
    policy = ["default-src 'none'", f"style-src {_source(style)}"]
    policy += [f"script-src {_source(script)}"] if script else []
    policy += ["base-uri 'none'", "form-action 'none'"]
    text = (
        environment()
        .get_template("document.html")
        .render(
            title=title,
            body=body,
            version=lmassay.__version__,
            policy=Markup("; ".join(policy)),  # noqa: S704 - nothing of it comes from outside
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
        )
    )
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates: everything is escaped, and a name that is not there is an error. ``show`` draws a block."""
    made = Environment(
        loader=PackageLoader("lmassay.reporting"), autoescape=select_autoescape(default=True), undefined=StrictUndefined
    )
    made.globals |= {f.__name__: f for f in (command_line, number_text, p_text)}
    blocks = made.get_template("blocks.html").module
    made.globals |= {name: getattr(blocks, name) for name in ("cell", "table", "show")}
    return made


def _script() -> str:
    parts = map(_template, ("rows.js", "filters.js", "browser.js"))
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def _template(name: str) -> str:
    return files("lmassay.reporting").joinpath(f"templates/{name}").read_text(encoding="utf-8")


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
