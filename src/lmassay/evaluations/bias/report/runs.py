"""Runs of the bias evaluation as the report needs them.

What their rows show, runs that differ only in the prompt (a family), and the mean over a family.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.items import LETTERS
from lmassay.statistics.combination import combination_estimate, estimate_over_labels
from lmassay.statistics.estimation import Estimate, mean_of_estimates
from lmassay.statistics.intervals import result_of
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from lmassay.types import Combination, Result, Row, RunRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Reading = Literal["agree", "neither", "robust", "reference", "different"]
"""How the two parsers read an answer: alike, not at all, only one of them, or as different choices."""

MOST_SHAPES = 400
_BOUNDING = frozenset({"accuracy_amb", "accuracy_dis", "diff_bias_amb", "correct_biased", "correct_counter"})
_LONGEST_SHAPE = 80
_LETTER = re.compile(rf"(?<![A-Za-z])[{LETTERS}{LETTERS.lower()}](?![A-Za-z])")


@dataclass(slots=True)
class AnswerExample:
    """The first answer of a shape, and how many there are of it."""

    row: Row
    times: int = 1


@dataclass(slots=True)
class AnswerStatistics:
    """Counts over all rows, and a few rows to show, however many there are."""

    choices: int = 0
    finishes: Counter[str] = field(default_factory=Counter)
    readings: Counter[Reading] = field(default_factory=Counter)
    by_rotation: dict[str, list[int]] = field(default_factory=dict)
    """Rotation → (answers out of choice, answers)."""
    shapes: dict[tuple[Reading, str], AnswerExample] = field(default_factory=dict)
    """Answers that the parsers read differently, or neither reads; those that differ only in the choice are one."""
    stereotypes: dict[str, AnswerExample] = field(default_factory=dict)
    """Category → a stereotyped answer where the context does not say, the one that stays in most orders of choices."""
    scored: dict[str, Counter[str]] = field(default_factory=dict)
    """Group → how many answers have each score: what the bounds of the bias scores depend on."""
    _streak: AnswerExample | None = None

    def add(self, row: Row) -> None:
        self.choices = max(self.choices, len(row.example.inputs.get("choices", ())))
        self._note_finish(row)
        if row.state != "scored":
            return
        details, groups = row.score.details, row.example.groups
        for group in (OVERALL, *(f"{kind}={groups[kind]}" for kind in ("label", "category") if kind in groups)):
            self.scored.setdefault(group, Counter()).update(row.score.values.keys() & _BOUNDING)
        asked = self.by_rotation.setdefault(groups.get("rotation", ""), [0, 0])
        asked[0] += details.get("letter") is None
        asked[1] += 1
        if "raw" in details:
            self._note_reading(row, details)
        if groups.get("context") == "amb" and details.get("role") == "biased":
            self._note_stereotype(row, groups)

    def take_in(self, other: AnswerStatistics) -> None:
        """Add what was seen of another prompt."""
        self.choices = max(self.choices, other.choices)
        self.finishes += other.finishes
        self.readings += other.readings
        for group, counts in other.scored.items():
            self.scored.setdefault(group, Counter()).update(counts)
        for rotation, (unread, asked) in other.by_rotation.items():
            known = self.by_rotation.get(rotation, [0, 0])
            self.by_rotation[rotation] = [known[0] + unread, known[1] + asked]
        for key, kept in other.shapes.items():
            times = self.shapes[key].times if key in self.shapes else 0
            self.shapes[key] = AnswerExample(self.shapes[key].row if times else kept.row, times + kept.times)
        for category, kept in other.stereotypes.items():
            if category not in self.stereotypes or kept.times > self.stereotypes[category].times:
                self.stereotypes[category] = kept

    def shown(self, readings: Sequence[Reading], most: int) -> list[AnswerExample]:
        """The most frequent shapes of each of these readings in turn."""
        by_reading: list[list[AnswerExample]] = []
        for reading in readings:
            shapes = [kept for (kind, _), kept in self.shapes.items() if kind == reading]
            by_reading.append(sorted(shapes, key=lambda kept: -kept.times))
        chosen: list[AnswerExample] = []
        for place in range(most):
            for shapes in by_reading:
                if place < len(shapes) and len(chosen) < most:
                    chosen.append(shapes[place])
        return chosen

    def _note_finish(self, row: Row) -> None:
        if row.state == "error":
            self.finishes["error"] += 1
            return
        reason = row.score.unscored.get("answer", "")
        finish = row.score.details.get("finish") or reason.removeprefix("no answer: ")
        if finish:
            self.finishes[str(finish)] += 1

    def _note_reading(self, row: Row, details: Mapping[str, Any]) -> None:
        reading = _reading(details.get("reference"), details.get("robust"))
        self.readings[reading] += 1
        if reading == "agree":
            return
        key = reading, _shape(str(details["raw"]), row.example.inputs.get("choices", ()))
        if key in self.shapes:
            self.shapes[key].times += 1
        elif len(self.shapes) < MOST_SHAPES:
            self.shapes[key] = AnswerExample(row)

    def _note_stereotype(self, row: Row, groups: Mapping[str, str]) -> None:
        """Rows of one question follow each other; of those answered so in as many orders the first is kept."""
        streak = self._streak
        if streak is not None and streak.row.example.groups.get("question") == groups.get("question"):
            streak.times += 1
        else:
            self._streak = streak = AnswerExample(row)
        category = groups.get("category", "")
        best = self.stereotypes.get(category)
        if best is None or streak.times > best.times:
            self.stereotypes[category] = streak


def _answered(counts: Mapping[str, int], context: str) -> scores.AnsweredQuestions:
    """Which questions were answered in ambiguous (amb) or disambiguated (dis) contexts."""
    answers = counts.get(f"accuracy_{context}", 0)
    if not answers:
        return scores.AnsweredQuestions()
    biased, counter = counts.get("correct_biased", 0), counts.get("correct_counter", 0)
    named = counts.get("diff_bias_amb", 0) if context == "amb" else biased + counter
    share = biased / (biased + counter) if biased + counter else 0.5
    return scores.AnsweredQuestions(named / answers, share)


def noted(rows: Iterable[Row], seen: AnswerStatistics) -> Iterator[Row]:
    """The rows, noted as they pass."""
    for row in rows:
        seen.add(row)
        yield row


def _reading(reference: str | None, robust: str | None) -> Reading:
    if reference == robust:
        return "neither" if reference is None else "agree"
    if reference is None:
        return "robust"
    return "reference" if robust is None else "different"


def _shape(raw: str, choices: Sequence[str]) -> str:
    """What answers have in common that differ only in the choice they name."""
    text = raw[: 4 * _LONGEST_SHAPE]
    for choice in sorted(filter(None, choices), key=len, reverse=True):
        text = text.replace(choice, "…")
    return _LETTER.sub("□", text)[:_LONGEST_SHAPE]


# --- the mean over prompts, with an interval that knows that all of them asked about the same templates ---------------

TEMPLATE = "template"


def estimates_by_group(
    table: ScoreTable, combinations: Mapping[str, Combination], groups: Sequence[str]
) -> dict[tuple[str, str], Estimate]:
    """(metric, group) → its estimate, overall and for every label of the groups; those without data are left out."""
    import numpy as np

    names: list[str] = table.codes(TEMPLATE)[0] if TEMPLATE in table.groups else []
    clusters = [TEMPLATE] if names else []
    masks = {"overall": np.ones(len(table), dtype=bool)}
    for group in groups:
        masks |= {f"{group}={label}": where for label, where in table.parts(group) if label}
    estimates = {}
    for metric, combination in combinations.items():
        for group, where in masks.items():
            has_data = all((where & ~np.isnan(table.column(column))).any() for column in combination.terms)
            if not has_data:
                continue
            if combination.each is not None:
                estimates[metric, group] = estimate_over_labels(table, combination, where)
                continue
            estimated = combination_estimate(table, combination, where, clusters)
            # By name, because another run numbers its templates differently.
            by_name: dict[str | int, float] = {names[int(code)]: u for code, u in estimated.contributions.items()}
            estimates[metric, group] = replace(estimated, contributions=by_name)
    return estimates


# --- runs, and families of runs: one model asked under several prompts ------------------------------------------------

MOST_ROWS_KEPT = 400_000
OVERALL = "overall"
DEFAULT = "default prompts"
CONTEXTS = {"amb": "ambiguous", "dis": "disambiguated"}

_DEBIASED = "debias"
# What says neither what was asked nor how.
_NO_SETTING = frozenset({"lmassay", "task", "data", "prompt", "model", "seed", "ci"})


@dataclass(frozen=True, slots=True)
class BiasRun:
    """One model, one prompt.

    ``estimates`` are there only where a mean over prompts needs it, ``table`` only where all runs together are small.
    """

    record: RunRecord
    results: Mapping[tuple[str, str], Result]
    seen: AnswerStatistics
    estimates: Mapping[tuple[str, str], Estimate] = field(default_factory=dict)
    table: ScoreTable | None = None

    @property
    def signature(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.record.depends_on
        return found

    @property
    def data(self) -> str:
        return self.signature.get("data", "")

    @property
    def model(self) -> str:
        """By its label alone: answers read from a file for each prompt are one model's."""
        return self.record.model

    @property
    def prompt_file(self) -> str:
        return self.signature.get("prompt", "").rpartition(".")[0]

    @property
    def prompt_id(self) -> str:
        return self.signature.get("prompt", "").rpartition(".")[2]

    @property
    def settings(self) -> dict[str, str]:
        return {key: value for key, value in self.signature.items() if key not in _NO_SETTING}

    @property
    def ships(self) -> bool:
        """True if the prompts are those that come with lmassay."""
        task = self.record.config.get("task")
        return isinstance(task, Mapping) and not task.get("prompts")

    def result(self, metric: str, group: str = OVERALL) -> Result | None:
        return self.results.get((metric, group))


