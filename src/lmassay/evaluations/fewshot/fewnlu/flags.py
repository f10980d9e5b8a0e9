"""FewNLU's flags (names, defaults, choices), and what lmassay does with those that had no effect or failed in FewNLU.

A flag has one of three states:

- ``works``: it does what its help says.
- ``fixed``: it had no effect in FewNLU or made it fail; in lmassay it works.
- ``refused``: it is accepted on the command line, but using it is an error that gives the reason. A run must not look
  as if the flag had had an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["text", "whole", "number", "switch"]
State = Literal["works", "fixed", "refused"]
Group = Literal[
    "Required",
    "Training",
    "Data",
    "Few-shot setting",
    "ADAPET",
    "Priming",
    "P-tuning",
    "iPET and noisy student",
    "Language modelling and DeBERTa",
    "Beyond FewNLU",
]


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of the command line."""

    name: str
    kind: Kind
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    several: bool = False
    """Whether the flag takes several values."""
    key: str = ""
    """The key of the lmassay configuration that it sets, if it sets a single one."""
    state: State = "works"
    decision: str = ""
    """If the state is fixed or refused: what lmassay does, and why."""


METHODS = ("sequence_classifier", "pet", "ptuning", "adapet")
ARCHITECTURES = ("default", "ipet", "noisy_student")
OWN_ARCHITECTURES = ("ensemble", "distillation", "self_training")
SETTINGS = ("fix_setting", "dev32_setting", "cross_validation", "mdl", "dev32_split")
OWN_SETTINGS = ("bagging", "random", "model_informed")
MODEL_TYPES: dict[str, tuple[str, ...]] = {
    "albert": ("albert",),
    "bert": ("bert",),
    "roberta": ("roberta", "xlm-roberta", "camembert"),
    "deberta": ("deberta-v2", "deberta"),
}
"""FewNLU's name of a family of models → the ``model_type`` of its models' own configurations. Other families are given
by their ``model_type``."""

_METHOD = "task.method"


def _number(name: str, default: float, text: str, key: str = "", **more: Any) -> Flag:
    return Flag(name, "number", default, text, key=key, **more)


def _whole(name: str, default: int | None, text: str, key: str = "", **more: Any) -> Flag:
    return Flag(name, "whole", default, text, key=key, **more)


def _switch(name: str, text: str, **more: Any) -> Flag:
    return Flag(name, "switch", False, text, **more)


