"""The headline of an evaluation: the one number that it reports first for each model, and models against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lmassay.contracts import Evaluation
from lmassay.errors import UserError
from lmassay.plugins.evaluations import evaluation_of, evaluations, metric_of, variation_of, view_of
from lmassay.plugins.hooks import call_hook, optional_instance_of
from lmassay.reporting.variants import group_variants, pool, question_signature
from lmassay.running.differences import distinguishing_values
from lmassay.statistics.comparability import Marks, marks
from lmassay.statistics.comparison import Comparison, Side, compare_runs, load_side, with_false_discovery_rate
from lmassay.storage.store import Store
from lmassay.types import Better, Metric, Result, Row, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The headline of an evaluation for one model.

    ``records`` are the runs that the number was computed from, ``scope`` is what it was computed over, and ``beside``
    lists more facts about this model. ``meaning`` and ``limits`` are the same for every model. Title and meaning are
    those of the metric unless given.
    """

    evaluation: Evaluation
    metric: str
    result: Result
    scope: str
    records: Sequence[RunRecord]
    beside: Sequence[str] = ()
    title: str = ""
    meaning: str = ""
    limits: str = ""
    compared_by: str = ""
    """The metric by which models are compared, if the number itself is not a mean over examples."""
    keep: Callable[[Row], bool] | None = None
    """Which rows of pooled runs the number was computed over, so that models are compared over the same; None: all."""
    comparison_note: str = ""
    """A note on the difference between two models in this number."""
    unfinished_runs: Sequence[RunRecord] = ()
    """Runs of the same question that have no results."""
    shown_model: str = ""
    """The model with whatever distinguishes this number from others of the same model, such as another scorer."""

    @property
    def about(self) -> Metric:
        """The metric as it was declared."""
        return metric_of(self.records[0], self.metric)

    @property
    def model(self) -> str:
        """The label of the model."""
        return self.records[0].model

    @property
    def model_name(self) -> str:
        """The model as it is shown next to other numbers of the same question."""
        return self.shown_model or self.model

    @property
    def question(self) -> str:
        """The question of the evaluation."""
        return self.evaluation.question

    @property
    def shown_title(self) -> str:
        """The title of the number."""
        return self.title or self.about.display_title

    @property
    def shown_meaning(self) -> str:
        """What the number means, in a sentence or two."""
        return self.meaning or self.about.meaning

    @property
    def better(self) -> Better:
        """Which direction is better."""
        return self.about.better

    @property
    def explanation(self) -> str:
        """What the number means and what it does not show, in one text."""
        return " ".join(text for text in (self.shown_meaning, self.limits) if text)

    @property
    def unfinished(self) -> list[str]:
        """The runs of the question that are not done, with their status."""
        messages = []
        for record in (*self.records, *self.unfinished_runs):
            if record.status != "done":
                messages.append(f"{record.label}: {record.status}")
        return messages


def one_per_metric(shown: Sequence[Headline]) -> list[Headline]:
    """The first headline of each evaluation and metric, whichever model it is of."""
    first: dict[tuple[str, str], Headline] = {}
    for headline in shown:
        first.setdefault((headline.evaluation.name, headline.metric), headline)
    return list(first.values())


def value_with_interval(result: Result | None) -> str:
    """A number within a sentence: two decimals, with its interval or else its n."""
    if result is None or result.value is None:
        return "no data"
    if result.low is None or result.high is None:
        return f"{result.value:.2f} (n = {result.n})"
    return f"{result.value:.2f} [{result.low:.2f}, {result.high:.2f}]"


