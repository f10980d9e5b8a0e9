"""Loads a user's Python file together with the modules in the same folder.

Python puts the folder of a script first on ``sys.path``, so that the script can ``import utils``. lmassay loads
plug-ins from several folders into one process, and each folder may have its own ``utils.py``. Therefore the folder of a
plug-in becomes a private package, and imports of modules of the folder are rewritten: ``import utils`` is compiled as
``import lmassay_user_0f3c….utils as utils``. These modules are invisible to plug-ins in other folders, to lmassay and
to installed packages, even if one of them is called ``json.py``.

The same analysis of imports determines which files a plug-in consists of before anything is run, including imports
inside functions. The files are run as they were when they were analysed, even if they change in between, so the digest
of these files is the digest of the code that runs.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from lmassay.errors import PluginError
from lmassay.storage.files import record_reads, sha256

PREFIX = "lmassay_user_"
"""The prefix of the names of private packages."""

# Python finds these before it searches a script's folder. A file lmassay.py must not hide lmassay, whose base classes
# the plug-in needs.
_NEVER_SIBLINGS = frozenset({*sys.builtin_module_names, "__future__", "lmassay"})
# Functions that import a module by a name that may be computed.
_IMPORT_FUNCTIONS = frozenset({"import_module", "__import__"})


class SourceFolder:
    """The files of one folder as they were when they were first read, and the modules that were created from them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = ""
        """The name of the private package; empty until the first file is loaded."""
        # The contents of each source file when it was first read, and their digest.
        self._sources: dict[Path, bytes] = {}
        self._digests: dict[Path, str] = {}
        # Source file → the files of the folder that it imports directly.
        self._imported: dict[Path, list[Path]] = {}
        self._finders: dict[str, FileFinder] = {}
        # Source file → data files that it read while it was loaded → their digests.
        self._data_files: dict[Path, dict[Path, str]] = {}

    def load(self, path: Path, *, again: bool = False) -> ModuleType:
        """Return the module of a file in the folder. The file is run the first time, or if ``again`` is set."""
        # A dot in the name would mean a package.
        stem = path.stem.replace(".", "_")
        self._make_package()
        name = f"{self.package}.{stem}"
        if name in sys.modules and not again:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path, loader=_FirstReadLoader(self, name, str(path)))
        if spec is None or spec.loader is None:
            raise PluginError(f"{path} cannot be loaded as a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            sys.modules.pop(name, None)
            if isinstance(error, KeyboardInterrupt | PluginError):
                raise
            raise PluginError(self._import_failure(error, path)) from error
        setattr(sys.modules[self.package], stem, module)
        return module

    def _make_package(self) -> None:
        if self.package:
            return
        self.package = _free_package_name(self.folder)
        sys.modules[self.package] = _Package(self)
        if not any(isinstance(finder, _PackageFinder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _PackageFinder())

    def files(self, path: Path) -> list[Path]:
        """Return a file and all files of the folder that it imports, directly or indirectly, sorted."""
        files = {path}
        to_read = [path]
        while to_read:
            for imported in self._imported_by(to_read.pop()):
                if imported not in files:
                    files.add(imported)
                    to_read.append(imported)
        return sorted(files)

    def digest(self, path: Path) -> str:
        """Return eight hexadecimal digits that identify the code of a plug-in.

        They change with the file, with the modules that it imports from the folder, and with the files that these read
        through lmassay when they are loaded.
        """
        files = self.files(path)
        data_digests: list[str] = []
        for source in files:
            data_digests += self._data_files.get(source, {}).values()
        if files == [path] and not data_digests:
            # The digest of earlier versions, so that stored runs and answers of a plug-in in one file stay valid.
            return hashlib.sha256(_normalised(self.source(path))).hexdigest()[:8]
        state = hashlib.sha256()
        for file in files:
            name = file.relative_to(self.folder).as_posix().encode("utf-8", "surrogateescape")
            state.update(name + b"\0" + hashlib.sha256(self._source_or_empty(file)).digest())
        for digest in data_digests:
            state.update(f"\0{digest}".encode())
        return state.hexdigest()[:8]

    def is_current(self) -> bool:
        """Return whether all files are as they were when they were first read."""
        digests = list(self._digests.items())
        for data_files in self._data_files.values():
            digests += data_files.items()
        try:
            return all(sha256(file) == digest for file, digest in digests)
        except OSError:
            return False

    def has_read(self, file: str) -> bool:
        """Return whether a file has been read."""
        return Path(file) in self._sources

    def source(self, path: Path) -> bytes:
        """Return the contents of a file as they were when it was first read."""
        if path not in self._sources:
            self._sources[path] = path.read_bytes()
            self._digests[path] = hashlib.sha256(self._sources[path]).hexdigest()
        return self._sources[path]

    def is_sibling(self, name: str, importer: Path) -> bool:
        """Return whether ``import name`` in a file of the folder means a module of the folder."""
        if name in _NEVER_SIBLINGS:
            return False
        spec = self._find_in(self.folder, name)
        if spec is None:
            return False
        if spec.loader is None:
            # A folder without __init__.py. As in Python, an installed package with that name takes precedence.
            return not _is_installed(name, self.folder / name)
        # A file `openai.py` that imports `openai` means the installed package, not itself.
        return spec.origin is None or Path(spec.origin) != importer

    def find(self, fullname: str, locations: Sequence[str]) -> ModuleSpec | None:
        """Return the spec of a module in one of the locations of its package, for Python's import system."""
        for location in locations:
            spec = self._find_in(Path(location), fullname)
            if spec is not None:
                return spec
        return None

    def note_reads(self, path: Path, files: Sequence[Path]) -> None:
        """Remember which files a module read through lmassay when it was loaded."""
        self._data_files[path] = {file: sha256(file) for file in files}

    def _find_in(self, location: Path, fullname: str) -> ModuleSpec | None:
        """Return the spec of a module in a folder; None if the folder does not have it."""
        finder = self._finders.get(str(location))
        if finder is None:
            loader = functools.partial(_FirstReadLoader, self)
            # Python's own finder with our loader handles packages, extension modules and upper and lower case.
            loaders: list[Any] = [(ExtensionFileLoader, EXTENSION_SUFFIXES), (loader, [".py"])]
            finder = FileFinder(str(location), *loaders)
            self._finders[str(location)] = finder
        return finder.find_spec(fullname)

    def _imported_by(self, path: Path) -> list[Path]:
        if path not in self._imported:
            self._imported[path] = list(self._find_imported(path))
        return self._imported[path]

    def _find_imported(self, path: Path) -> Iterator[Path]:
        """Yield the files of the folder that a file imports directly."""
        tree = self._parsed(path)
        if tree is None:
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._files_of(alias.name, 0, path)
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                for alias in node.names:
                    # A name that is imported from a package may be a module.
                    name = f"{module}.{alias.name}".strip(".")
                    yield from self._files_of(module if alias.name == "*" else name, node.level, path)
                    if alias.name == "*":
                        yield from self._files_of_all(module, node.level, path)
            elif isinstance(node, ast.Call) and _name_of(node.func) in _IMPORT_FUNCTIONS:
                literal = None
                if node.args and isinstance(node.args[0], ast.Constant):
                    literal = node.args[0].value
                if isinstance(literal, str):
                    level = len(literal) - len(literal.lstrip("."))
                    yield from self._files_of(literal.lstrip("."), level, path)
                else:
                    # The name is computed, so any module of the folder may be meant.
                    yield from _modules_below(self.folder)

    def _files_of(self, name: str, level: int, importer: Path) -> Iterator[Path]:
        """Yield the files that run when a file of the folder imports a module of it: packages, then the module."""
        parts = [part for part in name.split(".") if part]
        if level == 0 and parts and not self.is_sibling(parts[0], importer):
            return
        locations = self._search_locations(level, importer)
        for part in parts:
            spec = self.find(part, locations)
            if spec is None:
                return
            if spec.origin is not None:
                yield Path(spec.origin)
            locations = list(spec.submodule_search_locations or [])

    def _files_of_all(self, name: str, level: int, importer: Path) -> Iterator[Path]:
        """Yield all modules of a package: ``from package import *`` may import any of them."""
        files = list(self._files_of(name, level, importer))
        if files and files[-1].name == "__init__.py":
            yield from sorted(files[-1].parent.glob("*.py"))

    def _search_locations(self, level: int, importer: Path) -> list[str]:
        """Return the folder in which the first part of a name is searched; ``level`` is the number of leading dots."""
        if level == 0:
            return [str(self.folder)]
        location = importer.parent
        for _ in range(level - 1):
            location = location.parent
        if location == self.folder or self.folder in location.parents:
            return [str(location)]
        return []

    def _parsed(self, path: Path) -> ast.Module | None:
        """Return the syntax tree of a file, or None. A syntax error is reported when the file is imported."""
        if path.suffix != ".py":
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.source(path), str(path))
        except (OSError, SyntaxError, ValueError, RecursionError):
            return None

    def _source_or_empty(self, path: Path) -> bytes:
        try:
            return self.source(path)
        except OSError:
            return b""

    def _import_failure(self, error: BaseException, path: Path) -> str:
        """Return a message with the file and line of the statement that failed, in the plug-in or a module of it."""
        locations: list[tuple[str, int]] = []
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.lineno and self.has_read(frame.filename):
                locations.append((frame.filename, frame.lineno))
        file, line = locations[-1] if locations else (str(path), 1)
        import_lines = [number for name, number in locations if name == str(path)]
        # Do not mention the private package: the user wrote `utils`.
        reason = repr(error).replace(f"{self.package}.", "")
        via = ""
        if file != str(path) and import_lines:
            via = f"; imported by {path}, line {import_lines[-1]}"
        return f"{file}, line {line}: the file failed to import: {reason}{via}{self._remedy(error, path)}"

    def _remedy(self, error: BaseException, path: Path) -> str:
        """Return advice if importlib.import_module did not find a module of the folder, else an empty text.

        Unlike an import statement, it searches sys.path, which does not contain the folder.
        """
        name = error.name if isinstance(error, ModuleNotFoundError) else None
        if not name or not self.is_sibling(name.partition(".")[0], path):
            return ""
        return f"; write `import {name}`, or importlib.import_module('.{name}', __package__)"


def digest_of(module_name: str) -> str | None:
    """Return the digest of a module's file and of the modules that it imports from its folder.

    None if the module is neither a user's plug-in nor a module next to one.
    """
    module = sys.modules.get(module_name)
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    if not isinstance(loader, _FirstReadLoader):
        return None
    return loader.folder.digest(Path(loader.path))


class _Package(ModuleType):
    """The private package of a folder. As for a script, an ``__init__.py`` in the folder is not run."""

    def __init__(self, folder: SourceFolder) -> None:
        super().__init__(folder.package, "The folder of a plug-in.")
        self.__path__ = [str(folder.folder)]
        self.__source_folder__ = folder


class _PackageFinder:
    """Finds the modules of private packages, at any depth."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        package = sys.modules.get(fullname.partition(".")[0]) if fullname.startswith(PREFIX) else None
        if path is None or not isinstance(package, _Package):
            return None
        return package.__source_folder__.find(fullname, list(path))


class _FirstReadLoader(SourceFileLoader):
    """Loads a user's file as it was when it was first read, with imports from its folder rewritten.

    It does not use Python's cache of compiled files, which distinguishes versions by size and by the second in which
    they were written: after two edits within a second, the old version would run.
    """

    def __init__(self, folder: SourceFolder, fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self.folder = folder

    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.get_filename(fullname))
        source = self.folder.source(path)
        try:
            return self._compiled(source, path)
        except (SyntaxError, ValueError) as error:
            # In Python 3.11, a zero byte raises a ValueError.
            line = getattr(error, "lineno", None) or 1
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            raise PluginError(f"{path}, line {line}: the file failed to import: SyntaxError: {reason}") from error

    def _compiled(self, source: bytes, path: Path) -> CodeType:
        """Compile a file, with imports of modules of the folder rewritten."""
        code: CodeType
        try:
            tree = ast.parse(source, str(path))
            _rewrite_imports(tree, self.folder, path)
            code = compile(tree, str(path), "exec", dont_inherit=True)
        except RecursionError:
            # Python can compile deeper nested expressions from source than from a tree. A file with such an expression
            # is probably data, so it is run as it is, without imports from its folder.
            code = compile(source, str(path), "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        with record_reads() as files:
            super().exec_module(module)
        self.folder.note_reads(Path(self.path), files)


def _rewrite_imports(tree: ast.Module, folder: SourceFolder, path: Path) -> None:
    """Turn imports of modules of the folder into imports from the private package."""
    # ast.walk does not recurse: an expression may be nested deeper than Python's recursion limit.
    for node in ast.walk(tree):
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(node, block, None)
            # The body of a lambda is an expression.
            if isinstance(statements, list):
                setattr(node, block, [_rewritten(statement, folder, path) for statement in statements])


def _rewritten(statement: ast.stmt, folder: SourceFolder, path: Path) -> ast.stmt:
    """Return a statement; if it imports a module of the folder, it imports it from the private package instead."""
    if isinstance(statement, ast.ImportFrom):
        if statement.level == 0 and statement.module and folder.is_sibling(statement.module.partition(".")[0], path):
            statement.module = f"{folder.package}.{statement.module}"
        return statement
    if not isinstance(statement, ast.Import):
        return statement
    imports: list[tuple[str, str | None]] = []
    for alias in statement.names:
        top, dot, _ = alias.name.partition(".")
        if not folder.is_sibling(top, path):
            imports.append((alias.name, alias.asname))
        elif alias.asname or not dot:
            imports.append((f"{folder.package}.{alias.name}", alias.asname or top))
        else:
            # `import helpers.text` runs both modules and binds the name `helpers`.
            imports.append((f"{folder.package}.{alias.name}", top))
            imports.append((f"{folder.package}.{top}", top))
    names = [ast.copy_location(ast.alias(name, as_name), statement) for name, as_name in imports]
    return ast.copy_location(ast.Import(names), statement)


def _free_package_name(folder: Path) -> str:
    """Return an unused name for the folder's package.

    If a folder is loaded again, its first modules keep their names, because existing objects still use them.
    """
    base_name = PREFIX + hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    name = base_name
    number = 1
    while name in sys.modules:
        number += 1
        name = f"{base_name}_{number}"
    return name


def _is_installed(name: str, sibling: Path) -> bool:
    """Return whether Python finds a module with that name outside the plug-in's folder."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        # A module in sys.modules without a spec was put there by code.
        return name in sys.modules
    if spec is None:
        return False
    if spec.origin is not None:
        return True
    return any(Path(location) != sibling for location in spec.submodule_search_locations or [])


def _modules_below(folder: Path) -> Iterator[Path]:
    """Yield the modules of a folder and of the packages in it."""
    yield from sorted(folder.glob("*.py"))
    for package in sorted(folder.glob("*/__init__.py")):
        yield from _modules_below(package.parent)


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    if isinstance(function, ast.Name):
        return function.id
    return ""


def _normalised(source: bytes) -> bytes:
    """Return a source file with all line ends as line feeds, as Python reads text."""
    try:
        text = source.decode("utf-8")
    except UnicodeDecodeError:
        return source
    return text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8")