FLAGS: Mapping[Group, tuple[Flag, ...]] = {
    "Required": (
        Flag("method", "text", None, "Few-shot method.", METHODS, key=_METHOD),
        Flag(
            "arch_method",
            "text",
            None,
            "How trainings depend on each other.",
            choices=(*ARCHITECTURES, *OWN_ARCHITECTURES),
            key="task.regime",
        ),
        Flag("data_dir", "text", None, "Folder with train.jsonl, val.jsonl …", key="task.data_dir"),
        Flag("model_type", "text", None, "Family of the model: albert, bert, roberta, deberta, electra, gpt2, llama …"),
        Flag("model_name_or_path", "text", None, "Folder, .gguf file or fetched hub name.", key="model.model"),
        Flag("dataset_name", "text", None, "superglue, glue, or a .py file with your own tasks."),
        Flag("task_name", "text", None, "rte, cb, mrpc …, or a .yaml file that describes a task.", key="task.data"),
        Flag("output_dir", "text", None, "Folder for the results."),
    ),
    "Training": (
        _whole(
            "repetitions",
            1,
            "Trainings per split and pattern, each with a different order of examples.",
            "task.regime.repetitions",
        ),
        _whole("per_gpu_train_batch_size", 4, "Batch size in training.", f"{_METHOD}.micro_batch"),
        _whole("per_gpu_eval_batch_size", 8, "Batch size in evaluation.", f"{_METHOD}.eval_batch"),
        _whole(
            "per_gpu_unlabeled_batch_size",
            4,
            "Batch size of unlabeled examples (--lm_training).",
            f"{_METHOD}.unlabeled_batch_size",
        ),
        _whole("gradient_accumulation_steps", 1, "Micro-batches per update.", f"{_METHOD}.batch_size"),
        _number("num_train_epochs", 3, "Epochs; used if --max_steps is not above 0.", f"{_METHOD}.epochs"),
        _whole("max_steps", -1, "Number of updates.", f"{_METHOD}.max_steps"),
        Flag("cache_dir", "text", "", "Hub cache in which a model's name is looked up."),
        _number("learning_rate", 1e-5, "Initial learning rate.", f"{_METHOD}.learning_rate"),
        _number("weight_decay", 0.01, "Weight decay.", f"{_METHOD}.weight_decay"),
        _number("adam_epsilon", 1e-8, "Adam's epsilon.", f"{_METHOD}.adam_epsilon"),
        _number("max_grad_norm", 1.0, "Clip gradients to this norm; 0: no clipping.", f"{_METHOD}.max_grad_norm"),
        _number("warmup_step_ratio", 0.0, "Share of the updates used for warm-up.", f"{_METHOD}.warmup_ratio"),
        _switch(
            "no_cuda",
            "Train on the CPU.",
            state="fixed",
            decision="works; the original required a GPU even with this flag",
        ),
        _switch("overwrite_output_dir", "Remove the results of an earlier command first."),
        _switch("do_train", "Train; trainings that are already in the output folder are not repeated."),
        _switch(
            "do_eval",
            "Write predictions and scores.",
            state="fixed",
            decision="also works without --do_train, with the trainings that were saved in the output folder",
        ),
        Flag(
            "sampler_seeds",
            "whole",
            (10, 20, 30),
            "Seeds for the order of training examples, one per repetition.",
            several=True,
            key="task.sampler_seeds",
        ),
        _whole("seed", 42, "Seed for splits, new weights and dropout.", "task.seed"),
        _switch(
            "use_cloze",
            "Accepted without effect; the method decides whether a pattern is used.",
            state="fixed",
            decision="prints a note with sequence_classifier, which uses no pattern; the original failed",
        ),
        Flag(
            "pattern_ids",
            "whole",
            (0,),
            "Patterns; with ptuning the number of prompt tokens (default 1).",
            several=True,
            key="task.regime.patterns",
        ),
        _number(
            "alpha",
            0.9999,
            "Weight of PET's loss with --lm_training.",
            f"{_METHOD}.alpha",
            state="fixed",
            decision="with --lm_training the loss is alpha · PET + (1 - alpha) · MLM; if --alpha is not given, it is "
            "the plain sum of both, as in the original",
        ),
        _number(
            "temperature",
            2.0,
            "Temperature of the soft labels with --arch_method distillation.",
            "task.regime.temperature",
            state="fixed",
            decision="works with --arch_method distillation, which the original does not have; refused otherwise",
        ),
        Flag(
            "verbalizer_file",
            "text",
            None,
            "Not supported; causes an error.",
            state="refused",
            decision="put your own words in a task file: --task_name mine.yaml (`words:`)",
        ),
        Flag(
            "reduction",
            "text",
            "mean",
            "How to average the logits of teachers; wmean causes an error.",
            choices=("wmean", "mean"),
            state="refused",
            decision="only mean is supported; wmean needs the accuracy before training, which is not measured",
        ),
        Flag(
            "decoding_strategy",
            "text",
            "default",
            "Order in which several masks are filled.",
            choices=("default", "ltr", "parallel"),
            key=f"{_METHOD}.decoding_strategy",
        ),
    ),
    "Data": (
        _whole(
            "train_examples", -1, "Maximum number of labelled examples, drawn with --seed.", "task.labelled_examples"
        ),
        _whole("test_examples", -1, "Maximum number of test examples with --eval_set test.", "task.test_examples"),
        _whole(
            "dev32_examples",
            -1,
            "Not supported; causes an error.",
            state="refused",
            decision="dev examples come from the labelled ones; use --split_ratio and --cv_k",
        ),
        _whole("dev_examples", -1, "Maximum number of test examples with --eval_set dev.", "task.test_examples"),
        _whole("unlabeled_examples", -1, "Maximum number of unlabeled examples.", "task.unlabeled"),
        _switch(
            "split_examples_evenly",
            "Not supported; causes an error.",
            state="refused",
            decision="use --stratify to give every label the same share of train and of dev as of all examples",
        ),
        _whole("max_seq_length", 256, "Maximum number of tokens per text.", f"{_METHOD}.max_seq_length"),
        Flag("eval_set", "text", "dev", "Test on val.jsonl or on test.jsonl.", ("dev", "test"), key="task.test"),
        Flag(
            "aug_data_dir",
            "text",
            None,
            "File with further training examples.",
            key="task.extra",
            state="fixed",
            decision="works with every --arch_method; without --relabel_aug_data the original failed",
        ),
        _switch(
            "relabel_aug_data",
            "Let the teachers of each generation label these examples again.",
            key="task.relabel_extra",
        ),
    ),
    "Few-shot setting": (
        _number(
            "every_eval_ratio",
            0.02,
            "Share of the updates between two evaluations on dev.",
            f"{_METHOD}.eval_ratios",
            state="fixed",
            decision="refused if it is less than one update, except for the default 0.02, which then means every "
            "update; the original used the last weights",
        ),
        _whole("early_stop_epoch", 6, "Stop after this many evaluations without improvement.", f"{_METHOD}.patience"),
        Flag(
            "few_shot_setting",
            "text",
            "dev32_setting",
            "How the labelled examples are split.",
            choices=(*SETTINGS, *OWN_SETTINGS),
            key="task.splits.strategy",
            state="fixed",
            decision="all of them work; the original failed with fix_setting, and with two others for COPA and MultiRC",
        ),
        _whole("cv_k", 4, "Number of splits.", "task.splits.k"),
        _number("split_ratio", 0.5, "Share of the labelled examples to train on.", "task.splits.ratio"),
    ),
    "ADAPET": (
        _number("adapet_mask_alpha", 0.105, "Maximum share of a text that is masked.", f"{_METHOD}.adapet_mask_alpha"),
        _number(
            "adapet_balance_alpha",
            -1.0,
            "Weight of the loss of masked words; -1: plain sum of both losses.",
            f"{_METHOD}.adapet_balance_alpha",
        ),
        _whole(
            "max_num_lbl_tok", 20, "Maximum number of tokens of a choice or referent.", f"{_METHOD}.max_num_lbl_tok"
        ),
    ),
    "Priming": (
        _switch(
            "eval_priming",
            "Not supported; causes an error.",
            state="refused",
            decision="the original put all training examples before each text, which is too long for a model; "
            "for demonstrations in the prompt use the method icl of `lmassay run`",
        ),
        _switch("train_priming", "Not supported; causes an error.", state="refused", decision="see --eval_priming"),
        _whole("priming_num", None, "Not supported; causes an error.", state="refused", decision="see --eval_priming"),
    ),
    "P-tuning": (
        _number(
            "embedding_learning_rate", 1e-4, "Learning rate of the prompt.", key=f"{_METHOD}.embedding_learning_rate"
        ),
        _switch("use_continuous_prompt", "Accepted without effect; use --method ptuning."),
        Flag(
            "prompt_encoder_head_type",
            "text",
            "raw",
            "Network that computes the prompt vectors.",
            choices=("raw", "lstm", "mlp"),
            key=f"{_METHOD}.prompt_encoder_head_type",
        ),
    ),
    "iPET and noisy student": (
        _whole("generations", 3, "Number of generations.", "task.regime.generations"),
        _number("ipet_logits_percentage", 0.25, "Share of the teachers used.", "task.regime.logits_percentage"),
        _number(
            "ipet_scale_factor",
            5.0,
            "Factor by which the training set grows in each generation.",
            "task.regime.scale_factor",
        ),
        _whole(
            "ipet_n_most_likely",
            -1,
            "For the second generation, the number of most likely examples per label to draw from; -1: draw from all "
            "examples that the teachers give this label.",
            "task.regime.n_most_likely",
        ),
        _switch(
            "use_brother_fold_logits",
            "Use teachers from all splits, not only from the same one.",
            key="task.regime.cross",
        ),
        _switch("use_dropout", "Drop features of word embeddings in training.", key=f"{_METHOD}.spatial_dropout"),
        _number("dropout_rate", 0.05, "Share of the features to drop.", "task.regime.dropout_rate"),
    ),
    "Language modelling and DeBERTa": (
        _switch(
            "fix_deberta", "Freeze DeBERTa's embeddings, head and first third of layers.", key=f"{_METHOD}.fix_deberta"
        ),
        _switch("lm_training", "Add masked language modelling on unlabeled examples.", key=f"{_METHOD}.lm_training"),
    ),
    "Beyond FewNLU": (
        _switch("reference", "Repeat FewNLU's training loop exactly, including its extra update."),
        _switch("with_dev32", "Split train.jsonl and dev32.jsonl together (FewGLUE's 64 examples)."),
        _switch(
            "stratify",
            "Give every label the same share of train and of dev as of all examples.",
            key="task.splits.stratify",
        ),
        _switch("grouped", "Keep passages, premises and questions together.", key="task.splits.grouped"),
        Flag(
            "keep",
            "text",
            "best",
            "Keep trained models in OUTPUT_DIR/lmassay/models: best weights or none.",
            choices=("best", "none"),
            key="task.keep",
        ),
        Flag("final_results", "text", "final_results", "Folder for the file with one line per command."),
    ),
}

BY_NAME: Mapping[str, Flag] = {flag.name: flag for flags in FLAGS.values() for flag in flags}


def decisions() -> list[tuple[str, State, str]]:
    """(flag, state, decision) of every flag that had no effect in FewNLU or made it fail."""
    return [(f"--{flag.name}", flag.state, flag.decision) for flag in BY_NAME.values() if flag.state != "works"]