def counted(count: int, noun: str) -> str:
    """A number of things: ``1 attack``, ``2 attacks``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}s"


# --- the headlines of all evaluations and models ----------------------------------------------------------------------


Reasons = Mapping[str, Mapping[str, str]]
"""Model → name of the evaluation → why there is no number."""


def headlines(store: Store, records: Sequence[RunRecord]) -> list[Headline]:
    """The headlines of all runs that have results, in the order of the evaluations."""
    # Runs of an evaluation without a question, such as imported logs, have no place on a card.
    with_question = [record for record in records if _has_question(record)]
    shown: list[Headline] = []
    for variants in group_variants(with_question):
        finished = [record for record in variants if record.results]
        headline = _headline(store, finished)
        if headline is None or headline.result.value is None:
            continue
        unfinished = [record for record in variants if not record.results]
        shown.append(replace(headline, unfinished_runs=unfinished))
    named = _with_model_names(_with_task_names(shown), marks(records))
    order = [evaluation.name for evaluation in evaluations()]
    return sorted(named, key=lambda headline: order.index(headline.evaluation.name))


def _with_task_names(shown: Sequence[Headline]) -> list[Headline]:
    """Add the name of the task to the scope, if several tasks of one evaluation have a number of the same model."""
    tasks: dict[tuple[str, str], set[str]] = {}
    for headline in shown:
        tasks.setdefault((headline.evaluation.name, headline.model), set()).add(headline.records[0].task)
    named = []
    for headline in shown:
        if len(tasks[headline.evaluation.name, headline.model]) > 1:
            headline = replace(headline, scope=f"task {headline.records[0].task}, {headline.scope}")
        named.append(headline)
    return named


def _with_model_names(shown: Sequence[Headline], run_marks: Marks) -> list[Headline]:
    """Set the name under which each model is shown.

    It is the model's label, followed by the options that distinguish several numbers of one model, and by the marks of
    runs that were measured differently.
    """
    same_model: dict[tuple[str, str, str], list[int]] = {}
    for position, headline in enumerate(shown):
        key = (headline.evaluation.name, headline.records[0].task, headline.model)
        same_model.setdefault(key, []).append(position)
    names = [headline.model for headline in shown]
    for positions in same_model.values():
        configs = []
        for position in positions:
            configs.append([record.config for record in shown[position].records])
        for position, options in zip(positions, distinguishing_values(configs), strict=True):
            if options:
                names[position] = f"{names[position]}, {options}"
    uses = Counter((headline.records[0].task, name) for headline, name in zip(shown, names, strict=True))
    named = []
    for headline, name in zip(shown, names, strict=True):
        first = headline.records[0]
        if uses[first.task, name] > 1:
            # No option distinguishes them if, say, a file had other data in it; then the id of the first run does.
            name = f"{name}, {first.id.rpartition('-')[2]}"
        marks_of_runs = dict.fromkeys(run_marks.of_run.get(record.id, "") for record in headline.records)
        for mark in marks_of_runs:
            if mark:
                name = f"{name} {mark}"
        named.append(replace(headline, shown_model=name))
    return named


def _headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """The headline that the evaluation's hook computes; the task's first metric if there is no hook, or it fails."""
    if not records:
        return None

    def general() -> Headline | None:
        return _general_headline(records)

    evaluation = evaluation_of(records[0])
    make_headline = view_of(records[0]).headline
    if evaluation is None or make_headline is None:
        return general()
    return call_hook(
        evaluation,
        "headline",
        make_headline,
        store,
        records,
        reads=optional_instance_of(Headline),
        otherwise=general,
    )


def _general_headline(records: Sequence[RunRecord]) -> Headline | None:
    """The first metric of the latest run."""
    record = records[-1]
    evaluation = evaluation_of(record)
    metrics = record.design.headline or [result.metric for result in record.results]
    result = record.result(metrics[0])
    if evaluation is None or result is None:
        return None
    return Headline(
        evaluation=evaluation,
        metric=metrics[0],
        result=result,
        scope=counted(result.n, "example"),
        records=[record],
    )


def _has_question(record: RunRecord) -> bool:
    """True for runs of an evaluation that asks a question; imported results of other tools ask none."""
    evaluation = evaluation_of(record)
    return evaluation is not None and bool(evaluation.question)


def inapplicable_evaluations(records: Sequence[RunRecord]) -> Reasons:
    """The evaluations of a card that do not apply to a model, and why."""
    reasons: dict[str, dict[str, str]] = {}
    for record in records:
        card = record.provenance.card
        if card is None:
            continue
        for model, reasons_of_model in card.absent.items():
            reasons.setdefault(model, {}).update(reasons_of_model)
    return reasons


def evaluations_without_result(records: Sequence[RunRecord], shown: Sequence[Headline]) -> Reasons:
    """The evaluations that were run on a model but gave no number, and why."""
    with_number = {(headline.evaluation.name, headline.model) for headline in shown}
    reasons: dict[str, dict[str, str]] = {}
    # Failed runs first: one of them is the reason, not a run next to it that is done.
    for record in sorted(records, key=lambda record: record.status == "done"):
        evaluation = evaluation_of(record)
        if evaluation is None or not evaluation.question:
            continue
        if (evaluation.name, record.model) not in with_number:
            reasons.setdefault(record.model, {}).setdefault(evaluation.name, _no_result_reason(record))
    return reasons


def _no_result_reason(record: RunRecord) -> str:
    if record.status == "done":
        return f"{record.label} is done, but none of the answers could be scored"
    if record.note:
        return f"{record.label} is {record.status}: {record.note}"
    return f"{record.label} is {record.status}"


# --- models against each other ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelDifference:
    """The difference between a model and the first model in the headline of an evaluation."""

    base: Headline
    new: Headline
    row: Comparison

    @property
    def title(self) -> str:
        """The title of the number that is compared."""
        if self.row.metric == self.new.metric:
            return self.new.shown_title
        return metric_of(self.new.records[0], self.row.metric).display_title


def differences_to_first_model(store: Store, shown: Sequence[Headline]) -> list[ModelDifference]:
    """Each further model against the first one of its evaluation, if both were asked the same question.

    Models are paired by example. p-values are adjusted for the number of differences.
    """
    differences: list[ModelDifference] = []
    for evaluation in evaluations():
        first: dict[tuple[str, str], Headline] = {}
        for headline in shown:
            if headline.evaluation.name != evaluation.name:
                continue
            # Only numbers of the same metric and the same question can be compared.
            base = first.setdefault((headline.metric, question_signature(headline.records[0])), headline)
            if base is headline or _model_identity(base) == _model_identity(headline):
                continue
            metric = headline.compared_by or headline.metric
            for row in _compared(_side(store, base), _side(store, headline), metric):
                differences.append(ModelDifference(base, headline, row))
    # Adjusted over all evaluations together, because the card shows them in one table.
    adjusted_rows = with_false_discovery_rate([difference.row for difference in differences])
    adjusted = []
    for difference, row in zip(differences, adjusted_rows, strict=True):
        adjusted.append(replace(difference, row=row))
    return adjusted


def _model_identity(headline: Headline) -> object:
    return headline.records[0].depends_on.get("model")


def _side(store: Store, headline: Headline) -> Side:
    if variation_of(headline.records[0]).pooled:
        return pool(store, headline.records, headline.keep)
    # Pooling would change the ids of examples, which a single run must keep.
    return load_side(store, headline.records[0])


def _compared(base: Side, other: Side, metric: str) -> list[Comparison]:
    try:
        return compare_runs(base, [other], [metric])
    except UserError:
        # They have no example in common, so there is no difference to show.
        return []
