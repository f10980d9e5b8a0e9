"""What ``lmassay methods NAME`` prints: the options of a method, and an example of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lmassay.plugins.option_help import ComponentHelp, options_of, required_values, section_text


def method_help(name: str, factory: Callable[..., Any]) -> ComponentHelp:
    """Explain a few-shot method. In a configuration it is an option of the task."""
    method = {"name": name, **required_values(factory)}
    task = {"name": "fewshot", "data": "superglue/rte", "method": method}
    return ComponentHelp(options_of(factory), section_text("task", task))
