"""The robustness task: does a system break under an attack that leaves the meaning of its input intact?"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, repeat
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lmassay.contracts import Model, StoredAnswers, Task
from lmassay.errors import ConfigError, DataError, PluginError
from lmassay.evaluations.robustness import coverage, criterion, evaluation
from lmassay.evaluations.robustness.adaptive import AdaptiveAttack, GradientAttack, adaptive_attack
from lmassay.evaluations.robustness.attack import Attack, CandidateMaker
from lmassay.evaluations.robustness.coverage import CHANGED, GROUP, UNCHANGED
from lmassay.evaluations.robustness.questions import QuestionSpec, QuestionText
from lmassay.evaluations.robustness.scorers.base import (
    Scorer,
    ScorerError,
    full_signature,
    function_scorer,
    has_own_decrease,
    interface_problem,
    is_scorer_function,
    own_decrease,
)
from lmassay.evaluations.robustness.teapot import module
from lmassay.plugins.data_options import InMemory
from lmassay.plugins.options import Spec, build, find_factory, split_spec
from lmassay.plugins.registry import current_registry
from lmassay.statistics import intervals
from lmassay.statistics.estimation import estimate
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.statistics.terms import Term
from lmassay.storage.files import ParallelText, open_parallel
from lmassay.types import Example, Generate, Request, Response, Result, RowBatch, Score, SourceLocation, Substitutions

ScorerSpec = str | dict[str, Any]
Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _ScoredTexts:
    """The texts that scores are computed from. An example has one or more candidates, which are attacked inputs."""

    lines: Sequence[int]
    """Example → its line, counted from 1."""
    sources: Sequence[str]
    """Example → its input; without inputs, no entries or only empty texts."""
    references: Sequence[Any]
    """Example → its reference; without references, no entries or only None."""
    out: Sequence[str]
    """Example → the output without attack; empty if only the attack is evaluated."""
    owners: Sequence[int]
    """Candidate → the index of its example."""
    adversarial: Sequence[str]
    """Candidate → the attacked input."""
    adv_out: Sequence[str]
    """Candidate → the output for it."""

    def per_candidate(self, column: Sequence[Any]) -> Sequence[Any]:
        """Turn a column with one value per example into one with one value per candidate."""
        if isinstance(self.owners, range):
            # Each example has exactly one candidate, so the column is right as it is.
            return column
        return [column[owner] for owner in self.owners]


_CandidateKey = tuple[str, str, str, str]
"""The id of an example, its output without attack, an attacked input, and the output for it."""

Finite = Annotated[float, Field(allow_inf_nan=False)]


class Robustness(Task):
    """s_src, d_tgt (or s_tgt without a reference) and success of one attack on one system; see :mod:`.criterion`.

    ``side: source`` evaluates the attack alone, without a model; ``side: target`` evaluates given outputs alone.
    ``prompt`` is the request to a live system, that is, to a model that answers during the run (the alternative is
    outputs from files); ``{x}`` stands for the sentence. An answer ends where a text of ``stop`` begins.

    ``questions`` names a published set of questions with choices instead of ``src`` and ``ref``: the text and the
    question are attacked, the choices (``{choices}`` in the prompt) are not, and the right choice is the reference. One
    question of each template is drawn with ``sample_seed``; ``sample`` limits how many are drawn in all. With
    ``answer_by: choices`` the model must answer with one of the choices.
    """

    name = "robustness"
    version = 1
    evaluation = evaluation

    option_help: ClassVar[Mapping[str, str]] = {
        "src": "the file with the source texts, one per line",
        "attack": (
            "a perturbation by name, a file with attacked texts, a search or a gradient: name, file, perturb, "
            "rate, seed, redraws, options, search, gradient"
        ),
        "attack.name": "name in tables; without perturb, file, search and gradient also the name of the perturbation",
        "attack.file": "a file with the attacked texts",
        "attack.perturb": "the name of a perturbation",
        "attack.rate": "probability that each eligible word is changed",
        "attack.seed": "random seed of the perturbation, the search or the gradient attack",
        "attack.redraws": "how often at most the perturbation is repeated for a text that it left unchanged",
        "attack.options": "options of the perturbation",
        "attack.search": "search for the most harmful of several changes: perturbations, rates, budget, beam, steps",
        "attack.gradient": "attack by gradients: kind, k, substitutions, budget",
        "ref": "the file with the references; without it, the criterion without references is used",
        "s_src": "the scorer that compares source texts",
        "s_tgt": "the scorer that compares outputs",
        "src_lang": "the language of the source, for scorers that need it",
        "tgt_lang": "the language of the outputs, for scorers that need it",
        "success_threshold": "an attack succeeds if s_src + d_tgt (without ref: s_src / s_tgt) exceeds this value",
        "side": "source: evaluate only the attack; target: only the outputs; both",
        "prompt": "the prompt for a live system; {x} stands for the text",
        "max_tokens": "maximum number of tokens per answer",
        "stop": "texts at which an answer ends",
        "temperature": "sampling temperature; 0 chooses the most probable token",
        "questions": (
            "instead of src and ref: published questions with choices, such as kobbq or {name: bbq, category: Age}"
        ),
        "sample": "number of questions to draw, equally many of each category as far as possible",
        "sample_seed": "random seed for drawing questions",
        "answer_by": "choices: a model must answer a question with one of its choices; generate: it may write any text",
    }
    config_example = "task: {name: robustness, src: src.txt, attack: [charswap, keyboard], s_src: chrf}"

    def __init__(
        self,
        src: Annotated[Path | None, InMemory("texts")] = None,
        attack: Attack | None = None,
        ref: Annotated[Path | None, InMemory("texts")] = None,
        s_src: ScorerSpec = "chrf",
        s_tgt: ScorerSpec = "chrf",
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        success_threshold: Finite = 1.0,
        side: Literal["both", "source", "target"] = "both",
        prompt: str = "{x}",
        max_tokens: Annotated[int, Field(ge=1, strict=True)] = 256,
        stop: list[str] = [],  # noqa: B006 - never written to; the type says what a configuration may contain
        temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0,
        questions: QuestionSpec | None = None,
        sample: Annotated[int, Field(ge=1, strict=True)] | None = None,
        sample_seed: Annotated[int, Field(ge=0, strict=True)] = 0,
        answer_by: Literal["generate", "choices"] = "generate",
        base_dir: Path = Path(),
    ) -> None:
        self.side = side
        self.label = attack.label if attack is not None else "target side"
        self.success_threshold = success_threshold
        self.needs = frozenset() if side == "source" else frozenset({"generate"})
        if attack is not None and attack.gradient is not None:
            self.needs |= {"gradients"}
        if answer_by == "choices":
            self.needs |= {"choices"}
        self._question_spec = questions
        self._sample = sample
        self._sample_seed = sample_seed
        self._answer_by = answer_by
        self._attack = attack
        self._src = src
        self._ref = ref
        self._src_lang = src_lang
        self._tgt_lang = tgt_lang
        self._prompt = prompt
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._stop = tuple(stop)
        self._check_options()
        # Scorers that were written for TEAPOT begin with `import teapot`.
        module.install()
        self._scorer_specs = {"s_src": s_src, "s_tgt": s_tgt}
        self._s_src: Scorer | None = None
        self._s_tgt: Scorer | None = None
        if side != "target":
            self._s_src = _build_scorer(s_src, base_dir, "task.s_src")
        if side != "source":
            self._s_tgt = _build_scorer(s_tgt, base_dir, "task.s_tgt")
        self._maker: CandidateMaker | None = None
        self._adaptive: AdaptiveAttack | None = None
        candidates_per_sentence = 1
        if attack is not None and attack.file is None and attack.gradient is None:
            # For a beam search, whose candidates come from self._adaptive, the maker only says before the run whether
            # the perturbations change the inputs.
            self._maker = CandidateMaker(attack, base_dir)
            candidates_per_sentence = self._maker.max_candidates
        self.requests_each = 0 if side == "source" else 1 + candidates_per_sentence
        if attack is not None:
            self._adaptive = adaptive_attack(attack, base_dir)
        if self._adaptive is not None:
            self.requests_each = self._adaptive.max_queries
        self._fitness_cache: dict[_CandidateKey, float] = {}
        """s_src + d_tgt of the candidates of attacks that are in progress."""
        self._opened: ParallelText | QuestionText | None = None
        # Of outputs from files, set by check_model(): how many lines there are, and a digest of the file ``out``.
        self._output_lines = 0
        self._output_digest = ""
        self._notes: list[str] = []

    # --- the contract of a task -------------------------------------------------------------------------------------

    def check(self) -> None:
        if self._has_texts:
            self._text()
        if self._s_src is not None and self._s_src.needs_source:
            raise ConfigError(f"task.s_src: {self._s_src.name} scores translations, not inputs; use it as s_tgt")
        if self._s_tgt is not None and self._s_tgt.needs_source and not self._has_source:
            raise ConfigError(f"task.s_tgt: {self._s_tgt.name} also reads the inputs; give them as src")
        if self._s_src is not None:
            self._s_src.check(self._src_lang)
        if self._s_tgt is not None:
            self._s_tgt.check(self._tgt_lang)

    def check_model(self, model: Model) -> None:
        """Check that outputs from files have the roles ``out`` and ``adv_out``, and as many lines as the inputs."""
        if not isinstance(model, StoredAnswers) or model.lines is None:
            if not self._has_source:
                raise ConfigError("task.src: a live system needs inputs; give the source file")
            return
        lines = model.lines
        if self._attack is not None and self._attack.search is not None:
            raise ConfigError("task.attack.search: a search needs a live system; outputs from files cannot answer it")
        missing = {"out", "adv_out"} - model.roles
        if missing:
            # A DataError, because a wrong role is a mistake and not an impossible combination of a sweep.
            raise DataError(
                f"model.files: the role {' and '.join(sorted(missing))} is missing; give out and adv_out "
                f"(given: {', '.join(sorted(model.roles))})"
            )
        if self._question_spec is not None:
            raise ConfigError("task.questions: outputs from files cannot answer them; use a live system")
        paths = self._paths()
        if paths and lines != self._text().lines:
            first_path = next(iter(paths.values()))
            raise DataError(
                f"the system's outputs have {lines} lines, but {first_path} has {self._text().lines}; parallel files "
                f"must have the same number of lines"
            )
        self._output_lines = lines
        self._output_digest = str(model.identity().get("out", ""))

    def check_examples(self, limit: int | None) -> None:
        """Refuse an attack that changes no input, and warn if it changes few: its success rate would mean little."""
        if self._attack is None or not self._has_source or self._attack.gradient is not None:
            # What a gradient attack changes is not known before the run.
            return
        measured = coverage.measure(islice(self._changes(), limit))
        self._notes = []
        if not measured.changes_few:
            return
        sample_size = coverage.SUGGESTION_SAMPLE_SIZE
        if limit is not None:
            sample_size = min(limit, sample_size)
        inputs = [row["src"] for row in islice(self._text().rows(), sample_size)]
        perturbations = evaluation.components["perturbation"]
        message = coverage.explanation(measured, self._attack, self._maker, inputs, perturbations)
        if measured.changes_nothing:
            raise ConfigError(f"task.attack: {message}")
        self._notes = [message]

    def notes(self) -> list[str]:
        return self._notes

    def size(self) -> int | None:
        if self._has_texts:
            return self._text().lines
        return self._output_lines or None

    def examples(self) -> Iterator[Example]:
        for index, row in enumerate(self._rows()):
            inputs: dict[str, Any] = {"line": index + 1}
            if "src" in row:
                inputs["src"] = row["src"]
            if isinstance(self._opened, QuestionText):
                inputs["choices"] = self._opened.choices(index)
            if "adv_src" in row:
                inputs["adv_src"] = [row["adv_src"]]
            elif self._adaptive is not None:
                inputs |= self._adaptive.first_inputs()
            elif self._maker is not None and "src" in row:
                candidates = self._maker.candidates(row["src"], index)
                inputs["adv_src"] = [candidate.text for candidate in candidates]
                inputs["made_by"] = [candidate.made_by for candidate in candidates]
            # The id contains only what all attacks on this sentence share, so that their runs can be paired by it.
            shared = row.get("src", row.get("ref", self._output_digest))
            yield Example(_example_id(index, shared), inputs, row.get("ref"), _groups(inputs))

    def requests(self, example: Example) -> Sequence[Request]:
        if self.side == "source":
            return []
        index = example.inputs["line"] - 1
        # If the attacked inputs are unknown, an empty text stands for the only one; outputs from files ignore it.
        adversarial = example.inputs.get("adv_src", [""])
        choices = example.inputs.get("choices", [])
        gradient_queries = example.inputs.get("gradient_queries", [])
        source = example.inputs.get("src", "")
        requests: list[Request] = [self._request(source, choices, SourceLocation("out", index))]
        # A gradient query comes before the candidates that it recommends.
        for number in range(len(adversarial) + 1):
            for query in gradient_queries:
                if query["before"] == number:
                    requests.append(self._gradient_request(query, example))
            if number < len(adversarial):
                requests.append(self._request(adversarial[number], choices, SourceLocation("adv_out", index)))
        return requests

    def follow_up(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> Sequence[Example]:
        """Let an adaptive attack look at the answers and decide what to try next.

        The inputs of an example whose attack goes on are extended; an example that is returned as it is has no further
        requests.
        """
        if self._adaptive is None:
            return examples
        fitness_by_example = self._fitness_by_example(examples, [_outputs(answers) for answers in responses])
        extended: list[Example] = []
        for example, answers, fitness in zip(examples, responses, fitness_by_example, strict=True):
            inputs = example.inputs
            if not self._has_reference:
                # Without a reference, the output without attack is what the model should no longer write.
                inputs = {**inputs, "target": answers[0].text}
            last_answer = answers[-1].answer
            substitutions = last_answer if isinstance(last_answer, Substitutions) else None
            next_inputs = self._adaptive.next_inputs(inputs, fitness, substitutions)
            if next_inputs is None:
                extended.append(example)
            else:
                extended.append(replace(example, inputs=next_inputs, groups=_groups(next_inputs)))
        return extended

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        """Score all candidates of all examples together, then keep the most harmful candidate of each example."""
        responses = [_outputs(answers) for answers in responses]
        # The attacks on these examples are over, so the fitness of their candidates is no longer needed.
        self._fitness_cache.clear()
        # The columns have one row per candidate. For each row, the index of its example:
        owners: list[int] = []
        first_row: list[int] = []
        for index, example in enumerate(examples):
            first_row.append(len(owners))
            owners += [index] * len(example.inputs.get("adv_src", [""]))
        columns = self._score_columns(_collect_texts(examples, responses, owners))
        fitness = self._fitness(columns)
        best_row: dict[int, int] = {}
        for row, owner in enumerate(owners):
            if owner not in best_row or fitness[row] > fitness[best_row[owner]]:
                best_row[owner] = row
        scores = []
        for index, example in enumerate(examples):
            row = best_row[index]
            values = {name: float(column[row]) for name, column in columns.items()}
            scores.append(self._example_score(example, responses[index], values, row - first_row[index]))
        return scores

    def scored_batches(self, model: Model | None, positions: range) -> Iterator[RowBatch] | None:
        """Return batches of scored rows if attacked inputs and outputs all come from files; otherwise None.

        Such texts need neither requests nor a choice between candidates.
        """
        has_other_attack = self._attack is not None and self._attack.file is None
        if has_other_attack or self._question_spec is not None:
            return None
        if self.side == "source":
            return self._batches_from_files(None, positions)
        # An empty range only asks whether the model can return its texts by line number.
        if not isinstance(model, StoredAnswers) or model.texts("out", range(0)) is None:
            return None
        return self._batches_from_files(model, positions)

    def _batches_from_files(self, model: StoredAnswers | None, positions: range) -> Iterator[RowBatch]:
        """Yield batches of scored rows; ``model`` is None if only the source side is evaluated."""
        texts: Iterator[Mapping[str, list[str]]] = repeat({})
        if self._paths():
            text = self._text()
            assert isinstance(text, ParallelText)
            texts = text.columns(positions, self.chunk)
        for start in range(positions.start, positions.stop, self.chunk):
            chunk = range(start, min(start + self.chunk, positions.stop))
            yield self._scored_batch(model, chunk, next(texts))

    def _scored_batch(self, model: StoredAnswers | None, positions: range, texts: Mapping[str, list[str]]) -> RowBatch:
        """Score consecutive lines; ``texts`` has the lines of the task's files by role."""
        lines = range(positions.start + 1, positions.stop + 1)
        sources = texts.get("src")
        adversarial = texts.get("adv_src")
        references = texts.get("ref")
        inputs: dict[str, Sequence[Any]] = {"line": lines}
        groups: dict[str, Sequence[str]] = {}
        details: dict[str, Sequence[str]] = {}
        if sources is not None:
            inputs["src"] = sources
        if adversarial is not None:
            inputs["adv_src"] = [[text] for text in adversarial]
            details["adv_src"] = adversarial
        if sources is not None and adversarial is not None:
            groups[GROUP] = _change_labels(sources, adversarial)
        if model is not None:
            for role in ("out", "adv_out"):
                details[role] = model.texts(role, positions) or []
        scored_texts = _ScoredTexts(
            lines=lines,
            sources=sources or [],
            references=references or [],
            out=details.get("out", []),
            owners=range(len(positions)),
            adversarial=adversarial or [],
            adv_out=details.get("adv_out", []),
        )
        values = self._score_columns(scored_texts)
        if self._s_tgt is not None and self._s_tgt.is_binary and "s_out" in values:
            # Only a right answer can turn wrong, and only a changed input can be the reason.
            can_turn_wrong = values["s_out"] == 1
            if groups:
                can_turn_wrong &= np.array([label != UNCHANGED for label in groups[GROUP]])
            values["turned_wrong"] = np.where(can_turn_wrong, 1 - values["s_adv"], np.nan)
        shared = sources or references or [self._output_digest] * len(positions)
        ids = [_example_id(position, text) for position, text in zip(positions, shared, strict=True)]
        return RowBatch(positions.start, ids, values, groups, inputs, references, details)

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        results: list[Result] = []
        for metric in self._metrics():
            results.append(intervals.mean_result(table, metric, settings))
            if metric != "success":
                results += _spread(table, metric)
        if self.side != "source" and self._has_reference:
            results.append(signed_drop(table, settings))
        if self._s_tgt is not None and self._s_tgt.is_binary and self._has_reference:
            results.append(_turned_wrong(table, settings))
        if GROUP in table.groups:
            results.append(_unchanged(table, settings))
        if table.values("cut_off").any():
            results.append(intervals.mean_result(table, "cut_off", settings))
        return results

    def _metrics(self) -> list[str]:
        metrics = []
        if self.side == "both":
            metrics.append("success")
        if self.side != "target":
            metrics.append("s_src")
        if self.side != "source":
            metrics.append("d_tgt" if self._has_reference else "s_tgt")
        return metrics

    def signature(self) -> Mapping[str, Any]:
        parts: dict[str, Any] = {}
        text = self._text() if self._has_texts else None
        files = text.files if isinstance(text, ParallelText) else {}
        if isinstance(text, QuestionText):
            parts["src"] = f"questions.{text.sha256[:8]}"
            if self._answer_by != "generate":
                parts["answer_by"] = self._answer_by
        for role, file in files.items():
            if role != "adv_src":
                parts[role] = file.sha256[:8]
        if self._adaptive is not None:
            parts["attack"] = self._adaptive.signature
        elif self._maker is not None:
            parts["attack"] = self._maker.signature
        elif self._attack is not None:
            parts["attack"] = f"file({files['adv_src'].sha256[:8]})"
        if self._s_src is not None:
            parts["s_src"] = self._scorer_signature("s_src", self._s_src, self._src_lang)
        if self._s_tgt is not None:
            parts["s_tgt"] = self._scorer_signature("s_tgt", self._s_tgt, self._tgt_lang)
        if self.side == "both":
            parts["threshold"] = self.success_threshold
        if self.side != "source" and self._has_source:
            if self._prompt == "{x}":
                # The prompt is the sentence alone. Any other prompt is named by its hash.
                parts["prompt"] = "x"
            else:
                parts["prompt"] = hashlib.sha256(self._prompt.encode()).hexdigest()[:8]
            parts["max_tokens"] = self._max_tokens
            if self._temperature:
                parts["temperature"] = self._temperature
            if self._stop:
                parts["stop"] = ",".join(map(repr, self._stop))
        return parts

    # --- internals --------------------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        if self._question_spec is not None:
            self._check_question_options()
        elif self._sample is not None or self._answer_by != "generate":
            raise ConfigError("task.sample and task.answer_by belong to task.questions; give the questions, too")
        if self.side != "target" and (not self._has_source or self._attack is None):
            raise ConfigError("task: give src and attack, or set side: target to evaluate outputs alone")
        if self.side == "target" and self._attack is not None and self._attack.file is None and not self._has_source:
            raise ConfigError("task.attack: a perturbation needs src; leave it out for side: target")
        attack = self._attack
        has_gradient = attack is not None and attack.gradient is not None
        has_beam = attack is not None and attack.search is not None and attack.search.beam is not None
        if self.side == "source" and (has_gradient or has_beam):
            option = "gradient" if has_gradient else "search.beam"
            raise ConfigError(f"task.attack.{option}: this attack needs a model; leave out side: source")
        if has_gradient and self._prompt.count("{x}") > 1:
            raise ConfigError("task.prompt: a gradient attack needs a prompt with a single '{x}'")
        if "{x}" not in self._prompt:
            raise ConfigError("task.prompt: '{x}' is missing; put it where the sentence belongs")

    def _check_question_options(self) -> None:
        if self._src is not None or self._ref is not None or (self._attack is not None and self._attack.file):
            raise ConfigError("task.questions: give either questions or files (src, ref, attack.file), not both")
        if "{choices}" not in self._prompt:
            raise ConfigError("task.prompt: '{choices}' is missing; put it where the choices of a question belong")

    @property
    def _has_source(self) -> bool:
        return self._src is not None or self._question_spec is not None

    @property
    def _has_reference(self) -> bool:
        return self._ref is not None or self._question_spec is not None

    @property
    def _has_texts(self) -> bool:
        """Whether the task has texts: questions, or a file of inputs, attacked inputs or references."""
        return self._question_spec is not None or bool(self._paths())

    def _scorer_signature(self, option: str, scorer: Scorer, lang: str | None) -> str:
        _, scorer_options = split_spec(self._scorer_specs[option], option)
        signature = full_signature(scorer, scorer_options)
        if lang:
            return f"{signature}.{lang}"
        return signature

    def _paths(self) -> dict[str, Path]:
        """Role → file, for the files that the task has."""
        adversarial = self._attack.file if self._attack is not None else None
        paths = {"src": self._src, "adv_src": adversarial, "ref": self._ref}
        return {role: path for role, path in paths.items() if path is not None}

    def _rows(self) -> Iterator[Mapping[str, str]]:
        """The texts of each example by role; empty rows if only the system's outputs are known."""
        if self._has_texts:
            yield from self._text().rows()
            return
        for _ in range(self._output_lines):
            yield {}

    def _changes(self) -> Iterator[bool]:
        """Yield for each input whether the attack changes it."""
        for index, row in enumerate(self._text().rows()):
            if self._maker is None:
                yield row["adv_src"] != row["src"]
            else:
                yield self._maker.changes(row["src"], index)

    def _text(self) -> ParallelText | QuestionText:
        """The texts of the task, which are opened when they are first needed."""
        if self._opened is None:
            if self._question_spec is not None:
                self._opened = QuestionText(self._question_spec, self._sample, self._sample_seed)
            else:
                self._opened = open_parallel(self._paths())
        return self._opened

    def _request(self, sentence: str, choices: Sequence[str], location: SourceLocation) -> Generate:
        return Generate(
            self._prompt_with_choices(choices).replace("{x}", sentence),
            choices=tuple(choices) if self._answer_by == "choices" else (),
            max_tokens=self._max_tokens,
            temperature=self._temperature,
            stop=self._stop,
            location=location,
        )

    def _prompt_with_choices(self, choices: Sequence[str]) -> str:
        if not choices:
            return self._prompt
        # This happens before the sentence is filled in, because a sentence may itself contain "{choices}".
        return self._prompt.replace("{choices}", ", ".join(choices))

    def _gradient_request(self, query: Mapping[str, Any], example: Example) -> Request:
        assert isinstance(self._adaptive, GradientAttack)
        left, _, right = self._prompt_with_choices(example.inputs.get("choices", [])).partition("{x}")
        target = str(example.reference) if self._has_reference else example.inputs["target"]
        return self._adaptive.request(query, target, left, right)

    def _fitness_by_example(
        self, examples: Sequence[Example], outputs: Sequence[Sequence[Response]]
    ) -> list[list[float]]:
        """s_src + d_tgt of all candidates of each example that have been answered so far.

        It is computed after every round of an adaptive attack. Only new candidates are scored, because some scorers are
        slow.
        """
        keys_by_example: list[list[_CandidateKey]] = []
        new_examples: list[Example] = []
        new_outputs: list[Sequence[Response]] = []
        new_keys: list[_CandidateKey] = []
        owners: list[int] = []
        for example, answers in zip(examples, outputs, strict=True):
            candidates = example.inputs["adv_src"]
            keys: list[_CandidateKey] = []
            for text, answer in zip(candidates, answers[1:], strict=True):
                keys.append((example.id, answers[0].text, text, answer.text))
            keys_by_example.append(keys)
            # Candidates of earlier rounds come first and are scored already; each round appends new ones.
            scored = sum(key in self._fitness_cache for key in keys)
            if scored == len(keys):
                continue
            owners += [len(new_examples)] * (len(keys) - scored)
            new_examples.append(replace(example, inputs={**example.inputs, "adv_src": candidates[scored:]}))
            new_outputs.append([answers[0], *answers[1 + scored :]])
            new_keys += keys[scored:]
        if owners:
            fitness = self._fitness(self._score_columns(_collect_texts(new_examples, new_outputs, owners)))
            self._fitness_cache.update(zip(new_keys, map(float, fitness), strict=True))
        return [[self._fitness_cache[key] for key in keys] for keys in keys_by_example]

    def _score_columns(self, texts: _ScoredTexts) -> dict[str, Column]:
        """The scores of all candidates."""
        columns: dict[str, Column] = {}
        if self._s_src is not None:
            columns["s_src"] = self._source_scores(self._s_src, texts)
        if self._s_tgt is not None:
            columns |= self._target_scores(self._s_tgt, texts)
        if self.side == "both":
            columns["success"] = self._success(columns).astype(float)
        return columns

    def _source_scores(self, scorer: Scorer, texts: _ScoredTexts) -> Column:
        """How similar each attacked input is to the original."""
        sources = texts.per_candidate(texts.sources)
        with self._errors_by_line(texts.per_candidate(texts.lines)):
            return np.asarray(scorer.score(texts.adversarial, sources, lang=self._src_lang))

    def _target_scores(self, scorer: Scorer, texts: _ScoredTexts) -> dict[str, Column]:
        """How much the attack changes the outputs.

        With a reference, all outputs are compared with it; without one, the output under attack is compared with the
        output without attack.
        """
        # The output without attack, once per candidate.
        base_out = texts.per_candidate(texts.out)
        owner_lines = texts.per_candidate(texts.lines)
        # Scorers that read the source get the original input for outputs under attack as well, because the reference
        # translates the original input.
        owner_sources = texts.per_candidate(texts.sources)
        if not self._has_reference:
            with self._errors_by_line(owner_lines):
                s_tgt = scorer.score_with_sources(texts.adv_out, base_out, owner_sources, lang=self._tgt_lang)
                return {"s_tgt": np.asarray(s_tgt)}
        owner_references = texts.per_candidate(texts.references)
        with self._errors_by_line(texts.lines):
            # Scored once per example, not once per candidate.
            s_out_of_example = np.asarray(
                scorer.score_with_sources(texts.out, texts.references, texts.sources, lang=self._tgt_lang)
            )
        s_out = s_out_of_example[np.asarray(texts.owners)]
        with self._errors_by_line(owner_lines):
            s_adv = np.asarray(
                scorer.score_with_sources(texts.adv_out, owner_references, owner_sources, lang=self._tgt_lang)
            )
        d_tgt = criterion.relative_decrease(s_out, s_adv)
        if has_own_decrease(scorer):
            with self._errors_by_line(owner_lines):
                d_tgt = np.asarray(own_decrease(scorer, texts.adv_out, base_out, owner_references, self._tgt_lang))
        return {"s_out": s_out, "s_adv": s_adv, "d_tgt": d_tgt}

    @contextmanager
    def _errors_by_line(self, lines: Sequence[int]) -> Iterator[None]:
        """Turn a ScorerError, which has the number of a pair, into a PluginError with the file and the line."""
        try:
            yield
        except ScorerError as error:
            file = next(iter(self._paths().values()), None)
            if error.pair is None or file is None:
                raise PluginError(error.message) from error
            raise PluginError(f"{file}, line {lines[error.pair - 1]}: {error.message}") from error

    def _success(self, columns: Mapping[str, Column]) -> NDArray[np.bool_]:
        """Which candidates succeed by TEAPOT's criterion."""
        with_reference = "d_tgt" in columns
        target = columns["d_tgt"] if with_reference else columns["s_tgt"]
        return criterion.success(columns["s_src"], target, self.success_threshold, with_reference=with_reference)

    def _fitness(self, columns: Mapping[str, Column]) -> Column:
        """What a search maximises: s_src + d_tgt.

        Without a reference, the output without attack takes its place, so d_tgt is 1 - s_tgt.
        """
        # A side that is not evaluated contributes nothing.
        similarity: Column | float = columns.get("s_src", 0.0)
        damage: Column | float = 0.0
        if "d_tgt" in columns:
            damage = columns["d_tgt"]
        elif "s_tgt" in columns:
            damage = 1 - columns["s_tgt"]
        return np.atleast_1d(np.asarray(similarity + damage))

    def _example_score(
        self, example: Example, responses: Sequence[Response], values: dict[str, float], choice: int
    ) -> Score:
        """The score of an example; ``choice`` is the index of its best candidate, counted from 0."""
        details: dict[str, Any] = {}
        if "adv_src" in example.inputs:
            details["adv_src"] = example.inputs["adv_src"][choice]
        if "made_by" in example.inputs:
            details["made_by"] = example.inputs["made_by"][choice]
        # Only a right answer can turn wrong, and only a changed input can be the reason.
        is_right = self._s_tgt is not None and self._s_tgt.is_binary and values.get("s_out") == 1
        if is_right and example.groups.get(GROUP) != UNCHANGED:
            values["turned_wrong"] = 1 - values["s_adv"]
        if responses:
            base = responses[0]
            adversarial = responses[1 + choice]
            details["out"] = base.text
            details["adv_out"] = adversarial.text
            if _is_live(base) or _is_live(adversarial):
                # An output that ended at the token limit is scored as it is, and counted separately.
                values["cut_off"] = float("length" in (base.finish, adversarial.finish))
        return Score(values, details=details)


