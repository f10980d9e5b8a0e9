"""Which runs are variants of one research question, and their pooled results.

Runs of one task on the same data and with the same settings answer the same research question. They are variants of it
if they differ only in how the question is asked: under different attacks, with different prompts, by different methods.
What a task varies is declared by its `Variation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from lmassay.plugins.evaluations import variation_of
from lmassay.statistics.combination import estimate_by_cluster_name, mean_over_runs
from lmassay.statistics.estimation import Estimate
from lmassay.statistics.intervals import mean_result
from lmassay.statistics.sides import Side, load_side
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from lmassay.types import Combination, Example, Result, Row, RowBatch, RunRecord, canonical

SAME_EXAMPLE = "example"
"""The group whose label is the id of the example without its variant.

The variants of an example are not independent, so pooled results are clustered by this group.
"""
# Parts of a signature that do not change the research question.
_NOT_PART_OF_QUESTION = frozenset({"lmassay", "model", "limit", "ci"})


def group_variants(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """Group the runs of one task and model that are variants of one research question.

    On a card, a group may also combine several research questions, such as one for each data set, if the task declares
    so. If a variant was run twice, the later run counts, unless only the earlier one has results.
    """
    groups: dict[str, dict[str, RunRecord]] = {}
    for record in records:
        signature = record.depends_on
        question = question_signature(record)
        variant = variant_of(record)
        card = record.provenance.card
        combined = variation_of(record).combined
        if card is not None and combined:
            # A card combines several runs, such as those on several data sets, in one headline. Runs of different cards
            # are not combined.
            question = canonical([card.size, card.data, card.language, question_signature(record, combined)])
            variant = canonical([variant, question_signature(record)])
        identity = [record.model, signature.get("model"), signature.get("limit"), question]
        variants = groups.setdefault(canonical(identity), {})
        earlier = variants.get(variant)
        if earlier is None or record.results or not earlier.results:
            variants[variant] = record
    return [list(variants.values()) for variants in groups.values()]


def question_signature(record: RunRecord, combined: Sequence[str] = ()) -> str:
    """Return the parts of a run's signature that two models must share to be compared.

    These are all parts except the model itself, the version of lmassay, the number of examples, the method for
    intervals, what the variants of a question differ in, and the parts named in ``combined``.
    """
    variation = variation_of(record)
    excluded = _NOT_PART_OF_QUESTION | {*variation.named, *variation.free, *combined}
    parts = {name: value for name, value in record.depends_on.items() if name not in excluded}
    if variation.pooled_by_file and variation.pooled in record.depends_on:
        # The prompts of one file are variants of one question. Default and debiased prompts, which are in two files,
        # are two questions.
        parts[variation.pooled] = str(record.depends_on[variation.pooled]).rpartition(".")[0]
    return canonical([record.task, parts])


def variant_of(record: RunRecord) -> str:
    """Return what distinguishes a run from the other variants of its research question.

    It is a part of the signature if the task declares one, and otherwise the label. Labels are less reliable: two
    strengths of an attack may have the same label, and one strength may have two labels.
    """
    variation = variation_of(record)
    pooled_part = record.depends_on.get(variation.pooled)
    if pooled_part is not None:
        return str(pooled_part)
    # A label names only the options that its sweep varies, so runs of different sweeps may have the same label although
    # their options differ.
    options = {}
    task = record.config.get("task")
    if isinstance(task, Mapping):
        options = {name: task[name] for name in variation.named if name in task}
    if options:
        return canonical([record.base_label, options])
    return record.base_label


def pooled(store: Store, records: Sequence[RunRecord], metric: str) -> Result | None:
    """Return a metric over all variants of a research question; for a single run, the result that the run has.

    A metric that is a combination of several means is computed for each variant and then averaged, as in the tables of
    a report. For other metrics, the examples of all variants are pooled.
    """
    if len(records) == 1:
        return records[0].result(metric)
    combination = records[0].design.combinations.get(metric)
    if combination is None:
        side = pool(store, records)
        return mean_result(side.table, metric, side.record.settings, cluster=side.record.design.cluster)
    return _mean_over_variants(store, records, metric, combination)


def _mean_over_variants(
    store: Store, records: Sequence[RunRecord], metric: str, combination: Combination
) -> Result | None:
    import numpy as np

    clusters = records[0].design.clusters
    results: list[Result] = []
    estimates: list[Estimate] = []
    for record in records:
        result = record.result(metric)
        if result is None:
            continue
        results.append(result)
        table = load_side(store, record).table
        estimated = estimate_by_cluster_name(table, combination, np.ones(len(table), dtype=bool), clusters)
        if estimated is not None:
            estimates.append(estimated)
    if not results:
        return None
    return mean_over_runs(results, estimates, records[0].settings, clusters)


def pool(
    store: Store,
    records: Sequence[RunRecord],
    keep: Callable[[Row], bool] | None = None,
    excluded: Mapping[str, str] | None = None,
) -> Side:
    """Pool the variants of a research question (runs of one task and model) into one side of a comparison.

    ``keep`` selects the rows that count (None: all of them). ``excluded`` maps a group to a label; rows with that label
    do not count either.
    """
    first = records[0]
    # The variants of an example are not independent, so a task without clusters is clustered by example here.
    cluster = first.design.cluster or SAME_EXAMPLE
    # A pooled number is only as complete as the least complete run in it.
    status = "done"
    for record in records:
        if record.status != "done":
            status = record.status
            break
    pooled_id = first.id
    if len(records) > 1:
        pooled_id = f"{first.id} and {len(records) - 1} more"
    pooled_record = replace(
        first,
        id=pooled_id,
        label=", ".join(record.label for record in records),
        status=status,
        provenance=replace(first.provenance, design=replace(first.design, clusters=(cluster,))),
    )
    # Rows that are stored in batches are read as columns, without an object for each row, unless ``keep`` needs them.
    are_in_batches = not any(store.has_single_rows(record.id) for record in records)
    if are_in_batches and keep is None:
        return Side(pooled_record, ScoreTable.from_batches(_pooled_batches(store, records, excluded or {})))
    rows = _pooled_rows(store, records)
    if keep is not None:
        rows = filter(keep, rows)
    if excluded:
        rows = (row for row in rows if not _has_label(row, excluded))
    return Side(pooled_record, ScoreTable(rows))


def _has_label(row: Row, labels: Mapping[str, str]) -> bool:
    return any(row.example.groups.get(group) == label for group, label in labels.items())


def _pooled_batches(store: Store, records: Sequence[RunRecord], excluded: Mapping[str, str]) -> Iterator[RowBatch]:
    """Yield what :func:`_pooled_rows` yields, but as columns, and without rows that do not count."""
    for record in records:
        variant = variant_of(record)
        for batch in store.score_batches(record.id):
            counted = set(range(len(batch)))
            for group, excluded_label in excluded.items():
                for number, label in enumerate(batch.groups.get(group, ())):
                    if label == excluded_label:
                        counted.discard(number)
            # Selecting rows copies all columns, so it is done only if some rows do not count.
            if len(counted) < len(batch):
                batch = batch.selected(sorted(counted))
            ids = [f"{variant}/{example_id}" for example_id in batch.ids]
            yield replace(batch, ids=ids, groups={**batch.groups, SAME_EXAMPLE: batch.ids})


def _pooled_rows(store: Store, records: Sequence[RunRecord]) -> Iterator[Row]:
    """Yield the rows of all variants; ids begin with the variant, because every variant has the same examples."""
    for record in records:
        variant = variant_of(record)
        for row in store.score_rows(record.id, with_test_scores=record.design.replicates is not None):
            example = row.example
            groups = {**example.groups, SAME_EXAMPLE: example.id}
            # Inputs and reference are left out: a score table does not use them, and they may be long.
            yield replace(row, example=Example(f"{variant}/{example.id}", {}, None, groups))
