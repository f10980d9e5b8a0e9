"""What all pages of a view need: the results folder, the token for forms, and messages to show."""

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
    """A secret that every form sends back, so that no other web site can submit a form."""
    read_only: bool = False
    messages: dict[str, str] = field(default_factory=dict)
    """Confirmations that the next page shows once; the key is a random part of its address."""

    def page(self, template: str, request: Request, status: int = 200, **values: Any) -> HTMLResponse:
        """Return the page that a template makes of these values."""
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
        """Add a parameter to the address of a page, so that the page shows this confirmation once."""
        while len(self.messages) >= _MAX_MESSAGES:
            # The page for the oldest message was never opened, so the message is dropped.
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
    """Return a run by its id; if there is none, raise an HTTPException, which is shown as an error page."""
    state = snapshot.run(run)
    if state is None:
        raise HTTPException(404, snapshot.problem or f"There is no run {run} in this folder. It may have been deleted.")
    return state


def records_of(store: Store, runs: Sequence[str], *, usable: bool = False) -> list[RunRecord]:
    """Return runs by their ids, each once.

    Raise an HTTPException if one of the runs does not exist or, with ``usable``, if one of them is damaged.
    """
    record_of_run = {record.id: record for record in store.runs()}
    records = []
    for run in dict.fromkeys(runs):
        if run not in record_of_run:
            raise HTTPException(404, f"There is no run {run} in this folder. It may have been deleted.")
        if usable and record_of_run[run].status == DAMAGED:
            raise HTTPException(409, f"The run {run} is damaged: {record_of_run[run].note}")
        records.append(record_of_run[run])
    return records
