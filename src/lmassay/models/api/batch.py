"""Batch mode: requests are submitted in bulk, and the responses are fetched when the provider has them.

Every open batch is recorded in a file before lmassay waits for it, so that a crash loses none of them.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lmassay.budget import Budget, Prices
from lmassay.errors import BudgetReached, FatalModelError, ModelError
from lmassay.models.api.background import ResultQueue, in_background
from lmassay.models.api.batch_services import BatchResult, BatchService
from lmassay.models.api.client import Client
from lmassay.models.api.concurrency import IndexedResponse, RequestPolicy, with_tries
from lmassay.models.api.dialects import Dialect
from lmassay.models.api.failures import ErrorInAnswerError, Failure, failure_of
from lmassay.storage.files import atomic_write
from lmassay.types import Generate, Response, digest, request_as_dict

T = TypeVar("T")

# Seconds for one call, unless the user's timeout is longer. A call may send or receive hundreds of megabytes.
_TIMEOUT = 600.0
_NO_RESULTS = "the provider no longer has the results of this batch"
# Seconds after which a record is deleted. Providers keep the results of a batch for about a month.
_RECORD_LIFETIME = 31 * 86_400.0
# The names of the files of the two kinds of records, OpenBatch and BatchIntent, begin with these.
_OPEN_PREFIX = "batch-"
_INTENT_PREFIX = "intent-"


# --- records of open batches ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch at the provider: its id, and the ids of its requests that are not yet answered."""

    batch: str
    requests: tuple[str, ...]
    noted: float = 0.0
    """When it was first recorded, in seconds since 1970; 0 if it was not recorded yet."""


@dataclass(frozen=True, slots=True)
class BatchIntent:
    """A batch that is about to be created. After a crash, its record shows that the provider may have created it."""

    mark: str
    """Identifies the batch at the provider, see :meth:`BatchService.mark`; may be empty."""
    requests: tuple[str, ...]
    noted: float = 0.0
    """When it was recorded, in seconds since 1970; 0 if it was not recorded yet."""


