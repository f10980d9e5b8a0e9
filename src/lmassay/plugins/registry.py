"""Names to objects: what evaluations declare (imported when needed), entry points, and ``path/to/file.py:Name``.

A plug-in in an installed package is declared by the package's evaluation, or by an entry point in the group
``lmassay.scorers``, ``lmassay.perturbations``, ``lmassay.tasks`` or ``lmassay.models``. A plug-in in a user's own file
is registered by a decorator when the file is loaded, or simply named: ``my_scorers.py:Overlap``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from lmassay.contracts import Component, resolve
from lmassay.errors import MissingExtra, PluginError, did_you_mean
from lmassay.plugins.builtins import MODELS
from lmassay.plugins.evaluations import OWN_PACKAGE, installed_evaluations, precedence, unloaded_packages_note
from lmassay.plugins.source_folder import SourceFolder

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One registered name: where it comes from, what it is, and whether it can be loaded."""

    name: str
    summary: str
    origin: str
    problem: str = ""


class Registry:
    """A table of plug-ins; a child sees all that its parent has."""

    def __init__(self, parent: Registry | None = None) -> None:
        self._parent = parent
        self._own: dict[tuple[str, str], tuple[Any, str]] = {}
        self._files: dict[Path, ModuleType] = {}
        self._folders: dict[Path, SourceFolder] = {}

    def add(self, kind: str, name: str, obj: Any, origin: str = "") -> None:
        """Register ``obj``; a name that is taken is an error that names both places."""
        origin = origin or _origin_of(obj)
        taken = self._origin(kind, name)
        if taken is not None:
            raise PluginError(
                f"the {kind} '{name}' is registered twice: first in {taken}, again in {origin}; rename one of them"
            )
        self._own[kind, name] = (obj, origin)

    def get(self, kind: str, name: str, base: Path | None = None) -> Any:
        """The object of that name; ``base`` is where a relative ``file.py:Name`` starts from."""
        if _names_a_file(name):
            return self._from_file(kind, name, base)
        found = self._find(kind, name)
        if found is not None:
            return found
        hint = did_you_mean(name, self.names(kind))
        raise PluginError(f"there is no {kind} '{name}'{hint}{unloaded_packages_note()}")

    def names(self, kind: str) -> list[str]:
        own = {n for k, n in self._own if k == kind}
        if self._parent is not None:
            return sorted(own | set(self._parent.names(kind)))
        return sorted(own | set(_declared(kind)) | {e.name for e in _entry_points(kind)})

    def entries(self, kind: str) -> list[RegistryEntry]:
        """All names of a kind for a listing; one broken plug-in does not spoil it."""
        rows: dict[str, RegistryEntry] = {}
        if self._parent is not None:
            rows = {e.name: e for e in self._parent.entries(kind)}
        else:
            for name, offers in _declared(kind).items():
                component, origin = offers[0]
                others = [other for _, other in offers[1:]]
                if others:
                    problem = f"also offered by {', '.join(others)}; remove or rename one"
                else:
                    problem = _import_problem(kind, name, component, origin)
                rows[name] = RegistryEntry(name, component.summary, origin, problem)
            for point in _entry_points(kind):
                origin = _package_of(point)
                if point.name in rows:
                    taken = rows[point.name]
                    problem = f"also offered by {origin}; remove or rename one"
                    rows[point.name] = RegistryEntry(taken.name, taken.summary, taken.origin, problem)
                    continue
                try:
                    rows[point.name] = RegistryEntry(point.name, _summary(point.load()), origin)
                except (Exception, SystemExit) as error:  # any failure of foreign code is shown, not raised
                    rows[point.name] = RegistryEntry(point.name, "", origin, f"cannot be loaded: {error!r}")
        for (k, n), (obj, origin) in self._own.items():
            if k == kind:
                rows[n] = RegistryEntry(n, _summary(obj), origin)
        return [rows[n] for n in sorted(rows)]

    def load_file(self, path: Path, *, again: bool = False) -> ModuleType:
        """Run a user's Python file once; its decorators register into this registry.

        It is run again if ``again``, or if it or a module that it imports from its folder has changed since.
        """
        path = _python_file(path)
        folder = self._folder(path.parent)
        if again or path not in self._files:
            with self.active():
                self._files[path] = folder.load(path, again=again)
        return self._files[path]

    def run_file_again(self, path: Path) -> ModuleType:
        """Load a file even if it was loaded before, so that what it registers twice is reported."""
        return self.load_file(path, again=True)

    def source_of(self, name: str, base: Path | None = None) -> str:
        """The digest of the file in ``file.py:Name``, as it was loaded, and of what it imports from its folder; empty
        for other names."""
        if not _names_a_file(name):
            return ""
        path = _python_file(_path_in(name, base))
        folder = self._folders.get(path.parent) or self._folder(path.parent)
        return f"src:{folder.digest(path)}"

    def files_of(self, path: Path) -> list[Path]:
        """A user's Python file and all files of its folder that it imports."""
        path = _python_file(path)
        return self._folder(path.parent).files(path)

    def _folder(self, path: Path) -> SourceFolder:
        """The modules of a folder; made again if a file that was looked at has changed.

        A notebook and a worker of a cluster live longer than a run. With the old modules in use, answers of the old
        code would be kept under the digest of the new.
        """
        folder = self._folders.get(path)
        if folder is not None and not folder.is_current():
            self._forget(folder)
            folder = None
        if folder is None:
            folder = self._folders[path] = SourceFolder(path)
        return folder

    def _forget(self, folder: SourceFolder) -> None:
        """Drop the modules of a folder and what they registered."""
        del self._folders[folder.folder]
        for path in [path for path in self._files if path.parent == folder.folder]:
            del self._files[path]
        for key in [key for key, (_, origin) in self._own.items() if folder.has(origin)]:
            del self._own[key]

    @contextmanager
    def active(self) -> Iterator[Registry]:
        """Within this block, decorators register here."""
        token = _active.set(self)
        try:
            yield self
        finally:
            _active.reset(token)

    def _origin(self, kind: str, name: str) -> str | None:
        if (kind, name) in self._own:
            return self._own[kind, name][1]
        if self._parent is not None:
            return self._parent._origin(kind, name)
        for _, origin in _declared(kind).get(name, ()):
            return "lmassay itself" if origin == OWN_PACKAGE else f"the package {origin}"
        for point in _entry_points(kind):
            if point.name == name:
                return f"the package {_package_of(point)}"
        return None

    def _registered(self, kind: str, name: str) -> tuple[Any, str]:
        if (kind, name) in self._own:
            return self._own[kind, name]
        return self._parent._registered(kind, name) if self._parent is not None else (None, "")

    def _find(self, kind: str, name: str) -> Any:
        if (kind, name) in self._own:
            return self._own[kind, name][0]
        if self._parent is not None:
            return self._parent._find(kind, name)
        offers = _declared(kind).get(name, [])
        points = [point for point in _entry_points(kind) if point.name == name]
        if len(offers) + len(points) > 1:
            packages = [origin for _, origin in offers] + [_package_of(point) for point in points]
            raise PluginError(
                f"the {kind} '{name}' is offered by {' and '.join(sorted(packages))}; remove or rename one"
            )
        if offers:
            return _imported(kind, name, offers[0][0])
        if points:
            try:
                return points[0].load()
            except (Exception, SystemExit) as error:
                raise PluginError(f"the {kind} '{name}' ({points[0].value}) cannot be loaded: {error!r}") from error
        return None

    def _from_file(self, kind: str, name: str, base: Path | None) -> Any:
        file, attribute = _file_and_attribute(name)
        module = self.load_file(_path_in(name, base))
        if not attribute:
            raise PluginError(f"'{name}' names a file only; write {file}:NAME for one of the {kind}s in it")
        # What this file registered under the name comes first: `@scorer` leaves a plain function behind in the module.
        registered, origin = self._registered(kind, attribute)
        if registered is not None and origin == str(getattr(module, "__file__", "")):
            return registered
        if hasattr(module, attribute):
            return getattr(module, attribute)
        offered = [n for n in vars(module) if not n.startswith("_")]
        raise PluginError(f"{file} has no {kind} '{attribute}'{did_you_mean(attribute, offered)}")


