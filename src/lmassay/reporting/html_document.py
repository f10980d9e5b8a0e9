"""The HTML document around every page: one file without network access, in which only lmassay's own script can run."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

import lmassay
from lmassay.reporting.line_breaks import breakable, unbroken
from lmassay.reporting.numbers import minus, number_text, p_text
from lmassay.storage.provenance import started_by
from lmassay.types.controls import replace_controls

# UTF-8 cannot represent a lone surrogate, which may come out of a model or a file.
_SURROGATES = re.compile("[\ud800-\udfff]")
STYLES = ("theme.css", "page.css", "figures.css", "tiles.css")
_SECTION_SCRIPTS = ("sections.js",)
_BROWSER_SCRIPTS = ("rows.js", "address.js", "filters.js", "browser.js")
_FIGURE_SCRIPTS = ("figures.js",)


def document(title: str, body: Markup, *, sections: bool = False, browser: bool = False) -> str:
    """Return a complete HTML document around the body of a page.

    ``sections`` adds the script that opens sections by links, ``browser`` the one that the example browser needs. A
    page with figures always has the script that saves figures as files.

    >>> "<script" in document("a <b>", Markup("<p>text</p>"))
    False
    """
    style = style_sheet()
    script = _script(sections=sections, browser=browser, figures="<figure>" in body)
    # The hashes allow only this style and this script, whatever markup a model's answer may contain.
    policy = ["default-src 'none'", f"style-src {_source_hash(style)}"]
    if script:
        policy.append(f"script-src {_source_hash(script)}")
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
    return without_unwritable(text)


def style_sheet() -> str:
    """Return the style sheet of all pages."""
    return "".join(_template_text(name) for name in STYLES)


def without_unwritable(text: str) -> str:
    """Return HTML without characters that it cannot contain or that would reorder the texts around them."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", replace_controls(text))


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the environment of the templates.

    All values are escaped, and an unknown name is an error. Every template can use the macros of ``blocks.html``, such
    as ``show``, which writes a block.
    """
    templates = Environment(
        loader=PackageLoader("lmassay.reporting"), autoescape=select_autoescape(default=True), undefined=StrictUndefined
    )
    for function in (started_by, number_text, p_text):
        templates.globals[function.__name__] = function
    templates.filters["minus"] = minus
    templates.filters["breakable"] = breakable
    templates.filters["unbroken"] = unbroken
    macros = templates.get_template("blocks.html").module
    for name in ("cell", "table", "show", "section", "navigation"):
        templates.globals[name] = getattr(macros, name)
    return templates


def _script(*, sections: bool, browser: bool, figures: bool) -> str:
    names: list[str] = []
    if sections:
        names += _SECTION_SCRIPTS
    if browser:
        names += _BROWSER_SCRIPTS
    if figures:
        names += _FIGURE_SCRIPTS
    if not names:
        return ""
    parts = [_template_text(name) for name in names]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def _template_text(name: str) -> str:
    return files("lmassay.reporting").joinpath(f"templates/{name}").read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    """Return the source expression with which a Content Security Policy allows exactly this text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
