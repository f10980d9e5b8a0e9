"""How fast the page responds with 50,000 examples, compared with a page that has all of them in its table.

    python benchmarks/page.py

Needs chromium, chromedriver and selenium. The ratio is that of the plain table's time to ours. The first paint is
compared with that of a page with a single example.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from lmassay.reporting.browser import BrowserRow, browser
from lmassay.reporting.html_document import document

ROWS = 50_000
_SECONDS = 300
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
)
# What a page without an example browser does: sort the rows of a table, and search their texts.
PLAIN = """
  const table = document.createElement("table"), body = table.createTBody();
  for (let i = 0; i < arguments[0]; i++) {
    const row = body.insertRow();
    for (const text of [`example-${(i * 7919) % arguments[0]}`, `a prompt about winter and letter ${i}`]) {
      row.insertCell().textContent = text;
    }
  }
  document.body.append(table);
  table.offsetHeight;
  const times = {}, rows = [...body.rows];
  let start = performance.now();
  body.append(...rows.sort((a, b) => a.cells[0].textContent.localeCompare(b.cells[0].textContent)));
  table.offsetHeight;
  times.sort = performance.now() - start;
  start = performance.now();
  for (const row of rows) row.hidden = !row.textContent.includes("letter 4999");
  table.offsetHeight;
  times.search = performance.now() - start;
  start = performance.now();
  rows.forEach((row, i) => (row.hidden = i % 2));
  table.offsetHeight;
  times.filter = performance.now() - start;
  table.remove();
  return times;
"""
FILTER = """
  const [kind, value] = ["kind", "value"].map((name) => document.querySelector(`.controls [name=${name}]`));
  kind.selectedIndex = 1;
  kind.dispatchEvent(new Event("input", { bubbles: true }));
  value.selectedIndex = 1;
  value.dispatchEvent(new Event("input", { bubbles: true }));
"""
GROUPS = ({"half": "even"}, {"half": "odd"})
PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
SORT = "[...document.querySelectorAll('.rows thead button')].find((b) => b.textContent === 'id').click()"
SEARCH = """
  const box = document.querySelector(".controls [name=search]");
  box.value = "letter 4999";
  box.dispatchEvent(new Event("input", { bubbles: true }));
"""


def page(count: int) -> str:
    rows = []
    for i in range(count):
        texts = [("prompt", f"a prompt about winter and letter {i}"), ("answer", f"answer {i % 97}")]
        # 7919 is a prime, so the ids are a permutation and sorting them moves every row.
        example_id = f"example-{i * 7919 % count}"
        rows.append(BrowserRow("run", "task", example_id, "scored", GROUPS[i % 2], {"score": i / count}, texts))
    return document("benchmark", browser(rows), sections=True, browser=True)


def driver(profile: str) -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    chrome = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    # The plain table needs more than the default of 30 seconds on a busy machine.
    chrome.set_script_timeout(_SECONDS)
    return chrome


def response_time(chrome: Any, script: str) -> float:
    """Return how long the page takes to respond to a script, in milliseconds by the page's own measure."""
    count = "return performance.getEntriesByType('measure').length"
    before = chrome.execute_script(count)
    chrome.execute_script(script)
    while chrome.execute_script(count) == before:
        time.sleep(0.01)
    return float(chrome.execute_script("return performance.getEntriesByType('measure').at(-1).duration"))


def first_paint(chrome: Any, url: str) -> float:
    """Return the milliseconds until the page shows something; the best of three tries."""
    times = []
    for _ in range(3):
        chrome.get("about:blank")
        chrome.get(url)
        while chrome.execute_script(PAINT) is None:
            time.sleep(0.01)
        times.append(float(chrome.execute_script(PAINT)))
    return min(times)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        small = Path(folder) / "small.html"
        small.write_text(page(1), encoding="utf-8")
        file.write_text(page(ROWS), encoding="utf-8")
        print(f"{ROWS:,} examples, {file.stat().st_size / 1e6:.1f} MB")
        chrome = driver(f"{folder}/profile")
        try:
            base, large = first_paint(chrome, small.as_uri()), first_paint(chrome, file.as_uri())
            print(f"first paint: {large:.0f} ms, of a page with one example {base:.0f} ms: {large / base:.1f} times")
            start = time.perf_counter()
            chrome.execute_script("document.querySelector('#examples details').open = true")
            while chrome.execute_script("return document.querySelector('#examples').dataset.ready") != "true":
                time.sleep(0.05)
            print(f"open the examples: {1000 * (time.perf_counter() - start):.0f} ms")
            ours = {"sort": response_time(chrome, SORT), "filter": response_time(chrome, FILTER)}
            ours["search"] = response_time(chrome, SEARCH)
            print("; ".join(f"{action}: {milliseconds:.0f} ms" for action, milliseconds in ours.items()), flush=True)
            plain = chrome.execute_script(PLAIN, ROWS)
            for action, milliseconds in ours.items():
                ratio = plain[action] / milliseconds
                print(f"{action}: {milliseconds:.0f} ms, a plain table {plain[action]:.0f} ms: {ratio:.1f} times")
        finally:
            chrome.quit()


if __name__ == "__main__":
    main()
