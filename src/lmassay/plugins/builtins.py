"""The models that ship with lmassay and belong to no evaluation. Names and paths only: listing imports nothing."""

from __future__ import annotations

from typing import Final

from lmassay.contracts import Component

_API = "lmassay.models.api"

MODELS: Final[dict[str, Component]] = {
    "outputs": Component("lmassay.models.outputs:Outputs", "answers already in hand, read from files"),
    "openai": Component(f"{_API}.openai_models:OpenAICompatible", "OpenAI, or any compatible server by base URL"),
    "azure": Component(f"{_API}.openai_models:Azure", "a deployment of Azure OpenAI"),
    "clova": Component(f"{_API}.openai_models:Clova", "CLOVA X through CLOVA Studio"),
    "claude": Component(f"{_API}.claude:Claude", "Claude through Anthropic's API"),
    "hf": Component("lmassay.models.hf.model:HuggingFace", "a local Hugging Face model: folder, GGUF file or hub name"),
    "smollm2": Component(
        "lmassay.models.hf.model:SmolLM2", "the default: a small real model; lmassay models get smollm2"
    ),
    "echo": Component("lmassay.models.echo:Echo", "gives the prompt back; deterministic, for trying things out"),
}
