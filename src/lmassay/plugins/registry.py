"""Finds plug-ins by name: built-in ones, those of installed packages, and those in users' own files.

A plug-in of an installed package is declared by the package's evaluation, or by an entry point in the group of its
kind: ``lmassay.tasks``, ``lmassay.models``, ``lmassay.scorers`` and so on. It is imported when it is needed. A plug-in
in a user's own file is registered by a decorator when the file is loaded, or simply named by its path:
``my_scorers.py:Overlap``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from lmassay.contracts import Component, Evaluation, resolve
from lmassay.errors import LmassayError, MissingExtra, PluginError, closest, did_you_mean
from lmassay.plugins.entry_points import installed_points, package_of
from lmassay.plugins.evaluations import OWN_PACKAGE, installed_evaluations, precedence, unloaded_packages_note
from lmassay.plugins.python_objects import find_object, is_python_object
from lmassay.plugins.source_folder import SourceFolder

T = TypeVar("T")

_API = "lmassay.models.api"
# The models that belong to no evaluation.
_MODELS: Final[dict[str, Component]] = {
    "outputs": Component("lmassay.models.outputs:Outputs", "stored outputs, read from files"),
    "openai": Component(f"{_API}.openai_models:OpenAICompatible", "OpenAI, or any compatible server by base URL"),
    "azure": Component(f"{_API}.openai_models:Azure", "a deployment of Azure OpenAI"),
    "clova": Component(f"{_API}.openai_models:Clova", "CLOVA X through CLOVA Studio"),
    "claude": Component(f"{_API}.claude:Claude", "Claude through Anthropic's API"),
    "hf": Component("lmassay.models.hf.model:HuggingFace", "a local Hugging Face model: folder, GGUF file or hub name"),
    "smollm2": Component(
        "lmassay.models.hf.model:SmolLM2", "a small local model, the default; fetch it with lmassay models get smollm2"
    ),
    "echo": Component("lmassay.models.echo:Echo", "returns the prompt; deterministic, for trying things out"),
}


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A registered plug-in in a listing."""

    name: str
    summary: str
    origin: str
    """The package or file it comes from."""
    problem: str = ""
    """Why it cannot be used; empty if it can."""


