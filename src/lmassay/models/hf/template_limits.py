"""Limits for chat templates, which are programs that come with a model.

transformers runs them in a sandbox: they cannot open files or use internal attributes of objects, and a ``range`` has
at most 100,000 numbers. Loops inside loops can still run for years, and a text that is doubled a few dozen times fills
the memory.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

_START_OF_TAG = re.compile(r"\{[{%#]")
_END_OF_RAW = re.compile(r"\{%[-+]?\s*endraw\b")
# A piece of the code inside a tag: a string, a bracket, or the text between them. Each match begins where the previous
# one ended: a search that tries every character as a beginning would take hours in a long template.
_TOKEN = re.compile(
    r"(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<open>[\[({])|(?P<close>[\])}])|%|[^'\"\[\](){}%]+",
    re.DOTALL,
)
# A power, or a multiplication by a number of six characters or more. Templates of real models have neither. Jinja's
# numbers may contain underscores (1_000_000), and letters if they are hexadecimal (0xF4240).
_HUGE_MULTIPLICATION = re.compile(r"\*\*|\*\s*\d\w{5,}|(?<![\w.])\d\w{5,}\s*\*")


class EndlessTemplateError(Exception):
    """A template that does not end in time or would fill the memory."""


def refuse_huge_multiplications(template: Any) -> None:
    """Raise EndlessTemplateError if a template multiplies by a huge number, e.g. ``{{ "x" * 10000000000 }}``.

    Such a multiplication can fill the memory in a single step, which :func:`limited_steps` cannot interrupt: it checks
    the time only between lines of Python. ``template`` is the tokenizer's chat template, or a dict of named templates.

    The code of the template is searched, not run. Therefore powers (``**``) and numbers that are written out in the
    multiplication are recognised, but not a variable whose value is huge.
    """
    if isinstance(template, dict):
        # A tokenizer may have several templates; transformers uses this one for messages without tools.
        template = template.get("default")
    if isinstance(template, str) and _has_huge_multiplication(template):
        raise EndlessTemplateError("multiplies by a huge number")


# Cached, because the same template is checked again for every request.
@functools.lru_cache(maxsize=16)
def _has_huge_multiplication(template: str) -> bool:
    return any(_HUGE_MULTIPLICATION.search(tag) is not None for tag in _tags_in(template))


def _tags_in(template: str) -> Iterator[str]:
    """Yield the code of each tag, with every string replaced by ``''``. Comments and raw blocks are skipped."""
    start = _START_OF_TAG.search(template)
    while start is not None:
        kind = start[0]
        if kind == "{#":
            end = template.find("#}", start.end())
        else:
            code, end = _code_at(template, start.end(), "}}" if kind == "{{" else "%}")
            yield code
            if kind == "{%" and code.strip("-+ \t\n") == "raw":
                end_of_raw = _END_OF_RAW.search(template, end)
                end = -1 if end_of_raw is None else end_of_raw.end()
        if end < 0:
            return
        start = _START_OF_TAG.search(template, end)


def _code_at(template: str, position: int, end_of_tag: str) -> tuple[str, int]:
    """Return the code of a tag and where the tag ends.

    ``end_of_tag`` is ``}}`` or ``%}``. Inside brackets or a string, these characters do not end the tag.
    """
    code: list[str] = []
    depth = 0
    while depth or not template.startswith(end_of_tag, position):
        token = _TOKEN.match(template, position)
        if token is None:
            # A string without an end, or the end of the template. Jinja refuses both; the rest of the template is
            # treated as code of this tag.
            code.append(template[position:])
            return "".join(code), len(template)
        code.append("''" if token.lastgroup == "string" else token[0])
        if token.lastgroup == "open":
            depth += 1
        elif token.lastgroup == "close":
            depth = max(depth - 1, 0)
        position = token.end()
    return "".join(code), position + len(end_of_tag)


@contextmanager
def limited_steps(seconds: float) -> Iterator[None]:
    """Raise EndlessTemplateError in the code of a ``with`` block when it has computed for too long.

    The time is checked at each line of Python, so this works in all threads and processes and on all platforms, unlike
    signals. It is the computing time of the thread, because a busy machine must not change results.
    """
    end = time.thread_time() + seconds

    def check(frame: FrameType, event: str, argument: Any) -> Any:
        if time.thread_time() > end:
            raise EndlessTemplateError(f"did not end after {seconds:g} seconds")
        return check

    before = sys.gettrace()
    sys.settrace(check)
    try:
        yield
    finally:
        sys.settrace(before)


class _MemoryLimit:
    """The memory limit of the process. It is set by the first thread that enters and lifted by the last that leaves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limits_before = (0, 0)

    def enter(self, megabytes: int) -> None:
        import resource

        with self._lock:
            if self._users:
                self._users += 1
                return
            self._limits_before = resource.getrlimit(resource.RLIMIT_DATA)
            soft, hard = self._limits_before
            limit = _memory_in_use() + (megabytes << 20)
            for other in (soft, hard):
                if other != resource.RLIM_INFINITY:
                    limit = min(limit, other)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
            # This comes last: if setting the limit fails, no thread counts as having entered.
            self._users = 1

    def leave(self) -> None:
        import resource

        with self._lock:
            self._users -= 1
            if not self._users:
                resource.setrlimit(resource.RLIMIT_DATA, self._limits_before)


_STATUS = Path("/proc/self/status")
_memory_limit = _MemoryLimit()


def _memory_in_use() -> int:
    """Return how many of the bytes that the process uses count towards the limit."""
    (kilobytes,) = re.findall(r"^VmData:\s+(\d+) kB$", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
    return int(kilobytes) << 10


@contextmanager
def limited_memory(megabytes: int) -> Iterator[None]:
    """Raise EndlessTemplateError in a ``with`` block that needs more memory than this in addition to what is in use.

    A single step of a template can need any amount, so only the operating system can refuse it. Linux does; on other
    systems, only :func:`refuse_huge_multiplications` protects the memory, and it does not recognise every such step.

    Linux has such limits for processes, not for threads. Within the block, which takes about a millisecond, the other
    threads of the process are limited as well: if they need more than ``megabytes`` in addition, they fail with a
    MemoryError. lmassay computes in one thread per process, also on Dask workers, so this concerns only programs that
    call it in one of several threads and need gigabytes in another.
    """
    if not sys.platform.startswith("linux") or not _STATUS.exists():
        yield
        return
    _memory_limit.enter(megabytes)
    try:
        yield
    except MemoryError as error:
        raise EndlessTemplateError(f"needs more than {megabytes:,} MB of memory") from error
    finally:
        _memory_limit.leave()