class Ledger:
    """Keeps a record of each batch in a small file, which contains neither prompts nor API keys.

    Without a folder, nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def check(self) -> None:
        """Raise an error if no file can be written: a batch that cannot be recorded must not be paid for."""
        if self._folder is None:
            return
        trial = self._folder / f"{_OPEN_PREFIX}trial"
        with atomic_write(trial) as stream:
            stream.write("{}")
        trial.unlink(missing_ok=True)

    def record(self, entry: OpenBatch) -> None:
        """Record an open batch, or update the record after some of its requests were answered."""
        if self._folder is None:
            return
        row = {"batch": entry.batch, "requests": entry.requests, "noted": entry.noted or time.time()}
        with atomic_write(self._path(entry.batch)) as stream:
            json.dump(row, stream)

    def forget(self, batch: str) -> None:
        """Delete the record of the open batch with this id."""
        if self._folder is not None:
            self._path(batch).unlink(missing_ok=True)

    def open_batches_with(self, requests: Collection[str]) -> list[OpenBatch]:
        """The open batches that contain at least one of these requests, given by their ids."""
        wanted = set(requests)
        entries = []
        for row in self._rows(_OPEN_PREFIX):
            entry = _open_batch(row)
            if entry is not None and not wanted.isdisjoint(entry.requests):
                entries.append(entry)
        return entries

    def record_intent(self, intent: BatchIntent) -> None:
        """Record that a batch is about to be created, in case the process ends before its id arrives."""
        path = self.path_of(intent)
        if path is None:
            return
        row = {"mark": intent.mark, "requests": intent.requests, "noted": intent.noted or time.time()}
        with atomic_write(path) as stream:
            json.dump(row, stream)

    def forget_intent(self, intent: BatchIntent) -> None:
        """Delete the record of an intent when it is known whether the batch was created."""
        path = self.path_of(intent)
        if path is not None:
            path.unlink(missing_ok=True)

    def path_of(self, intent: BatchIntent) -> Path | None:
        """The file with the record of an intent; None without a folder."""
        if self._folder is None:
            return None
        return self._folder / f"{_INTENT_PREFIX}{digest(intent.mark, list(intent.requests))[:16]}.json"

    def intents_with(self, requests: Collection[str]) -> list[BatchIntent]:
        """Intents with at least one of these requests: it is unknown whether their batches were created."""
        wanted = set(requests)
        intents = []
        for row in self._rows(_INTENT_PREFIX):
            intent = _intent(row)
            if intent is not None and not wanted.isdisjoint(intent.requests):
                intents.append(intent)
        return intents

    def _rows(self, prefix: str) -> Iterator[dict[str, Any]]:
        """The contents of all records whose file names begin with ``prefix``.

        Expired records are deleted. A file that cannot be parsed is kept, and yielded as an empty record.
        """
        if self._folder is None or not self._folder.is_dir():
            return
        for path in sorted(self._folder.glob(f"{prefix}*.json")):
            row = _read_record(path)
            noted = row.get("noted")
            if isinstance(noted, int | float) and noted + _RECORD_LIFETIME < time.time():
                path.unlink(missing_ok=True)
            else:
                yield row

    def _path(self, batch: str) -> Path:
        # The provider chooses the id, which may contain anything; its hash is a safe file name everywhere.
        assert self._folder is not None
        return self._folder / f"{_OPEN_PREFIX}{digest(batch)[:16]}.json"


def _read_record(path: Path) -> dict[str, Any]:
    """Read the record of a batch; empty if it cannot be parsed or no longer exists.

    Raises a FatalModelError if the file exists but cannot be opened: its batch may have been paid for.
    """
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        # Another process has deleted it.
        return {}
    except OSError as error:
        raise FatalModelError(
            f"cannot read {path}: {error.strerror or error}; it may describe a batch that was paid for: make the file "
            "readable, or delete it"
        ) from None
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _open_batch(row: dict[str, Any]) -> OpenBatch | None:
    try:
        return OpenBatch(str(row["batch"]), tuple(map(str, row["requests"])), float(row["noted"]))
    except (ValueError, LookupError, TypeError):
        return None


def _intent(row: dict[str, Any]) -> BatchIntent | None:
    try:
        return BatchIntent(str(row["mark"]), tuple(map(str, row["requests"])), float(row["noted"]))
    except (ValueError, LookupError, TypeError):
        return None


# --- submitting and fetching ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How requests are sent in batches: the provider, and the user's settings."""

    service: BatchService
    dialect: Dialect
    policy: RequestPolicy
    ledger: Ledger
    identity: Mapping[str, object]
    """The identity of the model, which is part of the ids of requests."""
    poll: float
    """Seconds between two requests for the status of a batch."""
    batch_size: int
    """The maximum number of requests per batch; 0 means as many as the provider accepts."""
    budget: Budget | None = None
    prices: Prices | None = None
    """Prices in a batch; without them, only a limit in tokens can be checked in advance."""


def answers_by_batch(
    connect: Callable[[], AbstractAsyncContextManager[Client]], requests: Sequence[Generate], options: BatchOptions
) -> Iterator[IndexedResponse]:
    """Submit all requests in batches; yield (index, response) when a batch has ended.

    An earlier attempt at the same requests may have ended before its batches did. The answers of those batches are used
    instead of sending their requests again, so that no request is paid for twice.

    Raises BudgetReached, after all other answers, if the budget does not allow all requests; a FatalModelError if the
    provider refuses a call, or if it is unknown whether it has created a batch.
    """

    async def work(results: ResultQueue[IndexedResponse]) -> None:
        async with connect() as client:
            await _BatchRun(client, requests, options, results).work()

    return in_background(work)


