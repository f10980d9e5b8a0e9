"""The statistical design that a task declares, and the settings for intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

INTERVAL_RULE = "cr2.3"
"""The version of the method for intervals, which is part of every signature. ``Result.method`` says how the interval of
a single result was computed."""


@dataclass(frozen=True, slots=True)
class Combination:
    """How a metric is computed from the means of several columns: ``constant + Σ weight · mean(column)``.

    Each mean is over the rows that have a value in the column.
    """

    terms: Mapping[str, float]
    """A dict from column to weight."""
    constant: float = 0.0
    """The constant that is added to the weighted means."""
    each: str | None = None
    """If given, the value is computed separately for each label of this group and then averaged over the labels, so
    that each label has the same weight."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """The least and the largest possible value. They limit the interval and affect how it is computed."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        return dataclasses.asdict(self)


def combination_from_dict(data: Mapping[str, Any]) -> Combination:
    """Read what :meth:`Combination.as_dict` wrote. In JSON, the bounds are a list."""
    return Combination(**{**data, "bounds": tuple(data["bounds"])})


@dataclass(frozen=True, slots=True)
class Replicates:
    """Declares that a task's examples are repetitions of one experiment, such as trainings on splits of one pool.

    Repetitions that share their data are not independent: see :mod:`lmassay.statistics.replicates`.
    """

    group: str
    """The group whose labels distinguish repetitions, such as ``split``."""
    correlation: Mapping[str, float] = field(default_factory=dict)
    """A dict from metric to the correlation between the results of two repetitions that is due to shared data. It is 0
    for metrics that are not named."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        return {"group": self.group, "correlation": dict(self.correlation)}


@dataclass(frozen=True, slots=True)
class Design:
    """The statistical design of a task: which examples are independent, and how metrics are computed from scores."""

    clusters: tuple[str, ...] = ()
    """The group whose labels define clusters: examples with the same label, such as questions made from one template,
    are not independent. Empty if all examples are independent. A task may name only one group."""
    headline: tuple[str, ...] = ()
    """The metrics that tables and comparisons show by default; all metrics if empty."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """For metrics that are means over items other than examples, such as words: a dict from metric to the column with
    the number of items of each example."""
    combinations: Mapping[str, Combination] = field(default_factory=dict)
    """A dict from metric to its combination, for metrics that are computed from several columns."""
    pair_by: tuple[str, ...] = ()
    """The group by which two runs are paired if they have no examples in common; at most one, like ``clusters``."""
    replicates: Replicates | None = None
    """Set if examples are repetitions of one experiment."""
    crossed: Mapping[str, str] = field(default_factory=dict)
    """For metrics whose examples consist of several outcomes, where the same labels occur in examples of different
    clusters: a dict from metric to a singular noun that says what the labels of its ``Score.outcomes`` are. With
    ``{"tse": "verb_pair"}``, contexts with different nouns test the same pairs of verbs. Intervals and comparisons are
    then clustered in both ways, by ``clusters`` and by these labels."""

    @property
    def unit(self) -> str:
        """A singular noun for what one row of scores is: ``example``, or a repetition such as ``split``."""
        return "example" if self.replicates is None else self.replicates.group

    @property
    def cluster(self) -> str | None:
        """The group by which examples are clustered, if any."""
        if not self.clusters:
            return None
        return self.clusters[0]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        combinations: dict[str, Any] = {}
        for metric, combination in self.combinations.items():
            combinations[metric] = combination.as_dict()
        data: dict[str, Any] = {
            "clusters": list(self.clusters),
            "headline": list(self.headline),
            "weights": dict(self.weights),
            "combinations": combinations,
            "pair_by": list(self.pair_by),
        }
        if self.replicates is not None:
            data["replicates"] = self.replicates.as_dict()
        data["crossed"] = dict(self.crossed)
        return data


def design_from_dict(data: Mapping[str, Any]) -> Design:
    """Read what :meth:`Design.as_dict` wrote. Early versions stored a single cluster and a single group to pair by."""
    clusters = data.get("clusters")
    if clusters is None:
        old_cluster = data.get("cluster")
        clusters = [old_cluster] if old_cluster else []
    pair_by = data.get("pair_by") or []
    if isinstance(pair_by, str):
        pair_by = [pair_by]
    replicates = data.get("replicates")
    combinations: dict[str, Combination] = {}
    for metric, stored in (data.get("combinations") or {}).items():
        combinations[metric] = combination_from_dict(stored)
    return Design(
        clusters=tuple(clusters),
        headline=tuple(data.get("headline") or ()),
        weights=dict(data.get("weights") or {}),
        combinations=combinations,
        pair_by=tuple(pair_by),
        replicates=Replicates(**replicates) if replicates else None,
        crossed=dict(data.get("crossed") or {}),
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """How intervals are computed."""

    confidence: float = 0.95
    """The confidence level."""
    resamples: int = 2000
    """The number of bootstrap resamples."""
    seed: int = 0
    """The random seed for the bootstrap."""

    def signature(self, clusters: Sequence[str] = ()) -> str:
        """Return the part of the signature that identifies the method for intervals and the groups used as clusters.

        >>> Settings(confidence=0.9).signature(["template"])  # doctest: +ELLIPSIS
        '0.9,...,clusters=template'
        """
        text = f"{self.confidence:g},{INTERVAL_RULE}"
        if clusters:
            text += f",clusters={'+'.join(clusters)}"
        return text
