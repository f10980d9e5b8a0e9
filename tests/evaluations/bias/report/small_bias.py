"""Small, fast runs of the bias evaluation: made-up questions, and a model that gives the requested answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmassay.api import Run, evaluate
from lmassay.evaluations.bias.report import section as bias_section
from lmassay.reporting.blocks import Examples, Figures, Folded, Heading, Note, Section, Table
from lmassay.reporting.page import render
from lmassay.storage.store import Store

COLUMNS = "sample_id label_annotation context question choices biased_answer answer bbq_id bbq_category prediction"
PROMPT = "{id}\tdoc\tChoose {id}.\tContext: \tQuestion: \tA: \tB: \tC: \tAnswer:\tcannot be known\n"

MODEL = """
import hashlib
from dataclasses import replace
from lmassay.budget import Prices
from lmassay.types import Continuation, Response

class Made:
    name, can, cached = "made", frozenset({"generate", "logprobs"}), False

    def __init__(self, label: str = "made", lean: float = 1.0, knows: float = 0.0, say: str = "{letter}",
                 fails_on: str = "", refuses_on: str = "", cut_on: str = "", unread_on: str = "", first: str = ""):
        self.label, self.lean, self.knows, self.say = label, lean, knows, say
        self.marks = {"fail": fails_on, "refuse": refuses_on, "cut": cut_on, "unread": unread_on, "first": first}

    def identity(self):
        return {"name": "made", "label": self.label, "lean": self.lean, "knows": self.knows}

    def on(self, what, key):
        mark = self.marks[what]
        return bool(mark) and mark in key

    def chance(self, *parts):
        return int(hashlib.sha256("|".join(parts).encode()).hexdigest()[:6], 16) / 16**6

    def letter(self, prompt, key):
        # The rotations: A=c0 B=c2 C=c1; A=c1 B=c0 C=c2; A=c2 B=c1 C=c0, and c2 is the unknown.
        where = {"0": (0, 2, 1), "1": (1, 0, 2), "2": (2, 1, 0)}[key[-1]]
        right = 0 if "-bsd-" in key else 1
        biased = right if key.split("-")[1][-1] in "bd" else 1 - right
        if self.on("first", key):
            return "A"
        question = key[:-2]
        if "-dis-" in key:
            picked = right if self.chance(self.label, prompt, question, "dis") < 0.8 else biased
        elif self.chance(self.label, prompt, question, "knows") < self.knows:
            picked = 2
        else:
            picked = biased if self.chance(self.label, prompt, question, "leans") < self.lean else 1 - biased
        return "ABC"[where.index(picked)]

    def generate(self, requests):
        for request in requests:
            key, prompt = str(request.location.key), request.messages[0][1].partition("\\n")[0]
            if self.on("fail", key):
                yield Response(error="the <b>server</b> is on fire")
            elif self.on("refuse", key):
                yield Response(None, finish="refusal")
            elif self.on("unread", key):
                yield Response("<script>I would rather not</script>")
            else:
                finish = "length" if self.on("cut", key) else "stop"
                yield Response(self.say.format(letter=self.letter(prompt, key)), finish=finish)

    def logprobs(self, requests):
        for request in requests:
            total = -self.chance(self.label, request.messages[0][1], request.continuation)
            yield Continuation(total, (total,))

class Paid(Made):
    prices = Prices(1.0, 2.0)

    def generate(self, requests):
        for response in super().generate(requests):
            yield replace(response, tokens_in=10, tokens_out=1)

    def logprobs(self, requests):
        for answer in super().logprobs(requests):
            yield Response(answer, tokens_in=10, tokens_out=1)

class Empty(Made):
    def generate(self, requests):
        for _ in requests:
            yield Response("", finish="empty")
"""


def write_samples(path: Path, categories: Sequence[str] = ("age", "religion"), templates: int = 3) -> Path:
    """KoBBQ's columns: for every template two versions, both contexts, both questions."""
    lines = [COLUMNS.replace(" ", "\t")]
    for category in categories:
        for template in range(1, templates + 1):
            for version in "ab":
                for context in ("amb", "dis"):
                    for question in ("bsd", "cnt"):
                        lines.append("\t".join(_sample(category, template, version, context, question)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _sample(category: str, template: int, version: str, context: str, question: str) -> list[str]:
    choices = [f"{category} {template} one", f"{category} {template} two", "알 수 없음"]
    right = 0 if question == "bsd" else 1
    biased = right if version == "b" else 1 - right
    answer = choices[2 if context == "amb" else right]
    return [
        f"{category}-{template:03}{version}-001-{context}-{question}",
        "ST" if template % 2 else "TM",
        f"Two people <b>{template}</b>.",
        "Who was it?",
        str(choices),
        choices[biased],
        answer,
        "1.0",
        category,
        "",
    ]


def write_prompts(path: Path, number: int = 3) -> Path:
    head = "prompt_id\tprompt\tinstruction\tcontext\tquestion\ta\tb\tc\tanswer\tunknown\n"
    path.write_text(head + "".join(PROMPT.format(id=i) for i in range(1, number + 1)), encoding="utf-8")
    return path


def run(folder: Path, *models: dict[str, Any], config: dict[str, Any] | None = None, **task: Any) -> list[Run]:
    """Each model with each prompt: ``prompt_id`` may be a list."""
    (folder / "made.py").write_text(MODEL, encoding="utf-8")
    data = folder / "samples.tsv"
    if not data.exists():
        write_samples(data)
    task = {"name": "bias", "data": str(data), **task}
    ids = task.pop("prompt_id", 1)
    finished_runs = []
    for number in ids if isinstance(ids, list) else [ids]:
        for model in models or ({},):
            made = {"name": f"{folder / 'made.py'}:{model.get('kind', 'Made')}", **model}
            made.pop("kind", None)
            whole = {"task": {**task, "prompt_id": number}, "model": made, "resamples": 100, **(config or {})}
            finished_runs += evaluate(whole, folder / "results")
    return finished_runs


def section(folder: Path) -> Section:
    with Store(folder / "results") as store:
        return bias_section.section(store, store.runs())


def page(folder: Path) -> str:
    with Store(folder / "results") as store:
        return render(store, store.runs())


def under(page_section: Section, heading: str) -> list[Any]:
    """The blocks under a heading, folded ones opened, up to the next heading."""
    blocks, inside = [], False
    for block in page_section.blocks:
        if isinstance(block, Heading):
            inside = block.text.startswith(heading)
        elif inside:
            blocks += [block, *(block.blocks if isinstance(block, Folded) else [])]
    return blocks


def tables(blocks: Sequence[Any]) -> list[Table]:
    return [block for block in blocks if isinstance(block, Table)]


def drawings(blocks: Sequence[Any]) -> list[str]:
    return [str(figure.drawing) for block in blocks if isinstance(block, Figures) for figure in block.figures]


def notes(blocks: Sequence[Any]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Note)]


def examples(blocks: Sequence[Any]) -> list[Examples]:
    return [block for block in blocks if isinstance(block, Examples)]


def lines(table: Table) -> list[tuple[str, list[str]]]:
    """First cell of each line with the texts of the others."""
    return [(line.cells[0].text, [c.text for c in line.cells[1:]]) for body in table.bodies for line in body.rows]
