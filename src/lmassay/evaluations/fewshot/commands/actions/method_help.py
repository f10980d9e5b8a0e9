"""What ``lmassay methods NAME`` prints: the options of a method, and an example of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lmassay.plugins.option_help import ComponentHelp, options_of, required_values, section_text, with_meanings

# The meanings of options that several of lmassay's own methods have.
_MEANINGS = {
    "max_seq_length": "maximum number of tokens per text",
    "max_steps": "number of updates",
    "epochs": "number of passes over the training examples; replaces max_steps",
    "batch_size": "examples per update",
    "micro_batch": "examples per forward pass",
    "eval_batch": "examples per forward pass during evaluation",
    "learning_rate": "initial learning rate; it decreases linearly to 0",
    "weight_decay": "weight decay",
    "adam_epsilon": "Adam's epsilon",
    "warmup_ratio": "share of the updates used for warm-up",
    "max_grad_norm": "clip gradients to this norm; 0: no clipping",
    "eval_ratios": "share of the updates between two evaluations on dev; one training serves several values",
    "patience": "stop after this number of evaluations without improvement",
    "optimiser": "auto: adamw, or hf_adamw with reference; hf_adamw is the AdamW of transformers 4.5.1",
    "temperature": "temperature of soft labels",
    "spatial_dropout": "share of embedding dimensions dropped in training",
    "fix_deberta": "freeze DeBERTa's embeddings, head and first third of the layers",
    "reference": "use FewNLU's training loop exactly",
    "pattern": "number of the task's pattern, counted from 0",
    "decoding_strategy": (
        "order in which several masks are filled: most confident first (default), left to right (ltr), or all at once "
        "(parallel)"
    ),
}
# By method: the meanings of options that only this method has, or that mean something else in this method.
_OWN_MEANINGS = {
    "pet": {
        "lm_training": "add masked language modelling on unlabelled examples",
        "alpha": "weight of PET's loss with lm_training; sum: plain sum of both losses",
        "unlabeled_batch_size": "unlabelled examples per update; by default batch_size",
    },
    "adapet": {
        "adapet_mask_alpha": "maximum share of a text that is masked",
        "adapet_balance_alpha": "weight of the loss of masked words; -1: plain sum of both losses",
        "max_num_lbl_tok": "maximum number of tokens of a choice or referent",
        "draw_seed": "seed for the labels and words that are drawn; by default the seed of the training",
        "continue_draws": "seed the draws once for all trainings of a run, as FewNLU does",
    },
    "ptuning": {
        "pattern": "number of prompt tokens",
        "prompt_encoder_head_type": (
            "learn the prompt vectors themselves (raw), or a network that computes them (lstm, mlp)"
        ),
        "embedding_learning_rate": "learning rate of the prompt",
    },
    "prompt_tuning": {
        "pattern": "number of the task's pattern, counted from 0; with place: slots, the number of prompt tokens",
        "n_tokens": "number of prompt tokens with place: front",
        "place": "front: before the text; slots: where P-tuning's patterns have prompt tokens",
        "start": "prompt tokens start as words of the vocabulary, or as the words of the labels",
    },
    "lora": {
        "r": "rank of the added matrices",
        "alpha": "the added matrices are scaled by alpha / r",
        "dropout": "dropout in the added matrices",
        "target_modules": "names of the layers to adapt; by default the projections for queries and values",
        "head": "cloze: label words; classifier: a new classification head",
    },
    "sentence_encoder": {
        "encoder": "a folder or fetched hub name; by default all-MiniLM-L6-v2",
        "pair_generations": "pairs per text with the same label, and as many with another; 0: no tuning",
        "epochs": "number of passes over the pairs",
        "batch_size": "pairs per update",
        "l2": "strength of the penalty of the logistic regression",
        "device": "where the encoder runs, such as cpu or cuda",
        "threads": "number of CPU threads",
    },
    "icl": {
        "shots": "number of examples in the prompt",
        "answer_by": "how the label is found; auto: the first way that the model supports",
        "per_token": "with answer_by: logprobs, divide log-probabilities by the number of tokens",
        "max_tokens": "maximum number of tokens per answer",
    },
}


def method_help(name: str, factory: Callable[..., Any]) -> ComponentHelp:
    """Explain a few-shot method. In a configuration it is an option of the task."""
    method = {"name": name, **required_values(factory)}
    task = {"name": "fewshot", "data": "superglue/rte", "method": method}
    options = options_of(factory)
    if factory.__module__.startswith("lmassay."):
        options = with_meanings(options, _MEANINGS | _OWN_MEANINGS.get(name, {}))
    return ComponentHelp(options, section_text("task", task))
