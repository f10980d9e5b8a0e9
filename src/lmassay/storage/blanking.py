"""Replaces secrets by a placeholder in what the store writes, and in what it reads for display.

The *keys in use* are the API keys that this process knows, such as those it read from environment variables. They are
found by comparison with the known values, wherever they occur (see :mod:`lmassay.redaction`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmassay.redaction import has_keys_in_use, redacted_value, value_without_keys, without_keys
from lmassay.types import Result, RowBatch, RunRecord, compact, provenance_from_dict


def json_without_keys(text: str) -> str:
    """Return a JSON text in which the keys in use are blanked out.

    The text is parsed only if it contains a key. Keys are then blanked out of the parsed strings, not of the text: a
    key that consists of digits also matches parts of unrelated numbers.
    """
    if without_keys(text) == text:
        return text
    return compact(value_without_keys(json.loads(text)))


def batch_without_keys(batch: RowBatch) -> RowBatch:
    """Return a batch of rows in which the keys in use are blanked out."""
    # The usual case: most runs that are scored in batches read outputs from files, so the process knows no API keys.
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
    # Many examples have the same text, such as the name of their group. Searching a text for keys takes longer than
    # looking up the result of an earlier search.
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
    """Return a run in which secrets are blanked out, as this version would store it.

    Its id, sweep and task are not changed, because runs are found by them.
    """
    annotation = record.annotation
    texts = [record.name, record.model, record.label, record.note, record.signature, annotation.note]
    # Everything that looks like an API key is blanked out of these texts, even if it is not one of the keys in use.
    (name, model, label, note, signature, user_note), tags = redacted_value([texts, annotation.tags])
    blanked = replace(
        record,
        name=name,
        model=model,
        label=label,
        note=note,
        signature=signature,
        annotation=replace(annotation, note=user_note, tags=tuple(tags)),
    )
    if not has_keys_in_use():
        return blanked
    return replace(
        blanked,
        config=value_without_keys(record.config),
        provenance=provenance_from_dict(value_without_keys(record.provenance.as_dict())),
        results=[Result(**value_without_keys(result.as_dict())) for result in record.results],
    )


def altered_response_key(cache_key: str) -> str:
    """Return the cache key under which a response is stored whose text was changed by blanking out a secret.

    Responses with such a key are shown to users, but never used again as an answer.
    """
    return f"{cache_key}-redacted"