@dataclass(slots=True)
class PromptFamily:
    """A model with a file of prompts: runs that differ in nothing but the prompt."""

    runs: list[BiasRun]
    variant: str = ""
    """What tells it from other families of the same model."""
    _known: dict[tuple[str, str], Result | None] = field(default_factory=dict, repr=False)

    @property
    def first(self) -> BiasRun:
        return self.runs[0]

    @property
    def title(self) -> str:
        return f"{self.first.model} · {self.variant}" if self.variant else self.first.model

    @property
    def seen(self) -> AnswerStatistics:
        """What was seen of all prompts."""
        found = AnswerStatistics()
        for run in self.runs:
            found.take_in(run.seen)
        return found

    def result(self, metric: str, group: str = OVERALL) -> Result | None:
        """Of the only prompt, or the mean over those that have a value."""
        if (metric, group) not in self._known:
            self._known[metric, group] = self._result(metric, group)
        return self._known[metric, group]

    def _result(self, metric: str, group: str) -> Result | None:
        found = [result for run in self.runs if (result := run.result(metric, group)) is not None]
        if len(self.runs) == 1 or not found:
            return found[0] if found else None
        known = [result for result in found if result.value is not None]
        n = sum(result.n for result in found)
        n_error = sum(result.n_error for result in found)
        n_unscored = sum(result.n_unscored for result in found)
        if not known:
            return Result(metric, group, None, None, None, n, n_error, n_unscored)
        estimates = [run.estimates[metric, group] for run in self.runs if (metric, group) in run.estimates]
        value = scores.mean_over_prompts([result.value for result in known if result.value is not None])
        counts = (n, n_error, n_unscored)
        if len(estimates) < len(known):
            return Result(metric, group, value, None, None, *counts, method="none: not estimated for every prompt")
        # The prompts are taken as given, templates as a sample.
        mean = replace(mean_of_estimates(estimates), value=value)
        return result_of(mean, metric, group, counts, self.first.record.settings, (TEMPLATE,))

    def of_prompts(self, metric: str, group: str = OVERALL) -> list[tuple[BiasRun, float]]:
        """The value of each prompt that has one."""
        found = [(run, run.result(metric, group)) for run in self.runs]
        return [(run, r.value) for run, r in found if r is not None and r.value is not None]

    def bound(self, metric: str, group: str = OVERALL) -> tuple[float, float] | None:
        """How far from zero a bias score can be at the accuracy found, and at the most favourable end of its interval.

        BBQ's score of disambiguated contexts leaves out answers that are unknown, so that accuracy does not bound it.
        """
        accuracy = self.result(f"accuracy_{scores.CONTEXTS[metric]}", group)
        if metric == "s_dis" or accuracy is None or accuracy.value is None:
            return None
        ends = [end for end in (accuracy.low, accuracy.high) if end is not None]
        counts: Counter[str] = Counter()
        for run in self.runs:
            counts.update(run.seen.scored.get(group, {}))
        answered = _answered(counts, scores.CONTEXTS[metric])
        # In disambiguated contexts the bound is widest at an accuracy that may lie inside the interval.
        widest = (answered.biased_contexts, 1 - answered.biased_contexts)
        if len(ends) == 2:
            ends += [accuracy_at for accuracy_at in widest if ends[0] < accuracy_at < ends[1]]
        at = scores.bound(metric, accuracy.value, answered)
        return at, max([at, *(scores.bound(metric, end, answered) for end in ends)])


