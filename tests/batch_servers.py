"""The batch APIs of OpenAI and Anthropic, for the server of tests/servers.py."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.servers import JSON, Reply

Answer = Callable[[dict[str, Any]], Reply]


@dataclass
class Batches:
    """Batches that end after some polls. ``fates`` says what becomes of a request by its prompt: expired, errored …"""

    polls: int = 1
    status: str = "completed"
    fates: dict[str, str] = field(default_factory=dict)
    faults: list[Reply] = field(default_factory=list)
    """Sent, one a call, before anything else."""
    upload_faults: list[Reply] = field(default_factory=list)
    created: list[list[dict[str, Any]]] = field(default_factory=list)
    """The requests of each batch."""
    files: dict[str, bytes] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    """Of each of OpenAI's batches, the file of requests."""
    gone: bool = False
    """The results were deleted."""
    spoiled: bool = False
    """A line of the results cannot be read."""
    asked: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, method: str, path: str, raw: bytes, answer: Answer) -> Reply | None:
        with self.lock:
            if "batches" in path and self.faults:
                return self.faults.pop(0)
            if path == "/v1/files":
                if self.upload_faults:
                    return self.upload_faults.pop(0)
                return self._upload(raw)
            if path == "/v1/batches" and method == "GET":
                return self._list()
            if path == "/v1/batches":
                return self._create_openai(json.loads(raw))
            if path == "/v1/messages/batches":
                return self._reply(
                    {"id": self._create(json.loads(raw)["requests"]), "processing_status": "in_progress"}
                )
            if method != "GET":
                return None
            if self.gone and path.endswith(("/content", "/results")):
                return 404, JSON, b'{"error": {"message": "no such file"}}'
            if match := re.fullmatch(r"/v1/files/(.+)/content", path):
                return self._content(match[1], answer)
            if match := re.fullmatch(r"/v1/batches/batch-(\d+)", path):
                return self._openai_state(int(match[1]))
            if match := re.fullmatch(r"/v1/messages/batches/batch-(\d+)", path):
                status = "ended" if self._ended(int(match[1])) else "in_progress"
                return self._reply({"id": f"batch-{match[1]}", "processing_status": status})
            if match := re.fullmatch(r"/v1/messages/batches/batch-(\d+)/results", path):
                return self._claude_results(int(match[1]), answer)
            return 404, JSON, b'{"error": {"message": "no such batch"}}'

    def _reply(self, row: dict[str, Any]) -> Reply:
        return 200, JSON, json.dumps(row).encode()

    def _upload(self, raw: bytes) -> Reply:
        assert b'name="purpose"' in raw
        name = f"file-{len(self.files)}"
        self.files[name] = b"\n".join(line for line in raw.splitlines() if line.startswith(b"{"))
        return self._reply({"id": name, "object": "file", "purpose": "batch"})

    def _create(self, requests: list[dict[str, Any]]) -> str:
        self.created.append(requests)
        return f"batch-{len(self.created) - 1}"

    def _create_openai(self, order: dict[str, Any]) -> Reply:
        assert order["completion_window"] == "24h"
        rows = [json.loads(line) for line in self.files[order["input_file_id"]].splitlines()]
        assert all(row["url"] == order["endpoint"] == "/v1/chat/completions" for row in rows)
        self.inputs.append(order["input_file_id"])
        return self._reply({"id": self._create(rows), "status": "validating"})

    def _list(self) -> Reply:
        rows = [{"id": f"batch-{number}", "input_file_id": file} for number, file in enumerate(self.inputs)]
        return self._reply({"object": "list", "data": rows[::-1], "has_more": False})

    def _ended(self, number: int) -> bool:
        key = f"batch-{number}"
        self.asked[key] = self.asked.get(key, 0) + 1
        return self.asked[key] > self.polls

    def _openai_state(self, number: int) -> Reply:
        if not self._ended(number):
            return self._reply({"id": f"batch-{number}", "status": "in_progress"})
        row: dict[str, Any] = {"id": f"batch-{number}", "status": self.status}
        if self.status == "failed":
            row["errors"] = {"data": [{"code": "token_limit_exceeded", "message": "too many tokens"}]}
        else:
            row |= {"output_file_id": f"out-{number}", "error_file_id": f"err-{number}" if self.fates else None}
        return self._reply(row)

    def _content(self, name: str, answer: Answer) -> Reply:
        kind, _, number = name.partition("-")
        rows = []
        for row in self.created[int(number)]:
            fate = self.fates.get(row["body"]["messages"][-1]["content"])
            if kind == "out" and fate is None:
                body = json.loads(answer(row["body"])[2])
                rows.append({"custom_id": row["custom_id"], "response": {"status_code": 200, "body": body}})
            elif kind == "err" and fate == "errored":
                body = {"error": {"message": "no such thing"}}
                rows.append({"custom_id": row["custom_id"], "response": {"status_code": 400, "body": body}})
            elif kind == "err" and fate == "filtered":
                body = {"error": {"code": "content_filter", "message": "filtered"}}
                rows.append({"custom_id": row["custom_id"], "response": {"status_code": 400, "body": body}})
            elif kind == "err" and fate == "expired":
                error = {"code": "batch_expired", "message": "not done in 24 hours"}
                rows.append({"custom_id": row["custom_id"], "response": None, "error": error})
        return self._lines(rows)

    def _claude_results(self, number: int, answer: Answer) -> Reply:
        rows = []
        for row in self.created[number]:
            fate = self.fates.get(row["params"]["messages"][-1]["content"])
            result: dict[str, Any] = {"type": fate or "succeeded"}
            if fate is None:
                result["message"] = json.loads(answer(row["params"])[2])
            elif fate == "errored":
                result["error"] = {"type": "error", "error": {"type": "invalid_request", "message": "no such thing"}}
            rows.append({"custom_id": row["custom_id"], "result": result})
        return self._lines(rows)

    def _lines(self, rows: list[dict[str, Any]]) -> Reply:
        # The order of answers is not that of requests.
        lines = [json.dumps(row).encode() for row in reversed(rows)]
        if self.spoiled:
            lines[0] = lines[0][:20]
        return 200, JSON, b"\n".join(lines) + b"\n"
