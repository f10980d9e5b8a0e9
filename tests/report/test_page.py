"""The page: self-contained, escaped, and sound in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from lmassay.report import svg
from tests.helpers import lmassay, write_config, write_lines

NASTY = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "{{7*7}} ${7*7}",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "\u202eright to left\u202c & <b>bold</b>",
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_lines(folder / "src.txt", [f"{text} number {i} sentence" for i, text in enumerate(NASTY)])
    attacks = [{"name": "<script>alert('attack')</script>", "perturb": "charswap", "rate": 1.0}, "wordswap"]
    task = {"name": "robustness", "src": "src.txt", "attack": attacks}
    model = {"name": "echo", "transform": "upper", "label": "<script>alert('model')</script>"}
    write_config(folder / "c.yaml", {"task": task, "model": model, "resamples": 200})
    assert lmassay("run", "c.yaml", cwd=folder).returncode == 0
    assert lmassay("report", "-o", "page.html", cwd=folder).returncode == 0
    return folder / "page.html"


def test_nothing_of_the_data_becomes_markup(page):
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "{{7*7}}" in text


def test_the_page_asks_the_network_for_nothing(page):
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r'(src|href)\s*=\s*["\']?(https?:)?//', text)
    assert "url(" not in text


def test_the_page_shows_numbers_with_intervals_counts_and_provenance(page):
    text = page.read_text(encoding="utf-8")
    for needed in ("s_src", "errors", "unscored", "task:robustness.1", "Paired by example", "lmassay run c.yaml"):
        assert needed in text
    assert text.count("<svg") == 3


def test_a_real_browser_shows_the_page_and_runs_nothing_of_it(page):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("there is no chromium to open the page in")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    done = subprocess.run(
        [browser, *flags, f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", page.as_uri()],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    dom = done.stdout
    assert "lmassay report" in dom
    assert dom.count("<svg") == 3, "no element came out of the data"
    assert "<script" not in dom
    assert "<img" not in dom


@pytest.mark.parametrize(
    ("region", "corners"),
    [
        (svg.above_diagonal(1.0), {(1, 0), (1, 1), (0, 1)}),
        (svg.above_diagonal(-1.0), {(0, 0), (1, 0), (1, 1), (0, 1)}),
        (svg.above_diagonal(2.5), set()),
        (svg.above_diagonal(1.8), {(1, 0.8), (1, 1), (0.8, 1)}),
        (svg.below_ray(1.0), {(0, 0), (1, 0), (1, 1)}),
        (svg.below_ray(2.0), {(0, 0), (1, 0), (1, 0.5)}),
    ],
)
def test_the_region_of_success_is_drawn_where_it_is(region, corners):
    assert {(round(x, 9), round(y, 9)) for x, y in region.corners} == corners


def test_texts_in_figures_are_escaped():
    drawing = svg.scatter([svg.Point(0.5, 0.5, True, "<x>&")], svg.above_diagonal(1.0), "<a>", '"b"', '"><script>')
    assert "<x>" not in drawing
    assert "<script>" not in drawing
    assert "&lt;x&gt;&amp;" in drawing


def test_a_run_without_results_is_called_what_it_is(tmp_path):
    write_lines(tmp_path / "src.txt", ["one two three four"])
    dead = {"name": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "dead", "tries": 1}
    write_config(
        tmp_path / "c.yaml", {"task": {"name": "robustness", "src": "src.txt", "attack": "case"}, "model": dead}
    )
    assert lmassay("run", "c.yaml", cwd=tmp_path).returncode == 2
    assert lmassay("report", "-o", "page.html", cwd=tmp_path).returncode == 0
    assert "case on dead is failed and has no results yet" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_report_of_nothing_says_so(tmp_path):
    done = lmassay("report", cwd=tmp_path)
    assert done.returncode == 2
    assert "run something first" in done.stderr