_root = Registry()
_active: ContextVar[Registry] = ContextVar("lmassay_registry", default=_root)


def current_registry() -> Registry:
    """The registry in force here."""
    return _active.get()


def register(kind: str, name: str) -> Callable[[T], T]:
    """Decorator: make a class or function known under a name.

    >>> @register("perturbation", "shout")
    ... def shout(text, rng, rate):
    ...     return text.upper()
    """
    if kind not in kinds():
        raise PluginError(f"there is no kind of plug-in '{kind}'{did_you_mean(kind, kinds())}")

    def remember(obj: T) -> T:
        current_registry().add(kind, name, obj)
        return obj

    return remember


def kinds() -> list[str]:
    """The kinds of plug-ins that can be registered: tasks, models, and what evaluations bring."""
    known = {"task": None, "model": None}
    for evaluation in installed_evaluations().evaluations:
        known |= dict.fromkeys(evaluation.components)
    return list(known)


def _declared(kind: str) -> dict[str, list[tuple[Component, str]]]:
    """The components of a kind by name, each with the packages that declare it; usually one."""
    offers: dict[str, list[tuple[Component, str]]] = {}
    if kind == "model":
        for name, component in MODELS.items():
            offers.setdefault(name, []).append((component, OWN_PACKAGE))
    known = installed_evaluations()
    # lmassay's own first, then by package: the order of the evaluations on the card does not matter here.
    for evaluation in sorted(known.evaluations, key=lambda evaluation: precedence(known.origins[evaluation.name])):
        components = dict(evaluation.components.get(kind, {}))
        if kind == "task":
            components |= {n: Component(entry.path, entry.summary) for n, entry in evaluation.tasks.items()}
        for name, component in components.items():
            offers.setdefault(name, []).append((component, known.origins[evaluation.name]))
    return offers


