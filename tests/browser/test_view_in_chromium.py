"""The live view in a real browser, while a run is in progress, killed and resumed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lmassay.storage.store import Store
from tests.helpers import lmassay, write_config, write_lines
from tests.view.kit import UGLY, add_run, sample_folder, viewed

# Takes its time until there is a file that tells it to hurry.
MODEL = """
import time
from pathlib import Path

from lmassay import Model, Response

class Slow(Model):
    name = "slow"
    can = frozenset({"generate"})

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        for request in requests:
            if not Path(__file__).with_name("hurry").exists():
                time.sleep(0.25)
            yield Response(request.prompt.upper())
"""
PATIENCE = 60


class Window:
    """The browser with a page of the view."""

    def __init__(self, chromium: Any, origin: str) -> None:
        self.chromium = chromium
        self.origin = origin

    def js(self, script: str) -> Any:
        return self.chromium.execute_script(script)

    def until(self, condition: str) -> None:
        """Wait until a condition in the page holds."""
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.chromium, PATIENCE, poll_frequency=0.05)
        waiting.until(lambda chromium: chromium.execute_script(f"return Boolean({condition})"), condition)

    def until_shown(self, text: str) -> None:
        self.until(f"document.body.innerText.includes({text!r})")

    def click(self, selector: str) -> None:
        self.chromium.find_element("css selector", selector).click()

    def open(self, path: str) -> None:
        self.chromium.get(f"{self.origin}{path}")
        self.until("document.getElementById('pulse')?.textContent === 'live'")

    def until_examples_are_shown(self) -> None:
        """Wait for the table of examples of a report, whose script only runs if the policies of both allow it."""
        self.js("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        self.js("document.querySelector('.rows').scrollIntoView()")
        self.until("document.querySelectorAll('.rows tbody tr:not(.space)').length > 0")

    def check(self) -> None:
        """Nothing was stopped by the policy of the page, nothing failed, and every control has a name."""
        controls = "#main :is(input:not([type=hidden]), select, textarea)"
        unnamed = f"[...document.querySelectorAll('{controls}')].filter((e) => !e.labels.length && !e.ariaLabel)"
        assert self.js(f"return {unnamed}.map((element) => element.outerHTML)") == []
        assert self.js("return window.stopped") == []
        assert [entry for entry in self.chromium.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live view")
    (folder / "slow.py").write_text(MODEL, encoding="utf-8")
    write_lines(folder / "src.txt", [f"this is the sentence number {number}" for number in range(20)])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    write_config(folder / "slow.yaml", {"task": task, "model": "slow.py:Slow"})
    return folder


@pytest.fixture
def opened(chromium, work) -> Callable[[Any], Window]:
    def open_view(browser: Any) -> Window:
        window = Window(chromium, browser.origin)
        chromium.get(browser.server.url)
        # The script has run.
        window.until("document.getElementById('pulse')?.textContent === 'live'")
        assert "token" not in chromium.current_url
        return window

    return open_view


def test_long_labels_fit_on_a_phone(opened, tmp_path):
    long = "determiner_noun_agreement_with_adj_irregular_2, learning_rate=0.00001, method=adapet_with_verbalizers"
    model = "my_organisation/models/checkpoints/run_0042_of_the_second_sweep/step_100000"
    with Store(tmp_path, create=True) as store:
        add_run(store, "20261101-080000-long-aaaaaa", label=long, model=model)
        add_run(store, "20261101-090000-long-bbbbbb", label=long, model=model, status="running")
        store.set_status(
            "20261101-090000-long-bbbbbb", "failed", f"the server at http://localhost/{'path/' * 20} failed"
        )
    size = {"width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    with viewed(tmp_path) as browser:
        window = opened(browser)
        window.chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            for path in ("/", "/?group=model", "/runs/20261101-080000-long-aaaaaa"):
                window.open(path)
                assert window.js("return document.documentElement.scrollWidth") == 390, path
                lists = "[...document.querySelectorAll('.scroll:has(.runs, .examples), nav')]"
                assert window.js(f"return {lists}.every((part) => part.scrollWidth <= part.clientWidth)"), path
        finally:
            window.chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_run_is_watched_while_it_is_in_progress_killed_and_resumed(opened, work):
    with viewed(work / "results") as browser:
        window = opened(browser)
        window.until_shown("No runs yet")
        command = [sys.executable, "-m", "lmassay", "run", "slow.yaml"]
        process = subprocess.Popen(command, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # Without reloading the page, the run appears and its bar moves.
            window.js("window.sameDocument = true")
            window.until("document.querySelector('tr[data-status=running] progress')?.value > 0")
            window.until_shown("of 20")
            window.click("input[name=run]")
            seen = window.js("return document.querySelector('progress').value")
            window.until(f"document.querySelector('tr[data-status=running] progress')?.value > {seen}")
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)
        finally:
            process.kill()
        window.until("document.querySelector('tr[data-status=interrupted]')")
        # What was selected stays selected when the table is replaced.
        assert window.js("return document.querySelector('input[name=run]').checked")
        assert window.js("return document.querySelector('.selected').textContent") == "1 run selected"
        window.click("th[scope=row] a")
        window.until_shown("The process of this run was killed")
        window.until_shown("lmassay resume")
        window.js("window.sameDocument = true")
        (work / "hurry").touch()
        done = lmassay("resume", "--results", work / "results", cwd=work)
        assert done.returncode == 0, done.stderr
        window.until("document.querySelector('.status').dataset.status === 'done'")
        window.until_shown("20 scored")
        window.until("document.querySelectorAll('.examples tbody tr').length === 20")
        assert window.js("return window.sameDocument")
        window.check()
        # An example has what was asked and answered.
        window.click(".examples tbody a")
        window.until_shown("THIS IS THE SENTENCE NUMBER 0")
        window.chromium.find_element("css selector", "body").send_keys("\ue014")  # the right arrow
        window.until_shown("THIS IS THE SENTENCE NUMBER 1")
        window.check()


def test_runs_are_filtered_compared_annotated_reported_and_deleted(opened, tmp_path):
    with viewed(sample_folder(tmp_path)) as browser:
        window = opened(browser)
        assert "<script>alert(1)" in window.js("return document.querySelector('.runs').innerText")
        # A choice applies at once, and is part of the address.
        window.js(
            "const f = document.getElementById('f-task'); f.value = 'quiz';"
            "f.dispatchEvent(new Event('change', {bubbles: true}))"
        )
        window.until(
            "location.search.includes('task=quiz') && document.getElementById('pulse')?.textContent === 'live'"
        )
        assert window.js("return location.search") == "?task=quiz&sort=newest"
        assert window.js("return document.querySelectorAll('input[name=run]').length") == 2
        assert window.js("return document.querySelector('[formaction=\"/compare\"]').disabled")
        window.click("input.all")
        window.click("[formaction='/compare']")
        window.until_shown("Differences")
        assert "0.3333" in window.js("return document.querySelector('.differences').innerText")
        window.check()
        window.click("a[href^='/compare/page']")
        window.until("document.title.startsWith('lmassay compare')")
        window.until_examples_are_shown()
        window.check()
        window.open("/?q=aaaaaa")
        window.click("th[scope=row] a")
        window.until("document.getElementById('a-note')")
        window.chromium.find_element("id", "a-note").send_keys("do not cite")
        window.chromium.find_element("id", "a-tags").send_keys("baseline")
        window.click(".annotation button")
        window.until_shown("The note and the tags have been saved.")
        window.open("/?tag=baseline")
        window.until_shown("do not cite")
        window.click("input[name=run]")
        window.click("[formaction='/report']")
        window.until("document.title.startsWith('lmassay report')")
        window.until_examples_are_shown()
        window.check()
        window.open("/?tag=baseline")
        window.click("input[name=run]")
        window.click("[formaction='/delete']")
        window.until_shown("Delete 1 run?")
        window.click("button.danger")
        window.until_shown("Removed 1 run")
        window.until_shown("2 runs:")
        window.check()
        with Store(tmp_path) as store:
            assert [record.id[-6:] for record in store.runs()] == ["bbbbbb", "cccccc"]
        assert UGLY[:8] in window.js("return document.querySelector('.runs').innerText")
