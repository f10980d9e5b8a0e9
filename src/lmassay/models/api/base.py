"""What all models behind an API share: sending requests concurrently or in batches, prices, and the budget."""

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
    first_set,
    open_client,
)
from lmassay.models.api.concurrency import (
    IndexedResponse,
    RequestExecutorOptions,
    RequestPolicy,
    SendRequest,
    answers_as_they_arrive,
)
from lmassay.models.api.dialects import Dialect
from lmassay.models.api.failures import read_json
from lmassay.redaction import redact, remember_variable
from lmassay.types import Generate, Request, Response, digest, request_as_dict

# The temperature of models that accept no other: the default of OpenAI and Anthropic.
_DEFAULT_TEMPERATURE = 1.0
# How many examples the runner hands over at a time. Each chunk ends with a wait for its slowest answers, so chunks are
# large. A provider may take hours for a batch, so chunks for batches are larger still.
_CHUNK = 8192
_BATCH_CHUNK = 50_000


@dataclass(frozen=True, slots=True)
class Batching:
    """Settings for a provider's batch API."""

    service: BatchService
    """The provider's batch API."""
    poll: float
    """Seconds between two checks whether a batch is finished."""
    batch_size: int
    """Requests per batch; 0 for the provider's maximum."""

    def check(self) -> None:
        """Raise a ConfigError for settings that cannot work."""
        # NaN fails both comparisons.
        is_poll_valid = 0 < self.poll < math.inf
        if not is_poll_valid or self.batch_size < 0:
            raise ConfigError(
                "model: poll must be a finite number of seconds above 0, and batch_size at least 1 (or 0 for the "
                "provider's maximum)"
            )