def _imported(kind: str, name: str, component: Component) -> Any:
    """The object behind a component, which may need an extra that is not installed."""
    try:
        return resolve(component.path)
    except (ModuleNotFoundError, PluginError) as error:
        lacking = error if isinstance(error, ModuleNotFoundError) else error.__cause__
        is_extra = isinstance(lacking, ModuleNotFoundError) and not (lacking.name or "").startswith(OWN_PACKAGE)
        if component.extra and is_extra:
            raise MissingExtra(f"the {kind} {name}", component.extra) from error
        if isinstance(error, PluginError):
            raise PluginError(f"the {kind} '{name}' is not usable: {error}") from error
        raise


def _import_problem(kind: str, name: str, component: Component, origin: str) -> str:
    """Why a component of another package cannot be imported; empty if it can be. Our own are tested."""
    if origin == OWN_PACKAGE:
        return ""
    try:
        _imported(kind, name, component)
    except MissingExtra:
        return ""
    except PluginError as error:
        return str(error)
    return ""


def _entry_points(kind: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    return _entry_points_on(kind, tuple(sys.path))


@functools.cache
def _entry_points_on(kind: str, _path: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    # Looking through all installed packages takes a while; it is done once for each search path.
    return tuple(importlib.metadata.entry_points(group=f"lmassay.{kind}s"))


def _package_of(point: importlib.metadata.EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _origin_of(obj: Any) -> str:
    module = sys.modules.get(getattr(obj, "__module__", ""), None)
    return str(getattr(module, "__file__", None) or getattr(obj, "__module__", "a script"))


def _summary(obj: Any) -> str:
    text = getattr(obj, "summary", None) or getattr(obj, "__doc__", None) or ""
    return str(text).strip().partition("\n")[0]


def _names_a_file(name: str) -> bool:
    return ".py:" in name or name.endswith(".py")


def _file_and_attribute(name: str) -> tuple[str, str]:
    file, _, attribute = name.rpartition(":") if ".py:" in name else (name, "", "")
    return file, attribute


def _path_in(name: str, base: Path | None) -> Path:
    """The file in ``file.py:Name``, which may lie beside the configuration or in the working folder."""
    file, _ = _file_and_attribute(name)
    path = Path(file).expanduser()
    if base is not None and not path.is_absolute() and (base / path).exists():
        return base / path
    return path


def _python_file(path: Path) -> Path:
    """The file itself; Python, too, looks for modules beside the file that a link to a script points to."""
    path = path.expanduser().resolve()
    if not path.is_file():
        raise PluginError(f"there is no file {path}; give the path of a Python file with your plug-in")
    if path.suffix != ".py":
        raise PluginError(f"{path} is not a Python file (its name must end in .py)")
    return path
