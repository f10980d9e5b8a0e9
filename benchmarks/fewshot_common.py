"""Functions that the few-shot benchmarks share: FewGLUE's texts, a vocabulary made of them, random BERTs, clocks."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from lmassay.evaluations.fewshot.methods.learner import EncodedItem
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task

T = TypeVar("T")
FOLDERS = {"wic": "WiC", "rte": "RTE", "boolq": "BoolQ"}
VOCABULARY = 30_522
WINDOW = 256
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
BASE: dict[str, int] = {}  # BertConfig's own sizes: 12 layers, 768, 12 heads
SMALL = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}


@dataclass(frozen=True)
class Took:
    cpu: float
    wall: float


def clocked(work: Callable[[], T]) -> tuple[T, Took]:
    """Return what work returns, and its CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    outcome = work()
    return outcome, Took(time.process_time() - cpu, time.perf_counter() - wall)


def fewglue() -> Path:
    shared = Path(os.environ.get("LMASSAY_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    folder = shared / "data" / "fewglue"
    if not folder.is_dir():
        sys.exit(f"FewGLUE's files are not in {folder}; set LMASSAY_SHARED")
    return folder


def task_of(name: str) -> NluTask:
    return open_task(name, fewglue() / FOLDERS[name], Path())


def make_tokenizer() -> Any:
    """Learn a WordPiece vocabulary as large as BERT's from FewGLUE. With it, texts are about as long as with BERT's."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=SPECIAL["unk"]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL.values()), show_progress=False
    )
    tokenizer.train_from_iterator(sorted(set(_texts())), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": token for name, token in SPECIAL.items()}
    )


def _texts() -> Iterator[str]:
    for file in sorted(fewglue().rglob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            unvisited = [json.loads(line)]
            while unvisited:
                value = unvisited.pop()
                if isinstance(value, str):
                    yield value
                elif isinstance(value, dict | list):
                    unvisited += value.values() if isinstance(value, dict) else value


def make_bert(sizes: dict[str, int]) -> Any:
    torch.manual_seed(1)
    return BertForMaskedLM(BertConfig(vocab_size=VOCABULARY, **sizes))


def save_bert(folder: Path, sizes: dict[str, int]) -> str:
    """Save a random BERT with its tokenizer in a folder, and return a text that says how large it is."""
    model = make_bert(sizes)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return f"{sum(parameter.numel() for parameter in model.parameters()) / 1e6:.1f}M parameters"


def lengths(items: Sequence[EncodedItem]) -> str:
    return f"{statistics.mean(map(len, items)):.0f} tokens on average, {max(map(len, items))} at most"


def labels_of(task: NluTask, examples: Sequence[InputExample]) -> list[int]:
    return [task.labels.index(str(example.label)) for example in examples]


def headline() -> str:
    return (
        f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"{torch.get_num_threads()} thread(s), {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )


def verdict(name: str, ratio: float, target: float, *, most: bool = False) -> bool:
    """Print a ratio next to its target, and return whether the target is met; ``most`` makes it an upper limit."""
    met = ratio <= target if most else ratio >= target
    word = "at most" if most else "at least"
    print(f"  {name}: {ratio:.2f} ({word} {target:g} wanted{'' if met else ': MISSED'})", flush=True)
    return met
