"""A results folder of an old version that stored a key wherever a text is stored."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

import numpy as np

from lmassay.storage.store import Store
from lmassay.types import (
    Annotation,
    Design,
    Example,
    NewRun,
    Provenance,
    Response,
    Result,
    Row,
    RowBatch,
    Score,
)

MARK = "SENTINEL"
# With characters that LaTeX, Markdown, CSV, JSON, YAML and HTML escape, each in its own way.
KEYS = [f"{MARK}_0a1b-2c3d4e5f", f"{MARK}_|*`&<\"'\\{{~}}^%#$0a1b", f"{MARK}열쇠-0a1b2c"]
RUNS = ("20261101-080000-plain-aaaaaa", "20261101-090000-plain-bbbbbb")
# What leaves this many characters of the key before a cut at 80, 120, 300 or 10,000 characters.
LEFT_OF_THE_CUT = 10
CUTS = (80, 120, 300, 10_000)


def texts_with(key: str) -> list[str]:
    return [key, *("x" * (cut - LEFT_OF_THE_CUT) + key for cut in CUTS)]


def folder_with(folder: Path, key: str) -> Path:
    """Store a key wherever a text is stored, as if it were none."""
    with Store(folder, create=True) as store:
        for run in RUNS:
            design = Design(headline=("accuracy", f"metric {key}"))
            provenance = Provenance(evaluation="bias", signature={"model": key}, design=design)
            config = {"task": {"name": "quiz", "text": " ".join(["word"] * 17) + key}, "model": {"name": key}}
            store.add_run(
                NewRun(run, "sweep", f"name {key}", "quiz", key, f"label {key}", config, f"sig {key}", provenance, 12)
            )
            rows = []
            for number, text in enumerate(texts_with(key)):
                example = Example(f"e{number}", {"question": text, key: "x"}, text, {"category": text, key: "x"})
                scores = {"accuracy": float(run == RUNS[0]), f"metric {key}": 0.5}
                rows.append((number, Row(example, "scored", Score(scores, details={"raw": text, key: text}))))
            first_error = len(rows)
            for number, text in enumerate(texts_with(key), start=first_error):
                rows.append((number, Row(Example(f"e{number}", {}), "error", error=text)))
            example = Example("unscored", {"question": "?"})
            rows.append((len(rows), Row(example, "unscored", Score(unscored={"accuracy": f"no answer: {key}"}))))
            request = {"verb": "generate", "prompt": texts_with(key)[3], key: key}
            store.add_response("k", run, key, request, Response(texts_with(key)[3]))
            store.add_rows(run, rows, {"e0": ["k"], "e1": ["k"]})
            batch = RowBatch(20, ["b1"], {"accuracy": np.array([1.0])}, {"g": [key]}, {"q": [key]}, [key], {"d": [key]})
            store.add_batch(run, batch)
            store.set_results(
                run,
                [
                    Result("accuracy", "overall", 0.5, 0.1, 0.9, 5, method="wilson"),
                    Result("accuracy", f"category={key}", 0.5, 0.1, 0.9, 5, method="wilson"),
                    Result(f"metric {key}", "overall", 0.5, 0.1, 0.9, 5, method="wilson"),
                ],
            )
            store.annotate(run, Annotation(f"{'n' * (120 - LEFT_OF_THE_CUT)}{key}", ("tag",)))
            store.set_status(run, "incomplete", f"{'n' * (80 - LEFT_OF_THE_CUT)}{key}")
    return folder


def everything_in(page: str) -> str:
    """A page and the data that are compressed in it."""
    packed = re.findall(r">\s*([A-Za-z0-9+/=]{60,})\s*<", page)
    return page + "".join(gzip.decompress(base64.b64decode(data)).decode() for data in packed)
