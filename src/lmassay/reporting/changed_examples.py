"""Examples whose scores changed, with what both runs have to say about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lmassay.reporting.browser import BrowserRow, browser_rows
from lmassay.reporting.comparison_data import ComparedRun
from lmassay.statistics.flips import Change, Flips

Texts = Sequence[tuple[str, str]]
# How texts that a model wrote are called, those that tell most first.
_ANSWERS = ("answer", "output on perturbed", "output")


@dataclass(frozen=True, slots=True)
class ChangedExamples:
    """What two runs have to show of some examples, by id."""

    before: Mapping[str, BrowserRow]
    after: Mapping[str, BrowserRow]

    def answers(self) -> dict[str, tuple[str, str]]:
        """What the two runs answered, or else the first text that differs but for the prompt."""
        return {i: _answer(self.before[i].texts, row.texts) for i, row in self.after.items() if i in self.before}

    def merged(self, found: Sequence[Flips]) -> list[BrowserRow]:
        """One row an example: how much each score changed, texts that both runs share once, others of either run."""
        by_id: dict[str, dict[str, Change]] = {}
        for flips in found:
            for change in flips.changes:
                by_id.setdefault(change.id, {})[flips.metric] = change
        return [
            _merged(self.before[i], row, by_id[i]) for i, row in self.after.items() if i in self.before and i in by_id
        ]


def read_changed_examples(base: ComparedRun, new: ComparedRun, changes: Iterable[Change]) -> ChangedExamples:
    """The rows of the changed examples; none where runs are paired by something else than examples."""
    wanted = {change.id for change in changes}
    if not wanted:
        return ChangedExamples({}, {})
    before, after = (
        {row.id: row for row in browser_rows(run.store, run.side.record, run.title) if row.id in wanted}
        for run in (base, new)
    )
    return ChangedExamples(before, after)


def changed_group_rows(base: ComparedRun, new: ComparedRun, found: Sequence[Flips]) -> list[BrowserRow]:
    """Runs that are paired by something else than the example show the rows that changed as they are."""
    labels = {flips.paired_by: {change.id for flips in found for change in flips.changes} for flips in found}
    return [
        row
        for run in (base, new)
        for row in browser_rows(run.store, run.side.record, run.title)
        if any(row.groups.get(key) in changed for key, changed in labels.items())
    ]


def _answer(before: Texts, after: Texts) -> tuple[str, str]:
    ours, theirs = _named(before), _named(after)
    differ = [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) != theirs.get(name)]
    told = [name for start in _ANSWERS for name in differ if name.startswith(start)]
    name = next(iter([*told, *(name for name in differ if "prompt" not in name), "answer"]))
    return ours.get(name, ""), theirs.get(name, "")


def _merged(before: BrowserRow, after: BrowserRow, changes: Mapping[str, Change]) -> BrowserRow:
    told = ", ".join(f"{metric} {c.before:g} → {c.after:g}" for metric, c in changes.items())
    texts: list[tuple[str, str]] = [("changed", told)]
    ours, theirs = _named(before.texts), _named(after.texts)
    for name in dict.fromkeys([*ours, *theirs]):
        if ours.get(name) == theirs.get(name):
            texts.append((name, ours[name]))
            continue
        texts += [(f"{name}, base", ours[name])] if name in ours else []
        texts += [(f"{name}, new", theirs[name])] if name in theirs else []
    return replace(after, scores={f"Δ {metric}": c.change for metric, c in changes.items()}, texts=texts)


def _named(texts: Texts) -> dict[str, str]:
    """Texts by name; a name that comes again is numbered."""
    found: dict[str, str] = {}
    for name, text in texts:
        label, number = name, 2
        while label in found:
            label, number = f"{name} {number}", number + 1
        found[label] = text
    return found
