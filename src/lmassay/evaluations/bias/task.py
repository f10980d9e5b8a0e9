"""The bias task: whom does a model name if the text leaves the answer open, and is it right if the text states it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from lmassay.answers import parser
from lmassay.contracts import Model, StoredAnswers, Task
from lmassay.datasets.catalogue import label_of
from lmassay.errors import ConfigError
from lmassay.evaluations.bias import evaluation, scores
from lmassay.evaluations.bias.items import LETTERS, BiasDataset, BiasItem, rotations, select_items
from lmassay.evaluations.bias.prompts import (
    UNREVIEWED_LANGUAGES,
    PromptTemplate,
    choose_prompt,
    guess_language,
    is_surely_not_english,
    read_prompts,
    shipped_prompts,
)
from lmassay.evaluations.bias.reference_parser import parse_reference
from lmassay.evaluations.bias.scores import columns, combinations
from lmassay.evaluations.bias.sources import has_control_questions, read_control_questions, read_dataset
from lmassay.plugins.data_options import InMemory
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
from lmassay.types.wording import language_name

AnswerBy = Literal["generate", "letters", "choices", "choices_per_token"]
# What a model must be able to do, for each value of the option ``answer_by``.
_NEEDS: Mapping[AnswerBy, frozenset[str]] = {
    "generate": frozenset({"generate"}),
    "letters": frozenset({"generate", "choices"}),
    "choices": frozenset({"logprobs"}),
    "choices_per_token": frozenset({"logprobs"}),
}
# This many questions are enough to recognise their language.
_ITEMS_TO_RECOGNISE = 50
_KOBBQ_HEADLINE = ("accuracy_amb", "diff_bias_amb", "accuracy_dis", "diff_bias_dis", "ooc")
_BBQ_HEADLINE = ("accuracy_amb", "s_amb", "accuracy_dis", "s_dis", "ooc")


class Bias(Task):
    """Question answering about social stereotypes, after KoBBQ (Jin et al. 2024) and BBQ (Parrish et al. 2022).

    ``data`` is a published data set (``kobbq``, ``bbq/Age``, ``mbbq/es``), a file of KoBBQ samples (.tsv), BBQ's .jsonl
    files (one, a folder, a pattern), or a .yaml that describes your own data. ``prompts`` is a .tsv with KoBBQ's
    columns; by default the prompts that come with lmassay for the language of the data are used. ``rotations: all``
    asks each question in every rotation of its choices (the default except for BBQ and MBBQ). ``averaging: test`` (the
    default) gives each answer the same weight, as KoBBQ does for its test set; ``averaging: all`` gives each template
    the same weight, as KoBBQ does for the set of all samples. ``parsing`` is how an answer in words becomes a choice:
    ``reference`` is KoBBQ's own parser and the default for its data, ``robust`` understands more and is the default
    otherwise; the out-of-choice rates of both are reported. ``control: true`` also asks the control questions that a
    published data set includes (MBBQ); instead of ``true``, it can name your own file. The accuracy on them is reported
    next to the bias. ``answer_by: letters`` takes the most probable letter, ``choices`` the choice whose text is the
    most probable, and ``choices_per_token`` the one whose text has the highest mean log-probability per token.
    ``per_category`` limits the templates of each category, ``per_template`` the questions of each kind (context and
    polarity) of a template: the first ones are used or, with ``sample_seed``, a random sample.
    """

    name = "bias"
    version = 1
    evaluation = evaluation

    option_help: ClassVar[Mapping[str, str]] = {
        "data": (
            "a published data set (kobbq, bbq/Age, mbbq/es), a file of KoBBQ samples (.tsv), BBQ files "
            "(.jsonl), or a .yaml file that describes your own data"
        ),
        "prompts": (
            "a .tsv file with your own prompts, with the columns of KoBBQ; by default the prompts that come "
            "with lmassay"
        ),
        "prompt_id": "the number of the prompt in the file of prompts",
        "rotations": (
            "all: ask each question in every rotation of its choices; none: only in the order of the data; "
            "auto: all, but none for BBQ and MBBQ"
        ),
        "averaging": (
            "test: mean over rows, as KoBBQ does for its test set; all: mean over the rows of each template, then over "
            "templates, as KoBBQ does for its whole set"
        ),
        "parsing": "how an answer in words becomes a choice; auto: reference for KoBBQ, robust for other data",
        "answer_by": (
            "generate: read the answer from the text; letters: the most probable letter; choices: the most "
            "probable text of a choice; choices_per_token: the highest mean log-probability per token"
        ),
        "max_tokens": "maximum number of tokens per answer",
        "per_category": "use only this number of templates of each category",
        "per_template": "use only this number of questions of each kind (context and polarity) of a template",
        "sample_seed": "draw templates and questions at random with this seed, instead of using the first ones",
        "control": (
            "also ask control questions, which involve no stereotype: true for those of MBBQ, or your own file in a "
            "format that data accepts"
        ),
        "by": "further groups in the data by which to report results",
        "label": "name in tables",
    }
    config_example = "task: {name: bias, data: kobbq, prompt_id: [1, 2], per_category: 10}"

    def __init__(
        self,
        data: Annotated[str | dict[str, str | list[str]], InMemory("rows", described_by="files")],
        prompts: Path | None = None,
        prompt_id: int = 1,
        rotations: Literal["auto", "all", "none"] = "auto",
        averaging: Literal["test", "all"] = "test",
        parsing: Literal["auto", "reference", "robust"] = "auto",
        answer_by: AnswerBy = "generate",
        max_tokens: Annotated[int, Field(ge=1)] = 30,
        per_category: Annotated[int, Field(ge=1)] | None = None,
        per_template: Annotated[int, Field(ge=1)] | None = None,
        sample_seed: Annotated[int, Field(ge=0)] | None = None,
        control: Annotated[bool | str | dict[str, str], InMemory("rows", described_by="files")] = False,
        by: list[str] = [],  # noqa: B006 - never written to; the type says what a configuration may hold
        label: str = "",
        base_dir: Path = Path(),
    ) -> None:
        self._data = data
        self._base = base_dir
        self._prompt_file = prompts
        self._prompt_id = prompt_id
        self._rotations = rotations
        self._averaging = averaging
        self._parsing = parsing
        self._answer_by = answer_by
        self._max_tokens = max_tokens
        self._per_category = per_category
        self._per_template = per_template
        self._sample_seed = sample_seed
        self._by = by
        self._control = control
        self.needs = _NEEDS[answer_by]
        prompt_name = f"{prompts.stem} {prompt_id}" if prompts else f"prompt {prompt_id}"
        self.label = label or f"{label_of(data)}, {prompt_name}"

    # --- what the runner calls ----------------------------------------------------------------------------------------

    @property
    def design(self) -> Design:  # type: ignore[override]  # the headline depends on the data
        averaging_group = "template" if self._averaging == "all" else None
        headline: tuple[str, ...] = _BBQ_HEADLINE if self._dataset.kind == "bbq" else _KOBBQ_HEADLINE
        metrics = combinations(averaging_group)
        if self._control_dataset is not None:
            headline = (*headline, "control_accuracy_amb", "control_accuracy_dis")
            metrics |= scores.control_combinations(averaging_group)
        return Design(clusters=(scores.CLUSTER,), headline=headline, combinations=metrics)

    @property
    def requests_each(self) -> int:  # type: ignore[override]  # depends on the data
        if self._answer_by in ("choices", "choices_per_token"):
            return max(len(item.choices) for item in self._items)
        return 1

    def check(self) -> None:
        """Raise a ConfigError if prompts, data and options do not fit together."""
        labels = len(self._prompt.choices)
        longest = max(self._items, key=lambda item: len(item.choices))
        if len(longest.choices) > labels:
            raise ConfigError(
                f"task.data: {longest.id} has {len(longest.choices)} choices, but prompts have labels for {labels}"
            )
        if self._answer_by == "letters" and not self._prompt.has_letters:
            raise ConfigError(
                f"task.answer_by: the labels of prompt {self._prompt_id} show no letters; use `choices` instead"
            )
        groups_of_data: set[str] = set()
        for item in self._items:
            groups_of_data.update(item.groups)
        for group in self._by:
            if group not in groups_of_data:
                listed = ", ".join(sorted(groups_of_data)) or "none"
                raise ConfigError(f"task.by: the data have no group '{group}'; there are: {listed}")

    def check_model(self, model: Model) -> None:
        """Raise before the run starts if a model of stored answers lacks some of them."""
        if isinstance(model, StoredAnswers):
            model.check_ids([example.id for example in self.examples()])

    def notes(self) -> list[str]:
        """Return what users should know before the run: about the data, the language, the prompt and the parser."""
        notes = list(self._dataset.notes)
        language = self._dataset.language
        prompt_language = guess_language(f"{self._prompt.instruction} {self._prompt.question} {self._prompt.answer}")
        if prompt_language is not None and prompt_language != language:
            notes.append(
                f"the questions are in {language_name(language)}, but prompt {self._prompt_id} of "
                f"{self._prompt_path.name} seems to be in {language_name(prompt_language)}"
            )
        if language == "en" and is_surely_not_english(self._sample_text()):
            note = (
                "the questions do not seem to be in English; name their language, such as language: de, in the "
                "description of the data"
            )
            if self._prompt_file is None:
                note += (
                    ". Until then the prompts are English. If lmassay has none for the language, translate those that "
                    "lmassay init prompts writes, and name the file in task.prompts"
                )
            notes.append(note)
        if self._prompt_file is None and language in UNREVIEWED_LANGUAGES:
            notes.append(f"the prompts for the language '{language}' were not reviewed by native speakers")
        if self._control_dataset is None and has_control_questions(self._data, self._base):
            notes.append(
                f"{self._dataset.name} has control questions without stereotypes; with control: true, the accuracy on "
                "them is reported next to the bias"
            )
        if self._answer_by == "generate" and self._parser == "robust" and not parser.can_read(language):
            notes.append(
                f"lmassay cannot tell when an answer in {language_name(language)} denies a choice: 'not B' may count "
                "as B. Ask for nothing but the letter, and read some answers; with a local model, use "
                "answer_by: letters"
            )
        if self._answer_by == "generate" and not self._prompt.has_letters:
            notes.append(
                f"the labels of prompt {self._prompt_id} show no letters; answers are read as A, B, C or as texts"
            )
        return notes

    def _sample_text(self) -> str:
        """Return the texts of the first questions, from which their language is recognised."""
        texts: list[str] = []
        for item in self._items[:_ITEMS_TO_RECOGNISE]:
            texts += [item.context, item.question]
        return " ".join(texts)

    def size(self) -> int:
        return sum(len(self._orders(item)) for item in self._items)

    def is_about(self, metric: str, example: Example) -> bool:
        context = example.groups["context"]
        if metric in scores.CONTEXTS:
            return scores.CONTEXTS[metric] == context
        return scores.is_control_context(context) == (metric == scores.CONTROL_OOC)

    def examples(self) -> Iterator[Example]:
        for item in self._items:
            for rotation, order in enumerate(self._orders(item)):
                yield self._example(item, rotation, order)

    def requests(self, example: Example) -> list[Request]:
        item = self._by_id[example.inputs["item"]]
        choices = example.inputs["choices"]
        prompt = "".join(self._prompt.text(item.context, item.question, choices))
        messages = (("user", prompt),)
        location = SourceLocation("answer", example.id)
        if self._answer_by == "generate":
            return [Generate(messages=messages, max_tokens=self._max_tokens, location=location)]
        if self._answer_by == "letters":
            letters = self._prompt.letters[: len(choices)]
            return [Generate(messages=messages, max_tokens=1, choices=letters, location=location)]
        # The context is empty, because the messages contain the whole prompt.
        return [LogProbs("", choice, messages=messages, location=location) for choice in choices]

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        judge = self._judge_words if self._answer_by in ("generate", "letters") else self._judge_choices
        return [judge(example, answers) for example, answers in zip(examples, responses, strict=True)]

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        groups = [group for group in ("label", "category", *self._by) if group in table.groups]
        return scores.results(table, self.design.combinations, groups, settings)

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
        if self._per_category:
            parts["per_category"] = self._per_category
        if self._per_template:
            parts["per_template"] = self._per_template
        if self._sample_seed is not None:
            parts["sample"] = f"seed{self._sample_seed}"
        if self._control_dataset is not None:
            parts["control"] = f"{self._control_dataset.name}.{self._control_dataset.sha256[:8]}"
        return parts

    # --- internals ----------------------------------------------------------------------------------------------------

    @cached_property
    def _dataset(self) -> BiasDataset:
        return read_dataset(self._data, self._base)

    @cached_property
    def _control_dataset(self) -> BiasDataset | None:
        """The control questions; None if they are not asked."""
        if self._control is False:
            return None
        return read_control_questions(self._control, self._data, self._base)

    @cached_property
    def _items(self) -> list[BiasItem]:
        """The items that are asked: all of them or, with ``per_category`` or ``per_template``, a selection."""
        items = self._selected(self._dataset.items)
        if self._control_dataset is not None:
            items += self._selected(self._control_dataset.items)
        return items

    def _selected(self, items: Sequence[BiasItem]) -> list[BiasItem]:
        return select_items(items, self._per_category, self._per_template, self._sample_seed)

    @cached_property
    def _by_id(self) -> dict[str, BiasItem]:
        return {item.id: item for item in self._items}

    @cached_property
    def _prompt_path(self) -> Path:
        return self._prompt_file or shipped_prompts(self._dataset.language)

    @cached_property
    def _prompt(self) -> PromptTemplate:
        prompts = read_prompts(self._prompt_path)
        return choose_prompt(prompts, self._prompt_id, self._prompt_path, may_keep_unknown=True)

    @property
    def _rotates(self) -> bool:
        if self._rotations == "auto":
            # BBQ was published with one fixed order of the choices. MBBQ has the same format, so it is read as BBQ.
            return self._dataset.kind != "bbq"
        return self._rotations == "all"

    @property
    def _parser(self) -> str:
        """The parser whose choices the metrics are computed from."""
        if self._parsing != "auto":
            return self._parsing
        return "reference" if self._dataset.kind == "kobbq" else "robust"

    def _orders(self, item: BiasItem) -> list[tuple[int, ...]]:
        count = len(item.choices)
        return list(rotations(count)) if self._rotates else [tuple(range(count))]

    def _example(self, item: BiasItem, rotation: int, order: tuple[int, ...]) -> Example:
        unknown_text = self._prompt.unknown or item.choices[item.unknown]
        choices = []
        for index in order:
            choices.append(unknown_text if index == item.unknown else item.choices[index])
        inputs = {
            "item": item.id,
            "context": item.context,
            "question": item.question,
            "choices": choices,
            "order": list(order),
        }
        # The letter under which each role is shown in this order.
        reference: dict[str, str | None] = {}
        for role, role_index in (("answer", item.correct), ("unknown", item.unknown), ("biased", item.biased)):
            reference[role] = None if role_index is None else LETTERS[order.index(role_index)]
        groups = {**item.groups, "category": item.category}
        if item.label:
            groups["label"] = item.label
        groups |= {
            "context": scores.context_group(item),
            "template": item.template,
            "question": item.id,
            "rotation": str(rotation),
            "orders": str(len(self._orders(item))),
        }
        example_id = f"{item.id}-{rotation}" if self._rotates else item.id
        return Example(example_id, inputs, reference, groups)

    def _judge_words(self, example: Example, answers: Sequence[Response]) -> Score:
        """Read an answer in words, or the most probable letter, with both parsers.

        The metrics use the choice that the configured parser reads.
        """
        raw = answers[0].text
        choices = example.inputs["choices"]
        letters = LETTERS[: len(choices)]
        lower_choices = dict(zip(letters, map(str.lower, choices), strict=True))
        robust = parser.parse(raw, choices, letters, question=example.inputs["question"])
        reference_letter: str | None = parse_reference(raw, lower_choices)
        if not reference_letter or reference_letter not in letters:
            # KoBBQ's parser returns the answer itself if it reads no choice.
            reference_letter = None
        robust_letter = robust.letter if robust.letter and robust.letter in letters else None
        letter_by_parser = {"reference": reference_letter, "robust": robust_letter}
        values = {
            "ooc_reference": float(reference_letter is None),
            "ooc_robust": float(robust_letter is None),
            "parsers_agree": float(reference_letter == robust_letter),
        }
        details = {"raw": raw, "finish": answers[0].finish, **letter_by_parser, "how": robust.how}
        return self._judged(example, letter_by_parser[self._parser], values, details)

    def _judge_choices(self, example: Example, answers: Sequence[Response]) -> Score:
        """Take the choice with the highest log-probability as the answer, and score it."""
        logprobs = []
        for response in answers:
            answer = response.answer
            if not isinstance(answer, Continuation):
                raise ConfigError(f"the model answered log-probabilities with {type(answer).__name__}")
            length = len(answer.tokens) if self._answer_by == "choices_per_token" else 1
            logprobs.append(answer.total / max(length, 1))
        winners = [index for index, logprob in enumerate(logprobs) if logprob == max(logprobs)]
        # If several choices are equally probable, the answer counts as out of choice.
        letter = LETTERS[winners[0]] if len(winners) == 1 else None
        return self._judged(example, letter, {}, {"logprobs": logprobs})

    def _judged(
        self, example: Example, letter: str | None, values: Mapping[str, float], details: Mapping[str, Any]
    ) -> Score:
        """Return the score of an answer that was read as ``letter`` (None: out of choice).

        ``values`` are further scores, which control questions do not get, and ``details`` further details to store.
        """
        item = self._by_id[example.inputs["item"]]
        if letter is None:
            own_values = columns(item, None)
            role = "out of choice"
        else:
            position = LETTERS.index(letter)
            picked = example.inputs["order"][position]
            own_values = columns(item, picked)
            if not item.is_control:
                # Control questions have their own metrics and do not count for any other metric.
                own_values["letter"] = float(position)
            role = _role(item, picked)
        if item.is_control:
            values = {}
        return Score({**own_values, **values}, details={**details, "letter": letter, "role": role})


def _role(item: BiasItem, picked: int) -> str:
    """Return what the chosen choice stands for: unknown, biased or counter-biased (or correct or wrong)."""
    if picked == item.unknown:
        return "unknown"
    if item.biased is None:
        return "correct" if picked == item.correct else "wrong"
    return "biased" if picked == item.biased else "counter-biased"
