"""Async work behind an ordinary generator: the event loop lives in a thread of its own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ResultQueue(Generic[T]):
    """Where the work puts what it has; ``taken`` is called, in the loop, when the reader has dealt with an item."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[T | BaseException | None] = queue.SimpleQueue()
        self.taken: Callable[[T], None] = lambda item: None

    def put(self, item: T) -> None:
        self._items.put(item)


Work = Callable[[ResultQueue[T]], Coroutine[Any, Any, None]]


def in_background(work: Work[T]) -> Iterator[T]:
    """Run ``work`` and yield what it puts, as it comes. Closing the generator, as Ctrl-C does, cancels the work."""
    thread = _Thread(work)
    try:
        yield from thread.items()
    finally:
        thread.stop()


class _Thread(Generic[T]):
    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self._outbox: ResultQueue[T] = ResultQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="lmassay-requests")
        self._thread.start()
        self._started.wait()

    def items(self) -> Iterator[T]:
        while True:
            try:
                # A bounded wait lets Ctrl-C through on every platform.
                item = self._outbox._items.get(timeout=0.5)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
            # The reader came back for more: now, and not before, this item is safe.
            self._call(self._outbox.taken, item)

    def stop(self) -> None:
        if self._task is not None:
            self._call(self._task.cancel)
        self._thread.join(timeout=10)

    def _call(self, what: Callable[..., object], *arguments: Any) -> None:
        # The loop may have come to its end by itself.
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(what, *arguments)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
            self._outbox._items.put(None)
        except asyncio.CancelledError:
            self._outbox._items.put(None)
        except BaseException as error:  # handed to the thread that waits for it
            self._outbox._items.put(error)
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._started.set()
        await self._work(self._outbox)
