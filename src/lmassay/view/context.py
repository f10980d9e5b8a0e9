"""What all pages of a view share."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from lmassay.storage.store import DAMAGED, Store
from lmassay.types import RunRecord
from lmassay.view.folder import ResultsFolder, RunState, Snapshot
from lmassay.view.templating import render

_MAX_MESSAGES = 20


@dataclass(frozen=True, slots=True)
class Context:
    """The results folder that is shown, and what may be done with it."""

    folder: ResultsFolder
    form_token: str
    """Part of every form that changes something."""
    read_only: bool = False
    messages: dict[str, str] = field(default_factory=dict)
    """Confirmations that the next page shows once; the key is a random part of its address."""

    def page(self, template: str, request: Request, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page."""
        text = render(
            template,
            folder=self.folder.path.resolve(),
            read_only=self.read_only,
            form_token=self.form_token,
            message=self.messages.pop(request.query_params.get("message", ""), ""),
            **values,
        )
        return HTMLResponse(text, status_code=status)

    def address_with_message(self, address: str, text: str) -> str:
        """Return the address of a page that shows a confirmation once."""
        while len(self.messages) >= _MAX_MESSAGES:
            # Nobody has opened the pages that the oldest messages were meant for.
            self.messages.pop(next(iter(self.messages)))
        key = secrets.token_urlsafe(6)
        self.messages[key] = text
        separator = "&" if "?" in address else "?"
        return f"{address}{separator}message={key}"

    def require_writable(self) -> None:
        """Raise an error if the view is read-only."""
        if self.read_only:
            raise HTTPException(403, "This view is read-only. Start it without --read-only to change something.")


def run_of(snapshot: Snapshot, run: str) -> RunState:
    """Return a run by its id; an error page if there is none."""
    state = snapshot.run(run)
    if state is None:
        raise HTTPException(404, snapshot.problem or f"There is no run {run} in this folder. It may have been deleted.")
    return state


def records_of(store: Store, runs: Sequence[str], *, usable: bool = False) -> list[RunRecord]:
    """Return runs by their ids, each once. If they must be ``usable``, a damaged one is an error."""
    record_of_run = {record.id: record for record in store.runs()}
    records = []
    for run in dict.fromkeys(runs):
        if run not in record_of_run:
            raise HTTPException(404, f"There is no run {run} in this folder. It may have been deleted.")
        if usable and record_of_run[run].status == DAMAGED:
            raise HTTPException(409, f"The run {run} is damaged: {record_of_run[run].note}")
        records.append(record_of_run[run])
    return records
