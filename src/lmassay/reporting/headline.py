"""The headline of an evaluation: the number that it reports first for each model, and how models differ in it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import TypeVar

from lmassay.contracts import Evaluation
from lmassay.errors import UserError
from lmassay.plugins.evaluations import evaluation_of, evaluations, metric_of, variation_of, view_of
from lmassay.plugins.hooks import call_hook, optional_instance_of
from lmassay.reporting.variants import group_variants, pool, question_signature, variant_of
from lmassay.running.differences import distinguishing_values
from lmassay.statistics.comparability import Marks, marks
from lmassay.statistics.comparison import Comparison, compare_runs, with_false_discovery_rate
from lmassay.statistics.power import distinguishable
from lmassay.statistics.sides import Side, comparable_sides, load_side
from lmassay.storage.store import Store
from lmassay.types import Better, Metric, Result, Row, RunRecord
from lmassay.types.wording import counted as counted  # plug-ins import it from here
from lmassay.types.wording import language_name, model_name

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """A number to compare a model's number with, such as a published result or what guessing would reach."""

    label: str
    """Whose number it is, such as ``people`` or ``guessing``."""
    value: float
    source: str = ""
    """Where it was published, or how it was computed."""
    n: int | None = None
    """The number of examples, if it is known."""


@dataclass(frozen=True, slots=True)
class ReferenceTable:
    """Reference numbers for one of a headline's numbers."""

    title: str
    """What is compared, such as ``accuracy on BLiMP``."""
    rows: Sequence[ReferenceRow]
    own: Result | None = None
    """The model's own number in this comparison; None for the number of the headline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The headline of an evaluation for one model: its main number, and the texts that are shown with it.

    For some empty fields there is a default: the properties ``shown_model``, ``shown_title`` and ``shown_meaning``
    return the field or its default.
    """

    evaluation: Evaluation
    metric: str
    result: Result
    scope: str
    """What the number was computed from, such as ``120 examples``."""
    records: Sequence[RunRecord]
    """The runs that the number was computed from."""
    details: Sequence[str] = ()
    """Further values and facts about this model, each as a short text that is shown next to the number."""
    title: str = ""
    """The title of the number, if it is not the title of the metric."""
    meaning: str = ""
    """What the number means, if the metric's own description does not fit. It is the same for every model."""
    limits: str = ""
    """What the number does not show, in a sentence or two. It is the same for every model."""
    compared_by: str = ""
    """The metric by which models are compared, if the number itself is not a mean over examples."""
    keep: Callable[[Row], bool] | None = None
    """A filter that returns True for the rows of the runs from which the number was computed; None: all rows.

    Models are compared on the same rows.
    """
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Rows that do not count, as group → label, such as inputs that an attack left unchanged.

    Unlike ``keep``, it works on whole columns, so it is fast for millions of rows that are stored in batches.
    """
    comparison_note: str = ""
    """A note on the difference between two models in this number."""
    references: Sequence[ReferenceTable] = ()
    """Published numbers to compare with. They are the same for every model on the same data."""
    compared_result: Result | None = None
    """The result of the metric ``compared_by``, if that is given; it says how far models must differ."""
    runs_without_results: Sequence[RunRecord] = ()
    """Runs of the same model for the same research question that have no results."""
    distinguished_model: str = ""
    """The model's name and what distinguishes this number from other numbers of the model, such as another scorer."""
    beside: InitVar[Sequence[str]] = ()
    """The old name of ``details``, which plug-ins for earlier versions use."""

    def __post_init__(self, beside: Sequence[str]) -> None:
        """Accept the old name of ``details``."""
        if beside:
            warnings.warn("Headline(beside=…) is deprecated; use details=…", DeprecationWarning, stacklevel=3)
            # The class is frozen, so the field cannot be assigned in the usual way.
            object.__setattr__(self, "details", beside)

    @property
    def declared_metric(self) -> Metric:
        """The declaration of the metric."""
        return metric_of(self.records[0], self.metric)

    @property
    def model(self) -> str:
        """The label of the model."""
        return self.records[0].model

    @property
    def shown_model(self) -> str:
        """The name under which the model is shown next to other numbers for the same research question."""
        return self.distinguished_model or self.model

    @property
    def question(self) -> str:
        """The research question that the evaluation answers."""
        return self.evaluation.question

    @property
    def shown_title(self) -> str:
        """The title of the number."""
        return self.title or self.declared_metric.display_title

    @property
    def shown_meaning(self) -> str:
        """What the number means, in a sentence or two."""
        return self.meaning or self.declared_metric.meaning

    @property
    def better(self) -> Better:
        """Which direction is better."""
        return self.declared_metric.better

    @property
    def explanation(self) -> str:
        """What the number means and what it does not show, in one text."""
        return " ".join(text for text in (self.shown_meaning, self.limits) if text)

    @property
    def distinguishable(self) -> float | None:
        """How far two models must differ in this number to be distinguished; None without an interval."""
        result = self.result
        if self.compared_by:
            result = self.compared_result or self.records[0].result(self.compared_by) or result
        return distinguishable(result, self.records[0].settings.confidence)

    @property
    def distinguishable_text(self) -> str:
        """``distinguishable`` as a sentence; empty without an interval."""
        difference = self.distinguishable
        if difference is None:
            return ""
        in_metric = ""
        if self.compared_by:
            in_metric = f" in {metric_of(self.records[0], self.compared_by).display_title}"
        return f"Two models must differ{in_metric} by about {difference:.2f} to be distinguished."

    @property
    def unfinished_messages(self) -> list[str]:
        """A message about each run for the research question that is not done, with its status."""
        messages = []
        for record in (*self.records, *self.runs_without_results):
            if record.status != "done":
                messages.append(f"{record.label}: {record.status}")
        return messages


