"""Processors read the data files of a task: they know its labels, the names of its files and how to read a row.

Your own processor looks the same as in FewNLU::

    class MRPCProcessor(DataProcessor):
        def get_labels(self):
            return ["0", "1"]

        def _create_examples(self, path, set_type):
            ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from lmassay.errors import DataError, closest
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.rows import ENDINGS, DataRow, read_rows

Part = Literal["train", "dev32", "dev", "test", "unlabeled"]
PARTS: tuple[Part, ...] = ("train", "dev32", "dev", "test", "unlabeled")


class DataProcessor(ABC):
    """Reads the parts of a task from a folder; subclasses define ``get_labels`` and ``_create_examples``."""

    FILES: ClassVar[dict[Part, tuple[str, ...]]] = {
        "train": ("train",),
        "dev32": ("dev32",),
        "dev": ("val", "dev"),
        "test": ("test",),
        "unlabeled": ("unlabeled",),
    }
    """The names that the file of each part may have, without their endings."""

    def __init__(self, task_name: str = "") -> None:
        self.task_name = task_name

    @abstractmethod
    def get_labels(self) -> list[str]:
        """The labels in their order. Of two labels, the second is the positive one."""

    @abstractmethod
    def _create_examples(self, path: str, set_type: str) -> list[InputExample]:
        """The examples of one file; ``set_type`` is the name of the part and begins every guid."""

    def get_train_examples(self, data_dir: str | Path, use_cloze: bool = True) -> list[InputExample]:
        """The training examples.

        ``use_cloze`` has no effect. It exists because processors that were written for FewNLU have this parameter.
        """
        return self.read(data_dir, "train")

    def get_dev32_examples(self, data_dir: str | Path, use_cloze: bool = True) -> list[InputExample]:
        """The further labelled examples of FewGLUE's dev32.jsonl."""
        return self.read(data_dir, "dev32")

    def get_dev_examples(self, data_dir: str | Path) -> list[InputExample]:
        """The examples of val.jsonl or dev.jsonl."""
        return self.read(data_dir, "dev")

    def get_test_examples(self, data_dir: str | Path) -> list[InputExample]:
        """The examples of test.jsonl."""
        return self.read(data_dir, "test")

    def get_unlabeled_examples(self, data_dir: str | Path) -> list[InputExample]:
        """The examples without labels."""
        return self.read(data_dir, "unlabeled")

    def read(self, data_dir: str | Path, part: Part) -> list[InputExample]:
        """The examples of a part; a DataError if it has no file."""
        path = self.file(data_dir, part)
        if path is None:
            names = " or ".join(f"{name}{ENDINGS[0]}" for name in self.FILES[part])
            raise DataError(f"{Path(data_dir)} has no {part} data: there is no {names}; check the folder")
        return self._create_examples(str(path), part)

    def file(self, data_dir: str | Path, part: Part) -> Path | None:
        """The file of a part, if there is one."""
        for name in self.FILES[part]:
            for ending in (*ENDINGS, *(f"{ending}.gz" for ending in ENDINGS)):
                path = Path(data_dir) / f"{name}{ending}"
                if path.is_file():
                    return path
        return None


class RowProcessor(DataProcessor):
    """A processor whose subclasses read one row at a time; it checks labels and makes guids unique."""

    LABELS: ClassVar[tuple[str, ...]] = ()

    def get_labels(self) -> list[str]:
        """The labels in their order."""
        return list(self.LABELS)

    @abstractmethod
    def examples_of(self, row: DataRow, set_type: str) -> Iterator[InputExample]:
        """The examples of one row."""

    def rows(self, path: str, set_type: str) -> Iterator[DataRow]:
        """The rows of a file."""
        return read_rows(path)

    def _create_examples(self, path: str, set_type: str) -> list[InputExample]:
        examples: list[InputExample] = []
        guids: set[str] = set()
        for row in self.rows(path, set_type):
            for example in self.examples_of(row, set_type):
                if example.guid in guids:
                    # FewGLUE's unlabeled WiC file has one idx twice.
                    example.guid = f"{set_type}-line{row.line}-{example.guid.removeprefix(f'{set_type}-')}"
                if example.guid in guids:
                    raise DataError(f"{row.where}: the example {example.guid} appears twice; give it its own idx")
                guids.add(example.guid)
                examples.append(example)
        return examples

    def label(self, row: DataRow, set_type: str, name: str = "label") -> str | None:
        """The label of a row: None in unlabeled data and in a test set without labels."""
        if set_type == "unlabeled" or (set_type == "test" and not row.has(name)):
            return None
        return known_label(row, name, row.get(name), self.get_labels())

    @staticmethod
    def idx(row: DataRow) -> int:
        """The number that the file gives to an example, else the number of its line, counted from 0."""
        if row.has("idx"):
            return row.number("idx")
        return row.line - 1


def known_label(row: DataRow, name: str, value: object, labels: Sequence[str]) -> str:
    """The label ``value`` as text; a DataError if it is not one of the task's labels. ``name`` is the field's name."""
    text = str(value)
    if text not in labels:
        likely = closest(text, labels)
        hint = f"; did you mean '{likely}'?" if likely is not None else ""
        raise DataError(f"{row.where}: '{name}' is {value!r}; the labels are {', '.join(labels)}{hint}")
    return text
