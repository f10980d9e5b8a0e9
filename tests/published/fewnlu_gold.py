"""The gold values of the running FewNLU, of whichever family they are, and the tiny models behind them."""

from __future__ import annotations

import json
import shutil
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from tests.conftest import shared_folder

ABSENT = "there is no folder ../shared with data and gold results; set LMASSAY_SHARED"
SHARED = shared_folder()
GOLD = None if SHARED is None else SHARED / "gold" / "fewnlu"
PADDED = "_pad"
"""At the end of a family's name: with one more row in the vocabulary, for the prompt's id."""


@cache
def gold(name: str) -> dict[str, Any]:
    """``name.json`` and, where there are such, ``name_albert.json`` and the like; empty without the shared folder."""
    found: dict[str, Any] = {}
    for file in sorted(GOLD.glob(f"{name}*.json")) if GOLD is not None else ():
        for key, value in json.loads(file.read_text(encoding="utf-8")).items():
            both = isinstance(value, dict) and isinstance(found.get(key), dict)
            found[key] = {**found[key], **value} if both else value
    return found


def of_families(name: str) -> dict[str, dict[str, Any]]:
    """The values of files that name their family: ``name_bert.json`` …"""
    files = sorted(GOLD.glob(f"{name}_*.json")) if GOLD is not None else []
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

    assert GOLD is not None
    options = {"do_lower_case": False} if family == "bert" else {}
    return AutoTokenizer.from_pretrained(GOLD / f"tiny_{family.removesuffix(PADDED)}", **options)


def masked_model(family: str) -> Any:
    """``bert``, ``albert`` or ``albert_pad`` as transformers has it, with the weights of the gold values."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    assert GOLD is not None
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
    assert SHARED is not None
    assert GOLD is not None
    if name != "wsc":
        return open_task(f"superglue/{name}", SHARED / "data" / "fewglue")
    for source, part in ((GOLD / "wsc_pairs_train.jsonl", "train"), (SHARED / "data/fewglue/WSC/val.jsonl", "val")):
        shutil.copyfile(source, folder / f"{part}.jsonl")
    return open_task("superglue/wsc", folder)
