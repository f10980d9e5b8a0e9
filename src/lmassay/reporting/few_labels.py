"""Numbers that rest on few labels, such as TSE on two pairs of verbs: what that means, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lmassay.statistics.observations import FEW_LABELS, counted_labels, label_in_plural
from lmassay.types import OVERALL, RunRecord

_MOST_GROUPS = 4


def few_label_notes(record: RunRecord, titles: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """A sentence for each metric that is crossed with something of which there is little, overall or in some group.

    ``titles`` are what metrics are called; their names if left out.
    """
    notes = []
    for metric, name in record.design.crossed.items():
        counts: dict[str, int] = {}
        for result in record.results:
            # Parts of parts, such as the plural sentences of a construction, have no more labels than the whole.
            if result.metric == metric and result.value is not None and "," not in result.group:
                counts[result.group] = result.clusters.get(name, FEW_LABELS)
        few = {group: count for group, count in counts.items() if count < FEW_LABELS}
        if few:
            notes.append(f"{titles.get(metric, metric)} rests on {_where(few, name)}: {_meaning(name)}")
    return notes


def _where(few: Mapping[str, int], name: str) -> str:
    """Such as ``2 verb pairs`` or ``few verb pairs (Simple 5, Across a PP 2)``."""
    if OVERALL in few:
        return f"{counted_labels(few[OVERALL], name)} only"
    # The fewest first: not all may be named.
    ordered = sorted(few.items(), key=lambda item: item[1])
    groups = [f"{group.partition('=')[2] or group} {count}" for group, count in ordered]
    more = f" and {len(groups) - _MOST_GROUPS} more groups" if len(groups) > _MOST_GROUPS else ""
    return f"few {label_in_plural(name)} ({', '.join(groups[:_MOST_GROUPS])}{more})"


def _meaning(name: str) -> str:
    return (
        f"fewer than {FEW_LABELS} hardly tell how other {label_in_plural(name)} would fare, "
        "so the interval is wide, or there is none"
    )
