"""What ``lmassay doctor`` does."""

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

import lmassay
from lmassay.cli.commands import command_table
from lmassay.cli.console import print_json, say
from lmassay.cli.exit import INCOMPLETE
from lmassay.cli.table_output import UNLIMITED_WIDTH, print_table, stdout_console
from lmassay.contracts import CardVariant, Evaluation, Finding, Hook, View, resolve
from lmassay.errors import LmassayError, StoreError, UserError
from lmassay.interchange.exports import Export
from lmassay.plugins.evaluations import OWN_PACKAGE, installed_evaluations
from lmassay.plugins.hooks import hook_failure, instance_of, list_of
from lmassay.plugins.options import remember_written_secrets
from lmassay.plugins.registry import current_registry, kinds
from lmassay.redaction import remember_environment
from lmassay.running.runner import recompute
from lmassay.storage.commands import command_line, default_results
from lmassay.storage.old_secrets import blank_secrets, count_secrets
from lmassay.storage.repair import find_damage, repair_lock, repair_store
from lmassay.storage.store import STORE_FILE, Store

# The optional dependencies of the core: extra → package → purpose. Evaluations add their own.
EXTRAS = {
    "hf": {"transformers": "local models", "torch": "PyTorch, for local models", "gguf": "models in GGUF files"},
    "dask": {"distributed": "trainings and local models on a Dask cluster"},
    "view": {"starlette": "lmassay view", "uvicorn": "lmassay view"},
    "datasette": {"datasette": "lmassay view --datasette"},
    "tables": {"pandas": "results as data frames", "polars": "results as data frames"},
    "figures": {"typst": "figures as PDF and PNG"},
}
# The packages that every installation needs.
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
_MIN_PYTHON = (3, 11)
# Bytes; enough for a small model and its answers.
_MIN_FREE_SPACE = 2e9
# What to do about a broken package of another author.
_UPDATE = "update or remove the package"
# The beginning of the name of the check for secrets; the results folder follows.
_SECRETS = "secrets in"


def doctor(results: Path | None, fix: bool, as_json: bool) -> int:
    """Check the installation, or a results folder."""
    if fix and results is None:
        raise UserError("--fix requires a results folder: lmassay doctor --results FOLDER --fix")
    findings = _results_in(results, fix) if results is not None else _installation()
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        rows = []
        for finding in findings:
            details = finding.found
            if finding.remedy:
                details = f"{finding.found} → {finding.remedy}" if finding.found else finding.remedy
            rows.append((finding.state, finding.what, details))
        print_table("", ("state", "component", "details"), rows, whole=(0,))
        if results is None:
            say(_next_step(findings))
        elif _is_broken(findings):
            repair = command_line("doctor", "--results", results, "--fix")
            effect = "saves everything that is undamaged"
            if any(finding.what.startswith(_SECRETS) for finding in findings):
                # Secrets are looked for only in results without damage.
                effect = "blanks out the secrets"
            say(f"next: `{repair}` {effect}; the original file is kept under another name")
    return INCOMPLETE if _is_broken(findings) else 0


def _is_broken(findings: Sequence[Finding]) -> bool:
    return any(finding.state == "broken" for finding in findings)


def _next_step(findings: Sequence[Finding]) -> str:
    """Return a sentence about what the user can do next."""
    broken = dict.fromkeys(finding.what for finding in findings if finding.state == "broken")
    if broken:
        return f"first fix what is broken: {', '.join(broken)}"
    if all(_version(package) for package in EXTRAS["hf"]):
        return "next: lmassay card runs all evaluations on a small model; lmassay init writes a configuration"
    return (
        "next: pip install 'lmassay[hf]', then lmassay card runs all evaluations on a small model; without it: "
        "lmassay init"
    )


def _installation() -> list[Finding]:
    """Check what is installed, what is missing and how to get it."""
    return [*_core(), *_extras(), *_evaluations(), *_models(), *_folders(), _terminal()]


def _core() -> list[Finding]:
    python = Finding("Python", "ok", platform.python_version())
    if sys.version_info < _MIN_PYTHON:
        remedy = f"install Python {'.'.join(map(str, _MIN_PYTHON))} or newer"
        python = Finding("Python", "broken", platform.python_version(), remedy)
    findings = [
        Finding("lmassay", "ok", lmassay.__version__),
        python,
        Finding("SQLite", "ok", sqlite3.sqlite_version),
    ]
    for package in _CORE:
        version = _version(package)
        if version:
            findings.append(Finding(package, "ok", version))
        else:
            findings.append(Finding(package, "broken", "", f"pip install {package}"))
    return findings