def one_per_metric(shown_headlines: Sequence[Headline]) -> list[Headline]:
    """Return the first headline for each combination of evaluation and metric, regardless of the model."""
    first: dict[tuple[str, str], Headline] = {}
    for headline in shown_headlines:
        first.setdefault((headline.evaluation.name, headline.metric), headline)
    return list(first.values())


def value_with_interval(result: Result | None) -> str:
    """Return a number for use in a sentence: with two decimals and its interval, or its n if it has no interval."""
    if result is None or result.value is None:
        return "no data"
    if result.low is None or result.high is None:
        return f"{result.value:.2f} (n = {result.n})"
    return f"{result.value:.2f} [{result.low:.2f}, {result.high:.2f}]"


# --- the headlines of all evaluations and models ----------------------------------------------------------------------


Reasons = Mapping[str, Mapping[str, str]]
"""Model → name of the evaluation → why there is no number."""


def headlines(store: Store, records: Sequence[RunRecord]) -> list[Headline]:
    """Return the headlines of all runs that have results, in the order of the evaluations."""
    # Runs of an evaluation without a research question, such as imported logs, have no headline.
    with_question = [record for record in records if _has_question(record)]
    shown_headlines: list[Headline] = []
    # Each group contains the runs of one task and model that differ only in what the task varies, such as the attack.
    # Together they answer one research question, so they have one headline.
    for variants in group_variants(with_question):
        finished = []
        without_results = []
        for record in variants:
            if record.results:
                finished.append(record)
            else:
                without_results.append(record)
        headline = _headline(store, finished)
        if headline is None or headline.result.value is None:
            continue
        shown_headlines.append(replace(headline, runs_without_results=without_results))
    named = _with_model_names(_with_task_names(shown_headlines), marks(records))
    order = [evaluation.name for evaluation in evaluations()]
    return sorted(named, key=lambda headline: order.index(headline.evaluation.name))


def _with_task_names(shown_headlines: Sequence[Headline]) -> list[Headline]:
    """Add the name of the task to the scope, if a model has numbers for several tasks of one evaluation."""
    tasks: dict[tuple[str, str], set[str]] = {}
    for headline in shown_headlines:
        tasks.setdefault((headline.evaluation.name, headline.model), set()).add(headline.records[0].task)
    named = []
    for headline in shown_headlines:
        if len(tasks[headline.evaluation.name, headline.model]) > 1:
            headline = replace(headline, scope=f"task {headline.records[0].task}, {headline.scope}")
        named.append(headline)
    return named


def _with_model_names(shown_headlines: Sequence[Headline], run_marks: Marks) -> list[Headline]:
    """Set the name under which each model is shown.

    It is the model's label, followed by the options in which several numbers of one model differ, and by the marks
    (such as [a]) of runs that were measured with different settings.
    """
    same_model: dict[tuple[str, str, str], list[int]] = {}
    for position, headline in enumerate(shown_headlines):
        key = (headline.evaluation.name, headline.records[0].task, headline.model)
        same_model.setdefault(key, []).append(position)
    names = [model_name(headline.model) for headline in shown_headlines]
    for positions in same_model.values():
        configs = []
        for position in positions:
            configs.append([record.config for record in shown_headlines[position].records])
        for position, options in zip(positions, distinguishing_values(configs), strict=True):
            if options:
                names[position] = f"{names[position]}, {options}"
    name_counts: Counter[tuple[str, str]] = Counter()
    for headline, name in zip(shown_headlines, names, strict=True):
        name_counts[headline.records[0].task, name] += 1
    named = []
    for headline, name in zip(shown_headlines, names, strict=True):
        first = headline.records[0]
        if name_counts[first.task, name] > 1:
            # Runs may have the same options and still differ, because a file was changed between them. Their ids always
            # differ.
            name = f"{name}, {first.id.rpartition('-')[2]}"
        # Runs with the same mark, such as [a], were measured with the same settings; a note explains the marks. The
        # runs of one headline may have several marks: each is added once.
        marks_of_runs = dict.fromkeys(run_marks.of_run.get(record.id, "") for record in headline.records)
        for mark in marks_of_runs:
            if mark:
                name = f"{name} {mark}"
        named.append(replace(headline, distinguished_model=name))
    return named


