"""Find out what an architecture can do by trying it on a few tokens.

A list of architectures would be out of date soon: there are many, and their code in transformers changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from lmassay.models.hf.batches import Tokens, logits_at, padded_at_left
from lmassay.models.hf.prefix_tree import BatchLayout, DecodingTree, PrefixReader, greedy_search_in

Probe = Callable[[Any, torch.device], bool]

# The token that is chosen at every step, with padding and in a tree, whatever the logits are. Any token will do.
_FORCED_TOKEN = 19
# What an architecture raises if it does not support an input.
_UNSUPPORTED = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, NotImplementedError)


def _false_if_unsupported(probe: Probe) -> Probe:
    """Make a probe return False for a model that raises an error: it does not have the capability."""

    @wraps(probe)
    def tried(model: Any, device: torch.device) -> bool:
        try:
            return probe(model, device)
        except _UNSUPPORTED:
            return False

    return tried


@_false_if_unsupported
def can_read_trees(model: Any, device: torch.device) -> bool:
    """Whether the model can read a prefix tree: sequences have the same logits in a tree as each by itself."""
    rows = _within_vocabulary(model, (7, 11, 5), (7, 11, 13, 17))
    layout = PrefixReader(model, device).layout(rows, [0, 0], use_cache=False)
    return _agree(model, _last_logits(model, layout, rows), _logits_one_by_one(model, device, rows))


@_false_if_unsupported
def can_cache_paths(model: Any, device: torch.device) -> bool:
    """Whether a tree can follow a cached prefix: its sequences have the same logits as each by itself.

    This fails for layers that forget distant tokens or fold them into a state: their cache cannot be cut and copied.
    """
    # Any tokens will do. All sequences begin with the same two, which are then read from the cache.
    first, *rows = _within_vocabulary(model, (7, 11, 5, 3), (7, 11, 13), (7, 11, 13, 17, 2))
    input_ids = torch.tensor([first], device=device)
    with torch.inference_mode():
        own_cache = model(input_ids=input_ids, use_cache=True).past_key_values
    # Compared by type, because sliding-window layers are subclasses, and these forget tokens.
    if type(own_cache) is not DynamicCache:
        return False
    for layer in own_cache.layers:
        if type(layer) is not DynamicLayer:
            return False
    reader = PrefixReader(model, device, min_prefix=1)
    first_layout = reader.layout([first], [0], use_cache=True)
    logits_at(model, first_layout.inputs, [(0, 0)])
    reader.remember(first_layout, first)
    # Of both sequences, logits are needed from position 2 on, so the first two tokens can come from the cache.
    layout = reader.layout(rows, [2, 2], use_cache=True)
    if layout.tree is None or layout.tree.cached != 2:
        return False
    logits = _last_logits(model, layout, rows)
    expected = _logits_one_by_one(model, device, rows)
    return _agree(model, logits, expected)


@_false_if_unsupported
def can_decode_in_trees(model: Any, device: torch.device) -> bool:
    """Whether the model can generate text in a tree of prompts: the logits are the same as after padded prompts."""
    rows = _within_vocabulary(model, (7, 11, 5, 3), (7, 11, 13), (7, 11, 13, 17, 2))
    inputs = padded_at_left(rows, device)
    tree = DecodingTree(PrefixReader(model, device, min_prefix=1), model, device, rows, nodes=4)
    usual = _forced_logits(model, inputs)
    in_tree = _forced_logits(model, inputs, custom_generate=greedy_search_in(tree, 0))
    return _agree(model, in_tree, usual)


def _forced_logits(model: Any, inputs: dict[str, torch.Tensor], **options: Any) -> torch.Tensor:
    """The logits of three steps of generation, each of which chooses the same token whatever the logits are."""
    steps: list[torch.Tensor] = []

    def record(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        steps.append(scores)
        forced = torch.full_like(scores, -1.0)
        forced[:, _FORCED_TOKEN % scores.shape[1]] = 1.0
        return forced

    greedy = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    with torch.inference_mode():
        model.generate(
            **inputs,
            **greedy,
            **options,
            max_new_tokens=3,
            pad_token_id=0,
            eos_token_id=None,
            logits_processor=[record],
        )
    return torch.stack(steps)


def _within_vocabulary(model: Any, *rows: Tokens) -> list[Tokens]:
    """The given sequences, sorted, with every token reduced to one that the model's vocabulary has."""
    size = int(model.config.get_text_config().vocab_size)
    usable_rows = []
    for row in rows:
        usable_rows.append(tuple(token % size for token in row))
    return sorted(usable_rows)


def _last_logits(model: Any, layout: BatchLayout, rows: Sequence[Tokens]) -> torch.Tensor:
    cells = [layout.cell(number, len(row) - 1) for number, row in enumerate(rows)]
    return logits_at(model, layout.inputs, cells)


def _logits_one_by_one(model: Any, device: torch.device, rows: Sequence[Tokens]) -> torch.Tensor:
    logits = []
    for row in rows:
        inputs = {"input_ids": torch.tensor([row], device=device)}
        logits.append(logits_at(model, inputs, [(0, len(row) - 1)]))
    return torch.cat(logits)


def _agree(model: Any, logits: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two computations of the same logits agree, up to the precision of the model's number format."""
    if logits.shape != expected.shape:
        return False
    # The model's own settings may rule out tokens, with a logit of minus infinity in both.
    logits = torch.nan_to_num(logits.float(), nan=math.nan, neginf=0.0)
    expected = torch.nan_to_num(expected.float(), nan=math.nan, neginf=0.0)
    tolerance = 1e-3 if model.dtype == torch.float32 else 0.1
    scale = max(1.0, float(expected.abs().max()))
    return bool((logits - expected).abs().max() <= tolerance * scale)
