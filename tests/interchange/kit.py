"""Logs that lm-evaluation-harness 0.4.13 really wrote (a tiny model, sentences of our own), and small runs of ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from lmassay.api import Run, evaluate
from tests.helpers import EVALUATIONS

LOGS = Path(__file__).parent / "logs"
PARADIGM = "regular_plural_subject_verb_agreement_1"

# Gives a sentence the log-probability that is its length in letters, a token a word; one sentence fails.
_MODEL = """
from lmassay import Continuation, Response

class Lengths:
    name = "lengths"
    can = frozenset({"logprobs"})

    def __init__(self, label: str = "acme/lengths-1b"):
        self.label = label

    def identity(self):
        return {"name": self.name}

    def logprobs(self, requests):
        for request in requests:
            words = request.continuation.split()
            if "pilot" in request.continuation:
                yield Response(error="the server is down")
                continue
            each = tuple(-len(word) / 7 for word in words)
            yield Response(Continuation(sum(each), each))
"""


# Draws a letter for each question by its text; a share of the questions fails, another is refused.
_LETTERS = """
import hashlib
from lmassay import Response

def share(*parts):
    return int.from_bytes(hashlib.sha256("|".join(map(str, parts)).encode()).digest()[:4]) / 2**32

class Letters:
    name = "letters"
    can = frozenset({"generate", "choices"})

    def __init__(self, label: str = "acme/letters", failing: float = 0.0, refusing: float = 0.0):
        self.label, self.failing, self.refusing = label, failing, refusing

    def identity(self):
        return {"name": self.name, "label": self.label}

    def generate(self, requests):
        for request in requests:
            text = request.prompt or str(request.messages)
            drawn = share("state", text)
            if drawn < self.failing:
                yield Response(error="HTTP 500")
            elif drawn < self.failing + self.refusing:
                yield Response(finish="refusal")
            else:
                yield Response("ABC"[int(3 * share(self.label, text))])
"""


def log(name: str) -> Path:
    """One of the real logs by its task."""
    (log_file,) = (path for path in LOGS.glob(f"samples_{name}_2026*.jsonl"))
    return log_file


def samples(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log(name).read_text(encoding="utf-8").splitlines()]


def write_log(folder: Path, rows: list[Any], task: str = "mytask", stamp: str = "2026-01-31T09-30-00.000001") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{stamp}.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
    return path


def copied_log(folder: Path, name: str) -> Path:
    """A real log with its totals, where it may be changed."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (log(name), *LOGS.glob("results_*.json")):
        shutil.copy(path, folder)
    return folder / log(name).name


def pairs_file(folder: Path) -> Path:
    """The pairs of the real log as a data file of ours, called as BLiMP calls it."""
    path = folder / f"{PARADIGM}.jsonl"
    path.write_text("".join(json.dumps(s["doc"]) + "\n" for s in samples(f"blimp_{PARADIGM}")), "utf-8")
    return path


def pairs_run(folder: Path, data: str | dict[str, str] = "", **more: Any) -> Run:
    """Our own run on the pairs of the real log, or on others."""
    (folder / "lengths.py").write_text(_MODEL, encoding="utf-8")
    data = data or str(pairs_file(folder))
    task = {"name": "minimal_pairs", "data": data, **more}
    (run,) = evaluate({"task": task, "model": f"{folder / 'lengths.py'}:Lengths"}, folder / "ours")
    return run


def generated_run(folder: Path) -> Run:
    """A run that asked for texts."""
    task = {
        "name": "robustness",
        "src": str(EVALUATIONS / "robustness/sample/src.fr"),
        "ref": str(EVALUATIONS / "robustness/sample/ref.en"),
        "attack": "charswap",
    }
    model = f"{EVALUATIONS / 'robustness/sample/my_system.py'}:MySystem"
    (run,) = evaluate({"task": task, "model": model, "limit": 6}, folder / "ours")
    return run


def bias_run(folder: Path, averaging: str = "test", **model: Any) -> Run:
    """A run whose examples belong together by template and some of whose metrics are put together from several."""
    (folder / "letters.py").write_text(_LETTERS, encoding="utf-8")
    task = {"name": "bias", "data": str(EVALUATIONS / "bias/sample/questions.yaml"), "averaging": averaging}
    spec = {"name": f"{folder / 'letters.py'}:Letters", **model}
    (run,) = evaluate({"task": task, "model": spec}, folder / "ours")
    return run
