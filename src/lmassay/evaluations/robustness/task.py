"""The robustness evaluation as a task: does the system break under attack, and does the attack deserve it?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lmassay.contracts import Model, StoredAnswers, Task
from lmassay.errors import ConfigError, DataError, PluginError
from lmassay.evaluations.robustness import coverage, criterion, evaluation
from lmassay.evaluations.robustness.attack import Attack, CandidateMaker
from lmassay.evaluations.robustness.coverage import CHANGED, GROUP, UNCHANGED
from lmassay.evaluations.robustness.scorers.base import (
    Scorer,
    ScorerError,
    full_signature,
    has_own_decrease,
    own_decrease,
)
from lmassay.evaluations.robustness.teapot import module
from lmassay.plugins.options import build, split_spec
from lmassay.statistics import intervals
from lmassay.statistics.estimation import Term, estimate
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.storage.files import ParallelText, open_parallel
from lmassay.types import Example, Generate, Request, Response, Result, Score, SourceLocation

ScorerSpec = str | dict[str, Any]
Column = NDArray[np.float64]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Robustness(Task):
    """s_src, d_tgt (or s_tgt without a reference) and success of one attack on one system.

    ``side: source`` looks at the attack alone and asks no model; ``side: target`` at given outputs alone.
    ``prompt`` is what a live system is asked; ``{x}`` stands for the sentence. At a text in ``stop`` its answer ends.
    """

    name = "robustness"
    version = 1
    evaluation = evaluation

    def __init__(
        self,
        src: Path | None = None,
        attack: Attack | None = None,
        ref: Path | None = None,
        s_src: ScorerSpec = "chrf",
        s_tgt: ScorerSpec = "chrf",
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        success_threshold: Finite = 1.0,
        side: Literal["both", "source", "target"] = "both",
        prompt: str = "{x}",
        max_tokens: Annotated[int, Field(ge=1, strict=True)] = 256,
        stop: list[str] = [],  # noqa: B006 - never written to; the type says what a configuration may hold
        temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0,
        base_dir: Path = Path(),
    ) -> None:
        self.side = side
        self.label = attack.label if attack is not None else "target side"
        self.success_threshold = success_threshold
        self.needs = frozenset() if side == "source" else frozenset({"generate"})
        self._attack = attack
        self._src, self._ref = src, ref
        self._langs = (src_lang, tgt_lang)
        self._prompt, self._max_tokens, self._temperature = prompt, max_tokens, temperature
        self._stop = tuple(stop)
        self._check_options()
        # Scorers written for TEAPOT say `import teapot`.
        module.install()
        self._scorer_specs = {"s_src": s_src, "s_tgt": s_tgt}
        self._s_src: Scorer | None = None if side == "target" else build("scorer", s_src, base_dir, "task.s_src")
        self._s_tgt: Scorer | None = None if side == "source" else build("scorer", s_tgt, base_dir, "task.s_tgt")
        self._maker = CandidateMaker(attack, base_dir) if attack is not None and attack.file is None else None
        attacked = self._maker.most if self._maker is not None else 1
        self.requests_each = 0 if side == "source" else 1 + attacked
        self._opened: ParallelText | None = None
        self._lines = 0
        self._outputs = ""
        self._notes: list[str] = []

    # --- what the runner asks ---------------------------------------------------------------------------------------

    def check(self) -> None:
        if self._paths():
            self._text()
        if self._s_src is not None:
            self._s_src.check(self._langs[0])
        if self._s_tgt is not None:
            self._s_tgt.check(self._langs[1])

    def check_model(self, model: Model) -> None:
        """Outputs from files must have this task's roles and as many lines as its texts."""
        if not isinstance(model, StoredAnswers) or model.lines is None:
            if self._src is None:
                raise ConfigError("task.src: a live system must be asked something; give the source file")
            return
        lines = model.lines
        if self._attack is not None and self._attack.search is not None:
            raise ConfigError("task.attack.search: a search must ask a live system; outputs from files cannot answer")
        missing = {"out", "adv_out"} - model.roles
        if missing:
            raise ConfigError(f"model.files: the role {' and '.join(sorted(missing))} is missing; give out and adv_out")
        if self._paths() and lines != self._text().lines:
            raise DataError(
                f"the system's outputs have {lines} lines, but {next(iter(self._paths().values()))} has "
                f"{self._text().lines}; parallel files must have as many lines"
            )
        self._lines = lines
        self._outputs = str(model.identity().get("out", ""))

    def check_examples(self, limit: int | None) -> None:
        """Refuse an attack that changes no input, and note one that changes few: its success says little."""
        if self._attack is None or self._src is None:
            return
        found = coverage.measure(islice(self._changes(), limit))
        self._notes = []
        if not found.is_low:
            return
        sample = coverage.A_FEW if limit is None else min(limit, coverage.A_FEW)
        inputs = [row["src"] for row in islice(self._text().rows(), sample)]
        perturbations = evaluation.components["perturbation"]
        text = coverage.explanation(found, self._attack, self._maker, inputs, perturbations)
        if found.is_none:
            raise ConfigError(f"task.attack: {text}")
        self._notes = [text]

    def notes(self) -> list[str]:
        return self._notes

    def size(self) -> int | None:
        return self._text().lines if self._paths() else self._lines or None

    def examples(self) -> Iterator[Example]:
        rows = self._text().rows() if self._paths() else ({} for _ in range(self._lines))
        for index, row in enumerate(rows):
            inputs: dict[str, Any] = {"line": index + 1}
            if "src" in row:
                inputs["src"] = row["src"]
            if "adv_src" in row:
                inputs["adv_src"] = [row["adv_src"]]
            elif self._maker is not None and "src" in row:
                made = self._maker.candidates(row["src"], index)
                inputs["adv_src"] = [candidate.text for candidate in made]
                inputs["made_by"] = [candidate.made_by for candidate in made]
            shared = row.get("src", row.get("ref", self._outputs))
            yield Example(_example_id(index, shared), inputs, row.get("ref"), _groups(inputs))

    def requests(self, example: Example) -> Sequence[Request]:
        if self.side == "source":
            return []
        index = example.inputs["line"] - 1
        adversarial = example.inputs.get("adv_src", [""])
        return [
            self._request(example.inputs.get("src", ""), SourceLocation("out", index)),
            *(self._request(text, SourceLocation("adv_out", index)) for text in adversarial),
        ]

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        """Score all candidates of all examples in one go, then keep each example's best."""
        owners = [i for i, e in enumerate(examples) for _ in e.inputs.get("adv_src", [""])]
        columns = self._score_columns(examples, responses, owners)
        fitness = self._fitness(columns)
        firsts: dict[int, int] = {}
        best: dict[int, int] = {}
        for place, owner in enumerate(owners):
            firsts.setdefault(owner, place)
            if owner not in best or fitness[place] > fitness[best[owner]]:
                best[owner] = place
        return [
            self._verdict(examples[i], responses[i], columns, best[i], best[i] - firsts[i])
            for i in range(len(examples))
        ]

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        results: list[Result] = []
        for metric in self._metrics():
            results.append(intervals.mean_result(table, metric, settings))
            if metric != "success":
                results += _spread(table, metric)
        if self.side != "source" and self._ref is not None:
            results.append(signed_drop(table, settings))
        if self._s_tgt is not None and self._s_tgt.is_binary and self._ref is not None:
            results.append(_turned_wrong(table, settings))
        if GROUP in table.groups:
            results.append(_unchanged(table, settings))
        if table.values("cut_off").any():
            results.append(intervals.mean_result(table, "cut_off", settings))
        return results

    def _metrics(self) -> list[str]:
        target = [] if self.side == "source" else ["s_tgt" if self._ref is None else "d_tgt"]
        return [*(["success"] if self.side == "both" else []), *([] if self.side == "target" else ["s_src"]), *target]

    def signature(self) -> Mapping[str, Any]:
        parts: dict[str, Any] = {}
        for role, file in (self._text().files if self._paths() else {}).items():
            if role != "adv_src":
                parts[role] = file.sha256[:8]
        if self._attack is not None:
            parts["attack"] = (
                self._maker.signature if self._maker else f"file({self._text().files['adv_src'].sha256[:8]})"
            )
        for side, scorer, lang in (("s_src", self._s_src, self._langs[0]), ("s_tgt", self._s_tgt, self._langs[1])):
            if scorer is not None:
                options = split_spec(self._scorer_specs[side], side)[1]
                parts[side] = full_signature(scorer, options) + (f".{lang}" if lang else "")
        if self.side != "source":
            parts |= {"threshold": self.success_threshold} if self.side == "both" else {}
            if self._src is not None:
                prompt = hashlib.sha256(self._prompt.encode()).hexdigest()[:8]
                parts |= {"prompt": "x" if self._prompt == "{x}" else prompt, "max_tokens": self._max_tokens}
                parts |= {"temperature": self._temperature} if self._temperature else {}
                parts |= {"stop": ",".join(map(repr, self._stop))} if self._stop else {}
        return parts

    # --- inside -----------------------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        if self.side != "target" and (self._src is None or self._attack is None):
            raise ConfigError("task: give src and attack, or set side: target to judge outputs alone")
        if self.side == "target" and self._attack is not None and self._attack.file is None and self._src is None:
            raise ConfigError("task.attack: a perturbation needs src; leave it out for side: target")
        if "{x}" not in self._prompt:
            raise ConfigError("task.prompt: '{x}' is missing; it marks where the sentence goes")

    def _paths(self) -> dict[str, Path]:
        adversarial = self._attack.file if self._attack is not None else None
        paths = {"src": self._src, "adv_src": adversarial, "ref": self._ref}
        return {role: path for role, path in paths.items() if path is not None}

    def _changes(self) -> Iterator[bool]:
        """Whether the attack changes the input, line by line."""
        for index, row in enumerate(self._text().rows()):
            if self._maker is None:
                yield row["adv_src"] != row["src"]
            else:
                yield self._maker.changes(row["src"], index)

    def _text(self) -> ParallelText:
        if self._opened is None:
            self._opened = open_parallel(self._paths())
        return self._opened

    def _request(self, sentence: str, place: SourceLocation) -> Generate:
        prompt = self._prompt.replace("{x}", sentence)
        return Generate(
            prompt, max_tokens=self._max_tokens, temperature=self._temperature, stop=self._stop, location=place
        )

    def _score_columns(
        self, examples: Sequence[Example], responses: Sequence[Sequence[Response]], owners: Sequence[int]
    ) -> dict[str, Column]:
        src_lang, tgt_lang = self._langs
        lines = [e.inputs["line"] for e in examples]
        owner_lines = [lines[i] for i in owners]
        columns: dict[str, Column] = {}
        if self._s_src is not None:
            adversarial = [text for e in examples for text in e.inputs["adv_src"]]
            sources = [examples[i].inputs["src"] for i in owners]
            with self._told_by_line(owner_lines):
                columns["s_src"] = np.asarray(self._s_src.score(adversarial, sources, lang=src_lang))
        if self._s_tgt is not None:
            out = [r[0].text for r in responses]
            adv_out = [a.text for r in responses for a in r[1:]]
            if self._ref is None:
                with self._told_by_line(owner_lines):
                    columns["s_tgt"] = np.asarray(self._s_tgt.score(adv_out, [out[i] for i in owners], lang=tgt_lang))
            else:
                references = [e.reference for e in examples]
                with self._told_by_line(lines):
                    base = np.asarray(self._s_tgt.score(out, references, lang=tgt_lang))[np.asarray(owners)]
                with self._told_by_line(owner_lines):
                    adv = np.asarray(self._s_tgt.score(adv_out, [references[i] for i in owners], lang=tgt_lang))
                columns |= {"s_out": base, "s_adv": adv, "d_tgt": criterion.relative_decrease(base, adv)}
                if has_own_decrease(self._s_tgt):
                    ours = ([out[i] for i in owners], [references[i] for i in owners])
                    with self._told_by_line(owner_lines):
                        columns["d_tgt"] = np.asarray(own_decrease(self._s_tgt, adv_out, *ours, tgt_lang))
        if self.side == "both":
            columns["success"] = self._success(columns).astype(float)
        return columns

    @contextmanager
    def _told_by_line(self, lines: Sequence[int]) -> Iterator[None]:
        """A scorer knows its pairs by place; the user knows them by file and line."""
        try:
            yield
        except ScorerError as error:
            file = next(iter(self._paths().values()), None)
            where = f"{file}, line {lines[error.pair - 1]}: " if error.pair is not None and file is not None else ""
            raise PluginError(f"{where}{error.message}") from error

    def _success(self, columns: Mapping[str, Column]) -> NDArray[np.bool_]:
        with_reference = "d_tgt" in columns
        target = columns["d_tgt" if with_reference else "s_tgt"]
        return criterion.success(columns["s_src"], target, self.success_threshold, with_reference=with_reference)

    def _fitness(self, columns: Mapping[str, Column]) -> Column:
        """s_src + d_tgt; without a reference y(x) stands in for it, so d_tgt is 1 - s_tgt."""
        damage = columns["d_tgt"] if "d_tgt" in columns else 1 - columns.get("s_tgt", np.float64(1))
        return np.atleast_1d(columns.get("s_src", np.float64(0)) + damage)

    def _verdict(
        self, example: Example, responses: Sequence[Response], columns: Mapping[str, Column], place: int, choice: int
    ) -> Score:
        details: dict[str, Any] = {}
        if "adv_src" in example.inputs:
            details["adv_src"] = example.inputs["adv_src"][choice]
        if "made_by" in example.inputs:
            details["made_by"] = example.inputs["made_by"][choice]
        values = {name: float(column[place]) for name, column in columns.items()}
        # Only a right answer can turn wrong, and only a changed input can be the reason.
        is_right = self._s_tgt is not None and self._s_tgt.is_binary and values.get("s_out") == 1
        if is_right and example.groups.get(GROUP) != UNCHANGED:
            values["turned_wrong"] = 1 - values["s_adv"]
        if responses:
            details |= {"out": responses[0].text, "adv_out": responses[1 + choice].text}
            given = (responses[0], responses[1 + choice])
            if any(r.seconds is not None or r.tokens_out is not None for r in given):
                # A live system was asked. Its output is scored as it is; that it was cut is counted beside it.
                values["cut_off"] = float(any(r.finish == "length" for r in given))
        return Score(values, details=details)