def _extras() -> list[Finding]:
    findings = []
    for extra, packages in EXTRAS.items():
        for package, purpose in packages.items():
            findings.append(Finding.of_package(package, purpose, extra))
    return findings


def _evaluations() -> list[Finding]:
    """Check what the evaluations need, and whether those of other packages can be used."""
    installed = installed_evaluations()
    findings: list[Finding] = []
    for evaluation in installed.evaluations:
        findings += _checks_of(evaluation)
        if installed.origins[evaluation.name] != OWN_PACKAGE:
            findings += _broken_hooks(evaluation)
    for problem in (*installed.problems, *command_table().problems):
        findings.append(Finding(f"the package {problem.package}", "broken", problem.what, _UPDATE))
    for kind in kinds():
        for entry in current_registry().entries(kind):
            if entry.problem:
                details = f"from {entry.origin}: {entry.problem}"
                findings.append(Finding(f"the {kind} {entry.name}", "broken", details, _UPDATE))
    return findings


def _checks_of(evaluation: Evaluation) -> list[Finding]:
    """Return the findings of an evaluation's own checks."""
    if evaluation.checks is None:
        return []
    try:
        return list_of(Finding)(resolve(evaluation.checks)())
    except (Exception, SystemExit) as error:
        # One broken evaluation must not hide the other findings.
        return [_broken_hook(evaluation, "checks", error)]


def _broken_hooks(evaluation: Evaluation) -> list[Finding]:
    """Report hooks and commands that cannot be imported, and hooks that need no run but fail when called."""
    findings: list[Finding] = []
    for member, hook in _hooks_of(evaluation):
        try:
            function = resolve(hook)
            if member == "card":
                list_of(CardVariant)(function("quick"))
            elif member == "export" or member.endswith(".export"):
                instance_of(Export)(function())
            elif member == "log_reader":
                function()
        except (Exception, SystemExit) as error:
            findings.append(_broken_hook(evaluation, member, error))
    return findings


def _hooks_of(evaluation: Evaluation) -> Iterator[tuple[str, Hook]]:
    """Yield the hooks of an evaluation with the names of the members that contain them, for messages."""
    members = ("section", "texts", "headline", "export", "card", "after_run", "log_reader")
    views: list[tuple[str, View]] = [("", evaluation)]
    views += [(f"tasks['{name}'].", entry) for name, entry in evaluation.tasks.items()]
    for owner, view in views:
        for member in members:
            hook = getattr(view, member, None)
            if hook is not None:
                yield f"{owner}{member}", hook
        # This hook fills in placeholders of the sample configuration.
        if view.sample is not None and view.sample.marks is not None:
            yield f"{owner}sample.marks", view.sample.marks
    if evaluation.published_card is not None:
        yield "published_card.variants", evaluation.published_card.variants
    usable = command_table().by_name
    for command in evaluation.commands:
        # Commands that cannot be used are reported already.
        if usable.get(command.name) is command:
            yield f"commands['{command.name}']", command.path


def _broken_hook(evaluation: Evaluation, member: str, error: BaseException) -> Finding:
    return Finding(f"the evaluation {evaluation.name}", "broken", hook_failure(evaluation, member, error), _UPDATE)


def _models() -> list[Finding]:
    from lmassay.models import embedded
    from lmassay.storage.cache import cache_folder

    findings = [_folder("model cache", cache_folder(), "LMASSAY_CACHE")]
    for name in embedded.EMBEDDED:
        folder = embedded.folder(name)
        if folder is None:
            findings.append(Finding(f"the model {name}", "missing", "", f"lmassay models get {name}"))
        else:
            findings.append(Finding(f"the model {name}", "ok", str(folder)))
    return findings


def _folders() -> list[Finding]:
    return [_folder("results folder", default_results(), "LMASSAY_RESULTS")]


