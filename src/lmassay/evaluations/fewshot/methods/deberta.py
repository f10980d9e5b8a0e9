"""DeBERTa-v2 and v3 as masked language models.

They fill masks with the enhanced mask decoder of their pre-training (He et al. 2021). FewNLU also trains them with
frozen parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

FAMILY = "deberta-v2"


def is_deberta(network: Any) -> bool:
    """Whether a masked language model is a DeBERTa-v2 or v3."""
    config = getattr(network, "config", None)
    return getattr(config, "model_type", None) == FAMILY and hasattr(network, "deberta")


def has_trained_head(network: Any) -> bool:
    """Whether the network has the head of the published weights (``lm_predictions``).

    The enhanced mask decoder was trained with this head. With ``legacy=True``, transformers creates another one
    (``cls.predictions``), whose weights are not in the published files.
    """
    return hasattr(network, "lm_predictions")


def lm_hidden(network: Any, inputs: Mapping[str, Any]) -> torch.Tensor:
    """The output of the enhanced mask decoder, which the language-model head reads: rows × positions × width.

    The last layer is applied twice: first to the states before it, then with its own output as queries, while keys and
    values still come from the states before it (He et al. 2021, section 3.2). If the model has absolute positions, they
    are added to the first queries.
    """
    body = network.deberta
    states = body(**{**inputs, "output_hidden_states": True, "return_dict": True}).hidden_states
    before = states[-2]
    after = states[-1]
    encoder = body.encoder
    last = encoder.layer[-1]
    mask = inputs.get("attention_mask")
    if mask is None:
        mask = torch.ones(before.shape[:2], device=before.device, dtype=torch.long)
    context = {
        "attention_mask": encoder.get_attention_mask(mask),
        "relative_pos": encoder.get_rel_pos(before),
        "rel_embeddings": encoder.get_rel_embedding(),
    }
    positions = _absolute_positions(body.embeddings, inputs, before.shape[1])
    # The convolution follows the first layer; if that is also the last one, the encoder's output includes it.
    convolution_at_end = encoder.conv is not None and len(encoder.layer) == 1
    if positions is None and not convolution_at_end:
        # Without absolute positions the first pass equals the encoder's output, so it is not computed again.
        first = after
    else:
        queries = before if positions is None else before + positions
        first = last(before, query_states=queries, **context)[0]
    second: torch.Tensor = last(before, query_states=first, **context)[0]
    return second


def _absolute_positions(embeddings: Any, inputs: Mapping[str, Any], length: int) -> torch.Tensor | None:
    """The vectors of the absolute positions; None if the model has none."""
    if embeddings.position_embeddings is None:
        return None
    ids = inputs.get("position_ids")
    if ids is None:
        ids = embeddings.position_ids[:, :length]
    vectors = embeddings.position_embeddings(ids)
    if embeddings.embed_proj is not None:
        vectors = embeddings.embed_proj(vectors)
    return vectors


def lm_logits(network: Any, hidden: torch.Tensor) -> torch.Tensor:
    """The logits that the head computes from hidden states; all dimensions but the last may have any size."""
    if has_trained_head(network):
        logits: torch.Tensor = network.lm_predictions(hidden, network.get_input_embeddings())
    else:
        logits = network.cls(hidden)
    return logits


def summed_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """DeBERTa's masked-language-model loss in FewNLU: a sum over tokens, in which targets of 0 and below do not count.

    The loss of all other families is a mean, in which padding counts like any other target.
    """
    counted = targets > 0
    loss: torch.Tensor = torch.nn.functional.cross_entropy(logits[counted], targets[counted].long(), reduction="sum")
    return loss


def freeze(network: Any) -> list[str]:
    """Freeze word embeddings, language-model head and the first third of the layers; returns the frozen names."""
    parts: list[Any] = [network.get_input_embeddings()]
    layers = network.deberta.encoder.layer
    parts += layers[: len(layers) // 3]
    # A sequence classifier has neither of these heads.
    if hasattr(network, "lm_predictions"):
        parts.append(network.lm_predictions.lm_head)
    elif hasattr(network, "cls"):
        parts.append(network.cls)
    for part in parts:
        part.requires_grad_(False)
    return [name for name, parameter in network.named_parameters() if not parameter.requires_grad]
