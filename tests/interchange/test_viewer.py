"""The store in Datasette: it shows, and it cannot be made to write."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from lmassay import redaction
from lmassay.errors import MissingExtra, StoreError, UserError
from lmassay.interchange.viewer import Viewer, _application
from lmassay.storage.store import STORE_FILE, Store
from lmassay.types import NewRun, Provenance, RowBatch
from tests.interchange.kit import pairs_run
from tests.storage.old_schemas import downgrade
from tests.stored_keys import KEYS, MARK, RUNS, folder_with


def setup_module() -> None:
    """Import datasette when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("datasette")


_PATIENCE = 300


class Served:
    """`lmassay view --datasette` as a user starts it, in a process of its own."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lmassay", "view", "--datasette", "--port", "0", "--results", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        # A server that says nothing is ended: then the line is empty and the test fails rather than waits.
        patience = threading.Timer(_PATIENCE, self.process.kill)
        patience.start()
        self.url = self.process.stdout.readline().strip()
        patience.cancel()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def get(self, path: str, method: str = "GET", host: str = ""):
        request = urllib.request.Request(self.url + path, method=method, headers={"Host": host} if host else {})
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def sql(self, text: str, **params: str):
        query = urllib.parse.urlencode({"sql": text, "_shape": "array", **params})
        return self.get(f".json?{query}")

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        _, output = self.process.communicate(timeout=_PATIENCE)
        return self.process.returncode, output


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    finished_run = pairs_run(tmp_path_factory.mktemp("viewed"))
    with Store(finished_run.folder, create=True) as store:
        store.set_status(finished_run.id, "done", "<script>alert(1)</script>")
    return finished_run


@pytest.fixture(scope="module")
def served(run) -> Iterator[Served]:
    with Served(run.folder) as server:
        yield server


@pytest.fixture(autouse=True)
def datasette_as_it_was(monkeypatch) -> None:
    """A viewer in this process changes the environment and quietens datasette; the next test finds both unchanged."""
    monkeypatch.setenv("DATASETTE_LOAD_PLUGINS", "")
    from datasette import handle_exception

    monkeypatch.setattr(handle_exception, "rich", handle_exception.rich)


def test_it_tells_its_address_on_this_machine_and_shows_the_runs(served, run):
    assert served.url.startswith("http://127.0.0.1:")
    status, text = served.get("/runs.json?_shape=array")
    assert status == 200
    assert [row["id"] for row in json.loads(text)] == [run.id]


def test_tables_are_described_and_have_facets(served):
    status, page = served.get("/rows")
    assert status == 200
    assert "One row per example of a run" in page
    assert "facet-results" in page


def test_ready_made_queries_spread_out_results_scores_and_errors(served, run):
    _, text = served.get("/results.json?_shape=array&metric=accuracy&model=")
    overall_rows = [row for row in json.loads(text) if row["group"] == "overall"]
    assert [(row["value"], row["n"], row["errors"]) for row in overall_rows] == [(run["accuracy"].value, 6, 2)]
    _, text = served.get(f"/scores.json?_shape=array&run={run.id}&metric=accuracy")
    assert len(json.loads(text)) == 6
    _, text = served.get("/errors.json?_shape=array")
    assert [(row["error"], row["examples"]) for row in json.loads(text)] == [("the server is down", 2)]
    for query in ("unscored", f"changed.json?_shape=array&base={run.id}&new={run.id}&metric=accuracy"):
        assert served.get(f"/{query}")[0] == 200


@pytest.mark.parametrize(
    "sql",
    [
        "delete from runs",
        "insert into runs (id) values ('x')",
        "drop table rows",
        "attach database '/tmp/x.db' as x",
        "pragma journal_mode = delete",
        "select load_extension('x')",
        "with x as (select 1) delete from runs",
        "select 1; delete from runs",
    ],
)
def test_nothing_can_be_written_or_loaded_by_a_query(served, sql):
    before = hashlib.sha256((served.folder / STORE_FILE).read_bytes()).hexdigest()
    status, text = served.sql(sql)
    assert status == 400 or '"error"' in text or '"ok": false' in text
    assert hashlib.sha256((served.folder / STORE_FILE).read_bytes()).hexdigest() == before
    assert served.sql("select count(*) as n from runs")[1] == '[{"n": 1}]'


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_only_reading_requests_are_answered(served, method):
    assert served.get("/runs", method)[0] == 405


def test_a_request_for_another_host_is_refused(served):
    assert served.get("", host="evil.example")[0] == 421
    assert served.get("", host=served.url.split("/")[2].replace("127.0.0.1", "localhost"))[0] == 200


def test_no_page_may_load_from_or_send_to_another_server(served):
    with urllib.request.urlopen(served.url, timeout=_PATIENCE) as response:
        policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "http" not in policy


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_the_address_that_is_printed_answers_whichever_of_this_machine_it_is(run, host):
    import httpx

    try:
        viewer = Viewer(run.folder, host)
    except StoreError as reason:
        pytest.skip(f"this machine does not have {host}: {reason}")

    async def asked(host_header: str) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(viewer._app)) as client:
            return (await client.get(viewer.url, headers={"Host": host_header} if host_header else {})).status_code

    try:
        assert asyncio.run(asked("")) == 200
        assert asyncio.run(asked(f"127.0.0.3:{viewer.port}")) == 421
    finally:
        viewer._socket.close()


def test_the_file_itself_is_not_handed_out_and_no_plug_in_is_loaded(served):
    assert served.get(".db")[0] == 403
    with urllib.request.urlopen(served.url.removesuffix("/lmassay") + "/-/plugins.json", timeout=_PATIENCE) as response:
        assert json.load(response) == []


def _shown_texts(results, monkeypatch):
    """Return everything in the file that Datasette shows, as SQL."""
    shown_folders = []

    def application(folder):
        shown_folders.append(folder)
        return _application(folder)

    monkeypatch.setattr("lmassay.interchange.viewer._application", application)
    viewer = Viewer(results)
    try:
        (folder,) = shown_folders
        with closing(sqlite3.connect(folder / STORE_FILE)) as database:
            return "\n".join(database.iterdump())
    finally:
        viewer.close()


@pytest.mark.parametrize("in_batches", [True, False])
def test_keys_that_an_old_version_stored_are_not_shown(tmp_path, monkeypatch, in_batches):
    monkeypatch.setattr(redaction, "_in_use", set())
    monkeypatch.delenv("MY_API_KEY", raising=False)
    folder_with(tmp_path, KEYS[0])
    with closing(sqlite3.connect(tmp_path / STORE_FILE)) as database, database:
        if not in_batches:
            database.execute("DELETE FROM batches")
            database.execute("DELETE FROM digests WHERE part = 'rows'")
    monkeypatch.setenv("MY_API_KEY", KEYS[0])
    shown = _shown_texts(tmp_path, monkeypatch)
    assert RUNS[0] in shown
    assert MARK not in shown
    # The results themselves are not changed; `lmassay doctor --fix` does that.
    assert MARK.encode() in (tmp_path / STORE_FILE).read_bytes()


@pytest.mark.parametrize("schema", [2, 3, 5])
def test_keys_in_a_store_of_an_old_schema_are_not_shown(tmp_path, monkeypatch, schema):
    monkeypatch.setattr(redaction, "_in_use", set())
    monkeypatch.delenv("MY_API_KEY", raising=False)
    folder_with(tmp_path, KEYS[0])
    downgrade(tmp_path / STORE_FILE, schema)
    monkeypatch.setenv("MY_API_KEY", KEYS[0])
    shown = _shown_texts(tmp_path, monkeypatch)
    assert all(run in shown for run in RUNS)
    assert 'INSERT INTO "responses"' in shown
    assert MARK not in shown


def test_a_script_in_the_data_stays_text(served):
    _, page = served.get("/runs")
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page


@pytest.mark.fault(50)
@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.10", "example.org", "::"])
def test_other_hosts_than_this_machine_are_refused(run, host):
    with pytest.raises(UserError, match=r"on this machine only .* ssh -L 8001:127\.0\.0\.1:8001 HOST"):
        Viewer(run.folder, host)


def test_a_port_that_is_taken_is_reported(run):
    first = Viewer(run.folder)
    try:
        first._socket.listen()
        with pytest.raises(StoreError, match="choose another with --port"):
            Viewer(run.folder, port=first.port)
    finally:
        first._socket.close()


def test_a_folder_without_results_is_reported(tmp_path):
    with pytest.raises(StoreError, match="there are no results"):
        Viewer(tmp_path)


def test_a_missing_datasette_is_named_with_the_pip_command(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasette.app", None)
    with pytest.raises(MissingExtra, match=r"pip install 'lmassay\[datasette\]'"):
        _application(run.folder)


def test_it_ends_in_peace_when_it_is_told_to(run):
    with Served(run.folder) as server:
        assert server.sql("delete from runs")[0] == 400
        code, output = server.stop()
    assert code == 0
    assert output.splitlines()[-1] == "stopped"
    # A refused query is shown on the page; in the terminal Datasette has one line for it.
    assert "Traceback" not in output
    assert len(output.splitlines()) <= 4


def test_examples_in_batches_are_shown_as_rows(tmp_path, monkeypatch):
    import httpx

    from lmassay.interchange import viewer as viewer_module

    monkeypatch.setattr(viewer_module, "MAX_COPIED_ROWS", 3)
    with Store(tmp_path / "results", create=True) as store:
        for run, count in (("long", 4), ("short", 2)):
            store.add_run(NewRun(run, "s", "n", "t", "m", "l", {}, "sig", Provenance(), count))
            ids = [f"line {number}" for number in range(count)]
            store.add_batch(run, RowBatch(0, ids, {"s": np.ones(count)}, inputs={"src": ids}))
    viewer = Viewer(tmp_path / "results")

    async def asked(path: str) -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(viewer._app)) as client:
            return (await client.get(viewer.url + path)).json()

    try:
        for run, count in (("long", 3), ("short", 2)):
            rows = asyncio.run(asked(f"/scores.json?_shape=array&run={run}&metric="))
            assert [row["id"] for row in rows] == [f"line {number}" for number in range(count)]
            assert {row["value"] for row in rows} == {1.0}
    finally:
        viewer.close()
    assert any("the first 3 examples of each large run" in note for note in viewer.notes)
