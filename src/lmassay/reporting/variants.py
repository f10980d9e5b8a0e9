"""Which runs are variants of one question (attacks, prompts, methods), and what they show together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from lmassay.plugins.evaluations import variation_of
from lmassay.statistics.combination import estimate_by_cluster_name, mean_over_runs
from lmassay.statistics.comparison import Side, load_side
from lmassay.statistics.estimation import Estimate
from lmassay.statistics.intervals import mean_result
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from lmassay.types import Combination, Example, Result, Row, RunRecord, canonical

SAME_EXAMPLE = "example"
"""The group that holds an example's variants together: they are not independent of each other."""
# Parts of a signature that do not change what is asked.
_NOT_ASKED = frozenset({"lmassay", "model", "limit", "ci"})


def questions(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """Runs of one task and model that are alike but for what they vary.

    Of a run done twice it is the later one, unless only the earlier one has results.
    """
    groups: dict[str, dict[str, RunRecord]] = {}
    for record in records:
        signature = record.depends_on
        question = canonical([record.model, signature.get("model"), signature.get("limit"), asked(record)])
        members = groups.setdefault(question, {})
        earlier = members.get(variant_of(record))
        if earlier is None or record.results or not earlier.results:
            members[variant_of(record)] = record
    return [list(members.values()) for members in groups.values()]


def asked(record: RunRecord) -> str:
    """The question, whoever answers it and however many of its examples were taken: all that two models must share."""
    variation = variation_of(record)
    left_out = _NOT_ASKED | {*variation.named, *variation.free}
    parts = {name: value for name, value in record.depends_on.items() if name not in left_out}
    return canonical([record.task, parts])


def variant_of(record: RunRecord) -> str:
    """What tells a run from the other variants of its question.

    Two strengths of an attack may share a label, and one strength may have two labels, so the part of the signature
    counts where there is one.
    """
    variation = variation_of(record)
    varied = record.depends_on.get(variation.pooled)
    if varied is not None:
        return str(varied)
    # A label names only the options that its sweep varies; two methods of different sweeps may have the same one.
    task = record.config.get("task")
    options = {name: task[name] for name in variation.named if name in task} if isinstance(task, Mapping) else {}
    return canonical([record.base_label, options]) if options else record.base_label


def pooled(store: Store, records: Sequence[RunRecord], metric: str) -> Result | None:
    """The metric over all variants; of a single run the result that it has.

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


def pool(store: Store, records: Sequence[RunRecord], keep: Callable[[Row], bool] | None = None) -> Side:
    """One side of a comparison out of the variants of a question: runs of one task and model.

    ``keep`` says which rows count; all of them if it is left out.
    """
    first = records[0]
    cluster = first.design.cluster or SAME_EXAMPLE
    unfinished = [record.status for record in records if record.status != "done"]
    together = replace(
        first,
        id=first.id if len(records) == 1 else f"{first.id} and {len(records) - 1} more",
        label=", ".join(record.label for record in records),
        status=unfinished[0] if unfinished else "done",
        provenance=replace(first.provenance, design=replace(first.design, clusters=(cluster,))),
    )
    rows = _rows(store, records)
    return Side(together, ScoreTable(rows if keep is None else filter(keep, rows)))


def _rows(store: Store, records: Sequence[RunRecord]) -> Iterator[Row]:
    for record in records:
        variant = variant_of(record)
        for row in store.score_rows(record.id, with_test_scores=record.design.replicates is not None):
            example = row.example
            groups = {**example.groups, SAME_EXAMPLE: example.id}
            yield replace(row, example=Example(f"{variant}/{example.id}", {}, None, groups))
