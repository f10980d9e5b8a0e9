"""The keys of a task in YAML, checked: all mistakes are told at once, each with its key and line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmassay.errors import ConfigError, did_you_mean
from lmassay.evaluations.fewshot.metrics import METRICS
from lmassay.evaluations.fewshot.tasks.patterns import notation, pattern
from lmassay.evaluations.fewshot.tasks.processors import PARTS
from lmassay.evaluations.fewshot.tasks.rows import ENDINGS
from lmassay.storage.yamlfile import Lines, read_mapping

KEYS = (
    *("name", "dataset", "data", "fields", "label", "labels", "id", "group", "question"),
    *("patterns", "ptuning", "classifier", "words", "metrics"),
)
Words = dict[str, list[str]]


@dataclass(slots=True)
class TaskKeys:
    """A YAML file and what is wrong with it."""

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
