"""A digest of a Python object that changes when its behaviour may change: its code and everything that the code uses.

The digest of a function covers its compiled code, default arguments, captured variables, and the global variables,
functions, classes and modules that it names, and so on for these. Installed packages count by name and version. Some
objects cannot be compared, for example an open connection or a model of another library. A function that uses one gets
a digest that is valid in this Python process only, so that its answers are never taken for those of another function.

Keys that are found on the way, such as an attribute ``api_key``, are remembered, because the object may repeat them in
an answer or an error.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import re
import secrets
import sys
import sysconfig
import types
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path, PurePath
from typing import Any

from lmassay.plugins.source_folder import SourceFolder
from lmassay.redaction import is_secret_option, may_be_key, remember_secret

_DIGEST_LENGTH = 12
# The digest covers at most this many parts. An object that leads to more, such as a whole library, counts as one that
# cannot be compared.
_MAX_PARTS = 20_000
# The repr of a value of these types identifies it.
_PLAIN = (bool, int, float, complex, str, bytes, range, date, datetime, timedelta, PurePath, type(None), type(Ellipsis))
# Object that cannot be compared → a random token that replaces its state.
_tokens: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The digest of an object, and the first thing in it that cannot be compared."""

    digest: str
    not_comparable: str = ""
    """What cannot be compared, with its type: ``client (OpenAI)``; empty if everything can."""


def fingerprint(value: Any) -> Fingerprint:
    """Return the digest of an object; if something in it cannot be compared, the digest is valid in this process only.

    >>> def shout(text):
    ...     return text.upper()
    >>> fingerprint(shout).not_comparable
    ''
    """
    walk = _Walk()
    walk.add(value, _name_of(value))
    if walk.not_comparable:
        walk.parts.append(_process_token(value))
    state = hashlib.sha256("\0".join(walk.parts).encode("utf-8", "surrogatepass"))
    return Fingerprint(state.hexdigest()[:_DIGEST_LENGTH], walk.not_comparable)


def _process_token(value: Any) -> str:
    """Return a random text that belongs to this object as long as it exists."""
    try:
        return _tokens.setdefault(value, secrets.token_hex(8))
    except TypeError:
        # The object is not hashable or does not allow weak references, so each call gets a new token.
        return secrets.token_hex(8)


