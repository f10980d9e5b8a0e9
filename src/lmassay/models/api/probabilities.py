"""A model behind an API that returns probabilities, if a probe of the server confirms that it does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from typing import Any

from lmassay.contracts import ConnectionReport
from lmassay.errors import BudgetReached, ConfigError
from lmassay.models.api.background import ResultQueue, in_background
from lmassay.models.api.base import ApiModel
from lmassay.models.api.client import MAX_SCORES_BODY
from lmassay.models.api.concurrency import IndexedResponse, RequestExecutorOptions, SendRequest, answers_as_they_arrive
from lmassay.models.api.probe import ProbeResult, ServerConnection, probe
from lmassay.models.api.scoring import Probabilities, ServerSettings
from lmassay.redaction import redact
from lmassay.types import LogProbs, Request, Response, Slot

# The kinds of requests that are answered with log-probabilities.
_SCORED = frozenset({"logprobs", "slot"})
_SERVERS = "vLLM, SGLang or llama.cpp"


class ScoringModel(ApiModel):
    """Adds ``logprobs`` and ``slot`` to a model behind an API.

    ``can`` contains them unless the user's option ``probabilities`` is ``none``. Before the first request, the probe
    tests whether the server really returns log-probabilities; if it does not, the run is refused.
    """

    # Servers have causal models, which read from left to right.
    sees_right = False

    def __init__(self, *, probabilities: Probabilities, settings: ServerSettings, **options: Any) -> None:
        super().__init__(**options)
        self._probabilities = probabilities
        self._settings = settings
        self._probed: ProbeResult | None = None

    @property
    def can(self) -> frozenset[str]:  # type: ignore[override]  # depends on the options
        abilities = super().can
        if self._probabilities == "none":
            return abilities
        return abilities | _SCORED

    def remedy(self, missing: Set[str]) -> str:
        if not missing & _SCORED:
            return ""
        if self._probabilities == "none":
            return f"if the server is {_SERVERS}, set model.probabilities to auto"
        return ""

    def identity(self) -> Mapping[str, Any]:
        identity = dict(super().identity())
        # Options at their defaults are left out: a model that does not use them keeps its identity, which is part of
        # the keys of its cached answers.
        if self._probabilities != "none":
            identity["probabilities"] = self._probabilities
            if self._settings.prefix != "auto":
                identity["prefix"] = self._settings.prefix
        return identity

    def check(self) -> None:
        super().check()
        if self._probabilities == "none":
            if self._settings.prefix != "auto":
                raise ConfigError("model.prefix: only scored texts have a prefix; also set model.probabilities")
            return
        if not self._settings.prefix:
            raise ConfigError("model.prefix: write auto, none, or a token of the model such as <|endoftext|>")
        if self._batching is not None:
            raise ConfigError("model.batch: batches cannot return probabilities; remove batch or probabilities")

    def max_calls(self, request: Request) -> int:
        """The largest number of calls to the server that a request may need.

        A blank needs one text per word, unless the server returns the probabilities of its whole vocabulary; this is
        known only after the probe. Not included are the calls that llama.cpp needs for each token of a text or of a
        word of several tokens: the number of tokens is not known here.
        """
        if not isinstance(request, Slot):
            return 1
        scores_texts = self._probabilities != "llama.cpp"
        if self._probed is not None:
            has_vocabulary = self._probed.vocabulary is not None and not request.multi_token
            scores_texts = self._probed.method != "llama.cpp" and not has_vocabulary
        return len(request.candidates) if scores_texts else 1

    # --- the server ---------------------------------------------------------------------------------------------------

    def connect(self, needs: Set[str]) -> ConnectionReport | None:
        """Probe the server if the task needs probabilities. Returns None if it does not.

        Raises a FatalModelError if the server does not return them, and BudgetReached if the budget is used up.
        """
        if self._probabilities == "none" or not needs & _SCORED:
            return None
        if self._budget is not None and not self._budget.allows(0):
            raise BudgetReached(f"the budget is used up: {self._budget.describe()}")
        result = self._probe(frozenset(needs))
        return ConnectionReport(
            signature=redact(result.signature),
            findings=result.findings,
            tokens_in=result.tokens_in,
            tokens_out=result.tokens_out,
        )

    def _probe(self, needs: frozenset[str]) -> ProbeResult:
        """Test the server, and keep the result for the requests."""

        async def work(results: ResultQueue[ProbeResult]) -> None:
            async with self._client(MAX_SCORES_BODY) as client:
                connection = ServerConnection(client, self._settings, self._policy, redact(self.base_url))
                results.put(await probe(connection, self._probabilities, needs))

        for result in in_background(work):
            self._probed = result
        assert self._probed is not None
        self._server_has_answered = True
        return self._probed

    # --- requests -----------------------------------------------------------------------------------------------------

    def logprobs(self, requests: Sequence[LogProbs]) -> Iterator[IndexedResponse]:
        return self._score(requests)

    def slot(self, requests: Sequence[Slot]) -> Iterator[IndexedResponse]:
        return self._score(requests)

    def _score(self, requests: Sequence[LogProbs] | Sequence[Slot]) -> Iterator[IndexedResponse]:
        if self._probed is None:
            # A caller from Python may not have called `connect`.
            self._probe(frozenset(request.verb for request in requests))
        options = RequestExecutorOptions(
            policy=self._policy,
            budget=self._budget,
            server_has_answered=True,
            server=self.base_url,
        )
        yield from answers_as_they_arrive(self._open_scorer, requests, options)

    @asynccontextmanager
    async def _open_scorer(self) -> AsyncIterator[SendRequest]:
        """Open the connections and yield a function that answers one request."""
        assert self._probed is not None
        async with self._client(MAX_SCORES_BODY) as client:
            connection = ServerConnection(client, self._settings, self._policy, redact(self.base_url))
            scorer = connection.scorer(self._probed)

            async def send(request: LogProbs | Slot) -> Response:
                if isinstance(request, Slot):
                    return await scorer.slot(request)
                return await scorer.logprobs(request)

            yield send
