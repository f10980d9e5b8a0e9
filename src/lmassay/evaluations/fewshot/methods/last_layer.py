"""The last layer of a BERT-like network, computed only where it is read: a cloze needs the state at its mask alone.

The other layers are needed everywhere, for the last one reads them all. Of a network with 12 layers this saves about
7 % of the work, of one with 4 a fifth; the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert", "electra")


def last_layer(module: Any) -> Any | None:
    """The layer, where it is built as BERT's is; None for other families."""
    config = module.config
    if config.model_type not in FAMILIES or getattr(config, "_attn_implementation", None) not in ("sdpa", "eager"):
        return None
    return getattr(getattr(module.base_model, "encoder", None), "layer", [None])[-1]


@contextmanager
def only_at(layer: Any, places: torch.Tensor) -> Iterator[None]:
    """Inside, the layer gives one position a row: that in ``places``."""
    layer.forward = partial(_forward, layer, places)
    try:
        yield
    finally:
        del layer.forward  # the class's own shows again


def _forward(
    layer: Any, places: torch.Tensor, states: torch.Tensor, mask: torch.Tensor | None = None, *_: Any, **__: Any
) -> torch.Tensor:
    attention = layer.attention.self
    rows = torch.arange(len(states), device=states.device)
    chosen = states[rows, places].unsqueeze(1)
    if mask is not None and mask.shape[2] > 1:
        mask = mask[rows, :, places].unsqueeze(2)
    queries, keys, values = (
        part(read).view(len(states), -1, attention.num_attention_heads, attention.attention_head_size).transpose(1, 2)
        for part, read in ((attention.query, chosen), (attention.key, states), (attention.value, states))
    )
    mixed = torch.nn.functional.scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask=mask,
        dropout_p=attention.dropout.p if attention.training else 0.0,
        scale=attention.scaling,
    )
    attended = layer.attention.output(mixed.transpose(1, 2).flatten(2), chosen)
    found: torch.Tensor = layer.feed_forward_chunk(attended)
    return found
