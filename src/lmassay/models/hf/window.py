"""Find out, from a model's files and without loading it, how long a text it can read (its window)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmassay.types import Generate, LogProbs, Request, Slot

# Architectures with relative positions, which have no longest sequence.
RELATIVE_POSITIONS = frozenset({"t5", "mt5", "umt5", "longt5", "switch_transformers"})
# A tokenizer without a limit states a huge number, 10**30.
_NO_LIMIT = 10**9


def known_window(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> int | None:
    """Return the number of tokens that a model reads at most; None if its files do not say."""
    # A model for images and text has the settings of its language model inside.
    text_config = config.get("text_config")
    if isinstance(text_config, Mapping):
        config = text_config
    limits = [tokenizer_config.get("model_max_length")]
    if config.get("model_type") not in RELATIVE_POSITIONS:
        # Families of models use different keys. LED (Longformer encoder-decoder) has one limit for its encoder and one
        # for its decoder; the limit of the encoder counts.
        for name in ("max_encoder_position_embeddings", "max_position_embeddings", "n_positions"):
            if config.get(name):
                limits.append(config[name])
                break
    limits_in_files = [limit for limit in limits if isinstance(limit, int) and 0 < limit < _NO_LIMIT]
    return min(limits_in_files, default=None)


def texts_of(requests: Sequence[Request], *, sees_right: bool) -> Iterator[str]:
    """Yield the text that the model must read for each request, without special tokens and chat template.

    Only requests to generate, to score a text and to fill a blank have such a text; others are left out. ``sees_right``
    says whether the model also reads what follows a blank.
    """
    for request in requests:
        if isinstance(request, Generate):
            messages = "".join(content for _, content in request.messages)
            yield request.prompt + messages
        elif isinstance(request, LogProbs):
            messages = "".join(content for _, content in request.messages)
            yield messages + request.context + request.continuation
        elif isinstance(request, Slot):
            # A causal model reads only what precedes the blank.
            right = request.right if sees_right else ""
            yield request.left + right
