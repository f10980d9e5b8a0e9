"""Examples whose scores changed, with what both runs have to say about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lmassay.flips import Change, Flips
from lmassay.report.browser import Shown, shown_rows
from lmassay.report.compared import Source

Texts = Sequence[tuple[str, str]]
# How texts that a model wrote are called, those that tell most first.
_ANSWERS = ("answer", "output on perturbed", "output")


def changed_examples(base: Source, new: Source, found: Sequence[Flips]) -> Iterator[Shown]:
    """One row an example: by how much each score changed, texts that both runs share once, others of either run.

    Runs that are paired by something else than the example show their rows as they are.
    """
    by_id: dict[str, dict[str, Change]] = {}
    for one in found:
        for change in one.changes:
            by_id.setdefault(change.id, {})[one.metric] = change
    key = next((one.paired_by for one in found if one.paired_by != "example"), None)
    if key is not None:
        for source in (base, new):
            rows = shown_rows(source.store, source.side.record, source.title)
            yield from (row for row in rows if row.groups.get(key) in by_id)
        return
    before = {row.id: row for row in shown_rows(base.store, base.side.record, base.title) if row.id in by_id}
    for after in shown_rows(new.store, new.side.record, new.title):
        if after.id in by_id and after.id in before:
            yield _merged(before[after.id], after, by_id[after.id])


def answers(base: Source, new: Source, changes: Sequence[Change]) -> dict[str, tuple[str, str]]:
    """What the two runs answered, by id, or else the first text that differs but for the prompt."""
    wanted = {change.id for change in changes}
    before = {row.id: row.texts for row in shown_rows(base.store, base.side.record, base.title) if row.id in wanted}
    after = {row.id: row.texts for row in shown_rows(new.store, new.side.record, new.title) if row.id in wanted}
    return {i: _answer(before[i], after[i]) for i in before if i in after}


def _answer(before: Texts, after: Texts) -> tuple[str, str]:
    ours, theirs = _named(before), _named(after)
    differ = [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) != theirs.get(name)]
    told = [name for start in _ANSWERS for name in differ if name.startswith(start)]
    name = next(iter([*told, *(name for name in differ if "prompt" not in name), "answer"]))
    return ours.get(name, ""), theirs.get(name, "")


def _merged(before: Shown, after: Shown, changes: Mapping[str, Change]) -> Shown:
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
