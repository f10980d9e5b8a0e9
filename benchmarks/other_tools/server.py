"""A server that answers chat requests, so that other tools can be tried without a model: see docs/comparison.md.

    python benchmarks/other_tools/server.py [--port 8377] [--seconds 0]

It speaks the chat protocol of OpenAI and repeats the last word of a question. If the request offers a tool, the server
calls the first one with a command for a shell, and then answers with what the tool returned. It counts the requests on
standard output.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_COMMAND = {"command": "expr 6 '*' 7"}


def main() -> None:
    """Serve until the process is stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8377)
    parser.add_argument("--seconds", type=float, default=0.0, help="how long an answer takes")
    arguments = parser.parse_args()
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            print(f"request {next(numbers)}", flush=True)
            time.sleep(arguments.seconds)
            body = json.dumps(completion(request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """The requests are counted, not logged."""

    print(f"http://127.0.0.1:{arguments.port}/v1", file=sys.stderr)
    ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler).serve_forever()


def completion(request: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a chat request."""
    message = answer(request["messages"][-1], request.get("tools") or [])
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def answer(last: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the message that follows the last one."""
    content = last["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    if last["role"] == "tool":
        return {"role": "assistant", "content": text}
    if tools:
        function = {"name": tools[0]["function"]["name"], "arguments": json.dumps(_COMMAND)}
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        }
    return {"role": "assistant", "content": text.split()[-1]}


if __name__ == "__main__":
    main()
