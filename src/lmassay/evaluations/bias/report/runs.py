"""The runs that the bias section reports: statistics of their answers, and families of runs.

A family has the runs of one model with several prompts of one file, on the same data and with the same settings. Its
runs may have been made by different versions of lmassay, and with different seeds and methods for intervals.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.items import LETTERS
from lmassay.statistics.combination import estimate_by_cluster_name, mean_over_runs
from lmassay.statistics.estimation import Estimate
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from lmassay.types import Combination, Result, Row, RunRecord

Reading = Literal["agree", "neither", "robust", "reference", "different"]
"""How the two parsers read an answer: both as the same choice, neither as any choice, only the robust parser or only
the reference parser (KoBBQ's own) as a choice, or both as different choices."""

OVERALL = "overall"
MAX_SHAPES = 400
"""At most this many different forms of answers are kept as examples; the counts include all answers."""

# The scores that the bounds of the bias scores depend on.
_BOUNDING_SCORES = frozenset({"accuracy_amb", "accuracy_dis", "diff_bias_amb", "correct_biased", "correct_counter"})
_MAX_SHAPE_LENGTH = 80
_SINGLE_LETTER = re.compile(rf"(?<![A-Za-z])[{LETTERS}{LETTERS.lower()}](?![A-Za-z])")

# --- statistics of the answers of a run -------------------------------------------------------------------------------


@dataclass(slots=True)
class AnswerExample:
    """An answer that is shown as an example of all answers like it, and how many such answers there are."""

    row: Row
    times: int = 1


@dataclass(slots=True)
class AnswerStatistics:
    """Counts of the answers of a run, and a few answers to show. Its size does not grow with the number of rows."""

    choices: int = 0
    """The largest number of choices of a question."""
    finishes: Counter[str] = field(default_factory=Counter)
    """How an answer ended (``stop``, ``length``, ``refusal`` …; ``error`` for a failed request) → number of answers."""
    readings: Counter[Reading] = field(default_factory=Counter)
    """How the two parsers read the answers → number of answers; empty if answers are not read from text."""
    by_rotation: dict[str, list[int]] = field(default_factory=dict)
    """Rotation (order of the choices) → [answers that name no choice, all answers]."""
    shapes: dict[tuple[Reading, str], AnswerExample] = field(default_factory=dict)
    """(reading, form of the answer) → an answer that the parsers read differently, or that neither reads.

    The form is the text of the answer without the choice that it names.
    """
    stereotypes: dict[str, AnswerExample] = field(default_factory=dict)
    """Category → the stereotyped answer in an ambiguous context that was given in the most orders of the choices."""
    scored: dict[str, Counter[str]] = field(default_factory=dict)
    """Group → how many answers have each of the scores that the bounds of the bias scores depend on."""
    _current_stereotype: AnswerExample | None = None

    def add(self, row: Row) -> None:
        """Count a row of the run."""
        if scores.is_control_context(row.example.groups.get("context", "")):
            # Control questions have their own metrics and are not part of the bias that is described here.
            return
        self.choices = max(self.choices, len(row.example.inputs.get("choices", ())))
        self._count_finish(row)
        if row.state != "scored":
            return
        details = row.score.details
        groups = row.example.groups
        group_names = [OVERALL]
        for kind in ("label", "category"):
            if kind in groups:
                group_names.append(f"{kind}={groups[kind]}")
        for group in group_names:
            self.scored.setdefault(group, Counter()).update(row.score.values.keys() & _BOUNDING_SCORES)
        rotation_counts = self.by_rotation.setdefault(groups.get("rotation", ""), [0, 0])
        rotation_counts[0] += details.get("letter") is None
        rotation_counts[1] += 1
        if "raw" in details:
            self._count_reading(row, details)
        if groups.get("context") == "amb" and details.get("role") == "biased":
            self._add_stereotype(row, groups)

    def merge(self, other: AnswerStatistics) -> None:
        """Add the statistics of another run."""
        self.choices = max(self.choices, other.choices)
        self.finishes += other.finishes
        self.readings += other.readings
        for group, counts in other.scored.items():
            self.scored.setdefault(group, Counter()).update(counts)
        for rotation, (out_of_choice, answers) in other.by_rotation.items():
            before = self.by_rotation.get(rotation, [0, 0])
            self.by_rotation[rotation] = [before[0] + out_of_choice, before[1] + answers]
        for key, example in other.shapes.items():
            # New objects are created, because those of `other` belong to its run and must not change.
            if key in self.shapes:
                own_example = self.shapes[key]
                self.shapes[key] = AnswerExample(own_example.row, own_example.times + example.times)
            else:
                self.shapes[key] = AnswerExample(example.row, example.times)
        for category, example in other.stereotypes.items():
            if category not in self.stereotypes or example.times > self.stereotypes[category].times:
                self.stereotypes[category] = example

    def examples(self, readings: Sequence[Reading], limit: int) -> list[AnswerExample]:
        """Return up to ``limit`` examples: the most frequent one of each reading, then the second ones, and so on."""
        by_reading: list[list[AnswerExample]] = []
        for reading in readings:
            shapes = [example for (kind, _), example in self.shapes.items() if kind == reading]
            by_reading.append(sorted(shapes, key=lambda example: -example.times))
        chosen: list[AnswerExample] = []
        for rank in range(limit):
            for shapes in by_reading:
                if rank < len(shapes) and len(chosen) < limit:
                    chosen.append(shapes[rank])
        return chosen

    def _count_finish(self, row: Row) -> None:
        if row.state == "error":
            self.finishes["error"] += 1
            return
        # An answer that cannot be scored has no details, but the reason for that, "no answer: …", says how it ended.
        reason = row.score.unscored.get("answer", "")
        finish = row.score.details.get("finish") or reason.removeprefix("no answer: ")
        if finish:
            self.finishes[str(finish)] += 1

    def _count_reading(self, row: Row, details: Mapping[str, Any]) -> None:
        reading = _reading(details.get("reference"), details.get("robust"))
        self.readings[reading] += 1
        if reading == "agree":
            return
        key = reading, _shape(str(details["raw"]), row.example.inputs.get("choices", ()))
        if key in self.shapes:
            self.shapes[key].times += 1
        elif len(self.shapes) < MAX_SHAPES:
            self.shapes[key] = AnswerExample(row)

    def _add_stereotype(self, row: Row, groups: Mapping[str, str]) -> None:
        """Keep the question that gets the stereotyped answer in the most orders of its choices; of ties, the first."""
        # The rows of one question are consecutive, so only the current question must be remembered.
        current = self._current_stereotype
        if current is not None and current.row.example.groups.get("question") == groups.get("question"):
            current.times += 1
        else:
            self._current_stereotype = current = AnswerExample(row)
        category = groups.get("category", "")
        best = self.stereotypes.get(category)
        if best is None or current.times > best.times:
            self.stereotypes[category] = current


def _reading(reference: str | None, robust: str | None) -> Reading:
    """Classify the letters that the two parsers read; None means that a parser reads no choice."""
    if reference is None and robust is None:
        return "neither"
    if reference == robust:
        return "agree"
    if reference is None:
        return "robust"
    if robust is None:
        return "reference"
    return "different"


def _shape(raw: str, choices: Sequence[str]) -> str:
    """Return an answer without the choice that it names, so that answers of the same form count as one."""
    # Choices are longer than the "…" that replaces them, so more characters are searched than are kept in the end.
    text = raw[: 4 * _MAX_SHAPE_LENGTH]
    # The longest choice is replaced first, because a choice may contain another one.
    for choice in sorted(filter(None, choices), key=len, reverse=True):
        text = text.replace(choice, "…")
    without_letters = _SINGLE_LETTER.sub("□", text)
    return without_letters[:_MAX_SHAPE_LENGTH]


def _answered_questions(counts: Mapping[str, int], context: str) -> scores.AnsweredQuestions:
    """Return what the bounds of bias scores in one kind of context depend on, from counts of scores."""
    answers = counts.get(f"accuracy_{context}", 0)
    if not answers:
        return scores.AnsweredQuestions()
    confirming = counts.get("correct_biased", 0)
    contradicting = counts.get("correct_counter", 0)
    disambiguated = confirming + contradicting
    with_biased_answer = disambiguated
    if context == "amb":
        with_biased_answer = counts.get("diff_bias_amb", 0)
    # Without disambiguated contexts, both kinds are assumed to be equally frequent.
    confirming_share = 0.5
    if disambiguated:
        confirming_share = confirming / disambiguated
    return scores.AnsweredQuestions(with_biased_answer / answers, confirming_share)


# --- the mean over prompts, whose interval takes into account that all prompts have the same templates ----------------

TEMPLATE = "template"


def estimates_by_group(
    table: ScoreTable, combinations: Mapping[str, Combination], groups: Sequence[str]
) -> dict[tuple[str, str], Estimate]:
    """Return (metric, group) → estimate, overall and for every label of the groups; without data there is no entry."""
    import numpy as np

    masks = {OVERALL: np.ones(len(table), dtype=bool)}
    for group in groups:
        for label, where in table.parts(group):
            if label:
                masks[f"{group}={label}"] = where
    estimates = {}
    for metric, combination in combinations.items():
        for group, where in masks.items():
            estimate = estimate_by_cluster_name(table, combination, where, [TEMPLATE])
            if estimate is not None:
                estimates[metric, group] = estimate
    return estimates


# --- runs, and families of runs ---------------------------------------------------------------------------------------

MAX_ROWS_KEPT = 400_000
"""Up to this number of rows, the scores of all runs are kept in memory, so that comparisons do not read them again."""
DEFAULT_PROMPTS = "default prompts"
CONTEXT_TITLES = {"amb": "ambiguous", "dis": "disambiguated"}

_DEBIASED = "debias"
# Parts of a signature that are not settings. Data, prompt and model are compared separately. The version of lmassay,
# the task, the seed and the method for intervals do not say how the questions were asked.
_NOT_SETTINGS = frozenset({"lmassay", "task", "data", "prompt", "model", "seed", "ci"})


@dataclass(frozen=True, slots=True)
class BiasRun:
    """A run of the task: one model with one prompt.

    ``estimates`` are computed only if a mean over prompts needs them. ``table`` is kept only if all runs together have
    few enough rows.
    """

    record: RunRecord
    results: Mapping[tuple[str, str], Result]
    statistics: AnswerStatistics
    estimates: Mapping[tuple[str, str], Estimate] = field(default_factory=dict)
    table: ScoreTable | None = None

    @property
    def signature(self) -> Mapping[str, str]:
        """The parts of the run's signature."""
        signature: Mapping[str, str] = self.record.depends_on
        return signature

    @property
    def data(self) -> str:
        """The name and digest of the data."""
        return self.signature.get("data", "")

    @property
    def model(self) -> str:
        """The label of the model. Files of stored answers belong to the same model if they have the same label."""
        return self.record.model

    @property
    def prompt_file(self) -> str:
        """The name and digest of the prompt file."""
        return self.signature.get("prompt", "").rpartition(".")[0]

    @property
    def prompt_id(self) -> str:
        """The number of the prompt in its file."""
        return self.signature.get("prompt", "").rpartition(".")[2]

    @property
    def settings(self) -> dict[str, str]:
        """The parts of the signature that say how the questions were asked and scored."""
        return {key: value for key, value in self.signature.items() if key not in _NOT_SETTINGS}

    @property
    def uses_shipped_prompts(self) -> bool:
        """True if the prompts are those that come with lmassay."""
        task = self.record.config.get("task")
        return isinstance(task, Mapping) and not task.get("prompts")

    def result(self, metric: str, group: str = OVERALL) -> Result | None:
        """Return the result of a metric for a group, or None."""
        return self.results.get((metric, group))


@dataclass(slots=True)
class PromptFamily:
    """The runs of one model with different prompts of one file, on the same data and with the same settings."""

    runs: list[BiasRun]
    variant: str = ""
    """What distinguishes the family from others of the same model."""
    _cached_results: dict[tuple[str, str], Result | None] = field(default_factory=dict, repr=False)

    @property
    def first(self) -> BiasRun:
        """The run of the first prompt."""
        return self.runs[0]

    @property
    def title(self) -> str:
        """The model and, if it has several families, the variant."""
        return f"{self.first.model} · {self.variant}" if self.variant else self.first.model

    @property
    def statistics(self) -> AnswerStatistics:
        """The statistics of the answers to all prompts."""
        merged = AnswerStatistics()
        for run in self.runs:
            merged.merge(run.statistics)
        return merged

    def result(self, metric: str, group: str = OVERALL) -> Result | None:
        """Return the result of the run or, with several prompts, the mean over the prompts that have a value."""
        if (metric, group) not in self._cached_results:
            self._cached_results[metric, group] = self._compute_result(metric, group)
        return self._cached_results[metric, group]

    def _compute_result(self, metric: str, group: str) -> Result | None:
        results = []
        for run in self.runs:
            result = run.result(metric, group)
            if result is not None:
                results.append(result)
        if not results:
            return None
        if len(self.runs) == 1:
            return results[0]
        estimates = [run.estimates[metric, group] for run in self.runs if (metric, group) in run.estimates]
        return mean_over_runs(results, estimates, self.first.record.settings, (TEMPLATE,))

    def prompt_values(self, metric: str, group: str = OVERALL) -> list[tuple[BiasRun, float]]:
        """Return each prompt that has a value, with its value."""
        values = []
        for run in self.runs:
            result = run.result(metric, group)
            if result is not None and result.value is not None:
                values.append((run, result.value))
        return values

    def bound(self, metric: str, group: str = OVERALL) -> tuple[float, float] | None:
        """Return how far from zero a bias score can be.

        The first number is the bound at the measured accuracy, the second the widest bound within the accuracy's
        interval. None if there is no accuracy, and for BBQ's score of disambiguated contexts: it leaves out unknown
        answers, so accuracy does not bound it.
        """
        context = scores.CONTEXTS[metric]
        accuracy = self.result(f"accuracy_{context}", group)
        if metric == "s_dis" or accuracy is None or accuracy.value is None:
            return None
        counts: Counter[str] = Counter()
        for run in self.runs:
            counts.update(run.statistics.scored.get(group, {}))
        answered = _answered_questions(counts, context)
        accuracies = [limit for limit in (accuracy.low, accuracy.high) if limit is not None]
        if len(accuracies) == 2:
            low, high = accuracies
            # In disambiguated contexts, the bound is widest at one of these accuracies, if it lies inside the interval.
            for widest_at in (answered.biased_contexts, 1 - answered.biased_contexts):
                if low < widest_at < high:
                    accuracies.append(widest_at)
        measured = scores.bound(metric, accuracy.value, answered)
        within_interval = [scores.bound(metric, value, answered) for value in accuracies]
        return measured, max([measured, *within_interval])


def bias_metrics(runs: Sequence[BiasRun]) -> tuple[str, str]:
    """Return the bias scores for both kinds of context: BBQ's if they are headline metrics, otherwise KoBBQ's."""
    headline = runs[0].record.design.headline
    return ("s_amb", "s_dis") if "s_amb" in headline else ("diff_bias_amb", "diff_bias_dis")


def bias_name(metric: str) -> str:
    """Return the name of a bias score in tables and figures."""
    return metric if metric.startswith("s_") else "diff-bias"


def groups_by_kind(runs: Iterable[BiasRun]) -> dict[str, list[str]]:
    """Return kind of group → its sorted groups; first the kind "label", then "category", then others."""
    kinds: dict[str, dict[str, None]] = {"label": {}, "category": {}}
    for run in runs:
        for _, group in run.results:
            kind, equals, _ = group.partition("=")
            if equals:
                kinds.setdefault(kind, {})[group] = None
    return {kind: sorted(groups) for kind, groups in kinds.items() if groups}


def read_runs(store: Store, records: Sequence[RunRecord]) -> list[BiasRun]:
    """Read the rows of all runs once; keep their scores in memory if they are few enough."""
    # Only families with several runs need estimates, for the mean over prompts.
    in_family: set[str] = set()
    runs_without_rows = [BiasRun(record, {}, AnswerStatistics()) for record in records]
    for family in prompt_families(runs_without_rows):
        if len(family.runs) > 1:
            in_family.update(run.record.id for run in family.runs)
    row_count = 0
    for record in records:
        row_count += sum(store.count(record.id).values())
    keep_tables = len(records) > 1 and row_count <= MAX_ROWS_KEPT
    return [_read_run(store, record, estimate=record.id in in_family, keep=keep_tables) for record in records]


def _read_run(store: Store, record: RunRecord, *, estimate: bool, keep: bool) -> BiasRun:
    statistics = AnswerStatistics()
    rows = _counted_rows(store.rows(record.id), statistics)
    results = {(result.metric, result.group): result for result in record.results}
    if not estimate and not keep:
        # Iterating over the rows counts them; nothing else is needed.
        deque(rows, maxlen=0)
        return BiasRun(record, results, statistics)
    table = ScoreTable(rows)
    estimates = {}
    if estimate:
        kinds = {group.partition("=")[0] for _, group in results if "=" in group}
        estimates = estimates_by_group(table, record.design.combinations, sorted(kinds))
    return BiasRun(record, results, statistics, estimates, table if keep else None)


def _counted_rows(rows: Iterable[Row], statistics: AnswerStatistics) -> Iterator[Row]:
    """Yield the rows unchanged, and add each to the statistics."""
    for row in rows:
        statistics.add(row)
        yield row


def prompt_families(runs: Iterable[BiasRun]) -> list[PromptFamily]:
    """Group runs that differ only in the prompt, in order of appearance; a repeated run begins another family."""
    families: list[PromptFamily] = []
    families_by_key: dict[str, list[PromptFamily]] = {}
    for run in runs:
        key = repr((run.data, run.model, run.prompt_file, sorted(run.settings.items())))
        same_key = families_by_key.setdefault(key, [])
        for family in same_key:
            if all(member.prompt_id != run.prompt_id for member in family.runs):
                family.runs.append(run)
                break
        else:
            family = PromptFamily([run])
            same_key.append(family)
            families.append(family)
    for family in families:
        # By length first, so that prompt 10 follows prompt 9.
        family.runs.sort(key=lambda run: (len(run.prompt_id), run.prompt_id))
    variants = _variants([family.first for family in families])
    for family, variant in zip(families, variants, strict=True):
        # A mark such as [b] says that other families, possibly of other models, were measured with other settings.
        family.variant = " ".join(filter(None, [variant, family.first.record.mark]))
    return families


def prompt_file_title(run: BiasRun, all_runs: Sequence[BiasRun]) -> str:
    """Return "default prompts", "debiased prompts" or the name of the prompt file of a run.

    The name includes the digest if another file of ``all_runs`` has the same name.
    """
    if run.uses_shipped_prompts:
        return DEFAULT_PROMPTS
    files = {other.prompt_file for other in all_runs if not other.uses_shipped_prompts}
    debiased = {file for file in files if _DEBIASED in file.lower()}
    if debiased == {run.prompt_file}:
        return "debiased prompts"
    any_shipped = any(other.uses_shipped_prompts for other in all_runs)
    # If one of two files is called debiased, the other is called default, unless a run uses the prompts of lmassay.
    if debiased and not any_shipped and files - debiased == {run.prompt_file}:
        return DEFAULT_PROMPTS
    stem = _stem(run.prompt_file)
    for file in files - {run.prompt_file}:
        if _stem(file) == stem:
            # Only the digest distinguishes the two files.
            return run.prompt_file
    return stem


def is_debiased(run: BiasRun) -> bool:
    """Return True if the name of the prompt file says that its prompts are debiased."""
    return _DEBIASED in run.prompt_file.lower()


def _stem(prompt_file: str) -> str:
    """Return the name of a prompt file without its digest."""
    return prompt_file.rpartition(".")[0] or prompt_file


def _variants(runs: Sequence[BiasRun]) -> list[str]:
    """Return what distinguishes each run from other runs of its model: prompt file, settings or id."""
    names: list[tuple[str, ...]] = []
    prompt_files: list[str] = []
    id_endings: list[str] = []
    # Keys in the order in which they first appear, so that the names do not depend on the order within a set.
    setting_keys: dict[str, None] = {}
    for run in runs:
        # A name begins with the model, because only runs of one model need to be distinguished.
        names.append((run.model,))
        prompt_files.append(prompt_file_title(run, runs))
        id_endings.append(run.record.id.rpartition("-")[2])
        setting_keys.update(dict.fromkeys(run.settings))
    # For readers, the prompt file matters most, so settings are named only if the prompt files are the same.
    names = _extend_ambiguous(names, prompt_files)
    for key in setting_keys:
        settings = []
        for run in runs:
            value = run.settings.get(key, "unset")
            settings.append(f"{key} {value}")
        names = _extend_ambiguous(names, settings)
    # If nothing else distinguishes them, as for repetitions of a run, the end of the id does.
    names = _extend_ambiguous(names, id_endings)
    variants = []
    for _model, *parts in names:
        variants.append(" · ".join(parts))
    return variants


def _extend_ambiguous(names: Sequence[tuple[str, ...]], texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Add the text of each run to its name, if runs with the same name have different texts."""
    texts_by_name: dict[tuple[str, ...], set[str]] = {}
    for name, text in zip(names, texts, strict=True):
        texts_by_name.setdefault(name, set()).add(text)
    extended: list[tuple[str, ...]] = []
    for name, text in zip(names, texts, strict=True):
        # A text that all runs of this name share would not distinguish them.
        is_distinctive = len(texts_by_name[name]) > 1
        if is_distinctive:
            name = (*name, text)
        extended.append(name)
    return extended
