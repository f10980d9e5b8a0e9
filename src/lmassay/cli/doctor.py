"""``lmassay doctor``"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

import lmassay
from lmassay.cli.commands import command_table
from lmassay.cli.console import print_json, print_table, say, stdout_console
from lmassay.cli.options import default_results, json_option
from lmassay.contracts import CardVariant, Evaluation, Finding, Hook, View, resolve
from lmassay.interchange.exports import Export
from lmassay.plugins.evaluations import OWN_PACKAGE, installed_evaluations
from lmassay.plugins.hooks import hook_failure, instance_of, list_of
from lmassay.plugins.registry import current_registry, kinds

# What the core itself has extras for: extra → package → what it is for. Evaluations add their own.
EXTRAS = {
    "hf": {"transformers": "local models", "torch": "what they compute with", "gguf": "models in GGUF files"},
    "dask": {"distributed": "trainings on a Dask cluster"},
    "view": {"datasette": "lmassay view"},
    "tables": {"pandas": "results as data frames", "polars": "results as data frames"},
    "figures": {"typst": "figures as PDF and PNG"},
}
_CORE = (
    "click",
    "httpx2",
    "jinja2",
    "numpy",
    "platformdirs",
    "pydantic",
    "pyyaml",
    "regex",
    "rich",
    "sacrebleu",
    "scipy",
)
_LEAST_PYTHON = (3, 11)
_LEAST_FREE = 2e9
_UPDATE = "update or remove the package"


@click.command(epilog="Example: lmassay doctor", short_help="Tell what is installed.")
@json_option
def doctor(as_json: bool) -> int:
    """Tell what is installed, what is missing and how to get it. Only what is broken makes the exit code 1."""
    findings = [*_core(), *_extras(), *_evaluations(), *_models(), *_folders(), _terminal()]
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        rows = [(f.state, f.what, " → ".join(text for text in (f.found, f.remedy) if text)) for f in findings]
        print_table("", ("state", "what", "found, or how to get it"), rows, whole=(0,))
        say(_next(findings))
    return 1 if any(finding.state == "broken" for finding in findings) else 0


def _next(findings: Sequence[Finding]) -> str:
    broken = [finding for finding in findings if finding.state == "broken"]
    if broken:
        names = dict.fromkeys(finding.what for finding in broken)
        return f"first mend what is broken: {', '.join(names)}"
    if all(_version(package) for package in EXTRAS["hf"]):
        return "next: lmassay card asks a small real model all questions; lmassay init writes a configuration"
    return (
        "next: pip install 'lmassay[hf]', then lmassay card asks a small real model all questions; without it: "
        "lmassay init"
    )


def _core() -> list[Finding]:
    python = platform.python_version()
    rows = [
        Finding("lmassay", "ok", lmassay.__version__),
        Finding("Python", "ok", python)
        if sys.version_info >= _LEAST_PYTHON
        else Finding("Python", "broken", python, f"install Python {'.'.join(map(str, _LEAST_PYTHON))} or newer"),
        Finding("SQLite", "ok", sqlite3.sqlite_version),
    ]
    for package in _CORE:
        version = _version(package)
        broken = Finding(package, "broken", "", f"pip install {package}")
        rows.append(Finding(package, "ok", version) if version else broken)
    return rows


def _extras() -> list[Finding]:
    rows = []
    for extra, packages in EXTRAS.items():
        for package, purpose in packages.items():
            rows.append(Finding.of_package(package, purpose, extra))
    return rows


def _evaluations() -> list[Finding]:
    """What the evaluations need, and what is wrong with those of other packages."""
    known = installed_evaluations()
    rows: list[Finding] = []
    for evaluation in known.evaluations:
        rows += _checks_of(evaluation)
        if known.origins[evaluation.name] != OWN_PACKAGE:
            rows += _broken_hooks(evaluation)
    for problem in (*known.problems, *command_table().problems):
        rows.append(Finding(f"the package {problem.package}", "broken", problem.what, _UPDATE))
    for kind in kinds():
        for entry in current_registry().entries(kind):
            if entry.problem:
                found = f"from {entry.origin}: {entry.problem}"
                rows.append(Finding(f"the {kind} {entry.name}", "broken", found, _UPDATE))
    return rows


def _checks_of(evaluation: Evaluation) -> list[Finding]:
    """What an evaluation itself looks for."""
    if evaluation.checks is None:
        return []
    try:
        return list_of(Finding)(resolve(evaluation.checks)())
    except (Exception, SystemExit) as error:  # the other findings are shown
        return [_broken_hook(evaluation, "checks", error)]


def _broken_hooks(evaluation: Evaluation) -> list[Finding]:
    """Hooks and commands that cannot be imported, and those that need nothing to be called and fail."""
    rows: list[Finding] = []
    for member, hook in _hooks_of(evaluation):
        try:
            function = resolve(hook)
            if member == "card":
                list_of(CardVariant)(function("quick"))
            elif member == "export" or member.endswith(".export"):
                instance_of(Export)(function())
            elif member == "log_reader":
                function()
        except (Exception, SystemExit) as error:  # the other findings are shown
            rows.append(_broken_hook(evaluation, member, error))
    return rows


def _hooks_of(evaluation: Evaluation) -> Iterator[tuple[str, Hook]]:
    members = ("section", "texts", "headline", "export", "card", "after_run", "log_reader")
    views: list[tuple[str, View]] = [("", evaluation)]
    views += [(f"tasks['{name}'].", entry) for name, entry in evaluation.tasks.items()]
    for owner, view in views:
        for member in members:
            hook = getattr(view, member, None)
            if hook is not None:
                yield f"{owner}{member}", hook
        if view.sample is not None and view.sample.marks is not None:
            yield f"{owner}sample.marks", view.sample.marks
    usable = command_table().by_name
    for command in evaluation.commands:
        # Others are reported already.
        if usable.get(command.name) is command:
            yield f"commands['{command.name}']", command.path


def _broken_hook(evaluation: Evaluation, member: str, error: BaseException) -> Finding:
    return Finding(f"the evaluation {evaluation.name}", "broken", hook_failure(evaluation, member, error), _UPDATE)


def _models() -> list[Finding]:
    from lmassay.models import cache, embedded

    rows = [_folder("model cache", cache.cache_folder(), "LMASSAY_CACHE")]
    for name in embedded.EMBEDDED:
        folder = embedded.folder(name)
        absent = Finding(f"the model {name}", "missing", "", f"lmassay models get {name}")
        rows.append(absent if folder is None else Finding(f"the model {name}", "ok", str(folder)))
    return rows


def _folders() -> list[Finding]:
    return [_folder("results folder", default_results(), "LMASSAY_RESULTS")]


def _folder(what: str, folder: Path, variable: str) -> Finding:
    """Whether it can be written to, and how much room it has."""
    other = f"set {variable} to a folder"
    try:
        place = next(parent for parent in (folder.resolve(), *folder.resolve().parents) if parent.exists())
        free = shutil.disk_usage(place).free
    except OSError as error:
        return Finding(what, "broken", f"{folder}: {error.strerror}", f"{other} you may write to")
    found = f"{folder}, {free / 1e9:.1f} GB free"
    if not place.is_dir():
        return Finding(what, "broken", f"{folder}: {place} is a file", f"{other}")
    if not os.access(place, os.W_OK):
        return Finding(what, "broken", found, f"{other} you may write to")
    if free < _LEAST_FREE:
        return Finding(what, "low", found, f"make room, or {other} on another disk")
    return Finding(what, "ok", found)


def _terminal() -> Finding:
    console = stdout_console()
    encoding = (sys.stdout.encoding or "unknown").lower()
    kind = f"{console.width} columns" if console.is_terminal else "none, output goes to a file or pipe"
    colour = f"{console.color_system} colours" if console.color_system and not console.no_color else "no colours"
    found = f"{kind}, {colour}, {encoding}"
    if encoding.replace("-", "") != "utf8":
        return Finding("terminal", "low", found, "set PYTHONUTF8=1, or else other scripts are shown as escapes")
    return Finding("terminal", "ok", found)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
