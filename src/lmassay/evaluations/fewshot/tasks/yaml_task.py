"""A task as a YAML file: the columns with the texts, the patterns, and the words that stand for the labels.

::

    name: mrpc
    data: {train: data/train.jsonl, dev: data/dev.jsonl}
    fields: [sentence1, sentence2]
    labels: ["0", "1"]
    words: {"0": "No", "1": "Yes"}
    patterns:
      - 'Does "{sentence1}" mean the same as "{sentence2}"? [mask].'
    metrics: [acc, f1]

In a pattern:

- ``{x}`` is the text of the field x, which is shortened if the input is too long for the model. ``{x!}`` is never
  shortened, and ``{x.}`` is inserted without its final punctuation.
- ``A: … B: …`` are the two segments of the input, and ``|`` separates parts that are tokenized separately.

``ptuning`` lists patterns with continuous prompt tokens: ``<2>`` stands for two of them. The number of these tokens in
a pattern is its id. Without the key, there are four such patterns: the first of ``patterns`` with 1 to 4 tokens before
its mask. ``classifier`` is the input of methods without a mask; by default the first two fields.

``label``, ``id``, ``group`` and ``question`` name further columns: the label, a unique id, and what the examples of one
group or of one question have in common.

``chat`` is the wording for chat models: ``instruction``, in which ``{answers}`` becomes the list of answers;
``question``, with fields in braces; and ``answers`` by label. Each of the three has a default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from lmassay.errors import DataError, did_you_mean
from lmassay.evaluations.fewshot.metrics import METRICS
from lmassay.evaluations.fewshot.tasks.chat import ANSWERS, DEFAULT_INSTRUCTION, ChatWording, fields_in
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from lmassay.evaluations.fewshot.tasks.patterns import TablePVP, notation, pattern
from lmassay.evaluations.fewshot.tasks.processors import Part, RowProcessor
from lmassay.evaluations.fewshot.tasks.pvp import Mode
from lmassay.evaluations.fewshot.tasks.rows import ENDINGS, DataRow
from lmassay.plugins.yaml_models import Mistakes, YamlModel, folder_of, listed, read_model
from lmassay.storage.files import NO_STANDARD_INPUT, STANDARD_INPUT, format_suffix
from lmassay.types.wording import counted

# Without the key "ptuning", there is one pattern with each of these numbers of prompt tokens.
_DEFAULT_PROMPT_TOKENS = (1, 2, 3, 4)


# --- the keys of the file, checked ------------------------------------------------------------------------------------


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _without_outer_blanks(text: str) -> str:
    if text != text.strip():
        raise ValueError("must not begin or end with a blank")
    return text


def _data_file(name: Any, info: ValidationInfo) -> Path:
    if name == str(STANDARD_INPUT):
        raise ValueError(NO_STANDARD_INPUT)
    if not isinstance(name, str) or format_suffix(Path(name)) not in ENDINGS:
        raise ValueError(f"must be a file that ends in {', '.join(ENDINGS)}")
    file = folder_of(info) / Path(name).expanduser()
    if not file.is_file():
        raise ValueError(f"there is no file {file}; check the path")
    return file


def _named_fields(value: Any) -> Any:
    """A dict from the names in patterns to the columns in files. If a list is given, both are the same."""
    if isinstance(value, dict) and value:
        return value
    columns = listed(value or None)
    if not columns or not all(isinstance(column, str) for column in columns):
        raise ValueError("name the columns with the texts in quotes, e.g. [sentence1, sentence2]")
    return {column: column for column in columns}


Text = Annotated[str, AfterValidator(_not_empty)]
Name = Annotated[str, AfterValidator(_without_outer_blanks)]
RequiredName = Annotated[Name, AfterValidator(_not_empty)]
Texts = Annotated[list[Text], BeforeValidator(listed)]
Words = dict[str, Annotated[Texts, Field(min_length=1)]]
"""Label → the words that stand for it."""


class PatternEntry(YamlModel):
    """A pattern, alone or with its own words."""

    pattern: Text
    words: Words | None = None

    @model_validator(mode="before")
    @classmethod
    def _pattern_alone(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return value
        return {"pattern": value}


class ChatDescription(YamlModel):
    """The key ``chat``: how the task is put to a chat model."""

    instruction: Text = DEFAULT_INSTRUCTION
    question: Text | None = None
    answers: dict[str, Text] | None = None

    @field_validator("instruction")
    @classmethod
    def _check_instruction(cls, text: str) -> str:
        mistakes = Mistakes()
        if ANSWERS not in text:
            mistakes.add("the instruction must say what can be answered; put {answers} where the list belongs")
        mistakes.report()
        return text

    def wording(self) -> ChatWording:
        """The wording as the task uses it."""
        return ChatWording(self.instruction, self.question or "", self.answers or {})


class TaskDescription(YamlModel):
    """The keys of the file.

    The order of the fields matters. A check that needs the value of another key finds it in ``info.data`` only if that
    key was checked earlier (and is valid), so the keys that other checks need come first.
    """

    name: RequiredName | None = None
    dataset: RequiredName = "own"
    data: dict[Part, Annotated[Path, BeforeValidator(_data_file)]] | None = Field(
        description="name the files, e.g. {train: train.jsonl, dev: dev.jsonl}, or give a folder as data_dir"
    )
    label: RequiredName = "label"
    id: RequiredName = "idx"
    group: Name = ""
    question: Name = ""
    labels: Texts = Field(description="name two or more labels, e.g. ['0', '1']")
    fields: Annotated[dict[str, Text], BeforeValidator(_named_fields)] = Field(
        description="name the columns with the texts, e.g. [sentence1, sentence2]"
    )
    words: Words | None = None
    patterns: Annotated[list[PatternEntry], BeforeValidator(listed)] = Field(
        description="give one pattern or more, with [mask] where the answer belongs"
    )
    ptuning: Texts | None = None
    classifier: Text | None = None
    metrics: Texts | None = None
    chat: ChatDescription = ChatDescription()

    @field_validator("labels")
    @classmethod
    def _check_labels(cls, labels: list[str]) -> list[str]:
        mistakes = Mistakes()
        if len(labels) < 2:
            mistakes.add("name two or more labels in their order, the positive one second, e.g. ['0', '1']")
        for label in sorted({label for label in labels if labels.count(label) > 1}):
            mistakes.add(f"'{label}' appears twice")
        mistakes.report()
        return labels

    @field_validator("words")
    @classmethod
    def _check_words(cls, words: Words | None, info: ValidationInfo) -> Words | None:
        mistakes = Mistakes()
        _check_words(mistakes, words, info.data.get("labels"))
        mistakes.report()
        return words

    @field_validator("patterns")
    @classmethod
    def _check_patterns(cls, entries: list[PatternEntry], info: ValidationInfo) -> list[PatternEntry]:
        mistakes = Mistakes()
        if not entries:
            mistakes.add("give one pattern or more, with [mask] where the answer belongs")
        # If "words" itself is not valid, this counts as having words: the mistake is reported at that key.
        has_common_words = info.data.get("words", {}) is not None
        for number, entry in enumerate(entries):
            _check_pattern(mistakes, entry.pattern, info, number, "pattern")
            _check_words(mistakes, entry.words, info.data.get("labels"), number, "words")
            if entry.words is None and not has_common_words:
                mistakes.add("the pattern has no words; give them for all patterns as 'words'", number)
        mistakes.report()
        return entries

    @field_validator("ptuning")
    @classmethod
    def _check_ptuning(cls, texts: list[str] | None, info: ValidationInfo) -> list[str] | None:
        mistakes = Mistakes()
        seen: set[int] = set()
        for number, text in enumerate(texts or []):
            _check_pattern(mistakes, text, info, number, slots=True)
            slots = pattern(notation(text)).slots
            if slots in seen:
                tokens = counted(slots, "prompt token")
                mistakes.add(
                    f"another pattern has {tokens}; this number is the id of a pattern, so choose another", number
                )
            if slots:
                seen.add(slots)
        mistakes.report()
        return texts

    @field_validator("classifier")
    @classmethod
    def _check_classifier(cls, text: str | None, info: ValidationInfo) -> str | None:
        mistakes = Mistakes()
        if text is not None:
            _check_pattern(mistakes, text, info, masks=0)
        mistakes.report()
        return text

    @field_validator("metrics")
    @classmethod
    def _check_metrics(cls, names: list[str] | None, info: ValidationInfo) -> list[str] | None:
        mistakes = Mistakes()
        for name in names or []:
            if name not in METRICS:
                mistakes.add(f"there is no metric '{name}'{did_you_mean(name, METRICS)}")
            if name == "em" and info.data.get("question") == "":
                mistakes.add("'em' is computed per question; name the column with the id of the question as 'question'")
        mistakes.report()
        return names

    @field_validator("chat")
    @classmethod
    def _check_chat(cls, chat: ChatDescription, info: ValidationInfo) -> ChatDescription:
        mistakes = Mistakes()
        fields = info.data.get("fields")
        for name in fields_in(chat.question or ""):
            if fields is not None and name not in fields:
                mistakes.add(f"there is no field '{name}'{did_you_mean(name, fields)}", "question")
        if chat.question is not None and not fields_in(chat.question):
            mistakes.add("the question shows no field; put one in braces", "question")
        if chat.answers is not None:
            words = {label: [answer] for label, answer in chat.answers.items()}
            _check_words(mistakes, words, info.data.get("labels"), "answers")
        mistakes.report()
        return chat

    # --- the patterns and words that the keys describe ----------------------------------------------------------------

    def cloze_patterns(self) -> dict[int, str]:
        """The cloze patterns in the notation of ``patterns``, by id."""
        patterns = {}
        for number, entry in enumerate(self.patterns):
            patterns[number] = notation(entry.pattern)
        return patterns

    def words_of_patterns(self) -> dict[int, Words]:
        """Pattern id → words: those of the pattern itself, else the words that all patterns have in common."""
        words = {}
        for number, entry in enumerate(self.patterns):
            words[number] = entry.words or self.words or {}
        return words

    def ptuning_patterns(self) -> dict[int, str]:
        """The patterns of P-tuning in the notation of ``patterns``, by their number of continuous prompt tokens."""
        if self.ptuning is None:
            first = notation(self.patterns[0].pattern)
            return {count: first.replace("[M]", f"<{count}>|[M]") for count in _DEFAULT_PROMPT_TOKENS}
        written = [notation(text) for text in self.ptuning]
        return {pattern(text).slots: text for text in written}

    def classifier_pattern(self) -> str:
        """The input of a classifier without a mask: by default the first two fields, one per side."""
        if self.classifier is not None:
            return notation(self.classifier)
        first_two = list(self.fields)[:2]
        return "||".join(f"{{{name}}}" for name in first_two)


def _check_words(mistakes: Mistakes, words: Words | None, labels: Sequence[str] | None, *location: str | int) -> None:
    """Add a mistake for each unknown label, each word that belongs to two labels, and each label without words.

    ``location`` is where the words are in the file, below the key that is checked.
    """
    if words is None or labels is None:
        return
    label_of_word: dict[str, str] = {}
    for label, words_of_label in words.items():
        if label not in labels:
            mistakes.add(f"this is not a label; the labels are {', '.join(labels)}", *location, label)
        for word in words_of_label:
            first_label = label_of_word.setdefault(word, label)
            if first_label != label:
                mistakes.add(f"the word '{word}' already belongs to '{first_label}'", *location, label)
    for label in labels:
        if label not in words:
            mistakes.add(f"the label '{label}' has no word", *location)


def _check_pattern(
    mistakes: Mistakes, text: str, info: ValidationInfo, *location: str | int, masks: int = 1, slots: bool = False
) -> None:
    """Add a mistake for an unknown field, a pattern without fields, a wrong number of masks, or wrong prompt tokens.

    ``masks`` is how many masks the pattern must have; ``slots`` says whether it must have continuous prompt tokens.
    """
    parsed = pattern(notation(text))
    # None if the key "fields" itself is not valid, which is reported at that key.
    fields = info.data.get("fields")
    if fields is not None:
        for name in sorted(parsed.fields):
            # A dot after the name removes the field's final punctuation.
            if name.removesuffix(".") not in fields and name not in fields:
                mistakes.add(f"there is no field '{name}'{did_you_mean(name, fields)}", *location)
    if not parsed.fields:
        example = next(iter(fields or ["text"]))
        mistakes.add(f"the pattern shows no field; put one in braces, e.g. {{{example}}}", *location)
    if parsed.masks != masks:
        mistakes.add(f"the pattern has {parsed.masks or 'no'} [mask]; it must have {masks or 'none'}", *location)
    if slots and not parsed.slots:
        mistakes.add("the pattern has no continuous prompt tokens; put <2> where two of them go", *location)
    if parsed.slots and not slots:
        mistakes.add("continuous prompt tokens (<…>) belong under 'ptuning'", *location)


# --- the task ---------------------------------------------------------------------------------------------------------


class YamlProcessor(RowProcessor):
    """Reads rows with the columns that a YAML file names."""

    def __init__(self, name: str, description: TaskDescription, *, own_files: bool) -> None:
        super().__init__(name)
        self._description = description
        self._files = description.data if own_files else None

    def get_labels(self) -> list[str]:
        """The labels in their order."""
        return list(self._description.labels)

    def file(self, data_dir: str | Path, part: Part) -> Path | None:
        """The file that the description names for a part; if it names no files, the one in the folder."""
        if self._files:
            return self._files.get(part)
        return super().file(data_dir, part)

    def read(self, data_dir: str | Path, part: Part) -> list[InputExample]:
        """The examples of a part; a DataError if the description names no file for it."""
        if self._files and part not in self._files:
            named = " and ".join(f"{other} ({path.name})" for other, path in self._files.items())
            raise DataError(
                f"the task {self.task_name} has no {part} data; it has {named}. Add the file to `data` in its YAML "
                f"file, or choose other parts with labelled and test"
            )
        return super().read(data_dir, part)

    def rows(self, path: str, set_type: str) -> Iterator[DataRow]:
        """The rows of a file; a DataError if two of them have the same id."""
        column = self._description.id
        line_of_id: dict[str, int] = {}
        for row in super().rows(path, set_type):
            # A row without an id is identified by its line.
            if row.has(column):
                name = str(row.get(column))
                if name in line_of_id:
                    raise DataError(
                        f"{row.where}: '{column}' is {name} as in line {line_of_id[name]}; ids must be unique, so give "
                        f"each row its own, or name another column as `id` in the YAML file of {self.task_name}"
                    )
                line_of_id[name] = row.line
            yield row

    def examples_of(self, row: DataRow, set_type: str) -> Iterator[InputExample]:
        """The example of one row."""
        columns = self._description
        texts = {name: _text(row, column) for name, column in columns.fields.items()}
        if not any(text.strip() for text in texts.values()):
            names = " and ".join(f"'{column}'" for column in columns.fields.values())
            raise DataError(f"{row.where}: {names} must not be empty; fill in the row or remove it")
        # Methods without patterns read the first two fields.
        first, *others = texts.values()
        second = others[0] if others else None
        meta: dict[str, Any] = {"fields": texts}
        if columns.group:
            meta["group"] = str(row.get(columns.group))
        if columns.question:
            meta["question_idx"] = str(row.get(columns.question))
            meta.setdefault("group", meta["question_idx"])
        line_number = row.line - 1
        name = str(line_number)
        if columns.id in row.fields:
            name = str(row.get(columns.id))
        guid = f"{set_type}-{name}"
        if not name.isdigit():
            # Ids that are not numbers could repeat in earlier versions, so the number of the line was added to them.
            # It is still added, because stored digests depend on it.
            guid += f"-{line_number}"
        label = self.label(row, set_type, columns.label)
        yield InputExample(guid=guid, text_a=first, text_b=second, label=label, meta=meta, idx=row.row_number)


def _text(row: DataRow, column: str) -> str:
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"{row.where}: '{column}' is {value!r}; it must be text")
    return str(value)


class YamlPVP(TablePVP):
    """The patterns of a YAML file; each task has a subclass with its own tables."""

    def fields(self, example: InputExample) -> dict[str, str]:
        """The texts by name and, with a dot after the name, without their final punctuation."""
        fields = dict(example.meta["fields"])
        for name, text in example.meta["fields"].items():
            fields[f"{name}."] = self.remove_final_punc(text)
        return fields


def open_yaml_task(path: Path, data_dir: Path | None) -> NluTask:
    """The task that a YAML file describes. The files in ``data_dir``, if given, replace those that it names."""
    # With a folder of data, the YAML file need not name any data files.
    defaults = {} if data_dir is None else {"data": None}
    description, _ = read_model(path, TaskDescription, **defaults)
    if data_dir is not None and not data_dir.is_dir():
        raise DataError(f"the data folder {data_dir} does not exist; check the path")
    name = description.name or path.stem
    ptuning = description.ptuning_patterns()
    words = description.words_of_patterns()
    patterns: dict[Mode, Mapping[int, str]] = {
        "cls": {0: description.classifier_pattern()},
        "cloze": description.cloze_patterns(),
        "ptuning": ptuning,
    }
    # The key "ptuning" has no words of its own, so its patterns use those of the first cloze pattern.
    words_table = {"cloze": words, "ptuning": dict.fromkeys(ptuning, words[0])}
    pvp_class = type(f"{name}PVP", (YamlPVP,), {"PATTERNS": patterns, "WORDS": words_table})
    return NluTask(
        dataset=description.dataset,
        name=name,
        processor=YamlProcessor(path.stem, description, own_files=data_dir is None),
        pvp_class=pvp_class,
        metrics=tuple(description.metrics or ["acc"]),
        data_dir=data_dir or path.parent,
        labels=list(description.labels),
        own_files={"file": path},
        chat=description.chat.wording(),
    )
