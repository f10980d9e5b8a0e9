"""What the commands of a page must produce, in addition to the output that the page shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from lmassay import all_runs
from tests.docs.blocks import page_text
from tests.docs.running import Reader


@dataclass(frozen=True)
class Claim:
    """A number in the text of a page that a run of the page must have as its result."""

    pattern: str
    """Its one group is the number; without a group, the value must be 0."""
    model: str
    metric: str
    scale: float = 1.0

    def check(self, page: str, reader: Reader) -> None:
        text = " ".join(page_text(page).split())
        match = re.search(self.pattern, text)
        assert match is not None, f"{page} does not say: {self.pattern}"
        (run,) = (run for run in all_runs(reader.folder / "results") if run.record.model == self.model)
        value = run[self.metric].value
        if not match.groups():
            assert value == 0, (self.metric, value)
            return
        decimals = len(match[1].partition(".")[2])
        assert f"{self.scale * value:.{decimals}f}" == match[1], (self.metric, value)


@dataclass(frozen=True)
class Expected:
    """Texts that the files written by the commands of a page must contain, and numbers in its text."""

    files: dict[str, str] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    further: Callable[[Reader], None] | None = None

    def check(self, page: str, reader: Reader) -> None:
        for name, text in self.files.items():
            assert text in (reader.folder / name).read_text(encoding="utf-8"), name
        for claim in self.claims:
            claim.check(page, reader)
        if self.further is not None:
            self.further(reader)


def _readme_shows_this_card(reader: Reader) -> None:
    """The README shows the card of the same model and size, and explains its first number."""
    readme = page_text("README.md")
    printed = " ".join(reader.transcript.split())
    for question in ("Does it break under attack?", "Does it know grammar?"):
        row = next(line for line in readme.splitlines() if line.startswith(question))
        assert " ".join(row.split()) in printed, row
    card = re.sub(r"<[^>]*>", "", (reader.folder / "card.html").read_text(encoding="utf-8"))
    value, low, high, n = re.search(
        r"right answers that turn wrong: ([\d.]+) \[([\d.]+), ([\d.]+)\] of (\d+)", card
    ).groups()
    stated = re.search(
        r"([\d.]+) \[([\d.]+), ([\d.]+)\] of the (\d+) attacks on inputs", " ".join(readme.split())
    ).groups()
    assert stated == (f"{float(value):.2f}", f"{float(low):.2f}", f"{float(high):.2f}", n)


EXPECTED = {
    "README.md": Expected({"report.html": "Does it break under attack?"}),
    "docs/card.md": Expected(
        {"card.html": "Does it know grammar?", "both.html": "echo", "syntax.html": "MW"},
        further=_readme_shows_this_card,
    ),
    "docs/syntax.md": Expected({"report.html": "Across"}),
    "docs/bias.md": Expected(
        {"report.html": "accuracy"},
        claims=(
            Claim(r"it picks C in (\d+) % of the cases", "SmolLM2-135M", "letter_C", 100),
            Claim("no question gets the same answer in all three orders", "SmolLM2-135M", "consistency"),
        ),
    ),
    "docs/fewshot.md": Expected({"report.html": "Stability over K"}),
}
