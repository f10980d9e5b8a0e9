"""The site is built without a warning, loads nothing from elsewhere, and its search works from disk."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.blocks import PAGES
from tests.helpers import ROOT, write_config

# What makes a browser fetch something: links that a reader may click are no such thing.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|audio|video|embed)\b[^>]*?\bsrc=[\"']?([^\"'\s>]+)"
    r"|<link\b[^>]*?\bhref=[\"']?([^\"'\s>]+)|<object\b[^>]*?\bdata=[\"']?([^\"'\s>]+)"
)
_IN_STYLE = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])([^\"')]+)")
_ELSEWHERE = re.compile(r"(?:[a-z]+:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    pytest.importorskip("material", reason="the docs extra is not installed")
    pytest.importorskip("mkdocstrings", reason="the docs extra is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_the_docs_is_in_the_site(site):
    for page in PAGES:
        if page.startswith("docs/"):
            assert (site / page.removeprefix("docs/")).with_suffix(".html").is_file(), page
    assert "unreleased" in (site / "changes.html").read_text(encoding="utf-8")


def test_code_blocks_that_are_files_show_their_names(site):
    page = (site / "compare.html").read_text(encoding="utf-8")
    assert '<span class="filename">base.yaml</span>' in page


def test_the_site_loads_nothing_from_elsewhere(site):
    pages, styles = list(site.rglob("*.html")), list(site.rglob("*.css"))
    assert pages
    assert styles
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fetched = [address for match in _FETCHED.findall(text) for address in match if address]
        assert fetched
        for target in [*fetched, *_IN_STYLE.findall(text)]:
            assert not _ELSEWHERE.match(target), f"{page.relative_to(site)}: {target}"
    for style in styles:
        for target in _IN_STYLE.findall(style.read_text(encoding="utf-8")):
            assert not _ELSEWHERE.match(target), f"{style.relative_to(site)}: {target}"


def test_no_list_or_table_is_swallowed_by_the_paragraph_above_it(site):
    """Python-Markdown needs an empty line before a list that follows a paragraph, and an indentation of four."""
    for page in site.rglob("*.html"):
        for paragraph in re.findall(r"<p>(.*?)</p>", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            swallowed = re.search(r"\n *(?:- |\d+\. |\|).*", paragraph)
            assert swallowed is None, f"{page.relative_to(site)}: {swallowed[0].strip()}"


def test_every_link_of_the_site_leads_to_a_file_of_it(site):
    followed = 0
    for page in site.rglob("*.html"):
        for target in re.findall(r"<a\b[^>]*?\bhref=\"([^\"]+)\"", page.read_text(encoding="utf-8")):
            path = unquote(target.partition("#")[0].partition("?")[0])
            if path and not _ELSEWHERE.match(path) and not path.startswith("mailto:"):
                file = site / path[1:] if path.startswith("/") else page.parent / path
                assert file.is_file(), f"{page.relative_to(site)}: {target}"
                followed += 1
    assert followed > 100


def test_the_reference_has_every_public_name(site):
    import lmassay

    anchors: set[str] = set()
    for page in (site / "reference").glob("*.html"):
        anchors.update(re.findall(r'id="(lmassay[^"]*)"', page.read_text(encoding="utf-8")))
    for name in lmassay.__all__:
        home = getattr(lmassay, name).__module__
        assert {f"lmassay.{name}", f"{home}.{name}"} & anchors, f"docs/reference does not show lmassay.{name}"


def test_docstrings_are_shown_as_markdown(site):
    for page in (site / "reference").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r":(?:mod|class|func|meth|attr):<code>", text), f"{page.name}: a role is shown as text"
        assert "<blockquote>" not in text, f"{page.name}: a doctest is shown as a quotation"


def test_a_link_to_a_file_of_the_repository_leads_to_a_copy_of_it(tmp_path):
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    import mkdocs.commands.build
    import mkdocs.config

    (tmp_path / "docs" / "deep").mkdir(parents=True)
    page = "# A page\n\n[a file](../../benchmarks/gate.py), [changes](../../CHANGELOG.md), [home](../index.md)\n"
    (tmp_path / "docs" / "deep" / "page.md").write_text(page, encoding="utf-8")
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n[a file](../benchmarks/core.py)\n", encoding="utf-8")
    settings = {"site_name": "s", "hooks": [str(ROOT / "docs" / "site_hooks.py")], "use_directory_urls": False}
    settings |= {"docs_dir": str(tmp_path / "docs"), "site_dir": str(tmp_path / "site"), "plugins": []}
    file = write_config(tmp_path / "mkdocs.yml", settings)
    mkdocs.commands.build.build(mkdocs.config.load_config(str(file)))
    for name in ("gate.py", "core.py"):
        assert (tmp_path / "site" / "benchmarks" / name).read_bytes() == (ROOT / "benchmarks" / name).read_bytes()
    text = (tmp_path / "site" / "deep" / "page.html").read_text(encoding="utf-8")
    assert 'href="../benchmarks/gate.py"' in text
    assert 'href="../changes.html"' in text
    assert 'href="../index.html"' in text


def test_the_search_works_from_disk_and_no_request_leaves(site, chromium):
    from selenium.webdriver.common.by import By

    chromium.get_log("performance")
    chromium.get(f"{(site / 'index.html').as_uri()}?q=perturbation")
    latest, articles = time.monotonic() + 120, []
    while not articles and time.monotonic() < latest:
        time.sleep(0.1)
        articles = chromium.find_elements(By.CSS_SELECTOR, ".md-search-result__article")
    assert any("perturbation" in (article.get_attribute("textContent") or "").lower() for article in articles)
    messages = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
