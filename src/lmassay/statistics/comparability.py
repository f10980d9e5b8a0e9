"""Which runs were measured in the same way, and what differs between those that were not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase

from lmassay.plugins.evaluations import variation_of
from lmassay.types import RunRecord

# What usually differs between runs that are compared, in addition to what their evaluation varies.
# The rule for intervals ("ci") does not change what was measured; comparisons compute their own.
_MAY_DIFFER = frozenset({"prompt", "model", "limit", "seed", "ci"})
# A new release measures as before. A task that changes what it measures gets a new version, which is part of "task".
_RELEASE = "lmassay"
_MAX_VALUES = 8
_MAX_VALUE_LENGTH = 60


def measured_differently(records: Sequence[RunRecord]) -> list[str]:
    """The settings because of which the numbers of runs mean different things: another scorer, another threshold."""
    left_out = {_RELEASE, *variation_of(records[0]).free}
    return [name for name in differing_settings(records) if name not in left_out]


def differing_settings(records: Sequence[RunRecord]) -> list[str]:
    """The parts of the signatures, other than what runs are compared over, in which runs of a task differ."""
    may_differ = {*variation_of(records[0]).question_parts, *_MAY_DIFFER}
    names = dict.fromkeys(name for record in records for name in record.depends_on)
    differing = []
    for name in names:
        values = {record.depends_on.get(name) for record in records}
        if name not in may_differ and len(values) > 1:
            differing.append(name)
    return differing


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks for runs that are shown together but were measured differently, and notes that explain them."""

    of_run: Mapping[str, str] = field(default_factory=dict)
    """Run id → mark. Runs with the same mark can be compared; a run without a mark with all others."""
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """A note for readers → the marks that it explains."""


def marks(records: Sequence[RunRecord]) -> Marks:
    """Marks where runs of one task on the same data differ in a scorer, a threshold or another setting."""
    letters = _letters()
    of_run: dict[str, str] = {}
    notes: dict[str, Sequence[str]] = {}
    for members in _on_the_same_data(records):
        names = measured_differently(members)
        if not names:
            continue
        groups: dict[tuple[str | None, ...], str] = {}
        for record in members:
            settings = tuple(record.depends_on.get(name) for name in names)
            if settings not in groups:
                groups[settings] = f"[{next(letters)}]"
            of_run[record.id] = groups[settings]
        notes[_note(names, groups)] = list(groups.values())
    return Marks(of_run, notes)


def _letters() -> Iterator[str]:
    """a, b, …, z, aa, ab, …"""
    for length in itertools.count(1):
        for letters in itertools.product(ascii_lowercase, repeat=length):
            yield "".join(letters)


def _on_the_same_data(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        # Runs of the first versions do not say what they depend on.
        if record.depends_on:
            data = [record.depends_on.get(name) for name in variation_of(record).data]
            groups.setdefault(json.dumps([record.task, data]), []).append(record)
    return list(groups.values())


def _note(names: Sequence[str], groups: Mapping[tuple[str | None, ...], str]) -> str:
    parts = []
    for position, name in enumerate(names):
        marks_by_value: dict[str, list[str]] = {}
        for settings, mark in groups.items():
            value = settings[position]
            marks_by_value.setdefault("unset" if value is None else value, []).append(mark)
        values = []
        for value_text, marks_of_value in marks_by_value.items():
            values.append(f"{' '.join(marks_of_value)} {_short(value_text)}")
        if len(values) > _MAX_VALUES:
            values = [*values[:_MAX_VALUES], "…"]
        parts.append(f"{name} ({'; '.join(values)})")
    return f"Runs with different marks were measured differently; compare with care. They differ in {', '.join(parts)}."


def _short(value: str) -> str:
    if len(value) <= _MAX_VALUE_LENGTH:
        return value
    return f"{value[: _MAX_VALUE_LENGTH - 1]}…"