def _build_scorer(spec: Spec, base_dir: Path, key: str) -> Scorer:
    """Create a scorer. A plain function of two texts is also accepted, with or without the decorator ``@scorer``."""
    name, options = split_spec(spec, key)
    factory = find_factory("scorer", name, base_dir, key)
    scorer: Any = None
    if options or not is_scorer_function(factory):
        try:
            scorer = build("scorer", spec, base_dir, key)
        except ConfigError:
            # For a function of two texts, build() reports its parameters as missing options; it is handled below.
            if options or not inspect.isfunction(factory):
                raise
    if scorer is None:
        scorer = function_scorer(factory.__name__, factory, current_registry().source_of(name, base_dir))()
    problem = interface_problem(scorer)
    if problem:
        raise ConfigError(f"{key}: {name} {problem}")
    built: Scorer = scorer
    return built


def _collect_texts(
    examples: Sequence[Example], responses: Sequence[Sequence[Response]], owners: Sequence[int]
) -> _ScoredTexts:
    """Collect the texts of examples and their responses; ``owners`` has the index of the example of each candidate."""
    adversarial: list[str] = []
    out: list[str] = []
    adv_out: list[str] = []
    for example, answers in zip(examples, responses, strict=True):
        # If only outputs are evaluated, the inputs are unknown, and an empty text stands for the only candidate.
        adversarial += example.inputs.get("adv_src", [""])
        if not answers:
            # Only the source side is evaluated, which needs no outputs.
            continue
        base_answer, *candidate_answers = answers
        out.append(base_answer.text)
        for answer in candidate_answers:
            adv_out.append(answer.text)
    return _ScoredTexts(
        lines=[example.inputs["line"] for example in examples],
        sources=[example.inputs.get("src", "") for example in examples],
        references=[example.reference for example in examples],
        out=out,
        owners=owners,
        adversarial=adversarial,
        adv_out=adv_out,
    )


