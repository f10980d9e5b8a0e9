"""Runs as they are shown together: with labels that tell them apart, and with marks where they cannot be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lmassay.running.differences import distinguishing_values
from lmassay.statistics.comparability import Marks, marks
from lmassay.types import RunRecord


@dataclass(frozen=True, slots=True)
class Shown:
    """The runs in their order, with labels for this place, and the marks in the labels."""

    records: Sequence[RunRecord]
    marks: Marks = field(default_factory=Marks)

    @property
    def notes(self) -> Sequence[str]:
        """What the marks of all runs mean."""
        return list(self.marks.notes)

    def notes_on(self, task: str) -> Sequence[str]:
        """What the marks of a task's runs mean."""
        own = {record.mark for record in self.records if record.task == task and record.mark}
        return [note for note, of_note in self.marks.notes.items() if not own.isdisjoint(of_note)]


def shown_together(records: Sequence[RunRecord]) -> Shown:
    """The runs with distinct labels and marks.

    The label of a run tells it from the others of its sweep. Runs of other sweeps may have the same one, and so may
    runs of one sweep in stores of early versions; these get what they differ in behind their label.
    """
    found = distinct_labels(records)
    needed = marks(records)
    marked = []
    for record in found:
        mark = needed.of_run.get(record.id, "")
        marked.append(replace(record, label=f"{record.label} {mark}", mark=mark) if mark else record)
    return Shown(marked, needed)


def distinct_labels(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs, those with the same task, label and model with a longer label: options, signature, or the run's id."""
    ways: list[Callable[[Sequence[RunRecord]], Sequence[str]]] = [_options, _settings, _ids]
    for way in ways:
        records = _lengthened(records, way)
    return list(records)


def _lengthened(
    records: Sequence[RunRecord], way: Callable[[Sequence[RunRecord]], Sequence[str]]
) -> Sequence[RunRecord]:
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number, record in enumerate(records):
        groups.setdefault((record.task, record.label, record.model), []).append(number)
    found = list(records)
    for members in groups.values():
        if len(members) > 1:
            for number, more in zip(members, way([records[number] for number in members]), strict=True):
                if more:
                    found[number] = replace(records[number], label=f"{records[number].label}, {more}")
    return found


def _options(records: Sequence[RunRecord]) -> list[str]:
    return distinguishing_values([[record.config] for record in records])


def _settings(records: Sequence[RunRecord]) -> list[str]:
    """What their signatures differ in: the same options may stand for other data."""
    texts: list[list[str]] = [[] for _ in records]
    for name in dict.fromkeys(name for record in records for name in record.depends_on):
        values = [record.depends_on.get(name) for record in records]
        # The release and the model's identity are long, and seldom what a reader looks for.
        if name in ("lmassay", "model") or len(set(values)) == 1:
            continue
        for parts, value in zip(texts, values, strict=True):
            parts.append(f"{name} {value or 'unset'}")
    return [", ".join(parts) for parts in texts]


def _ids(records: Sequence[RunRecord]) -> list[str]:
    """The end of its id names a run that was done twice."""
    return [record.id.rpartition("-")[2] for record in records]
