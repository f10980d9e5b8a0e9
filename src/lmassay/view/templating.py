"""Renders the pages of the view. Everything is escaped, and keys in use are blanked out of every page."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

import lmassay
from lmassay.redaction import without_keys
from lmassay.reporting.html_document import environment as page_environment
from lmassay.reporting.html_document import without_unwritable
from lmassay.reporting.line_breaks import breakable
from lmassay.reporting.numbers import minus
from lmassay.types.wording import counted, duration_text


def render(template: str, **values: Any) -> str:
    """Return a page, or a part of one, as HTML."""
    return without_unwritable(without_keys(_environment().get_template(template).render(**values)))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Return the template environment with the functions and filters that the pages use."""
    templates = Environment(
        loader=PackageLoader("lmassay.view"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Tables and figures look as in the report.
    templates.globals["show"] = page_environment().globals["show"]
    templates.globals["lmassay_version"] = lmassay.__version__
    templates.globals["counted"] = counted
    templates.globals["duration"] = duration_text
    templates.filters["moment"] = moment_text
    templates.filters["minus"] = minus
    templates.filters["breakable"] = breakable
    templates.filters["in_path"] = _in_path
    return templates


def moment_text(moment: str | float | None) -> str:
    """Return a time in the local time zone, to the minute; empty if it is not known."""
    if moment is None or moment == "":
        return ""
    try:
        if isinstance(moment, str):
            local = datetime.fromisoformat(moment).astimezone()
        else:
            local = datetime.fromtimestamp(moment).astimezone()
    except (ValueError, OverflowError, OSError):
        # The time of a damaged run may be lost.
        return ""
    return local.strftime("%Y-%m-%d %H:%M")


def _in_path(text: object) -> str:
    return quote(str(text), safe="")
