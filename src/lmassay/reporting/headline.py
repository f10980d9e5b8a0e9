"""The one number that an evaluation puts first: its headline, of each model, and models against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lmassay.contracts import Evaluation
from lmassay.errors import UserError
from lmassay.plugins.evaluations import evaluation_of, evaluations, metric_of, variation_of, view_of
from lmassay.plugins.hooks import call_hook, optional_instance_of
from lmassay.reporting.variants import asked, pool, questions
from lmassay.running.differences import distinguishing_values
from lmassay.statistics.comparability import Marks, marks
from lmassay.statistics.comparison import Comparison, Side, compare_runs, load_side, with_false_discovery_rate
from lmassay.storage.store import Store
from lmassay.types import Better, Metric, Result, Row, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What an evaluation says about a model. ``records`` are the runs it was computed from.

    ``scope`` is what it was computed over and ``beside`` what else to know about this model; ``meaning`` and
    ``limits`` hold for every model. Title and meaning are the metric's own unless given.
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
    """The metric that models are compared by, if the number itself is no mean over examples."""
    keep: Callable[[Row], bool] | None = None
    """Which rows of pooled runs the number was computed over, so that models are compared over the same; None: all."""
    comparison_note: str = ""
    """What to know about the difference of two models in this number."""
    unfinished_runs: Sequence[RunRecord] = ()
    """Runs of the same question that have no results."""
    shown_model: str = ""
    """The model with what tells this number from others of the same model, such as another scorer."""

    @property
    def about(self) -> Metric:
        """The metric as it was declared."""
        return metric_of(self.records[0], self.metric)

    @property
    def model(self) -> str:
        return self.records[0].model

    @property
    def model_name(self) -> str:
        """The model as it is shown beside other numbers of the same question."""
        return self.shown_model or self.model

    @property
    def question(self) -> str:
        return self.evaluation.question

    @property
    def shown_title(self) -> str:
        return self.title or self.about.display_title

    @property
    def shown_meaning(self) -> str:
        return self.meaning or self.about.meaning

    @property
    def better(self) -> Better:
        return self.about.better

    @property
    def explanation(self) -> str:
        """What the number means and what it does not tell, in one text."""
        return " ".join(text for text in (self.shown_meaning, self.limits) if text)

    @property
    def unfinished(self) -> list[str]:
        runs = (*self.records, *self.unfinished_runs)
        return [f"{record.label}: {record.status}" for record in runs if record.status != "done"]


def one_per_metric(shown: Sequence[Headline]) -> list[Headline]:
    """One headline for each number that is shown, whatever model it is of."""
    first: dict[tuple[str, str], Headline] = {}
    for headline in shown:
        first.setdefault((headline.evaluation.name, headline.metric), headline)
    return list(first.values())


def value_with_interval(result: Result | None) -> str:
    """A number in running text: two digits, with its interval or its n."""
    if result is None or result.value is None:
        return "no data"
    if result.low is None or result.high is None:
        return f"{result.value:.2f} (n = {result.n})"
    return f"{result.value:.2f} [{result.low:.2f}, {result.high:.2f}]"


def counted(count: int, noun: str) -> str:
    """``1 attack``, ``2 attacks``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# --- the headline of every evaluation and model among runs, and models against each other -----------------------------


Reasons = Mapping[str, Mapping[str, str]]
"""Model → name of the evaluation → why there is no number."""


@dataclass(frozen=True, slots=True)
class ModelDifference:
    """A model's number against that of the first model."""

    base: Headline
    new: Headline
    row: Comparison

    @property
    def title(self) -> str:
        """The number that is compared."""
        if self.row.metric == self.new.metric:
            return self.new.shown_title
        return metric_of(self.new.records[0], self.row.metric).display_title


def headlines(store: Store, records: Sequence[RunRecord]) -> list[Headline]:
    """What runs that have results show, in the order of the evaluations."""
    shown: list[Headline] = []
    for members in questions([record for record in records if _has_question(record)]):
        headline = _headline(store, [record for record in members if record.results])
        if headline is not None and headline.result.value is not None:
            without_results = [record for record in members if not record.results]
            shown.append(replace(headline, unfinished_runs=without_results))
    order = [evaluation.name for evaluation in evaluations()]
    named = _with_options(_told_apart(shown), marks(records))
    return sorted(named, key=lambda headline: order.index(headline.evaluation.name))


def _told_apart(shown: Sequence[Headline]) -> list[Headline]:
    """With the name of the task, where several tasks of one evaluation have a number of the same model."""
    tasks: dict[tuple[str, str], set[str]] = {}
    for headline in shown:
        tasks.setdefault((headline.evaluation.name, headline.model), set()).add(headline.records[0].task)
    named = []
    for headline in shown:
        if len(tasks[headline.evaluation.name, headline.model]) > 1:
            headline = replace(headline, scope=f"task {headline.records[0].task}, {headline.scope}")
        named.append(headline)
    return named


