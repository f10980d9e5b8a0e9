"""What `lmassay export` adds to the totals of a log, so that `lmassay import` can restore the run.

A log contains requests and answers. The rest of a run is written under the key ``lmassay`` of ``results_<time>.json``:
its headline metrics, how metrics are combined, what they depend on, and the examples without a score, which are not in
the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from lmassay.errors import DataError
from lmassay.types import Combination, Example, LogProbs, Request, RunRecord, Score, SourceLocation, canonical

METADATA_KEY = "lmassay"
# The id of an example that stands for everything an interrupted run did not reach.
UNFINISHED = "what the run did not come to"
_ENDED_STATUSES = ("done", "incomplete")
# Parts of the signature that an imported run sets for itself.
_SET_BY_IMPORT = ("lmassay", "task", "model", "limit", "seed", "ci", "logged", "filter", "imported", "shots")


@dataclass(frozen=True, slots=True)
class UnloggedExample:
    """An example that is not in the log of its run: it has an error, or has no score for the reasons given."""

    task: str
    """The log that would contain it."""
    id: str
    doc: Mapping[str, Any]
    target: str
    groups: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    unscored: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """The run that a log was exported from; empty for a log that the harness wrote.

    The names of the fields are keys of the exported file.
    """

    run: str = ""
    task: str = ""
    signature: str = ""
    status: str = "done"
    note: str = ""
    """Why the run is not done, if it is not."""
    user_note: str = ""
    tags: Sequence[str] = ()
    headline: Sequence[str] = ()
    combinations: Mapping[str, Combination] = field(default_factory=dict)
    depends_on: Mapping[str, str] = field(default_factory=dict)
    """What the scores depend on: the signature without model, seed and the like."""
    not_carried: Sequence[str] = ()
    """Metrics that a log cannot restore, because they are neither means over examples nor combined from such means."""
    left_out: Sequence[UnloggedExample] = ()


def metadata_of(record: RunRecord, metrics: Sequence[str], unlogged: Sequence[UnloggedExample]) -> dict[str, Any]:
    """The metadata of a run as JSON; ``metrics`` are those that its logs contain."""
    combinations = dict(record.design.combinations)
    not_carried: dict[str, None] = {}
    for result in record.results:
        if result.group == "overall" and result.metric not in combinations and result.metric not in metrics:
            not_carried[result.metric] = None
    depends_on = {name: str(value) for name, value in record.depends_on.items() if name not in _SET_BY_IMPORT}
    return asdict(
        RunMetadata(
            run=record.id,
            task=record.task,
            signature=record.signature,
            status=record.status,
            note=record.note,
            user_note=record.annotation.note,
            tags=list(record.annotation.tags),
            headline=list(record.design.headline),
            combinations=combinations,
            depends_on=depends_on,
            not_carried=list(not_carried),
            left_out=unlogged,
        )
    )


def read_metadata(value: Any, task: str, tasks: Sequence[str], path: Path) -> RunMetadata:
    """Read the metadata in a results file, as far as it is about ``task``, one of the ``tasks`` of the file.

    It is empty if the file has none. ``path`` is the file, for error messages.
    """
    from pydantic import ValidationError

    if value is None:
        return RunMetadata()
    try:
        # Raises ValueError for a NaN, which would end up in the results.
        canonical(value)
        metadata: RunMetadata = _validator().validate_python(value)
        # Everything except the examples ends up in names and signatures, where a lone surrogate cannot be written.
        json.dumps(asdict(replace(metadata, left_out=())), ensure_ascii=False).encode()
        for metric, combination in metadata.combinations.items():
            if not combination.terms:
                raise ValueError(f"the combined metric {metric} has no terms")
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, (METADATA_KEY, *first["loc"])))
        raise DataError(f"{path}: {key}: {first['msg']}; export the run again") from None
    except ValueError as error:
        raise DataError(f"{path}: {METADATA_KEY}: {error}; export the run again") from None
    # A log without samples is not written, so the examples of its task are listed with any other log.
    unlogged = [example for example in metadata.left_out if example.task == task or example.task not in tasks]
    return replace(metadata, left_out=unlogged)


@cache
def _validator() -> Any:
    # Importing pydantic is slow, and most commands do not read logs.
    from pydantic import TypeAdapter

    return TypeAdapter(RunMetadata)


class UnloggedExamples:
    """The examples of a run that its logs do not contain.

    An imported run must end with the same errors and the same unscored examples as the original, so it includes these
    examples. For an example with an error, it sends a request that the log cannot answer, which is an error again. An
    unscored example needs no request.
    """

    def __init__(self, metadata_of_logs: Sequence[RunMetadata]) -> None:
        self._by_id: dict[str, UnloggedExample] = {}
        self._unfinished: RunMetadata | None = None
        for metadata in metadata_of_logs:
            for example in metadata.left_out:
                self._by_id[example.id] = example
            if self._unfinished is None and metadata.status not in _ENDED_STATUSES:
                self._unfinished = metadata

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[UnloggedExample]:
        return iter(self._by_id.values())

    def __contains__(self, example_id: str) -> bool:
        return example_id in self._by_id or example_id == UNFINISHED

    def require_apart(self, logged: Iterable[str]) -> None:
        """Refuse metadata that lists an example which is in a log."""
        for example_id in logged:
            if example_id in self:
                raise DataError(
                    f"the example {example_id} is in a log, but results_*.json lists it among those that are not"
                )

    @property
    def unfinished_reason(self) -> str:
        """Why the run did not finish; empty if it did."""
        if self._unfinished is None:
            return ""
        note = f" ({self._unfinished.note})" if self._unfinished.note else ""
        return f"the logged run is {self._unfinished.status}{note}; the log contains what it had done by then"

    def last(self) -> list[Example]:
        """The example that stands for everything an interrupted run did not reach; it comes after all others."""
        if self.unfinished_reason:
            return [Example(UNFINISHED, {})]
        return []

    def requests(self, example_id: str) -> Sequence[Request]:
        """A request that the log cannot answer, if the example has an error; no request if it is unscored."""
        if example_id != UNFINISHED and not self._by_id[example_id].error:
            return []
        return [LogProbs("", "", location=SourceLocation(METADATA_KEY, example_id))]

    def score(self, example_id: str) -> Score:
        """The score of an unscored example: the reasons why it has none."""
        return Score(unscored=self._by_id[example_id].unscored)

    def error(self, example_id: str) -> str:
        """The error of an example; empty if it is unscored."""
        return self._by_id[example_id].error

    def notes(self, samples: int) -> list[str]:
        """Notes for the imported run; ``samples`` is the number of examples in the logs."""
        notes = []
        if len(self):
            with_error = sum(bool(example.error) for example in self)
            unscored = len(self) - with_error
            counts = []
            if with_error:
                counts.append(f"{with_error} with errors")
            if unscored:
                counts.append(f"{unscored} without a score")
            notes.append(f"{len(self)} of {samples + len(self)} examples are not in the log: {', '.join(counts)}")
        if self.unfinished_reason:
            notes.append(self.unfinished_reason)
        return notes
