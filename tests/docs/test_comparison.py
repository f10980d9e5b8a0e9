"""The page that compares lmassay with other tools: its references, and the numbers that were measured."""

from __future__ import annotations

import csv
import re

from tests.docs.blocks import page_text
from tests.helpers import ROOT

PAGE = page_text("docs/comparison.md")
README = page_text("README.md")
MEASURED = ROOT / "benchmarks" / "measured"
TOOLS = ["lmassay", "lm-evaluation-harness", "inspect_ai", "minicons", "sacrebleu", "SetFit"]


def table(text: str, header: list[str]) -> dict[str, list[str]]:
    """Return the rows of the table with this header: first cell → the others."""
    lines = iter(text.splitlines())
    for line in lines:
        if cells(line) == header:
            break
    rows: dict[str, list[str]] = {}
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            break
        first, *others = cells(line)
        rows[first] = others
    return rows


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def test_every_answer_refers_to_a_command_and_every_command_is_referred_to():
    answers = " ".join(cell for row in table(PAGE, ["", *TOOLS]).values() for cell in row)
    commands = table(PAGE, ["", "command", "what it shows"])
    assert list(commands) == [str(number) for number in range(1, len(commands) + 1)]
    assert set(re.findall(r"\[(\d+)\]", answers)) == set(commands)


def test_the_readme_gives_the_same_answers():
    page = table(PAGE, ["", *TOOLS])
    readme = table(README, ["", *TOOLS])
    assert len(readme) >= 6
    for question, answers in readme.items():
        assert answers == [re.sub(r" \[\d+\]", "", answer) for answer in page[question]], question


def test_ratios_of_minimal_pairs_are_those_that_were_measured():
    measured = (MEASURED / "syntax_blimp.txt").read_text(encoding="utf-8")
    rows = table(PAGE, ["lmassay is … times as fast as", "first run", "second run"])
    for tool, ratios in rows.items():
        name = tool.replace("lm-evaluation-harness", "lm-eval")
        assert re.findall(rf"^  {re.escape(name)} .* ([\d.]+) times as fast", measured, flags=re.MULTILINE) == ratios
    assert len(rows) == 4


def test_ratios_of_scorers_are_those_that_were_measured():
    measured = (MEASURED / "robustness.txt").read_text(encoding="utf-8")
    ratios = dict(re.findall(r"^(\w+ lmassay, [a-z ]+?) +1 +[\d,]+ +([\d.]+)x", measured, flags=re.MULTILINE))
    plain, compiled = table(PAGE, ["", "chrF", "BLEU"]).values()
    assert plain == [ratios["chrF lmassay, numpy"], ratios["BLEU lmassay, without numba"]]
    assert compiled == [ratios["chrF lmassay, numba"], ratios["BLEU lmassay, numba"]]


def test_sizes_of_installations_are_those_that_were_measured():
    with (MEASURED / "install.tsv").open(encoding="utf-8", newline="") as file:
        measured = list(csv.DictReader(file, delimiter="\t"))
    rows = table(PAGE, ["installation", "MB", "packages", "CPU-seconds of pip"])
    expected = {
        f"{row['installation']} {row['version']}": [
            f"{float(row['MB']):,.0f}",
            row["packages"],
            f"{float(row['CPU-seconds']):.0f}",
        ]
        for row in measured
    }
    assert rows == expected