def _outputs(responses: Sequence[Response]) -> list[Response]:
    """The responses that are texts: the output without attack, then one per candidate."""
    return [response for response in responses if not isinstance(response.answer, Substitutions)]


def _is_live(response: Response) -> bool:
    """Whether a model answered; outputs from files have neither a duration nor a number of tokens."""
    return response.seconds is not None or response.tokens_out is not None


def _example_id(index: int, text: str) -> str:
    """The id by which runs of several attacks are paired: the line number and a digest of what they share.

    They share the sentence; without sentences, the reference; without both, the file of outputs without attack, whose
    digest is then ``text``.
    """
    return f"{index + 1}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _groups(inputs: Mapping[str, Any]) -> dict[str, str]:
    """The group that says whether the attack changed the input; empty if one of the two versions is unknown.

    Adaptive attacks begin without candidates, so their first inputs have no group.
    """
    if "src" not in inputs or not inputs.get("adv_src"):
        return {}
    is_changed = any(text != inputs["src"] for text in inputs["adv_src"])
    return {GROUP: CHANGED if is_changed else UNCHANGED}


def _change_labels(sources: Sequence[str], adversarial: Sequence[str]) -> list[str]:
    """For each pair of lines, whether the attack changed the input: a label of the group ``GROUP``."""
    labels = []
    for source, attacked in zip(sources, adversarial, strict=True):
        labels.append(UNCHANGED if attacked == source else CHANGED)
    return labels


