"""Merges peft's low-rank adapters into the matrices of a network, so that it can be saved as an ordinary network."""

from __future__ import annotations

from typing import Any

import torch

# In peft's names of parameters: the frozen layer inside an adapted layer, the trained copy of a layer that is trained
# as a whole, and what an ordinary network does not have.
_FROZEN_LAYER = ".base_layer."
_TRAINED_COPY = ".modules_to_save.default."
_ONLY_IN_PEFT = (".lora_", ".original_module.")


def has_adapters(module: Any) -> bool:
    """Whether adapters were added to a network of transformers."""
    return bool(getattr(module, "_hf_peft_config_loaded", False))


def merged(module: Any) -> Any:
    """A copy of the network that computes the same without adapters.

    Each adapted matrix W becomes W + B·A · alpha / r (Hu et al. 2022, equation 3).
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    adapted = [part for part in module.modules() if isinstance(part, BaseTunerLayer)]
    with torch.no_grad():
        for layer in adapted:
            layer.merge()
        weights = {}
        for name, tensor in module.state_dict().items():
            if any(part in f".{name}" for part in _ONLY_IN_PEFT):
                continue
            plain_name = name.replace(_FROZEN_LAYER, ".").replace(_TRAINED_COPY, ".")
            weights[plain_name] = tensor.detach().to("cpu", copy=True)
        for layer in adapted:
            layer.unmerge()
    copy = type(module)(module.config)
    copy.load_state_dict(weights)
    return copy
