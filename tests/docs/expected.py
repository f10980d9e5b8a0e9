"""What the commands of a page must produce, in addition to the output that the page shows."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.docs.running import Reader


@dataclass(frozen=True)
class Expected:
    """Texts that the files written by the commands of a page must contain."""

    files: dict[str, str] = field(default_factory=dict)

    def check(self, reader: Reader) -> None:
        for name, text in self.files.items():
            assert text in (reader.folder / name).read_text(encoding="utf-8"), name


EXPECTED = {
    "README.md": Expected({"report.html": "Does it break under attack?"}),
    "docs/card.md": Expected({"card.html": "Does it know grammar?", "both.html": "echo", "syntax.html": "MW"}),
    "docs/syntax.md": Expected({"report.html": "Across"}),
    "docs/bias.md": Expected({"report.html": "accuracy"}),
    "docs/fewshot.md": Expected({"report.html": "Stability over K"}),
}
