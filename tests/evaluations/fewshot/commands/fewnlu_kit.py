"""What the tests of ``lmassay fewnlu`` share: a tiny model, eight sentences of data, the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmassay.cli import main

WORDS = ("Yes", "No", "true", "false", "The", "the", "cat", "sleeps", "runs")


def save_bert(folder: Path) -> Path:
    import torch
    from transformers import BertConfig, BertForMaskedLM

    from tests.evaluations.fewshot.small_tokenizers import word_pieces

    tokenizer = word_pieces(*WORDS)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_rows(path: Path, many: int, first: int, *, labels: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for idx in range(first, first + many):
        row = {"premise": f"The cat sleeps {idx}", "hypothesis": "the cat " + ("sleeps" if idx % 2 else "runs")}
        label = {"label": "entailment" if idx % 2 else "not_entailment"} if labels else {}
        rows.append(json.dumps({**row, **label, "idx": idx}))
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def write_data(folder: Path) -> Path:
    """Eight labelled and six test examples; the unlabeled ones are not there unless a test puts them there."""
    write_rows(folder / "train.jsonl", 8, 0)
    write_rows(folder / "val.jsonl", 6, 20)
    return folder


def flags(model: Path, output: str = "out", **own: object) -> list[str]:
    """A command line; a value True is a switch, a list several values, None leaves a flag out."""
    common: dict[str, object] = {
        "method": "pet",
        "arch_method": "default",
        "data_dir": "RTE",
        "model_type": "bert",
        "model_name_or_path": model,
        "dataset_name": "superglue",
        "task_name": "rte",
        "output_dir": output,
        "max_steps": 2,
        "every_eval_ratio": 0.5,
        "max_seq_length": 48,
        "learning_rate": 0.01,
        "few_shot_setting": "dev32_split",
        "cv_k": 2,
        "no_cuda": True,
        "do_train": True,
        "do_eval": True,
        **own,
    }
    words: list[str] = []
    for name, value in common.items():
        if value is None or value is False:
            continue
        words.append(f"--{name}")
        words += [] if value is True else [str(one) for one in (value if isinstance(value, list) else [value])]
    return words


def call(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command in this process."""
    with pytest.raises(SystemExit) as stop:
        main(["fewnlu", *words])
    shown = capsys.readouterr()
    return int(stop.value.code or 0), shown.out, shown.err


def files(folder: Path) -> dict[str, bytes]:
    """All result files but the store."""
    path_of = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name.as_posix(): path.read_bytes() for name, path in path_of.items() if name.parts[0] != "lmassay"}
