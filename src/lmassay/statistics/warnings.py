"""What may be wrong with a comparison though the numbers are right: order, what was asked, how a task sums up."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.plugins.evaluations import metric_of, variation_of
from lmassay.statistics.comparison import Comparison, Side
from lmassay.statistics.condition import Condition


def wrong_order(base: Side, other: Side) -> list[str]:
    """A new run that is older than its base may be a slip in naming the two."""
    ours, theirs = base.record, other.record
    if not theirs.created or ours.created <= theirs.created:
        return []
    return [f"{theirs.id} is older than {ours.id}, its base; are the two swapped? Write BASE first, then NEW"]


def other_labels(base: Side, other: Side) -> list[str]:
    """Runs with different labels were asked differently: another attack, another prompt."""
    ours, theirs = base.record, other.record
    if _called_alike(base, other):
        return []
    return [
        f"{theirs.id} is '{theirs.label}' and {ours.id} is '{ours.label}': a difference may come from that, not from "
        "the model"
    ]


def asked_otherwise(base: Side, other: Side) -> list[str]:
    """Runs of one label may have been asked differently nevertheless: a stronger attack, another prompt.

    Labels that differ show as much, but not that the prompt is another one, too.
    """
    ours, theirs = base.depends_on, other.depends_on
    variation = variation_of(base.record)
    names = [name for name in variation.asked if ours.get(name) != theirs.get(name)]
    # Different labels already say that what they show differs, but not that something else does, too.
    is_said_by_labels = not any(name in variation.hidden for name in names[1:])
    if not _called_alike(base, other) and is_said_by_labels:
        return []
    parts = [f"another {name} ({theirs.get(name, 'none')}, not {ours.get(name, 'none')})" for name in names]
    told = f"{other.record.id} has {' and '.join(parts)} than {base.record.id}"
    return [f"{told}: a difference may come from that, not from the model"] if parts else []


def _called_alike(base: Side, other: Side) -> bool:
    """One attack may have a short label by itself and a longer one among others of its name."""
    if base.record.label == other.record.label:
        return True
    identity = variation_of(base.record).identity
    ours, theirs = base.depends_on.get(identity), other.depends_on.get(identity)
    return ours is not None and ours == theirs


def fails_on_improvement(base: Side, condition: Condition) -> list[str]:
    """A condition on a change for the better may be a slip in the sign."""
    better = metric_of(base.record, condition.metric).better
    if condition.sign == "worse" or better == "zero" or condition.falls is (better == "higher"):
        return []
    direction = "less" if better == "lower" else "more"
    return [
        f"--fail-if '{condition}': {direction} is better for {condition.metric}, so this fails on an improvement; "
        f"did you mean '{condition.metric} worse by {abs(condition.threshold):g}'?"
    ]


def told_otherwise(base: Side, others: Sequence[Side], rows: Sequence[Comparison]) -> list[str]:
    """Metrics that a task sums up otherwise than as a mean over examples, which is what is compared."""
    told = []
    for side in (base, *others):
        combined = side.record.design.combinations
        for row in rows:
            reported = _reported(side, row.metric)
            # Where a part of the run is compared, its mean must be another one.
            whole = side.record.id in (row.base, row.new) and row.n == len(side.table.by_id(row.metric))
            mean = row.base_mean if side.record.id == row.base else row.new_mean
            if whole and row.metric not in combined and reported is not None and abs(reported - mean) > _SAME:
                told.append(
                    f"{side.record.id} reports {row.metric} {reported:.4f}, which its task sums up otherwise than as "
                    f"the mean over examples that is compared here, {mean:.4f}"
                )
    return list(dict.fromkeys(told))


_SAME = 1e-9


def _reported(side: Side, metric: str) -> float | None:
    found = (r.value for r in side.record.results if r.metric == metric and r.group == "overall")
    return next(found, None)
