"""The page of one example: what the task knows about it, what was asked and answered, and how that was scored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.reporting.example_texts import answer_text, prompt_text, texts_of
from lmassay.reporting.numbers import number_text
from lmassay.storage.example_pages import examples_at
from lmassay.storage.store import Store
from lmassay.types import Response, Row, RunRecord


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response."""

    prompt: str
    answer: str
    settings: str
    """The request as it is stored, without its texts."""
    facts: Sequence[str]
    """Why the model stopped, tokens and time."""


@dataclass(frozen=True, slots=True)
class ExampleDetail:
    """Everything that is stored about an example."""

    position: int
    row: Row
    scores: Sequence[tuple[str, str]]
    texts: Sequence[tuple[str, str]]
    """What the evaluation shows of an example, as in the report."""
    exchanges: Sequence[Exchange]
    data: Sequence[tuple[str, str]]
    """Inputs, reference and details as they are stored."""
    previous: int | None
    following: int | None


def example_detail(store: Store, record: RunRecord, position: int) -> ExampleDetail | None:
    """Return the example at a position of a run; None if there is none."""
    # The neighbours are read only to know whether there are any to link to.
    positions = [max(position - 1, 0), position, position + 1]
    rows = dict(examples_at(store, record.id, positions))
    row = rows.get(position)
    if row is None:
        return None
    exchanges = store.exchanges_of(record.id, row.example.id)
    scores = [(metric, number_text(value, 4)) for metric, value in row.score.values.items()]
    return ExampleDetail(
        position=position,
        row=row,
        scores=scores,
        texts=texts_of(record, row, exchanges),
        exchanges=[_exchange(request, response) for request, response in exchanges],
        data=_stored_data(row),
        previous=position - 1 if position - 1 in rows else None,
        following=position + 1 if position + 1 in rows else None,
    )


def _stored_data(row: Row) -> list[tuple[str, str]]:
    values = {"inputs": row.example.inputs, "reference": row.example.reference, "details": row.score.details}
    data = []
    for title, value in values.items():
        # A reference of 0 or False is data; an empty one says nothing.
        if value not in (None, "", {}, []):
            data.append((title, json.dumps(value, indent=2, ensure_ascii=False)))
    return data


_TEXTS_OF_REQUESTS = ("messages", "prompt", "context", "continuation", "text", "left", "right")


def _exchange(request: Mapping[str, Any], response: Response) -> Exchange:
    settings = {name: value for name, value in request.items() if name not in _TEXTS_OF_REQUESTS}
    facts = [f"finish: {response.finish}"]
    if response.tokens_in is not None:
        facts.append(f"{response.tokens_in:,} tokens in")
    if response.tokens_out is not None:
        facts.append(f"{response.tokens_out:,} tokens out")
    if response.seconds is not None:
        facts.append(f"{response.seconds:.2f} s")
    return Exchange(
        prompt=prompt_text(request),
        answer=answer_text(response),
        settings=json.dumps(settings, indent=2, ensure_ascii=False),
        facts=facts,
    )
