"""What ``lmassay init`` does."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from lmassay.cli.actions.first_steps import Missing, are_wanted, find_missing, run_commands, show_commands
from lmassay.cli.actions.starters import read_text, starter_files, starters, texts_in
from lmassay.cli.console import say, warn
from lmassay.cli.endings import format_by_ending
from lmassay.cli.table_output import print_table
from lmassay.contracts import Sample, Starter, resolve
from lmassay.errors import LmassayError, PluginError, UserError, closest, error_with_location
from lmassay.plugins.evaluations import evaluations, unloaded_packages_note
from lmassay.plugins.registry import current_registry
from lmassay.storage.commands import command_line
from lmassay.storage.files import atomic_write

if TYPE_CHECKING:
    from lmassay.plugins.options import Spec

_TEMPLATE = "config.yaml"
_DATA_MARK = "@DATA@"
_DATA = re.compile(rf"{_DATA_MARK}/(\S+)")


def samples() -> dict[str, Sample]:
    """Return the tasks that have a sample configuration, with their samples."""
    samples: dict[str, Sample] = {}
    for evaluation in evaluations():
        for task in evaluation.tasks:
            sample = evaluation.view(task).sample
            if sample is not None:
                samples[task] = sample
    return samples


def names() -> list[str]:
    """Return the names of all samples and starters."""
    return [*samples(), *starters()]


def init(name: str | None, output: Path | None, model: str | None, force: bool, yes: bool) -> None:
    """Write a configuration of a task, or the beginning of a plug-in."""
    chosen = name
    if chosen is None:
        _list_everything()
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return
        chosen = str(click.prompt("Which one", type=click.Choice(names()), show_choices=False, err=True))
    if chosen in samples():
        _init_task(chosen, output, model, force, yes)
    elif chosen in starters():
        if model is not None:
            raise UserError(f"--model does not apply to '{chosen}'; name the model in the files that it writes")
        _init_starter(starters()[chosen], output or Path(), force)
    else:
        suggestion = closest(chosen, names())
        hint = "lmassay init lists what can be written" if suggestion is None else f"did you mean '{suggestion}'?"
        raise UserError(f"there is no sample '{chosen}'; {hint}{unloaded_packages_note()}")


def _list_everything() -> None:
    """Print the names of all samples and starters."""
    sample_names = samples()
    rows: list[tuple[str, str]] = []
    for entry in current_registry().entries("task"):
        if entry.name in sample_names:
            rows.append((entry.name, entry.summary))
    print_table("Configurations that run as they are written", ("name", "description"), rows)
    click.echo()
    rows = [(starter.name, starter.summary) for starter in starters().values()]
    print_table("Starting points for your own plug-ins and data", ("name", "description"), rows)


def _init_starter(starter: Starter, folder: Path, force: bool) -> None:
    """Write the files of a starter, and print the commands to run next."""
    texts: dict[Path, str] = {}
    for path, text in starter_files(starter).items():
        texts[folder / path] = text
    if not force:
        _refuse_to_overwrite(texts, "give another folder with -o")
    _write(texts)
    listed = ", ".join(str(folder / target) for target in starter.files)
    say(f"wrote {listed}")
    commands = list(starter.commands)
    if folder != Path():
        commands.insert(0, shlex.join(["cd", str(folder)]))
    show_commands("next", commands)


def _init_task(task: str, output: Path | None, model: str | None, force: bool, yes: bool) -> None:
    """Write the configuration of a task with its data, and print or run the commands to run next."""
    if output == Path("-"):
        raise UserError("-o -: sample data is written next to a configuration; give the name of a file")
    if output is not None:
        format_by_ending(output, {".yaml": "yaml", ".yml": "yaml"}, without_ending="yaml")
    target = output or Path(f"{task}.yaml")
    spec = None if model is None else _model(model)
    texts = _texts(task, target, spec)
    if not force:
        _refuse_to_overwrite(texts, "give another name with -o")
    missing = _find_missing(task, target, spec)
    _write(texts)
    if len(texts) > 1:
        say(f"wrote {target}, and sample data to {target.parent / _data_folder(target)}")
    else:
        say(f"wrote {target}")
    _print_next_steps(target, missing)
    if missing.commands and (yes or are_wanted(missing.commands)):
        run_commands(missing.commands)


def _data_folder(target: Path) -> str:
    return f"{target.stem}-data"


def _texts(task: str, target: Path, model: Spec | None) -> Mapping[Path, str]:
    """Return the configuration and its data: the path of each file → its contents."""
    sample = samples()[task]
    data_folder = _data_folder(target)
    files = texts_in(sample.folder)
    if _TEMPLATE not in files:
        raise PluginError(f"the sample of the task {task} has no {_TEMPLATE}: {sample.folder}")
    template = files.pop(_TEMPLATE)
    spec: Any = _with_data_folder(sample.model, data_folder)
    if model is not None:
        spec = _relative_spec(target.parent, model)
    for name, path in sample.model_files.items():
        if model is None:
            files[name] = read_text(path)
        else:
            # With the user's own model, nothing would use the files of the sample's model.
            files.pop(name, None)
    texts = {target: _filled(template, task, target, sample, spec)}
    for name, content in files.items():
        texts[target.parent / data_folder / name] = content
    return texts


def _filled(template: str, task: str, target: Path, sample: Sample, spec: Any) -> str:
    """Return the text of a configuration: the template with all placeholders replaced."""
    data_folder = _data_folder(target)
    text = _DATA.sub(lambda match: _as_yaml(f"{data_folder}/{match[1]}"), template)
    placeholders: dict[str, str] = {
        "FILE": shlex.quote(str(target)),
        "NAME": _as_yaml(target.stem),
        "MODEL": _as_yaml(spec),
    }
    for mark, value in _placeholders_of_evaluation(task, sample, spec).items():
        placeholders[mark] = _as_yaml(_with_data_folder(value, data_folder))
    for mark, replacement in placeholders.items():
        text = text.replace(f"@{mark}@", replacement)
    return text


def _with_data_folder(value: Any, data_folder: str) -> Any:
    """Return a value, or a mapping of values, with the data folder in place of its placeholder."""
    if isinstance(value, str):
        return value.replace(_DATA_MARK, data_folder)
    if isinstance(value, Mapping):
        return {key: _with_data_folder(entry, data_folder) for key, entry in value.items()}
    return value


def _placeholders_of_evaluation(task: str, sample: Sample, spec: Any) -> Mapping[str, Any]:
    """Return the placeholders that the evaluation of a task adds.

    If that fails, it is an error, because the configuration would be wrong without them.
    """
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
    """Return an absolute path relative to ``folder``; any other text as it is."""
    if not Path(text).is_absolute():
        return text
    try:
        return Path(os.path.relpath(text, folder)).as_posix()
    except ValueError:
        # The file is on another drive of Windows.
        return text


def _find_missing(task: str, target: Path, model: Spec | None) -> Missing:
    """Return what this machine lacks to run the configuration.

    A sample with its own model needs nothing but lmassay, so this is not checked, which saves time.
    """
    if model is None and samples()[task].model_files:
        return Missing()
    # The files are written into a temporary folder, so the path of the configuration there is only its name.
    trial = Path(target.name)
    return find_missing(_texts(task, trial, model), trial, model)


def _write(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        with atomic_write(path) as stream:
            stream.write(text)


def _as_yaml(value: Any) -> str:
    """Return a value as YAML on one line, in quotes where necessary."""
    style = None
    if isinstance(value, str) and ("\n" in value or "{" in value):
        # A line break needs an escape, and a brace could be taken for a mapping.
        style = '"'
    text = yaml.safe_dump(
        value, default_flow_style=True, default_style=style, sort_keys=False, allow_unicode=True, width=10**6
    )
    # PyYAML ends a document that is a single value with three dots.
    return text.removesuffix("...\n").strip()


def _refuse_to_overwrite(texts: Mapping[Path, str], alternative: str) -> None:
    for path, text in texts.items():
        is_unchanged = path.is_file() and path.read_bytes() == text.encode()
        if path.exists() and not is_unchanged:
            raise UserError(f"{path} already exists; {alternative}, or --force to overwrite it")


def _print_next_steps(target: Path, missing: Missing) -> None:
    if missing.message:
        warn(missing.message)
    show_commands("first", missing.commands)
    show_commands("next", [command_line("check", target), command_line("run", target)])
