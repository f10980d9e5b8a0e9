"""FewNLU's flags as they are (names, defaults, choices), and what became of those that had no effect there.

``WORKS`` flags do what their names say. ``MENDED`` ones were accepted by the original without effect, or broke it, and
work here. ``REFUSED`` ones are accepted by the parser, and given on a command line they end it with a reason: a run
must not look as if it had done what it did not do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["text", "whole", "number", "switch"]
State = Literal["works", "mended", "refused"]
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
    """One flag. ``key`` is the key of an lmassay configuration that it sets, where it is a single one."""

    name: str
    kind: Kind
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    several: bool = False
    key: str = ""
    state: State = "works"
    decision: str = ""
    """For flags that are mended or refused: what is done, and why."""


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
"""FewNLU's words for families → what the model's own configuration may say; other families go by the latter."""

_METHOD = "task.method"


def _number(name: str, default: float, text: str, key: str = "", **more: Any) -> Flag:
    return Flag(name, "number", default, text, key=key, **more)


def _whole(name: str, default: int | None, text: str, key: str = "", **more: Any) -> Flag:
    return Flag(name, "whole", default, text, key=key, **more)


def _switch(name: str, text: str, **more: Any) -> Flag:
    return Flag(name, "switch", False, text, **more)


FLAGS: Mapping[Group, tuple[Flag, ...]] = {
    "Required": (
        Flag("method", "text", None, "What is trained and how.", METHODS, key=_METHOD),
        Flag(
            *("arch_method", "text", None, "How trainings build upon each other."),
            choices=(*ARCHITECTURES, *OWN_ARCHITECTURES),
            key="task.regime",
        ),
        Flag("data_dir", "text", None, "Folder with train.jsonl, val.jsonl …", key="task.data_dir"),
        Flag("model_type", "text", None, "Family of the model: albert, bert, roberta, deberta, electra, gpt2, llama …"),
        Flag("model_name_or_path", "text", None, "Folder, .gguf file or fetched hub name.", key="model.model"),
        Flag("dataset_name", "text", None, "superglue, glue, or a .py file with tasks of your own."),
        Flag("task_name", "text", None, "rte, cb, mrpc …, or a .yaml file that describes a task.", key="task.data"),
        Flag("output_dir", "text", None, "Folder for the results."),
    ),
    "Training": (
        _whole("repetitions", 1, "Trainings a split and pattern, each in another order.", "task.regime.repetitions"),
        _whole("per_gpu_train_batch_size", 4, "Examples in the network at once.", f"{_METHOD}.micro_batch"),
        _whole("per_gpu_eval_batch_size", 8, "The same when it is tested.", f"{_METHOD}.eval_batch"),
        _whole("per_gpu_unlabeled_batch_size", 4, "The same for --lm_training.", f"{_METHOD}.unlabeled_batch_size"),
        _whole("gradient_accumulation_steps", 1, "Micro-batches an update.", f"{_METHOD}.batch_size"),
        _number("num_train_epochs", 3, "Epochs, where --max_steps is not above 0.", f"{_METHOD}.epochs"),
        _whole("max_steps", -1, "Updates.", f"{_METHOD}.max_steps"),
        Flag("cache_dir", "text", "", "Hub cache in which a model's name is looked up."),
        _number("learning_rate", 1e-5, "The first learning rate.", f"{_METHOD}.learning_rate"),
        _number("weight_decay", 0.01, "Weight decay.", f"{_METHOD}.weight_decay"),
        _number("adam_epsilon", 1e-8, "Adam's epsilon.", f"{_METHOD}.adam_epsilon"),
        _number("max_grad_norm", 1.0, "Longer gradients are cut; 0 for never.", f"{_METHOD}.max_grad_norm"),
        _number("warmup_step_ratio", 0.0, "Share of the updates to warm up in.", f"{_METHOD}.warmup_ratio"),
        _switch(
            "no_cuda",
            "Train on the CPU.",
            state="mended",
            decision="works; the original asked for a GPU regardless",
        ),
        _switch("overwrite_output_dir", "Remove an earlier command's results first."),
        _switch("do_train", "Train; what is in the folder's store already is not trained again."),
        _switch(
            "do_eval",
            "Write predictions and scores.",
            state="mended",
            decision="works without --do_train, too, from the trainings in the folder's store",
        ),
        Flag(
            *("sampler_seeds", "whole", (10, 20, 30), "Orders of the training examples, one a repetition."),
            several=True,
            key="task.sampler_seeds",
        ),
        _whole("seed", 42, "Splits, new weights, dropout.", "task.seed"),
        _switch(
            "use_cloze",
            "Accepted; the method says whether there is a pattern.",
            state="mended",
            decision="noted with sequence_classifier, whose texts have no gap; the original stopped at an assertion",
        ),
        Flag(
            *("pattern_ids", "whole", (0,), "Patterns; with ptuning the number of prompt tokens (1 if left out)."),
            several=True,
            key="task.regime.patterns",
        ),
        _number(
            *("alpha", 0.9999, "Weight of PET's loss beside --lm_training.", f"{_METHOD}.alpha"),
            state="mended",
            decision="given with --lm_training: alpha · PET + (1 - alpha) · MLM; left out, the original's plain sum",
        ),
        _number(
            *("temperature", 2.0, "Of the soft labels of --arch_method distillation.", "task.regime.temperature"),
            state="mended",
            decision="works with --arch_method distillation, which the original lacks; refused elsewhere",
        ),
        Flag(
            *("verbalizer_file", "text", None, "Refused."),
            state="refused",
            decision="words of your own stand in a task file: --task_name mine.yaml (`words:`)",
        ),
        Flag(
            *("reduction", "text", "mean", "How teachers' logits are merged.", ("wmean", "mean")),
            state="refused",
            decision="mean is what is done; wmean weighs by the accuracy before training, which nothing measures",
        ),
        Flag(
            *("decoding_strategy", "text", "default", "Order in which several masks are filled."),
            choices=("default", "ltr", "parallel"),
            key=f"{_METHOD}.decoding_strategy",
        ),
    ),
    "Data": (
        _whole("train_examples", -1, "Labelled examples at most, drawn by --seed.", "task.labelled_examples"),
        _whole("test_examples", -1, "Examples at most with --eval_set test.", "task.test_examples"),
        _whole(
            *("dev32_examples", -1, "Refused."),
            state="refused",
            decision="the dev examples are split off the labelled ones; --split_ratio and --cv_k say how many",
        ),
        _whole("dev_examples", -1, "Examples at most with --eval_set dev.", "task.test_examples"),
        _whole("unlabeled_examples", -1, "Unlabeled examples at most.", "task.unlabeled"),
        _switch(
            "split_examples_evenly",
            "Refused.",
            state="refused",
            decision="labels in equal shares: --stratify",
        ),
        _whole("max_seq_length", 256, "Tokens of a text.", f"{_METHOD}.max_seq_length"),
        Flag("eval_set", "text", "dev", "Test on val.jsonl or on test.jsonl.", ("dev", "test"), key="task.test"),
        Flag(
            *("aug_data_dir", "text", None, "File with further training examples."),
            key="task.extra",
            state="mended",
            decision="works with every --arch_method; without --relabel_aug_data the original broke off",
        ),
        _switch("relabel_aug_data", "Let the teachers of iPET label them anew.", key="task.relabel_extra"),
    ),
    "Few-shot setting": (
        _number(
            *("every_eval_ratio", 0.02, "Share of the updates between two looks at dev.", f"{_METHOD}.eval_ratios"),
            state="mended",
            decision="refused where it comes to less than one update; the original then took the last weights",
        ),
        _whole("early_stop_epoch", 6, "Looks without a better score that end a training.", f"{_METHOD}.patience"),
        Flag(
            *("few_shot_setting", "text", "dev32_setting", "How the labelled examples are split."),
            choices=(*SETTINGS, *OWN_SETTINGS),
            key="task.splits.strategy",
            state="mended",
            decision="all of them work; fix_setting, and COPA and MultiRC in two settings, broke in the original",
        ),
        _whole("cv_k", 4, "Splits.", "task.splits.k"),
        _number("split_ratio", 0.5, "Share that is trained on.", "task.splits.ratio"),
    ),
    "ADAPET": (
        _number("adapet_mask_alpha", 0.105, "Share of a text hidden at most.", f"{_METHOD}.adapet_mask_alpha"),
        _number(
            *("adapet_balance_alpha", -1.0, "Share of the word loss; -1: plain sum.", f"{_METHOD}.adapet_balance_alpha")
        ),
        _whole("max_num_lbl_tok", 20, "Tokens of a choice or referent that count.", f"{_METHOD}.max_num_lbl_tok"),
    ),
    "Priming": (
        _switch(
            "eval_priming",
            "Refused.",
            state="refused",
            decision="the original put all training examples before each text, which no window holds; "
            "demonstrations in the prompt are the method icl of `lmassay run`",
        ),
        _switch("train_priming", "Refused.", state="refused", decision="as --eval_priming"),
        _whole("priming_num", None, "Refused.", state="refused", decision="as --eval_priming"),
    ),
    "P-tuning": (
        _number(
            *("embedding_learning_rate", 1e-4, "Learning rate of the prompt."), key=f"{_METHOD}.embedding_learning_rate"
        ),
        _switch("use_continuous_prompt", "Accepted; --method ptuning says it."),
        Flag(
            *("prompt_encoder_head_type", "text", "raw", "What makes the prompt's vectors."),
            choices=("raw", "lstm", "mlp"),
            key=f"{_METHOD}.prompt_encoder_head_type",
        ),
    ),
    "iPET and noisy student": (
        _whole("generations", 3, "Generations.", "task.regime.generations"),
        _number("ipet_logits_percentage", 0.25, "Share of the teachers asked.", "task.regime.logits_percentage"),
        _number("ipet_scale_factor", 5.0, "Growth of the training set.", "task.regime.scale_factor"),
        _whole("ipet_n_most_likely", -1, "Take so many likeliest of each label.", "task.regime.n_most_likely"),
        _switch("use_brother_fold_logits", "Let all splits teach (cross).", key="task.regime.cross"),
        _switch("use_dropout", "Drop features of words in training.", key=f"{_METHOD}.spatial_dropout"),
        _number("dropout_rate", 0.05, "So many of them.", "task.regime.dropout_rate"),
    ),
    "Language modelling and DeBERTa": (
        _switch("fix_deberta", "Freeze DeBERTa's words, head and first third.", key=f"{_METHOD}.fix_deberta"),
        _switch("lm_training", "Go on with masked words of unlabeled examples.", key=f"{_METHOD}.lm_training"),
    ),
    "Beyond FewNLU": (
        _switch("reference", "Repeat FewNLU's loop to the letter, an update too many included."),
        _switch("with_dev32", "Split train.jsonl and dev32.jsonl together (FewGLUE's 64 examples)."),
        _switch("stratify", "Give every label its share of train and dev.", key="task.splits.stratify"),
        _switch("grouped", "Part no passage, premise or question.", key="task.splits.grouped"),
        Flag("final_results", "text", "final_results", "Folder of the file with a line a command."),
    ),
}

BY_NAME: Mapping[str, Flag] = {flag.name: flag for flags in FLAGS.values() for flag in flags}


def decisions() -> list[tuple[str, State, str]]:
    """(flag, state, what is done and why) of every flag that the original accepted in vain."""
    return [(f"--{flag.name}", flag.state, flag.decision) for flag in BY_NAME.values() if flag.state != "works"]
