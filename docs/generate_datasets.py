"""Write the table of docs/data.md from the catalogue of data sets that comes with lmassay.

Run ``python docs/generate_datasets.py``. With ``--check`` it only compares and exits with 1 if the page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lmassay.datasets.catalogue import catalogue
from lmassay.datasets.entry import DataSet
from lmassay.plugins.evaluations import OWN_PACKAGE

PAGE = Path(__file__).parent / "data.md"
_START = "<!-- datasets: written by docs/generate_datasets.py -->"
_END = "<!-- end of datasets -->"


def page() -> str:
    """Return the page with the table as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_START)
    _, _, after = rest.partition(_END)
    return f"{before}{_START}\n{_table()}\n{_END}{after}"


def _table() -> str:
    lines = ["| name | languages | examples | task | licence | source |", "|---|---|---|---|---|---|"]
    known = catalogue()
    for entry in known.entries.values():
        if known.origins[entry.name] == OWN_PACKAGE:
            lines.append(_row(entry))
    return "\n".join(lines)


def _row(entry: DataSet) -> str:
    sources: list[str] = []
    for source in entry.sources:
        link = f"[{source.repository.removeprefix('https://github.com/')}]({source.repository}/tree/{source.commit})"
        if link not in sources:
            sources.append(link)
    cells = [
        f"`{entry.name}`",
        ", ".join(entry.languages),
        entry.examples_text,
        entry.task,
        entry.licences,
        ", ".join(sources),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Write or check the page; returns the exit code."""
    text = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write("docs/data.md is out of date; run: python docs/generate_datasets.py\n")
        return 1
    if sys.argv[1:]:
        sys.stderr.write("usage: python docs/generate_datasets.py [--check]\n")
        return 2
    PAGE.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
