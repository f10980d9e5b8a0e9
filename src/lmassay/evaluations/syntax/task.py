"""The task ``syntax``: compare the probabilities of verb forms at the blank of a sentence.

TSE compares the verbs of the pairs themselves; EW and MW compare hundreds of other verbs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lmassay.contracts import Model, Task
from lmassay.errors import ConfigError
from lmassay.evaluations.syntax import evaluation, metrics, sources
from lmassay.evaluations.syntax.contexts import (
    ContextOptions,
    DroppedRow,
    Rows,
    VerbContext,
    as_example,
    as_unscored_example,
    gather_contexts,
    verb_pair,
)
from lmassay.evaluations.syntax.lemmas import NO_VERBS, VerbList, read_verbs, shipped_verbs
from lmassay.evaluations.syntax.pair_files import BLIMP_FORMAT, COLUMNS_HELP, PairFormat
from lmassay.evaluations.syntax.pairs import MinimalPair
from lmassay.statistics.intervals import Settings
from lmassay.statistics.observations import FEW_LABELS, counted_labels
from lmassay.statistics.table import ScoreTable
from lmassay.types import Candidates, Design, Example, Outcome, Request, Response, Result, Score, Slot, digest
from lmassay.types.wording import counted, enumerated

Cutoff = Annotated[float, Field(gt=0, le=1)]
# The cut-offs of Newman et al. (2021), which refining-tse's configurations have.
PUBLISHED_TOP: list[Cutoff] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 1.0]
PUBLISHED_BOTTOM: list[Cutoff] = [0.5, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6]
Floats = NDArray[np.float64]
Hit = Literal[0, 1]
"""1 if the right form of a verb is more probable than the wrong one, else 0."""
_SHIPPED_LANGUAGE = "en"
# The contexts of samples, by a digest of what they depend on.
_gathered_samples: dict[str, tuple[list[VerbContext], list[DroppedRow]]] = {}
_MAX_GATHERED_SAMPLES = 8
_MAX_NAMED_CONSTRUCTIONS = 3
_CURVE_METRICS = ("ew", "mw", "mass")
# Why a score is missing.
_NO_LEMMA_WITHIN_CUTOFF = "no lemma within the cut-off"
_SEVERAL_TOKENS = "a form of the pair is not a single token"
_HOW_TO_SCORE = "with multi_token: true it is scored"
_NO_LEMMA_AT_ALL = "no verb of the list has both forms as single tokens"
_NO_VERB_LIST = "there is no verb list; lmassay verbs builds one"
_NOT_A_VERB = "the pair differs in a word that is not a verb"
_NO_NUMBER = "it is unknown whether the right verb is singular or plural; give a label"


class Syntax(Task):
    """TSE, EW and MW (Newman et al. 2021) on minimal pairs that differ in one verb.

    ``data`` is a file, a folder, a pattern, a grammar or a published data set (``tse``, ``clams/de``); or names
    constructions: ``{Simple: simple.jsonl}``. ``columns`` names the columns of files that do not use BLiMP's names:
    ``{right: good, wrong: bad}``. ``verbs`` is a CSV file that ``lmassay verbs`` writes for any language; ``none``
    computes TSE only, which is the default for published data in languages other than English.
    ``max_per_file`` takes the first pairs of each file or, with ``sample_seed``, a random sample.
    ``compat: released`` scores, of the lemmas with the same value in the column ``idx``, only the last one that is in
    the vocabulary, as refining-tse does; in the list that refining-tse ships, all values are the same, so one lemma is
    scored.
    """

    name = "syntax"
    version = 1
    needs = frozenset({"slot"})
    evaluation = evaluation
    # TSE is a rate over rows, which share verbs as well as nouns. A masked model sees the text on both sides of the
    # blank and a causal model only the left side, so their contexts differ, and runs are paired by the left side.
    design = Design(
        clusters=(metrics.CLUSTER,),
        headline=("tse", "ew", "mw"),
        weights={"tse": "tse_rows"},
        pair_by=("left",),
        crossed={"tse": metrics.VERB_PAIR},
    )
    # Contexts per batch: enough to share most prefixes, few enough for their candidates to fit into memory.
    chunk = 512

    option_help: ClassVar[Mapping[str, str]] = {
        "data": (
            "a file, several files, a folder, a pattern, a construction of a grammar, a published data set, "
            "or names for any of these"
        ),
        "verbs": (
            "a CSV file with the columns sing and plur, or none for TSE only; by default the built-in English list, "
            "but none for published data in other languages"
        ),
        "cutoffs_top": "cut-offs of EW and MW: shares of the probability mass, from the most probable token on",
        "cutoffs_bottom": "cut-offs of EW and MW: shares of the probability mass, from the least probable token on",
        "capitalize": "capitalise the first word",
        "period": "end the sentence with a period",
        "max_per_file": "use only this number of rows of each file; of a grammar, a balanced sample",
        "sample_seed": "with max_per_file, draw the rows of a file at random with this seed, not the first ones",
        "max_rows": "use only this number of rows of each construction",
        "multi_token": "compute TSE also for verbs of several tokens, by the chain rule",
        "bad_rows": (
            "what to do about pairs that do not differ in exactly one word: stop with an error, or count them "
            "as unscored"
        ),
        "clusters": (
            "which examples are not independent: those with the same agreement noun (auto), or with the same value of "
            "this field of the data; or none"
        ),
        "compat": "released: count lemmas as the released program of refining-tse does",
        **COLUMNS_HELP,
        "label": "name in tables",
    }
    config_example = "task: {name: syntax, data: pairs.jsonl, verbs: verbs.csv}"

    def __init__(
        self,
        data: sources.PairData,
        verbs: Path | Literal["none"] | None = None,
        cutoffs_top: list[Cutoff] = PUBLISHED_TOP,
        cutoffs_bottom: list[Cutoff] = PUBLISHED_BOTTOM,
        capitalize: bool = True,
        period: bool = True,
        max_per_file: Annotated[int, Field(ge=1)] | None = None,
        sample_seed: Annotated[int, Field(ge=0)] | None = None,
        max_rows: Annotated[int, Field(ge=1)] | None = None,
        multi_token: bool = False,
        bad_rows: Literal["stop", "count"] = "stop",
        clusters: str = "auto",
        compat: Literal["none", "released"] = "none",
        columns: PairFormat = BLIMP_FORMAT,
        label: str = "",
        base_dir: Path = Path(),
    ) -> None:
        self._data = data
        self._base = base_dir
        self._pair_format = columns
        self._verb_option = verbs
        self._top = _distinct(cutoffs_top)
        self._bottom = _distinct(cutoffs_bottom)
        self._max_per_file = max_per_file
        self._max_rows = max_rows
        self._sample_seed = sample_seed
        self._multi_token = multi_token
        self._compat = compat
        self.requests_each = 2 if multi_token else 1
        self._options = ContextOptions(
            capitalize=capitalize,
            period=period,
            sees_right=True,
            stop_at_bad_rows=bad_rows == "stop",
            cluster=clusters,
        )
        self.label = label or sources.label_of(data)
        # Side → its cut-offs; a side without cut-offs has no curve.
        self._cutoffs: dict[str, list[float]] = {}
        if self._top:
            self._cutoffs["top"] = self._top
        if self._bottom:
            self._cutoffs["bottom"] = self._bottom

    # --- what the runner calls ----------------------------------------------------------------------------------------

    def check(self) -> None:
        # Reading the verbs and the data checks them.
        _ = self._verbs, self._constructions

    def check_model(self, model: Model) -> None:
        """Adapt to a model that ignores the text after the blank: contexts that differ only there are one request.

        Then gather the contexts, which raises an error for pairs that cannot be used.
        """
        self._options = replace(self._options, sees_right=model.sees_right)
        _ = self._gathered

    def notes(self) -> list[str]:
        """Return notes on verbs listed twice, pairs that are not scored, and metrics that are based on little data."""
        contexts, dropped = self._gathered
        notes = []
        notes += self._verb_list_notes(contexts)
        if dropped:
            notes.append(f"{counted(len(dropped), 'pair')} unscored: the sentences do not differ in exactly one word")
        without_number = sum(context.number is None for context in contexts)
        if without_number and self._verbs.lemmas:
            contexts_in_words = counted(without_number, "context")
            notes.append(
                f"in {contexts_in_words}, neither a label nor the verbs show whether the singular or the plural is "
                "right, so only TSE is computed there"
            )
        by_construction: dict[str, list[VerbContext]] = {}
        for context in contexts:
            by_construction.setdefault(context.construction, []).append(context)
        notes += self._noun_note(by_construction)
        notes += self._one_number_note(by_construction)
        notes += _few_verb_pairs_note(contexts)
        with_both_labels = sum(len(context.numbers) > 1 for context in contexts)
        if with_both_labels:
            occur = "context occurs" if with_both_labels == 1 else "contexts occur"
            notes.append(
                f"{with_both_labels} {occur} with both labels (singular and plural); the first one counts for EW and MW"
            )
        return notes

    def _verb_list_notes(self, contexts: Sequence[VerbContext]) -> list[str]:
        """Warn if the verb list is missing, short, has duplicates, or does not fit the data."""
        if not self._verbs.lemmas:
            if self._verb_option == "none":
                return []
            return [
                f"lmassay has no verb list for the language '{', '.join(sorted(self._languages))}', so EW and MW are "
                "not computed; build a list with lmassay verbs and name it in task.verbs"
            ]
        notes = []
        if self._verbs.duplicates:
            rows_are = "row is" if self._verbs.duplicates == 1 else "rows are"
            notes.append(f"{self._verbs.name}: {self._verbs.duplicates} duplicate {rows_are} not counted again")
        if len(self._verbs.lemmas) < FEW_LABELS and self._compat == "none":
            verbs = counted(len(self._verbs.lemmas), "verb")
            notes.append(
                f"the verb list {self._verbs.name} has only {verbs}, so EW and MW say little about other verbs; their "
                "intervals cover the choice of nouns, not of verbs"
            )
        listed_forms = {form.lower() for form in self._verbs.forms}
        forms_of_data: set[str] = set()
        for context in contexts:
            if context.contrast == "verb":
                for _, good, bad in context.rows:
                    forms_of_data.update((good.lower(), bad.lower()))
        if forms_of_data and not forms_of_data & listed_forms:
            notes.append(
                f"none of the verbs of the data is in the verb list {self._verbs.name}; if the sentences are in "
                "another language, build a list with lmassay verbs and name it in task.verbs, or write verbs: none"
            )
        return notes

    def _noun_note(self, by_construction: Mapping[str, Sequence[VerbContext]]) -> list[str]:
        """Say which constructions have no clusters."""
        if self._options.cluster == "none":
            return []
        constructions = []
        for construction, contexts in by_construction.items():
            if not any(context.noun for context in contexts):
                constructions.append(construction)
        if not constructions:
            return []
        their = "its" if len(constructions) == 1 else "their"
        named = enumerated(constructions, _MAX_NAMED_CONSTRUCTIONS)
        # See nouns.py: a noun is recognised only if the data repeat their nouns.
        reason = f"no agreement noun is repeated in {named}"
        if self._options.cluster != "auto":
            reason = f"no row of {named} has the field '{self._options.cluster}'"
        return [f"{reason}; {their} contexts count as independent"]

    def _one_number_note(self, by_construction: Mapping[str, Sequence[VerbContext]]) -> list[str]:
        """Say which constructions test only the singular or only the plural.

        If this may be due to taking the first rows of each file, name the option that draws rows at random.
        """
        constructions_by_number: dict[str, list[str]] = {}
        for construction, contexts in by_construction.items():
            numbers = {context.number for context in contexts}
            if len(numbers) == 1 and len(contexts) > 1:
                (number,) = numbers
                if number is not None:
                    constructions_by_number.setdefault(number, []).append(construction)
        if not constructions_by_number:
            return []
        parts = []
        for name, constructions in constructions_by_number.items():
            parts.append(f"{name} in all contexts of {enumerated(constructions, _MAX_NAMED_CONSTRUCTIONS)}")
        note = f"the right verb is {', and '.join(parts)}"
        one_sided = list(chain.from_iterable(constructions_by_number.values()))
        if self._takes_first_rows(one_sided):
            # Published files are often sorted, so the first rows are not like the others.
            note += "; max_per_file uses the first rows of each file, and with sample_seed: 0 it draws them at random"
        return [note]

    def _takes_first_rows(self, constructions: Collection[str]) -> bool:
        """Return whether the rows of some of these constructions are the first ones of files, not drawn at random."""
        if self._max_per_file is None or self._sample_seed is not None:
            return False
        for construction in self._constructions:
            is_from_file = any(isinstance(part, sources.FilePairs) for part in construction.parts)
            # With a column for groups, a construction is a group, which may have rows of any file.
            if is_from_file and (self._pair_format.group is not None or construction.name in constructions):
                return True
        return False

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
        candidates = self._candidates
        forms = tuple(_forms_of_rows(example))
        if self._options.capitalize and not inputs["left"]:
            # The verb is the first word. The order stays, so scores belong to the same forms as elsewhere.
            candidates = self._capitalized_candidates
            forms = tuple(map(_capitalized, forms))
        requests = [Slot(inputs["left"], inputs["right"], candidates, ranked=bool(self._cutoffs))]
        if self._multi_token:
            requests.append(Slot(inputs["left"], inputs["right"], forms, ranked=False, multi_token=True))
        return requests

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        # Pairs that cannot be scored had no request; all other contexts are scored together, which is faster.
        contexts: list[Example] = []
        context_responses: list[Sequence[Response]] = []
        for example, answers in zip(examples, responses, strict=True):
            if "problem" not in example.inputs:
                contexts.append(example)
                context_responses.append(answers)
        context_scores: Iterator[Score] = iter(())
        if contexts:
            context_scores = iter(self._score_contexts(contexts, context_responses))
        scores: list[Score] = []
        for example in examples:
            if "problem" in example.inputs:
                reason = str(example.inputs["problem"])
                scores.append(Score(unscored=dict.fromkeys(self.design.headline, reason)))
            else:
                scores.append(next(context_scores))
        return scores

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        ew_names = []
        for side, cutoffs in self._cutoffs.items():
            ew_names += [_curve_name("ew", side, cutoff) for cutoff in cutoffs]
        return metrics.results(table, ew_names, settings)

    def signature(self) -> Mapping[str, Any]:
        parts: dict[str, Any] = {
            "data": sources.signature_of(self._constructions),
            "verbs": f"{self._verbs.name}.{self._verbs.sha256[:8]}" if self._verbs.lemmas else "none",
            "cutoffs": self._cutoffs_in_short(),
            "capitalize": self._options.capitalize,
            "period": self._options.period,
            "context": "both sides" if self._options.sees_right else "left",
        }
        # Further options, which earlier versions did not have, are left out at their defaults, so that signatures of
        # those versions stay valid.
        if self._max_per_file:
            parts["max_per_file"] = self._max_per_file
            if self._sample_seed is not None:
                parts["sample"] = f"seed{self._sample_seed}"
        if self._max_rows:
            parts["max_rows"] = self._max_rows
        if self._multi_token:
            parts["multi_token"] = True
        if self._options.cluster != "auto":
            parts["clusters"] = self._options.cluster
        if self._compat != "none":
            parts["compat"] = self._compat
        if self._pair_format.blank != "only":
            parts["blank"] = self._pair_format.blank
        if self._pair_format.group is not None:
            parts["group"] = self._pair_format.group
        if self._has_first_words:
            parts["first_word"] = "capitalized"
        return parts

    # --- the data -----------------------------------------------------------------------------------------------------

    def _cutoffs_in_short(self) -> str:
        """Return the cut-offs for the signature."""
        if (self._top, self._bottom) == (PUBLISHED_TOP, PUBLISHED_BOTTOM):
            return "published"
        return ",".join(f"{cutoff:g}" for cutoff in [*self._top, *self._bottom]) or "none"

    @cached_property
    def _constructions(self) -> list[sources.PairSet]:
        return sources.constructions(self._data, self._base, self._pair_format)

    @cached_property
    def _languages(self) -> set[str]:
        """The languages of the data, as far as they are known."""
        return {construction.language for construction in self._constructions if construction.language}

    @cached_property
    def _verbs(self) -> VerbList:
        if isinstance(self._verb_option, Path):
            return read_verbs(self._verb_option)
        if self._verb_option == "none" or (self._languages and _SHIPPED_LANGUAGE not in self._languages):
            return NO_VERBS
        return read_verbs(shipped_verbs())

    @cached_property
    def _gathered(self) -> tuple[list[VerbContext], list[DroppedRow]]:
        """The contexts of the data, and the rows that cannot be scored."""
        is_sample = bool(self._max_per_file or self._max_rows)
        if not is_sample:
            return self._gather(all_rows=None)
        # A sample is small, but its agreement nouns are inferred from all rows, which takes time. It is kept, because
        # the other models of a card or a sweep use the same sample.
        key = self._sample_key()
        if key not in _gathered_samples:
            if len(_gathered_samples) >= _MAX_GATHERED_SAMPLES:
                _gathered_samples.clear()
            all_rows = None
            if not self._every_pair_names_number_and_noun:
                all_rows = sources.numbered_pairs(self._constructions, None, None)
            _gathered_samples[key] = self._gather(all_rows)
        return _gathered_samples[key]

    def _gather(self, all_rows: Rows | None) -> tuple[list[VerbContext], list[DroppedRow]]:
        rows = sources.numbered_pairs(self._constructions, self._max_per_file, self._max_rows, self._sample_seed)
        if self._pair_format.group is not None:
            rows = _by_group(rows)
            all_rows = None if all_rows is None else _by_group(all_rows)
        return gather_contexts(rows, all_rows, self._verbs, self._options)

    def _sample_key(self) -> str:
        """Return a digest of everything that contexts of a sample depend on."""
        constructions: list[Any] = []
        for construction in self._constructions:
            parts = [part.identity for part in construction.parts]
            constructions.append([construction.name, construction.language, parts])
        limits = [self._max_per_file, self._max_rows, self._sample_seed, self._pair_format.group]
        return digest(constructions, limits, self._verbs.sha256, asdict(self._options))

    @property
    def _every_pair_names_number_and_noun(self) -> bool:
        """Whether numbers and nouns of a sample need not be inferred from all rows, which may be tens of thousands."""
        parts = [part for construction in self._constructions for part in construction.parts]
        return all(part.names_numbers_and_nouns for part in parts)

    @cached_property
    def _candidates(self) -> tuple[str, ...]:
        """The words whose probabilities a request asks for: the forms of the verb list and the verbs of the pairs."""
        forms = dict.fromkeys(self._verbs.forms)
        contexts, _ = self._gathered
        for context in contexts:
            for _, good, bad in context.rows:
                forms[good] = None
                forms[bad] = None
        return tuple(forms)

    @cached_property
    def _capitalized_candidates(self) -> tuple[str, ...]:
        return tuple(map(_capitalized, self._candidates))

    @cached_property
    def _has_first_words(self) -> bool:
        """Whether some verb is the first word of its sentence, so that its forms are requested with a capital."""
        contexts, _ = self._gathered
        return self._options.capitalize and any(not context.left for context in contexts)

    @cached_property
    def _candidate_index(self) -> dict[str, int]:
        return {form: index for index, form in enumerate(self._candidates)}

    @cached_property
    def _lemma_indices(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The candidates that are the singular and the plural forms of the lemmas."""
        singular = [self._candidate_index[lemma.singular] for lemma in self._verbs.lemmas]
        plural = [self._candidate_index[lemma.plural] for lemma in self._verbs.lemmas]
        # Without a verb list both are empty, and numpy would choose another type.
        return np.array(singular, dtype=np.int64), np.array(plural, dtype=np.int64)

    # --- scoring ------------------------------------------------------------------------------------------------------

    def _score_contexts(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        """Return the scores of contexts; ``responses`` has one or two answers for each of them."""
        logprobs = _stacked(responses, "logprobs")
        assert logprobs is not None
        masses_above = masses_below = None
        if self._cutoffs:
            masses_above = _stacked(responses, "masses_above")
            masses_below = _stacked(responses, "masses_below")
        forms = self._lemma_forms(logprobs, masses_above, masses_below, examples)
        columns = self._verb_columns(forms)
        # The columns of all contexts are computed at once and split into rows here.
        metric_names = list(columns)
        values_by_context = np.column_stack(list(columns.values())).tolist()
        lemma_counts = forms.in_vocabulary.sum(axis=1)
        scores = []
        for index, (example, answers) in enumerate(zip(examples, responses, strict=True)):
            lemmas = int(lemma_counts[index])
            verb_values = dict(zip(metric_names, values_by_context[index], strict=True))
            values, unscored = self._verb_scores(example, verb_values, lemmas)
            verdicts = self._tse_verdicts(example, logprobs[index], answers)
            judged = [(row, hit) for row, hit in verdicts if hit is not None]
            outcomes: dict[str, list[Outcome]] = {}
            if judged:
                values["tse"] = sum(hit for _, hit in judged) / len(judged)
                values["tse_rows"] = float(len(judged))
                outcomes["tse"] = by_verb_pair(example, judged)
            else:
                unscored["tse"] = _SEVERAL_TOKENS if self._multi_token else f"{_SEVERAL_TOKENS}; {_HOW_TO_SCORE}"
            details = {
                "tse": verdicts,
                "lemmas": lemmas,
                "not_single_token": self._multi_token_forms(example, logprobs[index]),
            }
            scores.append(Score(values, unscored, details, outcomes))
        return scores

    def _verb_scores(
        self, example: Example, values: Mapping[str, float], lemmas: int
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Return EW, MW and mass, and why some of them are missing."""
        reason = ""
        if not self._verbs.lemmas:
            reason = _NO_VERB_LIST
        elif example.inputs["contrast"] != "verb":
            reason = _NOT_A_VERB
        elif example.reference is None:
            reason = _NO_NUMBER
        elif not lemmas:
            reason = _NO_LEMMA_AT_ALL
        if reason:
            return {}, dict.fromkeys(("ew", "mw"), reason)
        scored: dict[str, float] = {}
        unscored: dict[str, str] = {}
        for name, value in values.items():
            # NaN is the one number that differs from itself; this is faster than math.isnan for many values.
            if value == value:
                scored[name] = value
            else:
                unscored[name] = _NO_LEMMA_WITHIN_CUTOFF
        return scored, unscored

    def _lemma_forms(
        self,
        logprobs: Floats,
        masses_above: Floats | None,
        masses_below: Floats | None,
        examples: Sequence[Example],
    ) -> metrics.LemmaForms:
        """Arrange the answers by lemma; with ``compat: released``, only lemmas that the released program counts."""
        singular, plural = self._lemma_indices
        is_plural = np.array([example.reference == "plural" for example in examples])
        if self._compat == "released":
            # The released program keeps lemmas in a dictionary by their idx, so the last one in the vocabulary replaces
            # all others of the same idx; in the list it ships, all rows have the same one.
            # A sum is NaN if one of the forms is not in the vocabulary.
            has_no_score = np.isnan(logprobs[:, singular] + logprobs[:, plural]).all(axis=0)
            in_vocabulary = np.flatnonzero(~has_no_score)
            last_of_idx = {self._verbs.indices[int(lemma)]: int(lemma) for lemma in in_vocabulary}
            lemmas = np.array(list(last_of_idx.values()), dtype=np.int64)
            singular = singular[lemmas]
            plural = plural[lemmas]
        return metrics.arrange_by_lemma(logprobs, masses_above, masses_below, singular, plural, is_plural)

    def _verb_columns(self, forms: metrics.LemmaForms) -> dict[str, Floats]:
        """Return EW, MW and mass of all contexts, without cut-off and at each cut-off."""
        whole = metrics.without_cutoff(forms)
        columns: dict[str, Floats] = {"ew": whole.ew, "mw": whole.mw, "mass": whole.mass}
        if forms.above is None:
            # A cut-off is a share of the probability mass, which this model does not return.
            return columns
        for side, cutoffs in self._cutoffs.items():
            if side == "top":
                curve = metrics.top_curve(forms, cutoffs)
            else:
                curve = metrics.bottom_curve(forms, cutoffs)
            curve_columns = (curve.ew, curve.mw, curve.mass)
            for metric, values in zip(_CURVE_METRICS, curve_columns, strict=True):
                for index, cutoff in enumerate(cutoffs):
                    columns[_curve_name(metric, side, cutoff)] = values[:, index]
        return columns

    def _multi_token_forms(self, example: Example, logprobs: Floats) -> list[str]:
        """Return the verb forms that are not single tokens, which is the reason why rows were dropped."""
        return [form for form in _forms_of_rows(example) if np.isnan(logprobs[self._candidate_index[form]])]

    def _tse_verdicts(
        self, example: Example, logprobs: Floats, answers: Sequence[Response]
    ) -> list[tuple[int, Hit | None]]:
        """Return for each row 1 if the right verb is more probable, 0 if not, None if a form cannot be scored."""
        forms = _forms_of_rows(example)
        logprob_of: dict[str, float] = {}
        if self._multi_token:
            # The second request asked for the verbs of the rows only, as forms of any number of tokens.
            whole_forms = answers[1].answer
            assert isinstance(whole_forms, Candidates)
            logprob_of = dict(zip(forms, np.asarray(whole_forms.logprobs, dtype=np.float64), strict=True))
        else:
            for form in forms:
                logprob_of[form] = float(logprobs[self._candidate_index[form]])
        verdicts: list[tuple[int, Hit | None]] = []
        for row, good, bad in example.inputs["rows"]:
            right = logprob_of[good]
            wrong = logprob_of[bad]
            can_be_judged = not np.isnan(right) and not np.isnan(wrong)
            verdicts.append((row, metrics.tse_of_pair(right, wrong) if can_be_judged else None))
        return verdicts


def _by_group(rows: Rows) -> Iterator[tuple[str, int, MinimalPair]]:
    """Yield the rows; the group in the column that ``columns.group`` names becomes their construction."""
    for construction, number, pair in rows:
        yield str(pair.fields.get("UID") or construction), number, pair


def _capitalized(form: str) -> str:
    return form[:1].upper() + form[1:]


def _curve_name(metric: str, side: str, cutoff: float) -> str:
    return f"{metric}@{side}{cutoff:g}"


def _forms_of_rows(example: Example) -> list[str]:
    """Return the different verb forms of a context's rows."""
    forms: dict[str, None] = {}
    for _, good, bad in example.inputs["rows"]:
        forms[good] = None
        forms[bad] = None
    return list(forms)


def _few_verb_pairs_note(contexts: Sequence[VerbContext]) -> list[str]:
    """Warn if the data have few verb pairs. A run may show that even fewer of them are single tokens of the model."""
    pairs: set[str] = set()
    for context in contexts:
        for _, good, bad in context.rows:
            pairs.add(verb_pair(good, bad))
    if not pairs or len(pairs) >= FEW_LABELS:
        return []
    return [
        f"the data contain only {counted_labels(len(pairs), metrics.VERB_PAIR)}; with fewer than {FEW_LABELS}, TSE "
        "says little about other verbs, and its interval is very wide or missing"
    ]


def by_verb_pair(example: Example, scores: Sequence[tuple[int, float]]) -> list[Outcome]:
    """Return the mean score of each pair of verbs; ``scores`` are (row, score) of the rows of a context."""
    label_of_row = {row: verb_pair(good, bad) for row, good, bad in example.inputs["rows"]}
    scores_by_label: dict[str, list[float]] = {}
    for row, score in scores:
        label = label_of_row[row]
        scores_by_label.setdefault(label, []).append(score)
    outcomes = []
    for label, values in scores_by_label.items():
        mean = sum(values) / len(values)
        # A pair of verbs that the data repeat in this context counts as often as it occurs.
        outcomes.append(Outcome(label, mean, float(len(values))))
    return outcomes


def _distinct(cutoffs: Sequence[float]) -> list[float]:
    """Return the cut-offs without repetitions. Metrics are named after the printed cut-off, so it must be unique."""
    distinct: dict[str, float] = {}
    # Backwards, so that a repeated cut-off keeps its last position and its first value.
    for cutoff in reversed(cutoffs):
        distinct[f"{cutoff:g}"] = cutoff
    return list(reversed(distinct.values()))


def _stacked(responses: Sequence[Sequence[Response]], column: str) -> Floats | None:
    """Return a column of all responses (contexts × candidates); None if a model does not give it."""
    rows = []
    for answers in responses:
        answer = answers[0].answer
        if not isinstance(answer, Candidates):
            raise ConfigError(f"the model answered a slot with {type(answer).__name__}; it must give Candidates")
        values = getattr(answer, column)
        if values is None:
            return None
        rows.append(np.asarray(values, dtype=np.float64))
    return np.stack(rows)