def _unchanged(table: ScoreTable, settings: Settings) -> Result:
    """The share of all inputs that the attack left unchanged, including inputs without an answer."""
    names, codes = table.codes(GROUP)
    is_known = np.ones(len(table), dtype=bool)
    if "" in names:
        # In runs that an earlier version started, some examples lack this group.
        is_known = codes != names.index("")
    is_unchanged = np.zeros(len(table), dtype=bool)
    if UNCHANGED in names:
        is_unchanged = codes == names.index(UNCHANGED)
    unchanged = is_unchanged[is_known].astype(float)
    clusters = _clusters_of(table, is_known)
    estimated = intervals.mean_estimate(unchanged, clusters)
    counts = (len(unchanged), 0, 0)
    return intervals.result_of(estimated, "unchanged", "overall", counts, settings, table.repeated_by)


def _turned_wrong(table: ScoreTable, settings: Settings) -> Result:
    """The share of right answers that turn wrong; examples that were wrong from the start are not counted at all."""
    counted = ~np.isnan(table.column("turned_wrong"))
    # These have no score either, but they are reported as errors or unscored.
    without_answer = np.isnan(table.column("s_out"))
    return intervals.mean_result(table, "turned_wrong", settings, where=counted | without_answer)


def _spread(table: ScoreTable, metric: str) -> list[Result]:
    """Standard deviation and 5th and 95th percentile of a metric, as in TEAPOT; they describe these examples only.

    They are not estimates for other examples, so they have no interval.
    """
    values = table.values(metric)
    if not len(values):
        return []
    summary = criterion.summarise(values)
    counts = table.counts(metric)
    results = []
    for name, value in (("std", summary.std), ("p5", summary.p5), ("p95", summary.p95)):
        results.append(
            Result(f"{metric}.{name}", "overall", value, None, None, *counts, method="none: describes these examples")
        )
    return results


