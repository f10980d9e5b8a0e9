"""The page of one example: its data, the requests and responses, and the scores."""

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
    """The stored request without its texts, as JSON."""
    facts: Sequence[str]
    """The finish reason, the numbers of tokens and the time."""


@dataclass(frozen=True, slots=True)
class ExampleDetail:
    """Everything that is stored about an example."""

    position: int
    row: Row
    scores: Sequence[tuple[str, str]]
    texts: Sequence[tuple[str, str]]
    """(name, text) pairs that the evaluation shows of an example, as in the report."""
    exchanges: Sequence[Exchange]
    data: Sequence[tuple[str, str]]
    """The stored inputs, reference and details: (title, JSON) pairs."""
    previous: int | None
    """The position of the previous example; None if this is the first one."""
    following: int | None
    """The position of the next example; None if this is the last one that is stored."""


def example_detail(store: Store, record: RunRecord, position: int) -> ExampleDetail | None:
    """Return the example at a position of a run; None if there is none."""
    # The examples before and after are read only to find out whether they exist, so that the page can link to them.
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
    """Return the inputs, reference and details as (title, JSON) pairs, without empty ones."""
    values = {"inputs": row.example.inputs, "reference": row.example.reference, "details": row.score.details}
    data = []
    for title, value in values.items():
        # A reference that is 0 or False is shown, an empty one is not.
        if value not in (None, "", {}, []):
            data.append((title, json.dumps(value, indent=2, ensure_ascii=False)))
    return data


_TEXTS_OF_REQUESTS = ("messages", "prompt", "context", "continuation", "text", "left", "right")


def _exchange(request: Mapping[str, Any], response: Response) -> Exchange:
    """Return a stored request and its response as texts."""
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