def _with_options(shown: Sequence[Headline], of_runs: Marks) -> list[Headline]:
    """With the options that tell the numbers of one model apart, and the marks of what was measured differently."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number, headline in enumerate(shown):
        key = (headline.evaluation.name, headline.records[0].task, headline.model)
        groups.setdefault(key, []).append(number)
    names = [headline.model for headline in shown]
    for members in groups.values():
        records = [shown[number].records for number in members]
        options = distinguishing_values([[record.config for record in of_one] for of_one in records])
        for number, told in zip(members, options, strict=True):
            if told:
                names[number] = f"{names[number]}, {told}"
    times = Counter((headline.records[0].task, name) for headline, name in zip(shown, names, strict=True))
    named = []
    for headline, name in zip(shown, names, strict=True):
        first = headline.records[0]
        if times[first.task, name] > 1:
            # No option tells them apart if, say, a file had other data in it; then the first run does.
            name = f"{name}, {first.id.rpartition('-')[2]}"
        own_marks = dict.fromkeys(of_runs.of_run.get(record.id, "") for record in headline.records)
        named.append(replace(headline, shown_model=" ".join([name, *filter(None, own_marks)])))
    return named


def _headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """The headline that the evaluation computes; the first metric of a task whose evaluation does not say."""
    if not records:
        return None
    evaluation, make = evaluation_of(records[0]), view_of(records[0]).headline

    def general() -> Headline | None:
        return _general_headline(records)

    if evaluation is None or make is None:
        return general()
    return call_hook(
        evaluation, "headline", make, store, records, reads=optional_instance_of(Headline), otherwise=general
    )


def _general_headline(records: Sequence[RunRecord]) -> Headline | None:
    """The first metric of the latest run."""
    record = records[-1]
    evaluation = evaluation_of(record)
    names = record.design.headline or [result.metric for result in record.results]
    result = record.result(names[0])
    if evaluation is None or result is None:
        return None
    return Headline(
        evaluation=evaluation,
        metric=names[0],
        result=result,
        scope=counted(result.n, "example"),
        records=[record],
    )


def _has_question(record: RunRecord) -> bool:
    """True for runs of an evaluation that asks a question; imported results of other tools ask none."""
    evaluation = evaluation_of(record)
    return evaluation is not None and bool(evaluation.question)


def inapplicable_evaluations(records: Sequence[RunRecord]) -> Reasons:
    """Which evaluations of a card do not apply to which models, and why."""
    reasons: dict[str, dict[str, str]] = {}
    for record in records:
        card = record.provenance.card
        for model, why in ({} if card is None else card.absent).items():
            reasons.setdefault(model, {}).update(why)
    return reasons


def evaluations_without_result(records: Sequence[RunRecord], shown: Sequence[Headline]) -> Reasons:
    """Which evaluations were run on which models without a result, and why."""
    have = {(headline.evaluation.name, headline.model) for headline in shown}
    reasons: dict[str, dict[str, str]] = {}
    # The run that failed is the reason, not one beside it that did not.
    for record in sorted(records, key=lambda record: record.status == "done"):
        evaluation = evaluation_of(record)
        if evaluation is None or not evaluation.question:
            continue
        if (evaluation.name, record.model) not in have:
            reasons.setdefault(record.model, {}).setdefault(evaluation.name, _why(record))
    return reasons


def _why(record: RunRecord) -> str:
    if record.status == "done":
        return f"{record.label} is done, but none of the answers could be counted"
    return f"{record.label} is {record.status}" + (f": {record.note}" if record.note else "")


def differences_to_first_model(store: Store, shown: Sequence[Headline]) -> list[ModelDifference]:
    """Each further model against the first of its evaluation, where both were asked the same; paired, p adjusted."""
    pairs: list[tuple[Headline, Headline, Comparison]] = []
    for evaluation in evaluations():
        first: dict[tuple[str, str], Headline] = {}
        for headline in shown:
            if headline.evaluation.name != evaluation.name:
                continue
            base = first.setdefault((headline.metric, asked(headline.records[0])), headline)
            if base is not headline and _identity(base) != _identity(headline):
                metric = headline.compared_by or headline.metric
                rows = _compared(_side(store, base), _side(store, headline), metric)
                pairs += [(base, headline, row) for row in rows]
    adjusted = with_false_discovery_rate([row for *_, row in pairs])
    return [ModelDifference(base, new, row) for (base, new, _), row in zip(pairs, adjusted, strict=True)]


def _identity(headline: Headline) -> object:
    return headline.records[0].depends_on.get("model")


def _side(store: Store, headline: Headline) -> Side:
    """All variants of a question; examples of a single one must keep their ids."""
    if variation_of(headline.records[0]).pooled:
        return pool(store, headline.records, headline.keep)
    return load_side(store, headline.records[0])


def _compared(base: Side, other: Side, metric: str) -> list[Comparison]:
    try:
        return compare_runs(base, [other], [metric])
    except UserError:
        # They have nothing in common, so there is no difference to show.
        return []
