"""Only the positions that are asked about go through the vocabulary head, which can be a third of a small model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def only_positions(model: Any, rows: torch.Tensor, positions: torch.Tensor) -> Iterator[None]:
    """While this is open, the model's logits have shape (1, number of positions, vocabulary).

    It narrows what the body of the model hands to its head, whatever the family calls them.
    """

    def narrow(module: Any, arguments: Any, output: Any) -> Any:
        hidden = output[0][rows, positions].unsqueeze(0)
        if isinstance(output, tuple):
            return (hidden, *output[1:])
        return type(output)(**{**output, "last_hidden_state": hidden})

    handle = model.base_model.register_forward_hook(narrow)
    try:
        yield
    finally:
        handle.remove()
