"""A real llama.cpp server on loopback, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# One thread for both settings: on a busy machine, several wait for each other in loops.
_PROGRAM = """
import sys
import xllamacpp

settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.hostnames, settings.port = ["127.0.0.1"], 0
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = settings.n_threads_http = 1
settings.n_ctx, settings.n_parallel, settings.warmup = 4096, 2, False
server = xllamacpp.Server(settings)
print("listening on", server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def llama_server(gguf: Path, log: Path) -> Iterator[str]:
    """Serve a GGUF file until the block ends; the base URL of its OpenAI-compatible API."""
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(gguf)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream
        )
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if line.startswith(b"listening on "):
                yield f"{line.decode().split()[-1]}/v1"
                return
        raise AssertionError(f"llama.cpp did not start: {log.read_text(errors='replace')[-2000:]}")
    finally:
        server.kill()
        server.communicate()
