"""A model class written for refining-tse as a model that fills blanks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmassay.contracts import Model
from lmassay.errors import PluginError
from lmassay.evaluations.syntax.refining_tse.config import BATCH
from lmassay.evaluations.syntax.refining_tse.modules import MPEModel, check_written, class_identity, load_class, told
from lmassay.models.hf.columns import candidate_columns
from lmassay.types import Response, Slot


class MpeModel(Model):
    """A model class written for refining-tse: ``file`` is file.py:Class, ``settings`` what it is made with."""

    name = "mpe"
    can = frozenset({"slot"})
    # What the class reads, weights above all, is not known here; so no answer can be taken for another time's.
    cached = False

    def __init__(
        self, file: str, settings: dict[str, Any] | None = None, label: str = "", base_dir: Path = Path()
    ) -> None:
        self._file, self._settings, self._base = file, settings or {}, base_dir
        self._places: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self.label = label or file.rpartition(":")[2]

    def check(self) -> None:
        check_written(self._file, self._made, MPEModel, "predict", "word_to_index")
        words = told(self._file, "word_to_index", getattr, self._made, "word_to_index", None)
        for name, there in (("predict", hasattr(self._made, "predict")), ("word_to_index", words is not None)):
            if not there:
                raise PluginError(f"{self._file}: a model needs word_to_index and predict; {name} is missing")

    @property
    def sees_right(self) -> bool:  # type: ignore[override]  # the class says so
        """As the model says in ``bidirectional``."""
        return bool(getattr(self._made, "bidirectional", True))

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, **class_identity(self._file, self._base, self._settings)}

    def slot(self, requests: Sequence[Slot]) -> Iterator[Response]:
        for start in range(0, len(requests), BATCH):
            batch = requests[start : start + BATCH]
            lefts, rights = [r.left.split() for r in batch], [_right_words(r.right) for r in batch]
            logits = told(self._file, "predict", self._made.predict, lefts, rights)
            if logits is None:
                # The original passes over such a batch.
                yield from (Response(finish="empty") for _ in batch)
                continue
            yield from self._answers(batch, *self._checked(logits, len(batch)))

    @cached_property
    def _class(self) -> type:
        return load_class(self._file, self._base, "models")

    @cached_property
    def _made(self) -> Any:
        return told(self._file, "__init__", self._class, dict(self._settings))

    def _checked(self, logits: Any, size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        values = _array(logits)
        if values.ndim != 2 or len(values) != size or values.shape[1] == 0:
            shape = "×".join(map(str, values.shape))
            raise PluginError(
                f"{self._file}: predict gave {shape} logits for {size} contexts; it must be contexts×words"
            )
        if np.isnan(values).any():
            raise PluginError(f"{self._file}: predict gave logits that are no numbers (NaN)")
        if np.isposinf(values).any():
            raise PluginError(f"{self._file}: predict gave a logit of +inf, or one too large for 32 bits")
        if np.isneginf(values).all(axis=1).any():
            raise PluginError(f"{self._file}: predict gave -inf for all words of a context; one must be possible")
        # torch's own softmax where there is one: the last bit of it decides which of two like words comes first.
        return values, _array(logits.float().softmax(-1)) if hasattr(logits, "softmax") else _softmax(values)

    def _answers(
        self, batch: Sequence[Slot], logits: NDArray[np.float32], probabilities: NDArray[np.float32]
    ) -> Iterator[Response]:
        for request, row, p in zip(batch, logits, probabilities, strict=True):
            ids = self._ids(request.candidates, len(row))
            yield Response(candidate_columns(row, p if request.ranked else None, ids))

    def _ids(self, words: tuple[str, ...], size: int) -> NDArray[np.int64]:
        if words not in self._places:
            self._places[words] = told(self._file, "word_to_index", self._looked_up, words)
            far = int(self._places[words].max(initial=-1))
            if far >= size:
                raise PluginError(f"{self._file}: word_to_index gives the place {far}, but predict {size} logits")
        return self._places[words]

    def _looked_up(self, words: Sequence[str]) -> NDArray[np.int64]:
        index = self._made.word_to_index
        # The base class speaks of a dict, the README of a method.
        places = map(index if callable(index) else index.get, words)
        return np.array([-1 if place is None else int(place) for place in places], dtype=np.int64)


def _right_words(text: str) -> list[str]:
    """The words behind the verb as the original hands them over: the full stop is a word."""
    words = text.split()
    if words and words[-1].endswith(".") and words[-1] != ".":
        words[-1:] = [words[-1].removesuffix("."), "."]
    return words


def _array(values: Any) -> NDArray[np.float32]:
    """A torch tensor, wherever it lies, or anything that numpy takes."""
    if hasattr(values, "detach"):
        values = values.detach().float().cpu().numpy()
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float32)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float32)
