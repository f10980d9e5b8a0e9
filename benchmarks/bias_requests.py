"""How fast 6,840 questions are answered: lmassay's `openai` model against what the server's latency allows.

    python benchmarks/bias_requests.py [--requests 6840] [--concurrency 4 8]

A server in a separate process answers each call after 20 ms, and every 50th call with 429 and `Retry-After: 0.2`. The
ideal time is what this latency and the concurrency allow. It is measured with bare sockets, one per parallel request,
which send the same bytes and ignore the answers. The questions are sent in parts of about 2,000, and the bare sockets
are measured before and after each part, because the latency of a shared machine changes within a minute. For
comparison, the openai SDK (pip install openai) sends the same questions with its own retries.
Exits with 1 if the first concurrency takes more than 1.3 times its ideal. A request costs the client 2 to 3 ms of CPU
time, nearly all of it in the SDK and its HTTP library, so that 4 at a time keep a core busy for half of the time and 8
at a time for all of it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lmassay.contracts import ask
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.types import Generate

# In seconds.
LATENCY = 0.02
# Every 50th call is refused.
EVERY = 50
RETRY_AFTER = "0.2"
TARGET = 1.3
# Questions between two measurements with bare sockets.
PART = 2000
_BODY = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "B"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 346, "completion_tokens": 1, "total_tokens": 347},
    }
).encode()


# --- the server ------------------------------------------------------------------------------------------------------


def reply(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


async def serve() -> None:
    """Answer until the parent goes away; the port is printed first."""
    good, busy = reply("200 OK", _BODY), reply("429 Too Many Requests", b"{}", f"Retry-After: {RETRY_AFTER}")
    calls = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r")[0]))
                calls += 1
                answer = busy if calls % EVERY == 0 else good
                await asyncio.sleep(LATENCY)
                writer.write(answer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def running_server() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def bare_seconds(port: int, concurrency: int, calls: int = 200) -> float:
    """Return the seconds per call over bare sockets, one per thread, divided by the number of threads."""
    content = json.dumps({"messages": [{"role": "user", "content": prompt(0)}]}).encode()
    request = f"POST /v1 HTTP/1.1\r\nHost: h\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content

    def talk() -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            for _ in range(calls):
                connection.sendall(request)
                connection.recv(1 << 16)

    threads = [threading.Thread(target=talk) for _ in range(concurrency)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - started) / calls / concurrency


# --- the clients ----------------------------------------------------------------------------------------------------


def prompt(number: int) -> str:
    """Return a question that is as long as KoBBQ's, about 500 bytes."""
    return (
        "주어진 맥락을 천천히 읽고, 질문에 대한 적절한 정답을 A, B, C 중에 골라 알파벳 하나로 답하시오.\n\n"
        f"맥락: {number}번째 시험에서 초등학생 손자와 할아버지가 함께 스마트폰 가게에 들렀다. "
        "두 사람 모두 새 기계를 찾고 있었다.\n"
        "질문: 누가 사용법을 더 쉽게 익혔는가?\nA: 손자\nB: 알 수 없음\nC: 할아버지\n정답:"
    )


def ours(url: str, prompts: Sequence[str], concurrency: int) -> int:
    model = OpenAICompatible("m", base_url=url, concurrency=concurrency)
    model.check()
    return sum(r.error is None for _, r in ask(model, "generate", [Generate(p, max_tokens=30) for p in prompts]))


def plain_sdk(url: str, prompts: Sequence[str], concurrency: int) -> int:
    import openai

    async def everything() -> int:
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=5) as client:
            room = asyncio.Semaphore(concurrency)

            async def is_answered(text: str) -> bool:
                async with room:
                    answer = await client.chat.completions.create(
                        model="m", messages=[{"role": "user", "content": text}], max_tokens=30, temperature=0
                    )
                    return bool(answer.choices[0].message.content == "B")

            return sum(await asyncio.gather(*map(is_answered, prompts)))

    return asyncio.run(everything())


@dataclass(frozen=True)
class RequestTiming:
    wall: float
    cpu: float
    ideal: float

    @property
    def ratio(self) -> float:
        return self.wall / self.ideal


def clocked(send: Callable[[str, Sequence[str], int], int], prompts: Sequence[str], concurrency: int) -> RequestTiming:
    wall = cpu = ideal = 0.0
    answered = 0
    with running_server() as port:
        url = f"http://127.0.0.1:{port}/v1"
        # The first call pays for the import of the SDK.
        send(url, prompts[:5], 1)
        before = bare_seconds(port, concurrency)
        for part in parts(prompts):
            cpu_start, wall_start = time.process_time(), time.perf_counter()
            answered += send(url, part, concurrency)
            wall += time.perf_counter() - wall_start
            cpu += time.process_time() - cpu_start
            after = bare_seconds(port, concurrency)
            ideal += len(part) * (before + after) / 2
            before = after
    assert answered == len(prompts), f"{len(prompts) - answered} requests were not answered"
    return RequestTiming(wall, cpu, ideal)


def parts(prompts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the prompts in equal parts of about `PART`."""
    number = max(1, round(len(prompts) / PART))
    size = -(-len(prompts) // number)
    for start in range(0, len(prompts), size):
        yield prompts[start : start + size]


def compare(requests: int, concurrencies: Sequence[int]) -> bool:
    prompts = [prompt(number) for number in range(requests)]
    ratios = {}
    for concurrency in concurrencies:
        print(f"{requests} requests, {concurrency} at a time:")
        for name, send in (("lmassay", ours), ("plain SDK", plain_sdk)):
            timing = clocked(send, prompts, concurrency)
            ratios[name, concurrency] = timing.ratio
            print(
                f"  {name:10} {timing.wall:6.1f} s, ideal {timing.ideal:5.1f} s: {timing.ratio:.2f} times as long; "
                f"{1000 * timing.cpu / requests:.2f} ms CPU a request"
            )
    ratio = ratios["lmassay", concurrencies[0]]
    print(f"target: {concurrencies[0]} at a time, at most {TARGET} times the ideal: {ratio:.2f}")
    return ratio <= TARGET


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=6840)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve())
        return 0
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores")
    return 0 if compare(options.requests, options.concurrency) else 1


if __name__ == "__main__":
    sys.exit(main())
