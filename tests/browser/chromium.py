"""A real chromium, driven without a window and started once; nothing is downloaded for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# Runs before the scripts of a page: records what the page's policy blocks.
WATCH = (
    "window.stopped = []; addEventListener('securitypolicyviolation', (e) => window.stopped.push(e.violatedDirective));"
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no chromium with its chromedriver to open the page in")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    try:
        made.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        yield made
    finally:
        made.quit()


@pytest.fixture(scope="module")
def chromium(browser: Chrome) -> Chrome:
    """The browser with an empty page, without the log entries of other tests."""
    # The browser's own first page sends requests, which would be taken for those of the page under test.
    browser.get("about:blank")
    for kind in ("performance", "browser"):
        browser.get_log(kind)
    return browser
