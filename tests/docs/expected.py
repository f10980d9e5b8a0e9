"""What must come of the commands of a page, beyond what the page itself says was printed."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.docs.blocks import page_text
from tests.docs.running import Reader


@dataclass(frozen=True)
class Expected:
    """Rows of the README that the page's commands print, and what the files that they write hold."""

    readme_rows: tuple[str, ...] = ()
    """How such rows begin; README has one at least of each."""
    files: dict[str, str] = field(default_factory=dict)

    def check(self, reader: Reader) -> None:
        for start in self.readme_rows:
            rows = [line.partition("…")[0].rstrip() for line in page_text("README.md").splitlines()]
            rows = [row for row in rows if row.startswith(start)]
            assert rows, f"README has no row that begins with {start!r}"
            for row in rows:
                assert row in reader.transcript, f"README shows\n{row}\nwhich was not printed:\n{reader.transcript}"
        for name, text in self.files.items():
            assert text in (reader.folder / name).read_text(encoding="utf-8"), name


EXPECTED = {
    "README.md": Expected(("charswap    plain", "charswap    careful"), {"report.html": "charswap"}),
    "docs/syntax.md": Expected(("  Simple ", "  Across "), {"report.html": "Across"}),
    "docs/bias.md": Expected(("questions, prompt",), {"report.html": "accuracy"}),
    "docs/fewshot.md": Expected(("reviews majority", "reviews icl"), {"report.html": "Stability over K"}),
}
