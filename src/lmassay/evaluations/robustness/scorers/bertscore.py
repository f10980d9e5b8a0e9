"""BERTScore (Zhang et al. 2020): tokens of two texts, matched by the cosine of their contextual embeddings."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from lmassay.errors import DataError, MissingExtra, UserError
from lmassay.evaluations.robustness.scorers.base import Scorer

# The layers that correlate best with human judgements, by BERTScore's authors: (family, number of layers) → layer.
_BEST_LAYERS = {
    ("bert", 12): 9,
    ("bert", 24): 18,
    ("roberta", 12): 10,
    ("roberta", 24): 17,
    ("distilbert", 6): 5,
    ("xlm-roberta", 12): 9,
    ("xlm-roberta", 24): 17,
}
_BYTES_AT_A_TIME = 1 << 20


class BERTScore(Scorer):
    """F1 of BERTScore, without idf weighting or baseline rescaling; a negative score counts as 0 (extra: hf).

    ``model`` is the folder of an encoder such as BERT or RoBERTa, with safetensors weights. ``layer`` is the layer
    whose embeddings are compared; the default is that of BERTScore's authors, or the last one for other models.
    """

    _name = "BERTScore"
    by_chunks = True
    chunk = 256

    def __init__(
        self, model: Path | None = None, layer: int | None = None, batch_size: int = 32, device: str = "auto"
    ) -> None:
        if batch_size < 1:
            raise UserError(f"bertscore: batch_size must be 1 or more, not {batch_size}")
        self._model_folder = None if model is None else Path(model).expanduser()
        self._layer = layer
        self._batch_size = batch_size
        self._device = device

    @property
    def signature(self) -> str:
        layer = self._chosen_layer
        if layer is None:
            # Only the loaded model knows its last layer.
            layer = self._embedder.layer
        return f"BERTScore(model:{self._folder.name}|sha:{self._digest}|layer:{layer}|idf:no|baseline:no)"

    def check(self, lang: str | None = None) -> None:
        # Reads the configuration, and raises if the folder, its files or the layer are wrong.
        _ = self._chosen_layer
        if importlib.util.find_spec("transformers") is None:
            raise MissingExtra("the scorer bertscore", "hf")

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> list[float]:
        self.check(lang)
        # Every distinct text is embedded once. Sorted, so that the last bits do not depend on the order of pairs.
        texts = sorted({*hyps, *refs})
        embeddings = self._embedder.embed(texts, self._batch_size)
        embedded = dict(zip(texts, embeddings, strict=True))
        return [_f1(embedded[hyp], embedded[ref]) for hyp, ref in zip(hyps, refs, strict=True)]

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        # Not self.score_corpus: in a subclass that overrides score_sentence, that calls score_sentence again.
        return BERTScore.score_corpus(self, [hyp], [ref], lang=lang)[0]

    @property
    def _folder(self) -> Path:
        if self._model_folder is None:
            raise UserError(
                "the scorer bertscore needs the folder of an encoder: {name: bertscore, model: path/to/roberta}"
            )
        if not self._model_folder.is_dir():
            raise UserError(f"bertscore: there is no folder {self._model_folder} with an encoder")
        return self._model_folder.resolve()

    def _read_config(self) -> dict[str, Any]:
        """Read the encoder's configuration. Raises DataError if the folder has none, or no safetensors weights."""
        file = self._folder / "config.json"
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"bertscore: {file} cannot be read: {error}") from error
        if not isinstance(config, dict):
            raise DataError(f"bertscore: {file} is not the configuration of a model")
        if config.get("is_encoder_decoder"):
            raise DataError(f"bertscore: {self._folder} is an encoder-decoder model; use an encoder such as RoBERTa")
        if not list(self._folder.glob("*.safetensors")):
            raise DataError(f"bertscore: {self._folder} has no *.safetensors file; other weights are not loaded")
        return config

    @cached_property
    def _embedder(self) -> Any:
        # torch takes seconds to import, so this module is imported with the first score.
        from lmassay.models.hf.embeddings import open_embedder

        return open_embedder(self._folder, self._chosen_layer, self._device)

    @cached_property
    def _chosen_layer(self) -> int | None:
        """The layer whose embeddings are compared; None (the last one) if the configuration has no number of layers.

        Raises UserError for a layer that the model does not have.
        """
        config = self._read_config()
        layer_count = _layer_count(config)
        if self._layer is None:
            return _BEST_LAYERS.get((str(config.get("model_type")), layer_count or 0), layer_count)
        if self._layer < 1 or (layer_count is not None and self._layer > layer_count):
            layers = "layers are counted from 1" if layer_count is None else f"the model has layers 1 to {layer_count}"
            raise UserError(f"bertscore: layer: {layers}, not {self._layer} ({self._folder})")
        return self._layer

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256()
        for file in sorted(self._folder.glob("*.safetensors")):
            with file.open("rb") as stream:
                # The file is read in parts, because the weights may not fit into memory.
                while part := stream.read(_BYTES_AT_A_TIME):
                    digest.update(part)
        return digest.hexdigest()[:8]


def _layer_count(config: Mapping[str, Any]) -> int | None:
    """The number of layers that a model's configuration states; None if it states none."""
    # DistilBERT and GPT-2 have their own names for it.
    for name in ("num_hidden_layers", "n_layers", "n_layer"):
        count = config.get(name)
        if isinstance(count, int) and count > 0:
            return count
    return None


def _f1(hyp: Any, ref: Any) -> float:
    """F1 of precision (tokens of the hypothesis, matched to the reference) and recall: the paper's equations 2 to 4."""
    hyp_is_empty = not hyp.is_text.any()
    ref_is_empty = not ref.is_text.any()
    if hyp_is_empty or ref_is_empty:
        # Two empty texts are identical; an empty text has nothing in common with any other.
        return 1.0 if hyp_is_empty and ref_is_empty else 0.0
    cosines = hyp.vectors @ ref.vectors.T
    # As in the authors' program, tokens of a text may be matched to the tokens that the tokenizer adds (such as [CLS]),
    # but added tokens are not counted themselves.
    precision = float(cosines.max(axis=1)[hyp.is_text].mean())
    recall = float(cosines.max(axis=0)[ref.is_text].mean())
    if precision + recall <= 0:
        return 0.0
    f1 = 2 * precision * recall / (precision + recall)
    # Cosines can be negative, and rounding can lift them above 1.
    return min(1.0, max(0.0, f1))
