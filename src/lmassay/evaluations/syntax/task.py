"""The syntax evaluation at a blank: TSE on the pair's own verbs, EW and MW on hundreds of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lmassay.contracts import Model, Task
from lmassay.errors import ConfigError
from lmassay.evaluations.syntax import evaluation, metrics, sources
from lmassay.evaluations.syntax.contexts import (
    Context,
    ContextOptions,
    DroppedRow,
    as_example,
    as_unscored_example,
    gather,
    verb_pair,
)
from lmassay.evaluations.syntax.lemmas import VerbList, read_verbs, shipped_verbs
from lmassay.statistics.intervals import Settings
from lmassay.statistics.observations import FEW_LABELS, counted_labels
from lmassay.statistics.table import ScoreTable
from lmassay.types import Candidates, Design, Example, Outcome, Request, Response, Result, Score, Slot

Cutoff = Annotated[float, Field(gt=0, le=1)]
TOP: list[Cutoff] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 1.0]
BOTTOM: list[Cutoff] = [0.5, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6]
Floats = NDArray[np.float64]
_NO_LEMMA = "no lemma within the cut-off"
_SEVERAL_TOKENS = "a form of the pair is no single token"
_NO_LEMMA_AT_ALL = "no verb of the list has both forms as single tokens"
_NO_VERB = "the pair differs in another word than a verb"
_NO_NUMBER = "the number of the right verb is unknown; give a label"


class Syntax(Task):
    """TSE, EW and MW (Newman et al. 2021) on minimal pairs that differ in one verb.

    ``data`` is a .jsonl file, a folder, a pattern or a grammar; or names constructions: ``{Simple: simple.jsonl}``.
    ``compat: released`` scores one lemma only, as refining-tse does with the verb list it ships.
    """

    name = "syntax"
    version = 1
    needs = frozenset({"slot"})
    evaluation = evaluation
    # TSE is a rate over rows, which share verbs as well as nouns. A masked and a causal model share no whole contexts,
    # but left sides.
    design = Design(
        clusters=(metrics.CLUSTER,),
        headline=("tse", "ew", "mw"),
        weights={"tse": "tse_rows"},
        pair_by=("left",),
        crossed={"tse": metrics.VERB_PAIR},
    )
    # Contexts at once: enough to share most prefixes, few enough for their candidates to fit into memory.
    chunk = 512

    def __init__(
        self,
        data: sources.DataSpec,
        verbs: Path | None = None,
        cutoffs_top: list[Cutoff] = TOP,
        cutoffs_bottom: list[Cutoff] = BOTTOM,
        capitalize: bool = True,
        period: bool = True,
        max_per_file: Annotated[int, Field(ge=1)] | None = None,
        max_rows: Annotated[int, Field(ge=1)] | None = None,
        multi_token: bool = False,
        bad_rows: Literal["stop", "count"] = "stop",
        clusters: str = "auto",
        compat: Literal["none", "released"] = "none",
        label: str = "",
        base_dir: Path = Path(),
    ) -> None:
        self._data, self._base = data, base_dir
        self._verb_file = verbs or shipped_verbs()
        self._top, self._bottom = _distinct(cutoffs_top), _distinct(cutoffs_bottom)
        self._limits = (max_per_file, max_rows)
        self._multi_token, self._compat = multi_token, compat
        self.requests_each = 2 if multi_token else 1
        self._manner = ContextOptions(capitalize, period, True, bad_rows == "stop", clusters)
        self.label = label or sources.label_of(data)
        self._names = {side: self._curve_names(side, cuts) for side, cuts in self._curves().items()}

    # --- what the runner asks -----------------------------------------------------------------------------------------

    def check(self) -> None:
        _ = self._verbs, self._constructions

    def check_model(self, model: Model) -> None:
        """A model that does not look behind the blank is asked once for all that may stand there."""
        self._manner = replace(self._manner, sees_right=model.sees_right)
        _ = self._gathered

    def notes(self) -> list[str]:
        """What was counted once, left out, or rests on little."""
        contexts, dropped = self._gathered
        told = []
        if self._verbs.duplicates:
            told.append(f"{self._verb_file}: {self._verbs.duplicates} duplicate rows are counted once")
        if dropped:
            told.append(f"{len(dropped)} pairs do not differ in exactly one word and are unscored")
        unknown = sum(context.number is None for context in contexts)
        if unknown:
            told.append(f"{unknown} contexts have no label and verbs that tell no number: they count for TSE only")
        for name in dict.fromkeys(context.construction for context in contexts):
            told += self._notes_on(name, [context for context in contexts if context.construction == name])
        told += _few_verb_pairs(contexts)
        mixed = sum(len(context.numbers) > 1 for context in contexts)
        if mixed:
            told.append(f"{mixed} contexts occur with both labels; the first one counts for EW and MW")
        return told

    def _notes_on(self, name: str, contexts: Sequence[Context]) -> list[str]:
        told = []
        if self._manner.cluster != "none" and not any(context.noun for context in contexts):
            told.append(f"{name}: no agreement noun that comes back; its contexts count as independent of each other")
        numbers = {context.number for context in contexts}
        if len(numbers) == 1 and None not in numbers and len(contexts) > 1:
            told.append(f"{name}: the right verb is {next(iter(numbers))} in all contexts")
        return told

    def size(self) -> int:
        contexts, dropped = self._gathered
        return len(contexts) + len(dropped)

    def examples(self) -> Iterator[Example]:
        contexts, dropped = self._gathered
        yield from map(as_example, contexts)
        yield from map(as_unscored_example, dropped)

    def requests(self, example: Example) -> Sequence[Request]:
        inputs = example.inputs
        if "problem" in inputs:
            return []
        asked = [Slot(inputs["left"], inputs["right"], self._candidates, ranked=bool(self._names))]
        if self._multi_token:
            forms = tuple(dict.fromkeys(form for _, *pair in inputs["rows"] for form in pair))
            asked.append(Slot(inputs["left"], inputs["right"], forms, ranked=False, multi_token=True))
        return asked

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        asked = [i for i, example in enumerate(examples) if "problem" not in example.inputs]
        scores: list[Score] = [
            Score(unscored=dict.fromkeys(self.design.headline, str(example.inputs.get("problem"))))
            for example in examples
        ]
        if asked:
            judged = self._score_contexts([examples[i] for i in asked], [responses[i] for i in asked])
            for i, score in zip(asked, judged, strict=True):
                scores[i] = score
        return scores

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        return metrics.results(table, [n for names in self._names.values() for n in names["ew"]], settings)

    def signature(self) -> Mapping[str, Any]:
        parts: dict[str, Any] = {
            "data": sources.signature_of(self._constructions),
            "verbs": f"{self._verbs.name}.{self._verbs.sha256[:8]}",
            "cutoffs": self._cutoffs_in_short(),
            "capitalize": self._manner.capitalize,
            "period": self._manner.period,
            "context": "both sides" if self._manner.sees_right else "left",
        }
        per_file, rows = self._limits
        parts |= {"max_per_file": per_file} if per_file else {}
        parts |= {"max_rows": rows} if rows else {}
        parts |= {"multi_token": True} if self._multi_token else {}
        parts |= {"clusters": self._manner.cluster} if self._manner.cluster != "auto" else {}
        parts |= {"compat": self._compat} if self._compat != "none" else {}
        return parts

    # --- inside -------------------------------------------------------------------------------------------------------

    def _cutoffs_in_short(self) -> str:
        if (self._top, self._bottom) == (TOP, BOTTOM):
            return "published"
        return ",".join(f"{v:g}" for v in [*self._top, *self._bottom]) or "none"

    def _curves(self) -> dict[str, list[float]]:
        return {side: cuts for side, cuts in (("top", self._top), ("bottom", self._bottom)) if cuts}

    def _curve_names(self, side: str, cuts: Sequence[float]) -> dict[str, list[str]]:
        return {metric: [f"{metric}@{side}{v:g}" for v in cuts] for metric in ("ew", "mw", "mass")}

    @cached_property
    def _constructions(self) -> list[sources.PairSet]:
        return sources.constructions(self._data, self._base)

    @cached_property
    def _verbs(self) -> VerbList:
        return read_verbs(self._verb_file)

    @cached_property
    def _gathered(self) -> tuple[list[Context], list[DroppedRow]]:
        rows = sources.numbered(self._constructions, *self._limits)
        whole = sources.numbered(self._constructions, None, None) if any(self._limits) else None
        return gather(rows, whole, self._verbs, self._manner)

    @cached_property
    def _candidates(self) -> tuple[str, ...]:
        """One list for all contexts: the forms of the verb list, and the verbs of the pairs."""
        pairs = (form for context in self._gathered[0] for _, *pair in context.rows for form in pair)
        return tuple(dict.fromkeys([*self._verbs.forms, *pairs]))

    @cached_property
    def _place(self) -> dict[str, int]:
        return {form: place for place, form in enumerate(self._candidates)}

    @cached_property
    def _lemma_places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        lemmas = self._verbs.lemmas
        return (
            np.array([self._place[lemma.singular] for lemma in lemmas]),
            np.array([self._place[lemma.plural] for lemma in lemmas]),
        )

    def _score_contexts(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        logprobs = _columns(responses, "logprobs")
        assert logprobs is not None
        masses = [_columns(responses, name) if self._names else None for name in ("masses_above", "masses_below")]
        forms = self._forms(logprobs, masses, examples)
        columns = self._headline_columns(forms) | self._curve_columns(forms)
        lemmas = forms.known.sum(axis=1)
        names, table = list(columns), np.column_stack(list(columns.values())).tolist()
        scores = []
        for i, (example, answers) in enumerate(zip(examples, responses, strict=True)):
            tse = self._tse(example, logprobs[i], answers)
            values, unscored = self._of_verb_list(example, dict(zip(names, table[i], strict=True)), int(lemmas[i]))
            judged = [hit for _, hit in tse if hit is not None]
            outcomes: dict[str, list[Outcome]] = {}
            if judged:
                values |= {"tse": sum(judged) / len(judged), "tse_rows": float(len(judged))}
                outcomes["tse"] = by_verb_pair(example, [(row, hit) for row, hit in tse if hit is not None])
            else:
                unscored["tse"] = _SEVERAL_TOKENS
            details = {"tse": tse, "lemmas": int(lemmas[i]), "not_single_token": self._unspelled(example, logprobs[i])}
            scores.append(Score(values, unscored, details, outcomes))
        return scores

    def _of_verb_list(
        self, example: Example, found: dict[str, float], lemmas: int
    ) -> tuple[dict[str, float], dict[str, str]]:
        """EW, MW and mass, and why some of them are missing."""
        reason = _NO_NUMBER if example.reference is None else "" if lemmas else _NO_LEMMA_AT_ALL
        if example.inputs["contrast"] != "verb":
            reason = _NO_VERB
        if reason:
            return {}, dict.fromkeys(("ew", "mw"), reason)
        # NaN is the one number that differs from itself.
        return {n: v for n, v in found.items() if v == v}, {n: _NO_LEMMA for n, v in found.items() if v != v}

    def _forms(
        self, logprobs: Floats, masses: Sequence[Floats | None], examples: Sequence[Example]
    ) -> metrics.LemmaForms:
        singular, plural = self._lemma_places
        is_plural = np.array([example.reference == "plural" for example in examples])
        if self._compat == "released":
            # Lemmas are kept by index, so that the last one in the vocabulary replaces others of the same index; in the
            # shipped list all rows have one.
            known = np.flatnonzero(~np.isnan(logprobs[:, singular] + logprobs[:, plural]).all(axis=0))
            last = np.array(list({self._verbs.indices[int(i)]: int(i) for i in known}.values()), dtype=np.int64)
            singular, plural = singular[last], plural[last]
        return metrics.forms_of([logprobs, *masses], singular, plural, is_plural)

    def _headline_columns(self, forms: metrics.LemmaForms) -> dict[str, Floats]:
        whole = metrics.without_cutoff(forms)
        return {"ew": whole.ew, "mw": whole.mw, "mass": whole.mass}

    def _curve_columns(self, forms: metrics.LemmaForms) -> dict[str, Floats]:
        if forms.above is None:
            return {}
        columns: dict[str, Floats] = {}
        for side, cuts in self._curves().items():
            curve = (metrics.top_curve if side == "top" else metrics.bottom_curve)(forms, cuts)
            for metric, values in (("ew", curve.ew), ("mw", curve.mw), ("mass", curve.mass)):
                columns |= {name: values[:, j] for j, name in enumerate(self._names[side][metric])}
        return columns

    def _unspelled(self, example: Example, logprobs: Floats) -> list[str]:
        """The verbs of the rows that the vocabulary does not hold as one token: why rows were dropped."""
        forms = dict.fromkeys(form for _, *pair in example.inputs["rows"] for form in pair)
        return [form for form in forms if np.isnan(logprobs[self._place[form]])]

    def _tse(
        self, example: Example, logprobs: Floats, answers: Sequence[Response]
    ) -> list[tuple[int, Literal[0, 1] | None]]:
        """For each row 1 if the right verb is the more probable one, 0 if not, None if a form cannot be scored."""
        forms = dict.fromkeys(form for _, *pair in example.inputs["rows"] for form in pair)
        known = {form: float(logprobs[self._place[form]]) for form in forms}
        if self._multi_token:
            spelled = answers[1].answer
            assert isinstance(spelled, Candidates)
            known = dict(zip(forms, np.asarray(spelled.logprobs, dtype=np.float64), strict=True))
        verdicts: list[tuple[int, Literal[0, 1] | None]] = []
        for row, good, bad in example.inputs["rows"]:
            a, b = known[good], known[bad]
            verdicts.append((row, None if np.isnan(a) or np.isnan(b) else metrics.tse_of_pair(a, b)))
        return verdicts


def _few_verb_pairs(contexts: Sequence[Context]) -> list[str]:
    """A warning before the run; how many verbs are single tokens of the model shows only in the run."""
    pairs = {verb_pair(good, bad) for context in contexts for _, good, bad in context.rows}
    if not pairs or len(pairs) >= FEW_LABELS:
        return []
    return [
        f"the data try {counted_labels(len(pairs), metrics.VERB_PAIR)} only: TSE on fewer than {FEW_LABELS} hardly "
        "tells how other verbs would fare, so its interval is wide, or there is none"
    ]


def by_verb_pair(example: Example, scores: Sequence[tuple[int, float]]) -> list[Outcome]:
    """The scores of a context's rows, given by the number of the row, apart for each pair of verbs."""
    labels = {row: verb_pair(good, bad) for row, good, bad in example.inputs["rows"]}
    by_label: dict[str, list[float]] = {}
    for row, score in scores:
        by_label.setdefault(labels[row], []).append(score)
    return [Outcome(label, sum(found) / len(found), float(len(found))) for label, found in by_label.items()]


def _distinct(cutoffs: Sequence[float]) -> list[float]:
    """Cut-offs that print alike are one."""
    return list({f"{cutoff:g}": cutoff for cutoff in reversed(cutoffs)}.values())[::-1]


def _columns(responses: Sequence[Sequence[Response]], column: str) -> Floats | None:
    found = []
    for answers in responses:
        answer = answers[0].answer
        if not isinstance(answer, Candidates):
            raise ConfigError(f"the model answered a slot with {type(answer).__name__}; it must give Candidates")
        values = getattr(answer, column)
        if values is None:
            return None
        found.append(np.asarray(values, dtype=np.float64))
    return np.stack(found)
