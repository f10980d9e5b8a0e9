"""Few-shot learning: tasks, patterns, methods and the protocol that compares them.

A task of the user's own begins with::

    from lmassay.evaluations.fewshot import PVP, DataProcessor, InputExample
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.examples import InputExample
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
    from lmassay.evaluations.fewshot.tasks.processors import DataProcessor
    from lmassay.evaluations.fewshot.tasks.pvp import PVP, Encoded, PVPOutputPattern

__all__ = ["PVP", "DataProcessor", "Encoded", "InputExample", "NluTask", "PVPOutputPattern", "open_task"]

_HOMES = {
    "DataProcessor": "tasks.processors",
    "Encoded": "tasks.pvp",
    "InputExample": "tasks.examples",
    "NluTask": "tasks.nlu",
    "PVP": "tasks.pvp",
    "PVPOutputPattern": "tasks.pvp",
    "open_task": "tasks.nlu",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
