"""The addresses of the view, and the pages that only show something."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lmassay.errors import LmassayError, StoreError
from lmassay.plugins.evaluations import evaluations
from lmassay.redaction import without_keys
from lmassay.reporting.html_document import style_sheet, without_unwritable
from lmassay.storage.commands import command_line, command_on_results
from lmassay.types import RunRecord
from lmassay.view.changes import Changes, annotation_digest
from lmassay.view.context import Context, run_of
from lmassay.view.documents import Documents
from lmassay.view.example_detail import example_detail
from lmassay.view.folder import Snapshot
from lmassay.view.run_list import GROUPS, ListQuery, choices, run_list
from lmassay.view.run_page import (
    STATES,
    ExampleQuery,
    example_table,
    how_to_continue,
    run_facts,
    run_results,
)
from lmassay.view.templating import render

_MAX_DIGITS = 15
Parts = Mapping[str, str]
"""The parts of a page that may change while a run is in progress: name → HTML."""


def application(context: Context) -> Starlette:
    """Return the application. It answers every request; :class:`~lmassay.view.guard.Guard` must protect it."""
    pages = Pages(context)
    documents = Documents(context)
    changes = Changes(context)
    routes = [
        Route("/", pages.runs),
        Route("/live", pages.runs_live),
        Route("/runs/{run}", pages.run),
        Route("/runs/{run}/live", pages.run_live),
        Route("/runs/{run}/examples/{position}", pages.example),
        Route("/runs/{run}/annotation", changes.annotate, methods=["POST"]),
        Route("/report", documents.report),
        Route("/compare", documents.compare),
        Route("/compare/page", documents.compare_document),
        Route("/tag", changes.tag_page),
        Route("/tag", changes.tag, methods=["POST"]),
        Route("/delete", changes.delete_page),
        Route("/delete", changes.delete, methods=["POST"]),
        Route("/static/{name}", static_file),
    ]

    def show_error(request: Request, error: Exception) -> Response:
        return _error_page(context, request, error)

    return Starlette(
        routes=routes,
        exception_handlers={HTTPException: show_error, LmassayError: show_error, Exception: show_error},
    )


class Pages:
    """The pages that show the list of runs, one run or one example."""

    def __init__(self, context: Context) -> None:
        self.context = context

    # --- the list -------------------------------------------------------------------------------------------------

    def runs(self, request: Request) -> Response:
        """Show the list of runs."""
        snapshot = self.context.folder.snapshot()
        query = ListQuery.of(request.query_params)
        parts = self._list_parts(snapshot, query)
        return self.context.page(
            "runs.html",
            request,
            query=query,
            parts=parts,
            live=query.url("/live"),
            page_version=_version(snapshot, parts),
        )

    def runs_live(self, request: Request) -> Response:
        """Send the parts of the list, or status 204 if the folder is unchanged since the browser's version."""
        snapshot = self.context.folder.snapshot()
        if _is_unchanged(request, snapshot):
            return Response(status_code=204)
        return _live(snapshot, self._list_parts(snapshot, ListQuery.of(request.query_params)))

    def _list_parts(self, snapshot: Snapshot, query: ListQuery) -> Parts:
        listed = run_list(snapshot, query)
        common = {"snapshot": snapshot, "query": query, "list": listed}
        folder = self.context.folder.path
        return {
            "summary": render("parts/summary.html", **common),
            "filters": render("parts/filters.html", **common, choices=choices(snapshot, query), groups=GROUPS),
            "runs": render("parts/runs.html", **common, folder=folder.resolve(), commands=_first_commands(folder)),
        }

    # --- a run ----------------------------------------------------------------------------------------------------

    def run(self, request: Request) -> Response:
        """Show a run."""
        snapshot = self.context.folder.snapshot()
        state = run_of(snapshot, request.path_params["run"])
        query = ExampleQuery.of(request.query_params)
        record = state.record
        parts = self._run_parts(snapshot, record.id, query)
        with self.context.folder.store() as store:
            facts = run_facts(store, record)
        # A message such as "The note and the tags have been saved." is shown once, not with every update.
        parameters = [(name, value) for name, value in request.query_params.items() if name != "message"]
        return self.context.page(
            "run.html",
            request,
            state=state,
            record=record,
            query=query,
            states=STATES,
            metrics=_metrics_to_filter_by(record),
            parts=parts,
            others=_runs_to_compare_with(record, snapshot),
            facts=facts,
            seen=annotation_digest(record.annotation),
            live=f"/runs/{quote(record.id, safe='')}/live?{urlencode(parameters)}",
            page_version=_version(snapshot, parts),
        )

    def run_live(self, request: Request) -> Response:
        """Send the parts of a run's page, or status 204 if the folder is unchanged since the browser's version."""
        snapshot = self.context.folder.snapshot()
        run = run_of(snapshot, request.path_params["run"]).record.id
        if _is_unchanged(request, snapshot):
            return Response(status_code=204)
        return _live(snapshot, self._run_parts(snapshot, run, ExampleQuery.of(request.query_params)))

    def _run_parts(self, snapshot: Snapshot, run: str, query: ExampleQuery) -> Parts:
        state = run_of(snapshot, run)
        with self.context.folder.store() as store:
            results = run_results(store, state)
            examples = example_table(store, state, query)
            command = how_to_continue(state, store)
        common = {"state": state, "record": state.record, "query": query}
        return {
            "state": render("parts/state.html", **common, resume=command),
            "results": render("parts/results.html", **common, results=results),
            "examples": render("parts/examples.html", **common, table=examples),
        }

    # --- an example -----------------------------------------------------------------------------------------------

    def example(self, request: Request) -> Response:
        """Show one example."""
        state = run_of(self.context.folder.snapshot(), request.path_params["run"])
        digits = request.path_params["position"]
        # A longer number would be too large for the store.
        if not digits.isdecimal() or len(digits) > _MAX_DIGITS:
            raise HTTPException(404, "There is no such page.")
        position = int(digits)
        with self.context.folder.store() as store:
            detail = example_detail(store, state.record, position)
        if detail is None:
            number = position + 1
            raise HTTPException(404, f"This run has no example number {number:,} (yet).")
        return self.context.page("example.html", request, record=state.record, detail=detail)