class Registry:
    """A table of plug-ins. A registry with a parent also has all plug-ins of the parent."""

    def __init__(self, parent: Registry | None = None) -> None:
        self._parent = parent
        # (kind, name) → the object and the file it comes from; without those of the parent.
        self._own: dict[tuple[str, str], tuple[Any, str]] = {}
        # The users' Python files that have been run.
        self._files: dict[Path, ModuleType] = {}
        self._folders: dict[Path, SourceFolder] = {}

    def add(self, kind: str, name: str, obj: Any, origin: str = "") -> None:
        """Register an object. Raises PluginError if the name is taken.

        ``origin`` is where the object comes from, for messages; by default the file that defines it.
        """
        origin = origin or _origin_of(obj)
        first_origin = self._origin(kind, name)
        if first_origin is not None:
            raise PluginError(
                f"the {kind} '{name}' is registered twice: first in {first_origin}, again in {origin}; "
                "rename one of them"
            )
        self._own[kind, name] = (obj, origin)

    def get(self, kind: str, name: str, base: Path | None = None) -> Any:
        """Return the plug-in with this name. A relative path in ``file.py:Name`` starts at ``base``.

        Raises a PluginError if there is none, or if it cannot be imported.
        """
        if is_python_object(name):
            return find_object(name).create
        if _names_a_file(name):
            return self._from_file(kind, name, base)
        plugin = self._find(kind, name)
        if plugin is not None:
            return plugin
        hint = did_you_mean(name, self.names(kind))
        if kind == "model" and _is_local_model(name, base):
            hint = f"; for the model in this folder or file, write {{name: hf, model: {name}}}"
        elif kind == "model" and closest(name, self.names(kind)) is None:
            hint += f"; for a model on the hub, write {{name: hf, model: {name}}}"
        raise PluginError(f"there is no {kind} '{name}'{hint}{unloaded_packages_note()}")

    def names(self, kind: str) -> list[str]:
        """Return the names of all plug-ins of a kind, sorted."""
        names = {name for own_kind, name in self._own if own_kind == kind}
        if self._parent is not None:
            names.update(self._parent.names(kind))
        else:
            names.update(_declared(kind))
            names.update(point.name for point in _entry_points(kind))
        return sorted(names)

    def entries(self, kind: str) -> list[RegistryEntry]:
        """Return all plug-ins of a kind for a listing; a plug-in that cannot be loaded is listed with the reason."""
        if self._parent is not None:
            entries = {entry.name: entry for entry in self._parent.entries(kind)}
        else:
            entries = _installed_entries(kind)
        for (own_kind, name), (obj, origin) in self._own.items():
            if own_kind == kind:
                entries[name] = RegistryEntry(name, _summary(obj), origin)
        return [entries[name] for name in sorted(entries)]

    def load_file(self, path: Path, *, again: bool = False) -> ModuleType:
        """Run a user's Python file and return its module; its decorators register plug-ins in this registry.

        A file is run once, unless ``again`` is set or the file or a module that it imports from its folder has changed.
        """
        path = _python_file(path)
        folder = self._folder(path.parent)
        if again or path not in self._files:
            try:
                with self.active():
                    self._files[path] = folder.load(path, again=again)
            except BaseException:
                self._forget_failed(folder)
                raise
        return self._files[path]

    def run_file_again(self, path: Path) -> ModuleType:
        """Load a file even if it was loaded before, so that names that it registers twice are reported."""
        return self.load_file(path, again=True)

    def source_of(self, name: str, base: Path | None = None) -> str:
        """Return the digest of the file in ``file.py:Name`` and of the modules that it imports from its folder.

        It is the digest of the code as it was loaded. For an object of a Python program, it is the digest of its code
        and state. For other names it is empty. A relative path starts at ``base``.
        """
        if is_python_object(name):
            return find_object(name).source
        if not _names_a_file(name):
            return ""
        path = _python_file(_path_in(name, base))
        folder = self._folders.get(path.parent) or self._folder(path.parent)
        return f"src:{folder.digest(path)}"

    def files_of(self, path: Path) -> list[Path]:
        """Return a user's Python file and all files of its folder that it imports."""
        path = _python_file(path)
        return self._folder(path.parent).files(path)

    def _folder(self, path: Path) -> SourceFolder:
        """Return the modules of a folder; they are loaded again if one of their files has changed.

        A notebook or a cluster worker may run for days. If it kept using the old modules, it would store answers
        of the old code under the digest of the new code.
        """
        folder = self._folders.get(path)
        if folder is not None and not folder.is_current():
            self._forget(folder)
            folder = None
        if folder is None:
            folder = SourceFolder(path)
            self._folders[path] = folder
        return folder

    def _forget(self, folder: SourceFolder) -> None:
        """Remove the modules of a folder and the plug-ins that they registered."""
        del self._folders[folder.folder]
        for path in list(self._files):
            if path.parent == folder.folder:
                del self._files[path]
        for key, (_, origin) in list(self._own.items()):
            if folder.has_read(origin):
                del self._own[key]

    def _forget_failed(self, folder: SourceFolder) -> None:
        """Remove the plug-ins of modules that failed to import; their names would be taken at the next try."""
        for key, (obj, origin) in list(self._own.items()):
            # Python keeps only modules that were imported without an error.
            if folder.has_read(origin) and getattr(obj, "__module__", "") not in sys.modules:
                del self._own[key]

    @contextmanager
    def active(self) -> Iterator[Registry]:
        """Let decorators register in this registry within a ``with`` block."""
        token = _active.set(self)
        try:
            yield self
        finally:
            _active.reset(token)

    def _origin(self, kind: str, name: str) -> str | None:
        """Return where a registered name comes from; None if the name is free."""
        if (kind, name) in self._own:
            return self._own[kind, name][1]
        if self._parent is not None:
            return self._parent._origin(kind, name)
        declarations = _declared(kind).get(name, [])
        if declarations:
            _, package = declarations[0]
            if package == OWN_PACKAGE:
                return "lmassay itself"
            return f"the package {package}"
        for point in _entry_points(kind):
            if point.name == name:
                return f"the package {package_of(point)}"
        return None

    def _registered(self, kind: str, name: str) -> tuple[Any, str]:
        """Return a registered plug-in and the file it comes from; None and an empty text if there is none."""
        if (kind, name) in self._own:
            return self._own[kind, name]
        if self._parent is not None:
            return self._parent._registered(kind, name)
        return (None, "")

    def _find(self, kind: str, name: str) -> Any:
        """Return a plug-in by its registered name, importing it if necessary; None if there is none.

        Raises a PluginError if several packages provide the name, or if the plug-in cannot be imported.
        """
        if (kind, name) in self._own:
            return self._own[kind, name][0]
        if self._parent is not None:
            return self._parent._find(kind, name)
        declarations = _declared(kind).get(name, [])
        points = [point for point in _entry_points(kind) if point.name == name]
        packages = [origin for _, origin in declarations]
        packages += [package_of(point) for point in points]
        if len(packages) > 1:
            raise PluginError(
                f"the {kind} '{name}' is provided by {' and '.join(sorted(packages))}; remove or rename one"
            )
        if declarations:
            return _imported(kind, name, declarations[0][0])
        if points:
            try:
                return points[0].load()
            except (Exception, SystemExit) as error:
                raise PluginError(f"the {kind} '{name}' ({points[0].value}) cannot be loaded: {error!r}") from error
        return None

    def _from_file(self, kind: str, name: str, base: Path | None) -> Any:
        """Return the plug-in that ``file.py:NAME`` names, after loading the file."""
        file, attribute = _file_and_attribute(name)
        module = self.load_file(_path_in(name, base))
        if not attribute:
            raise PluginError(f"'{name}' names only a file; write {file}:NAME for one of the {kind}s in it")
        # A plug-in that this file registered comes first: `@scorer` leaves a plain function in the module.
        registered, origin = self._registered(kind, attribute)
        if registered is not None and origin == str(getattr(module, "__file__", "")):
            return registered
        if hasattr(module, attribute):
            return getattr(module, attribute)
        raise PluginError(f"{file} has no {kind} '{attribute}'{did_you_mean(attribute, _defined_in(module))}")


