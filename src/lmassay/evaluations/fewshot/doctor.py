"""What the few-shot evaluation needs besides the core: ``lmassay doctor`` shows it."""

from __future__ import annotations

from lmassay.contracts import Finding

_EXTRA = "fewshot"


def findings() -> list[Finding]:
    """The optional packages of its methods and of its search."""
    return [
        Finding.of_package("peft", "few-shot: LoRA", extra=_EXTRA),
        Finding.of_package("safetensors", "few-shot: weights on disk", extra=_EXTRA),
        Finding.of_package("sentencepiece", "few-shot: tokenizers of ALBERT and DeBERTa", extra=_EXTRA),
        Finding.of_package("protobuf", "few-shot: their files", extra=_EXTRA),
        Finding.of_package("optuna", "lmassay search", extra="search"),
    ]