def _headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """Return the headline that the evaluation's hook computes; the default one if it has no hook or the hook fails."""
    if not records:
        return None

    def default() -> Headline | None:
        return _default_headline(records)

    evaluation = evaluation_of(records[0])
    make_headline = view_of(records[0]).headline
    if evaluation is None or make_headline is None:
        return default()
    return call_hook(
        evaluation,
        "headline",
        make_headline,
        store,
        records,
        reads=optional_instance_of(Headline),
        otherwise=default,
    )


def _default_headline(records: Sequence[RunRecord]) -> Headline | None:
    """Return a headline with the first headline metric of the last run, or else the metric of its first result."""
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
        scope=counted(result.n, record.unit),
        records=[record],
    )


def _has_question(record: RunRecord) -> bool:
    """True for runs of an evaluation that has a research question; imported results of other tools have none."""
    evaluation = evaluation_of(record)
    return evaluation is not None and bool(evaluation.question)


def model_order(records: Sequence[RunRecord]) -> list[str]:
    """Return all models in the order in which they are shown.

    On a card, it is the order in which the user named them, including models that have no run; otherwise it is the
    order of the runs.
    """
    models: dict[str, None] = {}
    for record in records:
        card = record.provenance.card
        if card is not None:
            models |= dict.fromkeys(card.models)
        models[record.model] = None
    # Cards of earlier versions did not record all models.
    for record in records:
        if record.provenance.card is not None:
            models |= dict.fromkeys(record.provenance.card.absent)
    return list(models)


def with_missing_models(
    rows: Sequence[tuple[str, Item]], missing: Sequence[tuple[str, Item]], order: Sequence[str]
) -> list[tuple[str, Item]]:
    """Insert the rows of models without a number among the others, at their places in ``order``.

    Each row is given as (model, row).
    """
    merged = list(rows)
    for model, row in missing:
        rank = order.index(model)
        later = (position for position, (other, _) in enumerate(merged) if order.index(other) > rank)
        merged.insert(next(later, len(merged)), (model, row))
    return merged


def inapplicable_evaluations(records: Sequence[RunRecord]) -> Reasons:
    """Return the evaluations of a card that do not apply to a model, with the reason; models in the card's order."""
    reasons: dict[str, dict[str, str]] = {}
    for record in records:
        card = record.provenance.card
        if card is None:
            continue
        for model, reasons_of_model in card.absent.items():
            reasons.setdefault(model, {}).update(reasons_of_model)
    return {model: reasons[model] for model in model_order(records) if model in reasons}


def evaluations_without_result(records: Sequence[RunRecord], shown_headlines: Sequence[Headline]) -> Reasons:
    """Return the evaluations that were run but gave no number, with the reason; models in the card's order."""
    with_number = {(headline.evaluation.name, headline.model) for headline in shown_headlines}
    reasons: dict[str, dict[str, str]] = {}
    for record in sorted(records, key=_reason_rank):
        evaluation = evaluation_of(record)
        if evaluation is None or not evaluation.question:
            continue
        if (evaluation.name, record.model) not in with_number:
            reasons.setdefault(record.model, {}).setdefault(evaluation.name, _no_result_reason(record))
    return {model: reasons[model] for model in model_order(records) if model in reasons}


def _reason_rank(record: RunRecord) -> tuple[bool, bool]:
    """Return a key that sorts runs by how well they explain a missing number (False < True).

    Unfinished runs come first, then those without scores. A run with scores comes last, because it is not the reason
    why the number is missing; an example is the baseline that always answers the most frequent label.
    """
    return (record.status == "done", _has_number(record))


def _has_number(record: RunRecord) -> bool:
    # Only the first headline metric, because others may count what could not be scored, such as out-of-choice answers.
    main_results = [record.result(metric) for metric in record.design.headline[:1]] or record.results
    return any(result is not None and result.value is not None for result in main_results)


def _no_result_reason(record: RunRecord) -> str:
    if record.status == "done" and _has_number(record):
        return f"{record.label} is done, but it alone does not answer this question"
    if record.status == "done":
        return f"{record.label} is done, but none of the answers could be scored"
    if record.note:
        return f"{record.label} is {record.status}: {record.note}"
    return f"{record.label} is {record.status}"


