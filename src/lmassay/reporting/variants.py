"""Which runs are variants of one question (attacks, prompts, methods), and their pooled results."""

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
"""The group of an example's variants. They are not independent, so pooled results are clustered by it."""
# Parts of a signature that do not change the question.
_NOT_PART_OF_QUESTION = frozenset({"lmassay", "model", "limit", "ci"})


def group_variants(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """Group runs of one task and model that differ only in what the task varies, or combines on a card.

    If a variant was run twice, the later run counts, unless only the earlier one has results.
    """
    groups: dict[str, dict[str, RunRecord]] = {}
    for record in records:
        signature = record.depends_on
        question = question_signature(record)
        variant = variant_of(record)
        card = record.provenance.card
        combined = variation_of(record).combined
        if card is not None and combined:
            # A card sums up several runs, such as those on several data sets, in one headline. Each card has its own.
            question = canonical([card.size, card.data, card.language, question_signature(record, combined)])
            variant = canonical([variant, question_signature(record)])
        identity = [record.model, signature.get("model"), signature.get("limit"), question]
        variants = groups.setdefault(canonical(identity), {})
        earlier = variants.get(variant)
        if earlier is None or record.results or not earlier.results:
            variants[variant] = record
    return [list(variants.values()) for variants in groups.values()]


def question_signature(record: RunRecord, combined: Sequence[str] = ()) -> str:
    """The parts of a run's signature that two models must share to be compared.

    That excludes the model itself, the release of lmassay, the number of examples, the method for intervals, what the
    variants of a question differ in, and ``combined``.
    """
    variation = variation_of(record)
    excluded = _NOT_PART_OF_QUESTION | {*variation.named, *variation.free, *combined}
    parts = {name: value for name, value in record.depends_on.items() if name not in excluded}
    if variation.pooled_by_file and variation.pooled in record.depends_on:
        # Default and debiased prompts, which are in two files, are two questions.
        parts[variation.pooled] = str(record.depends_on[variation.pooled]).rpartition(".")[0]
    return canonical([record.task, parts])


def variant_of(record: RunRecord) -> str:
    """What distinguishes a run from the other variants of its question.

    Two strengths of an attack may share a label, and one strength may have two labels, so the part of the signature
    is used if there is one.
    """
    variation = variation_of(record)
    pooled_part = record.depends_on.get(variation.pooled)
    if pooled_part is not None:
        return str(pooled_part)
    # A label names only the options that its sweep varies; two methods of different sweeps may have the same one.
    options = {}
    task = record.config.get("task")
    if isinstance(task, Mapping):
        options = {name: task[name] for name in variation.named if name in task}
    if options:
        return canonical([record.base_label, options])
    return record.base_label


def pooled(store: Store, records: Sequence[RunRecord], metric: str) -> Result | None:
    """A metric over all variants of a question; for a single run, the result that it has.

    A metric that combines several means is averaged over the variants, as in the tables of a report.
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
    """Pool the variants of a question, runs of one task and model, into one side of a comparison.

    ``keep`` selects the rows that count, None for all of them; rows with a label in ``excluded`` do not count.
    """
    first = records[0]
    # The variants of an example stay together: a task without clusters is clustered by example here.
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
    # Batches are read as columns, without an object for each row. ``keep`` looks at rows, so it needs these objects.
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
    """The same as :func:`_pooled_rows`, as columns and without rows that do not count."""
    for record in records:
        variant = variant_of(record)
        for batch in store.score_batches(record.id):
            counted = set(range(len(batch)))
            for group, excluded_label in excluded.items():
                for number, label in enumerate(batch.groups.get(group, ())):
                    if label == excluded_label:
                        counted.discard(number)
            # Selecting copies all columns, which most batches do not need.
            if len(counted) < len(batch):
                batch = batch.selected(sorted(counted))
            ids = [f"{variant}/{example_id}" for example_id in batch.ids]
            yield replace(batch, ids=ids, groups={**batch.groups, SAME_EXAMPLE: batch.ids})


def _pooled_rows(store: Store, records: Sequence[RunRecord]) -> Iterator[Row]:
    """The rows of all variants; ids begin with the variant, because every variant has the same examples."""
    for record in records:
        variant = variant_of(record)
        for row in store.score_rows(record.id, with_test_scores=record.design.replicates is not None):
            example = row.example
            groups = {**example.groups, SAME_EXAMPLE: example.id}
            # Inputs and reference are left out: a score table does not use them, and they may be long.
            yield replace(row, example=Example(f"{variant}/{example.id}", {}, None, groups))
