"""What runs are called where several are shown: labels and titles that distinguish them, and marks.

Runs with different marks, such as [a] and [b], were measured with different settings and cannot be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lmassay.running.differences import distinguishing_values
from lmassay.statistics.comparability import Marks, marks
from lmassay.types import RunRecord

Labeller = Callable[[Sequence[RunRecord]], Sequence[str]]
"""Returns a text for each of several runs that may distinguish it from the others; empty if it cannot."""


@dataclass(frozen=True, slots=True)
class LabelledRuns:
    """Runs in their order, with labels that distinguish them, and the marks at the end of these labels."""

    records: Sequence[RunRecord]
    marks: Marks = field(default_factory=Marks)

    @property
    def notes(self) -> Sequence[str]:
        """The meaning of all marks."""
        return list(self.marks.notes)

    def notes_on(self, task: str) -> Sequence[str]:
        """Return the meaning of the marks that runs of a task have."""
        marks_of_task = {record.mark for record in self.records if record.task == task and record.mark}
        notes = []
        for note, marks_in_note in self.marks.notes.items():
            if not marks_of_task.isdisjoint(marks_in_note):
                notes.append(note)
        return notes


def label_runs(records: Sequence[RunRecord]) -> LabelledRuns:
    """Give runs distinct labels, and marks if some runs of a task were measured with other settings than others.

    The stored label of a run distinguishes it from the other runs of its sweep, but runs of other sweeps may have the
    same label (in stores of early versions, even runs of one sweep). Such labels are extended by what the runs differ
    in. The stored labels do not change.
    """
    comparability_marks = marks(records)
    labelled = []
    for record in distinct_labels(records):
        mark = comparability_marks.of_run.get(record.id, "")
        if mark:
            record = replace(record, label=f"{record.label} {mark}", mark=mark)
        labelled.append(record)
    return LabelledRuns(labelled, comparability_marks)


def distinct_labels(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Extend the labels of runs that share task, label and model: by options, then by signature, then by the id."""
    labellers: list[Labeller] = [_options, _signature_differences, _id_endings]
    for labeller in labellers:
        records = _with_longer_labels(records, labeller)
    return list(records)


def _with_longer_labels(records: Sequence[RunRecord], labeller: Labeller) -> Sequence[RunRecord]:
    same_label: dict[tuple[str, str, str], list[int]] = {}
    for position, record in enumerate(records):
        same_label.setdefault((record.task, record.label, record.model), []).append(position)
    longer = list(records)
    for positions in same_label.values():
        if len(positions) == 1:
            continue
        members = [records[position] for position in positions]
        for position, record, text in zip(positions, members, labeller(members), strict=True):
            if text:
                longer[position] = replace(record, label=f"{record.label}, {text}")
    return longer


def _options(records: Sequence[RunRecord]) -> list[str]:
    return distinguishing_values([[record.config] for record in records])


def _signature_differences(records: Sequence[RunRecord]) -> list[str]:
    """Return the parts in which the signatures differ, because runs with the same options may have read other data."""
    names: dict[str, None] = {}
    for record in records:
        names |= dict.fromkeys(record.depends_on)
    texts: list[list[str]] = [[] for _ in records]
    for name in names:
        values = [record.depends_on.get(name) for record in records]
        # The version of lmassay and the model's identity are long, and rarely what a reader looks for.
        if name in ("lmassay", "model") or len(set(values)) == 1:
            continue
        for parts, value in zip(texts, values, strict=True):
            parts.append(f"{name} {value or 'unset'}")
    return [", ".join(parts) for parts in texts]


def _id_endings(records: Sequence[RunRecord]) -> list[str]:
    """Return the last part of each id, which distinguishes even repetitions of the same run."""
    return [_id_ending(record) for record in records]


def _id_ending(record: RunRecord) -> str:
    return record.id.rpartition("-")[2]


# --- titles -----------------------------------------------------------------------------------------------------------


def run_titles(records: Sequence[RunRecord]) -> list[str]:
    """Return titles for runs of several tasks: label and model, preceded by the task if they are not unique."""
    names = [record.title for record in records]
    titles = []
    for name, record in zip(names, records, strict=True):
        is_unique = names.count(name) == 1
        if not is_unique:
            name = f"{record.task}: {name}"
        titles.append(name)
    return titles


def short_run_titles(records: Sequence[RunRecord]) -> list[str]:
    """Return short titles that distinguish runs of one task: the model and, if needed, label, signature or id.

    If a run has a mark because it was measured with other settings, the mark is part of its title, too.
    """
    titles = [record.model if record.has_model else record.label for record in records]
    for distinction in (_label, _difference_to, _id_ending_among):
        titles = _with_distinction(titles, records, distinction)
    marked = []
    for title, record in zip(titles, records, strict=True):
        # A label contains its mark already.
        if record.mark and not title.endswith(record.label):
            title = f"{title} {record.mark}"
        marked.append(title)
    return marked


Distinction = Callable[[RunRecord, Sequence[RunRecord]], str]
"""Returns a text about a run (the first argument) that may distinguish it from others (the second)."""


def _label(record: RunRecord, others: Sequence[RunRecord]) -> str:
    return record.label


def _id_ending_among(record: RunRecord, others: Sequence[RunRecord]) -> str:
    return _id_ending(record)


def _with_distinction(titles: Sequence[str], records: Sequence[RunRecord], distinction: Distinction) -> list[str]:
    """Append a text to each title that several runs share, if the text distinguishes these runs."""
    runs_of_title: dict[str, list[RunRecord]] = {}
    for title, record in zip(titles, records, strict=True):
        runs_of_title.setdefault(title, []).append(record)
    texts: list[str] = []
    texts_of_title: dict[str, set[str]] = {}
    for title, record in zip(titles, records, strict=True):
        same_title = runs_of_title[title]
        text = distinction(record, same_title) if len(same_title) > 1 else ""
        texts.append(text)
        texts_of_title.setdefault(title, set()).add(text)
    longer: list[str] = []
    for title, text in zip(titles, texts, strict=True):
        distinguishes = len(texts_of_title[title]) > 1
        if text and distinguishes:
            title = f"{title} · {text}"
        longer.append(title)
    return longer


def _difference_to(record: RunRecord, others: Sequence[RunRecord]) -> str:
    """Return the parts of a run's signature in which it differs from at least one of the others."""
    signature = record.depends_on
    parts = []
    for name, value in signature.items():
        if name == "model":
            continue
        if any(other.depends_on.get(name) != value for other in others):
            parts.append(f"{name} {value}")
    return ", ".join(parts)