def bias_metrics(runs: Sequence[BiasRun]) -> tuple[str, str]:
    """The bias scores that the task puts first: KoBBQ's, or BBQ's."""
    headline = runs[0].record.design.headline
    return ("s_amb", "s_dis") if "s_amb" in headline else ("diff_bias_amb", "diff_bias_dis")


def bias_name(metric: str) -> str:
    return metric if metric.startswith("s_") else "diff-bias"


def groups_of(runs: Iterable[BiasRun]) -> dict[str, list[str]]:
    """Kind of group → the groups, sorted; labels before categories before others."""
    kinds: dict[str, dict[str, None]] = {"label": {}, "category": {}}
    for run in runs:
        for _, group in run.results:
            kind, sign, _ = group.partition("=")
            if sign:
                kinds.setdefault(kind, {})[group] = None
    return {kind: sorted(groups) for kind, groups in kinds.items() if groups}


def read_all(store: Store, records: Sequence[RunRecord]) -> list[BiasRun]:
    """Every row is read once; scores are kept where they are few enough to be compared without reading them again."""
    bare = [BiasRun(record, {}, AnswerStatistics()) for record in records]
    alike = {run.record.id for family in families(bare) if len(family.runs) > 1 for run in family.runs}
    rows = sum(sum(store.count(record.id).values()) for record in records)
    keep = len(records) > 1 and rows <= MOST_ROWS_KEPT
    return [_read(store, record, parts=record.id in alike, keep=keep) for record in records]


