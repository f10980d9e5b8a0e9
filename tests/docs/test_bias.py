"""Numbers on the page about bias that no command of the page prints."""

from __future__ import annotations

from tests.docs.blocks import page_text
from tests.helpers import ROOT

PAGE = " ".join(page_text("docs/bias.md").split())


def test_as_many_runs_of_the_original_are_compared_as_stated():
    runs = (ROOT / "tests" / "published" / "reference" / "kobbq" / "runs.jsonl").read_text(encoding="utf-8")
    assert f"compares {len(runs.splitlines())} runs on samples that are part of this repository" in PAGE
