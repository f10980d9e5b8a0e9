"""Warnings about comparisons that may mislead although their numbers are right.

Some of them depend on the :class:`~lmassay.contracts.Variation` of an evaluation, which says which parts of a run's
signature determine how the question is asked, such as the prompt or the attack.
"""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.plugins.evaluations import variation_of
from lmassay.statistics.comparability import differing_settings
from lmassay.statistics.comparison import Comparison, headline
from lmassay.statistics.observations import counted_labels, label_in_plural
from lmassay.statistics.pairing import keys_of, labelled_units_of, paired_on_tests, pairing_key
from lmassay.statistics.sides import Side

# Means that differ by no more than this differ only because they were summed in another order.
_ROUNDING = 1e-9


def caveats(base: Side, others: Sequence[Side]) -> list[str]:
    """Warnings to read before trusting a comparison, such as unfinished runs, other scorers or thresholds."""
    warnings = []
    for side in (base, *others):
        if side.record.status != "done":
            warnings.append(f"{side.record.id} is {side.record.status}")
    for other in others:
        warnings += _coverage(base, other)
        warnings += _question_means(base, other)
        warnings += _not_paired_by_test(base, other)
        warnings += _shared_outcomes(base, other)
        names = differing_settings([base.record, other.record])
        if names:
            warnings.append(
                f"{other.record.id} and {base.record.id} also differ in {', '.join(names)}; compare with care"
            )
    return warnings


def _coverage(base: Side, other: Side) -> list[str]:
    """A warning if some examples are only in one of the runs, or some labels of the group by which they are paired."""
    key = pairing_key(base, other)
    in_base = set(keys_of(base, key))
    in_other = set(keys_of(other, key))
    in_both = in_base & in_other
    # Runs without a common example are an error, which is raised elsewhere.
    if not in_both or in_base == in_other:
        return []
    units = "examples" if key is None else f"values of '{key}', by which the runs are paired,"
    names = f"{base.record.id} ({len(in_base):,}) and {other.record.id} ({len(in_other):,})"
    return [f"of the {units} of {names}, {len(in_both):,} are in both; the others are left out"]


def _question_means(base: Side, other: Side) -> list[str]:
    """A note if a run asked each question several times, so that the mean score of each question is compared."""
    if not base.averaged_samples and not other.averaged_samples:
        return []
    parts = []
    for side in (base, other):
        times = "once"
        if side.averaged_samples:
            times = f"{side.averaged_samples} times"
        parts.append(f"{side.record.id} asked each question {times}")
    return [f"{' and '.join(parts)}, so the mean score of each question is compared"]


def _not_paired_by_test(base: Side, other: Side) -> list[str]:
    """Warnings if only means of repetitions, such as splits, are compared although a run has scores per test example.

    Each warning gives the reason.
    """
    warnings = []
    for metric in headline(base):
        base_tests = base.table.on_tests(metric)
        other_tests = other.table.on_tests(metric)
        if base_tests is None and other_tests is None:
            # Neither run has scores of individual test examples, so nothing could have been paired.
            continue
        if paired_on_tests(base, other, metric):
            continue
        if base_tests is None or other_tests is None:
            side = base if base_tests is None else other
            why = f"{side.record.id} has no scores of individual test examples (an earlier version did not store them)"
        else:
            why = f"{base.record.id} and {other.record.id} were tested on different examples"
        warnings.append(f"{why}, so {metric} is not paired by test example, and only large differences can be found")
    return warnings


def _shared_outcomes(base: Side, other: Side) -> list[str]:
    """Notes on metrics whose examples have several outcomes (``Design.crossed``), such as one for each verb pair.

    Each outcome is labelled, with its verb pair for example. If both runs recorded the outcomes, only outcomes whose
    label occurs in both runs are compared.
    """
    warnings = []
    # Metric → what the labels of its outcomes are, such as verb_pair.
    crossed = {**other.record.design.crossed, **base.record.design.crossed}
    for metric, name in crossed.items():
        base_units = labelled_units_of(base, metric, None)
        other_units = labelled_units_of(other, metric, None)
        names = label_in_plural(name)
        for side, units in ((base, base_units), (other, other_units)):
            if not units and side.table.has(metric):
                warnings.append(
                    f"{side.record.id} was made by an earlier version, which did not record {metric} by "
                    f"{name.replace('_', ' ')}: the interval of the difference in {metric} "
                    f"holds only for these {names}, not for others"
                )
        if not base_units or not other_units:
            continue
        outcome_labels_of_base = {label for _, label in base_units}
        outcome_labels_of_other = {label for _, label in other_units}
        if outcome_labels_of_base != outcome_labels_of_other:
            shared = counted_labels(len(outcome_labels_of_base & outcome_labels_of_other), name)
            warnings.append(
                f"{metric} is compared on {shared} that both runs have, of "
                f"{len(outcome_labels_of_base):,} ({base.record.id}) and "
                f"{len(outcome_labels_of_other):,} ({other.record.id})"
            )
    return warnings


