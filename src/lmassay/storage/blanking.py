"""Blanks out secrets in what the store writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmassay.redaction import has_keys_in_use, value_without_keys, without_keys
from lmassay.types import RowBatch, compact


def json_without_keys(text: str) -> str:
    """Return JSON without the keys in use.

    The values are read only if there is a key in the text. In the text itself, a key that is a number could not be told
    from other numbers.
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
        groups=_columns_without_keys(batch.groups),
        inputs=_columns_without_keys(batch.inputs),
        references=None if batch.references is None else value_without_keys(list(batch.references)),
        details=_columns_without_keys(batch.details),
    )


def _columns_without_keys(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    return {name: value_without_keys(list(column)) for name, column in columns.items()}


def altered_response_key(key: str) -> str:
    """Return the key under which a response is stored that is shown, but never used instead of asking the model."""
    return f"{key}-redacted"
