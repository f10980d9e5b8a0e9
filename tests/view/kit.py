"""A results folder with runs of all kinds, and the view of it as a browser meets it: a real server on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from lmassay.storage.store import Store
from lmassay.types import Design, Example, NewRun, Provenance, Response, Result, Row, Score
from lmassay.view.server import ViewServer

UGLY = '<script>alert(1)</script> 한국어 \u202eעברית\u001b[31m & "quotes"'


def add_run(
    store: Store,
    run: str,
    *,
    status: str = "done",
    task: str = "quiz",
    model: str = "tiny",
    label: str = "plain",
    scores: Mapping[str, float] | None = None,
    evaluation: str = "",
    sweep: str = "",
    metric: str = "accuracy",
) -> str:
    """Add a run with one example per score, and its results if it is done."""
    scores = {"e1": 1.0, "e2": 0.0} if scores is None else scores
    provenance = Provenance(
        evaluation=evaluation, signature={"task": task, "model": model}, design=Design(headline=(metric,))
    )
    config = {"task": {"name": task}, "model": {"name": model}}
    planned = NewRun(run, sweep or f"sweep of {run}", "n", task, model, label, config, "sig", provenance, len(scores))
    store.add_run(planned)
    if status not in ("waiting", "running"):
        store.add_rows(run, [(number, row(name, value)) for number, (name, value) in enumerate(scores.items())])
    if status == "done":
        mean = sum(scores.values()) / len(scores)
        store.set_results(run, [Result(metric, "overall", mean, 0.1, 0.9, len(scores), method="wilson")])
    store.set_status(run, status)
    return run


def row(name: str, value: float | None, text: str = "", error: str = "") -> Row:
    """An example with a score, without one, or in error."""
    example = Example(name, {"question": text or f"question {name}"}, "yes", {"category": "general"})
    if error:
        return Row(example, "error", error=error)
    if value is None:
        return Row(example, "unscored", Score(unscored={"accuracy": "no answer: refusal"}))
    return Row(example, "scored", Score({"accuracy": value}, details={"raw": f"answer to {name}"}))


def sample_folder(folder: Path) -> Path:
    """Runs of two models on two tasks, one of them with an answer, an error and ugly texts."""
    with Store(folder, create=True) as store:
        add_run(store, "20261101-080000-plain-aaaaaa", scores={"e1": 1.0, "e2": 0.0, "e3": 1.0})
        add_run(store, "20261101-090000-plain-bbbbbb", model="large", scores={"e1": 1.0, "e2": 1.0, "e3": 1.0})
        ugly = add_run(
            store, "20261101-100000-ugly-cccccc", task="riddle", label=UGLY, evaluation="bias", status="running"
        )
        store.add_response("key", ugly, "tiny", {"verb": "generate", "prompt": "Why?"}, Response(f"Because {UGLY}"))
        rows = [(0, row(UGLY, 0.25, UGLY)), (1, row("unanswered", None)), (2, row("down", None, error="HTTP 500"))]
        store.add_rows(ugly, rows, {UGLY: ["key"]})
        store.set_status(ugly, "incomplete", "1 example with errors")
    return folder


class Browser:
    """What a browser does on the pages of a view: it keeps the cookie and says where its forms come from."""

    def __init__(self, server: ViewServer) -> None:
        self.server = server
        self.origin = server.address.rstrip("/")
        self.client = httpx2.Client(base_url=self.origin, timeout=60)
        self.client.get(server.url)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return self.client.get(path, headers=headers)

    def page(self, path: str) -> str:
        response = self.get(path)
        assert response.status_code == 200, response.text
        return response.text

    def live(self, path: str) -> dict[str, Any]:
        """The parts of a page that change."""
        answer: dict[str, Any] = self.get(path).json()
        return answer

    def post(self, path: str, form: Mapping[str, Any], **headers: str) -> httpx2.Response:
        """Send a form, with the token that the pages of the view have in their forms."""
        fields = {"form_token": self.form_token(), **form}
        return self.client.post(path, data=fields, headers={"origin": self.origin, **headers})

    def form_token(self) -> str:
        return self.server.secrets.form


@contextmanager
def viewed(folder: Path, *, read_only: bool = False) -> Iterator[Browser]:
    """Serve a folder in a thread, and open it."""
    server = ViewServer(folder, read_only=read_only)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    browser = Browser(server)
    try:
        yield browser
    finally:
        browser.client.close()
        server.stop()
        thread.join(60)
        assert not thread.is_alive()