def _folder(what: str, folder: Path, variable: str) -> Finding:
    """Check whether a folder, which may not exist yet, can be written to, and how much space is free there."""
    remedy = f"set {variable} to a folder"
    try:
        parents = (folder.resolve(), *folder.resolve().parents)
        existing_parent = next(parent for parent in parents if parent.exists())
        free = shutil.disk_usage(existing_parent).free
    except OSError as error:
        return Finding(what, "broken", f"{folder}: {error.strerror}", f"{remedy} you may write to")
    details = f"{folder}, {free / 1e9:.1f} GB free"
    if not existing_parent.is_dir():
        return Finding(what, "broken", f"{folder}: {existing_parent} is a file", remedy)
    if not os.access(existing_parent, os.W_OK):
        return Finding(what, "broken", details, f"{remedy} you may write to")
    if free < _MIN_FREE_SPACE:
        return Finding(what, "low", details, f"free some space, or {remedy} on another disk")
    return Finding(what, "ok", details)


def _results_in(results: Path, fix: bool) -> list[Finding]:
    """Check a results folder for damage, then for secrets; with ``fix``, repair it."""
    if not os.path.lexists(results / STORE_FILE):
        raise StoreError(f"there are no results in {results}; give a folder that contains {STORE_FILE}")
    what = f"results in {results}"
    damages = find_damage(results)
    if damages and not fix:
        remedy = command_line("doctor", "--results", results, "--fix")
        return [Finding(damage.what, "broken", damage.problem, remedy) for damage in damages]
    findings = [Finding(what, "ok", "no damage")]
    if damages:
        checked = (results / STORE_FILE).stat()
        with repair_lock(results):
            # If another process has repaired the folder in the meantime, the file is a new one.
            is_same_file = os.path.samestat(checked, (results / STORE_FILE).stat())
            if is_same_file or find_damage(results):
                findings = _repaired(results)
    return [*findings, _secrets_in(results, fix)]


def _repaired(results: Path) -> list[Finding]:
    """Rebuild the file of a damaged results folder, and recompute the results of runs whose examples are complete."""
    repair = repair_store(results)
    findings = [Finding(f"results in {results}", "ok", f"repaired; the damaged file is now {repair.backup}")]
    for run in repair.removed:
        findings.append(Finding(f"the run {run}", "low", "its record is lost, so it was removed", "start a new run"))
    with Store(results, create=True) as store:
        for run in repair.incomplete:
            if _has_new_results(store, run):
                findings.append(Finding(f"the run {run}", "ok", "its results were computed again"))
                continue
            remedy = command_line("resume", run, "--results", results)
            findings.append(Finding(f"the run {run}", "low", "some of its examples or results are lost", remedy))
    return findings


def _has_new_results(store: Store, run: str) -> bool:
    """Compute the results of a run again if all its examples are stored; return whether that was possible."""
    record = store.run(run)
    if record.planned is None or sum(store.count(run).values()) != record.planned:
        return False
    try:
        recompute(record, store)
    except (LmassayError, OSError):
        # Its data or its model has been removed or has changed.
        return False
    return True


def _secrets_in(results: Path, fix: bool) -> Finding:
    """Look for secrets that an earlier version stored; with ``fix``, blank them out."""
    what = f"{_SECRETS} {results}"
    with Store(results) as store:
        remember_environment()
        for record in store.runs():
            remember_written_secrets(record.config)
        count = count_secrets(store)
    if not count:
        return Finding(what, "ok", "none")
    if not fix:
        remedy = command_line("doctor", "--results", results, "--fix")
        return Finding(what, "broken", f"{count:,} records, examples or answers contain a secret", remedy)
    # With create=True, the schema of an older store is updated.
    with Store(results, create=True) as store:
        count, backup = blank_secrets(store)
    return Finding(what, "ok", f"{count:,} records, examples or answers changed; delete the original: {backup}")


def _terminal() -> Finding:
    """Report the width, colours and encoding of the terminal."""
    console = stdout_console()
    encoding = (sys.stdout.encoding or "unknown").lower()
    width = f"{console.width} columns" if console.width < UNLIMITED_WIDTH else "none, output goes to a file or pipe"
    colours = "no colours"
    if console.color_system and not console.no_color:
        colours = f"{console.color_system} colours"
    details = f"{width}, {colours}, {encoding}"
    if encoding.replace("-", "") != "utf8":
        return Finding("terminal", "low", details, "set PYTHONUTF8=1 to see all characters; others are escaped")
    return Finding("terminal", "ok", details)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
