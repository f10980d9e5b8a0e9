"""What ``lmassay init`` does."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from lmassay.cli.console import say, warn
from lmassay.cli.endings import format_by_ending
from lmassay.contracts import Sample, resolve
from lmassay.errors import ConfigError, LmassayError, PluginError, UserError, did_you_mean, error_with_location
from lmassay.plugins.evaluations import evaluations, unloaded_packages_note
from lmassay.plugins.registry import current_registry
from lmassay.storage.commands import command_line
from lmassay.storage.files import atomic_write

if TYPE_CHECKING:
    from lmassay.plugins.options import Spec

_TEMPLATE = "config.yaml"
_DATA = re.compile(r"@DATA@/(\S+)")


def samples() -> dict[str, Sample]:
    """Return the tasks that have a sample configuration, with their samples."""
    samples: dict[str, Sample] = {}
    for evaluation in evaluations():
        for task in evaluation.tasks:
            sample = evaluation.view(task).sample
            if sample is not None:
                samples[task] = sample
    return samples


def init(task: str | None, output: Path | None, model: str | None, force: bool) -> None:
    """Write a sample configuration with a comment on every option."""
    if output == Path("-"):
        raise UserError("-o -: sample data is written next to a configuration; give the name of a file")
    if output is not None:
        format_by_ending(output, {".yaml": "yaml", ".yml": "yaml"}, without_ending="yaml")
    task_name = task or _ask_for_task()
    if task_name not in samples():
        hint = did_you_mean(task_name, samples())
        raise UserError(f"there is no sample for a task '{task_name}'{hint}{unloaded_packages_note()}")
    target = output or Path(f"{task_name}.yaml")
    data_folder = f"{target.stem}-data"
    spec = None if model is None else _model(model)
    texts = _texts(task_name, target, data_folder, spec)
    if not force:
        _refuse_to_overwrite(texts)
    missing = "" if spec is None else _find_what_is_missing(task_name, target, data_folder, spec)
    _write(texts)
    if len(texts) > 1:
        say(f"wrote {target}, and sample data to {target.parent / data_folder}")
    else:
        say(f"wrote {target}")
    _print_next_steps(target, texts[target], missing)


def _ask_for_task() -> str:
    names = list(samples())
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError(f"name a task, e.g. lmassay init {names[0]}; there are {', '.join(names)}")
    for entry in current_registry().entries("task"):
        if entry.name in names:
            say(f"  {entry.name:<14} {entry.summary}")
    answer: str = click.prompt("Which task", type=click.Choice(names), show_choices=False, err=True)
    return answer


def _texts(task: str, target: Path, data_folder: str, model: Spec | None) -> Mapping[Path, str]:
    """Return the configuration and its data: the path of each file → its contents."""
    sample = samples()[task]
    files = _sample_files(sample.folder)
    if _TEMPLATE not in files:
        raise PluginError(f"the sample of the task {task} has no {_TEMPLATE}: {sample.folder}")
    spec: Any = sample.model.replace("@DATA@", data_folder)
    if model is not None:
        spec = _relative_spec(target.parent, model)
    text = _DATA.sub(lambda match: _as_yaml(f"{data_folder}/{match[1]}"), files.pop(_TEMPLATE))
    marks: dict[str, str] = {
        "FILE": shlex.quote(str(target)),
        "NAME": _as_yaml(target.stem),
        "MODEL": _as_yaml(spec),
    }
    for mark, value in _own_marks(task, sample, spec).items():
        marks[mark] = _as_yaml(value)
    for mark, replacement in marks.items():
        text = text.replace(f"@{mark}@", replacement)
    texts = {target: text}
    for name, content in files.items():
        texts[target.parent / data_folder / name] = content
    return texts


def _sample_files(folder: Path) -> dict[str, str]:
    """Return the texts of a sample by their path in its folder."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        try:
            files[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise PluginError(f"{path}, which belongs to the sample of a task, is not UTF-8") from None
    return files


def _own_marks(task: str, sample: Sample, spec: Any) -> Mapping[str, Any]:
    """Return the placeholders that the evaluation of a task adds. Without them, the configuration would be wrong."""
    if sample.marks is None:
        return {}
    try:
        marks: Mapping[str, Any] = dict(resolve(sample.marks)(spec))
    except LmassayError:
        raise
    except Exception as error:
        raise PluginError(f"the sample of the task {task} cannot be written: {error_with_location(error)}") from error
    return marks


def _model(text: str) -> Spec:
    """Return the model that the user named, with absolute paths.

    Obvious mistakes are reported here; otherwise they would be taken for the name of a model on the hub.
    """
    from lmassay.running.model_spec import model_spec

    if not text.strip() or text.rstrip().endswith(":"):
        raise UserError(f"--model '{text}' does not name a model; e.g. smollm2, openai:gpt-4o, a folder, file.py:Class")
    if text.lstrip().startswith("["):
        raise UserError(f"--model {text}: give one model here; a list of models belongs in the configuration itself")
    if text.endswith(".py"):
        raise UserError(f"--model {text} names only a file; write {text}:NAME for the class in it")
    return model_spec(text, Path.cwd())


def _relative_spec(folder: Path, spec: Spec) -> Any:
    """Return a model's description as written in a configuration in ``folder``, with paths relative to it."""
    if isinstance(spec, str):
        file, colon, name = spec.rpartition(":")
        if colon:
            return f"{_relative_path(folder, file)}:{name}"
        return spec
    relative: dict[str, Any] = {}
    for key, value in spec.items():
        relative[key] = _relative_path(folder, value) if isinstance(value, str) else value
    return relative


def _relative_path(folder: Path, text: str) -> str:
    if not Path(text).is_absolute():
        return text
    try:
        return Path(os.path.relpath(text, folder)).as_posix()
    except ValueError:
        # The file is on another drive of Windows.
        return text


def _find_what_is_missing(task: str, target: Path, data_folder: str, model: Spec) -> str:
    """Plan the runs of the configuration in a temporary folder, and return what this machine lacks to run them.

    A mistake in the model raises an error. Missing weights, keys or optional packages are only returned as a message,
    because the user can provide them later.
    """
    from lmassay.cli.actions.run import plugin_output_to_stderr
    from lmassay.running.config import expand
    from lmassay.running.runner import plan

    with tempfile.TemporaryDirectory() as name, plugin_output_to_stderr():
        trial = Path(name).resolve() / target.name
        texts = _texts(task, trial, data_folder, model)
        _write(texts)
        # The model with its original paths, so that messages name files as the user knows them.
        document = {**yaml.safe_load(texts[trial]), "model": model}
        try:
            configs = expand(document, trial.parent)
        except UserError as error:
            return _missing_text(error)
        first_missing = ""
        # All runs are planned, because a mistake in the model may show only in the last one.
        for config in configs:
            try:
                plan(config)
            except UserError as error:
                missing = _missing_text(error)
                first_missing = first_missing or missing
    return first_missing


def _missing_text(error: UserError) -> str:
    """Return an error in one line; one that is about the model is raised again."""
    message = "; ".join(str(error).splitlines())
    # A message about the configuration begins with the key that it is about.
    if isinstance(error, ConfigError | PluginError) and message.startswith("model"):
        raise UserError(f"--model: {message}") from error
    return message


def _write(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        with atomic_write(path) as stream:
            stream.write(text)


def _as_yaml(value: Any) -> str:
    """Return a value as YAML on one line, in quotes where necessary."""
    style = '"' if isinstance(value, str) and ("\n" in value or "{" in value) else None
    text = yaml.safe_dump(
        value, default_flow_style=True, default_style=style, sort_keys=False, allow_unicode=True, width=10**6
    )
    return text.removesuffix("...\n").strip()


def _refuse_to_overwrite(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        is_unchanged = path.is_file() and path.read_bytes() == text.encode()
        if path.exists() and not is_unchanged:
            raise UserError(f"{path} already exists; give another name with -o, or --force to overwrite it")


def _print_next_steps(target: Path, text: str, missing: str) -> None:
    from lmassay.models import embedded

    must_fetch = False
    for name in embedded.EMBEDDED:
        if f"\nmodel: {name}\n" in text and embedded.folder(name) is None:
            must_fetch = True
            say(f"once:  lmassay models get {name}")
    if missing and not must_fetch:
        warn(missing)
    say(f"next:  {command_line('check', target)}")
    say(f"       {command_line('run', target)}")
