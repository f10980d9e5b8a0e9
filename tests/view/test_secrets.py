"""Keys that an old version stored are on no page of the view, however the page cuts, wraps and escapes its texts."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from lmassay import redaction
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
from tests.view.kit import viewed

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


@pytest.mark.parametrize("key", KEYS)
def test_no_page_has_any_part_of_a_key(tmp_path, monkeypatch, key):
    monkeypatch.setattr(redaction, "_in_use", set())
    monkeypatch.delenv("MY_API_KEY", raising=False)
    folder_with(tmp_path, key)
    monkeypatch.setenv("MY_API_KEY", key)
    first, second = RUNS
    paths = ["/", "/live?version=old", "/?group=model", f"/runs/{first}", f"/runs/{first}/live?version=old"]
    paths += [f"/runs/{first}/examples/{number}" for number in (0, 1, 5, 10, 20)]
    paths += [f"/report?run={first}&run={second}&format={name}" for name in ("html", "md", "tex", "csv")]
    paths += [f"/compare?run={first}&run={second}", f"/compare/page?run={first}&run={second}"]
    paths += [f"/tag?run={first}", f"/delete?run={first}"]
    with viewed(tmp_path) as browser:
        for path in paths:
            assert MARK not in everything_in(browser.page(path)), path
        missing = browser.get(f"/runs/{quote(key, safe='')}/live")
    assert missing.status_code == 404
    assert MARK not in missing.text


def test_a_note_with_a_key_can_be_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(redaction, "_in_use", set())
    monkeypatch.delenv("MY_API_KEY", raising=False)
    folder_with(tmp_path, KEYS[0])
    monkeypatch.setenv("MY_API_KEY", KEYS[0])
    address = f"/runs/{RUNS[0]}"
    with viewed(tmp_path) as browser:
        (seen,) = re.findall(r'name="seen" value="(\w+)"', browser.page(address))
        done = browser.post(f"{address}/annotation", {"note": "another note", "tags": "", "seen": seen})
        assert done.status_code == 303, done.text
    with Store(tmp_path) as store:
        assert store.run(RUNS[0]).annotation.note == "another note"
