"""GLUE's classification tasks: their files (.tsv, or JSON Lines with the same field names), patterns and label words.

The patterns were written for lmassay, modelled on FewNLU's example task MRPC. Their notation is explained in
``lmassay.evaluations.fewshot.tasks.patterns``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.patterns import TablePVP, Words, slotted
from lmassay.evaluations.fewshot.tasks.processors import Part, RowProcessor
from lmassay.evaluations.fewshot.tasks.pvp import Mode
from lmassay.evaluations.fewshot.tasks.rows import DataRow, read_rows
from lmassay.storage.files import format_suffix, open_bytes

_COLA_COLUMNS = ("source", "label", "annotation", "sentence")


class GlueProcessor(RowProcessor):
    """Reads one or two texts and a label. Files of the same task may name these fields differently."""

    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """For each text, the names that its field may have."""
    LABEL_NAMES: ClassVar[tuple[str, ...]] = ("label",)
    HEADERLESS: ClassVar[Sequence[str] | None] = None
    """The columns of the task's published .tsv files, if these have no header."""

    def rows(self, path: str, set_type: str) -> Iterator[DataRow]:
        """The rows of a file. The published test files have a header, even where the other files have none."""
        has_no_header = format_suffix(Path(path)) == ".tsv" and set_type != "test"
        return read_rows(path, self.HEADERLESS if has_no_header else None)

    def examples_of(self, row: DataRow, set_type: str) -> Iterator[InputExample]:
        """The example of one row."""
        texts = [row.text(_first(row, names)) for names in self.TEXTS]
        idx = self.idx(row)
        label_name = _first(row, self.LABEL_NAMES)
        yield InputExample(
            guid=f"{set_type}-{idx}",
            text_a=texts[0],
            text_b=texts[1] if len(texts) > 1 else None,
            label=self.label(row, set_type, label_name),
            idx=idx,
        )

    def label(self, row: DataRow, set_type: str, name: str = "label") -> str | None:
        """The label of a row; None for unlabeled rows."""
        value = row.fields.get(name)
        # JSON files from the Hugging Face hub number the labels from 0, with -1 for a hidden label. The published
        # tables contain the names of the labels.
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


def _first(row: DataRow, names: Sequence[str]) -> str:
    """The first of the names that the row has. If it has none, the first name, for the error message."""
    for name in names:
        if name in row.fields:
            return name
    return names[0]


class MrpcProcessor(GlueProcessor):
    """MRPC: do two sentences mean the same?"""

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("sentence1", "#1 String"), ("sentence2", "#2 String"))
    LABEL_NAMES: ClassVar[tuple[str, ...]] = ("label", "Quality")


class QqpProcessor(GlueProcessor):
    """QQP: do two questions ask the same?"""

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("question1",), ("question2",))
    LABEL_NAMES: ClassVar[tuple[str, ...]] = ("label", "is_duplicate")


class QnliProcessor(GlueProcessor):
    """QNLI: does a sentence answer a question?"""

    LABELS: ClassVar[tuple[str, ...]] = ("entailment", "not_entailment")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("question",), ("sentence",))


class GlueRteProcessor(GlueProcessor):
    """RTE in GLUE's files: does the second sentence follow from the first?"""

    LABELS: ClassVar[tuple[str, ...]] = ("entailment", "not_entailment")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("sentence1",), ("sentence2",))


class WnliProcessor(GlueProcessor):
    """WNLI: does the second sentence, with a pronoun resolved, follow from the first?"""

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("sentence1",), ("sentence2",))


class MnliProcessor(GlueProcessor):
    """MNLI: entailment, neutral or contradiction. The matched files are read."""

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
    """SST-2: is a review positive?"""

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("sentence",),)


class ColaProcessor(GlueProcessor):
    """CoLA: is a sentence grammatical?"""

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    TEXTS: ClassVar[tuple[tuple[str, ...], ...]] = (("sentence",),)
    HEADERLESS: ClassVar[Sequence[str] | None] = _COLA_COLUMNS

    def rows(self, path: str, set_type: str) -> Iterator[DataRow]:
        """The rows of a file. Published training and dev files have no header; a user's own table may have one."""
        if format_suffix(Path(path)) == ".tsv" and Path(path).is_file():
            with open_bytes(Path(path)) as stream:
                first_line = stream.readline().decode("utf-8-sig", errors="replace")
            first_cells = first_line.rstrip("\r\n").split("\t")
            if "sentence" in first_cells:
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


# --- patterns and verbalizers -----------------------------------------------------------------------------------------