def wrong_order(base: Side, other: Side) -> list[str]:
    """A warning if the new run is older than its base: the two may have been named in the wrong order."""
    # If a run has no creation time, the order is unknown.
    if not other.record.created or base.record.created <= other.record.created:
        return []
    new_id = other.record.id
    return [f"{new_id} is older than {base.record.id}, its base; are the two swapped? Write BASE first, then NEW"]


def other_labels(base: Side, other: Side) -> list[str]:
    """A warning if the two runs have different labels, because of a different attack or prompt, for example.

    The label of a run describes it in tables; it has nothing to do with the labels of groups or outcomes.
    """
    if _have_same_run_label(base, other):
        return []
    run_labels = f"{other.record.id} is '{other.record.label}' and {base.record.id} is '{base.record.label}'"
    return [f"{run_labels}: a difference may come from that, not from the model"]


def asked_differently(base: Side, other: Side) -> list[str]:
    """A warning if the runs differ in how the question is asked and the labels of the runs do not show it.

    Two runs with the same label may still differ in the rate of the attack or in the prompt. If the labels differ, the
    first difference, such as the attack, is assumed to be visible in them; there is a warning only if a further one,
    such as the prompt, is hidden. It then lists all of them.
    """
    variation = variation_of(base.record)
    differing: list[str] = []
    descriptions: list[str] = []
    for name in variation.question_parts:
        if base.depends_on.get(name) != other.depends_on.get(name):
            differing.append(name)
            base_value = base.depends_on.get(name, "none")
            other_value = other.depends_on.get(name, "none")
            descriptions.append(f"{name} ({other_value} instead of {base_value})")
    if not differing:
        return []
    further_is_hidden = any(name in variation.hidden for name in differing[1:])
    if not _have_same_run_label(base, other) and not further_is_hidden:
        return []
    difference = f"{other.record.id} differs from {base.record.id} in {' and '.join(descriptions)}"
    return [f"{difference}: a difference may come from that, not from the model"]


def _have_same_run_label(base: Side, other: Side) -> bool:
    """True if the runs have the same label, or are equal in the part ``Variation.identity`` of their signatures.

    For runs of ``robustness``, this part is the attack with its options.
    """
    # Compare base labels, which lack the options that a sweep varies: outside a sweep, the same run has only this one.
    if base.record.base_label == other.record.base_label:
        return True
    identity = variation_of(base.record).identity
    base_identity = base.depends_on.get(identity)
    return base_identity is not None and base_identity == other.depends_on.get(identity)


def computed_differently(base: Side, others: Sequence[Side], rows: Sequence[Comparison]) -> list[str]:
    """Warnings about metrics that a task does not compute as a mean over examples, although means are compared."""
    warnings = []
    for side in (base, *others):
        if side.averaged_samples:
            # A comparison gives each question the same weight, the results of the run give it to each scored sample.
            # So the two means may differ, which is no reason for a warning.
            continue
        combined = side.record.design.combinations
        for row in rows:
            reported = _reported(side, row.metric)
            if reported is None or row.metric in combined or row.metric in side.record.design.crossed:
                continue
            # If only a part of the run is compared, its mean differs from that of the whole run anyway.
            is_of_this_run = side.record.id in (row.base, row.new)
            if not is_of_this_run or row.n != len(side.table.by_id(row.metric)):
                continue
            mean = row.base_mean if side.record.id == row.base else row.new_mean
            if abs(reported - mean) > _ROUNDING:
                warnings.append(
                    f"{side.record.id} reports {row.metric} {reported:.4f}, which its task does not compute as a mean "
                    f"over examples; the mean, {mean:.4f}, is compared here"
                )
    return list(dict.fromkeys(warnings))


def _reported(side: Side, metric: str) -> float | None:
    """The value of a metric in the stored results of a run; None if it has none."""
    for result in side.record.results:
        if result.metric == metric and result.group == "overall":
            return result.value
    return None