class _BatchRun:
    """One call of :func:`answers_by_batch`; all of its methods run in the event loop."""

    def __init__(
        self, client: Client, requests: Sequence[Generate], options: BatchOptions, results: ResultQueue[IndexedResponse]
    ) -> None:
        self._client = client
        self._requests = requests
        self._options = options
        self._results = results
        self._index_of = custom_ids(requests, options.identity)
        self._id_at = {index: custom_id for custom_id, index in self._index_of.items()}
        # The ids of requests that have no answer yet.
        self._unanswered = set(self._index_of)
        # The ids of requests whose answer the consumer has not taken, and thereby stored, yet.
        self._untaken = set(self._index_of)
        self._all_taken = asyncio.Event()
        results.taken = self._on_taken

    async def work(self) -> None:
        """Submit the requests that no open batch contains, and collect the answers of all batches."""
        entries = await self._batches_left_behind()
        submitted_earlier: set[str] = set()
        for entry in entries:
            submitted_earlier.update(entry.requests)
        remaining = [custom_id for custom_id in self._index_of if custom_id not in submitted_earlier]
        awaited = submitted_earlier & self._index_of.keys()
        affordable = self._count_affordable(remaining, awaited)
        # Requests that the budget does not allow get no answer that the consumer could take.
        self._untaken -= set(remaining[affordable:])
        try:
            if affordable:
                self._options.ledger.check()
            for part in self._parts(remaining[:affordable]):
                entries.append(await self._submit(part))
            await asyncio.gather(*(self._collect(entry) for entry in entries))
            # A batch is forgotten when the consumer has stored its answers, not when they were fetched.
            while self._untaken:
                await self._all_taken.wait()
        finally:
            for entry in entries:
                self._settle(entry)
        if affordable < len(remaining):
            assert self._options.budget is not None
            message = f"the budget does not allow another batch: {self._options.budget.describe()} already spent"
            if awaited:
                # The budget was checked before the responses to `awaited` arrived. These are usually shorter, so
                # another attempt may be able to afford more.
                message += " (batches that were still open counted with the longest possible responses)"
            raise BudgetReached(message)

    async def _batches_left_behind(self) -> list[OpenBatch]:
        """Open batches of earlier attempts that contain requests of this call.

        The records of batches that the provider has deleted are deleted, too.
        """
        ledger = self._options.ledger
        entries = []
        for entry in ledger.open_batches_with(self._index_of):
            try:
                await self._with_retries(partial(self._options.service.state, self._client, entry.batch))
            except _GoneError:
                ledger.forget(entry.batch)
            else:
                entries.append(entry)
        for intent in ledger.intents_with(self._index_of):
            # If a process ended after it recorded the open batch and before it deleted the intent, both records exist.
            is_open = any(set(intent.requests) <= set(entry.requests) for entry in entries)
            if not is_open:
                created = await self._created_by(intent)
                if created is not None:
                    entries.append(created)
            ledger.forget_intent(intent)
        return entries

    async def _created_by(self, intent: BatchIntent) -> OpenBatch | None:
        """The batch that an earlier attempt was about to create when it ended, if it did create it."""
        try:
            batch = await self._with_retries(partial(self._options.service.find, self._client, intent.mark))
        except FatalModelError as error:
            raise self._uncertain(str(error), intent) from None
        if batch is None:
            return None
        entry = OpenBatch(batch, intent.requests)
        self._options.ledger.record(entry)
        return entry

    def _uncertain(self, reason: str, intent: BatchIntent) -> FatalModelError:
        """The error for a batch of which only the provider knows whether it exists."""
        advice = "it is unknown whether the provider accepted the batch; check there before you start again"
        path = self._options.ledger.path_of(intent)
        if path is not None:
            advice += f", and delete {path} to send its requests again"
        return FatalModelError(f"{reason}; {advice}")

    def _parts(self, ids: Sequence[str]) -> Iterator[list[str]]:
        """Split requests, given by their ids, into parts that the provider accepts as one batch each."""
        service = self._options.service
        max_requests = min(self._options.batch_size or service.max_requests, service.max_requests)
        part: list[str] = []
        size = 0
        for custom_id in ids:
            # One byte for the line break or comma between requests.
            length = len(self._line_of(custom_id)) + 1
            if part and (len(part) >= max_requests or size + length > service.max_bytes):
                yield part
                part = []
                size = 0
            part.append(custom_id)
            size += length
        if part:
            yield part

    def _line_of(self, custom_id: str) -> bytes:
        request = self._requests[self._index_of[custom_id]]
        return self._options.service.line(custom_id, self._options.dialect.body(request))

    async def _submit(self, part: Sequence[str]) -> OpenBatch:
        """Create a batch at the provider, and record it."""
        service = self._options.service
        ledger = self._options.ledger
        lines = [self._line_of(custom_id) for custom_id in part]
        payload = await self._with_retries(partial(service.prepare, self._client, lines))
        # If the process ends between here and `record`, the intent shows that there may be a batch.
        intent = BatchIntent(service.mark(payload), tuple(part))
        ledger.record_intent(intent)
        try:
            batch = await self._with_retries(partial(service.create, self._client, payload), costs_money=True)
        except _MaybeCreatedError as error:
            raise self._uncertain(str(error), intent) from None
        except FatalModelError:
            ledger.forget_intent(intent)
            raise
        entry = OpenBatch(batch, tuple(part))
        ledger.record(entry)
        ledger.forget_intent(intent)
        return entry

    async def _collect(self, entry: OpenBatch) -> None:
        """Wait for a batch to end, and pass its answers to the consumer."""
        service = self._options.service
        get_status = partial(service.state, self._client, entry.batch)
        status = await self._with_retries(get_status)
        while not status.ended:
            await asyncio.sleep(self._options.poll)
            status = await self._with_retries(get_status)
        reason = status.reason
        for path in status.files:
            try:
                raw = await self._with_retries(partial(self._client.get, path))
            except _GoneError:
                reason = reason or _NO_RESULTS
                continue
            for custom_id, result in service.results(raw):
                self._put(custom_id, result)
        # `_put` ignores requests that have an answer, so only the others fail.
        for custom_id in entry.requests:
            self._put(custom_id, Failure(reason or "the batch gave no answer to this request"))

    def _put(self, custom_id: str, result: BatchResult) -> None:
        """Pass the response to a request to the consumer, unless it already has one."""
        if custom_id not in self._unanswered:
            return
        self._unanswered.discard(custom_id)
        index = self._index_of[custom_id]
        self._results.put((index, self._read(self._requests[index], result)))

    def _read(self, request: Generate, result: BatchResult) -> Response:
        """The response to a request, read from its result in the batch."""
        if isinstance(result, Failure):
            if result.finish:
                return Response(finish=result.finish)
            return Response(error=result.message)
        try:
            return self._options.dialect.read(request, result, None)
        except ErrorInAnswerError as error:
            return self._read(request, error.failure)
        except ModelError as error:
            return Response(error=str(error))

    def _on_taken(self, answered: IndexedResponse) -> None:
        index, _ = answered
        self._untaken.discard(self._id_at[index])
        if not self._untaken:
            self._all_taken.set()

    def _settle(self, entry: OpenBatch) -> None:
        """Update the record of a batch: only requests whose answers are not stored stay in it.

        If all answers are stored, the record is deleted.
        """
        # Requests that are not part of this call stay as well: their answers have not been stored.
        unstored: list[str] = []
        for custom_id in entry.requests:
            if custom_id not in self._index_of or custom_id in self._untaken:
                unstored.append(custom_id)
        if not unstored:
            self._options.ledger.forget(entry.batch)
        elif tuple(unstored) != entry.requests:
            self._options.ledger.record(OpenBatch(entry.batch, tuple(unstored), entry.noted))

    async def _with_retries(self, call: Callable[[], Awaitable[T]], *, costs_money: bool = False) -> T:
        """Call the provider and retry temporary failures a limited number of times.

        A call that costs money is repeated only if the provider certainly did not accept it.
        """
        policy = self._options.policy
        clock = asyncio.get_running_loop().time
        tries = 0
        # For a busy server, the time is limited and not the number of attempts: these do not count towards `tries`.
        busy_tries = 0
        busy_since = math.inf
        while True:
            tries += 1
            try:
                async with asyncio.timeout(max(_TIMEOUT, policy.timeout)):
                    return await call()
            except Exception as error:
                failure = failure_of(error)
                if failure is None:
                    raise
            if failure.status == 404:
                raise _GoneError(failure.message)
            if failure.busy:
                busy_tries += 1
                busy_since = min(busy_since, clock())
                pause = policy.pause(failure, tries, busy_for=clock() - busy_since)
            else:
                pause = policy.pause(failure, tries, uncounted=busy_tries)
            if costs_money and not _was_surely_rejected(failure):
                raise _MaybeCreatedError(failure.message)
            if pause is None:
                raise FatalModelError(with_tries(failure, tries))
            # The pause may be 0. A second is short for a batch; `poll` is shorter only if the user wants that.
            await asyncio.sleep(max(pause, min(self._options.poll, 1.0)))

    def _count_affordable(self, ids: Sequence[str], awaited: Collection[str]) -> int:
        """How many of these requests fit into the budget, even if each response has the maximum length.

        The budget does not yet contain the responses to ``awaited``, which an earlier attempt has submitted.
        """
        budget = self._options.budget
        if budget is None:
            return len(ids)
        usd = budget.spent_usd
        tokens = budget.spent_tokens
        for custom_id in awaited:
            usage = self._maximum_usage(custom_id)
            usd += usage.usd
            tokens += usage.tokens
        for count, custom_id in enumerate(ids):
            usage = self._maximum_usage(custom_id)
            usd += usage.usd
            tokens += usage.tokens
            if budget.usd is not None and usd > budget.usd:
                return count
            if budget.tokens is not None and tokens > budget.tokens:
                return count
        return len(ids)

    def _maximum_usage(self, custom_id: str) -> _MaximumUsage:
        """What a request uses if its response is as long as the request allows."""
        request = self._requests[self._index_of[custom_id]]
        prices = self._options.prices
        tokens_in = _upper_bound_of_tokens(self._options.dialect.body(request))
        usd = prices.of(tokens_in, request.max_tokens) if prices else 0.0
        return _MaximumUsage(tokens_in + request.max_tokens, usd)


