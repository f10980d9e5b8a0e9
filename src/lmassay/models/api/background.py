"""Run asynchronous work in a separate thread, and yield its results from an ordinary generator."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Maximum number of seconds of one wait for the queue. Without it, Ctrl-C would not end the wait on every platform.
_POLL_INTERVAL = 0.5
# How many seconds the work has to finish after it was cancelled.
_STOP_TIMEOUT = 10


class ResultQueue(Generic[T]):
    """Carries results from the event loop to the thread that consumes them.

    The work may set ``taken`` to a callback. It is called in the event loop with each result that the consumer has
    finished with, that is, when the consumer asks for the next result.
    """

    def __init__(self) -> None:
        # An exception is raised in the consumer; None marks the end.
        self.items: queue.SimpleQueue[T | BaseException | None] = queue.SimpleQueue()
        self.taken: Callable[[T], None] = _ignore

    def put(self, item: T) -> None:
        """Hand a result to the consumer."""
        self.items.put(item)


def _ignore(item: Any) -> None:
    """The default callback, for work that does not need to know when a result was taken."""


Work = Callable[[ResultQueue[T]], Coroutine[Any, Any, None]]


def in_background(work: Work[T]) -> Iterator[T]:
    """Run ``work`` in another thread and yield its results as they come.

    Closing the generator, as Ctrl-C does, cancels the work.
    """
    thread = _LoopThread(work)
    try:
        yield from thread.results()
    finally:
        thread.stop()


class _LoopThread(Generic[T]):
    """A thread with an event loop that runs one piece of work."""

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self._queue: ResultQueue[T] = ResultQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="lmassay-requests")
        self._thread.start()
        self._started.wait()

    def results(self) -> Iterator[T]:
        while True:
            try:
                item = self._queue.items.get(timeout=_POLL_INTERVAL)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
            # The consumer asks for the next result: only now is this one safely stored.
            self._call_in_loop(self._queue.taken, item)

    def stop(self) -> None:
        if self._task is not None:
            self._call_in_loop(self._task.cancel)
        self._thread.join(timeout=_STOP_TIMEOUT)

    def _call_in_loop(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the thread of the event loop."""
        if self._loop is None:
            return
        # The loop may have ended by itself, and then refuses callbacks.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _run(self) -> None:
        """Run the event loop until the work has ended. This is what the thread executes."""
        try:
            asyncio.run(self._main())
            self._queue.items.put(None)
        except asyncio.CancelledError:
            self._queue.items.put(None)
        except BaseException as error:
            # Raised again in the thread that waits for results.
            self._queue.items.put(error)
        finally:
            # Also if the loop never started: the constructor must not wait forever.
            self._started.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._started.set()
        await self._work(self._queue)
