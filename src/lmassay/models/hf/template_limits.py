"""Limits for chat templates, which are programs that come with a model.

transformers runs them in a sandbox: they cannot reach files or attributes, and a single loop has at most 100,000 steps.
Loops inside loops can still run for years, and products can fill the memory.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_TAG = re.compile(r"\{[{%](.*?)[%}]\}", re.DOTALL)
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
# A power, or a product with a number of six digits or more. Templates of real models have neither.
_HUGE_PRODUCT = re.compile(r"\*\*|\*\s*\d{6,}|\d{6,}\s*\*")


class EndlessTemplateError(Exception):
    """A template that does not end in time or would fill the memory."""


def refuse_huge_products(template: Any) -> None:
    """Raise EndlessTemplateError for products that would fill the memory in one step, which no timer could stop."""
    if not isinstance(template, str):
        return
    for tag in _TAG.findall(template):
        if _HUGE_PRODUCT.search(_STRING.sub("''", tag)):
            raise EndlessTemplateError("multiplies with a huge number")


@contextmanager
def limited_steps(seconds: float) -> Iterator[None]:
    """Raise EndlessTemplateError in the code of a ``with`` block when it has computed for too long.

    The time is checked at each line of Python, so this works in all threads and processes and on all platforms, unlike
    signals. It is the computing time of the thread, because a busy machine must not change results.
    """
    end = time.thread_time() + seconds

    def check(frame: FrameType, event: str, argument: Any) -> Any:
        if time.thread_time() > end:
            raise EndlessTemplateError(f"did not end after {seconds:g} seconds")
        return check

    before = sys.gettrace()
    sys.settrace(check)
    try:
        yield
    finally:
        sys.settrace(before)
