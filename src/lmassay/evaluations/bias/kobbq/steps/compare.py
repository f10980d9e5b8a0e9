"""Step 6: results with the default prompts against results with debiased ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lmassay.errors import DataError
from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.kobbq.pandas_output import float_series
from lmassay.evaluations.bias.kobbq.steps.evaluate import HEADER, METRICS
from lmassay.evaluations.bias.kobbq.tsv import read_table

_ACCURACIES, _BIASES = METRICS[1:3], METRICS[3:5]
_OVERALL = "overall"


@dataclass(frozen=True, slots=True)
class ResultsAverage:
    """The mean of each metric over rows of results; a cell without a number is left out of its mean."""

    metrics: Mapping[str, float]
    rows: int

    @property
    def accuracy(self) -> float:
        return scores.mean_over_contexts(*(self.metrics[name] for name in _ACCURACIES))

    @property
    def diff_bias(self) -> float:
        return scores.mean_over_contexts(*(self.metrics[name] for name in _BIASES))


@dataclass(frozen=True, slots=True)
class DebiasingComparison:
    """One model before and after: over all rows as the original does, and over the overall rows only."""

    model: str
    default: ResultsAverage
    debiased: ResultsAverage
    default_overall: ResultsAverage
    debiased_overall: ResultsAverage

    def text(self) -> str:
        """What the original prints."""
        changes = (
            f"diff_bias_diff: {points(self.default.diff_bias, self.debiased.diff_bias)}%, "
            f"accuracy_diff: {points(self.default.accuracy, self.debiased.accuracy)}%"
        )
        before, after = float_series(self.default.metrics), float_series(self.debiased.metrics)
        return "\n".join([self.model, "Default Average", before, "Debiased Average", after, changes])

    def details(self) -> str:
        """What the original leaves unsaid: what its mean counts, points and relative change, the overall rows."""
        return "\n".join(
            [
                f"details for {self.model}; changes are in percentage points (the % above are points too)",
                _change("diff-bias, all rows", self.default, self.debiased, "diff_bias"),
                _change("accuracy, all rows", self.default, self.debiased, "accuracy"),
                _change("diff-bias, overall rows", self.default_overall, self.debiased_overall, "diff_bias"),
                _change("accuracy, overall rows", self.default_overall, self.debiased_overall, "accuracy"),
                *(
                    f"{name}, all rows: {_shown(self.default.metrics[name])} to {_shown(self.debiased.metrics[name])}"
                    for name in METRICS
                ),
                "the mean over all rows counts every sample three times (overall, by label, by category) and gives a "
                "small category the weight of a large one",
            ]
        )


def compare(default: str, debiased: str, prompt_ids: Sequence[str], models: Sequence[str]) -> list[DebiasingComparison]:
    """Compare the results in ``{default}_{prompt id}.tsv`` with those in ``{debiased}_{prompt id}.tsv``."""
    before, after = (_results(name, prompt_ids) for name in (default, debiased))
    return [
        DebiasingComparison(
            model,
            _average(before, model, False),
            _average(after, model, False),
            _average(before, model, True),
            _average(after, model, True),
        )
        for model in models
    ]


@dataclass(frozen=True, slots=True)
class _Results:
    models: Sequence[str]
    groups: Sequence[str]
    values: Sequence[tuple[float, ...]]


def _results(name: str, prompt_ids: Sequence[str]) -> _Results:
    models: list[str] = []
    groups: list[str] = []
    values: list[tuple[float, ...]] = []
    for prompt in prompt_ids:
        table = read_table(Path(f"{name}_{prompt}.tsv"), "results", HEADER)
        models += table.column("model")
        groups += table.column("category")
        for row, cells in enumerate(zip(*(table.column(metric) for metric in METRICS), strict=True)):
            try:
                values.append(tuple(float(cell) if cell else float("nan") for cell in cells))
            except ValueError as error:
                raise DataError(f"{table.where(row)}: {error}; correct the row") from None
    return _Results(models, groups, values)


def _average(results: _Results, model: str, overall: bool) -> ResultsAverage:
    rows = [
        values
        for name, group, values in zip(results.models, results.groups, results.values, strict=True)
        if name == model and (group == _OVERALL or not overall)
    ]
    columns = np.array(rows, np.float64).reshape(-1, len(METRICS)).T
    means = [scores.mean_over_prompts(column) for column in columns]
    return ResultsAverage(dict(zip(METRICS, means, strict=True)), len(rows))


def points(before: float, after: float) -> float:
    """The change in percentage points to two decimals, rounded as numpy rounds."""
    return float(np.round(np.float64(after - before) * 100, 2))


def _change(what: str, before: ResultsAverage, after: ResultsAverage, name: str) -> str:
    old, new = getattr(before, name), getattr(after, name)
    relative = f"{(new - old) / abs(old):+.1%} relative" if old and not np.isnan(new - old) else "no relative change"
    rows = f"{before.rows} rows" if before.rows == after.rows else f"{before.rows} and {after.rows} rows"
    return f"{what} ({rows}): {_shown(old)} to {_shown(new)}, {_shown(100 * (new - old), '+.2f')} points, {relative}"


def _shown(value: float, form: str = ".4f") -> str:
    return "no data" if np.isnan(value) else format(value, form)