def _metrics_to_filter_by(record: RunRecord) -> list[str]:
    """Return the metrics that examples may have scores of, the main ones first."""
    of_results = [result.metric for result in record.results]
    metrics = dict.fromkeys([*record.design.headline, *of_results])
    # A name with a dot is a statistic over all examples, such as success.std.
    return [metric for metric in metrics if "." not in metric]


def _runs_to_compare_with(record: RunRecord, snapshot: Snapshot) -> list[RunRecord]:
    """Return the other runs of the same task, the latest first. Those without results come last."""
    others = []
    for state in reversed(snapshot.runs):
        if state.record.task == record.task and state.record.id != record.id:
            others.append(state.record)
    return sorted(others, key=lambda other: not other.results)


def _first_commands(folder: Path) -> list[str]:
    """Return the commands that start a first run in a folder, with a sample that an evaluation brings."""
    for evaluation in evaluations():
        for task in evaluation.tasks:
            if evaluation.view(task).sample is not None:
                return [command_line("init", task), command_on_results(folder, "run", f"{task}.yaml")]
    return [command_line("init")]


# --- live parts -------------------------------------------------------------------------------------------------------


def _version(snapshot: Snapshot, parts: Parts) -> str:
    """Return the version of a page: that of the folder, a dot, and a digest of the parts."""
    texts = "\n".join(parts.values())
    digest = hashlib.blake2b(texts.encode(), digest_size=8).hexdigest()
    # By the version of the folder alone, `_is_unchanged` tells whether the page must be rendered again.
    return f"{snapshot.version}.{digest}"


def _is_unchanged(request: Request, snapshot: Snapshot) -> bool:
    """Return whether the folder is as it was when the browser got its version of the page."""
    version_of_folder, _, _ = request.query_params.get("version", "").partition(".")
    return version_of_folder == snapshot.version


def _live(snapshot: Snapshot, parts: Parts) -> Response:
    return JSONResponse({"version": _version(snapshot, parts), "parts": dict(parts)})


# --- files and errors -------------------------------------------------------------------------------------------------

_TYPES = {"view.css": "text/css", "page.css": "text/css", "view.js": "text/javascript"}


def static_file(request: Request) -> Response:
    """Send a style sheet or the script."""
    name = request.path_params["name"]
    if name not in _TYPES:
        raise HTTPException(404, "There is no such file.")
    if name == "page.css":
        # Colours, fonts and tables are those of the report.
        text = style_sheet()
    else:
        text = files("lmassay.view").joinpath(f"static/{name}").read_text(encoding="utf-8")
    return Response(text, media_type=f"{_TYPES[name]}; charset=utf-8")


def _error_page(context: Context, request: Request, error: Exception) -> Response:
    """Return a page, or for a live part a JSON document, that says what went wrong."""
    if isinstance(error, HTTPException):
        status, text = error.status_code, error.detail
        if status == 404 and text == "Not Found":
            text = "There is no such page."
        elif status == 405:
            text = "This address can only be used by a form."
    elif isinstance(error, LmassayError):
        status = 503 if isinstance(error, StoreError) else 400
        # Messages begin with a small letter, because the terminal prints "error: " before them.
        message = str(error) or type(error).__name__
        text = message[0].upper() + message[1:]
    else:
        # Starlette raises the error again, and the server logs it.
        status, text = 500, "This page failed because of a bug in lmassay; the terminal has the details."
    if request.url.path.endswith("/live"):
        return JSONResponse({"problem": without_unwritable(without_keys(text))}, status_code=status)
    return context.page("message.html", request, status, text=text)
