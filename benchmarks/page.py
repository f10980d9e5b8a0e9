"""How fast the page responds with 50,000 examples, compared with a page that has all of them in its table.

    python benchmarks/page.py

Needs chromium, chromedriver and selenium. The ratio is that of the plain table's time to ours.
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
  table.remove();
  return times;
"""
SORT = "[...document.querySelectorAll('.rows thead button')].find((b) => b.textContent === 'id').click()"
SEARCH = """
  const box = document.querySelector(".controls [name=search]");
  box.value = "letter 4999";
  box.dispatchEvent(new Event("input", { bubbles: true }));
"""


def page() -> str:
    rows = (
        BrowserRow("run", "task", f"example-{i * 7919 % ROWS}", "scored", {}, {"score": i / ROWS}, texts)
        for i in range(ROWS)
        for texts in [[("prompt", f"a prompt about winter and letter {i}"), ("answer", f"answer {i % 97}")]]
    )
    return document("benchmark", browser(rows), browser=True)


def driver(profile: str) -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def answered(chrome: Any, script: str) -> float:
    """Milliseconds by the page's own measure."""
    count = "return performance.getEntriesByType('measure').length"
    before = chrome.execute_script(count)
    chrome.execute_script(script)
    while chrome.execute_script(count) == before:
        time.sleep(0.01)
    return float(chrome.execute_script("return performance.getEntriesByType('measure').at(-1).duration"))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page(), encoding="utf-8")
        print(f"{ROWS:,} examples, {file.stat().st_size / 1e6:.1f} MB")
        chrome = driver(f"{folder}/profile")
        try:
            chrome.get(file.as_uri())
            chrome.execute_script("document.querySelector('#examples').scrollIntoView()")
            while chrome.execute_script("return document.querySelector('#examples').dataset.ready") != "true":
                time.sleep(0.05)
            ours = {"sort": answered(chrome, SORT), "search": answered(chrome, SEARCH)}
            plain = chrome.execute_script(PLAIN, ROWS)
            for what, milliseconds in ours.items():
                ratio = plain[what] / milliseconds
                print(f"{what}: {milliseconds:.0f} ms, a plain table {plain[what]:.0f} ms: {ratio:.1f} times")
        finally:
            chrome.quit()


if __name__ == "__main__":
    main()