# P-tuning: pattern id → the number of continuous prompt tokens at each ``<a>`` of the pattern.
_PROMPT_TOKENS = {1: (1,), 2: (2,), 4: (4,)}


class GluePVP(TablePVP):
    """The patterns and label words of a task.

    In a pattern, ``{a}`` and ``{b}`` are the two texts; ``{a.}`` and ``{b.}`` are the same without final punctuation.
    """

    def fields(self, example: InputExample) -> dict[str, str]:
        """The texts for the names in braces."""
        a = example.text_a
        b = example.text_b or ""
        return {"a": a, "b": b, "a.": self.remove_final_punc(a), "b.": self.remove_final_punc(b)}


def _pvp(name: str, words: Words, cloze: Sequence[str], slots: str, *, pair: bool = True) -> type[GluePVP]:
    """Create the PVP of a task.

    ``cloze`` are its cloze patterns, numbered from 0. ``slots`` is its pattern for P-tuning, with ``<a>`` in the place
    of the continuous prompt tokens. ``pair`` says whether an input has two texts.
    """
    patterns: dict[Mode, Mapping[int, str]] = {
        "cls": {0: "{a}||{b}" if pair else "{a}"},
        "cloze": dict(enumerate(cloze)),
        "ptuning": slotted(slots, _PROMPT_TOKENS),
    }
    table: dict[Mode, Mapping[int, Words]] = {
        "cloze": dict.fromkeys(range(len(cloze)), words),
        "ptuning": dict.fromkeys(_PROMPT_TOKENS, words),
    }
    return type(name, (GluePVP,), {"PATTERNS": patterns, "WORDS": table, "VERBALIZER": words, "__doc__": None})


_YES_FOR_1: Words = {"0": ["No"], "1": ["Yes"]}
_YES_FOR_ENTAILMENT: Words = {"entailment": ["Yes"], "not_entailment": ["No"]}
_ENTAILED = (
    '"|{b.}|" ?||[M]|, "|{a}|"',
    "{b.}|?||[M]|,|{a}",
    "{a}|Question:|{b.}|?|Answer:|[M]|.",
)
_ENTAILED_SLOTS = "{a}|Question:|{b.}|?|<a>|Answer:|[M]|."


GLUE_PVPS: dict[str, type[TablePVP]] = {
    "cola": _pvp(
        "ColaPVP",
        {"0": ["wrong"], "1": ["right"]},
        ("{a}|This sentence is|[M]|.", '"|{a}|" Is this good English?|[M]|.'),
        "{a}|<a>|This sentence is|[M]|.",
        pair=False,
    ),
    "mnli": _pvp(
        "MnliPVP",
        {"entailment": ["Yes"], "neutral": ["Maybe"], "contradiction": ["No"]},
        ("{a.}|?||[M]|,|{b}", '"|{a.}|" ?||[M]|, "|{b}|"'),
        "{a.}|?|<a>|[M]|,|{b}",
    ),
    "mrpc": _pvp(
        "MrpcPVP",
        _YES_FOR_1,
        (
            # The wording is FewNLU's, including its grammar.
            'Does "|{a}|" has the same meaning with "|{b}|"?|[M]|.',
            "{a}|{b}|Do both sentences mean the same?|[M]|.",
            "{a.}|?||[M]|,|{b}",
        ),
        'Does "|{a}|" has the same meaning with "|{b}|"?|<a>|[M]|.',
    ),
    "qnli": _pvp(
        "QnliPVP",
        _YES_FOR_ENTAILMENT,
        ("{a.}|?||[M]|,|{b}", "{b}|Does this answer the question|{a.}|?|[M]|."),
        "{a.}|?|<a>|[M]|,|{b}",
    ),
    "qqp": _pvp(
        "QqpPVP",
        _YES_FOR_1,
        ("{a}|{b}|Do both questions ask the same?|[M]|.", "{a}||[M]|,|{b}"),
        "{a}|{b}|Do both questions ask the same?|<a>|[M]|.",
    ),
    "rte": _pvp("GlueRtePVP", _YES_FOR_ENTAILMENT, _ENTAILED, _ENTAILED_SLOTS),
    "sst2": _pvp(
        "Sst2PVP",
        {"0": ["bad"], "1": ["good"]},
        ("{a}|It was|[M]|.", "{a}|All in all, it was|[M]|.", "Just|[M]|!||{a}"),
        "{a}|<a>|It was|[M]|.",
        pair=False,
    ),
    "wnli": _pvp("WnliPVP", _YES_FOR_1, _ENTAILED, _ENTAILED_SLOTS),
}
