"""What an architecture can do is tried out on a few tokens, not looked up: families are many and their code changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from lmassay.models.hf.batches import Tokens, logits_at, padded_at_left
from lmassay.models.hf.prefix_tree import BatchLayout, DecodingTree, PrefixReader, search_along

# Any token does: it is the same in both ways of generating, whatever the logits are.
_FORCED = 19
Probe = Callable[[Any, torch.device], bool]
_REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, NotImplementedError)


def _or_not(probe: Probe) -> Probe:
    """A model that refuses cannot."""

    @wraps(probe)
    def tried(model: Any, device: torch.device) -> bool:
        try:
            return probe(model, device)
        except _REFUSALS:
            return False

    return tried


@_or_not
def understands_trees(model: Any, device: torch.device) -> bool:
    """Two sequences with a common beginning must give the same logits as a tree and each by itself."""
    rows = _rows(model, (7, 11, 5), (7, 11, 13, 17))
    laid = PrefixReader(model, device).lay(rows, [0, 0], remember=False)
    return _alike(model, _last_logits(model, laid, rows), _alone(model, device, rows))


@_or_not
def remembers_paths(model: Any, device: torch.device) -> bool:
    """A tree whose trunk was read before must give the same logits as each sequence by itself.

    Layers that forget what is far away or fold it into a state cannot be cut and copied.
    """
    first, *rows = _rows(model, (7, 11, 5, 3), (7, 11, 13), (7, 11, 13, 17, 2))
    with torch.inference_mode():
        own = model(input_ids=torch.tensor([first], device=device), use_cache=True).past_key_values
    if type(own) is not DynamicCache or any(type(layer) is not DynamicLayer for layer in own.layers):
        return False
    walk = PrefixReader(model, device, worth=1)
    read = walk.lay([first], [0], remember=True)
    logits_at(model, read.inputs, [(0, 0)])
    walk.keep(read, first)
    laid = walk.lay(rows, [2, 2], remember=True)
    return (
        laid.tree is not None
        and laid.tree.trunk == 2
        and _alike(model, _last_logits(model, laid, rows), _alone(model, device, rows))
    )


@_or_not
def grows_branches(model: Any, device: torch.device) -> bool:
    """Text that grows out of a tree of prompts must have the logits of text behind prompts that are padded."""
    rows = _rows(model, (7, 11, 5, 3), (7, 11, 13), (7, 11, 13, 17, 2))
    inputs = padded_at_left(rows, device)
    branches = DecodingTree(PrefixReader(model, device, worth=1), model, device, rows, nodes=4)
    usual, ours = (
        _forced_logits(model, inputs, **given) for given in ({}, {"custom_generate": search_along(branches, 0)})
    )
    return _alike(model, ours, usual)


def _forced_logits(model: Any, inputs: dict[str, torch.Tensor], **options: Any) -> torch.Tensor:
    """The logits of three steps, each of which chooses the same token whatever they are."""
    seen: list[torch.Tensor] = []

    def record(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        seen.append(scores)
        forced = torch.full_like(scores, -1.0)
        forced[:, _FORCED % scores.shape[1]] = 1.0
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
    return torch.stack(seen)


def _rows(model: Any, *rows: Tokens) -> list[Tokens]:
    size = int(model.config.get_text_config().vocab_size)
    return sorted(tuple(token % size for token in row) for row in rows)


def _last_logits(model: Any, laid: BatchLayout, rows: Sequence[Tokens]) -> torch.Tensor:
    return logits_at(model, laid.inputs, [laid.cell(i, len(row) - 1) for i, row in enumerate(rows)])


def _alone(model: Any, device: torch.device, rows: Sequence[Tokens]) -> torch.Tensor:
    inputs = ({"input_ids": torch.tensor([row], device=device)} for row in rows)
    return torch.cat([logits_at(model, one, [(0, len(row) - 1)]) for one, row in zip(inputs, rows, strict=True)])


def _alike(model: Any, found: torch.Tensor, expected: torch.Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    # The model's own settings may rule tokens out, in both alike.
    found, expected = (torch.nan_to_num(x.float(), nan=math.nan, neginf=0.0) for x in (found, expected))
    tolerance = 1e-3 if model.dtype == torch.float32 else 0.1
    return bool((found - expected).abs().max() <= tolerance * max(1.0, float(expected.abs().max())))
