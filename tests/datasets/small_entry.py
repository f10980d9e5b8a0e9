"""A small data set of our own: an entry, its files and a folder that is laid out like a mirror."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

CONTENT = {
    "animals.jsonl": b'{"sentence_good": "Dogs bark.", "sentence_bad": "Dogs barks."}\n' * 3,
    "plants.jsonl": b'{"sentence_good": "Trees grow.", "sentence_bad": "Trees grows."}\n' * 5,
}


def git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def entry_document(**changes: Any) -> dict[str, Any]:
    """An entry as it would be in its YAML file."""
    files: dict[str, Any] = {}
    for name, content in CONTENT.items():
        files[name] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "examples": content.count(b"\n"),
            "labels": {"topic": name.removesuffix(".jsonl")},
        }
    source = {
        "repository": "https://github.com/somebody/small",
        "commit": "a" * 40,
        "licence": "MIT",
        "folder": "small",
        "path": "data",
        "files": files,
    }
    document = {
        "name": "small",
        "title": "Small",
        "summary": "eight minimal pairs",
        "task": "minimal_pairs",
        "languages": ["en"],
        "citation": "Nobody (2026)",
        "part": "topic",
        "sources": [source],
    }
    return {**document, **changes}


def write_entry(folder: Path, document: dict[str, Any] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "small.yaml"
    path.write_text(json.dumps(document or entry_document()), encoding="utf-8")
    return path


def write_mirror(folder: Path) -> Path:
    (folder / "small").mkdir(parents=True)
    for name, content in CONTENT.items():
        (folder / "small" / name).write_bytes(content)
    return folder