def _defined_in(module: ModuleType) -> list[str]:
    """The public names that a file defines itself, without what it imports, such as the decorator ``scorer``."""
    names = []
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, ModuleType):
            continue
        # A plain value, such as a number, does not say where it comes from.
        if getattr(value, "__module__", module.__name__) == module.__name__:
            names.append(name)
    return names


_root = Registry()
_active: ContextVar[Registry] = ContextVar("lmassay_registry", default=_root)


def current_registry() -> Registry:
    """Return the registry that is in use."""
    return _active.get()


def register(kind: str, name: str) -> Callable[[T], T]:
    """Register a class or function as a plug-in under a name; used as a decorator.

    Raises PluginError for an unknown kind, or if the name is taken.

    >>> @register("perturbation", "shout")
    ... def shout(text, rng, rate):
    ...     return text.upper()
    """
    if kind not in kinds():
        raise PluginError(f"there is no kind of plug-in '{kind}'{did_you_mean(kind, kinds())}")

    def add(obj: T) -> T:
        current_registry().add(kind, name, obj)
        return obj

    return add


def kinds() -> list[str]:
    """Return the kinds of plug-ins: tasks, models, and those that evaluations define, such as scorers."""
    all_kinds = {"task": None, "model": None}
    for evaluation in installed_evaluations().evaluations:
        all_kinds |= dict.fromkeys(evaluation.components)
    return list(all_kinds)


def _declared(kind: str) -> dict[str, list[tuple[Component, str]]]:
    """Return the components of a kind: name → each declaration with its package; usually there is one."""
    declarations: dict[str, list[tuple[Component, str]]] = {}
    if kind == "model":
        for name, component in _MODELS.items():
            declarations[name] = [(component, OWN_PACKAGE)]
    installed = installed_evaluations()
    # lmassay's own components come first, then those of other packages in the order of their names. The order in which
    # reports show evaluations does not matter here.
    for evaluation in sorted(installed.evaluations, key=lambda evaluation: precedence(_package(evaluation))):
        components = dict(evaluation.components.get(kind, {}))
        if kind == "task":
            for name, entry in evaluation.tasks.items():
                components[name] = Component(entry.path, entry.summary)
        for name, component in components.items():
            declarations.setdefault(name, []).append((component, _package(evaluation)))
    return declarations


def _package(evaluation: Evaluation) -> str:
    return installed_evaluations().origins[evaluation.name]


