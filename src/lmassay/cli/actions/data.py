"""``lmassay data``: list, fetch, show, verify and remove published data sets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from lmassay.cli.console import print_error, print_json, say, warn
from lmassay.cli.exit import INCOMPLETE
from lmassay.cli.progress import progress_bar
from lmassay.cli.table_output import print_sentence, print_table, stdout_console
from lmassay.datasets.catalogue import FailedFile, catalogue, data_folder, local_path, missing_files, remove
from lmassay.datasets.catalogue import get as fetch_files
from lmassay.datasets.catalogue import verify as verify_files
from lmassay.datasets.download import Downloader
from lmassay.datasets.entry import EXAMPLES, DataSet
from lmassay.errors import UserError
from lmassay.types.wording import counted

_MAX_LISTED = 10
# In characters. On a narrower terminal, licence and citation, or the summary, are left out of the table: their columns
# would have room for only a few letters per line.
_WIDTH_FOR_LICENCE = 110
_WIDTH_FOR_SUMMARY = 180


def list_data_sets(as_json: bool) -> None:
    """List the data sets that configurations can use by name."""
    available = catalogue()
    for problem in available.problems:
        warn(problem)
    if as_json:
        documents = []
        for entry in available.entries.values():
            documents.append(_document(entry))
        print_json({"datasets": documents})
        return
    _print_list(list(available.entries.values()))
    print_sentence("Licence, citation and files: lmassay data show NAME. Fetch: lmassay data get NAME.")


def catalogue_names() -> list[str]:
    """Return the names of all data sets."""
    return list(catalogue().entries)


def get(names: Sequence[str], everything: bool, partial: bool) -> int:
    """Download data sets and verify every file."""
    if names and everything:
        raise UserError("--all downloads every data set; leave out either --all or the names")
    if not names and not everything:
        raise UserError("name a data set, or give --all; lmassay data lists them")
    entries = _entries(names, everything)
    downloader = Downloader.configured()
    status = 0
    for entry in entries:
        files = list(entry.files())
        count = len(files)
        missing_before = len(missing_files(files))
        failures = _get_with_progress(entry, downloader)
        # The citation is printed only if something was downloaded.
        if len(missing_files(files)) < missing_before:
            say(f"{entry.title}: {entry.citation}")
            say(f"Licence: {entry.licences}. {entry.homepage}")
        if not failures:
            click.echo(f"{entry.name}: {count} {'file' if count == 1 else 'files'} in {data_folder()}")
            continue
        summary = f"{entry.name}: {len(failures)} of {count} files could not be fetched"
        only_missing = all(failure.is_missing for failure in failures)
        if partial and only_missing:
            warn(summary)
            for reason in _reasons(failures):
                say(reason)
        else:
            print_error(summary, _reasons(failures))
            status = INCOMPLETE
    return status


def show(name: str, as_json: bool) -> None:
    """Show a data set: source, licence, citation, parts, files and number of examples."""
    entry = catalogue().find(name)
    if as_json:
        print_json(_document(entry, with_files=True))
        return
    facts: list[list[object]] = [
        ["title", entry.title],
        ["summary", entry.summary],
        ["task", entry.task],
        ["languages", " ".join(entry.languages)],
        ["examples", entry.examples_text],
        ["size", _size(entry)],
        ["licence", entry.licences],
        ["citation", entry.citation],
        ["homepage", entry.homepage],
        ["use", _usage(entry)],
        ["here", _state(entry)],
    ]
    # Two sources may be two folders of one repository.
    for address in dict.fromkeys(f"{source.repository} at {source.commit}" for source in entry.sources):
        facts.append(["source", address])
    print_table("", ("", ""), facts, whole=(0,))
    rows: list[list[object]] = []
    for source, path, file in entry.files():
        labels = " ".join(f"{key}={value}" for key, value in file.labels.items())
        examples = "" if file.examples is None else f"{file.examples:,}"
        size = "" if file.bytes is None else f"{file.bytes:,}"
        is_here = "yes" if local_path(source, path).is_file() else "no"
        rows.append([f"{source.folder}/{path}", file.role, labels, examples, size, is_here])
    print_table("", ("file", "role", "labels", "examples", "bytes", "here"), rows, right=(3, 4), whole=(0,))


def path(name: str) -> None:
    """Print the folders that contain a data set. If nothing of it has been downloaded, this is an error."""
    entry = catalogue().find(name)
    if missing_files(list(entry.files())) == list(entry.files()):
        raise UserError(f"the data set {name} is not on this machine; run lmassay data get {name}")
    for folder in dict.fromkeys(source.folder for source in entry.sources):
        click.echo(data_folder() / folder)


def verify(names: Sequence[str]) -> int:
    """Compare every file with its pinned digest; without a name, check all data sets that were fetched."""
    entries = _entries(names, everything=not names)
    status = 0
    checked = 0
    for entry in entries:
        files = list(entry.files())
        missing = missing_files(files)
        if not names and len(missing) == len(files):
            continue
        checked += 1
        failures = verify_files(entry)
        if failures:
            print_error(
                f"{entry.name}: {len(failures)} of {len(files)} files are missing or changed; "
                f"run lmassay data get {entry.name}",
                _reasons(failures),
            )
            status = INCOMPLETE
        else:
            click.echo(f"{entry.name}: {counted(len(files), 'file')} as published")
    if not checked:
        say("no data set was fetched yet; for example: lmassay data get blimp")
    return status


def rm(names: Sequence[str]) -> None:
    """Delete the copies of data sets on this machine."""
    for entry in _entries(names, everything=False):
        freed = remove(entry)
        if freed:
            click.echo(f"{entry.name}: removed, {freed / 1e6:,.1f} MB freed")
        else:
            click.echo(f"{entry.name}: not on this machine, nothing to remove")


def _get_with_progress(entry: DataSet, downloader: Downloader) -> list[FailedFile]:
    """Download the files of a data set with a progress bar, and return those that failed."""
    with progress_bar(entry.name, counts_bytes=True) as advance:

        def report(size: int) -> None:
            # The size of some files is not known in advance, so more may be downloaded than expected.
            advance(size, max(size, entry.size))

        return fetch_files(entry, downloader, report)


def _entries(names: Sequence[str], everything: bool) -> list[DataSet]:
    available = catalogue()
    if everything:
        return list(available.entries.values())
    if not names:
        raise UserError("name a data set; lmassay data lists them")
    return [available.find(name) for name in names]


def _print_list(entries: Sequence[DataSet]) -> None:
    """Print a row for each data set, with as many columns as the terminal has room for."""
    width = stdout_console().width
    columns = ["name", "here", "languages", "examples", "size", "task"]
    if width >= _WIDTH_FOR_LICENCE:
        columns += ["licence", "citation"]
    if width >= _WIDTH_FOR_SUMMARY:
        columns.append("summary")
    rows: list[list[object]] = []
    for entry in entries:
        cells: dict[str, object] = {
            "name": entry.name,
            "here": _state(entry).removesuffix(" files"),
            "languages": " ".join(entry.languages),
            "examples": entry.examples_text,
            "size": _size(entry),
            "task": entry.task,
            "licence": entry.licences,
            "citation": _authors_and_year(entry.citation),
            "summary": entry.summary,
        }
        rows.append([cells[column] for column in columns])
    print_table("", columns, rows, right=(3, 4), whole=(0, 1, 5))


def _authors_and_year(citation: str) -> str:
    """Return the beginning of a citation up to the year in parentheses, or all of it if there is no such year."""
    beginning = re.match(r".*?\(\d{4}\w?\)", citation)
    return citation if beginning is None else beginning.group()


def _state(entry: DataSet) -> str:
    """Return how much of a data set is on this machine: ``yes``, ``no``, or such as ``3 of 5 files``."""
    files = list(entry.files())
    missing = len(missing_files(files))
    if missing == 0:
        return "yes"
    if missing == len(files):
        return "no"
    return f"{len(files) - missing} of {len(files)} files"


def _size(entry: DataSet) -> str:
    has_unknown = any(file.bytes is None for _, _, file in entry.files())
    if has_unknown and not entry.size:
        return "unknown"
    return f"{'> ' if has_unknown else ''}{entry.size / 1e6:,.1f} MB"


def _usage(entry: DataSet) -> str:
    """Return how a configuration names the data set and, if it has parts, one of its parts as an example."""
    if entry.part is None:
        return f"data: {entry.name}"
    for _, _, file in entry.files():
        if file.role == EXAMPLES and entry.part in file.labels:
            return f"data: {entry.name}, or data: {entry.name}/{file.labels[entry.part]}"
    return f"data: {entry.name}"


def _reasons(failures: Sequence[FailedFile]) -> list[str]:
    """Return a line for every missing file, and for the first ten other failures.

    Other failures, such as a network error, often have the same cause.
    """
    lines: list[str] = []
    others = 0
    not_tried = 0
    for failure in failures:
        if not failure.was_tried:
            not_tried += 1
            continue
        if not failure.is_missing:
            others += 1
            if others > _MAX_LISTED:
                continue
        lines.append(f"  {failure.path.name}: {failure.reason}")
    if others > _MAX_LISTED:
        lines.append(f"  and {others - _MAX_LISTED} more")
    if not_tried:
        lines.append(f"  the other {not_tried} were not tried")
    return lines


def _document(entry: DataSet, with_files: bool = False) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": entry.name,
        "title": entry.title,
        "summary": entry.summary,
        "task": entry.task,
        "languages": list(entry.languages),
        "examples": entry.examples,
        "bytes": entry.size,
        "licence": entry.licences,
        "citation": entry.citation,
        "homepage": entry.homepage,
        "here": _state(entry),
    }
    if with_files:
        files: list[dict[str, Any]] = []
        for source, path_, file in entry.files():
            local = local_path(source, path_)
            files.append(
                {
                    "file": f"{source.folder}/{path_}",
                    "repository": source.repository,
                    "commit": source.commit,
                    "role": file.role,
                    "labels": dict(file.labels),
                    "examples": file.examples,
                    "bytes": file.bytes,
                    "sha256": file.sha256,
                    "git_blob": file.git_blob,
                    "path": str(local) if local.is_file() else None,
                }
            )
        document["files"] = files
    return document
