"""What all models behind an API share: asking one by one or by batch, prices, budget, and where notes are kept."""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from lmassay.budget import Budget, Prices
from lmassay.contracts import Model
from lmassay.errors import ConfigError
from lmassay.models.api.batch import BatchOptions, Ledger, answers_by_batch
from lmassay.models.api.batch_services import BatchService
from lmassay.models.api.client import (
    MAX_BATCH_BODY,
    MAX_BODY,
    ApiKey,
    Client,
    Endpoint,
    checked_host,
    open_client,
)
from lmassay.models.api.concurrency import Answered, Ask, ExecutorOptions, RequestPolicy, answers_as_they_arrive
from lmassay.models.api.dialects import Dialect
from lmassay.models.api.failures import read_json
from lmassay.types import Generate, Response, digest, request_as_dict

# So many examples are asked about at a time: enough that the last, slow answers of each bulk cost little.
_CHUNK = 8192
_BATCH_CHUNK = 50_000


@dataclass(frozen=True, slots=True)
class Batching:
    """Whether and how to ask by batch."""

    service: BatchService
    poll: float
    most: int

    def check(self) -> None:
        if not self.poll > 0 or self.most < 0:
            raise ConfigError(
                "model: poll must be above 0 seconds, batch_size at least 1 (or 0 for the provider's own)"
            )


class ApiModel(Model):
    """A model behind an API. Its class says who is asked, with which key and in which dialect."""

    name = ""
    metered = True
    home: ClassVar[str]
    """The provider's own host, which no one is let into without a key."""
    address_option: ClassVar[str] = "base_url"

    def __init__(
        self,
        *,
        model: str,
        label: str,
        base_url: str,
        dialect: Dialect,
        policy: RequestPolicy,
        key: ApiKey,
        prices: Prices | None,
        batching: Batching | None = None,
    ) -> None:
        self.model = model
        self.label = label or model
        self.base_url = base_url.rstrip("/")
        self.concurrency = policy.concurrency
        self.dialect = dialect
        self.chunk = _CHUNK if batching is None else _BATCH_CHUNK
        # A batch costs half.
        self.prices = prices if prices is None or batching is None else Prices(prices.input / 2, prices.output / 2)
        self._policy = policy
        self._key = key
        self._batching = batching
        self._budget: Budget | None = None
        self._folder: Path | None = None
        self._proved = False

    @property
    def can(self) -> frozenset[str]:  # type: ignore[override]  # depends on the provider
        return frozenset({"generate", "choices"} if self.dialect.keeps_to_choices else {"generate"})

    def endpoint(self) -> Endpoint:
        """Where requests are sent; the key is read now."""
        raise NotImplementedError

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, "model": self.model, "url": self.base_url, **self.dialect.identity()}

    def check(self) -> None:
        """What can be known without a connection."""
        host = checked_host(self.base_url, self.address_option)
        if host == self.home or host.endswith(f".{self.home}"):
            self._key.require()
        # What the environment holds is looked at now, not at the first request.
        self.endpoint()
        self._policy.check()
        self.dialect.check()
        if self._batching is not None:
            self._batching.check()
        if self.prices is not None:
            for value in (self.prices.input, self.prices.output):
                if not 0 <= value < math.inf:
                    raise ConfigError("model.prices: money for a million tokens, input and output, at least 0")

    def use_budget(self, budget: Budget) -> None:
        """Ask nothing more when the budget does not allow it."""
        self._budget = budget

    def use_folder(self, folder: Path) -> None:
        """Where open batches are noted."""
        self._folder = folder

    def generate(self, requests: Sequence[Generate]) -> Iterator[Answered]:
        if self._batching is not None:
            yield from answers_by_batch(
                partial(self._client, MAX_BATCH_BODY), requests, self._batch_options(self._batching)
            )
            return
        options = ExecutorOptions(self._policy, self._budget, self._proved, self.base_url)
        for answered in answers_as_they_arrive(self._conversation, requests, options):
            yield answered
            self._proved = self._proved or answered[1].error is None

    def _batch_options(self, batching: Batching) -> BatchOptions:
        return BatchOptions(
            service=batching.service,
            dialect=self.dialect,
            policy=self._policy,
            ledger=Ledger(self._folder),
            identity=self.identity(),
            poll=batching.poll,
            most=batching.most,
            budget=self._budget,
            prices=self.prices,
            blanked=self._key.blanked,
        )

    def _client(self, most: int) -> AbstractAsyncContextManager[Client]:
        return open_client(self.endpoint(), self._policy, most=most)

    @asynccontextmanager
    async def _conversation(self) -> AsyncIterator[Ask]:
        identity = self.identity()
        async with self._client(MAX_BODY) as client:

            async def ask(request: Generate) -> Response:
                headers = {}
                if request.temperature == 0:
                    # A server that honours this answers a repeated request, e.g. after a crash, without charging
                    # again. A sampled answer must be a new draw each time.
                    key = digest(identity, request_as_dict(request))
                    headers = {"Idempotency-Key": f"lmassay-{key[:32]}"}
                # Escaped, so that a lone surrogate in a prompt is sent rather than crashing the encoder.
                content = json.dumps(self.dialect.body(request)).encode("ascii")
                started = time.monotonic()
                raw = await client.post(self.dialect.path, content, headers)
                response = self.dialect.read(request, read_json(raw), time.monotonic() - started)
                return self._key.blanked(response)

            yield ask
