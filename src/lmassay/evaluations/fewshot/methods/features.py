"""What a model makes of texts before it is taught, as vectors: model-informed splits part examples by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.batches import collate
from lmassay.evaluations.fewshot.methods.learner import Item
from lmassay.evaluations.fewshot.methods.network import open_network
from lmassay.evaluations.fewshot.methods.weights import seeded
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

_MOST_TOKENS = 128
_AT_ONCE = 16


def features_of(model: Any, task: NluTask, examples: Sequence[InputExample]) -> NDArray[np.float64]:
    """The mean of the last hidden states over an example's plain text, one row an example."""
    if model is None or "train" not in getattr(model, "can", ()):
        raise ConfigError("task.splits.strategy: model_informed splits are made by a local model; give one")
    net = open_network(model)
    texts = [f"{example.text_a} {example.text_b or ''}".strip() for example in examples]
    ids = [net.tokenizer(text, truncation=True, max_length=_MOST_TOKENS)["input_ids"] for text in texts]
    rows = []
    net.module.eval()
    with torch.no_grad(), seeded(0, net.device, net.threads):
        for start in range(0, len(ids), _AT_ONCE):
            items = [Item(found, [0] * len(found)) for found in ids[start : start + _AT_ONCE]]
            batch = collate(items, net.pad_id, net.device)
            states = net.backbone(**net.inputs(batch)).last_hidden_state
            weights = batch.attention.unsqueeze(-1).to(states.dtype)
            rows.append(((states * weights).sum(1) / weights.sum(1)).double().cpu().numpy())
    return np.concatenate(rows)
