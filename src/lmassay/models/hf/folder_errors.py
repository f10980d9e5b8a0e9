"""Turn what a library raises for a damaged or newer model folder into one line: which file it is, and the likely cause.

tokenizers raises a plain Exception for every problem; what transformers raises depends on where its code fails.
"""

from __future__ import annotations

import errno
import importlib.metadata
import json
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lmassay.errors import DataError, LmassayError, error_with_location
from lmassay.redaction import excerpt

_JSON_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "model.safetensors.index.json",
)
# Messages of serde, the library that reads tokenizer.json, about parts that it does not know.
_UNKNOWN_PARTS = re.compile(r"untagged enum|unknown variant|unknown field|did not match any variant")
# Part of the name of a library's module → the file of the model that the module reads. Of several modules in a
# traceback, the innermost counts.
_READERS = {
    "safetensors": "the weights (.safetensors)",
    "tokeniz": "tokenizer.json or tokenizer_config.json",
    "generation": "generation_config.json",
    "chat_template": "the chat template",
    "configuration": "config.json",
    "modeling": "config.json or the weights",
}
_MAX_LENGTH = 300
_LIBRARIES = frozenset({"torch", "transformers", "tokenizers", "safetensors", "jinja2", "huggingface_hub"})
# Problems of the machine, which the command line reports itself.
_NOT_THE_FOLDER = (errno.ENOSPC, errno.EDQUOT if hasattr(errno, "EDQUOT") else errno.ENOSPC, errno.EMFILE)


@contextmanager
def plain_folder_errors(path: Path) -> Iterator[None]:
    """Turn whatever is raised while the files of a model are read into one line; ``path`` is a folder or GGUF file."""
    try:
        yield
    except LmassayError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NOT_THE_FOLDER:
            raise
        raise DataError(folder_problem(path, error)) from error


@contextmanager
def plain_library_errors(path: Path) -> Iterator[None]:
    """Turn what the libraries raise while a model answers into one line; errors in lmassay's own code are bugs."""
    try:
        yield
    except LmassayError:
        raise
    except Exception as error:
        if not _is_from_library(error):
            raise
        problem = folder_problem(path, error).replace("cannot be loaded", "cannot answer", 1)
        raise DataError(problem) from error


def _is_from_library(error: BaseException) -> bool:
    modules = _modules_in_traceback(error)
    return bool(modules) and _is_library(modules[-1])


def _modules_in_traceback(error: BaseException) -> list[str]:
    """Return the full names of the modules in a traceback, the innermost last."""
    # The names are used and not the paths of the files, because the folder of all packages may be called anything.
    return [str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__)]


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


def folder_problem(path: Path, error: BaseException) -> str:
    """Describe why a model cannot be read."""
    for name in _JSON_FILES:
        problem = _problem_of_json(path / name)
        if problem:
            return problem
    message = f"the model in {path} cannot be loaded: {first_line(error)}"
    if isinstance(error, MemoryError):
        return f"{message}; it needs more memory than there is, or the sizes in its config.json are damaged"
    newer = _newer_transformers(path)
    if newer:
        return f"{message}; {newer}"
    reader = _file_that_was_read(error)
    if reader:
        return f"{message}; probably a damaged file: {reader}; copy or download it again"
    return message


def tokenizer_problem(file: Path, error: BaseException) -> str:
    """Describe why the tokenizers library cannot read a tokenizer.json."""
    reason = first_line(error)
    message = f"the tokenizer in {file.parent} cannot be read: {file.name}: {reason}"
    problem = _problem_of_json(file)
    if problem:
        return f"the tokenizer in {file.parent} cannot be read: {problem}"
    if _UNKNOWN_PARTS.search(reason):
        version = _installed("tokenizers")
        return (
            f"{message}; {file.name} was probably written by a newer version of tokenizers than {version}: "
            "pip install -U tokenizers"
        )
    return f"{message}; copy or download it again"


def read_json_object(file: Path) -> dict[str, Any]:
    """Read a file of a model that must contain a JSON object. Raises a DataError that names the file."""
    problem = _problem_of_json(file)
    if problem:
        raise DataError(problem)
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, together with the second line if the first ends with a colon."""
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else error_with_location(error)
    if first.endswith(":") and len(lines) > 1:
        first = f"{first} {lines[1].strip()}"
    return excerpt(first, _MAX_LENGTH).rstrip(".")


def _problem_of_json(file: Path) -> str:
    """Return what is wrong with a JSON file of a model; empty if nothing is, or if there is no such file."""
    if file.is_dir():
        return f"{file} is a folder; it must be a file"
    if not file.exists():
        return ""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        return f"{file} cannot be read: {error.strerror or error}"
    except UnicodeDecodeError as error:
        return f"{file} is not UTF-8 (byte {error.start}); copy or download it again"
    except (ValueError, RecursionError) as error:
        return f"{file} is not valid JSON: {first_line(error)}; copy or download it again"
    if not isinstance(content, dict):
        return f"{file} must contain a JSON object; copy or download it again"
    return ""


def _newer_transformers(path: Path) -> str:
    """Return the likely cause if the model was saved by a newer version of transformers than the installed one."""
    try:
        saved_by = str(json.loads((path / "config.json").read_text(encoding="utf-8")).get("transformers_version"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    installed = _installed("transformers")
    if _numbers(saved_by) <= _numbers(installed):
        return ""
    return f"it was saved by transformers {saved_by}, and {installed} is installed: pip install -U transformers"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "0"


def _file_that_was_read(error: BaseException) -> str:
    """Return the file of the model that the library was reading, by the library's modules in the traceback."""
    for module in reversed(_modules_in_traceback(error)):
        if not _is_library(module):
            continue
        *packages, name = module.split(".")
        for part, file in _READERS.items():
            if part in name or any(package.startswith(part) for package in packages):
                return file
    return ""
