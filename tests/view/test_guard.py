"""Which requests the view answers: only those of the browser that was given the address."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx2
import pytest

from lmassay.storage.store import Store
from tests.view.kit import Browser, sample_folder, viewed

RUN = "20261101-080000-plain-aaaaaa"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with viewed(sample_folder(tmp_path_factory.mktemp("guarded"))) as opened:
        yield opened


def stranger(browser: Browser, path: str, **headers: str) -> httpx2.Response:
    """Ask without the cookie."""
    return httpx2.get(f"{browser.origin}{path}", headers=headers, timeout=60)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost:1", ""])
def test_a_request_for_another_host_is_refused_also_with_the_cookie(browser, host):
    assert browser.get("/", host=host).status_code == 421


def test_a_request_with_two_hosts_is_refused(browser):
    address = urlsplit(browser.origin)
    lines = ["GET / HTTP/1.1", f"Host: {address.netloc}", "Host: evil.example", "Connection: close", "", ""]
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall("\r\n".join(lines).encode())
        status = connection.recv(4096).split(b"\r\n")[0]
    assert status.split()[1] in (b"400", b"421")


def test_this_machine_may_be_called_localhost(browser):
    port = urlsplit(browser.origin).port
    assert browser.get("/", host=f"localhost:{port}").status_code == 200


@pytest.mark.parametrize("path", ["/", "/live", f"/runs/{RUN}", "/report?all=yes", "/static/view.js", "/?token=wrong"])
def test_without_the_address_that_was_printed_nothing_is_shown(browser, path):
    answer = stranger(browser, path)
    assert answer.status_code == 403
    assert "Open the address that the terminal shows" in answer.text
    assert "tiny" not in answer.text


def test_the_printed_address_sets_a_cookie_that_scripts_and_other_sites_cannot_use(browser):
    answer = httpx2.get(browser.server.url, timeout=60)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert browser.server.secrets.token.lower() not in cookie
    assert 'url=/"' in answer.text


def test_the_token_leads_to_the_page_that_was_meant_but_never_to_another_host(browser):
    token = browser.server.secrets.token
    assert f'url=/runs/{RUN}?page=2"' in stranger(browser, f"/runs/{RUN}?page=2&token={token}").text
    text = stranger(browser, f"//evil.example/?token={token}").text
    assert "url=/evil.example/" in text
    assert "//evil.example" not in text


def test_every_answer_has_a_strict_policy(browser):
    for path in ("/", f"/runs/{RUN}", "/nothing", "/static/view.css"):
        headers = browser.get(path).headers
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers


def test_no_page_has_a_script_or_a_style_of_its_own(browser):
    for path in ("/", f"/runs/{RUN}", f"/runs/{RUN}/examples/0", f"/delete?run={RUN}"):
        page = browser.page(path)
        assert page.count("<script") == page.count('<script src="/static/view.js" defer></script>') == 1
        assert "<style" not in page
        assert " style=" not in page
        assert "onclick" not in page


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(browser, method):
    assert browser.client.request(method, "/").status_code == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"content-type": "text/plain"},
    ],
    ids=str,
)
def test_a_change_that_a_page_elsewhere_asks_for_is_refused(browser, headers):
    answer = browser.post("/delete", {"run": RUN}, **headers)
    assert answer.status_code in (403, 415)
    assert RUN in browser.page("/")


def test_a_change_without_the_token_of_the_form_is_refused(browser):
    for token in ("", "wrong", browser.server.secrets.session):
        answer = browser.post("/delete", {"run": RUN, "form_token": token})
        assert answer.status_code == 403
        # Reloading this answer would send the same form again.
        assert "Open the form again from the list of runs" in answer.text
    assert RUN in browser.page("/")


def test_a_change_without_the_cookie_is_refused(browser):
    form = {"run": RUN, "form_token": browser.form_token()}
    answer = httpx2.post(f"{browser.origin}/delete", data=form, headers={"origin": browser.origin}, timeout=60)
    assert answer.status_code == 403
    assert RUN in browser.page("/")


def test_an_address_that_changes_something_cannot_be_opened_as_a_page(browser):
    assert browser.get(f"/runs/{RUN}/annotation?note=x&form_token={browser.form_token()}").status_code == 405
    # This only asks for confirmation.
    assert "Delete 1 run?" in browser.page(f"/delete?run={RUN}")
    assert RUN in browser.page("/")


def test_a_form_that_is_too_large_is_refused(browser):
    assert browser.post(f"/runs/{RUN}/annotation", {"note": "x" * 1_100_000}).status_code == 413


def test_read_only_offers_and_accepts_no_change(browser):
    folder = browser.server.folder
    with viewed(folder, read_only=True) as reader:
        for path in ("/", f"/runs/{RUN}"):
            page = reader.page(path)
            assert "read-only" in page
            assert "Delete" not in page
            assert 'method="post"' not in page
        for path in (f"/delete?run={RUN}", f"/tag?run={RUN}"):
            assert reader.get(path).status_code == 403
        for path in ("/delete", "/tag", f"/runs/{RUN}/annotation"):
            assert reader.post(path, {"run": RUN, "tags": "x", "note": "x"}).status_code == 403
    with Store(folder) as store:
        assert store.run(RUN).annotation.note == ""


def test_two_views_of_one_folder_do_not_share_their_cookies(browser):
    with viewed(browser.server.folder) as other:
        assert "Runs" in other.page("/")
        other.client.cookies.update(browser.client.cookies)
        assert "Runs" in other.page("/")
        assert "Runs" in browser.page("/")