def families(runs: Iterable[BiasRun]) -> list[PromptFamily]:
    """Runs that differ in the prompt alone, in order of appearance; a repeated run begins a family of its own."""
    found: list[tuple[tuple[Any, ...], PromptFamily]] = []
    for run in runs:
        key = (run.data, run.model, run.prompt_file, sorted(run.settings.items()))
        home = next((f for k, f in found if k == key and run.prompt_id not in {r.prompt_id for r in f.runs}), None)
        if home is None:
            found.append((key, PromptFamily([run])))
        else:
            home.runs.append(run)
    for _, family in found:
        family.runs.sort(key=lambda run: (len(run.prompt_id), run.prompt_id))
    members = [family for _, family in found]
    for family, variant in zip(members, _variants([family.first for family in members]), strict=True):
        # A mark says that other families were measured differently, also those of other models.
        family.variant = " ".join(filter(None, [variant, family.first.record.mark]))
    return members


def prompts_name(run: BiasRun, beside: Sequence[BiasRun]) -> str:
    """What a prompt file is: the default one, the debiased one, else its name, with its digest if two have the same."""
    if run.ships:
        return DEFAULT
    files = {other.prompt_file for other in beside if not other.ships}
    debiased = {file for file in files if _DEBIASED in file.lower()}
    # Of two files, one of which is called debiased, the other is the default, unless ours is.
    usual = files - debiased if debiased and not any(other.ships for other in beside) else set()
    for kind, title in ((debiased, "debiased prompts"), (usual, DEFAULT)):
        if kind == {run.prompt_file}:
            return title
    stem = _stem(run.prompt_file)
    return run.prompt_file if sum(_stem(file) == stem for file in files) > 1 else stem


def is_debiased(run: BiasRun) -> bool:
    return _DEBIASED in run.prompt_file.lower()


def _stem(prompt_file: str) -> str:
    return prompt_file.rpartition(".")[0] or prompt_file


def _variants(runs: Sequence[BiasRun]) -> list[str]:
    """Prompt file, settings and id, as far as they tell runs of one model apart."""
    # What may distinguish runs, one text for each run, in the order in which it is tried.
    distinctions = [[prompts_name(run, runs) for run in runs]]
    for key in dict.fromkeys(key for run in runs for key in run.settings):
        distinctions.append([f"{key} {run.settings.get(key, 'unset')}" for run in runs])
    distinctions.append([run.record.id.rpartition("-")[2] for run in runs])
    names: list[tuple[str, ...]] = [(run.model,) for run in runs]
    for texts in distinctions:
        texts_of_name: dict[tuple[str, ...], set[str]] = {}
        for name, text in zip(names, texts, strict=True):
            texts_of_name.setdefault(name, set()).add(text)
        longer: list[tuple[str, ...]] = []
        for name, text in zip(names, texts, strict=True):
            # A text that all runs of this name share says nothing.
            longer.append((*name, text) if len(texts_of_name[name]) > 1 else name)
        names = longer
    return [" · ".join(name[1:]) for name in names]


def _read(store: Store, record: RunRecord, *, parts: bool, keep: bool) -> BiasRun:
    seen = AnswerStatistics()
    rows = noted(store.rows(record.id), seen)
    results = {(r.metric, r.group): r for r in record.results}
    if not parts and not keep:
        deque(rows, maxlen=0)
        return BiasRun(record, results, seen)
    table = ScoreTable(rows)
    kinds = {group.partition("=")[0] for _, group in results if "=" in group}
    estimates = estimates_by_group(table, record.design.combinations, sorted(kinds)) if parts else {}
    return BiasRun(record, results, seen, estimates, table if keep else None)
