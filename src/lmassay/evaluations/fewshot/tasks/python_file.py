"""User-defined tasks in FewNLU's style: a Python file with dicts of metrics, PVPs and processors.

The names of the dicts end in ``_METRICS``, ``_PVPS`` and ``_PROCESSORS``; the prefix is the name of the data set::

    GLUE_METRICS = {"mrpc": "acc"}
    GLUE_PVPS = {"mrpc": MRPCPVP}
    GLUE_PROCESSORS = {"mrpc": MRPCProcessor}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from lmassay.errors import ConfigError, DataError, PluginError, did_you_mean, error_with_location
from lmassay.evaluations.fewshot.metrics import check_metrics
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from lmassay.evaluations.fewshot.tasks.processors import DataProcessor
from lmassay.evaluations.fewshot.tasks.pvp import PVP
from lmassay.plugins.registry import current_registry
from lmassay.types.wording import enumerated

_TABLES = ("_METRICS", "_PVPS", "_PROCESSORS")


def open_python_task(name: str, data_dir: Path | None, base_dir: Path) -> NluTask:
    """The task that ``file.py:name`` names."""
    file, task = name, ""
    if ".py:" in name:
        file, _, task = name.rpartition(":")
    path = base_dir / Path(file).expanduser()
    module = current_registry().load_file(path)
    dataset, tables = _tables(module, path)
    if not task:
        known = sorted(set().union(*tables.values()))
        raise PluginError(f"'{name}' names only a file; write {file}:NAME for one of its tasks ({', '.join(known)})")
    for suffix in _TABLES:
        if task not in tables[suffix]:
            raise PluginError(f"{path}: {dataset}{suffix} has no task '{task}'{did_you_mean(task, tables[suffix])}")
    processor = _processor(tables["_PROCESSORS"][task], task, path)
    return NluTask(
        dataset=dataset.lower(),
        name=task,
        processor=processor,
        pvp_class=_pvp_class(tables["_PVPS"][task], path),
        metrics=_metrics(tables["_METRICS"][task], f"{path}: {dataset}_METRICS"),
        data_dir=_folder(data_dir, task),
        labels=_labels(processor, path),
        own_files=_own_files(path),
    )


def _own_files(path: Path) -> dict[str, Path]:
    """The file and the modules that it imports from its folder, by their names in ``NluTask.digests``."""
    path = path.resolve()
    files = {"file": path}
    for file in current_registry().files_of(path):
        if file != path:
            files[f"module {file.relative_to(path.parent).as_posix()}"] = file
    return files


def _tables(module: ModuleType, path: Path) -> tuple[str, dict[str, Mapping[str, Any]]]:
    """Find the first prefix that has all three dicts; returns the prefix, and the dicts by their suffix."""
    prefixes = sorted(name.removesuffix("_PVPS") for name in vars(module) if name.endswith("_PVPS"))
    first_missing: list[str] = []
    # If a file has no such dict at all, the error message uses YOUR as the prefix.
    for prefix in prefixes or ["YOUR"]:
        tables: dict[str, Mapping[str, Any]] = {}
        missing: list[str] = []
        for suffix in _TABLES:
            table = vars(module).get(prefix + suffix)
            if isinstance(table, dict):
                tables[suffix] = table
            else:
                missing.append(prefix + suffix)
        if not missing:
            return prefix, tables
        first_missing = first_missing or missing
    raise PluginError(
        f"{path}: missing {', '.join(first_missing)}; a file with tasks needs three dicts, whose names end in "
        f"{enumerated(_TABLES)}"
    )


def _metrics(value: Any, where: str) -> tuple[str, ...]:
    """The metrics that a table names: one name, or several."""
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names:
        raise ConfigError(f"{where}: a task needs at least one metric, e.g. 'acc'")
    check_metrics(names)
    return names


def _pvp_class(value: Any, path: Path) -> type[PVP]:
    if not (isinstance(value, type) and issubclass(value, PVP)):
        raise PluginError(f"{path}: {value!r} is not a subclass of lmassay.evaluations.fewshot.PVP")
    if inspect.isabstract(value):
        raise PluginError(f"{path}: {value.__name__} lacks {', '.join(sorted(value.__abstractmethods__))}")
    return value


def _processor(value: Any, task: str, path: Path) -> DataProcessor:
    if not (isinstance(value, type) and issubclass(value, DataProcessor)):
        raise PluginError(f"{path}: {value!r} is not a subclass of lmassay.evaluations.fewshot.DataProcessor")
    if inspect.isabstract(value):
        raise PluginError(f"{path}: {value.__name__} lacks {', '.join(sorted(value.__abstractmethods__))}")
    # FewNLU passes the task's name to a processor; a processor without parameters is accepted as well.
    arguments = [task] if inspect.signature(value).parameters else []
    processor: DataProcessor = _called(lambda: value(*arguments), f"{path}: {value.__name__}")
    return processor


def _labels(processor: DataProcessor, path: Path) -> list[str]:
    """The labels that ``get_labels`` returns; a ConfigError if they are not two or more different strings."""
    method: Any = type(processor).get_labels
    if inspect.signature(method).parameters:
        method = processor.get_labels
    # Otherwise get_labels() has no self, as in FewNLU's documentation, and is called on the class.
    labels = _called(method, f"{path}: {type(processor).__name__}.get_labels")
    has_two = isinstance(labels, list | tuple) and len(labels) >= 2
    if not has_two or not all(isinstance(name, str) for name in labels):
        raise ConfigError(f"{path}: get_labels() must return a list of two or more strings, not {labels!r}")
    if len(set(labels)) < len(labels):
        raise ConfigError(f"{path}: get_labels() names a label twice: {', '.join(labels)}")
    return list(labels)


def _called(function: Callable[[], Any], where: str) -> Any:
    """Call the user's code; an unexpected failure becomes a PluginError that says where."""
    try:
        return function()
    except (ConfigError, DataError, PluginError):
        raise
    except Exception as error:
        raise PluginError(f"{where} failed: {error_with_location(error)}") from error


def _folder(data_dir: Path | None, task: str) -> Path | None:
    """The folder in ``data_dir`` that has the name of the task, else ``data_dir`` itself."""
    if data_dir is None:
        return None
    if not data_dir.is_dir():
        raise DataError(f"the data folder {data_dir} does not exist; check the path")
    for path in sorted(data_dir.iterdir()):
        if path.is_dir() and path.name.lower() == task.lower():
            return path
    return data_dir
