"""Chat templates that never end, or would fill the memory, are stopped."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from lmassay.models.hf.template_limits import EndlessTemplateError, limited_steps, refuse_huge_products


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
    import sys

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
    ],
)
def test_huge_products_are_refused(template):
    with pytest.raises(EndlessTemplateError, match="huge number"):
        refuse_huge_products(template)


@pytest.mark.parametrize(
    "template", ["**Note**: {{ messages[0]['content'] }}", "{{ '**' + x }}", "{{ ' ' * 4 }}", None, [{"name": "x"}]]
)
def test_other_templates_are_not(template):
    refuse_huge_products(template)