def _clusters_of(table: ScoreTable, is_used: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """For each grouping that clusters the rows, the cluster of every row that is used.

    There is a grouping only if each sentence was sampled several times: its samples form a cluster.
    """
    clusters = []
    for group in table.repeated_by:
        _, codes = table.codes(group)
        clusters.append(codes[is_used])
    return clusters


# Sums below this are rounding errors.
_ROUNDING = 1e-9


def signed_drop(table: ScoreTable, settings: Settings) -> Result:
    """The relative drop of the mean score. Unlike in d_tgt, sentences whose score rises count, and reduce the drop."""
    out, adv = table.together("s_out", "s_adv")
    counts = table.counts("s_adv")
    if not len(out) or abs(float(out.sum())) < _ROUNDING:
        return Result("signed_drop", "overall", None, None, None, *counts)
    drop = float(1 - np.sum(adv) / np.sum(out))
    # The drop is 1 minus a ratio of sums. The delta method linearises it: each sentence contributes one value, and the
    # mean of these values is the drop itself.
    contributions = drop + (out - adv - drop * out) / float(out.mean())
    # If no score is negative, the mean score cannot fall below 0, so the relative drop is at most 1.
    largest_drop = 1.0 if float(adv.min()) >= 0 else None
    # The linearised value of a sentence whose score did not change is not 0. It must still count as unchanged when the
    # interval is computed, as it would for a plain difference of scores.
    has_both = ~np.isnan(table.column("s_out")) & ~np.isnan(table.column("s_adv"))
    clusters = _clusters_of(table, has_both)
    term = Term(contributions, clusters=clusters, step=1.0, unchanged=intervals.same_scores(out, adv))
    estimated = estimate([term], bounds=(None, largest_drop), is_difference=True)
    return intervals.result_of(
        replace(estimated, value=drop), "signed_drop", "overall", counts, settings, table.repeated_by
    )