def _example_id(index: int, text: str) -> str:
    """The line number, and a digest of what every attack on it shares (the sentence, or the whole file of unattacked
    outputs): this is how attacks pair up."""
    return f"{index + 1}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _groups(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Whether the attack changed the input, where both versions are known."""
    if "src" not in inputs or "adv_src" not in inputs:
        return {}
    is_changed = any(text != inputs["src"] for text in inputs["adv_src"])
    return {GROUP: CHANGED if is_changed else UNCHANGED}


def _unchanged(table: ScoreTable, settings: Settings) -> Result:
    """The share of inputs that the attack left unchanged; known of every input, whatever became of the answer."""
    labels = np.asarray(table.groups[GROUP])
    # Runs that an earlier version began have examples without this group.
    unchanged = (labels[labels != ""] == UNCHANGED).astype(float)
    estimated = intervals.mean_estimate(unchanged)
    return intervals.result_of(estimated, "unchanged", "overall", (len(unchanged), 0, 0), settings)


def _turned_wrong(table: ScoreTable, settings: Settings) -> Result:
    """The share of right answers that turn wrong; examples that were wrong from the start are not counted at all."""
    counted = ~np.isnan(table.column("turned_wrong"))
    without_answer = np.isnan(table.column("s_out"))
    return intervals.mean_result(table, "turned_wrong", settings, where=counted | without_answer)


