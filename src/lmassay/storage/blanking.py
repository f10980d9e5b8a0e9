"""Blanks out secrets in what the store writes, and in what it reads for display."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmassay.redaction import has_keys_in_use, redacted_value, value_without_keys, without_keys
from lmassay.types import Result, RowBatch, RunRecord, compact, provenance_from_dict


def json_without_keys(text: str) -> str:
    """Return JSON without the keys in use.

    The JSON is parsed only if its text contains a key. Keys are blanked out of the parsed values, because a key that
    consists of digits also matches parts of unrelated numbers in the text.
    """
    if without_keys(text) == text:
        return text
    return compact(value_without_keys(json.loads(text)))


def batch_without_keys(batch: RowBatch) -> RowBatch:
    """Return a batch without the keys in use. Most runs that are scored in batches ask no model and have no keys."""
    if not has_keys_in_use():
        return batch
    return replace(
        batch,
        values={without_keys(name): scores for name, scores in batch.values.items()},
        groups=_columns_without_keys(batch.groups),
        inputs=_columns_without_keys(batch.inputs),
        references=None if batch.references is None else value_without_keys(list(batch.references)),
        details=_columns_without_keys(batch.details),
    )


def _columns_without_keys(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    return {without_keys(name): _column_without_keys(column) for name, column in columns.items()}


def _column_without_keys(column: Sequence[Any]) -> Sequence[Any]:
    # Many examples share a group, and a search takes longer than looking up a text.
    blanked_texts: dict[str, str] = {}
    blanked: list[Any] = []
    for value in column:
        if not isinstance(value, str):
            blanked.append(value_without_keys(value))
            continue
        if value not in blanked_texts:
            blanked_texts[value] = without_keys(value)
        blanked.append(blanked_texts[value])
    return blanked


def record_without_keys(record: RunRecord) -> RunRecord:
    """Return a run as it would be stored now; id, sweep and task stay, because the run is found by them."""
    annotation = record.annotation
    texts = [record.name, record.model, record.label, record.note, record.signature, annotation.note]
    # What looks like a key is blanked out of these texts even if no key is in use.
    (name, model, label, note, signature, user_note), tags = redacted_value([texts, annotation.tags])
    shown = replace(
        record,
        name=name,
        model=model,
        label=label,
        note=note,
        signature=signature,
        annotation=replace(annotation, note=user_note, tags=tuple(tags)),
    )
    if not has_keys_in_use():
        return shown
    return replace(
        shown,
        config=value_without_keys(record.config),
        provenance=provenance_from_dict(value_without_keys(record.provenance.as_dict())),
        results=[Result(**value_without_keys(result.as_dict())) for result in record.results],
    )


def altered_response_key(key: str) -> str:
    """Return the key under which an altered response is stored; it is shown, but never reused as an answer."""
    return f"{key}-redacted"
