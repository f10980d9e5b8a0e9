"""Estimates, before a run with a metered model starts, how much its requests cost at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from lmassay.running.planning import Plan
from lmassay.types import Generate, LogProbs, Request, Slot

BYTES_PER_TOKEN = 2
"""Assumed for prompts. English has about 4 bytes of UTF-8 per token, Korean about 2 to 3."""
TOKENS_OF_CHAT_FORMAT = 20
"""Assumed for the roles and separators of a request."""
# How many examples are read to estimate the length of a request: enough for a stable mean. Reading all of them would
# make the check of a large data set slow.
_SAMPLED_EXAMPLES = 500

ASSUMPTIONS = (
    "costs are upper bounds: they assume that no answer is cached, that every answer uses all of max_tokens, and that "
    f"a prompt has one token per {BYTES_PER_TOKEN} bytes and {TOKENS_OF_CHAT_FORMAT} more"
)


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The maximum requests, tokens and cost of a run, or the reason why the cost is unknown."""

    requests: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    usd: float | None = None
    unknown: str = ""
    """Why there is no cost; empty if there is one."""

    def describe(self) -> str:
        """Return the cost as text, such as ``at most 0.12 USD``."""
        if self.usd is None:
            return f"cost unknown: {self.unknown}"
        return f"at most {cost_text(self.usd)}"


def cost_text(usd: float) -> str:
    """Return a cost with two decimals, or with four if it is less than a dollar.

    >>> cost_text(12.3456), cost_text(0.01234), cost_text(0)
    ('12.35 USD', '0.0123 USD', '0.00 USD')
    """
    digits = 4 if 0 < usd < 1 else 2
    return f"{usd:,.{digits}f} USD"


def budget_warnings(plans: Sequence[Plan], costs: Sequence[CostEstimate]) -> list[str]:
    """Return a warning for each limit of the budget that the runs of a command may exceed together."""
    usd_limits: list[float] = []
    token_limits: list[int] = []
    for plan in plans:
        budget = plan.config.budget
        if budget is not None and budget.usd is not None:
            usd_limits.append(budget.usd)
        if budget is not None and budget.tokens is not None:
            token_limits.append(budget.tokens)
    total_usd = sum(cost.usd or 0.0 for cost in costs)
    total_tokens = sum((cost.tokens_in or 0) + (cost.tokens_out or 0) for cost in costs)
    advice = "the run stops when it is used up, and `lmassay resume` continues it with a larger one"
    warnings = []
    # Runs of several configurations spend from one total, so the smallest limit is reached first.
    if usd_limits and total_usd > min(usd_limits):
        limit = cost_text(min(usd_limits))
        warnings.append(f"the cost may be up to {cost_text(total_usd)}, more than the budget of {limit}: {advice}")
    if token_limits and total_tokens > min(token_limits):
        limit = f"{min(token_limits):,}"
        warnings.append(f"up to {total_tokens:,} tokens may be used, more than the budget of {limit}: {advice}")
    return warnings


def models_without_budget(plans: Sequence[Plan]) -> str:
    """Return a warning that names the models that a budget does not limit; empty if there are none."""
    names: dict[str, None] = {}
    for plan in plans:
        if plan.config.budget is not None and plan.model is not None and not plan.model.metered:
            names[plan.model_label] = None
    if not names:
        return ""
    return f"the budget has no effect on {', '.join(names)}: it only limits models behind an API"


def estimated_cost(plan: Plan, max_requests: int | None) -> CostEstimate | None:
    """Return what a run costs at most; None if its model is not metered, so that it costs nothing.

    ``max_requests`` is the largest number of calls to the server. The estimate is scaled up from the first examples.
    """
    model = plan.model
    if model is None or not model.metered or not plan.task.needs:
        return None
    if max_requests is None:
        return CostEstimate(unknown=f"the task {plan.task.name} does not know how many requests it sends")
    try:
        sampled = _sampled_tokens(plan)
    except Exception as error:
        # A user's own task may raise anything. The run itself reports this with the example; here, only the cost is
        # unknown.
        return CostEstimate(max_requests, unknown=f"the requests cannot be built ({error})")
    if sampled is None:
        return CostEstimate(max_requests, unknown="the length of the requests is not known before the run")
    calls, tokens_in, tokens_out = sampled
    # Scale up from the examples that were read to all examples.
    factor = max_requests / calls
    total_in = round(tokens_in * factor)
    total_out = round(tokens_out * factor)
    if model.prices is None:
        unknown = f"no price for {plan.model_label}; give model.prices"
        return CostEstimate(max_requests, total_in, total_out, unknown=unknown)
    return CostEstimate(max_requests, total_in, total_out, model.prices.of(total_in, total_out))


def _sampled_tokens(plan: Plan) -> tuple[int, int, int] | None:
    """Count the calls to a server for the first examples, and the input and output tokens that they use at most.

    Returns None if there are no requests, or if a request has no known length.
    """
    assert plan.model is not None
    limit = _SAMPLED_EXAMPLES if plan.config.limit is None else min(plan.config.limit, _SAMPLED_EXAMPLES)
    calls = 0
    tokens_in = 0
    tokens_out = 0
    for example in islice(plan.task.examples(), limit):
        for request in plan.task.requests(example):
            tokens = _max_tokens(request)
            if tokens is None:
                return None
            calls_of_request = plan.model.max_calls(request)
            # The tokens of a Slot are already those of all its candidates.
            repetitions = 1 if isinstance(request, Slot) else calls_of_request
            calls += calls_of_request
            tokens_in += tokens[0] * repetitions
            tokens_out += tokens[1] * repetitions
    if not calls:
        return None
    return calls, tokens_in, tokens_out


def _max_tokens(request: Request) -> tuple[int, int] | None:
    """Return the maximum input and output tokens of a request; None for a kind of request that no server answers."""
    if isinstance(request, Generate):
        text = request.prompt + "".join(role + content for role, content in request.messages)
        return _prompt_tokens(text), request.max_tokens
    if isinstance(request, LogProbs):
        text = request.context + request.continuation + "".join(role + content for role, content in request.messages)
        # A server that scores a prompt must generate one token.
        return _prompt_tokens(text), 1
    if isinstance(request, Slot):
        # At most one request for each candidate.
        texts = [request.left + word + request.right for word in request.candidates]
        return sum(map(_prompt_tokens, texts)), len(texts)
    return None


def _prompt_tokens(text: str) -> int:
    size = len(text.encode("utf-8", "surrogatepass"))
    return -(-size // BYTES_PER_TOKEN) + TOKENS_OF_CHAT_FORMAT
