"""The cost of a split of a configuration: tokens and money for prompts, seconds for trainings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmassay.types import Response

if TYPE_CHECKING:
    from lmassay.budget import Prices


@dataclass(frozen=True, slots=True)
class SplitCost:
    """The mean cost over splits. A number that is not known is None."""

    trains: bool = False
    """Whether the method trains, so that its cost is the time of the training."""
    is_recorded: bool = False
    """False for runs of earlier versions, which did not record their cost."""
    seconds: float | None = None
    """The duration of the training (of all trainings if their logits are averaged), without that of its teachers."""
    tokens_in: float | None = None
    """The tokens of all prompts."""
    tokens_out: float | None = None
    """The tokens of all answers."""
    usd: float | None = None
    """The price of all prompts and answers, in US dollars."""

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as plain JSON."""
        return {
            "seconds": self.seconds,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "usd": self.usd,
        }


NO_COST = SplitCost()


def cost_of_trainings(responses: Iterable[Response]) -> dict[str, Any]:
    """The cost that is recorded in a score's details: the total duration of the trainings behind it."""
    return {"trains": True, "seconds": _sum_if_known([response.seconds for response in responses])}


def cost_of_answers(responses: Sequence[Response], prices: Prices | None) -> dict[str, Any]:
    """The cost that is recorded in the details of a prompted split: all tokens and, if it is known, their price."""
    tokens_in = _sum_if_known([response.tokens_in for response in responses])
    tokens_out = _sum_if_known([response.tokens_out for response in responses])
    usd: float | None = None
    if prices is not None and tokens_in is not None and tokens_out is not None:
        usd = prices.of(int(tokens_in), int(tokens_out))
    return {"trains": False, "tokens_in": tokens_in, "tokens_out": tokens_out, "usd": usd}


def mean_cost(all_details: Iterable[Mapping[str, Any]]) -> SplitCost:
    """The mean of the costs that are recorded in the details of several splits."""
    costs: list[Mapping[str, Any]] = [details["cost"] for details in all_details if "cost" in details]
    if not costs:
        return NO_COST
    means: dict[str, float | None] = {}
    for key in ("seconds", "tokens_in", "tokens_out", "usd"):
        total = _sum_if_known([cost.get(key) for cost in costs])
        means[key] = None if total is None else total / len(costs)
    return SplitCost(trains=bool(costs[0]["trains"]), is_recorded=True, **means)


def _sum_if_known(values: Sequence[float | None]) -> float | None:
    """The sum of the values; None if one of them is not known, or if there are none."""
    recorded = [value for value in values if value is not None]
    if not recorded or len(recorded) < len(values):
        return None
    return sum(recorded)
