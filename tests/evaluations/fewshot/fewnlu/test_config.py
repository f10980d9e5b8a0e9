"""FewNLU's flags: their defaults, the configuration they stand for, and the splits they ask for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.fewnlu.config import in_flags, translate
from lmassay.evaluations.fewshot.fewnlu.flags import BY_NAME, FLAGS
from lmassay.plugins.options import build
from tests.published.fewnlu_gold import gold, write_wsc_pairs
from tests.published_data import published_set

DEFAULTS = {
    "repetitions": 1,
    "per_gpu_train_batch_size": 4,
    "per_gpu_eval_batch_size": 8,
    "per_gpu_unlabeled_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "num_train_epochs": 3,
    "max_steps": -1,
    "cache_dir": "",
    "learning_rate": 1e-5,
    "weight_decay": 0.01,
    "adam_epsilon": 1e-8,
    "max_grad_norm": 1.0,
    "warmup_step_ratio": 0,
    "no_cuda": False,
    "overwrite_output_dir": False,
    "do_train": False,
    "do_eval": False,
    "sampler_seeds": (10, 20, 30),
    "seed": 42,
    "use_cloze": False,
    "pattern_ids": (0,),
    "alpha": 0.9999,
    "temperature": 2,
    "verbalizer_file": None,
    "reduction": "mean",
    "decoding_strategy": "default",
    "train_examples": -1,
    "test_examples": -1,
    "dev32_examples": -1,
    "dev_examples": -1,
    "unlabeled_examples": -1,
    "split_examples_evenly": False,
    "max_seq_length": 256,
    "eval_set": "dev",
    "aug_data_dir": None,
    "relabel_aug_data": False,
    "every_eval_ratio": 0.02,
    "early_stop_epoch": 6,
    "few_shot_setting": "dev32_setting",
    "cv_k": 4,
    "split_ratio": 0.5,
    "adapet_mask_alpha": 0.105,
    "adapet_balance_alpha": -1,
    "max_num_lbl_tok": 20,
    "eval_priming": False,
    "train_priming": False,
    "priming_num": None,
    "embedding_learning_rate": 1e-4,
    "use_continuous_prompt": False,
    "prompt_encoder_head_type": "raw",
    "generations": 3,
    "ipet_logits_percentage": 0.25,
    "ipet_scale_factor": 5,
    "ipet_n_most_likely": -1,
    "use_brother_fold_logits": False,
    "fix_deberta": False,
    "use_dropout": False,
    "dropout_rate": 0.05,
    "lm_training": False,
}


@pytest.fixture
def model(tmp_path):
    """As much of a model as the flags ask for: the family in its configuration."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text('{"model_type": "bert", "architectures": ["BertForMaskedLM"]}')
    return tmp_path / "model"


