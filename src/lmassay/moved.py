"""Documented import paths of earlier versions, which keep working with a deprecation warning (OldPluginWarning)."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Old path → new path. The packages above an old module are listed, too, because Python imports them first.
MOVED = {
    "lmassay.cli.common": "lmassay.cli.options",
    "lmassay.cli.tables": "lmassay.cli.table_output",
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
    """An import finder for old paths. It is the last finder, so Python asks it only if no real module is found."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load the module that an old path stands for; None for any other path."""
        new_path = MOVED.get(fullname)
        if new_path is None:
            return None
        is_package = any(other.startswith(f"{fullname}.") for other in MOVED)
        loader = _AliasLoader(new_path)
        # The loader has no base class, because importing importlib.abc is slow.
        return ModuleSpec(fullname, loader, is_package=is_package)  # type: ignore[arg-type]


class _AliasLoader:
    """Loads a module that forwards all names to the module at the new path."""

    def __init__(self, new_path: str) -> None:
        self._new_path = new_path

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name, f"Moved to {self._new_path}.")

    def exec_module(self, module: ModuleType) -> None:
        new_module = importlib.import_module(self._new_path)
        # Imported here, so that only programs that use an old path spend time on it.
        from lmassay.errors import OldPluginWarning

        message = f"{module.__name__} has moved to {self._new_path}; the old path will be removed in 1.0"
        warnings.warn(message, OldPluginWarning, stacklevel=2)

        def forward(name: str) -> Any:
            return getattr(new_module, name)

        module.__getattr__ = forward  # type: ignore[method-assign]
        # `from … import *` reads __all__.
        public_names = [name for name in dir(new_module) if not name.startswith("_")]
        vars(module)["__all__"] = getattr(new_module, "__all__", public_names)
