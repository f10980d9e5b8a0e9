"""Reports and comparisons in the view: the pages that the commands write."""

from __future__ import annotations

from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from lmassay.storage.store import Store
from tests.view.kit import add_run, sample_folder, viewed

FIRST = "20261101-080000-plain-aaaaaa"
SECOND = "20261101-090000-plain-bbbbbb"
UGLY_RUN = "20261101-100000-ugly-cccccc"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with viewed(sample_folder(tmp_path_factory.mktemp("documents"))) as opened:
        yield opened


def test_the_report_of_a_selection_is_the_static_page(browser):
    answer = browser.get(f"/report?run={FIRST}&run={SECOND}")
    assert answer.status_code == 200
    assert "<title>lmassay report: " in answer.text
    assert FIRST in answer.text
    assert SECOND in answer.text
    assert UGLY_RUN not in answer.text
    # The page allows exactly its own script and style; the header must not forbid these.
    assert "script-src &#39;sha256-" in answer.text or "script-src 'sha256-" in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "'self'" not in policy


def test_a_selection_may_be_long(browser):
    runs = "".join(f"&run=gone-{number:040d}" for number in range(3000))
    address = urlsplit(browser.origin)
    cookies = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    connection = HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.request("GET", f"/report?run={FIRST}{runs}", headers={"cookie": cookies})
    assert connection.getresponse().status == 404
    connection.close()


def test_the_report_of_all_listed_runs_follows_the_filters(browser):
    page = browser.page("/report?model=large&all=yes")
    assert SECOND in page
    assert FIRST not in page


def test_the_report_begins_with_the_run_that_was_recorded_first_though_the_clock_was_set_back(tmp_path):
    with Store(tmp_path, create=True) as store:
        add_run(store, "20361101-080000-plain-aaaaaa", label="first")
        add_run(store, "20061101-080000-plain-bbbbbb", label="second")
    with viewed(tmp_path) as browser:
        page = browser.page("/report?all=yes&format=csv")
    assert 0 < page.index("20361101-080000") < page.index("20061101-080000")


@pytest.mark.parametrize(("form", "kind"), [("html", "text/html"), ("md", "text/markdown"), ("csv", "text/csv")])
def test_a_report_can_be_downloaded(browser, form, kind):
    answer = browser.get(f"/report?run={FIRST}&format={form}&download=yes")
    assert answer.headers["content-type"].startswith(kind)
    assert answer.headers["content-disposition"] == f'attachment; filename="report.{form}"'


def test_two_runs_are_compared_with_interval_and_p_value(browser):
    page = browser.page(f"/compare?run={FIRST}&run={SECOND}")
    assert "+0.3333" in page
    assert "Paired by example" in page
    assert f"/compare?run={SECOND}&amp;run={FIRST}" in page
    document = browser.page(f"/compare/page?run={FIRST}&run={SECOND}")
    assert "Examples that changed" in document


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/report", 400, "No run is selected"),
        ("/report?run=gone", 404, "It may have been deleted"),
        (f"/report?run={FIRST}&format=exe", 400, "no report format"),
        (f"/compare?run={FIRST}", 400, "at least two runs"),
        (f"/compare?run={FIRST}&run={FIRST}", 400, "is given twice"),
        (f"/compare?run={FIRST}&run={UGLY_RUN}", 400, "task"),
        (f"/compare?run={FIRST}&run=gone", 404, "It may have been deleted"),
    ],
)
def test_what_cannot_be_shown_says_why(browser, path, status, message):
    answer = browser.get(path)
    assert answer.status_code == status
    assert message in answer.text
