"""The language-model head in two steps, so that it can be run at chosen positions and for chosen words only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import gelu

from lmassay.errors import DataError

Step = Callable[[torch.Tensor], torch.Tensor]


class _FewRows(torch.autograd.Function):  # type: ignore[misc]  # torch is Any where it is not installed
    """Some rows of the input embeddings, their gradient told by these rows alone.

    As a whole matrix, nearly all zeros, it would cost as much as that of all words of the text; it is added to that.
    """

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        ctx.rows, ctx.shape = rows, weight.shape
        return weight[rows]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return torch.sparse_coo_tensor(ctx.rows.unsqueeze(0), gradients[0], ctx.shape, check_invariants=False), None


@dataclass(frozen=True, slots=True)
class Head:
    """What stands between the last hidden state and the vocabulary: a transformation, then one row a word."""

    transform: Step
    weight: Callable[[], torch.Tensor]
    bias: Callable[[], torch.Tensor | None]
    finish: Step
    """What some families do to the logits at last."""

    def logits(
        self, states: torch.Tensor, rows: torch.Tensor | None = None, inputs: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The logits of all words, or of those whose ids are given in a vector.

        ``inputs`` are the input embeddings, which get a gradient through the text in any case.
        """
        weight, bias = self.weight(), self.bias()
        if rows is not None:
            few = _FewRows.apply(weight, rows) if weight is inputs else weight[rows]
            weight, bias = few, None if bias is None else bias[rows]
        return self.finish(torch.nn.functional.linear(self.transform(states), weight, bias))


def masked_head(model: Any) -> Head:
    """The head of a masked language model, by the names under which its family keeps the parts."""
    if _has(model, "cls.predictions.transform"):  # BERT and its kin, DeBERTa as transformers saves it
        return _linear(model.cls.predictions.transform, model.cls.predictions.decoder)
    if _has(model, "lm_predictions.lm_head.LayerNorm"):  # DeBERTa as Microsoft saves it: the words' own embeddings
        part = model.lm_predictions.lm_head
        words = model.get_input_embeddings()
        return Head(
            lambda states: part.LayerNorm(part.transform_act_fn(part.dense(states))),
            lambda: words.weight,
            lambda: part.bias,
            _as_is,
        )
    if _has(model, "lm_head.layer_norm"):  # RoBERTa and its kin
        part = model.lm_head
        return _linear(lambda states: part.layer_norm(gelu(part.dense(states))), part.decoder)
    if _has(model, "predictions.LayerNorm"):  # ALBERT
        part = model.predictions
        return _linear(lambda states: part.LayerNorm(part.activation(part.dense(states))), part.decoder)
    if _has(model, "generator_predictions"):  # ELECTRA's generator
        return _linear(model.generator_predictions, model.generator_lm_head)
    if _has(model, "vocab_transform"):  # DistilBERT
        return _linear(
            lambda states: model.vocab_layer_norm(model.activation(model.vocab_transform(states))),
            model.vocab_projector,
        )
    if _has(model, "head.norm") and _has(model, "decoder"):  # ModernBERT
        return _linear(model.head, model.decoder)
    raise DataError(
        f"the head of a {model.config.model_type} model is not known here; take BERT, RoBERTa, ALBERT, DeBERTa, "
        "ELECTRA's generator, DistilBERT or ModernBERT, or a causal language model"
    )


def causal_head(model: Any) -> Head:
    """The head of a causal language model: the output embeddings, for some families capped or scaled."""
    config = model.config.get_text_config()
    cap = getattr(config, "final_logit_softcapping", None)
    times = getattr(config, "logit_scale", None) or 1.0 / (getattr(config, "logits_scaling", None) or 1.0)

    def finish(logits: torch.Tensor) -> torch.Tensor:
        logits = logits if times == 1.0 else logits * times
        return logits if cap is None else torch.tanh(logits / cap) * cap

    return _linear(_as_is, model.get_output_embeddings(), finish)


def _as_is(states: torch.Tensor) -> torch.Tensor:
    return states


def _linear(transform: Step, last: Any, finish: Step = _as_is) -> Head:
    # Looked up at every use: LoRA and tied embeddings may put another tensor there.
    return Head(transform, lambda: last.weight, lambda: getattr(last, "bias", None), finish)


def _has(model: Any, path: str) -> bool:
    for name in path.split("."):
        model = getattr(model, name, None)
        if model is None:
            return False
    return True