class ApiModel(Model):
    """A model behind an API. Subclasses define the provider, its key and its dialect."""

    name = ""
    metered = True
    provider_host: ClassVar[str]
    """The provider's own host, which requires a key."""
    address_option: ClassVar[str] = "base_url"
    """The option that sets the address, for error messages."""
    address_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that set the address if the option does not, in the order in which they are tried."""
    default_address: ClassVar[str] = ""
    """The address if neither the option nor a variable sets it."""

    option_help: ClassVar[Mapping[str, str]] = {
        "model": "the name of the model at the provider",
        "base_url": "the address of the server; by default that of the provider, or the one in an environment variable",
        "api_key_env": "the environment variable with the key; by default that of the provider",
        "system": "a system message",
        "concurrency": "maximum number of requests at the same time",
        "timeout": "seconds until a response must be complete",
        "tries": "maximum number of attempts if a request fails temporarily; a busy server may get more",
        "wait": "seconds before the first retry; the delay doubles with each retry",
        "label": "name in tables",
        "parameters": "any other parameters that the server understands",
        "prices": "USD per million tokens, {input: …, output: …}; without them, the cost is unknown",
        "token_parameter": "the parameter for the maximum length of an answer; some models reject the usual one",
        "temperature": "send: requests contain the temperature; omit: they do not, for models that reject it",
        "constrain": "how the server restricts answers to given choices; none if it cannot",
        "batch": "send the requests in batches, at half the price; answers may take a day",
        "poll": "seconds between two checks whether a batch is done",
        "batch_size": "maximum number of requests per batch; 0 for the provider's maximum",
    }

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
        self._address_variable = ""
        if not base_url:
            self._address_variable, base_url = first_set(self.address_variables)
            remember_variable(self.address_option, self._address_variable, base_url)
        self.base_url = (base_url or self.default_address).rstrip("/")
        self.concurrency = policy.concurrency
        self.dialect = dialect
        self.chunk = _CHUNK
        self.prices = prices
        if batching is not None:
            self.chunk = _BATCH_CHUNK
            # OpenAI and Anthropic charge half the price for requests in a batch.
            if prices is not None:
                self.prices = Prices(prices.input / 2, prices.output / 2)
        self._policy = policy
        self._key = key
        self._batching = batching
        self._budget: Budget | None = None
        self._folder: Path | None = None
        self._server_has_answered = False

    @property
    def can(self) -> frozenset[str]:  # type: ignore[override]  # depends on the provider
        if self.dialect.can_restrict_to_choices:
            return frozenset({"generate", "choices"})
        return frozenset({"generate"})

    def endpoint(self) -> Endpoint:
        """Return the address and headers of requests; subclasses implement it.

        Reads the API key from the environment at each call.
        """
        raise NotImplementedError

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, "model": self.model, "url": self.base_url, **self.dialect.identity()}

    def notes(self) -> list[str]:
        """Say where requests go if the configuration does not show it."""
        if not self._address_variable:
            return []
        return [f"requests to {self.label} go to {redact(self.base_url)}, the address in {self._address_variable}"]

    def check_requests(self, requests: Sequence[Request]) -> None:
        if self.dialect.sends_temperature:
            return
        # 0 is the default of the tasks. It is accepted, although such a model answers at its own temperature.
        for request in requests:
            if isinstance(request, Generate) and request.temperature not in (0, _DEFAULT_TEMPERATURE):
                raise ConfigError(
                    f"temperature: {request.temperature:g} would have no effect, because model.temperature: omit does "
                    "not send it; write temperature: 1, which is what such models use"
                )

    def check(self) -> None:
        """Raise a ConfigError for problems that can be found without a connection to the server."""
        host = checked_host(self.base_url, self.address_option)
        if host == self.provider_host or host.endswith(f".{self.provider_host}"):
            self._key.require()
        # Bad values in the environment are reported now, not at the first request.
        self.endpoint()
        self._policy.check()
        self.dialect.check()
        if self._batching is not None:
            self._batching.check()
        if self.prices is not None:
            for price in (self.prices.input, self.prices.output):
                if not 0 <= price < math.inf:
                    raise ConfigError(
                        "model.prices: input and output are prices per million tokens; give finite numbers that are at "
                        "least 0"
                    )

    def use_budget(self, budget: Budget) -> None:
        """Stop sending requests when the budget is used up."""
        self._budget = budget

    def use_folder(self, folder: Path) -> None:
        """Record submitted batches in this folder.

        A resumed run then collects their answers instead of paying again.
        """
        self._folder = folder

    def generate(self, requests: Sequence[Generate]) -> Iterator[IndexedResponse]:
        if self._batching is not None:
            connect = partial(self._client, MAX_BATCH_BODY)
            yield from answers_by_batch(connect, requests, self._batch_options(self._batching))
            return
        options = RequestExecutorOptions(
            policy=self._policy,
            budget=self._budget,
            server_has_answered=self._server_has_answered,
            server=self.base_url,
        )
        for index, response in answers_as_they_arrive(self._open_sender, requests, options):
            yield index, response
            if response.error is None:
                self._server_has_answered = True

    def _batch_options(self, batching: Batching) -> BatchOptions:
        return BatchOptions(
            service=batching.service,
            dialect=self.dialect,
            policy=self._policy,
            ledger=Ledger(self._folder),
            identity=self.identity(),
            poll=batching.poll,
            batch_size=batching.batch_size,
            budget=self._budget,
            prices=self.prices,
        )

    def _client(self, max_body: int) -> AbstractAsyncContextManager[Client]:
        return open_client(self.endpoint(), self._policy, max_body=max_body)

    @asynccontextmanager
    async def _open_sender(self) -> AsyncIterator[SendRequest]:
        """Open the connections and yield a function that sends one request."""
        identity = self.identity()
        async with self._client(MAX_BODY) as client:

            async def send(request: Generate) -> Response:
                headers = {}
                if request.temperature == 0:
                    # A server that supports this answers a repeated request, e.g. after a crash, without charging
                    # again. A sampled answer must be a new draw each time.
                    request_digest = digest(identity, request_as_dict(request))
                    headers["Idempotency-Key"] = f"lmassay-{request_digest[:32]}"
                # Escaped, so that a lone surrogate in a prompt is sent instead of crashing the encoder.
                content = json.dumps(self.dialect.body(request)).encode("ascii")
                started = time.monotonic()
                raw = await client.post(self.dialect.path, content, headers)
                seconds = time.monotonic() - started
                return self.dialect.read(request, read_json(raw), seconds)

            yield send
