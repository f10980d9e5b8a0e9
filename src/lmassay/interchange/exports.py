"""How an evaluation exports its runs to the formats of other tools, if the general form is not enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmassay.interchange.lm_eval.run_metadata import METADATA_KEY
from lmassay.plugins.evaluations import evaluation_of, view_of
from lmassay.plugins.hooks import call_hook, instance_of, with_named_errors
from lmassay.types import Row, RunRecord

LogDocument = tuple[str, dict[str, Any], str]
"""The name of the log that an example belongs to, its document and its target."""
RowParts = Callable[[Row], dict[str, Any] | None]

_SAMPLE_KEYS = ("asked", "answers", "metrics", METADATA_KEY)
_INSTANCE_KEYS = ("input", "output", "answer_attribution")


@dataclass(frozen=True, slots=True)
class Export:
    """How the examples of a task are exported. Members that are None get the general form."""

    has_logs: bool = True
    """False for a task whose requests or scores do not fit into a log of lm-evaluation-harness."""
    log_document: Callable[[Row], LogDocument] | None = None
    """The log, document and target of an example."""
    log_sample: RowParts | None = None
    """A mapping with the keys ``asked`` (the arguments of each request), ``answers`` (one per request), ``metrics`` and
    ``lmassay`` (what `lmassay import` needs: ``id`` and ``groups``); None if the row does not contain them."""
    instance: RowParts | None = None
    """A mapping with the keys ``input``, ``output`` and ``answer_attribution`` of Every Eval Ever's schema; None for
    the general form."""


def export_of(record: RunRecord) -> Export:
    """How the runs of this run's task are exported."""
    evaluation = evaluation_of(record)
    make_export = view_of(record).export
    if evaluation is None or make_export is None:
        return Export()
    export = call_hook(evaluation, "export", make_export, reads=instance_of(Export), otherwise=Export)
    # A file that mixes two forms would be useless, so a function that fails ends the export.
    return replace(
        export,
        log_document=with_named_errors(evaluation, "export.log_document", export.log_document),
        log_sample=with_named_errors(evaluation, "export.log_sample", _requiring_keys(_SAMPLE_KEYS, export.log_sample)),
        instance=with_named_errors(evaluation, "export.instance", _requiring_keys(_INSTANCE_KEYS, export.instance)),
    )


def _requiring_keys(keys: Sequence[str], function: RowParts | None) -> RowParts | None:
    """Wrap a function, so that a key that its mapping lacks is an error."""
    if function is None:
        return None

    def call(row: Row) -> dict[str, Any] | None:
        parts = function(row)
        if not parts:
            return None
        missing = [key for key in keys if key not in parts]
        if missing:
            raise ValueError(f"it returned a dictionary without {', '.join(missing)}; it must have {', '.join(keys)}")
        return parts

    return call