def _installed_entries(kind: str) -> dict[str, RegistryEntry]:
    """Return the plug-ins of a kind that evaluations and entry points of installed packages provide, by name."""
    entries: dict[str, RegistryEntry] = {}
    for name, declarations in _declared(kind).items():
        component, origin = declarations[0]
        others = [other for _, other in declarations[1:]]
        if others:
            problem = f"also provided by {', '.join(others)}; remove or rename one"
        else:
            problem = _import_problem(kind, name, component, origin)
        entries[name] = RegistryEntry(name, component.summary, origin, problem)
    for point in _entry_points(kind):
        origin = package_of(point)
        if point.name in entries:
            problem = f"also provided by {origin}; remove or rename one"
            entries[point.name] = replace(entries[point.name], problem=problem)
            continue
        try:
            entries[point.name] = RegistryEntry(point.name, _summary(point.load()), origin)
        except (Exception, SystemExit) as error:
            # Whatever another package's code raises, the listing goes on.
            entries[point.name] = RegistryEntry(point.name, "", origin, f"cannot be loaded: {error!r}")
    return entries


def _is_local_model(name: str, base: Path | None) -> bool:
    """Return whether a name is the path of a model folder or GGUF file, which belongs in the option ``hf.model``."""
    path = (base or Path()) / Path(name).expanduser()
    return path.is_dir() or (path.is_file() and path.suffix == ".gguf")


def _imported(kind: str, name: str, component: Component) -> Any:
    """Import a component. If a library of its extra is missing, raise MissingExtra."""
    try:
        return resolve(component.path)
    except (ModuleNotFoundError, PluginError) as error:
        cause = error if isinstance(error, ModuleNotFoundError) else error.__cause__
        is_library = isinstance(cause, ModuleNotFoundError) and not (cause.name or "").startswith(OWN_PACKAGE)
        if component.extra and is_library:
            raise MissingExtra(f"the {kind} {name}", component.extra) from error
        if isinstance(error, PluginError):
            raise PluginError(f"the {kind} '{name}' is not usable: {error}") from error
        raise


def _import_problem(kind: str, name: str, component: Component, origin: str) -> str:
    """Return why a component of another package cannot be imported; empty if it can."""
    if origin == OWN_PACKAGE:
        # lmassay's tests import all of its own components, and importing them here would slow down every listing.
        return ""
    try:
        _imported(kind, name, component)
    except MissingExtra:
        # Nothing is wrong with the component; the user can install the extra.
        return ""
    except LmassayError as error:
        # Whatever another package's code raises, the listing goes on.
        return str(error)
    return ""


def _entry_points(kind: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    return installed_points(f"lmassay.{kind}s")


def _origin_of(obj: Any) -> str:
    """Return the file of the module that defines an object, or the name of the module if it has no file."""
    module = sys.modules.get(getattr(obj, "__module__", ""), None)
    return str(getattr(module, "__file__", None) or getattr(obj, "__module__", "a script"))


def _summary(obj: Any) -> str:
    """Return the first line of an object's summary, or of its docstring if it has no summary."""
    text = getattr(obj, "summary", None) or getattr(obj, "__doc__", None) or ""
    return str(text).strip().partition("\n")[0]


def _names_a_file(name: str) -> bool:
    return ".py:" in name or name.endswith(".py")


def _file_and_attribute(name: str) -> tuple[str, str]:
    if ".py:" not in name:
        return name, ""
    file, _, attribute = name.rpartition(":")
    return file, attribute


def _path_in(name: str, base: Path | None) -> Path:
    """Return the path of the file in ``file.py:Name``, relative to the configuration or to the working folder."""
    file, _ = _file_and_attribute(name)
    path = Path(file).expanduser()
    if base is not None and not path.is_absolute() and (base / path).exists():
        return base / path
    return path


def _python_file(path: Path) -> Path:
    """Return the absolute path of a Python file, with links resolved.

    Like Python, lmassay looks for modules next to the file that a link points to.
    """
    path = path.expanduser().resolve()
    if not path.is_file():
        raise PluginError(f"there is no file {path}; give the path of a Python file with your plug-in")
    if path.suffix != ".py":
        raise PluginError(f"{path} is not a Python file (its name must end in .py)")
    return path
