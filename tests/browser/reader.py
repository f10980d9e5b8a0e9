"""What a person does with the page, in a real browser."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import unquote_plus

ROWS = ".rows tbody tr[data-place]"
HEADS = "[...document.querySelectorAll('.rows thead button')]"


class Reader:
    """A person in front of the page."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver, self.url = driver, url

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, condition: str, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not self.js(f"return {condition}"):
            assert time.monotonic() < end, f"{condition} did not come true"
            time.sleep(0.02)

    def open(self, fragment: str = "") -> None:
        self.resize(1280)
        # A new fragment alone would not load the page again.
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}{fragment}")

    def resize(self, width: int) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def open_examples(self) -> None:
        self.js("document.querySelector('#examples details').open = true")

    def come_to_examples(self) -> None:
        self.open_examples()
        self.until("document.querySelector('#examples').dataset.ready === 'true'")

    def set(self, name: str, value: str) -> None:
        """Set a control to a value, or to the option whose text begins with it."""
        script = """
          const [name, value] = arguments;
          const control = document.querySelector(`.controls [name=${name}]`);
          if (control.options) control.value = [...control.options].find((o) => o.text.startsWith(value)).value;
          else control.value = value;
          control.dispatchEvent(new Event("input", { bubbles: true }));
        """
        self._run_and_wait(script, name, value)

    def sort(self, title: str) -> None:
        self._run_and_wait(f"{HEADS}.find((button) => button.textContent === arguments[0]).click()", title)

    def _run_and_wait(self, script: str, *arguments: Any) -> None:
        """Run a script, and wait until the page has responded: it records how long each response took."""
        before = self.js("return performance.getEntriesByType('measure').length")
        self.js(script, *arguments)
        self.until(f"performance.getEntriesByType('measure').length > {before}")

    def column(self, title: str) -> list[str]:
        script = f"""
          const at = {HEADS}.findIndex((button) => button.textContent === arguments[0]);
          return [...document.querySelectorAll(arguments[1])].map((row) => row.cells[at].textContent);
        """
        texts: list[str] = self.js(script, title, ROWS)
        return texts

    def choose(self, place: int) -> str:
        self.js(f"document.querySelectorAll('{ROWS}')[arguments[0]].click()", place)
        # The protocol between driver and browser cannot transfer a lone surrogate.
        return str(self.js("return document.querySelector('.detail').textContent.toWellFormed()"))

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    @property
    def fragment(self) -> str:
        """The part of the address after "#", which describes the view, unquoted."""
        return unquote_plus(str(self.js("return location.hash")))

    @property
    def opened_example(self) -> str | None:
        """The id of the example that is open."""
        script = (
            "const d = document.querySelector('.detail'); return d.hidden ? null : d.querySelector('h3').textContent"
        )
        shown: str | None = self.js(script)
        return shown

    @property
    def count(self) -> str:
        return str(self.js("return document.querySelector('.count').textContent")).partition(";")[0]

    def milliseconds(self) -> list[float]:
        """How long each response to a click or key has taken so far."""
        durations: list[float] = self.js("return performance.getEntriesByType('measure').map((m) => m.duration)")
        return durations
