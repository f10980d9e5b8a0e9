"""A few-shot task, built-in or user-defined: its data, labels, metrics, patterns and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lmassay.datasets import catalogue
from lmassay.errors import ConfigError, DataError, LmassayError, did_you_mean, error_with_location
from lmassay.evaluations.fewshot.metrics import check_metrics
from lmassay.evaluations.fewshot.tasks.chat import ChatWording
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.glue import GLUE_METRICS, GLUE_PROCESSORS, GLUE_PVPS
from lmassay.evaluations.fewshot.tasks.patterns import missing_pattern
from lmassay.evaluations.fewshot.tasks.processors import PARTS, DataProcessor, Part
from lmassay.evaluations.fewshot.tasks.pvp import PVP, Kind, Mode, NoTokenizer, cloze_text
from lmassay.evaluations.fewshot.tasks.rows import ENDINGS
from lmassay.evaluations.fewshot.tasks.superglue.patterns import SUPERGLUE_PVPS
from lmassay.evaluations.fewshot.tasks.superglue.processors import SUPERGLUE_METRICS, SUPERGLUE_PROCESSORS, mirrored
from lmassay.storage.files import format_suffix, sha256

MODES: tuple[Mode, ...] = ("cls", "cloze", "ptuning")


@dataclass(frozen=True)
class NluTask:
    """A few-shot task as methods and the protocol use it; ``open_task`` makes it."""

    dataset: str
    name: str
    processor: DataProcessor
    pvp_class: type[PVP]
    metrics: tuple[str, ...]
    data_dir: Path | None
    labels: list[str]
    own_files: Mapping[str, Path] = field(default_factory=dict)
    """Further files that define the task (a user's Python or YAML file)."""
    chat: ChatWording = field(default_factory=ChatWording)
    """How the task is put to a chat model."""
    _loaded: dict[Part, list[InputExample]] = field(default_factory=dict, repr=False, compare=False)
    """The parts whose files have been read."""

    @property
    def kind(self) -> Kind:
        """What an answer is: a label, one of two choices, a referent, or an entity of the passage."""
        return self.pvp_class.kind

    @cached_property
    def patterns(self) -> dict[Mode, list[int]]:
        """The ids of the task's patterns in each mode."""
        return {mode: list(self._text_pvp(0, mode).available_patterns()) for mode in MODES}

    def examples(self, part: Part) -> list[InputExample]:
        """The examples of a part; a DataError if its file is missing or not valid. The file is read once."""
        if part not in PARTS:
            raise ConfigError(f"there is no part '{part}'{did_you_mean(part, PARTS)}")
        if part not in self._loaded:
            self._loaded[part] = self._checked(self._examples(part), part)
        return self._loaded[part]

    def has(self, part: Part) -> bool:
        """Whether there is a file for a part."""
        return self.data_dir is not None and self.processor.file(self.data_dir, part) is not None

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file that the task consists of, by the name of its part or of the user's own file."""
        digests = {name: sha256(path) for name, path in self.own_files.items()}
        if self.data_dir is not None:
            for part in PARTS:
                path = self.processor.file(self.data_dir, part)
                if path is not None:
                    digests[part] = sha256(path)
        return digests

    def pvp(
        self,
        tokenizer: Any,
        *,
        pattern_id: int = 0,
        mode: Mode = "cloze",
        max_seq_length: int = 256,
        seed: int = 42,
    ) -> PVP:
        """A pattern of the task for a tokenizer."""
        if mode not in MODES:
            raise ConfigError(f"there is no mode '{mode}'{did_you_mean(mode, MODES)}")
        # A class that does not list its patterns reports an unknown one when it encodes.
        if self.pvp_class.available_patterns is not PVP.available_patterns and pattern_id not in self.patterns[mode]:
            raise missing_pattern(f"{self.dataset}/{self.name}", mode, pattern_id, self.patterns[mode])
        return self.pvp_class(
            tokenizer=tokenizer,
            max_seq_length=max_seq_length,
            label_list=self.labels,
            use_cloze=mode != "cls",
            use_continuous_prompt=mode == "ptuning",
            pattern_id=pattern_id,
            seed=seed,
        )

    def group(self, example: InputExample) -> str:
        """The group of an example: all examples about the same passage, premise, sentence or question.

        A split must not divide a group, or dev would contain texts that were trained on.
        """
        return str(example.meta.get("group", example.guid))

    def original_group(self, example: InputExample) -> str:
        """The group that FewNLU's own splits keep together.

        In MultiRC it is a question with its answers, in COPA an example with its mirrored copy, in WSC a pair of a true
        and a false referent. In all other tasks each example is its own group.
        """
        if self.dataset == "superglue" and self.name == "multirc":
            return f"passage-{example.meta['passage_idx']}-question-{example.meta['question_idx']}"
        if self.dataset == "superglue" and self.name in ("copa", "wsc"):
            return f"pair-{example.guid.partition('-')[0]}-{example.idx}"
        return example.guid

    def pair(self, example: InputExample) -> str:
        """The pair of an example. In WSC, a right and a wrong example that come from the same row are a pair.

        Any other example is alone in its pair.
        """
        return str(example.meta.get("pair", example.guid))

    def question(self, example: InputExample) -> str | None:
        """The question that an answer belongs to, for exact match; None in tasks without questions."""
        question = example.meta.get("question_idx")
        if question is None:
            return None
        passage = example.meta.get("passage_idx", "")
        return f"{passage}-{question}"

    def cloze_text(self, example: InputExample, pattern_id: int = 0) -> tuple[str, str]:
        """The text before and after the answer: ``before + word + after`` reads as a text."""
        return cloze_text(self.pvp(NoTokenizer(), pattern_id=pattern_id), example)

    def verbalize(self, label: str, pattern_id: int = 0, mode: Mode = "cloze") -> list[str]:
        """The words for a label; empty for tasks whose answers are texts of the example (``choice_texts``)."""
        return self.pvp(NoTokenizer(), pattern_id=pattern_id, mode=mode).words(label)

    def choice_texts(self, example: InputExample) -> list[str]:
        """The texts that may fill the gap: COPA's choices, WSC's candidate, ReCoRD's entities; else empty."""
        return self._text_pvp(0, "cloze").choice_texts(example)

    def with_mirrored(self, examples: Sequence[InputExample]) -> list[InputExample]:
        """The examples to train on: for COPA with a mirrored copy of each that has none; for other tasks unchanged."""
        with_copies = list(examples)
        if self.kind != "choices":
            return with_copies
        guids = {example.guid for example in examples}
        # FewNLU trains COPA on both orders of the two choices, so that nothing can be learned from the position of the
        # right one.
        for example in self.without_mirrored(examples):
            copy = mirrored(example)
            if copy.guid not in guids:
                with_copies.append(copy)
        return with_copies

    def without_mirrored(self, examples: Sequence[InputExample]) -> list[InputExample]:
        """The examples without the mirrored copies."""
        return [example for example in examples if not example.meta.get("mirrored")]

    def _text_pvp(self, pattern_id: int, mode: Mode) -> PVP:
        """A PVP without a tokenizer."""
        # Only the texts of its patterns and words are used; they do not depend on the length or the seed.
        return self.pvp_class(
            tokenizer=NoTokenizer(),
            max_seq_length=256,
            label_list=self.labels,
            use_cloze=mode != "cls",
            use_continuous_prompt=mode == "ptuning",
            pattern_id=pattern_id,
            seed=42,
        )

    def _examples(self, part: Part) -> Any:
        """What the processor returns for a part; it is checked by ``_checked``."""
        # A user's processor may define any of these methods itself, as in FewNLU.
        readers: dict[Part, Callable[[Path], Any]] = {
            "train": self.processor.get_train_examples,
            "dev32": self.processor.get_dev32_examples,
            "dev": self.processor.get_dev_examples,
            "test": self.processor.get_test_examples,
            "unlabeled": self.processor.get_unlabeled_examples,
        }
        try:
            return readers[part](self._folder())
        except LmassayError:
            raise
        except Exception as error:
            # A user's processor may fail in any way; the message says where.
            raise DataError(
                f"{self.dataset}/{self.name}: {part} data could not be read: {error_with_location(error)}"
            ) from error

    def _folder(self) -> Path:
        if self.data_dir is None:
            raise ConfigError(f"the task {self.dataset}/{self.name} needs data; give the folder as data_dir")
        return self.data_dir

    def _checked(self, examples: Any, part: Part) -> list[InputExample]:
        """The examples; a DataError if they are not valid, because a user's processor may return anything."""
        location = f"{self.dataset}/{self.name}, {part} data"
        if not isinstance(examples, list) or not all(isinstance(example, InputExample) for example in examples):
            raise DataError(f"{location}: the processor must return a list of InputExample")
        if not examples:
            raise DataError(f"{location}: there are no examples in {self.data_dir}; the file must have at least one")
        labels = ", ".join(self.labels)
        for example in examples:
            if not is_utf8(f"{example.text_a}{example.text_b or ''}"):
                raise DataError(
                    f"{location}: {example.guid} contains half a surrogate pair, which is not text; fix the file"
                )
            if example.label is not None and example.label not in self.labels:
                raise DataError(f"{location}: {example.guid} has the label {example.label!r}; the labels are {labels}")
            if example.label is None and part not in ("test", "unlabeled"):
                raise DataError(f"{location}: {example.guid} has no label; the labels are {labels}")
        return examples


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8; one with half a surrogate pair cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


_PUBLISHED = "fewglue"
"""The name of the data set in lmassay's catalogue that has SuperGLUE's tasks with few examples."""
_DATASETS = {
    "superglue": (SUPERGLUE_PROCESSORS, SUPERGLUE_PVPS, SUPERGLUE_METRICS),
    "glue": (GLUE_PROCESSORS, GLUE_PVPS, GLUE_METRICS),
}


def task_names() -> list[str]:
    """The built-in tasks."""
    names = []
    for dataset, (processors, _, _) in _DATASETS.items():
        names += [f"{dataset}/{name}" for name in processors]
    return names


def open_task(name: str | Path, data_dir: Path | None = None, base_dir: Path | None = None) -> NluTask:
    """A task by name (``superglue/rte``, ``rte``, ``glue/mrpc``) or file (``mine.yaml``, ``mine.py:mrpc``).

    ``data_dir`` is the folder of the task's files or of the data set; ``base_dir`` is where relative paths start. A
    ConfigError if there is no task of this name, a DataError if the folder does not exist or lacks the task's files.
    """
    text = str(name)
    base = base_dir or Path()
    folder = None
    if data_dir is not None:
        folder = base / Path(data_dir).expanduser()
    if text.endswith((".yaml", ".yml")):
        from lmassay.evaluations.fewshot.tasks.yaml_task import open_yaml_task

        return open_yaml_task(base / Path(text).expanduser(), folder)
    if ".py:" in text or text.endswith(".py"):
        from lmassay.evaluations.fewshot.tasks.python_file import open_python_task

        return open_python_task(text, folder, base)
    dataset, task = _built_in(text)
    processors, pvps, metrics = _DATASETS[dataset]
    processor = processors[task](task)
    check_metrics(metrics[task])
    task_folder = None
    if folder is not None:
        task_folder = _task_folder(folder, task, processor)
    return NluTask(
        dataset=dataset,
        name=task,
        processor=processor,
        pvp_class=pvps[task],
        metrics=metrics[task],
        data_dir=task_folder,
        labels=processor.get_labels(),
    )


def published_folder(name: str | Path) -> Path | None:
    """The folder of a SuperGLUE task that ``lmassay data get fewglue`` fetched; None for tasks of other data sets.

    It is an error if the files were not fetched or were changed; the message names the command.
    """
    text = str(name)
    if text.endswith((".yaml", ".yml", ".py")) or ".py:" in text:
        return None
    dataset, task = _built_in(text)
    if dataset != "superglue":
        return None
    entry = catalogue.catalogue().find(_PUBLISHED)
    folder: Path | None = None
    # Selecting a file also verifies it. Both files are in one folder.
    for role in ("train", "dev32"):
        selection = catalogue.select({"name": entry.name, "task": task}, role)
        assert selection is not None
        folder = selection.paths[0].parent
    return folder


def _built_in(text: str) -> tuple[str, str]:
    """Data set and name of a built-in task; a ConfigError if there is none of this name."""
    dataset, _, task = text.lower().rpartition("/")
    for known, (processors, _, _) in _DATASETS.items():
        if task in processors and dataset in ("", known):
            return known, task
    if format_suffix(Path(text)) in ENDINGS:
        raise ConfigError(
            f"{text} contains examples; describe them in a YAML file and name that as data: its files, columns, labels "
            f"and patterns (lmassay init fewshot-task writes an example)"
        )
    raise ConfigError(
        f"there is no few-shot task '{text}'{did_you_mean(text, task_names())}; your own task is a file: mine.yaml or "
        "mine.py:name"
    )


def _task_folder(folder: Path, task: str, processor: DataProcessor) -> Path:
    """The folder itself if it has the task's files, else the one in it that is named like the task."""
    if not folder.is_dir():
        raise DataError(f"the data folder {folder} does not exist; check the path")
    if any(processor.file(folder, part) for part in PARTS):
        return folder
    # FewGLUE's folders are named like "BoolQ" and "MultiRC".
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and inner.name.lower().replace("-", "") == task:
            return inner
    names = sorted(inner.name for inner in folder.iterdir())
    existing = ", ".join(names[:12]) or "nothing"
    raise DataError(
        f"{folder} has neither files of {task} (train.jsonl …) nor a folder named {task}; it has {existing}"
    )
