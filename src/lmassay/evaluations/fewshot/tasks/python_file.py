"""Users' tasks in FewNLU's style: a Python file with dicts of metrics, PVPs and processors.

The dicts have names that end in ``_METRICS``, ``_PVPS`` and ``_PROCESSORS``; what comes before is the data set::

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

_TABLES = ("_METRICS", "_PVPS", "_PROCESSORS")


def open_python_task(name: str, data_dir: Path | None, base_dir: Path) -> NluTask:
    """``file.py:task``."""
    file, _, task = name.rpartition(":") if ".py:" in name else (name, "", "")
    path = base_dir / Path(file).expanduser()
    module = current_registry().load_file(path)
    dataset, tables = _tables(module, path)
    known = sorted({key for table in tables.values() for key in table})
    if not task:
        raise PluginError(f"'{name}' names a file only; write {file}:NAME for one of its tasks ({', '.join(known)})")
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
    """The file and the modules that it imports from its folder: all of them say what the task is."""
    path = path.resolve()
    others = [file for file in current_registry().files_of(path) if file != path]
    return {"file": path, **{f"module {file.relative_to(path.parent).as_posix()}": file for file in others}}


def _tables(module: ModuleType, path: Path) -> tuple[str, dict[str, Mapping[str, Any]]]:
    """The three dicts with one prefix."""
    prefixes = {name.removesuffix("_PVPS") for name in vars(module) if name.endswith("_PVPS")}
    complete = [
        prefix
        for prefix in sorted(prefixes)
        if all(isinstance(getattr(module, prefix + suffix, None), dict) for suffix in _TABLES)
    ]
    if not complete:
        prefix = min(prefixes, default="YOUR")
        names = [prefix + suffix for suffix in _TABLES]
        missing = [name for name in names if not isinstance(getattr(module, name, None), dict)]
        raise PluginError(f"{path}: the dict {', '.join(missing)} is missing; a file of tasks has all three")
    return complete[0], {suffix: getattr(module, complete[0] + suffix) for suffix in _TABLES}


def _metrics(value: Any, where: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names:
        raise ConfigError(f"{where}: a task has at least one metric, e.g. 'acc'")
    check_metrics(names)
    return names


def _pvp_class(value: Any, path: Path) -> type[PVP]:
    if not (isinstance(value, type) and issubclass(value, PVP)):
        raise PluginError(f"{path}: {value!r} is no subclass of lmassay.evaluations.fewshot.PVP")
    if inspect.isabstract(value):
        raise PluginError(f"{path}: {value.__name__} lacks {', '.join(sorted(value.__abstractmethods__))}")
    return value


def _processor(value: Any, task: str, path: Path) -> DataProcessor:
    if not (isinstance(value, type) and issubclass(value, DataProcessor)):
        raise PluginError(f"{path}: {value!r} is no subclass of lmassay.evaluations.fewshot.DataProcessor")
    if inspect.isabstract(value):
        raise PluginError(f"{path}: {value.__name__} lacks {', '.join(sorted(value.__abstractmethods__))}")
    # FewNLU hands the task's name to a processor; one that takes nothing is as good.
    takes_name = bool(inspect.signature(value).parameters)
    made: DataProcessor = _called(lambda: value(task) if takes_name else value(), f"{path}: {value.__name__}")
    return made


def _labels(processor: DataProcessor, path: Path) -> list[str]:
    method = type(processor).get_labels
    # FewNLU's document writes get_labels() without self.
    bare: Callable[[], Any] = method if not inspect.signature(method).parameters else processor.get_labels  # type: ignore[assignment]
    labels = _called(bare, f"{path}: {type(processor).__name__}.get_labels")
    if not isinstance(labels, list | tuple) or len(labels) < 2 or not all(isinstance(name, str) for name in labels):
        raise ConfigError(f"{path}: get_labels() must return a list of two or more texts, not {labels!r}")
    if len(set(labels)) < len(labels):
        raise ConfigError(f"{path}: get_labels() names a label twice: {', '.join(labels)}")
    return list(labels)


def _called(function: Callable[[], Any], where: str) -> Any:
    try:
        return function()
    except (ConfigError, DataError, PluginError):
        raise
    except Exception as error:
        raise PluginError(f"{where} failed: {error_with_location(error)}") from error


def _folder(data_dir: Path | None, task: str) -> Path | None:
    if data_dir is None:
        return None
    if not data_dir.is_dir():
        raise DataError(f"the data folder {data_dir} does not exist; check the path")
    inner = next((path for path in sorted(data_dir.iterdir()) if path.is_dir() and path.name.lower() == task), None)
    return inner or data_dir
