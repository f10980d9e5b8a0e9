"""The batch APIs of OpenAI and Anthropic, which answer within a day at half the price."""

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

# How many pages of the list of batches are searched, newest first; a page has a hundred batches.
_MAX_PAGES = 100
# How many characters of a provider's reason for an error are shown.
_REASON_LENGTH = 200

BatchResult = Any
"""The result of one request of a batch: the body of its answer, or a Failure."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """Whether a batch has ended, and where its results are."""

    ended: bool
    reason: str = ""
    """Why some of its requests may have no answer; empty if the batch was completed, or if the provider gives no
    reason."""
    files: tuple[str, ...] = ()
    """The paths of the files with its results, below the address of the server."""


class BatchService(Protocol):
    """The batch API of a provider."""

    max_requests: ClassVar[int]
    """The most requests that the provider accepts in one batch."""
    max_bytes: ClassVar[int]
    """The largest batch that the provider accepts, in bytes."""

    def line(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        """One request in the format of the batch."""

    async def prepare(self, client: Client, lines: Sequence[bytes]) -> bytes:
        """Do what is needed before the batch is created, such as an upload, and return what :meth:`create` posts.

        It costs nothing and may be repeated.
        """

    async def create(self, client: Client, payload: bytes) -> str:
        """Create the batch, which costs money, and return its id."""

    def mark(self, payload: bytes) -> str:
        """A text by which :meth:`find` recognises a batch whose id never arrived; empty if there is none."""

    async def find(self, client: Client, mark: str) -> str | None:
        """The id of the batch with this mark; None if there is none.

        Raises a ModelError if it cannot be found out whether there is such a batch.
        """

    async def state(self, client: Client, batch: str) -> BatchStatus:
        """The status of a batch: whether it has ended and, if it has, where its results are."""

    def results(self, raw: bytes) -> Iterator[tuple[str, BatchResult]]:
        """The results in one file, as pairs (custom id, result)."""


class OpenAIBatches:
    """OpenAI's batch API.

    A file of requests is uploaded, and a batch is created for it. The results are a file of answers and one of errors.
    ``path`` is the path to which the same requests would be posted one by one, such as ``/chat/completions``.
    """

    max_requests: ClassVar[int] = 50_000
    max_bytes: ClassVar[int] = 200_000_000

    def __init__(self, path: str) -> None:
        self._endpoint = f"/v1{path}"

    def line(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        return _as_ascii_json({"custom_id": custom_id, "method": "POST", "url": self._endpoint, "body": body})

    async def prepare(self, client: Client, lines: Sequence[bytes]) -> bytes:
        content = b"\n".join(lines) + b"\n"
        response = await client.upload("/files", {"purpose": "batch"}, "requests.jsonl", content)
        file_id = _id_of(response)
        return _as_ascii_json({"input_file_id": file_id, "endpoint": self._endpoint, "completion_window": "24h"})

    async def create(self, client: Client, payload: bytes) -> str:
        return _id_of(await client.post("/batches", payload))

    def mark(self, payload: bytes) -> str:
        # The id of the uploaded file: it is used by one batch only.
        return str(json.loads(payload)["input_file_id"])

    async def find(self, client: Client, mark: str) -> str | None:
        after = ""
        for _ in range(_MAX_PAGES):
            page = _json_object(await client.get(f"/batches?limit=100{after}"))
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
        # Also if the list has more than _MAX_PAGES pages: the batch may be on a page that was not read.
        raise ModelError("the provider's list of batches cannot be read")

    async def state(self, client: Client, batch: str) -> BatchStatus:
        row = _json_object(await client.get(f"/batches/{quote(batch, safe='')}"))
        status = row.get("status")
        if status not in ("completed", "failed", "expired", "cancelled"):
            return BatchStatus(ended=False)
        paths = []
        for name in ("output_file_id", "error_file_id"):
            file_id = row.get(name)
            if isinstance(file_id, str) and file_id:
                paths.append(f"/files/{quote(file_id, safe='')}/content")
        return BatchStatus(ended=True, reason=_ending_reason(status, row.get("errors")), files=tuple(paths))

    def results(self, raw: bytes) -> Iterator[tuple[str, BatchResult]]:
        for row in _rows(raw):
            custom_id = str(row.get("custom_id"))
            response = row.get("response")
            if not isinstance(response, dict):
                yield custom_id, Failure(f"in the batch: {_error_text(row.get('error'))}")
                continue
            status = response.get("status_code")
            if status == 200:
                yield custom_id, response.get("body")
            else:
                # 0 stands for a missing status.
                http_status = status if isinstance(status, int) else 0
                yield custom_id, failure_of_status(http_status, {}, _as_ascii_json(response.get("body")))


class ClaudeBatches:
    """Anthropic's batch API: one call contains all requests of a batch, and one file all of its results."""

    max_requests: ClassVar[int] = 100_000
    max_bytes: ClassVar[int] = 256_000_000

    def line(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        return _as_ascii_json({"custom_id": custom_id, "params": body})

    async def prepare(self, client: Client, lines: Sequence[bytes]) -> bytes:
        return b'{"requests": [' + b",".join(lines) + b"]}"

    async def create(self, client: Client, payload: bytes) -> str:
        return _id_of(await client.post("/v1/messages/batches", payload))

    def mark(self, payload: bytes) -> str:
        # Requests are part of the call, so there is nothing that could identify the batch later.
        return ""

    async def find(self, client: Client, mark: str) -> str | None:
        raise ModelError("an earlier attempt ended before it received the id of its batch")

    async def state(self, client: Client, batch: str) -> BatchStatus:
        path = f"/v1/messages/batches/{quote(batch, safe='')}"
        row = _json_object(await client.get(path))
        if row.get("processing_status") != "ended":
            return BatchStatus(ended=False)
        # The response also has the address of the results. It is not used: requests carry the API key, which must be
        # sent to the configured server only.
        return BatchStatus(ended=True, files=(f"{path}/results",))

    def results(self, raw: bytes) -> Iterator[tuple[str, BatchResult]]:
        for row in _rows(raw):
            custom_id = str(row.get("custom_id"))
            result = row.get("result")
            if not isinstance(result, dict):
                yield custom_id, Failure("in the batch: no result")
                continue
            kind = result.get("type")
            if kind == "succeeded":
                yield custom_id, result.get("message")
            elif kind == "errored":
                # The error comes without an HTTP status. It is treated like a 400, so that a refusal by a content
                # filter and a prompt that is too long are recognised by their text.
                yield custom_id, failure_of_status(400, {}, _as_ascii_json(result.get("error")))
            else:
                yield custom_id, Failure(f"in the batch: {kind or 'no result'}")


def _as_ascii_json(value: Any) -> bytes:
    # Escaped, so that a lone surrogate in a prompt is sent instead of crashing the encoder.
    return json.dumps(value).encode("ascii")


def _json_object(raw: bytes) -> dict[str, Any]:
    row = read_json(raw)
    if not isinstance(row, dict):
        raise ModelError(f"the server's answer is not a JSON object: {excerpt(raw)}")
    return row


def _id_of(raw: bytes) -> str:
    identifier = _json_object(raw).get("id")
    if not isinstance(identifier, str) or not identifier:
        raise ModelError(f"the server's answer has no id: {excerpt(raw)}")
    return identifier


def _rows(raw: bytes) -> Iterator[dict[str, Any]]:
    """The lines of a file of results, as JSON objects."""
    for line in raw.splitlines():
        if not line.strip():
            continue
        # A line that cannot be read is skipped, so that the lines after it are still read; its request is reported as
        # unanswered.
        with suppress(ModelError):
            yield _json_object(line)


def _ending_reason(status: str, errors: Any) -> str:
    """Why a batch at OpenAI ended early, with the first of its errors; empty if it was completed."""
    if status == "completed":
        return ""
    reason = "the batch was cancelled" if status == "cancelled" else f"the batch {status}"
    error_list = errors.get("data") if isinstance(errors, dict) else None
    if isinstance(error_list, list) and error_list:
        return f"{reason}: {_error_text(error_list[0])}"
    return reason


def _error_text(error: Any) -> str:
    """What the provider says about an error, in one line without secrets."""
    if not error:
        return "an error without a reason"
    if not isinstance(error, dict):
        return redact(str(error))[:_REASON_LENGTH]
    parts = [str(error[name]) for name in ("code", "message") if error.get(name)]
    return redact(": ".join(parts))[:_REASON_LENGTH] or "an error without a reason"
