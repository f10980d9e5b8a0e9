"""Asking by batch: requests go out in bulk, the answers are fetched when the provider has them.

Which batches are open is noted before the waiting begins, so that a crash loses none of them.
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
from lmassay.models.api.batch_services import BatchService, Outcome
from lmassay.models.api.client import Client
from lmassay.models.api.concurrency import Answered, RequestPolicy, in_words
from lmassay.models.api.dialects import Dialect
from lmassay.models.api.failures import ErrorInAnswerError, Failure, failure_of
from lmassay.storage.files import atomic_write
from lmassay.types import Generate, Response, digest, request_as_dict

# Hundreds of megabytes may travel in one call.
_TIMEOUT = 600.0
_NO_RESULTS = "the provider no longer has the results of this batch"
T = TypeVar("T")
# Providers keep the results of a batch for about a month.
_NOTES_KEPT = 31 * 86_400.0
_OPEN = "batch-"
_INTENT = "intent-"


# --- notes of open batches --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """One batch: its id with the provider, and the ids of those of its requests that were not yet answered."""

    batch: str
    requests: tuple[str, ...]
    noted: float = 0.0


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that is about to be created: how to know it again at the provider's, and the ids of its requests."""

    mark: str
    requests: tuple[str, ...]
    noted: float = 0.0


