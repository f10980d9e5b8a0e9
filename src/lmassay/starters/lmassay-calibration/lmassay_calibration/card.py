"""Calibration on the card: the runs that the card starts, and the number that it shows first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmassay.contracts import CardVariant
from lmassay.reporting.headline import Headline, counted, value_with_interval
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay_calibration import evaluation

_DATA = Path(__file__).parent / "card_data"


def variants(size: str) -> list[CardVariant]:
    """The runs for a size of the card. All sizes use the same questions, because there are only a few."""
    task = {"name": "calibration", "data": "questions.jsonl"}
    return [CardVariant(frozenset({"logprobs"}), {"task": task}, _DATA)]


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """The number that the card shows first: the calibration error of the latest run."""
    record = records[-1]
    result = record.result("ece")
    if result is None:
        return None
    return Headline(
        evaluation=evaluation,
        metric="ece",
        result=result,
        scope=counted(result.n, "question"),
        details=[
            f"Brier score: {value_with_interval(record.result('brier'))}",
            f"accuracy: {value_with_interval(record.result('accuracy'))}, "
            f"mean confidence: {value_with_interval(record.result('confidence'))}",
        ],
        limits="A model that always says how often it is right is calibrated, even if it is never sure of anything.",
        records=[record],
    )
