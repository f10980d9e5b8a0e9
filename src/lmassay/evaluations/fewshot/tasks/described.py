"""A task as a YAML file: where the texts stand, pattern strings, words.

::

    name: mrpc
    data: {train: data/train.jsonl, dev: data/dev.jsonl}
    fields: [sentence1, sentence2]
    labels: ["0", "1"]
    words: {"0": "No", "1": "Yes"}
    patterns:
      - 'Does "{sentence1}" mean the same as "{sentence2}"? [mask].'
    metrics: [acc, f1]

In patterns ``{x}`` may be shortened, ``{x!}`` may not, ``{x.}`` loses its final punctuation; ``A: … B: …`` are two
sides; ``|`` parts by hand. ``ptuning`` lists patterns with continuous tokens ``<2>``, known by how many they have;
without the key the first pattern gets 1 to 4 of them before its mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from lmassay.errors import ConfigError, DataError, did_you_mean
from lmassay.evaluations.fewshot.metrics import METRICS
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from lmassay.evaluations.fewshot.tasks.patterns import TablePVP, notation, pattern
from lmassay.evaluations.fewshot.tasks.processors import PARTS, Part, RowProcessor
from lmassay.evaluations.fewshot.tasks.pvp import Mode
from lmassay.evaluations.fewshot.tasks.rows import ENDINGS, Row
from lmassay.storage.yamlfile import Lines, read_mapping

KEYS = (
    *("name", "dataset", "data", "fields", "label", "labels", "id", "group", "question"),
    *("patterns", "ptuning", "classifier", "words", "metrics"),
)
Words = dict[str, list[str]]


# Without the key "ptuning", the first pattern gets so many prompt tokens.
_SLOTS = (1, 2, 3, 4)


# --- the keys of the file, checked ------------------------------------------------------------------------------------


@dataclass(slots=True)
class TaskKeys:
    """A YAML file and what is wrong with it: all mistakes are reported at once, each with its key and line."""

    path: Path
    data: Mapping[str, Any]
    lines: Lines
    mistakes: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> TaskKeys:
        data, lines = read_mapping(path)
        keys = cls(path, data, lines)
        for name in data:
            if name not in KEYS:
                keys.wrong(name, f"unknown key{did_you_mean(name, KEYS)}")
        return keys

    def wrong(self, key: str, message: str) -> None:
        """Remember a mistake; ``patterns[1].words`` has the line of the nearest key that stands in the file."""
        plain = ".".join(part.partition("[")[0] for part in key.split("."))
        while plain and plain not in self.lines:
            plain = plain.rpartition(".")[0]
        line = f", line {self.lines[plain][0][0]}" if plain else ""
        self.mistakes.append(f"{self.path}{line}: {key}: {message}")

    def tell(self) -> None:
        if self.mistakes:
            raise ConfigError("\n".join(self.mistakes))

    def text(self, key: str, default: str) -> str:
        value = self.data.get(key, default)
        if isinstance(value, str) and value.strip() == value and (value or not default):
            return value
        self.wrong(key, f"{value!r} must be a text; put it in quotes")
        return default

    def texts(self, key: str) -> list[str]:
        """One text or a list of them."""
        value = self.data.get(key)
        values = value if isinstance(value, list) else [] if value is None else [value]
        wrong = [one for one in values if not isinstance(one, str) or not one]
        if wrong:
            self.wrong(key, f"{wrong[0]!r} must be a text; put it in quotes")
        return [one for one in values if isinstance(one, str) and one]

    def labels(self) -> list[str]:
        labels = self.texts("labels")
        if len(labels) < 2:
            self.wrong("labels", "name two or more labels in their order, the positive one second, e.g. ['0', '1']")
        for label in sorted({label for label in labels if labels.count(label) > 1}):
            self.wrong("labels", f"'{label}' is there twice")
        return labels

    def metrics(self) -> tuple[str, ...]:
        names = self.texts("metrics") or ["acc"]
        for name in names:
            if name not in METRICS:
                self.wrong("metrics", f"there is no metric '{name}'{did_you_mean(name, METRICS)}")
        if "em" in names and not self.data.get("question"):
            self.wrong("metrics", "'em' needs to know what belongs together; name the column as 'question'")
        return tuple(names)

    def fields(self) -> dict[str, str]:
        """Names in patterns → columns in files."""
        value = self.data.get("fields")
        if isinstance(value, dict) and value:
            found = {name: column for name, column in value.items() if isinstance(column, str) and column}
            for name in set(value) - set(found):
                self.wrong(f"fields.{name}", f"{value[name]!r} must be the name of a column; put it in quotes")
            return found
        names = self.texts("fields")
        if not names:
            self.wrong("fields", "name the columns with the texts, e.g. [sentence1, sentence2]")
        return {name: name for name in names}

    def files(self) -> dict[str, Path]:
        """Part → file, from the folder of the YAML file on."""
        value = self.data.get("data")
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong("data", f"{value!r} must be a mapping of {', '.join(PARTS)} to files")
            return {}
        found = {}
        for part, name in value.items():
            if part not in PARTS:
                self.wrong(f"data.{part}", f"unknown part{did_you_mean(part, PARTS)}")
            elif not isinstance(name, str) or not name.endswith(ENDINGS):
                self.wrong(f"data.{part}", f"{name!r} must be a file that ends in {', '.join(ENDINGS)}")
            elif not (file := self.path.parent / Path(name).expanduser()).is_file():
                self.wrong(f"data.{part}", f"there is no file {file}; check the path")
            else:
                found[part] = file
        return found

    def words(self, value: Any, key: str, labels: Sequence[str]) -> Words:
        """Label → words."""
        if not isinstance(value, dict):
            example = ", ".join(f"'{label}': word" for label in labels[:2])
            self.wrong(key, f"give the words of each label, e.g. {{{example}}}")
            return {}
        found: Words = {}
        for label, given in value.items():
            words = given if isinstance(given, list) else [given]
            if label not in labels:
                self.wrong(f"{key}.{label}", f"this is no label; the labels are {', '.join(labels)}")
            elif not words or not all(isinstance(word, str) and word.strip() for word in words):
                self.wrong(f"{key}.{label}", f"{given!r} must be a word or a list of words; put it in quotes")
            else:
                found[label] = words
        for label in labels:
            if label not in value:
                self.wrong(key, f"the label '{label}' has no word")
        owners: dict[str, str] = {}
        for label, words in found.items():
            for word in words:
                if owners.setdefault(word, label) != label:
                    self.wrong(f"{key}.{label}", f"the word '{word}' stands for '{owners[word]}' already")
        return found

    def pattern(self, value: Any, key: str, fields: Sequence[str], *, masks: int, slots: bool) -> str | None:
        """A pattern in the notation; None if it is wrong."""
        braced = f"{{{fields[0] if fields else 'text'}}}"
        if not isinstance(value, str) or not value.strip():
            self.wrong(key, f"{value!r} must be a pattern in quotes, e.g. '{braced} [mask]'")
            return None
        before = len(self.mistakes)
        written = notation(value)
        read = pattern(written)
        known = {*fields, *(f"{name}." for name in fields)}
        for name in sorted(read.fields - known):
            self.wrong(key, f"there is no field '{name}'{did_you_mean(name, fields)}")
        if not read.fields:
            self.wrong(key, f"the pattern shows no field; put one in braces, e.g. {braced}")
        if read.masks != masks:
            self.wrong(key, f"the pattern has {read.masks or 'no'} [mask]; it must have {masks or 'none'}")
        if slots and not read.slots:
            self.wrong(key, "the pattern has no continuous prompt tokens; put <2> where two of them go")
        if read.slots and not slots:
            self.wrong(key, "continuous prompt tokens (<…>) belong under 'ptuning'")
        return written if len(self.mistakes) == before else None


# --- the task ---------------------------------------------------------------------------------------------------------


class YamlProcessor(RowProcessor):
    """Rows with columns that a YAML file names."""

    def __init__(self, keys: TaskKeys, labels: list[str], fields: dict[str, str], files: Mapping[str, Path]) -> None:
        super().__init__(keys.path.stem)
        self._labels, self._fields, self._files = labels, fields, files
        self._label, self._id = keys.text("label", "label"), keys.text("id", "idx")
        self._group, self._question = keys.text("group", ""), keys.text("question", "")

    def get_labels(self) -> list[str]:
        return list(self._labels)

    def file(self, data_dir: str | Path, part: Part) -> Path | None:
        return self._files.get(part) if self._files else super().file(data_dir, part)

    def examples_of(self, row: Row, set_type: str) -> Iterator[InputExample]:
        texts = {name: _text(row, column) for name, column in self._fields.items()}
        first, second = (*texts.values(), None)[:2]
        meta: dict[str, Any] = {"fields": texts}
        if self._group:
            meta["group"] = str(row.get(self._group))
        if self._question:
            meta["question_idx"] = str(row.get(self._question))
            meta.setdefault("group", meta["question_idx"])
        number = row.line - 1
        name = str(row.get(self._id)) if self._id in row.fields else str(number)
        guid = f"{set_type}-{name}" if name.isdigit() else f"{set_type}-{name}-{number}"
        label = self.label(row, set_type, self._label)
        yield InputExample(guid=guid, text_a=str(first), text_b=second, label=label, meta=meta, idx=number)


def _text(row: Row, column: str) -> str:
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"{row.where}: '{column}' is {value!r}; it must be text")
    return str(value)


class YamlPVP(TablePVP):
    """The patterns of a YAML file; each task has a subclass with its own tables."""

    PLAIN: ClassVar[tuple[str, ...]] = ()

    def fields(self, example: InputExample) -> dict[str, str]:
        texts = example.meta["fields"]
        return {**texts, **{f"{name}.": self.remove_final_punc(text) for name, text in texts.items()}}


def open_yaml_task(path: Path, data_dir: Path | None) -> NluTask:
    """The task of a file; data of ``data_dir``, if given, takes the place of the files it names."""
    keys = TaskKeys.read(path)
    labels, fields, metrics = keys.labels(), keys.fields(), keys.metrics()
    files = keys.files()
    cloze, words = _cloze(keys, labels, list(fields))
    ptuning = _ptuning(keys, list(fields), cloze)
    classifier = _classifier(keys, list(fields))
    processor = YamlProcessor(keys, labels, fields, {} if data_dir is not None else files)
    name, dataset = keys.text("name", path.stem), keys.text("dataset", "own")
    if data_dir is None and "data" not in keys.data:
        keys.wrong("data", "name the files, e.g. {train: train.jsonl, dev: dev.jsonl}, or give a folder as data_dir")
    keys.tell()
    if data_dir is not None and not data_dir.is_dir():
        raise DataError(f"the data folder {data_dir} does not exist; check the path")
    patterns: dict[Mode, Mapping[int, str]] = {"cls": {0: classifier}, "cloze": cloze, "ptuning": ptuning}
    table = {"cloze": words, "ptuning": dict.fromkeys(ptuning, words[min(words)])}
    pvp_class = type(f"{name}PVP", (YamlPVP,), {"PATTERNS": patterns, "WORDS": table})
    return NluTask(
        dataset=dataset,
        name=name,
        processor=processor,
        pvp_class=pvp_class,
        metrics=metrics,
        data_dir=data_dir or path.parent,
        labels=labels,
        own_files={"file": path},
    )


def _cloze(keys: TaskKeys, labels: list[str], fields: list[str]) -> tuple[dict[int, str], dict[int, Words]]:
    """Patterns and words by id; a pattern may bring its own words."""
    value = keys.data.get("patterns")
    given = value if isinstance(value, list) else [] if value is None else [value]
    if not given:
        keys.wrong("patterns", "give one pattern or more, with [mask] where the answer stands")
    common = keys.words(keys.data["words"], "words", labels) if "words" in keys.data else None
    patterns: dict[int, str] = {}
    words: dict[int, Words] = {}
    for number, entry in enumerate(given):
        key = f"patterns[{number}]"
        own = None
        if isinstance(entry, dict):
            for name in set(entry) - {"pattern", "words"}:
                keys.wrong(f"{key}.{name}", "unknown key; an entry is a pattern, or has 'pattern' and 'words'")
            own = keys.words(entry["words"], f"{key}.words", labels) if "words" in entry else None
            entry, key = entry.get("pattern"), f"{key}.pattern"
        written = keys.pattern(entry, key, fields, masks=1, slots=False)
        if written is not None:
            patterns[number] = written
        chosen = own if own is not None else common
        if chosen is None:
            keys.wrong("words", f"pattern {number} has no words; give them for all patterns as 'words'")
        words[number] = chosen or {}
    return patterns, words


def _ptuning(keys: TaskKeys, fields: list[str], cloze: Mapping[int, str]) -> dict[int, str]:
    value = keys.data.get("ptuning")
    if value is None:
        return {count: cloze[0].replace("[M]", f"<{count}>|[M]") for count in _SLOTS} if 0 in cloze else {}
    found: dict[int, str] = {}
    for number, entry in enumerate(value if isinstance(value, list) else [value]):
        key = f"ptuning[{number}]"
        written = keys.pattern(entry, key, fields, masks=1, slots=True)
        if written is None:
            continue
        slots = pattern(written).slots
        if slots in found:
            keys.wrong(key, f"a pattern with {slots} prompt tokens is there already; they are known by that number")
        found[slots] = written
    return found


def _classifier(keys: TaskKeys, fields: list[str]) -> str:
    default = "||".join(f"{{{name}}}" for name in fields[:2])
    if "classifier" not in keys.data:
        return default
    return keys.pattern(keys.data["classifier"], "classifier", fields, masks=0, slots=False) or default