@pytest.fixture
def rte(tmp_path):
    (tmp_path / "RTE").mkdir()
    rows = [
        {"premise": f"p{i}", "hypothesis": f"h{i}", "idx": i, "label": ["entailment", "not_entailment"][i % 2]}
        for i in range(8)
    ]
    for name in ("train", "val", "extra"):
        (tmp_path / f"RTE/{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "RTE"


def translated(model: Path, data: Path, base: Path, **own: Any) -> Any:
    required = {
        "method": "pet",
        "arch_method": "default",
        "data_dir": str(data),
        "model_type": "bert",
        "model_name_or_path": str(model),
        "dataset_name": "superglue",
        "task_name": "rte",
        "output_dir": "out",
        "do_train": True,
    }
    values = {name: flag.default for name, flag in BY_NAME.items()}
    return translate({**values, **required, **own}, frozenset(own), base)


def test_defaults_are_those_of_fewnlu():
    own = {flag.name for group in ("Required", "Beyond FewNLU") for flag in FLAGS[group]}
    assert {name: flag.default for name, flag in BY_NAME.items() if name not in own} == DEFAULTS


def test_an_update_is_accumulation_times_what_fits_the_device(model, rte, tmp_path):
    translation = translated(
        model, rte, tmp_path, per_gpu_train_batch_size=2, gradient_accumulation_steps=8, max_steps=250
    )
    method = translation.config["task"]["method"]
    assert (method["batch_size"], method["micro_batch"], method["max_steps"]) == (16, 2, 250)
    assert "epochs" not in method


def test_without_steps_epochs_count(model, rte, tmp_path):
    method = translated(model, rte, tmp_path, num_train_epochs=2.0).config["task"]["method"]
    assert method["epochs"] == 2
    assert "max_steps" not in method


def test_the_language_model_loss_is_added_plainly_unless_alpha_is_given(model, rte, tmp_path):
    plain = translated(model, rte, tmp_path, lm_training=True).config["task"]["method"]
    weighed = translated(model, rte, tmp_path, lm_training=True, alpha=0.9).config["task"]["method"]
    assert "alpha" not in plain
    assert (weighed["alpha"], weighed["unlabeled_batch_size"]) == (0.9, 4)


def test_prompt_tuning_has_one_token_unless_told(model, rte, tmp_path):
    assert translated(model, rte, tmp_path, method="ptuning").config["task"]["regime"]["patterns"] == [1]
    translation = translated(model, rte, tmp_path, method="ptuning", pattern_ids=(2, 3), prompt_encoder_head_type="mlp")
    assert translation.config["task"]["regime"]["patterns"] == [2, 3]
    assert translation.config["task"]["method"]["prompt_encoder_head_type"] == "mlp"


def test_a_noisy_student_has_its_rate_and_dropout_may_be_had_without_one(model, rte, tmp_path):
    options = {"arch_method": "noisy_student", "use_brother_fold_logits": True, "dropout_rate": 0.2}
    noisy = translated(model, rte, tmp_path, **options).config["task"]
    assert (noisy["regime"]["dropout_rate"], noisy["regime"]["cross"]) == (0.2, True)
    assert "spatial_dropout" not in noisy["method"]
    assert translated(model, rte, tmp_path, use_dropout=True).config["task"]["method"]["spatial_dropout"] == 0.05


def test_a_student_learns_as_its_teachers_do(model, rte, tmp_path):
    translation = translated(model, rte, tmp_path, arch_method="distillation", temperature=3.0, learning_rate=2e-5)
    student = translation.config["task"]["regime"]["student"]
    assert (student["name"], student["temperature"], student["learning_rate"]) == ("sequence_classifier", 3.0, 2e-5)


def test_limits_go_to_the_set_that_is_tested_on(model, rte, tmp_path):
    translation = translated(model, rte, tmp_path, dev_examples=3, test_examples=2, unlabeled_examples=5)
    assert translation.config["task"] | {"test_examples": 3, "unlabeled": 5} == translation.config["task"]
    assert translation.notes == ["--test_examples has no effect with --eval_set dev"]
    assert translated(model, rte, tmp_path, eval_set="test", test_examples=2).config["task"]["test_examples"] == 2


def test_a_task_of_the_users_own_is_a_file(model, rte, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nfields: [premise, hypothesis]\nlabel: label\nlabels: [entailment, not_entailment]\n"
        "patterns: ['{premise} [mask] {hypothesis}']\nwords: {entailment: 'Yes', not_entailment: 'No'}\n"
        "metrics: [acc]\n"
    )
    translation = translated(model, rte, tmp_path, task_name="mine.yaml")
    assert translation.config["task"]["data"] == str(tmp_path / "mine.yaml")
    assert translation.task.name == "mine"


def test_a_model_that_was_not_fetched_is_refused_with_the_command_that_fetches_it(model, rte, tmp_path):
    with pytest.raises(ConfigError, match=r"--model_name_or_path: .* fetch it: lmassay models get someone/tiny-bert"):
        translated(model, rte, tmp_path, model_name_or_path="someone/tiny-bert")


def test_a_note_names_the_flag_that_a_classifier_ignores(model, rte, tmp_path):
    translation = translated(model, rte, tmp_path, method="sequence_classifier", use_continuous_prompt=True)
    assert translation.notes == ["--use_continuous_prompt has no effect: a classifier uses no pattern"]


def test_a_name_is_found_in_the_hub_cache_that_is_given(model, rte, tmp_path):
    snapshot = tmp_path / "cache/models--someone--tiny/snapshots/abc123"
    shutil.copytree(model, snapshot)
    (tmp_path / "cache/models--someone--tiny/refs").mkdir()
    (tmp_path / "cache/models--someone--tiny/refs/main").write_text("abc123")
    translation = translated(model, rte, tmp_path, model_name_or_path="someone/tiny", cache_dir="cache")
    assert translation.config["model"]["model"] == str(snapshot)
    (tmp_path / "cache/models--someone--tiny/refs/main").write_text("../../..")
    with pytest.raises(ConfigError, match="has no model someone/tiny"):
        translated(model, rte, tmp_path, model_name_or_path="someone/tiny", cache_dir="cache")


@pytest.mark.parametrize(
    ("asked", "own", "right"),
    [
        ("deberta", "deberta-v2", True),
        ("roberta", "xlm-roberta", True),
        ("electra", "electra", True),
        ("gpt2", "gpt2", True),
        ("gpt2", "llama", False),
        ("bert", "albert", False),
    ],
)
def test_the_family_must_be_the_models_own(model, rte, tmp_path, asked, own, right):
    (model / "config.json").write_text(json.dumps({"model_type": own}))
    if right:
        translated(model, rte, tmp_path, model_type=asked)
    else:
        with pytest.raises(ConfigError, match=f"is a {own}; give --model_type {own}"):
            translated(model, rte, tmp_path, model_type=asked)


def test_complaints_about_keys_are_said_of_flags():
    assert in_flags("task.method.batch_size: no\ntask.splits.k: no") == "--gradient_accumulation_steps: no\n--cv_k: no"
    assert in_flags("task.regime: no") == "--arch_method: no"
    assert in_flags("the disk is full: no") == "the disk is full: no"


def test_the_splits_are_those_of_the_original(model, tmp_path):
    pytest.importorskip("torch", reason="the hf extra is not installed")
    (tmp_path / "WSC").mkdir()
    write_wsc_pairs(tmp_path / "WSC" / "train.jsonl")
    compared = 0
    for name, wanted in gold("splits").items():
        if "error" in wanted or name.count("/") > 1:
            continue
        task, setting = name.split("/")
        data = tmp_path / "WSC" if task == "wsc" else published_set("fewglue")
        config = translated(model, data, tmp_path, task_name=task, few_shot_setting=setting).config
        fewshot = build("task", config["task"], tmp_path)
        parts = [(e.inputs["train"], e.inputs["dev"]) for e in fewshot.examples()]
        assert parts == [(train, dev or []) for train, dev in wanted["folds"]], name
        compared += 1
    assert compared == 36
