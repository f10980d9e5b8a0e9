"""A results folder with runs of all four evaluations, made quickly, with names that look like markup."""

from __future__ import annotations

import json
from pathlib import Path

from lmassay.api import evaluate
from tests.evaluations.bias.report import small_bias
from tests.evaluations.fewshot.report import small_fewshot
from tests.reporting import small_runs

ATTACK = "char_swap & 50 % <b>ρ ± – x′</b> | $a^b$ #1 ~ \\cmd{x} *star* `tick`"
KOREAN = "한국어 모델"


def fill(folder: Path) -> Path:
    """Two attacks, two models on two constructions, two prompts, two strategies."""
    for name in ("robustness", "syntax", "bias"):
        (folder / name).mkdir()
    results = folder / "results"
    _robustness(folder / "robustness", results)
    task = small_runs.two_constructions(folder / "syntax", "Simple_one & only")
    evaluate(small_runs.config(folder / "syntax", task, {"label": "first"}, {"label": "second one"}), results)
    small_bias.write_prompts(folder / "bias" / "prompts.tsv", 2)
    _bias(folder / "bias", results)
    runs = [
        run
        for strategy in ("multi_splits", "cross_validation")
        for run in small_fewshot.sweep(small_fewshot.GRID, splits={"strategy": strategy, "k": 2})
    ]
    small_fewshot.fill(results, runs, "fewshot")
    return results


def _robustness(folder: Path, results: Path) -> None:
    source = folder / "src.txt"
    source.write_text("".join(f"sentence number {i} about a <i>cat</i>\n" for i in range(8)), encoding="utf-8")
    attacks = [{"name": ATTACK, "perturb": "charswap", "rate": 1.0}, "wordswap"]
    task = {"name": "robustness", "src": str(source), "attack": attacks}
    evaluate({"task": task, "model": {"name": "echo", "transform": "upper", "label": "up"}, "resamples": 100}, results)


def _bias(folder: Path, results: Path) -> None:
    (folder / "made.py").write_text(small_bias.MODEL, encoding="utf-8")
    data = small_bias.write_samples(folder / "samples.tsv", templates=2)
    for prompt in (1, 2):
        task = {"name": "bias", "data": str(data), "prompts": str(folder / "prompts.tsv"), "prompt_id": prompt}
        model = {"name": f"{folder / 'made.py'}:Made", "label": KOREAN, "lean": 0.7, "knows": 0.4}
        evaluate(json.loads(json.dumps({"task": task, "model": model, "resamples": 100})), results)
