"""What `lmassay export` writes into the totals of a log beyond what the harness does, so that a run comes back whole.

A log holds what was answered. What a run is besides (its headline, how metrics are put together, what they depend on)
and the examples that it could not score stand under the key ``lmassay`` of ``results_<time>.json``.
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

KEY = "lmassay"
# Where a run stopped before its end, this stands for all that it did not come to.
UNFINISHED = "what the run did not come to"
_WHOLE = ("done", "incomplete")
# Parts of a signature that an imported run has of its own.
_OWN = ("lmassay", "task", "model", "limit", "seed", "ci", "logged", "filter", "imported", "shots")


@dataclass(frozen=True, slots=True)
class UnloggedExample:
    """An example of a run that is no sample of its log: in error, or without a score for the reasons given."""

    task: str
    """The log that it would be in."""
    id: str
    doc: Mapping[str, Any]
    target: str
    groups: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    unscored: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """What is known of the run that a log was written from; empty for a log of the harness's own."""

    run: str = ""
    task: str = ""
    signature: str = ""
    status: str = "done"
    note: str = ""
    headline: Sequence[str] = ()
    combinations: Mapping[str, Combination] = field(default_factory=dict)
    depends_on: Mapping[str, str] = field(default_factory=dict)
    """What its scores depend on: the parts of its signature but for model, seed and the like."""
    not_carried: Sequence[str] = ()
    """Results that are neither means over examples nor put together from means."""
    left_out: Sequence[UnloggedExample] = ()


def metadata_of(record: RunRecord, metrics: Sequence[str], left_out: Sequence[UnloggedExample]) -> dict[str, Any]:
    """The field of a run's totals; ``metrics`` are those that its logs have."""
    combinations = dict(record.design.combinations)
    overall = dict.fromkeys(r.metric for r in record.results if r.group == "overall")
    return asdict(
        RunMetadata(
            run=record.id,
            task=record.task,
            signature=record.signature,
            status=record.status,
            note=record.note,
            headline=list(record.design.headline),
            combinations=combinations,
            depends_on={k: str(v) for k, v in record.depends_on.items() if k not in _OWN},
            not_carried=[name for name in overall if name not in combinations and name not in metrics],
            left_out=left_out,
        )
    )


def read_metadata(value: Any, task: str, tasks: Sequence[str], path: Path) -> RunMetadata:
    """The field of a results file, as far as it is about one of its ``tasks``; empty where there is none."""
    from pydantic import ValidationError

    if value is None:
        return RunMetadata()
    try:
        # A NaN here would end up in the results.
        canonical(value)
        found: RunMetadata = _reader().validate_python(value)
        # What is not about an example ends up in names and signatures, where a lone surrogate cannot be written.
        json.dumps(asdict(replace(found, left_out=())), ensure_ascii=False).encode()
        if not all(combination.terms for combination in found.combinations.values()):
            raise ValueError("a metric is put together from nothing")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, (KEY, *first["loc"])))
        raise DataError(f"{path}: {where}: {first['msg']}; export the run again") from None
    except ValueError as error:
        raise DataError(f"{path}: {KEY}: {error}; export the run again") from None
    # Where a log would have held nothing else it was not written, and any other tells of its examples.
    kept = [example for example in found.left_out if example.task == task or example.task not in tasks]
    return replace(found, left_out=kept)


@cache
def _reader() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(RunMetadata)


class UnloggedExamples:
    """The examples that logs do not hold: they are asked about in vain, and so end in the state they were in."""

    def __init__(self, ours: Sequence[RunMetadata]) -> None:
        self._by_id = {example.id: example for of_a_log in ours for example in of_a_log.left_out}
        self._ended = next((o for o in ours if o.status not in _WHOLE), None)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[UnloggedExample]:
        return iter(self._by_id.values())

    def __contains__(self, name: str) -> bool:
        return name in self._by_id or name == UNFINISHED

    def require_apart(self, logged: Iterable[str]) -> None:
        """Refuse totals that say of an example in the log that it is in none."""
        both = next((name for name in logged if name in self), None)
        if both is not None:
            raise DataError(f"the example {both} is in a log, and among those that results_*.json says are in none")

    @property
    def ended(self) -> str:
        """Why the run came to no end; empty if it did."""
        if self._ended is None:
            return ""
        note = f" ({self._ended.note})" if self._ended.note else ""
        return f"the run that was logged is {self._ended.status}{note}: the log holds what there was by then"

    def last(self) -> list[Example]:
        """What stands for all that was never asked, to come after everything else."""
        return [Example(UNFINISHED, {})] if self.ended else []

    def requests(self, name: str) -> Sequence[Request]:
        """A question that the log cannot answer, unless the example had an answer that could not be judged."""
        error = UNFINISHED if name == UNFINISHED else self._by_id[name].error
        return [LogProbs("", "", location=SourceLocation(KEY, name))] if error else []

    def score(self, name: str) -> Score:
        return Score(unscored=self._by_id[name].unscored)

    def error(self, name: str) -> str:
        return self._by_id[name].error

    def notes(self, samples: int) -> list[str]:
        failed = sum(bool(example.error) for example in self)
        parts = {"in error": failed, "without a score": len(self) - failed}
        counts = ", ".join(f"{count} {what}" for what, count in parts.items() if count)
        told = [f"{len(self)} of {samples + len(self)} examples are not in the log: {counts}"] if len(self) else []
        return told + ([self.ended] if self.ended else [])
