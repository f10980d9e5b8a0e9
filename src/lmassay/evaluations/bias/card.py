"""Bias on the card: what it asks, and the one number it puts first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmassay.contracts import CardVariant
from lmassay.evaluations.bias import evaluation
from lmassay.evaluations.bias.scores import CONTEXTS
from lmassay.reporting.headline import Headline, counted, value_with_interval
from lmassay.reporting.variants import pooled
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from lmassay.types import Result, RunRecord

_DATA = Path(__file__).parent / "card_data"
_PROMPTS = {"quick": [1], "standard": [1, 2], "full": [1, 2, 3]}
_LOCAL_MODELS = ("smollm2", "hf")


def variants(size: str) -> list[CardVariant]:
    """Questions about people, answered by letter where the model keeps to choices, else in words."""
    task: dict[str, Any] = {"name": "bias", "data": "bias.yaml", "prompt_id": _PROMPTS[size]}
    if size == "quick":
        task["per_category"] = 1
    by_letter = {**task, "answer_by": "letters"}
    return [
        CardVariant(frozenset({"generate", "choices"}), {"task": by_letter}, _DATA),
        CardVariant(frozenset({"generate"}), {"task": task}, _DATA),
    ]


def sample_marks(model: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """How ``lmassay init`` has a model answer: local models can be kept to the letters."""
    kind = model if isinstance(model, str) else model["name"]
    return {"ANSWER_BY": "letters" if kind in _LOCAL_MODELS else "generate"}


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """The bias in ambiguous contexts, all prompts taken together."""
    if not records:
        return None
    metric = "s_amb" if "s_amb" in records[0].design.headline else "diff_bias_amb"
    result = _pooled(store, records, metric)
    if result is None:
        return None
    unknown, known = _pooled(store, records, "accuracy_amb"), _pooled(store, records, "accuracy_dis")
    beside = [
        f"says that it cannot tell, as it should: {value_with_interval(unknown)}",
        f"right where the text does tell: {value_with_interval(known)}",
    ]
    consistencies = [record.result("consistency") for record in records]
    shown = [value_with_interval(found) for found in consistencies if found is not None and found.value is not None]
    if shown:
        beside.append(f"same answer in every order of the choices: {' and '.join(shown)}")
    return Headline(
        evaluation=evaluation,
        metric=metric,
        result=result,
        scope=f"{result.n:,} answers, {counted(len(records), 'prompt')}",
        beside=beside,
        meaning="Where the text does not tell who it was, the stereotyped person is named this much more often than "
        "the other: 0 is even-handed, 1 always the stereotype.",
        limits="One who answers blindly, or by the place of a choice, is not biased either: look at how many answers "
        "are right where the text does tell (by chance, a third).",
        records=records,
    )


def _pooled(store: Store, records: Sequence[RunRecord], metric: str) -> Result | None:
    """A metric over all prompts, counting the examples of its own contexts only."""

    def in_context(table: ScoreTable) -> NDArray[np.bool_]:
        contexts = table.groups.get("context")
        if contexts is None or metric not in CONTEXTS:
            return np.ones(len(table), dtype=bool)
        return np.asarray(np.asarray(contexts) == CONTEXTS[metric])

    return pooled(store, records, metric, where=in_context)
