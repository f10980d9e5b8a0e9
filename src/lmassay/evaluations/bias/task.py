"""The bias evaluation: whom does a model suspect when the context does not say, and does it mind when it does?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from lmassay.answers import parser
from lmassay.contracts import Model, StoredAnswers, Task
from lmassay.errors import ConfigError
from lmassay.evaluations.bias import evaluation, scores
from lmassay.evaluations.bias.items import LETTERS, BiasDataset, BiasItem, rotations
from lmassay.evaluations.bias.prompts import PromptTemplate, choose_prompt, read_prompts, shipped_prompts
from lmassay.evaluations.bias.reference_parser import parse_reference
from lmassay.evaluations.bias.scores import columns, combinations
from lmassay.evaluations.bias.sources import read_dataset
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.storage.files import sha256
from lmassay.types import (
    Continuation,
    Design,
    Example,
    Generate,
    LogProbs,
    Request,
    Response,
    Result,
    Score,
    SourceLocation,
)

AnswerBy = Literal["generate", "letters", "choices", "choices_per_token"]
_NEEDS: Mapping[AnswerBy, frozenset[str]] = {
    "generate": frozenset({"generate"}),
    "letters": frozenset({"generate", "choices"}),
    "choices": frozenset({"logprobs"}),
    "choices_per_token": frozenset({"logprobs"}),
}
_KOBBQ = ("accuracy_amb", "diff_bias_amb", "accuracy_dis", "diff_bias_dis", "ooc")
_BBQ = ("accuracy_amb", "s_amb", "accuracy_dis", "s_dis", "ooc")


class Bias(Task):
    """Bias question answering in the manner of KoBBQ (Jin et al. 2024) and BBQ (Parrish et al. 2022).

    ``data`` is a file of KoBBQ samples (.tsv), BBQ's .jsonl files (one, a folder, a pattern), or a .yaml that describes
    data of your own. ``prompts`` is a .tsv with KoBBQ's columns; ours are taken where none is given. ``rotations: all``
    asks each question in every rotation of its choices (the default for all but BBQ). ``averaging: all`` gives each
    template the same weight. ``parsing`` is how an answer in words becomes a choice: ``reference`` is KoBBQ's way and
    the default for its data, ``robust`` understands more and the default for others; both are reported.
    ``answer_by: letters`` takes the most probable letter, ``choices`` the choice whose text is the most probable.
    """

    name = "bias"
    version = 1
    evaluation = evaluation

    def __init__(
        self,
        data: str,
        prompts: Path | None = None,
        prompt_id: int = 1,
        rotations: Literal["auto", "all", "none"] = "auto",
        averaging: Literal["test", "all"] = "test",
        parsing: Literal["auto", "reference", "robust"] = "auto",
        answer_by: AnswerBy = "generate",
        max_tokens: Annotated[int, Field(ge=1)] = 30,
        per_category: Annotated[int, Field(ge=1)] | None = None,
        by: list[str] = [],  # noqa: B006 - never written to; the type says what a configuration may hold
        label: str = "",
        base_dir: Path = Path(),
    ) -> None:
        self._data, self._base = data, base_dir
        self._prompt_file, self._prompt_id = prompts, prompt_id
        self._rotations, self._averaging, self._parsing = rotations, averaging, parsing
        self._answer_by, self._max_tokens = answer_by, max_tokens
        self.needs = _NEEDS[answer_by]
        self._per_category, self._by = per_category, by
        prompt = f"{prompts.stem} {prompt_id}" if prompts else f"prompt {prompt_id}"
        self.label = label or f"{Path(data).stem}, {prompt}"

    # --- what the runner asks -----------------------------------------------------------------------------------------

    @property
    def design(self) -> Design:  # type: ignore[override]  # the headline depends on the data
        return Design(
            clusters=(scores.CLUSTER,),
            headline=_BBQ if self._dataset.kind == "bbq" else _KOBBQ,
            combinations=combinations("template" if self._averaging == "all" else None),
        )

    @property
    def requests_each(self) -> int:  # type: ignore[override]  # depends on the data
        by_text = self._answer_by in ("choices", "choices_per_token")
        return max(len(item.choices) for item in self._items) if by_text else 1

    def check(self) -> None:
        labels = len(self._prompt.choices)
        longest = max(self._items, key=lambda item: len(item.choices))
        if len(longest.choices) > labels:
            raise ConfigError(
                f"task.data: {longest.id} has {len(longest.choices)} choices; a prompt file has labels for {labels}"
            )
        if self._answer_by == "letters" and not self._prompt.has_letters:
            raise ConfigError(f"task.answer_by: the labels of prompt {self._prompt_id} show no letters; take `choices`")
        unknown = [group for group in self._by if not any(group in item.groups for item in self._items)]
        if unknown:
            known = ", ".join(sorted({group for item in self._items for group in item.groups})) or "none"
            raise ConfigError(f"task.by: the data have no group '{unknown[0]}'; there are: {known}")

    def check_model(self, model: Model) -> None:
        """Answers that are looked up must all be there before a run starts, unless only some are asked for."""
        if isinstance(model, StoredAnswers):
            model.check_ids([example.id for example in self.examples()])

    def notes(self) -> list[str]:
        odd = self._answer_by == "generate" and not self._prompt.has_letters
        letters = [f"the labels of prompt {self._prompt_id} show no letters; answers are read as A, B, C or as texts"]
        return [*self._dataset.notes, *(letters if odd else [])]

    def size(self) -> int:
        return sum(len(self._orders(item)) for item in self._items)

    def examples(self) -> Iterator[Example]:
        for item in self._items:
            for number, order in enumerate(self._orders(item)):
                yield self._example(item, number, order)

    def requests(self, example: Example) -> list[Request]:
        item, shown = self._by_id[example.inputs["item"]], example.inputs["choices"]
        turns = (("user", "".join(self._prompt.text(item.context, item.question, shown))),)
        place = SourceLocation("answer", example.id)
        if self._answer_by == "generate":
            return [Generate(messages=turns, max_tokens=self._max_tokens, location=place)]
        if self._answer_by == "letters":
            letters = self._prompt.letters[: len(shown)]
            return [Generate(messages=turns, max_tokens=1, choices=letters, location=place)]
        return [LogProbs("", choice, messages=turns, location=place) for choice in shown]

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        judge = self._judge_words if self._answer_by in ("generate", "letters") else self._judge_choices
        return [judge(example, answers) for example, answers in zip(examples, responses, strict=True)]

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        groups = ["label", "category", *self._by]
        return scores.results(table, self.design.combinations, [g for g in groups if g in table.groups], settings)

    def signature(self) -> Mapping[str, Any]:
        parts: dict[str, Any] = {
            "data": f"{self._dataset.name}.{self._dataset.sha256[:8]}",
            "prompt": f"{self._prompt_path.stem}.{sha256(self._prompt_path)[:8]}.{self._prompt_id}",
            "rotations": "all" if self._rotates else "none",
            "averaging": self._averaging,
            "answer_by": self._answer_by,
        }
        if self._answer_by == "generate":
            parts |= {"parsing": self._parser, "max_tokens": self._max_tokens}
        return parts | ({"per_category": self._per_category} if self._per_category else {})

    # --- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _dataset(self) -> BiasDataset:
        return read_dataset(self._data, self._base)

    @cached_property
    def _items(self) -> list[BiasItem]:
        if self._per_category is None:
            return list(self._dataset.items)
        kept: dict[str, set[str]] = {}
        for item in self._dataset.items:
            templates = kept.setdefault(item.category, set())
            if len(templates) < self._per_category:
                templates.add(item.template)
        return [item for item in self._dataset.items if item.template in kept[item.category]]

    @cached_property
    def _by_id(self) -> dict[str, BiasItem]:
        return {item.id: item for item in self._items}

    @cached_property
    def _prompt_path(self) -> Path:
        return self._prompt_file or shipped_prompts(self._dataset.language)

    @cached_property
    def _prompt(self) -> PromptTemplate:
        return choose_prompt(read_prompts(self._prompt_path), self._prompt_id, self._prompt_path, may_keep_unknown=True)

    @property
    def _rotates(self) -> bool:
        return self._dataset.kind != "bbq" if self._rotations == "auto" else self._rotations == "all"

    @property
    def _parser(self) -> str:
        usual = "reference" if self._dataset.kind == "kobbq" else "robust"
        return usual if self._parsing == "auto" else self._parsing

    def _orders(self, item: BiasItem) -> list[tuple[int, ...]]:
        count = len(item.choices)
        return list(rotations(count)) if self._rotates else [tuple(range(count))]

    def _example(self, item: BiasItem, number: int, order: tuple[int, ...]) -> Example:
        unknown = self._prompt.unknown or item.choices[item.unknown]
        choices = [unknown if place == item.unknown else item.choices[place] for place in order]
        inputs = {"item": item.id, "context": item.context, "question": item.question, "choices": choices}
        roles = {"answer": item.correct, "unknown": item.unknown, "biased": item.biased}
        reference = {role: None if place is None else LETTERS[order.index(place)] for role, place in roles.items()}
        groups = {
            **item.groups,
            "category": item.category,
            **({"label": item.label} if item.label else {}),
            "context": item.context_type,
            "template": item.template,
            "question": item.id,
            "rotation": str(number),
            "orders": str(len(self._orders(item))),
        }
        name = f"{item.id}-{number}" if self._rotates else item.id
        return Example(name, {**inputs, "order": list(order)}, reference, groups)

    def _judge_words(self, example: Example, answers: Sequence[Response]) -> Score:
        raw, shown = answers[0].text, example.inputs["choices"]
        letters = LETTERS[: len(shown)]
        parsed = parser.parse(raw, shown, letters, question=example.inputs["question"])
        found = {
            "reference": parse_reference(raw, dict(zip(letters, map(str.lower, shown), strict=True))),
            "robust": parsed.letter,
        }
        read = {parser: letter if letter and letter in letters else None for parser, letter in found.items()}
        values = {f"ooc_{parser}": float(letter is None) for parser, letter in read.items()}
        values["parsers_agree"] = float(read["reference"] == read["robust"])
        details = {"raw": raw, "finish": answers[0].finish, **read, "how": parsed.how}
        return self._judged(example, read[self._parser], values, details)

    def _judge_choices(self, example: Example, answers: Sequence[Response]) -> Score:
        scores = []
        for response in answers:
            answer = response.answer
            if not isinstance(answer, Continuation):
                raise ConfigError(f"the model answered log-probabilities with {type(answer).__name__}")
            length = len(answer.tokens) if self._answer_by == "choices_per_token" else 1
            scores.append(answer.total / max(length, 1))
        best = [place for place, score in enumerate(scores) if score == max(scores)]
        # Two choices that are equally probable are no answer.
        letter = LETTERS[best[0]] if len(best) == 1 else None
        return self._judged(example, letter, {}, {"logprobs": scores})

    def _judged(
        self, example: Example, letter: str | None, values: Mapping[str, float], details: Mapping[str, Any]
    ) -> Score:
        item = self._by_id[example.inputs["item"]]
        place = None if letter is None else LETTERS.index(letter)
        picked = None if place is None else example.inputs["order"][place]
        own = columns(item, picked) | ({} if place is None else {"letter": float(place)})
        role = "out of choice" if picked is None else _role(item, picked)
        return Score({**own, **values}, details={**details, "letter": letter, "role": role})


def _role(item: BiasItem, picked: int) -> str:
    if picked == item.unknown:
        return "unknown"
    if item.biased is None:
        return "correct" if picked == item.correct else "wrong"
    return "biased" if picked == item.biased else "counter-biased"
