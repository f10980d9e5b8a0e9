"""The metadata that `lmassay export` adds to the totals of a log, so that `lmassay import` can restore the run.

A log contains requests and answers. Everything else is written under the key ``lmassay`` of ``results_<time>.json``:
the run's headline metrics, how metrics are combined, its signature, and the examples that are not in the log because
they have no score.
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
# The id of an additional example that stands for all examples that an interrupted run did not reach. The id is stored,
# so its text must not change.
UNFINISHED = "what the run did not come to"
_ENDED_STATUSES = ("done", "incomplete")
# Parts of the signature that are not imported, because an imported run has its own.
_SET_BY_IMPORT = ("lmassay", "task", "model", "limit", "seed", "ci", "logged", "filter", "imported", "shots")


@dataclass(frozen=True, slots=True)
class UnloggedExample:
    """An example that is not in the log of its run, because it has an error or no score."""

    task: str
    """The task whose log would contain it."""
    id: str
    doc: Mapping[str, Any]
    target: str
    groups: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    """The error; empty if the example is unscored."""
    unscored: Mapping[str, str] = field(default_factory=dict)
    """A dict from metric to the reason why the example has no score."""


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """Metadata of the run from which a log was exported; empty for a log that the harness wrote.

    The names of the fields are keys of the exported file.
    """

    run: str = ""
    task: str = ""
    signature: str = ""
    status: str = "done"
    note: str = ""
    """If the run is not done, the reason."""
    user_note: str = ""
    tags: Sequence[str] = ()
    headline: Sequence[str] = ()
    combinations: Mapping[str, Combination] = field(default_factory=dict)
    depends_on: Mapping[str, str] = field(default_factory=dict)
    """The parts of the signature without model, seed and others that an imported run has itself."""
    not_carried: Sequence[str] = ()
    """Metrics that cannot be restored from a log, because they are neither means over examples nor combinations of such
    means."""
    left_out: Sequence[UnloggedExample] = ()
    """The examples that are not in the log."""


def metadata_of(record: RunRecord, metrics: Sequence[str], unlogged: Sequence[UnloggedExample]) -> dict[str, Any]:
    """Return the metadata of a run as plain JSON; ``metrics`` are those that its logs contain."""
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
    """Read the part of the metadata in a results file that concerns ``task``, which is one of the file's ``tasks``.

    ``value`` is the parsed metadata; if the file has none, the result is empty. ``path`` is the file, for messages.
    """
    from pydantic import ValidationError

    if value is None:
        return RunMetadata()
    try:
        # Only to raise ValueError for a NaN, which would otherwise get into the results.
        canonical(value)
        metadata: RunMetadata = _validator().validate_python(value)
        # Only to raise an error for a lone surrogate, which cannot be written: everything except the examples becomes a
        # part of names and signatures.
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
    # For a task without any sample, no log is written, so its examples are listed with every other log.
    unlogged = [example for example in metadata.left_out if example.task == task or example.task not in tasks]
    return replace(metadata, left_out=unlogged)


@cache
def _validator() -> Any:
    # Importing pydantic is slow, and most commands do not read logs.
    from pydantic import TypeAdapter

    return TypeAdapter(RunMetadata)


class UnloggedExamples:
    """The examples of a run that its logs do not contain.

    An imported run must have the same errors and the same unscored examples as the original, so it includes these
    examples. For an example with an error, it sends a request to which the log has no answer, so that the result is an
    error again. An unscored example needs no request.
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
        """Raise DataError if one of the examples is also in a log."""
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
        """For an interrupted run, the additional last example that stands for all examples it did not reach."""
        if self.unfinished_reason:
            return [Example(UNFINISHED, {})]
        return []

    def requests(self, example_id: str) -> Sequence[Request]:
        """If the example has an error, a request to which the log has no answer; if it is unscored, no request."""
        if example_id != UNFINISHED and not self._by_id[example_id].error:
            return []
        return [LogProbs("", "", location=SourceLocation(METADATA_KEY, example_id))]

    def score(self, example_id: str) -> Score:
        """The score of an unscored example, which contains only the reasons why there is none."""
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
