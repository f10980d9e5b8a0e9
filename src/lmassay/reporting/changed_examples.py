"""The examples whose scores changed between two runs, with the texts of both runs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lmassay.contracts import KeyText
from lmassay.reporting.browser import BrowserRow, browser_rows
from lmassay.reporting.comparison_data import ComparedRun
from lmassay.reporting.example_choice import ChosenRows
from lmassay.reporting.numbers import score_text
from lmassay.statistics.flips import Change, Flips

Texts = Sequence[tuple[str, str]]
# The names of texts that a model wrote, the most informative first.
_ANSWER_NAMES = ("answer", "output on perturbed", "output")


@dataclass(frozen=True, slots=True)
class ChangedExamples:
    """The rows of changed examples, by the id of the example: those of the base run and those of the new run."""

    before: Mapping[str, BrowserRow]
    after: Mapping[str, BrowserRow]

    def answers(self) -> dict[str, tuple[str, str]]:
        """Return, by example, the text of the base run and that of the new run that show the change best.

        This is the answer if it differs, and otherwise the first text that differs and is not a prompt.
        """
        answers: dict[str, tuple[str, str]] = {}
        for example, row in self.after.items():
            if example in self.before:
                answers[example] = _answers(self.before[example].texts, row.texts)
        return answers

    def merged(self, all_flips: Sequence[Flips]) -> list[BrowserRow]:
        """Return one row per example, with the change of each score. Texts that both runs share appear only once."""
        changes_by_example: dict[str, dict[str, Change]] = {}
        flipped: set[str] = set()
        for flips in all_flips:
            for change in flips.changes:
                if change.id not in self.after:
                    continue
                changes_by_example.setdefault(change.id, {})[flips.metric] = change
                if flips.is_rate:
                    flipped.add(change.id)
        rows = []
        for example, row in self.after.items():
            if example in self.before and example in changes_by_example:
                merged_row = _merged_row(self.before[example], row, changes_by_example[example])
                # `choose_changes` prefers flips. With this flag, a page that cannot show all changes says so.
                rows.append(replace(merged_row, comes_first=example in flipped))
        return rows


def read_changed_examples(base: ComparedRun, new: ComparedRun, changes: Iterable[Change]) -> ChangedExamples:
    """Read the rows of changed examples from both runs.

    There are no rows if the runs are paired by something other than examples, because changes then have other ids.
    """
    changed_ids = {change.id for change in changes}
    if not changed_ids:
        return ChangedExamples({}, {})
    return ChangedExamples(_rows_by_id(base, changed_ids), _rows_by_id(new, changed_ids))


def choose_changes(all_flips: Sequence[Flips], limit: int) -> list[Change]:
    """Choose at most ``limit`` examples that changed: first those with a flip (a score from 0 to 1 or from 1 to 0).

    The remaining places are filled with a random sample of the other changed examples.
    """
    # By id, because an example may have changed in several metrics.
    flipped: dict[str, Change] = {}
    others: dict[str, Change] = {}
    for flips in all_flips:
        changes_by_id = flipped if flips.is_rate else others
        for change in flips.changes:
            changes_by_id.setdefault(change.id, change)
    chosen = list(flipped.values())
    candidates = [change for example, change in others.items() if example not in flipped]
    # A fixed seed: the same runs give the same page.
    rng = random.Random(0)
    if len(chosen) > limit:
        return rng.sample(chosen, limit)
    if len(chosen) + len(candidates) > limit:
        candidates = rng.sample(candidates, limit - len(chosen))
    return chosen + candidates


def _rows_by_id(run: ComparedRun, wanted: set[str]) -> dict[str, BrowserRow]:
    rows = browser_rows(run.store, run.side.record, run.title, _chosen_rows(run, wanted))
    return {row.id: row for row in rows if row.id in wanted}


def _chosen_rows(run: ComparedRun, wanted: set[str]) -> ChosenRows | None:
    """Return which rows have these examples, so that no others are read.

    Returns None if the table lacks rows of the run, because its row numbers then differ from those in the store.
    """
    table = run.side.table
    if len(table) != sum(run.store.count(run.side.record.id).values()):
        return None
    numbers = [number for number, example in enumerate(table.ids) if example in wanted]
    return ChosenRows(numbers, [False] * len(numbers))


def changed_group_rows(base: ComparedRun, new: ComparedRun, all_flips: Sequence[Flips]) -> list[BrowserRow]:
    """Return the rows of both runs in groups that changed, for runs that are paired by group, not by example."""
    changed_labels: set[str] = set()
    for flips in all_flips:
        changed_labels.update(change.id for change in flips.changes)
    group_names = {flips.paired_by for flips in all_flips}
    rows = []
    # Such runs share groups but no examples, so there is nothing to merge row by row.
    for run in (base, new):
        for row in browser_rows(run.store, run.side.record, run.title):
            if any(row.groups.get(name) in changed_labels for name in group_names):
                rows.append(row)
    return rows


def _answers(before: Texts, after: Texts) -> tuple[str, str]:
    before_by_name = _numbered(before)
    after_by_name = _numbered(after)
    differing = []
    for name in dict.fromkeys([*before_by_name, *after_by_name]):
        if before_by_name.get(name) != after_by_name.get(name):
            differing.append(name)
    # One name for both runs, so that the same text of both is shown.
    name = _most_informative(differing)
    return before_by_name.get(name, ""), after_by_name.get(name, "")


def _most_informative(names: Sequence[str]) -> str:
    """Return the first name of an answer; without one, the first name that does not contain "prompt"."""
    for beginning in _ANSWER_NAMES:
        for name in names:
            if name.startswith(beginning):
                return name
    for name in names:
        if "prompt" not in name:
            return name
    return "answer"


def _merged_row(before: BrowserRow, after: BrowserRow, changes: Mapping[str, Change]) -> BrowserRow:
    changed_scores = []
    for metric, change in changes.items():
        changed_scores.append(f"{metric} {score_text(change.before)} → {score_text(change.after)}")
    summary = ", ".join(changed_scores)
    texts: list[tuple[str, str]] = [("changed", summary)]
    before_by_name = _numbered(before.texts)
    after_by_name = _numbered(after.texts)
    for name in dict.fromkeys([*before_by_name, *after_by_name]):
        if before_by_name.get(name) == after_by_name.get(name):
            texts.append((name, before_by_name[name]))
            continue
        if name in before_by_name:
            texts.append((f"{name}, base", before_by_name[name]))
        if name in after_by_name:
            texts.append((f"{name}, new", after_by_name[name]))
    # The browser sorts by scores, so the change takes the place of the score.
    scores = {f"Δ {metric}": change.change for metric, change in changes.items()}
    return replace(after, scores=scores, texts=texts, key_texts=_merged_key_texts(after.key_texts))


def _merged_key_texts(key_texts: Sequence[KeyText]) -> list[KeyText]:
    """Return the columns of the table: the changed scores, and each key text, as one column or one for each run."""
    merged = [KeyText("changed")]
    for key in key_texts or [KeyText("answer")]:
        merged.append(key)
        merged.append(KeyText(f"{key.name}, base"))
        merged.append(KeyText(f"{key.name}, new", compared_with=f"{key.name}, base"))
    return merged


def _numbered(texts: Texts) -> dict[str, str]:
    """Return texts by name; if a name occurs again, a number is added to it."""
    by_name: dict[str, str] = {}
    for name, text in texts:
        unique_name = name
        number = 2
        while unique_name in by_name:
            unique_name = f"{name} {number}"
            number += 1
        by_name[unique_name] = text
    return by_name
