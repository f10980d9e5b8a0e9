"""Quick runs of the syntax evaluations: made-up pairs, and a made-up model that does not need torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmassay.api import Run, evaluate
from lmassay.reporting.blocks import Folded, Section, Table
from lmassay.reporting.page import render
from lmassay.storage.store import Store

NASTY = "<script>alert(1)</script>"
VERBS = [("laughs", "laugh"), ("is", "are"), ("swims", "swim"), ("likes", "like")]

MODEL = """
import hashlib
import math
from lmassay.types import Candidates, Continuation, Response

def weight(*parts):
    return 1 + int(hashlib.sha256("|".join(parts).encode()).hexdigest()[:6], 16) % 1000

class Made:
    name, can = "made", frozenset({"slot", "logprobs"})

    def __init__(self, label: str = "made", masses: bool = True, unknown: list[str] = [], fails_on: str = ""):
        self.label, self.masses, self.unknown, self.fails_on = label, masses, unknown, fails_on

    def identity(self):
        return {"name": "made", "label": self.label}

    def slot(self, requests):
        for request in requests:
            if self.fails_on and self.fails_on in request.left:
                yield Response(error="the <b>server</b> is on fire")
                continue
            raw = [weight(self.label, request.left, word) for word in request.candidates]
            # A little is left for words that nobody asks about.
            shares = [r / (1.25 * sum(raw)) for r in raw]
            above = [sum(s for s in shares if s > share) for share in shares]
            below = [1 - a - share for a, share in zip(above, shares)]
            known = [w not in self.unknown for w in request.candidates]
            yield Candidates(
                [math.log(s) if k else None for s, k in zip(shares, known)],
                [sum(s > share for s in shares) for share in shares] if self.masses else None,
                above if self.masses else None,
                below if self.masses else None,
            )

    def logprobs(self, requests):
        for request in requests:
            if self.fails_on and self.fails_on in request.continuation:
                yield Response(error="the <b>server</b> is on fire")
                continue
            total = -weight(self.label, request.context, request.continuation) / 10
            yield Continuation(total, (total,))
"""


def write_agreement(path: Path, nouns: Sequence[str], pattern: str = "the {noun} {verb} today") -> Path:
    """A row for each noun, number and verb."""
    rows = []
    for noun in nouns:
        for plural in (False, True):
            for forms in VERBS[:3]:
                good, bad = forms[::-1] if plural else forms
                texts = [pattern.format(noun=noun + "s" * plural, verb=verb) for verb in (good, bad)]
                rows.append(
                    {"sentence_good": texts[0], "sentence_bad": texts[1], "label": -2 if plural else -1, "noun": noun}
                )
    return _write(path, rows)


def write_pairs(path: Path, number: int = 6, word: str = "this", **fields: Any) -> Path:
    ends = [f"good {i} {path.stem}." for i in range(number)]
    return _write(
        path, [{"sentence_good": f"{word} is {end}", "sentence_bad": f"{word} are {end}", **fields} for end in ends]
    )


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def config(folder: Path, task: dict[str, Any], *models: dict[str, Any]) -> dict[str, Any]:
    """A configuration of a task on one or more made-up models."""
    (folder / "made.py").write_text(MODEL, encoding="utf-8")
    if task["name"] == "syntax":
        verbs = folder / "verbs.csv"
        verbs.write_text("idx,sing,plur,freq\n" + "".join(f"_,{s},{p},_\n" for s, p in VERBS), encoding="utf-8")
        task = {"verbs": str(verbs), **task}
    name = f"{folder / 'made.py'}:Made"
    return {"task": task, "model": [{"name": name, **model} for model in models or ({},)], "resamples": 100}


def run(folder: Path, task: dict[str, Any], *models: dict[str, Any]) -> list[Run]:
    return evaluate(config(folder, task, *models), folder / "results")


def two_constructions(folder: Path, first: str = "Simple") -> dict[str, Any]:
    simple = write_agreement(folder / "a.jsonl", ["author", "pilot"])
    across = write_agreement(folder / "b.jsonl", ["author", "pilot", "chef"], "the {noun} near us {verb} now")
    return {"name": "syntax", "data": {first: str(simple), "Across": str(across)}}


def page(folder: Path) -> str:
    with Store(folder / "results") as store:
        return render(store, store.runs())


def tables(section: Section) -> list[Table]:
    flat = [inner for block in section.blocks for inner in (block.blocks if isinstance(block, Folded) else [block])]
    return [block for block in flat if isinstance(block, Table)]


def cells(table: Table) -> dict[str, list[str]]:
    """The first cell of each row → the texts of the others."""
    return {line.cells[0].text: [c.text for c in line.cells[1:]] for body in table.bodies for line in body.rows}
