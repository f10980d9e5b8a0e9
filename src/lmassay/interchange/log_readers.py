"""Logs of other harnesses that a task of an evaluation can score itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lmassay.contracts import Task, resolve
from lmassay.interchange.lm_eval_log import Log
from lmassay.interchange.lm_eval_ours import NotInTheLog
from lmassay.plugins.evaluations import evaluations


class LogReader(Protocol):
    """Recognises logs whose samples one of an evaluation's tasks understands; ``Evaluation.log_reader`` makes it."""

    joins: bool
    """True if several such logs are one run, as the constructions of minimal pairs are."""

    def reads(self, log: Log) -> bool:
        """True if every sample of the log can be scored by the task."""

    def task(self, logs: Sequence[Log], imported: Mapping[str, str], notes: Sequence[str], absent: NotInTheLog) -> Task:
        """The task that scores them; ``imported`` joins its signature, ``absent`` are examples that no log holds."""


def reader_for(logs: Sequence[Log]) -> LogReader | None:
    """The first reader that understands all of the logs; None if no evaluation has one."""
    for evaluation in evaluations():
        if evaluation.log_reader is None:
            continue
        reader: LogReader = resolve(evaluation.log_reader)()
        if (reader.joins or len(logs) == 1) and all(reader.reads(log) for log in logs):
            return reader
    return None
