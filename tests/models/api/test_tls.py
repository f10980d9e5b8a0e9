"""TLS failures are called TLS failures, and the advice in their messages works."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time

import pytest

from lmassay.contracts import ask
from lmassay.errors import FatalModelError
from lmassay.models.api import concurrency
from lmassay.models.api.claude import Claude
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.types import Generate
from tests.helpers import lmassay, write_config, write_lines
from tests.servers import completion, message, openai_server

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="openssl, which makes the certificate, is not installed")


def certificate(folder, names):
    """A self-signed certificate for these names, and the TLS settings of a server that has it."""
    key, file = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *(str(OPENSSL), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"),
            *("-addext", f"subjectAltName={names}", "-keyout", str(key), "-out", str(file)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return file, context


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("own"), "IP:127.0.0.1,DNS:localhost")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("foreign"), "DNS:example.org")


def openai(server, scheme):
    return OpenAICompatible("m", base_url=server.url.replace("http:", f"{scheme}:"), tries=2, wait=0.01)


def claude(server, scheme):
    return Claude("m", base_url=server.root.replace("http:", f"{scheme}:"), tries=2, wait=0.01)


PROVIDERS = pytest.mark.parametrize(("provider", "whole"), [(openai, completion), (claude, message)])


def failure_of(model):
    with pytest.raises(FatalModelError) as caught:
        list(ask(model, "generate", [Generate("x"), Generate("y")]))
    return str(caught.value)


@needs_openssl
@PROVIDERS
def test_a_certificate_that_nobody_trusts_is_refused_and_can_be_trusted(own, provider, whole, monkeypatch):
    file, context = own
    with openai_server(lambda *_: whole("ok"), tls=context) as server:
        text = failure_of(provider(server, "https"))
        assert "TLS: the certificate was refused: self-signed certificate" in text
        assert "is it running" not in text
        assert "set SSL_CERT_FILE" in text
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert [r.text for _, r in ask(provider(server, "https"), "generate", [Generate("x")])] == ["ok"]


@needs_openssl
def test_a_certificate_for_another_host_is_named(foreign, monkeypatch):
    file, context = foreign
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with openai_server(tls=context) as server:
        assert "TLS: the certificate is for another host" in failure_of(openai(server, "https"))


@PROVIDERS
def test_https_to_a_server_without_tls_says_so_and_http_works(provider, whole):
    with openai_server(lambda *_: whole("ok")) as server:
        text = failure_of(provider(server, "https"))
        assert "does not speak TLS; write http:// instead of https://" in text
        assert "is it running" not in text
        assert [r.text for _, r in ask(provider(server, "http"), "generate", [Generate("x")])] == ["ok"]


@needs_openssl
@PROVIDERS
def test_http_to_a_port_for_tls_says_so_and_https_works(own, provider, whole, monkeypatch):
    file, context = own
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with openai_server(lambda *_: whole("ok"), tls=context) as server:
        assert "speaks TLS; write https:// instead of http://" in failure_of(provider(server, "http"))
        assert [r.text for _, r in ask(provider(server, "https"), "generate", [Generate("x")])] == ["ok"]


@pytest.mark.parametrize(
    "body", ["400 The plain HTTP request was sent to HTTPS port", "Client sent an HTTP request to an HTTPS server."]
)
def test_a_server_that_answers_an_unencrypted_request_with_words_is_understood(body):
    with openai_server(lambda *_: (400, {}, body.encode())) as server:
        assert "write https:// instead of http://" in failure_of(openai(server, "http"))


def test_a_file_of_certificates_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(write_lines(tmp_path / "no.pem", ["no certificate"])))
    with openai_server() as server, pytest.raises(Exception, match=r"SSL_CERT_FILE: .*no\.pem"):
        list(ask(openai(server, "http"), "generate", [Generate("x")]))


@needs_openssl
def test_certificates_are_read_again_when_their_file_changes(own, foreign, tmp_path, monkeypatch):
    file, context = own
    trusted = tmp_path / "trusted.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with openai_server(lambda *_: completion("ok"), tls=context) as server:
        trusted.write_bytes(foreign[0].read_bytes())
        assert "TLS: the certificate was refused" in failure_of(openai(server, "https"))
        trusted.write_bytes(foreign[0].read_bytes() + file.read_bytes())
        assert [r.text for _, r in ask(openai(server, "https"), "generate", [Generate("x")])] == ["ok"]


def test_certificates_are_read_once_for_many_clients(monkeypatch):
    read = []
    load = ssl.SSLContext.load_verify_locations
    monkeypatch.setattr(
        ssl.SSLContext,
        "load_verify_locations",
        lambda self, *paths, **more: (read.append(1), load(self, *paths, **more)),
    )
    with openai_server(lambda *_: completion("ok")) as server:
        for _ in range(3):
            assert [r.text for _, r in ask(openai(server, "http"), "generate", [Generate("x")])] == ["ok"]
    assert len(read) <= 1


# --- a server that is not there ---------------------------------------------------------------------------------------


def closed_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_server_that_never_was_there_costs_one_attempt(tmp_path):
    write_lines(tmp_path / "src.txt", [f"sentence {number}" for number in range(60)])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    model = {"name": "openai", "base_url": f"http://127.0.0.1:{closed_port()}/v1", "model": "m"}
    started = time.monotonic()
    done = lmassay("run", write_config(tmp_path / "c.yaml", {"task": task, "model": model}), cwd=tmp_path)
    assert time.monotonic() - started < 10
    assert done.returncode == 2
    assert "connection refused; is it running?" in done.stderr


def test_a_server_that_ends_stops_the_run_after_seconds(monkeypatch):
    monkeypatch.setattr(concurrency, "REFUSED_PATIENCE", 0.3)
    requests = [Generate(f"question {number}") for number in range(2_000)]
    with openai_server(latency=0.005) as server:
        model = OpenAICompatible("m", base_url=server.url, wait=0.05)
        stream = ask(model, "generate", requests)
        answers = [next(stream) for _ in range(20)]
        # New connections are refused from now on; the server finishes those that are open.
        stop = threading.Thread(target=server.stop)
        stop.start()
        started = time.monotonic()
        with pytest.raises(FatalModelError, match=r"has stopped: connection refused for .* start it again"):
            answers += list(stream)
        stop.join()
    assert time.monotonic() - started < 30
    assert len(answers) < 2_000
