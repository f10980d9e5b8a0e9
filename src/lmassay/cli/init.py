"""``lmassay init``"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from lmassay.cli.completion import offer
from lmassay.cli.console import say, warn
from lmassay.contracts import Sample, resolve
from lmassay.errors import ConfigError, LmassayError, PluginError, UserError, did_you_mean, error_with_location
from lmassay.plugins.evaluations import evaluations, unloaded_packages_note
from lmassay.plugins.registry import current_registry
from lmassay.storage.files import atomic_write
from lmassay.storage.provenance import command_line

if TYPE_CHECKING:
    from lmassay.plugins.options import Spec

_TEMPLATE = "config.yaml"
_DATA = re.compile(r"@DATA@/(\S+)")


def _samples() -> dict[str, Sample]:
    """The tasks that a configuration can be written for, with what it is written from."""
    samples: dict[str, Sample] = {}
    for evaluation in evaluations():
        for task in evaluation.tasks:
            sample = evaluation.view(task).sample
            if sample is not None:
                samples[task] = sample
    return samples


@click.command(epilog="Example: lmassay init bias --model smollm2 -o bias.yaml", short_help="Write a configuration.")
@click.argument("task", metavar="[TASK]", required=False, shell_complete=offer(_samples))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.  [default: TASK.yaml]")
@click.option(
    "--model", help="The model to ask, named as for `lmassay card`: smollm2, openai:NAME, a folder, file.py:Class …"
)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def init(task: str | None, output: Path | None, model: str | None, force: bool) -> None:
    """Write a configuration with a comment on every option, and sample data beside it where the task reads files, so
    that it runs at once. Then put in your own.

    TASK is the name of a task, see `lmassay tasks`; in a terminal, you are asked for it.
    """
    if output == Path("-"):
        raise UserError("-o -: sample data is written beside a configuration; give the name of a file")
    chosen = task or _asked()
    if chosen not in _samples():
        hint = did_you_mean(chosen, _samples())
        raise UserError(f"there is no sample for a task '{chosen}'{hint}{unloaded_packages_note()}")
    target = output or Path(f"{chosen}.yaml")
    data = f"{target.stem}-data"
    asked = None if model is None else _model(model)
    texts = _texts(chosen, target, data, asked)
    if not force:
        _refuse_to_overwrite(texts)
    missing = "" if asked is None else _what_is_missing(chosen, target, data, asked)
    _write(texts)
    beside = f" and sample data in {target.parent / data}" if len(texts) > 1 else ""
    say(f"{target} written{beside}")
    _say_what_next(target, texts[target], missing)


def _asked() -> str:
    names = list(_samples())
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError(f"say which task, e.g. lmassay init {names[0]}; there are {', '.join(names)}")
    for entry in current_registry().entries("task"):
        if entry.name in names:
            say(f"  {entry.name:<14} {entry.summary}")
    answer: str = click.prompt("Which task", type=click.Choice(names), show_choices=False, err=True)
    return answer


def _texts(chosen: str, target: Path, data: str, model: Spec | None) -> Mapping[Path, str]:
    """The configuration and its data, by the file that each is written to."""
    sample = _samples()[chosen]
    files = _sample_files(sample.folder)
    if _TEMPLATE not in files:
        raise PluginError(f"the sample of the task {chosen} has no {_TEMPLATE}: {sample.folder}")
    spec: Any = sample.model.replace("@DATA@", data) if model is None else _seen_from(target.parent, model)
    text = _DATA.sub(lambda match: _as_yaml(f"{data}/{match[1]}"), files.pop(_TEMPLATE))
    marks: dict[str, str] = {
        "FILE": shlex.quote(str(target)),
        "NAME": _as_yaml(target.stem),
        "MODEL": _as_yaml(spec),
    }
    marks |= {mark: _as_yaml(value) for mark, value in _own_marks(chosen, sample, spec).items()}
    for mark, value in marks.items():
        text = text.replace(f"@{mark}@", value)
    return {target: text, **{target.parent / data / name: content for name, content in files.items()}}


def _sample_files(folder: Path) -> dict[str, str]:
    """The texts of a sample, by their path in its folder."""
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
    """The marks that the evaluation of a task adds. Without them the configuration would be wrong."""
    if sample.marks is None:
        return {}
    try:
        marks: Mapping[str, Any] = dict(resolve(sample.marks)(spec))
    except LmassayError:
        raise
    except Exception as error:
        raise PluginError(f"the sample of the task {task} cannot be written: {error_with_location(error)}") from error
    return marks


def _model(word: str) -> Spec:
    """What the word stands for, with whole paths; what names no model is not taken for the name of one on the hub."""
    from lmassay.running.model_spec import model_spec

    if not word.strip() or word.rstrip().endswith(":"):
        raise UserError(f"--model '{word}' names no model; e.g. smollm2, openai:gpt-4o, a folder, file.py:Class")
    if word.lstrip().startswith("["):
        raise UserError(f"--model {word}: give one model here; a list of them goes into the configuration itself")
    if word.endswith(".py"):
        raise UserError(f"--model {word} names a file only; write {word}:NAME for the class in it")
    return model_spec(word, Path.cwd())


def _seen_from(folder: Path, spec: Spec) -> Any:
    """What a configuration in ``folder`` says for a model; the way to a file starts there."""
    if isinstance(spec, str):
        file, colon, name = spec.rpartition(":")
        return f"{_from(folder, file)}:{name}" if colon else spec
    return {key: _from(folder, value) if isinstance(value, str) else value for key, value in spec.items()}


def _from(folder: Path, text: str) -> str:
    if not Path(text).is_absolute():
        return text
    try:
        return Path(os.path.relpath(text, folder)).as_posix()
    except ValueError:  # another drive of Windows
        return text


def _what_is_missing(chosen: str, target: Path, data: str, model: Spec) -> str:
    """Plan the runs of the configuration elsewhere first: what is wrong with the model is an error, what it lacks on
    this machine (weights, a key, an extra) is told.
    """
    from lmassay.cli.run import plugin_output_to_stderr
    from lmassay.running.config import RunConfig, expand
    from lmassay.running.runner import plan

    with tempfile.TemporaryDirectory() as name, plugin_output_to_stderr():
        trial = Path(name).resolve() / target.name
        texts = _texts(chosen, trial, data, model)
        _write(texts)
        # The paths of the model as they are, so that a message names the file as the user knows it.
        document = {**yaml.safe_load(texts[trial]), "model": model}
        runs: list[RunConfig] = []
        missing = [_told(lambda: runs.extend(expand(document, trial.parent)))]
        missing += [_told(partial(plan, config)) for config in runs]
    return next(filter(None, missing), "")


def _told(attempt: Callable[[], object]) -> str:
    """What an attempt lacks, or nothing; a mistake in the model is raised again."""
    try:
        attempt()
    except UserError as error:
        told = "; ".join(str(error).splitlines())
        # A message about the configuration begins with the key that it is about.
        if isinstance(error, ConfigError | PluginError) and told.startswith("model"):
            raise UserError(f"--model: {told}") from error
        return told
    return ""


def _write(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        with atomic_write(path) as stream:
            stream.write(text)


def _as_yaml(value: Any) -> str:
    """One line, quoted where it must be."""
    style = '"' if isinstance(value, str) and ("\n" in value or "{" in value) else None
    text = yaml.safe_dump(
        value, default_flow_style=True, default_style=style, sort_keys=False, allow_unicode=True, width=10**6
    )
    return text.removesuffix("...\n").strip()


def _refuse_to_overwrite(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        if path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
            raise UserError(f"{path} is there already; give another name with -o, or --force to overwrite it")


def _say_what_next(target: Path, text: str, missing: str) -> None:
    from lmassay.models import embedded

    fetch = [name for name in embedded.EMBEDDED if f"\nmodel: {name}\n" in text and embedded.folder(name) is None]
    for name in fetch:
        say(f"once:  lmassay models get {name}")
    if missing and not fetch:
        warn(missing)
    say(f"next:  {command_line('check', target)}")
    say(f"       {command_line('run', target)}")
