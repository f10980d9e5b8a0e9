"""Reports and comparisons of selected runs: the files that the commands write, shown in the browser or downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from lmassay.redaction import without_keys
from lmassay.reporting import compare_page
from lmassay.reporting.comparison_data import DIRECTION_TEXTS, RunComparison, compare_with_first, interval_text
from lmassay.reporting.numbers import number_text, p_text
from lmassay.reporting.report_text import report_text
from lmassay.statistics.run_pairs import named_runs
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay.view.context import Context, records_of
from lmassay.view.run_list import ListQuery

# A report contains its own Content Security Policy, with the hashes of its script and its style. The browser applies
# both that policy and this one. This one allows any inline script and style; the policy of the report allows only its
# own.
_DOCUMENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_MEDIA_TYPES = {"html": "text/html", "md": "text/markdown", "tex": "text/x-tex", "csv": "text/csv"}


@dataclass(frozen=True, slots=True)
class Difference:
    """A row of the table of differences, as texts."""

    metric: str
    direction: str
    """Which values of the metric are better."""
    run: str
    """The title of the new run."""
    base: str
    """The mean of the base run."""
    new: str
    """The mean of the new run."""
    difference: str
    interval: str
    relative: str
    p: str
    p_adjusted: str
    n: str


class Documents:
    """The pages with reports and comparisons."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def report(self, request: Request) -> Response:
        """Send the report about selected runs, or about all runs that the list shows."""
        format_name = request.query_params.get("format", "html")
        if format_name not in _MEDIA_TYPES:
            raise HTTPException(400, f"There is no report format '{format_name}'; use html, md, tex or csv.")
        with self.context.folder.store() as store:
            records = [store.with_damage(record) for record in self._selected(request, store)]
            text = report_text(store, records, format_name)
        return _document(text, format_name, "report", is_download="download" in request.query_params)

    def compare(self, request: Request) -> Response:
        """Show the differences between two runs, or between several runs and the first one."""
        runs = request.query_params.getlist("run")
        with self.context.folder.store() as store:
            comparison = self._comparison(request, store)
            return self.context.page(
                "compare.html",
                request,
                comparison=comparison,
                base=comparison.bases[0],
                others=comparison.others,
                differences=_differences(comparison),
                runs=runs,
                swapped=[*runs[1:], runs[0]],
            )

    def compare_document(self, request: Request) -> Response:
        """Send the page that `lmassay compare -o` writes, with the examples that changed."""
        with self.context.folder.store() as store:
            text = compare_page.render(self._comparison(request, store))
        return _document(text, "html", "comparison", is_download="download" in request.query_params)

    def _comparison(self, request: Request, store: Store) -> RunComparison:
        """Compare the runs that the address names; the first one is the base."""
        runs = request.query_params.getlist("run")
        if len(runs) < 2:
            raise HTTPException(400, "Select at least two runs to compare; the others are compared with the first.")
        # Refuses runs that are damaged or no longer there, with a message for the page.
        records_of(store, runs, usable=True)
        pairs = named_runs(store, store, runs, gated=False).pairs
        base, _ = pairs[0]
        records = [base]
        for _, new in pairs:
            records.append(new)
        return compare_with_first([(store, record) for record in records])

    def _selected(self, request: Request, store: Store) -> Sequence[RunRecord]:
        """Return the runs that the address names, or all runs that match its filters."""
        if "all" in request.query_params:
            snapshot = self.context.folder.snapshot()
            query = ListQuery.of(request.query_params)
            selected = {state.record.id for state in query.select(snapshot.runs)}
            # The first run in a report is the base of its comparisons, so the runs are in the order in which they were
            # recorded. The times in their ids are not reliable: a clock may have been set back.
            runs = [state.record.id for state in snapshot.runs if state.record.id in selected]
        else:
            runs = request.query_params.getlist("run")
        if not runs:
            raise HTTPException(400, "No run is selected. Go back and select at least one.")
        return records_of(store, runs)


def _differences(comparison: RunComparison) -> list[Difference]:
    """Return the rows of the table of differences."""
    rows = []
    for row in comparison.rows:
        rows.append(
            Difference(
                metric=row.metric,
                direction=DIRECTION_TEXTS[row.better],
                run=comparison.title(row.new),
                base=number_text(row.base_mean),
                new=number_text(row.new_mean),
                difference=f"{row.difference:+z.4f}",
                interval=interval_text(row, "+"),
                relative="" if row.relative is None else f"{row.relative:+z.1%}",
                p=p_text(row.p),
                p_adjusted=p_text(row.p_adjusted),
                n=f"{row.n:,}",
            )
        )
    return rows


def _document(text: str, format_name: str, name: str, *, is_download: bool) -> Response:
    """Return a response with a document, to be shown or downloaded."""
    headers = {"content-security-policy": _DOCUMENT_POLICY}
    if is_download or format_name != "html":
        headers["content-disposition"] = f'attachment; filename="{name}.{format_name}"'
    content = without_keys(text).encode("utf-8", "backslashreplace")
    return Response(content, media_type=f"{_MEDIA_TYPES[format_name]}; charset=utf-8", headers=headers)