def _spread(table: ScoreTable, metric: str) -> list[Result]:
    """TEAPOT's spread of a metric: these describe the sample, so they carry no interval."""
    values = table.values(metric)
    if not len(values):
        return []
    summary = criterion.summarise(values)
    counts = table.counts(metric)
    return [
        Result(f"{metric}.{name}", "overall", value, None, None, *counts, method="none: describes these examples")
        for name, value in (("std", summary.std), ("p5", summary.p5), ("p95", summary.p95))
    ]


# Sums below this are rounding.
_ROUNDING = 1e-9


def signed_drop(table: ScoreTable, settings: Settings) -> Result:
    """The signed relative drop of the mean score: sentences that improve count too, unlike in d_tgt."""
    out, adv = table.together("s_out", "s_adv")
    counts = table.counts("s_adv")
    if not len(out) or abs(float(out.sum())) < _ROUNDING:
        return Result("signed_drop", "overall", None, None, None, *counts)
    drop = float(_drop_of_sums(out, adv))
    # A ratio of sums, linearised (the delta method): what each sentence adds to the drop, on average the drop itself.
    shares = drop + (out - adv - drop * out) / float(out.mean())
    # A mean score that cannot be negative can fall by all of it and no more.
    furthest = 1.0 if float(adv.min()) >= 0 else None
    # A sentence whose score did not change says no more about the next one than in any other difference, although its
    # linearised value is not 0.
    term = Term(shares, step=1.0, unchanged=intervals.the_same(out, adv))
    estimated = estimate([term], bounds=(None, furthest), is_difference=True)
    return intervals.result_of(replace(estimated, value=drop), "signed_drop", "overall", counts, settings)


def _drop_of_sums(out: Column, adv: Column, axis: int = -1) -> Column:
    return np.asarray(1 - np.sum(adv, axis=axis) / np.sum(out, axis=axis))
