"""Step 6: compare results with the default prompts and results with debiased ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lmassay.errors import DataError
from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.kobbq.answering_model import is_shown_as
from lmassay.evaluations.bias.kobbq.pandas_output import float_series
from lmassay.evaluations.bias.kobbq.steps.evaluate import HEADER, METRICS
from lmassay.evaluations.bias.kobbq.tsv import read_table

_OUT_OF_CHOICE, _ACCURACY_AMB, _ACCURACY_DIS, _DIFF_BIAS_AMB, _DIFF_BIAS_DIS = METRICS
_OVERALL = "overall"


@dataclass(frozen=True, slots=True)
class ResultsAverage:
    """The mean of each metric over rows of results; cells without a number are left out of the mean.

    ``rows`` is the number of rows.
    """

    metrics: Mapping[str, float]
    rows: int

    @property
    def accuracy(self) -> float:
        """The mean accuracy over both kinds of context."""
        return scores.mean_over_contexts(self.metrics[_ACCURACY_AMB], self.metrics[_ACCURACY_DIS])

    @property
    def diff_bias(self) -> float:
        """The mean diff-bias over both kinds of context."""
        return scores.mean_over_contexts(self.metrics[_DIFF_BIAS_AMB], self.metrics[_DIFF_BIAS_DIS])


@dataclass(frozen=True, slots=True)
class DebiasingComparison:
    """One model with default and with debiased prompts.

    ``default`` and ``debiased`` are averages over all rows of the results, as in the original; the other two are
    averages over only the rows of the group "overall".
    """

    model: str
    default: ResultsAverage
    debiased: ResultsAverage
    default_overall: ResultsAverage
    debiased_overall: ResultsAverage

    def text(self) -> str:
        """Return what the original prints. As there, % means percentage points."""
        diff_bias_change = points(self.default.diff_bias, self.debiased.diff_bias)
        accuracy_change = points(self.default.accuracy, self.debiased.accuracy)
        lines = [
            self.model,
            "Default Average",
            float_series(self.default.metrics),
            "Debiased Average",
            float_series(self.debiased.metrics),
            f"diff_bias_diff: {diff_bias_change}%, accuracy_diff: {accuracy_change}%",
        ]
        return "\n".join(lines)

    def details(self) -> str:
        """Return what the original does not print: numbers of rows, relative changes, and the overall rows alone."""
        lines = [f"details for {self.model}; changes are in percentage points (the % above are points too)"]
        for scope, before, after in (
            ("all rows", self.default, self.debiased),
            ("overall rows", self.default_overall, self.debiased_overall),
        ):
            lines.append(_change_text(f"diff-bias, {scope}", before, after, before.diff_bias, after.diff_bias))
            lines.append(_change_text(f"accuracy, {scope}", before, after, before.accuracy, after.accuracy))
        for name in METRICS:
            old = _number(self.default.metrics[name])
            new = _number(self.debiased.metrics[name])
            lines.append(f"{name}, all rows: {old} to {new}")
        lines.append(
            "the mean over all rows counts every sample three times (overall, by label, by category) and gives small "
            "categories the same weight as large ones"
        )
        return "\n".join(lines)


def compare(default: str, debiased: str, prompt_ids: Sequence[str], models: Sequence[str]) -> list[DebiasingComparison]:
    """Compare the results in ``{default}_{prompt id}.tsv`` with those in ``{debiased}_{prompt id}.tsv``."""
    before = _read_results(default, prompt_ids)
    after = _read_results(debiased, prompt_ids)
    comparisons = []
    for model in models:
        comparison = DebiasingComparison(
            _shown_name(model, [*before, *after]),
            default=_average(before, model, only_overall=False),
            debiased=_average(after, model, only_overall=False),
            default_overall=_average(before, model, only_overall=True),
            debiased_overall=_average(after, model, only_overall=True),
        )
        comparisons.append(comparison)
    return comparisons


@dataclass(frozen=True, slots=True)
class _ResultsRow:
    model: str
    group: str
    values: tuple[float, ...]


def _read_results(name: str, prompt_ids: Sequence[str]) -> list[_ResultsRow]:
    rows: list[_ResultsRow] = []
    for prompt_id in prompt_ids:
        table = read_table(Path(f"{name}_{prompt_id}.tsv"), "results", HEADER)
        columns = [table.column(column) for column in HEADER]
        for row, (model, group, *cells) in enumerate(zip(*columns, strict=True)):
            try:
                # An empty cell is a metric without data.
                values = [float(cell or "nan") for cell in cells]
            except ValueError as error:
                raise DataError(f"{table.where(row)}: {error}; correct the row") from None
            rows.append(_ResultsRow(model, group, tuple(values)))
    return rows


def _shown_name(model: str, rows: Sequence[_ResultsRow]) -> str:
    """Return the model as step 5 names it: an alias is followed by the model that it stands for."""
    names: list[str] = []
    for row in rows:
        if is_shown_as(model, row.model) and row.model not in names:
            names.append(row.model)
    return ", ".join(names) or model


def _average(rows: Sequence[_ResultsRow], model: str, *, only_overall: bool) -> ResultsAverage:
    values = []
    for row in rows:
        if is_shown_as(model, row.model) and (row.group == _OVERALL or not only_overall):
            values.append(row.values)
    # The shape is given, because a model may have no rows at all.
    columns = np.array(values, np.float64).reshape(-1, len(METRICS)).T
    means = [scores.mean_over_prompts(column) for column in columns]
    return ResultsAverage(dict(zip(METRICS, means, strict=True)), len(values))


def points(before: float, after: float) -> float:
    """Return the change in percentage points to two decimals, rounded as numpy rounds."""
    return float(np.round(np.float64(after - before) * 100, 2))


def _change_text(title: str, before: ResultsAverage, after: ResultsAverage, old: float, new: float) -> str:
    relative = "no relative change"
    if old and not np.isnan(new - old):
        relative = f"{(new - old) / abs(old):+.1%} relative"
    rows = f"{before.rows} rows"
    if before.rows != after.rows:
        rows = f"{before.rows} and {after.rows} rows"
    change = _number(100 * (new - old), "+.2f")
    return f"{title} ({rows}): {_number(old)} to {_number(new)}, {change} points, {relative}"


def _number(value: float, form: str = ".4f") -> str:
    if np.isnan(value):
        return "no data"
    return format(value, form)