def card_data_text(records: Sequence[RunRecord]) -> str:
    """Return a sentence about the data of a card; empty if the runs belong to cards on different data, or to none."""
    kinds: set[tuple[str, str]] = set()
    for record in records:
        if record.provenance.card is not None:
            kinds.add((record.provenance.card.data, record.provenance.card.language))
    if len(kinds) != 1:
        return ""
    data, language = kinds.pop()
    if data == "own":
        return (
            "A first impression, from sentences written for this card. To compare with published numbers, run: "
            "lmassay card --data published"
        )
    return f"On published data in {language_name(language)}, with published results to compare with where they exist."


# --- comparisons of models --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelDifference:
    """The difference between two models in the headline of an evaluation: ``new`` minus ``base``, the first model."""

    base: Headline
    new: Headline
    comparison: Comparison

    @property
    def title(self) -> str:
        """The title of the number that is compared."""
        if self.comparison.metric == self.new.metric:
            return self.new.shown_title
        title = metric_of(self.new.records[0], self.comparison.metric).display_title
        if len(self.new.records) == 1:
            return title
        # The headline combines several data sets, and this comparison is on one of them.
        return f"{title}, {self.comparison.new_label}"


def differences_to_first_model(store: Store, shown_headlines: Sequence[Headline]) -> list[ModelDifference]:
    """Compare each further model with the first one of its evaluation, if they were measured in the same way.

    Models are paired by example. p-values are adjusted for the number of all comparisons.
    """
    differences: list[ModelDifference] = []
    for evaluation in evaluations():
        bases: dict[tuple[str, str], list[Headline]] = {}
        for headline in shown_headlines:
            if headline.evaluation.name != evaluation.name:
                continue
            # Only numbers of the same metric and the same question can be compared.
            bases_of_question = bases.setdefault((headline.metric, question_signature(headline.records[0])), [])
            base = _first_with_shared_variant(headline, bases_of_question)
            if base is None:
                bases_of_question.append(headline)
                continue
            if _model_identity(base) == _model_identity(headline):
                continue
            metric = headline.compared_by or headline.metric
            for base_side, side in _pairs_of_sides(store, base, headline):
                for comparison in _compare(base_side, side, metric):
                    differences.append(ModelDifference(base, headline, comparison))
    # Adjusted over all evaluations together, because the card shows them in one table.
    adjusted_comparisons = with_false_discovery_rate([difference.comparison for difference in differences])
    adjusted = []
    for difference, comparison in zip(differences, adjusted_comparisons, strict=True):
        adjusted.append(replace(difference, comparison=comparison))
    return adjusted


def _first_with_shared_variant(headline: Headline, bases: Sequence[Headline]) -> Headline | None:
    """Return the first of these headlines that has a variant in common with another one; None if there is none.

    Most models are asked all variants of a question, such as all attacks, and have one headline. Stored outputs differ
    from attack to attack, so each attack has a headline of its own.
    """
    if not variation_of(headline.records[0]).pooled:
        return bases[0] if bases else None
    variants = {variant_of(record) for record in headline.records}
    for base in bases:
        if not variants.isdisjoint(variant_of(record) for record in base.records):
            return base
    return None


def _model_identity(headline: Headline) -> object:
    """Return what identifies the model in the signature of its runs, because one model may have several labels."""
    return headline.records[0].depends_on.get("model")


def _pairs_of_sides(store: Store, base: Headline, new: Headline) -> Iterator[tuple[Side, Side]]:
    """Yield the pairs of sides to compare: all runs of both models pooled, or one pair of runs for each question."""
    if variation_of(base.records[0]).pooled:
        yield (
            pool(store, base.records, base.keep, base.excluded),
            pool(store, new.records, new.keep, new.excluded),
        )
        return
    # Pooling adds the variant to each example id. Tasks that pool nothing keep their ids, by which runs are paired.
    new_by_question = {question_signature(record): record for record in reversed(new.records)}
    compared_questions: set[str] = set()
    for record in base.records:
        question = question_signature(record)
        if question in new_by_question and question not in compared_questions:
            compared_questions.add(question)
            sides = [load_side(store, record), load_side(store, new_by_question[question])]
            base_side, new_side = comparable_sides(sides)
            yield base_side, new_side


def _compare(base: Side, other: Side, metric: str) -> list[Comparison]:
    """Compare two sides by a metric; the list is empty if they have no example in common."""
    try:
        return compare_runs(base, [other], [metric])
    except UserError:
        # The two models have no example in common, so there is no difference to show.
        return []
