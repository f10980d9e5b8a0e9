"""The batch APIs of OpenAI and Anthropic: half the price, an answer within a day."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol
from urllib.parse import quote

from lmassay.errors import ModelError
from lmassay.models.api.client import Client
from lmassay.models.api.failures import Failure, excerpt, failure_of_status, read_json
from lmassay.redaction import redact

# Of the list of batches, the newest first: a hundred batches each.
_MOST_PAGES = 100
Outcome = Any
"""What became of one request: the body of an answer, or the Failure that stands in its place."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How far a batch is. ``reason`` tells why requests may have come to nothing."""

    ended: bool
    reason: str = ""
    files: tuple[str, ...] = ()


class BatchService(Protocol):
    """What a provider of batches must be able to do."""

    most_requests: ClassVar[int]
    most_bytes: ClassVar[int]

    def line(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        """One request as it stands in the batch."""

    async def prepare(self, client: Client, lines: Sequence[bytes]) -> bytes:
        """Whatever comes before; what is posted to create the batch. May be repeated."""

    async def create(self, client: Client, payload: bytes) -> str:
        """Create the batch, which is what costs; its id."""

    def mark(self, payload: bytes) -> str:
        """By what a batch can be found again whose id was never told; empty if it cannot."""

    async def find(self, client: Client, mark: str) -> str | None:
        """The id of the batch with this mark; None if there is none. Raises where that cannot be known."""

    async def state(self, client: Client, batch: str) -> BatchStatus: ...

    def results(self, raw: bytes) -> Iterator[tuple[str, Outcome]]:
        """What one file of results holds, by custom id."""


class OpenAIBatches:
    """A file of requests, a batch over it, files of answers and of errors."""

    most_requests: ClassVar[int] = 50_000
    most_bytes: ClassVar[int] = 200_000_000

    def __init__(self, path: str) -> None:
        self._endpoint = f"/v1{path}"

    def line(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        return _ascii({"custom_id": custom_id, "method": "POST", "url": self._endpoint, "body": body})

    async def prepare(self, client: Client, lines: Sequence[bytes]) -> bytes:
        content = b"\n".join(lines) + b"\n"
        file = _id_of(await client.upload("/files", {"purpose": "batch"}, "requests.jsonl", content))
        return _ascii({"input_file_id": file, "endpoint": self._endpoint, "completion_window": "24h"})

    async def create(self, client: Client, payload: bytes) -> str:
        return _id_of(await client.post("/batches", payload))

    def mark(self, payload: bytes) -> str:
        return str(json.loads(payload)["input_file_id"])

    async def find(self, client: Client, mark: str) -> str | None:
        after = ""
        for _ in range(_MOST_PAGES):
            page = _object(await client.get(f"/batches?limit=100{after}"))
            rows = page.get("data")
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                break
            for row in rows:
                if row.get("input_file_id") == mark and isinstance(row.get("id"), str):
                    return str(row["id"])
            if not page.get("has_more"):
                return None
            if not rows or not isinstance(rows[-1].get("id"), str):
                break
            after = f"&after={quote(rows[-1]['id'], safe='')}"
        raise ModelError("the provider's list of batches cannot be read")

    async def state(self, client: Client, batch: str) -> BatchStatus:
        row = _object(await client.get(f"/batches/{quote(batch, safe='')}"))
        status = row.get("status")
        if status not in ("completed", "failed", "expired", "cancelled"):
            return BatchStatus(False)
        files = [row.get(name) for name in ("output_file_id", "error_file_id")]
        paths = tuple(f"/files/{quote(file, safe='')}/content" for file in files if isinstance(file, str) and file)
        return BatchStatus(True, _reason(status, row.get("errors")), paths)

    def results(self, raw: bytes) -> Iterator[tuple[str, Outcome]]:
        for row in _rows(raw):
            response, error = row.get("response"), row.get("error")
            if isinstance(response, dict) and response.get("status_code") == 200:
                yield str(row.get("custom_id")), response.get("body")
            elif isinstance(response, dict):
                status, body = response.get("status_code"), _ascii(response.get("body"))
                yield str(row.get("custom_id")), failure_of_status(status if isinstance(status, int) else 0, {}, body)
            else:
                yield str(row.get("custom_id")), Failure(f"in the batch: {_told(error)}")


class ClaudeBatches:
    """A batch of requests in one call, its answers in one file."""

    most_requests: ClassVar[int] = 100_000
    most_bytes: ClassVar[int] = 256_000_000

    def line(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        return _ascii({"custom_id": custom_id, "params": body})

    async def prepare(self, client: Client, lines: Sequence[bytes]) -> bytes:
        return b'{"requests": [' + b",".join(lines) + b"]}"

    async def create(self, client: Client, payload: bytes) -> str:
        return _id_of(await client.post("/v1/messages/batches", payload))

    def mark(self, payload: bytes) -> str:
        return ""

    async def find(self, client: Client, mark: str) -> str | None:
        raise ModelError("a batch was begun of which the provider never told the id")

    async def state(self, client: Client, batch: str) -> BatchStatus:
        path = f"/v1/messages/batches/{quote(batch, safe='')}"
        row = _object(await client.get(path))
        # The address of the results stands in the row, too, but a key is sent to the known server only.
        return (
            BatchStatus(True, "", (f"{path}/results",))
            if row.get("processing_status") == "ended"
            else BatchStatus(False)
        )

    def results(self, raw: bytes) -> Iterator[tuple[str, Outcome]]:
        for row in _rows(raw):
            result = row.get("result")
            kind = result.get("type") if isinstance(result, dict) else None
            if isinstance(result, dict) and kind == "succeeded":
                yield str(row.get("custom_id")), result.get("message")
            elif isinstance(result, dict) and kind == "errored":
                yield str(row.get("custom_id")), failure_of_status(400, {}, _ascii(result.get("error")))
            else:
                yield str(row.get("custom_id")), Failure(f"in the batch: {kind or 'no result'}")


def _ascii(value: Any) -> bytes:
    # Escaped, so that a lone surrogate in a prompt is sent rather than crashing the encoder.
    return json.dumps(value).encode("ascii")


def _object(raw: bytes) -> dict[str, Any]:
    row = read_json(raw)
    if not isinstance(row, dict):
        raise ModelError(f"the server's answer has no id in it: {excerpt(raw)}")
    return row


def _id_of(raw: bytes) -> str:
    batch = _object(raw).get("id")
    if not isinstance(batch, str) or not batch:
        raise ModelError(f"the server's answer has no id in it: {excerpt(raw)}")
    return batch


def _rows(raw: bytes) -> Iterator[dict[str, Any]]:
    for text in raw.splitlines():
        # A line that cannot be read must not cost those after it; its request is told to have got no answer.
        with suppress(ModelError):
            if text.strip():
                yield _object(text)


def _reason(status: str, errors: Any) -> str:
    if status == "completed":
        return ""
    told = errors.get("data") if isinstance(errors, dict) else None
    first = _told(told[0]) if isinstance(told, list) and told else ""
    return f"the batch is {status}{': ' if first else ''}{first}"


def _told(error: Any) -> str:
    if isinstance(error, dict):
        parts = [str(error[name]) for name in ("code", "message") if error.get(name)]
        return redact(": ".join(parts))[:200] or "an error without a reason"
    return redact(str(error))[:200]