@dataclass(frozen=True, slots=True)
class _MaximumUsage:
    """What a request uses at most."""

    tokens: int
    usd: float
    """0 if prices are not known."""


def _upper_bound_of_tokens(body: Mapping[str, Any]) -> int:
    # In all common tokenizers, a token is at least two bytes long on average.
    return len(json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")) // 2


class _MaybeCreatedError(FatalModelError):
    """The provider was asked to create a batch, and it is unknown whether it did."""


class _GoneError(FatalModelError):
    """The provider no longer has the batch or its results."""


def _was_surely_rejected(failure: Failure) -> bool:
    """Whether the provider certainly did not accept a call.

    After a time-out or a server error (5xx), it may have accepted the call, unless it said that it is too busy (503,
    529).
    """
    if failure.busy or failure.unreachable:
        return True
    if failure.status is None or failure.retryable:
        return False
    return 300 <= failure.status < 500


def custom_ids(requests: Sequence[Generate], identity: Mapping[str, object]) -> dict[str, int]:
    """A dict from the id of each request to its index in ``requests``.

    A request gets the same id in every attempt at the run, which is how a resumed run finds its batches. With a
    temperature above 0, equal requests are different random draws, so the number of the draw is part of the id.
    """
    occurrences: Counter[str] = Counter()
    index_of = {}
    for index, request in enumerate(requests):
        # At temperature 0 all draws are the same, so the draw is not part of the id.
        draw = [request.draw] if request.temperature > 0 else []
        key = digest(dict(identity), request_as_dict(request), *draw)[:32]
        occurrences[key] += 1
        if occurrences[key] > 1:
            key = f"{key}-{occurrences[key]}"
        index_of[key] = index
    return index_of
