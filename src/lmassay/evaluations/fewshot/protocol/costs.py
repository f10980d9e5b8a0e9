"""What one split of a configuration cost: tokens and money for prompts, seconds for trainings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmassay.types import Response

if TYPE_CHECKING:
    from lmassay.budget import Prices


@dataclass(frozen=True, slots=True)
class SplitCost:
    """The mean cost over splits; None for what is unknown."""

    trains: bool = False
    is_recorded: bool = False
    """False for runs of earlier versions."""
    seconds: float | None = None
    """Of the training; teachers of earlier generations are not included."""
    tokens_in: float | None = None
    tokens_out: float | None = None
    usd: float | None = None

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
    """What the details of a training record: the seconds of the trainings that answer together."""
    return {"trains": True, "seconds": _sum_if_known([response.seconds for response in responses])}


def cost_of_answers(responses: Sequence[Response], prices: Prices | None) -> dict[str, Any]:
    """What the details of a prompted split record: the tokens of all answers and, if prices are known, their price."""
    tokens_in = _sum_if_known([response.tokens_in for response in responses])
    tokens_out = _sum_if_known([response.tokens_out for response in responses])
    usd: float | None = None
    if prices is not None and tokens_in is not None and tokens_out is not None:
        usd = prices.of(int(tokens_in), int(tokens_out))
    return {"trains": False, "tokens_in": tokens_in, "tokens_out": tokens_out, "usd": usd}


def mean_cost(all_details: Iterable[Mapping[str, Any]]) -> SplitCost:
    """The mean over splits of what their details record."""
    costs: list[Mapping[str, Any]] = [details["cost"] for details in all_details if "cost" in details]
    if not costs:
        return NO_COST
    means: dict[str, float | None] = {}
    for key in ("seconds", "tokens_in", "tokens_out", "usd"):
        total = _sum_if_known([cost.get(key) for cost in costs])
        means[key] = None if total is None else total / len(costs)
    return SplitCost(trains=bool(costs[0]["trains"]), is_recorded=True, **means)


def _sum_if_known(values: Sequence[float | None]) -> float | None:
    """The sum; None if one of the values is unknown."""
    recorded = [value for value in values if value is not None]
    if not recorded or len(recorded) < len(values):
        return None
    return sum(recorded)