class _Walk:
    """Collects a description of an object and of everything it uses."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.not_comparable = ""
        # id → position and object. Keeping the objects alive ensures that no other object gets the same id.
        self._seen: dict[int, tuple[int, Any]] = {}

    def add(self, value: Any, name: str) -> None:
        """Add a value; ``name`` is what :attr:`Fingerprint.not_comparable` calls it."""
        if isinstance(value, enum.Enum):
            self._text("enum", f"{type(value).__qualname__}.{value.name}")
            if not _installed_package(type(value).__module__):
                self.add(value.value, name)
            return
        if type(value) in _PLAIN or isinstance(value, PurePath):
            _remember_key(name, value)
            self._text(type(value).__name__, repr(value))
            return
        if len(self.parts) > _MAX_PARTS:
            self._give_up(name, value)
            return
        if id(value) in self._seen:
            self._text("again", str(self._seen[id(value)][0]))
            return
        self._seen[id(value)] = (len(self._seen), value)
        self._add_object(value, name)

    def _add_object(self, value: Any, name: str) -> None:
        """Add an object that is not a plain value; its type decides what is added."""
        if isinstance(value, tuple | list | set | frozenset):
            self._collection(value, name)
        elif isinstance(value, Mapping) and type(value).__module__ in ("builtins", "collections", "types"):
            self._text("mapping", str(len(value)))
            for key, inner in value.items():
                self.add(key, name)
                self.add(inner, f"{name}[{key!r}]")
        elif isinstance(value, re.Pattern):
            self._text("pattern", repr((value.pattern, value.flags)))
        elif isinstance(value, functools.partial):
            self._text("partial", "")
            for part in (value.func, value.args, value.keywords):
                self.add(part, name)
        elif isinstance(value, types.MethodType):
            self._text("method", value.__name__)
            self.add(value.__func__, name)
            self.add(value.__self__, f"{name}.__self__")
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType):
            self._text("builtin", f"{getattr(value, '__module__', '')}.{value.__qualname__}")
            owner = getattr(value, "__self__", None)
            if owner is not None and not isinstance(owner, types.ModuleType | type):
                self.add(owner, f"{name}.__self__")
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, staticmethod | classmethod):
            self.add(value.__func__, name)
        elif isinstance(value, property):
            for function in (value.fget, value.fset, value.fdel):
                self.add(function, name)
        elif isinstance(value, functools.cached_property):
            self.add(value.func, name)
        elif isinstance(value, functools._lru_cache_wrapper):
            # Only the function matters; the results that it has cached do not.
            self.add(value.__wrapped__, name)
        elif type(value).__module__ == "numpy":
            self._array(value, name)
        else:
            self._instance(value, name)

    def _text(self, kind: str, text: str) -> None:
        self.parts.append(f"{kind}:{len(text)}:{text}")

    def _give_up(self, name: str, value: Any) -> None:
        self._text("unknown", type(value).__qualname__)
        if not self.not_comparable:
            self.not_comparable = f"{name} ({type(value).__name__})"

    def _collection(self, value: tuple[Any, ...] | list[Any] | set[Any] | frozenset[Any], name: str) -> None:
        self._text(type(value).__name__, str(len(value)))
        members = list(value)
        if isinstance(value, set | frozenset):
            # The order of a set differs between processes.
            members.sort(key=repr)
        for member in members:
            self.add(member, name)

    def _array(self, value: Any, name: str) -> None:
        is_numeric = hasattr(value, "tobytes") and value.dtype.kind in "biufcSU"
        if not is_numeric:
            self._give_up(name, value)
            return
        self._text("array", f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}")

    def _function(self, function: types.FunctionType) -> None:
        """Add a user's function with everything that it uses; a function of an installed package only by its name."""
        package = _installed_package(function.__module__)
        if package:
            self._text("function", f"{package}:{function.__module__}.{function.__qualname__}")
            return
        self._text("function", "")
        for parameter in inspect.signature(function, follow_wrapped=False).parameters.values():
            _remember_key(parameter.name, parameter.default)
        self.add(function.__defaults__, function.__name__)
        self.add(function.__kwdefaults__, function.__name__)
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            self._text("captured", variable)
            try:
                content = cell.cell_contents
            except ValueError:
                # A variable that has no value yet.
                self._text("empty", "")
                continue
            self.add(content, variable)
        self._code(function.__code__, function.__globals__)

    def _code(self, code: types.CodeType, variables: Mapping[str, Any]) -> None:
        """Add compiled code: its instructions, names and constants, and the global variables that it uses."""
        self._text("code", code.co_code.hex())
        self._text("names", repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags)))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                # A nested function, class or comprehension.
                self._code(constant, variables)
            else:
                self.add(constant, "constant")
        for name in code.co_names:
            if name in variables:
                self._text("global", name)
                self.add(variables[name], name)

    def _class(self, cls: type) -> None:
        """Add a user's class with its base classes and members; a class of an installed package only by its name."""
        package = _installed_package(cls.__module__)
        if package:
            self._text("class", f"{package}:{cls.__module__}.{cls.__qualname__}")
            return
        self._text("class", cls.__qualname__)
        for base in cls.__bases__:
            self.add(base, base.__name__)
        for name, member in vars(cls).items():
            # Attributes such as __module__ differ between Python versions, and annotations do not affect what the class
            # does. Methods such as __init__ count.
            if name.startswith("__") and name.endswith("__") and not inspect.isroutine(member):
                continue
            if isinstance(member, types.GetSetDescriptorType | types.MemberDescriptorType):
                continue
            self._text("member", name)
            self.add(member, f"{cls.__name__}.{name}")

    def _module(self, module: types.ModuleType) -> None:
        package = _installed_package(module.__name__)
        file = getattr(module, "__file__", None)
        if package:
            self._text("module", f"{package}:{module.__name__}")
        elif file and Path(file).suffix == ".py":
            path = Path(file).resolve()
            self._text("module", f"{module.__name__}:{SourceFolder(path.parent).digest(path)}")
        else:
            self._give_up(module.__name__, module)

    def _instance(self, value: Any, name: str) -> None:
        """Add an object of a user's class, or of one of lmassay's, with its attributes.

        Objects of other libraries, and objects without a ``__dict__``, cannot be compared.
        """
        cls = type(value)
        is_own = cls.__module__.partition(".")[0] == "lmassay"
        if (_installed_package(cls.__module__) and not is_own) or not hasattr(value, "__dict__"):
            self._give_up(name, value)
            return
        self._text("object", "")
        self.add(cls, name)
        for attribute, content in sorted(vars(value).items()):
            self._text("attribute", attribute)
            self.add(content, f"{name}.{attribute}")


def _remember_key(name: str, value: Any) -> None:
    """Remember a value whose name says that it is a key; a name is like ``client.api_key`` or ``options['key']``."""
    *_, last_name = ["", *re.findall(r"\w+", name)]
    is_key = is_secret_option(last_name) or last_name.lower() == "key"
    if is_key and isinstance(value, str) and may_be_key(value):
        remember_secret(value)


def _name_of(value: Any) -> str:
    if isinstance(value, types.FunctionType | type):
        return value.__name__
    return type(value).__name__


@functools.cache
def _installed_package(module_name: str) -> str:
    """Return name and version of the installed package of a module; empty for a user's own code.

    The standard library counts as the package ``python``. lmassay counts as installed even if it is imported from a
    source folder.
    """
    top = module_name.partition(".")[0]
    if top == "__main__":
        return ""
    if top in sys.stdlib_module_names:
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    module = sys.modules.get(top)
    if module is None:
        return ""
    file = getattr(module, "__file__", None)
    paths = sysconfig.get_paths()
    folders = {Path(paths[kind]).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    is_installed = file is not None and any(Path(file).resolve().is_relative_to(folder) for folder in folders)
    if not is_installed and top != "lmassay":
        return ""
    return f"{top} {getattr(module, '__version__', '')}"
