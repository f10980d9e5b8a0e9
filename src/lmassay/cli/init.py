"""``lmassay init``"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import yaml

from lmassay.builtins import BUILTINS
from lmassay.cli.console import say
from lmassay.data import atomic_write
from lmassay.errors import UserError

EVALUATIONS = ("robustness", "syntax", "minimal_pairs", "bias", "fewshot")
_TEMPLATE = "config.yaml"
_DATA = re.compile(r"@DATA@/(\S+)")
_TRANSLATE = "Translate this sentence into English.\n\n{x}\n"


@click.command(epilog="Example: lmassay init bias --model smollm2 -o bias.yaml", short_help="Write a configuration.")
@click.argument("evaluation", metavar="[EVALUATION]", required=False, type=click.Choice(EVALUATIONS))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.  [default: EVALUATION.yaml]")
@click.option(
    "--model", help="The model to ask, named as for `lmassay card`: smollm2, openai:NAME, a folder, file.py:Class …"
)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def init(evaluation: str | None, output: Path | None, model: str | None, force: bool) -> None:
    """Write a configuration with a comment on every line, and sample data beside it where the evaluation reads files,
    so that it runs at once. Then put in your own.

    EVALUATION is robustness, syntax, minimal_pairs, bias or fewshot; in a terminal, you are asked for it.
    """
    chosen = evaluation or _asked()
    target = output or Path(f"{chosen}.yaml")
    data = f"{target.stem}-data"
    texts = _texts(chosen, target, data, model)
    if not force:
        _refuse_to_overwrite(texts)
    for path, text in texts.items():
        with atomic_write(path) as stream:
            stream.write(text)
    beside = f" and sample data in {target.parent / data}" if len(texts) > 1 else ""
    say(f"{target} written{beside}")
    _say_what_next(target, texts[target])


def _asked() -> str:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError(f"say which evaluation, e.g. lmassay init robustness; there are {', '.join(EVALUATIONS)}")
    for name in EVALUATIONS:
        say(f"  {name:<14} {BUILTINS['task'][name][1]}")
    answer: str = click.prompt("Which evaluation", type=click.Choice(EVALUATIONS), show_choices=False, err=True)
    return answer


def _texts(chosen: str, target: Path, data: str, model: str | None) -> Mapping[Path, str]:
    """The configuration and its data, by the file that each is written to."""
    samples = {
        item.name: item.read_text(encoding="utf-8")
        for item in sorted((files("lmassay") / "samples" / chosen).iterdir(), key=lambda item: item.name)
        if item.is_file()
    }
    if model is not None:
        spec = _model(model, target.parent)
    else:
        spec = f"{data}/my_system.py:MySystem" if chosen == "robustness" else "smollm2"
    own = isinstance(spec, str) and ".py:" in spec
    kind = spec if isinstance(spec, str) else spec["name"]
    text = _DATA.sub(lambda found: _as_yaml(f"{data}/{found[1]}"), samples.pop(_TEMPLATE))
    for mark, value in {
        "FILE": shlex.quote(str(target)),
        "NAME": _as_yaml(target.stem),
        "MODEL": _as_yaml(spec),
        "PROMPT": _as_yaml("{x}" if own else _TRANSLATE),
        "ANSWER_BY": "letters" if kind in ("smollm2", "hf") else "generate",
    }.items():
        text = text.replace(f"@{mark}@", value)
    return {target: text, **{target.parent / data / name: content for name, content in samples.items()}}


def _model(word: str, folder: Path) -> Any:
    """What a configuration in ``folder`` says for a model; the way to a file starts there."""
    from lmassay.card.models import model_spec

    spec = model_spec(word, Path.cwd())
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


def _say_what_next(target: Path, text: str) -> None:
    from lmassay.models import embedded

    for name in embedded.EMBEDDED:
        if f"\nmodel: {name}\n" in text and embedded.folder(name) is None:
            say(f"once:  lmassay models get {name}")
    say(f"next:  lmassay check {shlex.quote(str(target))}")
    say(f"       lmassay run {shlex.quote(str(target))}")
