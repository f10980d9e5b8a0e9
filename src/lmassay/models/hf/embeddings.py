"""Contextual embeddings of the tokens of texts, for scorers that compare meanings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel

from lmassay.errors import DataError, UserError
from lmassay.models.hf.folder_errors import folder_problem
from lmassay.models.hf.load import choose_device, quiet_loading, read_tokenizer, window_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """The embeddings of the tokens of a text."""

    vectors: Floats
    """One row per token: a vector of length 1."""
    is_text: NDArray[np.bool_]
    """Whether each token is part of the text itself; False for tokens that the tokenizer adds, such as [CLS]."""


class TokenEmbedder:
    """Computes embeddings with the encoder in a folder.

    ``layer`` is the layer whose output is used, counted from 1; None for the last layer.
    """

    def __init__(self, folder: Path, layer: int | None, device: str = "auto") -> None:
        self._tokenizer = read_tokenizer(folder, trust_remote_code=False)
        try:
            with quiet_loading():
                # Otherwise, transformers would list the unused weights of the language-model head: an encoder has none.
                self._model = AutoModel.from_pretrained(folder, use_safetensors=True, local_files_only=True)
        except Exception as error:
            # Anything can be wrong with the files of a model.
            raise DataError(folder_problem(folder, error)) from error
        self._model.eval().to(choose_device(device))
        # Some tokenizers do not state how many positions the model has, so window_of considers both.
        self._window = window_of(self._model, self._tokenizer)
        if self._tokenizer.pad_token_id is None:
            # Padding is masked, so any token will do.
            self._tokenizer.pad_token = self._tokenizer.convert_ids_to_tokens(0)
        layers = int(self._model.config.num_hidden_layers)
        if layer is not None and not 1 <= layer <= layers:
            raise UserError(f"layer: the model in {folder} has layers 1 to {layers}, not {layer}")
        self.layer = layer if layer is not None else layers

    def embed(self, texts: Sequence[str], batch_size: int) -> list[EmbeddedText]:
        """Embed texts; the result has their order. Tokens beyond the model's window are cut off, as BERTScore does."""
        embedded: dict[int, EmbeddedText] = {}
        # Texts of similar length share a batch, so that there is little padding. Texts of equal length are sorted, so
        # that the batches do not depend on the order in which texts are given.
        order = sorted(range(len(texts)), key=lambda index: (len(texts[index]), texts[index]))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            batch_texts = [texts[index] for index in batch]
            results = self._embed_batch(batch_texts)
            for index, result in zip(batch, results, strict=True):
                embedded[index] = result
        return [embedded[index] for index in range(len(texts))]

    def _embed_batch(self, texts: Sequence[str]) -> list[EmbeddedText]:
        encoded: Any = self._tokenizer(
            list(texts),
            padding=True,
            truncation=self._window is not None,
            max_length=self._window,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        special = encoded.pop("special_tokens_mask").numpy().astype(bool)
        mask = encoded["attention_mask"].numpy().astype(bool)
        with torch.inference_mode():
            output = self._model(**encoded.to(self._model.device), output_hidden_states=True)
        hidden = output.hidden_states[self.layer].double().cpu().numpy()
        results = []
        for row, is_token, is_special in zip(hidden, mask, special, strict=True):
            vectors = row[is_token]
            # Scaled to length 1, so that the product of two vectors is their cosine. A vector of zeros stays as it is.
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            lengths[lengths == 0] = 1.0
            is_text = ~is_special[is_token]
            results.append(EmbeddedText(vectors / lengths, is_text))
        return results


@lru_cache(maxsize=2)
def open_embedder(folder: Path, layer: int | None, device: str) -> TokenEmbedder:
    """The encoder in a folder. The two that were used last stay loaded."""
    return TokenEmbedder(folder, layer, device)
