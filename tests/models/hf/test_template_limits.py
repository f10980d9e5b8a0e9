"""Chat templates that never end, or would fill the memory, are stopped."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from lmassay.models.hf import template_limits
from lmassay.models.hf.template_limits import (
    EndlessTemplateError,
    limited_memory,
    limited_steps,
    refuse_huge_multiplications,
)


def loop_for_ever() -> None:
    while True:
        time.monotonic()


def stopped_after(seconds: float) -> float:
    """Return the computing time after which an endless loop was stopped."""
    start = time.thread_time()
    with pytest.raises(EndlessTemplateError, match="did not end after"), limited_steps(seconds):
        loop_for_ever()
    return time.thread_time() - start


def test_an_endless_loop_is_stopped():
    assert 0.1 <= stopped_after(0.1) < 1.0


def test_an_endless_loop_is_stopped_in_a_thread():
    durations: list[float] = []
    thread = threading.Thread(target=lambda: durations.append(stopped_after(0.1)))
    thread.start()
    thread.join(timeout=60)
    assert durations


def test_an_endless_loop_is_stopped_in_a_worker_process():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as workers:
        assert workers.submit(stopped_after, 0.1).result(timeout=120) < 1.0


def test_tracing_goes_on_as_before():
    before = sys.gettrace()
    with limited_steps(10.0):
        pass
    assert sys.gettrace() is before


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10**10 }}",
        "{% set x = 2 ** n %}",
        "{{ 'a' * 1000000000 }}",
        "{% for i in range(10**12) %}{% endfor %}",
        "{{ '%}' * 1000000000 }}",
        "{{ [{1: {}}] | string * 1000000000 }}",
        "{# {{ ' #}{{ 'a' * 1000000000 }}",
        "{% raw %}{{ ' {% endraw %}{{ 2 ** n }}",
        "{{ 'a string without an end ** 2",
        "{{ 'a' * 1_000_000_000 }}",
        "{{ 0x3B9ACA00 * 'a' }}",
        {"default": "{{ 'a' * 1000000000 }}", "rag": "{{ messages }}"},
    ],
)
def test_huge_products_are_refused(template):
    with pytest.raises(EndlessTemplateError, match="huge number"):
        refuse_huge_multiplications(template)


@pytest.mark.parametrize(
    "template",
    [
        "**Note**: {{ messages[0]['content'] }}",
        "{{ '**' + x }}",
        "{{ ' ' * 4 }}",
        "{{ 0.123456 * width }}",
        "{{ column_100000 * 2 }}",
        "{# 2 ** 3 #}",
        "{%- raw -%} {{ 2 ** 3 }} {%- endraw -%} **Note**",
        "{{ {'a': {}} }} ** {{ x",
        None,
        [{"name": "x"}],
        {"default": "{{ messages }}", "rag": "{{ 'a' * 1000000000 }}"},
    ],
)
def test_other_templates_are_not(template):
    refuse_huge_multiplications(template)


def test_looking_for_huge_products_ends_in_a_long_template():
    """Hours, if the search began again at every character; the limit is only there to end the test."""
    program = (
        "from lmassay.models.hf.template_limits import refuse_huge_multiplications\n"
        "for part in ('{{', '{%', \"{{ '\" + r\"\\'\" * 1_000_000, '{{ ' + '1' * 1_000_000 + ' }}'):\n"
        "    refuse_huge_multiplications(part * (1 if len(part) > 2 else 1_000_000))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=120, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- memory -----------------------------------------------------------------------------------------------------------

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no limit on memory")
MEGABYTES = 64


def doubled_text(doublings: int) -> int:
    text = "a" * 1024
    for _ in range(doublings):
        text += text
    return len(text)


@only_linux
def test_a_text_that_is_doubled_for_ever_is_stopped():
    with pytest.raises(EndlessTemplateError, match="more than 64 MB of memory"), limited_memory(MEGABYTES):
        doubled_text(40)


@only_linux
def test_a_single_step_that_would_fill_the_memory_is_stopped():
    text = "a" * 100_000
    with pytest.raises(EndlessTemplateError, match="more than 64 MB of memory"), limited_memory(MEGABYTES):
        text.replace("a", text)


@only_linux
def test_the_limit_ends_with_the_last_thread_that_needs_it():
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    inside, done = threading.Event(), threading.Event()

    def wait_inside() -> None:
        with limited_memory(MEGABYTES):
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=wait_inside)
    thread.start()
    inside.wait(60)
    with pytest.raises(EndlessTemplateError), limited_memory(MEGABYTES):
        doubled_text(40)
    assert resource.getrlimit(resource.RLIMIT_DATA) != before
    done.set()
    thread.join(60)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert doubled_text(17) > MEGABYTES << 20


def test_what_needs_little_memory_is_not_stopped():
    with limited_memory(MEGABYTES):
        assert doubled_text(4) == 16 * 1024


@only_linux
def test_a_limit_that_could_not_be_set_is_set_the_next_time(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(template_limits, "_memory_in_use", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError), limited_memory(MEGABYTES):
            pass
    with pytest.raises(EndlessTemplateError), limited_memory(MEGABYTES):
        # Large enough that freed memory of this process cannot hold it.
        doubled_text(26)
