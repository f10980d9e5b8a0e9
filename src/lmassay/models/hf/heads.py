"""Only the positions that are asked about go through the vocabulary head, which can be a third of a small model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


def logits_at(model: Any, inputs: Mapping[str, Any], cells: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The logits at each (line, position) of a batch: number of cells × vocabulary.

    What reaches the last layer, the one as wide as the vocabulary, is narrowed on its way in, whatever the family calls
    it. A model that computes its logits in another way gives all of them, and the cells are picked afterwards.
    """
    lines, positions = (torch.tensor(part, device=model.device) for part in zip(*cells, strict=True))
    narrowed = False

    def narrow(module: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        nonlocal narrowed
        if not arguments or arguments[0].dim() != 3:
            return None
        narrowed = True
        return (arguments[0][lines, positions].unsqueeze(0), *arguments[1:])

    head = model.get_output_embeddings()
    hook = None if head is None else head.register_forward_pre_hook(narrow)
    try:
        with torch.inference_mode():
            logits: torch.Tensor = model(**inputs).logits
    finally:
        if hook is not None:
            hook.remove()
    return logits[0] if narrowed else logits[lines, positions]
