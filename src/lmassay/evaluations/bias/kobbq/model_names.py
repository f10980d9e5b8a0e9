"""Which model a name of KoBBQ's programs stands for, and where its key is: the originals' names and variables work."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_KOALPACA = "beomi/KoAlpaca-Polyglot-12.8B"
_OPENAI_NAMES = re.compile(r"(gpt-|chatgpt|davinci|text-|o\d)", re.IGNORECASE)
_OPENAI_KEYS = ("OPENAI", "OPENAI_API_KEY")
_AZURE_ENDPOINTS = ("AZURE_ENDPOINT", "AZURE_OPENAI_ENDPOINT")
_STRIPPED = frozenset({"openai", "azure", "clova"})


def model_spec(name: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """A model as a configuration would name it.

    >>> model_spec("claude-2.0", {})
    {'name': 'claude', 'model': 'claude-2.0'}
    """
    low = name.lower()
    if low.startswith(("claude", "cluade")):
        return {"name": "claude", "model": name.replace("cluade", "claude")}
    if low == "clova-x" or low.startswith("hcx-"):
        return {"name": "clova"} if low == "clova-x" else {"name": "clova", "model": name}
    if low == "koalpaca-polyglot-12.8b":
        return {"name": "hf", "model": _KOALPACA}
    if low == "smollm2":
        return {"name": "smollm2"}
    if "/" in name:
        return {"name": "hf", "model": name}
    has_openai, has_azure = (any(map(environment.get, names)) for names in (_OPENAI_KEYS, _AZURE_ENDPOINTS))
    if _OPENAI_NAMES.match(name):
        return {"name": "azure" if has_azure and not has_openai else "openai", "model": name}
    if has_azure and not has_openai and not Path(name).exists():
        return {"name": "azure", "model": name}
    return {"name": "hf", "model": name}


def strips_answers(model: str) -> bool:
    """Whether KoBBQ's programs take blanks and line ends off the answers of this kind of model."""
    return model in _STRIPPED
