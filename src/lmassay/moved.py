"""Import paths of earlier versions that the documentation named. They keep working with a DeprecationWarning."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Old path → new path. The packages above an old module are listed, too, for Python imports them first.
MOVED = {
    "lmassay.cli.common": "lmassay.cli.options",
    "lmassay.combination": "lmassay.statistics.combination",
    "lmassay.evaluations.fewshot.methods.options": "lmassay.evaluations.fewshot.methods.training",
    "lmassay.fewshot": "lmassay.evaluations.fewshot",
    "lmassay.fewshot.methods": "lmassay.evaluations.fewshot.methods",
    "lmassay.fewshot.methods.contract": "lmassay.evaluations.fewshot.methods.contract",
    "lmassay.fewshot.methods.options": "lmassay.evaluations.fewshot.methods.training",
    "lmassay.fewshot.splits": "lmassay.evaluations.fewshot.protocol.splits",
    "lmassay.stats": "lmassay.statistics.intervals",
    "lmassay.syntax": "lmassay.evaluations.syntax",
    "lmassay.syntax.grammar": "lmassay.evaluations.syntax.grammar.grammar",
    "lmassay.syntax.sentences": "lmassay.evaluations.syntax.sentences",
    "lmassay.syntax.sources": "lmassay.evaluations.syntax.sources",
    "lmassay.table": "lmassay.statistics.table",
}


class MovedModules:
    """Finds a module under its old path; it is asked only after Python has found nothing there itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        new = MOVED.get(fullname)
        if new is None:
            return None
        is_package = any(other.startswith(f"{fullname}.") for other in MOVED)
        return ModuleSpec(fullname, _Alias(new), is_package=is_package)  # type: ignore[arg-type]  # no base class: its import is slow


class _Alias:
    """Loads a module that hands on whatever is asked of it to the module at the new path."""

    def __init__(self, new: str) -> None:
        self._new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name, f"Moved to {self._new}.")

    def exec_module(self, module: ModuleType) -> None:
        old, new = module.__name__, self._new
        real = importlib.import_module(new)
        # Only who uses an old path pays for these imports.
        from lmassay.errors import OldPluginWarning

        warnings.warn(f"{old} has moved to {new}; the old path will go in 1.0", OldPluginWarning, stacklevel=2)

        def hand_on(name: str) -> Any:
            return getattr(real, name)

        module.__getattr__ = hand_on  # type: ignore[method-assign]
        public = [name for name in dir(real) if not name.startswith("_")]
        # What `from … import *` brings.
        vars(module)["__all__"] = getattr(real, "__all__", public)
