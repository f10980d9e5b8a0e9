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

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.described_keys import TaskKeys, Words
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from lmassay.evaluations.fewshot.tasks.patterns import TablePVP, pattern
from lmassay.evaluations.fewshot.tasks.processors import Part, RowProcessor
from lmassay.evaluations.fewshot.tasks.pvp import Mode
from lmassay.evaluations.fewshot.tasks.rows import Row

_SLOTS = (1, 2, 3, 4)


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
