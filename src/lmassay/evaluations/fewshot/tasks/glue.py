"""GLUE's classification tasks over one or two sentences, from its .tsv files or JSON Lines with the same names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.processors import Part, RowProcessor
from lmassay.evaluations.fewshot.tasks.rows import Row, read_rows

_COLA = ("source", "label", "annotation", "sentence")


class GlueProcessor(RowProcessor):
    """Two texts (or one) and a label under names that files of the task have."""

    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """For each text the names its field may have."""
    LABEL_NAMES: ClassVar[tuple[str, ...]] = ("label",)
    HEADERLESS: ClassVar[Sequence[str] | None] = None
    """The columns of the published .tsv files if they have no header."""

    def rows(self, path: str, set_type: str) -> Iterator[Row]:
        bare = self.HEADERLESS if path.endswith(".tsv") and set_type != "test" else None
        return read_rows(path, bare)

    def examples_of(self, row: Row, set_type: str) -> Iterator[InputExample]:
        texts = [row.text(_first(row, names)) for names in self.TEXTS]
        idx = row.number("idx") if row.has("idx") else row.line - 1
        label_name = _first(row, self.LABEL_NAMES)
        yield InputExample(
            guid=f"{set_type}-{idx}",
            text_a=texts[0],
            text_b=texts[1] if len(texts) > 1 else None,
            label=self.label(row, set_type, label_name),
            idx=idx,
        )

    def label(self, row: Row, set_type: str, name: str = "label") -> str | None:
        value = row.fields.get(name)
        # JSON files of the hub count the labels from 0, the published tables name them; -1 stands for none.
        if isinstance(value, int) and not isinstance(value, bool) and set_type != "unlabeled":
            if value == -1 and set_type == "test":
                return None
            labels = self.get_labels()
            if str(value) in labels:
                return str(value)
            if not 0 <= value < len(labels):
                raise DataError(f"{row.where}: '{name}' is {value}; the labels are {', '.join(labels)}")
            return labels[value]
        return super().label(row, set_type, name)


def _first(row: Row, names: Sequence[str]) -> str:
    return next((name for name in names if name in row.fields), names[0])


class MrpcProcessor(GlueProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("sentence1", "#1 String"), ("sentence2", "#2 String"))
    LABEL_NAMES: ClassVar[tuple[str, ...]] = ("label", "Quality")


class QqpProcessor(GlueProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("question1",), ("question2",))
    LABEL_NAMES: ClassVar[tuple[str, ...]] = ("label", "is_duplicate")


class QnliProcessor(GlueProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("entailment", "not_entailment")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("question",), ("sentence",))


class GlueRteProcessor(GlueProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("entailment", "not_entailment")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("sentence1",), ("sentence2",))


class WnliProcessor(GlueProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("sentence1",), ("sentence2",))


class MnliProcessor(GlueProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("entailment", "neutral", "contradiction")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("premise", "sentence1"), ("hypothesis", "sentence2"))
    LABEL_NAMES: ClassVar[tuple[str, ...]] = ("label", "gold_label")
    FILES: ClassVar[dict[Part, tuple[str, ...]]] = {
        "train": ("train",),
        "dev32": ("dev32",),
        "dev": ("val", "dev", "dev_matched", "validation_matched"),
        "test": ("test", "test_matched"),
        "unlabeled": ("unlabeled",),
    }


class Sst2Processor(GlueProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("sentence",),)


class ColaProcessor(GlueProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("sentence",),)
    HEADERLESS: ClassVar[Sequence[str] | None] = _COLA

    def rows(self, path: str, set_type: str) -> Iterator[Row]:
        # The published files have no header; a table that begins with one is the user's own.
        if path.endswith(".tsv") and Path(path).is_file():
            with Path(path).open(encoding="utf-8-sig", errors="replace") as stream:
                if "sentence" in stream.readline().rstrip("\n").split("\t"):
                    return read_rows(path)
        return super().rows(path, set_type)


GLUE_PROCESSORS: dict[str, type[RowProcessor]] = {
    "cola": ColaProcessor,
    "mnli": MnliProcessor,
    "mrpc": MrpcProcessor,
    "qnli": QnliProcessor,
    "qqp": QqpProcessor,
    "rte": GlueRteProcessor,
    "sst2": Sst2Processor,
    "wnli": WnliProcessor,
}

GLUE_METRICS: Mapping[str, tuple[str, ...]] = {
    "cola": ("acc", "f1"),
    "mnli": ("acc",),
    "mrpc": ("acc", "f1"),
    "qnli": ("acc",),
    "qqp": ("acc", "f1"),
    "rte": ("acc",),
    "sst2": ("acc",),
    "wnli": ("acc",),
}
