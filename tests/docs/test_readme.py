"""The README's own promises."""

from __future__ import annotations

import re

from tests.docs.blocks import blocks_of, page_text
from tests.docs.running import EXEMPT, commands
from tests.helpers import ROOT

README = page_text("README.md")


def test_make_has_the_targets_that_the_readme_names():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", README, flags=re.MULTILINE)
    assert targets[:2] == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_readme_shows_commands_that_can_be_run():
    shown = [line for block in blocks_of(README) if block.language == "sh" for line in commands(block)]
    assert sum(not EXEMPT.match(line) for line in shown) >= 4


def test_the_table_of_the_readme_is_what_the_card_printed():
    """The first two rows are also compared with a run of the card, by the test of the card's page."""
    printed = (ROOT / "benchmarks" / "measured" / "card_quick.txt").read_text(encoding="utf-8")
    measured = [" ".join(line.split()) for line in printed.splitlines()]
    rows = [" ".join(line.split()) for line in README.splitlines() if line.startswith(("Does it ", "Is it biased?"))]
    assert len(rows) == 4
    for row in rows:
        assert row in measured
