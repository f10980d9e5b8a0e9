"""`lmassay view` as a user starts and stops it."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading

import httpx2
import pytest

from lmassay.errors import StoreError, UserError
from lmassay.view.server import ViewServer
from tests.helpers import lmassay
from tests.view.kit import sample_folder

_PATIENCE = 300


def test_it_prints_its_address_and_ends_with_ctrl_c_while_a_page_is_open(tmp_path):
    command = [sys.executable, "-m", "lmassay", "view", "--port", "0", "--no-browser", "--results", "nothing yet"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", env={**os.environ}
    )
    assert process.stdout is not None
    # A server that says nothing is ended: then the line is empty and the test fails rather than waits.
    patience = threading.Timer(_PATIENCE, process.kill)
    patience.start()
    url = process.stdout.readline().strip()
    with httpx2.Client(timeout=60) as client:
        assert client.get(url).status_code == 200
        # The connection stays open.
        assert "No runs yet" in client.get(url.partition("?")[0]).text
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=_PATIENCE)
    patience.cancel()
    assert process.returncode == 0
    assert messages.splitlines()[-1] == "stopped"
    assert "there are no results in nothing yet yet" in messages
    assert "Traceback" not in messages
    # Looking at a folder does not create it.
    assert not (tmp_path / "nothing yet").exists()


@pytest.mark.fault(50)
@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.10", "example.org", "::"])
def test_other_hosts_than_this_machine_are_refused(tmp_path, host):
    with pytest.raises(UserError, match="on this machine only"):
        ViewServer(tmp_path, host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_the_printed_address_answers(tmp_path, host):
    try:
        server = ViewServer(sample_folder(tmp_path), host)
    except StoreError as reason:
        pytest.skip(f"this machine does not have {host}: {reason}")
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    with httpx2.Client(timeout=60) as client:
        assert client.get(server.url).status_code == 200
        assert client.get(server.address).status_code == 200
    server.stop()
    thread.join(60)


def test_a_port_that_is_taken_is_one_line(tmp_path):
    first = ViewServer(tmp_path)
    try:
        done = lmassay("view", "--port", first.port, "--results", tmp_path)
    finally:
        first.close()
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "choose another with --port" in done.stderr


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_a_missing_extra_is_one_line_with_the_pip_command(tmp_path, monkeypatch, package):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == package else find(name, *rest))
    done = lmassay("view", "--results", tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: lmassay view needs an optional dependency: pip install 'lmassay[view]'\n"
