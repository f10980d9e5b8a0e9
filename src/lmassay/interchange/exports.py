"""How runs are exported to the formats of other tools: in a general form, or as their evaluation defines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmassay.interchange.lm_eval.run_metadata import METADATA_KEY
from lmassay.plugins.evaluations import evaluation_of, view_of
from lmassay.plugins.hooks import call_hook, instance_of, with_named_errors
from lmassay.types import Row, RunRecord

LogDocument = tuple[str, dict[str, Any], str]
"""The name of the log to which an example belongs, its document and its target."""
RowParts = Callable[[Row], dict[str, Any] | None]

_SAMPLE_KEYS = ("asked", "answers", "metrics", METADATA_KEY)
_INSTANCE_KEYS = ("input", "output", "answer_attribution")


@dataclass(frozen=True, slots=True)
class Export:
    """How the examples of a task are exported. For members that are None, the general form is used."""

    has_logs: bool = True
    """False for a task whose requests or scores do not fit into a log of lm-evaluation-harness."""
    log_document: Callable[[Row], LogDocument] | None = None
    """A function that returns the log, document and target of an example."""
    log_sample: RowParts | None = None
    """A function that returns a dict with the keys ``asked`` (the arguments of each request), ``answers`` (one per
    request), ``metrics`` and ``lmassay`` (``id`` and ``groups``, which `lmassay import` needs); it returns None if the
    row does not contain them."""
    instance: RowParts | None = None
    """A function that returns a dict with the keys ``input``, ``output`` and ``answer_attribution`` of the schema of
    Every Eval Ever; it returns None for an example that gets the general form."""


def export_of(record: RunRecord) -> Export:
    """Return how the examples of this run are exported."""
    evaluation = evaluation_of(record)
    make_export = view_of(record).export
    if evaluation is None or make_export is None:
        return Export()
    export = call_hook(evaluation, "export", make_export, reads=instance_of(Export), otherwise=Export)
    # If one of these functions fails, the export ends, because a file that mixes two forms would be useless.
    return replace(
        export,
        log_document=with_named_errors(evaluation, "export.log_document", export.log_document),
        log_sample=with_named_errors(evaluation, "export.log_sample", _requiring_keys(_SAMPLE_KEYS, export.log_sample)),
        instance=with_named_errors(evaluation, "export.instance", _requiring_keys(_INSTANCE_KEYS, export.instance)),
    )


def _requiring_keys(keys: Sequence[str], function: RowParts | None) -> RowParts | None:
    """Wrap a function so that it raises ValueError if the dict that it returns lacks one of the keys."""
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
