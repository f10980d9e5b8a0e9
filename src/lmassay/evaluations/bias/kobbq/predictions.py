"""A model that looks up stored answers by id: the predictions file of KoBBQ's second step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from lmassay.contracts import StoredAnswers
from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.tsv import TsvTable, read_table
from lmassay.storage.files import sha256
from lmassay.types import Generate, Response


class Predictions(StoredAnswers):
    """Stored answers of a model, read from a file with the columns ``guid`` and ``raw``; no requests are sent.

    An id in ``guid`` is the id of the question followed by the number of the rotation, e.g. ``age-001a-002-amb-bsd-0``.
    """

    name = "predictions"
    can = frozenset({"generate"})

    option_help: ClassVar[Mapping[str, str]] = {
        "file": "a file of lmassay kobbq infer, with the columns guid and raw",
        "label": "name in tables",
    }
    config_example = "model: {name: predictions, file: kobbq_predictions.tsv}"

    def __init__(self, file: Path, label: str = "") -> None:
        self._file = file
        self.label = label or file.name.removesuffix(".tsv").removesuffix("_predictions")

    def check(self) -> None:
        # The file is read here only for its checks.
        _ = self._answers

    def check_ids(self, ids: Sequence[str]) -> None:
        """Raise a DataError unless there is an answer for each of these ids."""
        missing = [question_id for question_id in ids if question_id not in self._answers]
        if missing:
            raise DataError(
                f"{self._file} has no answer to {len(missing)} questions; the first is {missing[0]}. Run `lmassay "
                "kobbq infer` to complete it, or give the data and rotations that it answers"
            )

    def notes(self) -> list[str]:
        if self._table.complete:
            return []
        last_row = self._table.where(self._table.count - 1)
        return [f"{last_row}: the last row has no line end; it may be cut off"]

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, "file": sha256(self._table.path)[:8]}

    def generate(self, requests: Sequence[Generate]) -> Iterator[Response]:
        for request in requests:
            guid = None if request.location is None else str(request.location.key)
            if guid is None or guid not in self._answers:
                question = guid or "a question without an id"
                raise DataError(f"{self._file} has no answer to {question}; run `lmassay kobbq infer` to complete it")
            text = self._answers[guid]
            yield Response(text, finish="stop" if text else "empty")

    @cached_property
    def _table(self) -> TsvTable:
        return read_table(self._file, "predictions", ("guid", "raw"), may_lack="prediction")

    @cached_property
    def _answers(self) -> dict[str, str]:
        rows = self._table.require_unique("guid")
        texts = self._table.column("raw")
        return {guid: texts[row] for guid, row in rows.items()}
