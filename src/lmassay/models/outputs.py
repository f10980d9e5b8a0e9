"""A model whose answers are lines of text files.

Line i of the file for a role answers the request of example i in this role. A role is the purpose of a request in its
task, such as ``out`` and ``adv_out``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from lmassay.contracts import StoredAnswers
from lmassay.errors import DataError
from lmassay.storage.files import TextFile, open_parallel
from lmassay.types import Generate, Response


class Outputs(StoredAnswers):
    """The outputs of a system, read from files; no model is asked and nothing is cached.

    ``files`` has one text file per role of the task, e.g. ``{out: base.en, adv_out: adv.charswap.en}``. Line i answers
    the request of that role for example i.
    """

    name = "outputs"
    can = frozenset({"generate"})

    option_help: ClassVar[Mapping[str, str]] = {
        "files": "one text file for each role of the task; line i answers example i",
        "label": "name in tables",
        "keep_bom": "keep a byte-order mark at the beginning of a file",
    }
    config_example = "model: {name: outputs, files: {out: base.en, adv_out: charswap.en}}"

    def __init__(self, files: dict[str, Path], label: str = "", keep_bom: bool = False) -> None:
        self.label = label
        self._paths = files
        self.roles = frozenset(files)
        self._keep_bom = keep_bom
        self._opened: Mapping[str, TextFile] | None = None
        self._readers: dict[str, _LineReader] = {}

    @property
    def lines(self) -> int:  # type: ignore[override]  # read from the files
        return next(iter(self._files().values())).lines

    def check(self) -> None:
        if not self._paths:
            raise DataError("model.files: the model `outputs` needs files; write files: {role: path}")
        self._files()

    def identity(self) -> Mapping[str, Any]:
        # Files are identified by their content: a moved file is the same model, an edited one is another.
        identity = {"name": self.name}
        for role, file in self._files().items():
            identity[role] = file.sha256[:8]
        return identity

    def generate(self, requests: Sequence[Generate]) -> Iterator[Response]:
        for request in requests:
            location = request.location
            if location is None or not isinstance(location.key, int):
                raise DataError("outputs from files answer by line number, but the requests of this task have none")
            self._require_role(location.role)
            yield Response(self._reader(location.role).line(location.key))

    def texts(self, role: str, positions: range) -> Sequence[str]:
        self._require_role(role)
        return self._reader(role).lines(positions)

    def _files(self) -> Mapping[str, TextFile]:
        if self._opened is None:
            self._opened = open_parallel(self._paths).files
        return self._opened

    def _require_role(self, role: str) -> None:
        if role not in self._paths:
            raise DataError(f"there are no outputs for the role '{role}'; add it to the model's files")

    def _reader(self, role: str) -> _LineReader:
        if role not in self._readers:
            self._readers[role] = _LineReader(self._files()[role], self._keep_bom)
        return self._readers[role]


class _LineReader:
    """Reads lines by number without keeping the file in memory; to go back, it reads the file from the beginning."""

    def __init__(self, file: TextFile, keep_bom: bool) -> None:
        self._file = file
        self._keep_bom = keep_bom
        self._next = 0
        self._last = ""
        self._rewind()

    def line(self, number: int) -> str:
        if number < self._next:
            # The last line is kept, because going back means reading the file from its beginning.
            if number == self._next - 1:
                return self._last
            self._rewind()
        try:
            while self._next <= number:
                self._last = next(self._lines)
                self._next += 1
        except StopIteration:
            raise DataError(f"{self._file.path} has no line {number + 1}") from None
        return self._last

    def lines(self, positions: range) -> list[str]:
        if not positions:
            return []
        if positions.start < self._next:
            self._rewind()
        skipped = positions.start - self._next
        lines = list(islice(self._lines, skipped, skipped + len(positions)))
        if len(lines) < len(positions):
            raise DataError(f"{self._file.path} has no line {positions.start + len(lines) + 1}")
        self._next = positions.stop
        self._last = lines[-1]
        return lines

    def _rewind(self) -> None:
        self._lines = self._file.read(keep_bom=self._keep_bom)
        self._next = 0
