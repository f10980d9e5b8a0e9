"""Decides which runs were measured in the same way, and names the settings that differ between the others.

The settings are the parts of a run's signature. The :class:`~lmassay.contracts.Variation` of an evaluation says which
of them may differ between runs that are compared, such as the prompt or the attack.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase

from lmassay.plugins.evaluations import variation_of
from lmassay.types import RunRecord

# Parts of the signature that may differ between runs that are compared, in addition to those that their evaluation
# names. The method for intervals ("ci") does not change what was measured, and comparisons compute their own intervals.
_MAY_DIFFER = frozenset({"prompt", "model", "limit", "seed", "ci"})
# Another release of lmassay measures in the same way. If a task changes what it measures, it gets a new version, which
# is part of "task".
_RELEASE = "lmassay"
_MAX_VALUES = 8
_MAX_VALUE_LENGTH = 60


def measured_differently(records: Sequence[RunRecord]) -> list[str]:
    """The names of settings, such as a scorer or a threshold, whose differences make the numbers incomparable."""
    left_out = {_RELEASE, *variation_of(records[0]).free}
    return [name for name in differing_settings(records) if name not in left_out]


def differing_settings(records: Sequence[RunRecord]) -> list[str]:
    """The parts of the signatures in which runs of a task differ, without those that are meant to differ."""
    may_differ = {*variation_of(records[0]).question_parts, *_MAY_DIFFER}
    # A dictionary instead of a set, because it keeps the order of the names.
    names: dict[str, None] = {}
    for record in records:
        names.update(dict.fromkeys(record.depends_on))
    differing = []
    for name in names:
        values = {record.depends_on.get(name) for record in records}
        if name not in may_differ and len(values) > 1:
            differing.append(name)
    return differing


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks, such as ``[a]``, for runs that are shown together but were measured differently; and explanatory notes."""

    of_run: Mapping[str, str] = field(default_factory=dict)
    """A dict from run id to mark. Runs with the same mark can be compared; a run without a mark with all others."""
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """A dict from the text of a note to the marks that it explains."""


def marks(records: Sequence[RunRecord]) -> Marks:
    """The marks of runs of one task on the same data that differ in a scorer, a threshold or another setting."""
    letters = _letters()
    of_run: dict[str, str] = {}
    notes: dict[str, Sequence[str]] = {}
    for members in _on_the_same_data(records):
        names = measured_differently(members)
        if not names:
            continue
        mark_of_settings: dict[tuple[str | None, ...], str] = {}
        for record in members:
            settings = tuple(record.depends_on.get(name) for name in names)
            if settings not in mark_of_settings:
                mark_of_settings[settings] = f"[{next(letters)}]"
            of_run[record.id] = mark_of_settings[settings]
        notes[_note(names, mark_of_settings)] = list(mark_of_settings.values())
    return Marks(of_run, notes)


def _letters() -> Iterator[str]:
    """Yield a, b, …, z, aa, ab, …"""
    for length in itertools.count(1):
        for letters in itertools.product(ascii_lowercase, repeat=length):
            yield "".join(letters)


def _on_the_same_data(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """The runs in lists of those that have the same task and the same data."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        # Runs of the first versions have no signature, so their data are unknown.
        if record.depends_on:
            data = [record.depends_on.get(name) for name in variation_of(record).data]
            groups.setdefault(json.dumps([record.task, data]), []).append(record)
    return list(groups.values())


def _note(names: Sequence[str], mark_of_settings: Mapping[tuple[str | None, ...], str]) -> str:
    """A sentence that lists, for each differing setting, the marks of its values."""
    parts = []
    for position, name in enumerate(names):
        marks_by_value: dict[str, list[str]] = {}
        for settings, mark in mark_of_settings.items():
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
