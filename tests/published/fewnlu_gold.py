"""What FewNLU gave on FewGLUE, of whichever family of models, and the tiny models behind it.

The figures are in ``figures/fewnlu``. The examples come from the catalogue of data sets.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from tests.published_data import FIGURES, published_set, shared_folder

GOLD = FIGURES / "fewnlu"
PADDED = "_pad"
"""At the end of a family's name: with one more row in the vocabulary, for the prompt's id."""


@cache
def gold(name: str) -> dict[str, Any]:
    """``name.json`` and, where there are such, ``name_albert.json`` and the like."""
    recorded: dict[str, Any] = {}
    for file in sorted(GOLD.glob(f"{name}*.json")):
        for key, value in json.loads(file.read_text(encoding="utf-8")).items():
            both = isinstance(value, dict) and isinstance(recorded.get(key), dict)
            recorded[key] = {**recorded[key], **value} if both else value
    return recorded


def digest_of(ids: Sequence[int]) -> str:
    """What stands for token ids in the figures: with the vocabulary beside them, ids are the published text."""
    return hashlib.sha256(json.dumps(list(ids), separators=(",", ":")).encode()).hexdigest()[:16]


def record_training() -> dict[str, Any]:
    """PET's three training examples of ReCoRD. Which wrong entities it drew cannot be repeated, so the tests need its
    very input, whose token ids are published text and therefore not part of the repository.
    """
    shared = shared_folder()
    file = None if shared is None else shared / "gold" / "fewnlu" / "pet_record.json"
    if file is None or not file.is_file():
        pytest.skip("needs PET's own input, which holds published text: gold/fewnlu/pet_record.json in LMASSAY_SHARED")
    recorded = json.loads(file.read_text(encoding="utf-8"))["train"]
    assert recorded["loss_each"] == gold("pet_record")["train"]["loss_each"]
    return recorded


def of_families(name: str) -> dict[str, dict[str, Any]]:
    """The values of files that name their family: ``name_bert.json`` …"""
    files = sorted(GOLD.glob(f"{name}_*.json"))
    return {file.stem.removeprefix(f"{name}_"): json.loads(file.read_text(encoding="utf-8")) for file in files}


def family_in(key: str) -> str:
    """``albert_pad`` of ``ptuning/albert_pad/rte/p2/lstm``."""
    return next(part for part in key.split("/") if part.startswith(("bert", "albert")))


def values(name: str, shape: Any) -> Any:
    """The weights of all models in the gold values: a function of their names."""
    drawn = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF).standard_normal(tuple(shape)) * 0.08
    norm = "LayerNorm.weight" in name or name.endswith("layer_norm.weight")
    return (drawn + norm).astype(np.float32)


def fill(module: Any) -> Any:
    import torch

    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(values(name, parameter.shape)))
    return module


def tokenizer(family: str) -> Any:
    """As the original read it: BERT's is cased."""
    from transformers import AutoTokenizer

    options = {"do_lower_case": False} if family == "bert" else {}
    return AutoTokenizer.from_pretrained(GOLD / f"tiny_{family.removesuffix(PADDED)}", **options)


def masked_model(family: str) -> Any:
    """``bert``, ``albert`` or ``albert_pad`` as transformers has it, with the weights of the gold values."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    config = AutoConfig.from_pretrained(GOLD / f"tiny_{family.removesuffix(PADDED)}")
    config.vocab_size += family.endswith(PADDED)
    return fill(AutoModelForMaskedLM.from_config(config)).eval()


def network(family: str) -> Any:
    """The model in memory, as in FewNLU's time."""
    import torch

    from lmassay.evaluations.fewshot.methods.network import Network

    return Network(masked_model(family), tokenizer(family), "masked", torch.device("cpu"), reference=True)


def save_model(family: str, folder: Path) -> Path:
    """The model as a folder."""
    masked_model(family).save_pretrained(folder)
    tokenizer(family).save_pretrained(folder)
    return folder


def gold_task(name: str, folder: Path) -> NluTask:
    """The task with the files of the gold runs; WSC has its own training file there, and is put into ``folder``."""
    data = published_set("fewglue")
    if name != "wsc":
        return open_task(f"superglue/{name}", data)
    write_wsc_pairs(folder / "train.jsonl")
    shutil.copyfile(data / "WSC" / "val.jsonl", folder / "val.jsonl")
    return open_task("superglue/wsc", folder)


# The place of each false referent's word in FewGLUE's WSC examples: the gold runs took the first or the second word.
_FALSE_WORDS = "01000100101100011000000011000010"
_WSC_PAIRS = "ab6582bb162ea1d4f754cd083af523eef873258ff4430a5f31ea6d43d58fc797"


def write_wsc_pairs(path: Path) -> None:
    """FewGLUE's WSC examples in FewNLU's own form, with a true and a false referent, as in the gold runs."""
    lines = (published_set("fewglue") / "WSC" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    pairs: list[str] = []
    for line, digit in zip(lines, _FALSE_WORDS, strict=True):
        row = json.loads(line)
        target, place = row["target"], int(digit)
        wrong = {"span1_text": row["text"].split()[place], "span1_index": place}
        wrong |= {"span2_text": target["span2_text"], "span2_index": target["span2_index"], "label": False}
        both = {"true_target": {**target, "label": True}, "false_target": wrong}
        pairs.append(json.dumps({"text": row["text"], "idx": row["idx"], **both}) + "\n")
    content = "".join(pairs).encode()
    assert hashlib.sha256(content).hexdigest() == _WSC_PAIRS
    path.write_bytes(content)
