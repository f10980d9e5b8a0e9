"""The table of scores and costs, for methods that train and for methods that prompt a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.evaluations.fewshot.protocol.costs import SplitCost
from lmassay.evaluations.fewshot.protocol.strategies import ABBREVIATIONS
from lmassay.evaluations.fewshot.protocol.studies import Strategy, Study
from lmassay.evaluations.fewshot.report.table_blocks import estimate_cell
from lmassay.evaluations.fewshot.report.tables import estimate_text, task_title
from lmassay.reporting.blocks import Body, Cell, Table, TableRow, name

COLUMNS = ("method", "task", "test", "out of choice", "tokens in / out", "USD", "training s")
TITLE = "Scores and cost"
EXPLANATION = (
    "Each row shows the selected configuration of a method on a task: its test score and its out-of-choice rate (the "
    "share of test examples for which no label could be read from the answer), both in percent, and its mean cost per "
    "split; n is the number of splits. Tokens and USD cover all prompts and answers about dev and test examples, "
    "including answers from the cache; seconds are the training time. –: does not apply. n/a: unknown, such as USD if "
    "the model's prices are not given."
)
_UNKNOWN = "n/a"
_NONE = "–"


@dataclass(frozen=True, slots=True)
class CostRow:
    """A row of the table: one method on one task, with its score and the mean cost of a split."""

    study: Study
    strategy: Strategy
    task: str
    shows_strategy: bool
    """Whether the row names the split strategy: only if its study has several, since they share the study's title."""

    @property
    def title(self) -> str:
        """The method and model, and the split strategy if there are several."""
        if self.shows_strategy:
            abbreviation = ABBREVIATIONS.get(self.strategy.name, self.strategy.name)
            return f"{self.study.title}, {self.strategy.label.replace(self.strategy.name, abbreviation)}"
        return self.study.title

    @property
    def cost(self) -> SplitCost:
        """The mean cost of one split of the selected configuration."""
        return self.strategy.verdicts[self.task].cost

    @property
    def n_text(self) -> str:
        """The number of splits behind the row's numbers."""
        return f"n={self.strategy.verdicts[self.task].test.n}"

    def cost_texts(self) -> list[str]:
        """Tokens, USD and seconds as text. A dash means "does not apply to the method", n/a means "unknown"."""
        cost = self.cost
        if cost.trains:
            seconds = _UNKNOWN if cost.seconds is None else f"{cost.seconds:,.1f}"
            return [_NONE, _NONE, seconds]
        if not cost.is_recorded:
            return [_UNKNOWN, _UNKNOWN, _UNKNOWN]
        tokens = _UNKNOWN
        if cost.tokens_in is not None and cost.tokens_out is not None:
            tokens = f"{cost.tokens_in:,.0f} / {cost.tokens_out:,.0f}"
        usd = _UNKNOWN if cost.usd is None else f"{cost.usd:.4f}"
        return [tokens, usd, _NONE]


def cost_rows(studies: Sequence[Study]) -> list[CostRow]:
    """One row for each study (a method with a model), split strategy and task."""
    rows = []
    for study in studies:
        for strategy in study.main_strategies:
            for task in strategy.verdicts:
                rows.append(CostRow(study, strategy, task, len(study.main_strategies) > 1))
    return rows


def cost_texts(studies: Sequence[Study]) -> list[list[str]]:
    """The rows of the table as text for the terminal, with intervals below their numbers."""
    texts = []
    for row in cost_rows(studies):
        verdict = row.strategy.verdicts[row.task]
        test = estimate_text(verdict.test).replace(" [", "\n[")
        out_of_choice = estimate_text(verdict.out_of_choice).replace(" [", "\n[")
        texts.append([f"{row.title}\n  {row.n_text}", task_title(row.task), test, out_of_choice, *row.cost_texts()])
    return texts


def cost_table(studies: Sequence[Study]) -> Table:
    """The table for pages, Markdown and LaTeX."""
    table_rows = []
    for row in cost_rows(studies):
        verdict = row.strategy.verdicts[row.task]
        cells = [
            name(row.title, row.n_text),
            Cell(task_title(row.task), kind="text"),
            estimate_cell(verdict.test),
            estimate_cell(verdict.out_of_choice),
        ]
        cells += [Cell(text) for text in row.cost_texts()]
        table_rows.append(TableRow(cells))
    method, task, *numbers = COLUMNS
    header = [Cell(method, kind="text"), Cell(task, kind="text"), *map(Cell, numbers)]
    return Table(EXPLANATION, [header], [Body(table_rows)])