class Ledger:
    """One small file a batch. Prompts and keys are not in it; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def check(self) -> None:
        """Raise unless notes can be taken: a batch that cannot be noted must not be paid for."""
        if self._folder is not None:
            trial = self._folder / f"{_OPEN}trial"
            with atomic_write(trial) as stream:
                stream.write("{}")
            trial.unlink(missing_ok=True)

    def note(self, entry: OpenBatch) -> None:
        """Write an entry, or what is left of it."""
        if self._folder is None:
            return
        with atomic_write(self._path(entry.batch)) as stream:
            json.dump({"batch": entry.batch, "requests": entry.requests, "noted": entry.noted or time.time()}, stream)

    def intend(self, intent: Intent) -> None:
        """Written before a batch is created, for the case that nobody is there to note the answer."""
        if (path := self.path_of(intent)) is not None:
            with atomic_write(path) as stream:
                row = {"mark": intent.mark, "requests": intent.requests, "noted": intent.noted or time.time()}
                json.dump(row, stream)

    def drop(self, intent: Intent) -> None:
        """It is known what became of it."""
        if (path := self.path_of(intent)) is not None:
            path.unlink(missing_ok=True)

    def path_of(self, intent: Intent) -> Path | None:
        name = f"{_INTENT}{digest(intent.mark, list(intent.requests))[:16]}.json"
        return None if self._folder is None else self._folder / name

    def intents(self, requests: Collection[str]) -> list[Intent]:
        """Batches with some of these requests of which it is not known whether they were created."""
        wanted = set(requests)
        found = (_intent(row) for row in self._rows(_INTENT))
        return [intent for intent in found if intent is not None and not wanted.isdisjoint(intent.requests)]

    def forget(self, batch: str) -> None:
        if self._folder is not None:
            self._path(batch).unlink(missing_ok=True)

    def holding(self, requests: Collection[str]) -> list[OpenBatch]:
        """The open batches that hold some of these requests."""
        wanted = set(requests)
        return [entry for entry in self._open_batches() if not wanted.isdisjoint(entry.requests)]

    def _open_batches(self) -> Iterator[OpenBatch]:
        return (entry for row in self._rows(_OPEN) if (entry := _open_batch(row)) is not None)

    def _rows(self, prefix: str) -> Iterator[dict[str, Any]]:
        """What the notes of a kind say. Only one that was read and is old is removed."""
        if self._folder is None or not self._folder.is_dir():
            return
        for path in sorted(self._folder.glob(f"{prefix}*.json")):
            row = _read_note(path)
            noted = row.get("noted")
            if isinstance(noted, int | float) and noted + _NOTES_KEPT < time.time():
                path.unlink(missing_ok=True)
            else:
                yield row

    def _path(self, batch: str) -> Path:
        # The id is the provider's and may hold anything; its hash is a safe name everywhere.
        assert self._folder is not None
        return self._folder / f"{_OPEN}{digest(batch)[:16]}.json"


def _read_note(path: Path) -> dict[str, Any]:
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        told = "it may tell of a batch that was paid for: make it readable, or delete it"
        raise FatalModelError(f"cannot read {path}: {error.strerror or error}; {told}") from None
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _open_batch(row: dict[str, Any]) -> OpenBatch | None:
    try:
        return OpenBatch(str(row["batch"]), tuple(map(str, row["requests"])), float(row["noted"]))
    except (ValueError, LookupError, TypeError):
        return None


def _intent(row: dict[str, Any]) -> Intent | None:
    try:
        return Intent(str(row["mark"]), tuple(map(str, row["requests"])), float(row["noted"]))
    except (ValueError, LookupError, TypeError):
        return None


# --- sending and fetching ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """All that asking by batch needs to know."""

    service: BatchService
    dialect: Dialect
    policy: RequestPolicy
    ledger: Ledger
    identity: Mapping[str, object]
    poll: float
    most: int
    blanked: Callable[[Response], Response]
    """Takes the key out of an answer that repeats it."""
    budget: Budget | None = None
    prices: Prices | None = None


def answers_by_batch(
    connect: Callable[[], AbstractAsyncContextManager[Client]], requests: Sequence[Generate], options: BatchOptions
) -> Iterator[Answered]:
    """Ask all requests by batch; yield (position, response) when a batch has ended.

    Open batches that an earlier attempt left behind are collected first: what they hold is not paid for twice.
    """

    async def work(outbox: ResultQueue[Answered]) -> None:
        async with connect() as client:
            await _BatchRun(client, requests, options, outbox).work()

    return in_background(work)


class _BatchRun:
    def __init__(
        self, client: Client, requests: Sequence[Generate], options: BatchOptions, outbox: ResultQueue[Answered]
    ) -> None:
        self._client, self._requests, self._options, self._outbox = client, requests, options, outbox
        self._places = custom_ids(requests, options.identity)
        self._ids = {place: custom_id for custom_id, place in self._places.items()}
        # What was not yet answered, and of that what was not yet taken by the reader.
        self._open = set(self._places)
        self._untaken = set(self._places)
        self._all_taken = asyncio.Event()
        outbox.taken = self._taken

    async def work(self) -> None:
        entries = await self._left_behind()
        held = {custom_id for entry in entries for custom_id in entry.requests}
        rest = [custom_id for custom_id in self._places if custom_id not in held]
        affordable = self._affordable(rest)
        self._untaken -= set(rest[affordable:])
        try:
            if affordable:
                self._options.ledger.check()
            for part in self._parts(rest[:affordable]):
                entries.append(await self._submit(part))
            await asyncio.gather(*(self._collect(entry) for entry in entries))
            # A batch is forgotten when its answers are safe, not when they were fetched.
            while self._untaken:
                await self._all_taken.wait()
        finally:
            for entry in entries:
                self._settle(entry)
        if affordable < len(rest):
            assert self._options.budget is not None
            raise BudgetReached(
                f"the budget does not allow for a batch of more requests: {self._options.budget.describe()} are spent"
            )

    async def _left_behind(self) -> list[OpenBatch]:
        """Open batches that hold what is asked now; one that the provider no longer knows is forgotten."""
        entries = []
        for entry in self._options.ledger.holding(self._places):
            try:
                await self._patiently(partial(self._options.service.state, self._client, entry.batch))
            except _GoneError:
                self._options.ledger.forget(entry.batch)
            else:
                entries.append(entry)
        for intent in self._options.ledger.intents(self._places):
            if not any(set(intent.requests) <= set(entry.requests) for entry in entries):
                entries += await self._begun(intent)
            self._options.ledger.drop(intent)
        return entries

    async def _begun(self, intent: Intent) -> list[OpenBatch]:
        """The batch that an earlier attempt was about to create when it ended, if it did create it."""
        try:
            batch = await self._patiently(partial(self._options.service.find, self._client, intent.mark))
        except FatalModelError as error:
            raise self._unknown(str(error), intent) from None
        if batch is None:
            return []
        entry = OpenBatch(batch, intent.requests)
        self._options.ledger.note(entry)
        return [entry]

    def _unknown(self, why: str, intent: Intent) -> FatalModelError:
        told = "it is not known whether the provider took the batch; look there before you start again"
        path = self._options.ledger.path_of(intent)
        remedy = f", and delete {path} to have its requests sent anew" if path is not None else ""
        return FatalModelError(f"{why}; {told}{remedy}")

    def _parts(self, ids: Sequence[str]) -> Iterator[list[str]]:
        """Requests in bulks that the provider takes."""
        service = self._options.service
        most = min(self._options.most or service.most_requests, service.most_requests)
        part: list[str] = []
        size = 0
        for custom_id in ids:
            length = len(self._line_of(custom_id)) + 1
            if part and (len(part) >= most or size + length > service.most_bytes):
                yield part
                part, size = [], 0
            part.append(custom_id)
            size += length
        if part:
            yield part

    def _line_of(self, custom_id: str) -> bytes:
        request = self._requests[self._places[custom_id]]
        return self._options.service.line(custom_id, self._options.dialect.body(request))

    async def _submit(self, part: Sequence[str]) -> OpenBatch:
        service = self._options.service
        lines = [self._line_of(custom_id) for custom_id in part]
        payload = await self._patiently(partial(service.prepare, self._client, lines))
        # Whoever dies from here on leaves word that there may be a batch.
        intent = Intent(service.mark(payload), tuple(part))
        self._options.ledger.intend(intent)
        try:
            batch = await self._patiently(partial(service.create, self._client, payload), pays=True)
        except _MaybeTakenError as error:
            raise self._unknown(str(error), intent) from None
        except FatalModelError:
            self._options.ledger.drop(intent)
            raise
        entry = OpenBatch(batch, tuple(part))
        self._options.ledger.note(entry)
        self._options.ledger.drop(intent)
        return entry

    async def _collect(self, entry: OpenBatch) -> None:
        service = self._options.service
        look = partial(service.state, self._client, entry.batch)
        while not (state := await self._patiently(look)).ended:
            await asyncio.sleep(self._options.poll)
        reason = state.reason
        for path in state.files:
            try:
                raw = await self._patiently(partial(self._client.get, path))
            except _GoneError:
                reason = reason or _NO_RESULTS
                continue
            for custom_id, outcome in service.results(raw):
                self._put(custom_id, outcome)
        for custom_id in entry.requests:
            self._put(custom_id, Failure(reason or "the batch gave no answer to this request"))

    def _put(self, custom_id: str, outcome: Outcome) -> None:
        if custom_id not in self._open:
            return
        self._open.discard(custom_id)
        place = self._places[custom_id]
        self._outbox.put((place, self._read(self._requests[place], outcome)))

    def _read(self, request: Generate, outcome: Outcome) -> Response:
        if isinstance(outcome, Failure):
            return Response(finish=outcome.finish) if outcome.finish else Response(error=outcome.told)
        try:
            return self._options.blanked(self._options.dialect.read(request, outcome, None))
        except ErrorInAnswerError as error:
            return self._read(request, error.failure)
        except ModelError as error:
            return Response(error=str(error))

    def _taken(self, answered: Answered) -> None:
        self._untaken.discard(self._ids[answered[0]])
        if not self._untaken:
            self._all_taken.set()

    def _settle(self, entry: OpenBatch) -> None:
        """Forget a batch whose answers are all safe; of another, keep what is not."""
        left = tuple(i for i in entry.requests if i not in self._places or i in self._untaken)
        if not left:
            self._options.ledger.forget(entry.batch)
        elif left != entry.requests:
            self._options.ledger.note(OpenBatch(entry.batch, left, entry.noted))

    async def _patiently(self, call: Callable[[], Awaitable[T]], *, pays: bool = False) -> T:
        """A call to the provider; failures that may pass are tried again a bounded number of times."""
        tries = busy_tries = 0
        busy_since = math.inf
        clock = asyncio.get_running_loop().time
        while True:
            tries += 1
            try:
                async with asyncio.timeout(max(_TIMEOUT, self._options.policy.timeout)):
                    return await call()
            except Exception as error:
                failure = failure_of(error)
                if failure is None:
                    raise
            if failure.status == 404:
                raise _GoneError(failure.told)
            if failure.busy:
                busy_tries, busy_since = busy_tries + 1, min(busy_since, clock())
                pause = self._options.policy.pause(failure, tries, busy_for=clock() - busy_since)
            else:
                pause = self._options.policy.pause(failure, tries, uncounted=busy_tries)
            if pays and not _surely_not_taken(failure):
                raise _MaybeTakenError(failure.told)
            if pause is None:
                raise FatalModelError(in_words(failure, tries))
            await asyncio.sleep(max(pause, min(self._options.poll, 1.0)))

    def _affordable(self, ids: Sequence[str]) -> int:
        """How many of these fit into the budget even if each costs as much as it can."""
        budget, prices = self._options.budget, self._options.prices
        if budget is None:
            return len(ids)
        usd, tokens = budget.spent_usd, budget.spent_tokens
        for count, custom_id in enumerate(ids):
            request = self._requests[self._places[custom_id]]
            tokens_in = _most_tokens(self._options.dialect.body(request))
            tokens += tokens_in + request.max_tokens
            usd += prices.of(tokens_in, request.max_tokens) if prices else 0.0
            over_usd = budget.usd is not None and usd > budget.usd
            if over_usd or (budget.tokens is not None and tokens > budget.tokens):
                return count
        return len(ids)


def _most_tokens(body: Mapping[str, Any]) -> int:
    # In no usual tokenizer is a token shorter than two bytes on the average.
    return len(json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")) // 2


class _MaybeTakenError(FatalModelError):
    """The provider was asked to create a batch, and its answer does not tell whether it did."""


def _surely_not_taken(failure: Failure) -> bool:
    refused = failure.status is not None and 300 <= failure.status < 500 and not failure.passing
    return failure.busy or failure.unreached or refused


class _GoneError(FatalModelError):
    """The provider knows nothing of it."""


def custom_ids(requests: Sequence[Generate], identity: Mapping[str, object]) -> dict[str, int]:
    """An id for each request that is the same in the next attempt, and its position.

    Equal sampled requests are different draws, told apart by what draw they are.
    """
    seen: Counter[str] = Counter()
    places = {}
    for place, request in enumerate(requests):
        draw = [request.draw] if request.temperature > 0 else []
        key = digest(dict(identity), request_as_dict(request), *draw)[:32]
        seen[key] += 1
        places[key if seen[key] == 1 else f"{key}-{seen[key]}"] = place
    return places
