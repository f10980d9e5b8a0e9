"""How the runs of a task are written in the formats of other tools, where the general form is not enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lmassay.plugins.evaluations import evaluation_of, view_of
from lmassay.plugins.hooks import call_hook, instance_of, with_named_errors
from lmassay.types import Row, RunRecord

LogDocument = tuple[str, dict[str, Any], str]
"""The name of the log that an example belongs to, its document and its target."""


@dataclass(frozen=True, slots=True)
class Export:
    """What a task knows better than the general form. Members that are None get the general form."""

    has_logs: bool = True
    """False for a task whose requests have no place in a log of lm-evaluation-harness."""
    log_document: Callable[[Row], LogDocument] | None = None
    """The log, document and target of an example."""
    log_sample: Callable[[Row], dict[str, Any] | None] | None = None
    """What was asked and answered about an example, with its metrics; None if the row does not say."""
    instance: Callable[[Row], dict[str, Any] | None] | None = None
    """Input, output and attribution of an example for Every Eval Ever; None where the general form will do."""


def export_of(record: RunRecord) -> Export:
    """How the runs of this run's task are exported."""
    evaluation, make = evaluation_of(record), view_of(record).export
    if evaluation is None or make is None:
        return Export()
    export = call_hook(evaluation, "export", make, reads=instance_of(Export), otherwise=Export)
    # A file that is half in one form and half in another would be of no use: a function that fails ends the export.
    return replace(
        export,
        log_document=with_named_errors(evaluation, "export.log_document", export.log_document),
        log_sample=with_named_errors(evaluation, "export.log_sample", export.log_sample),
        instance=with_named_errors(evaluation, "export.instance", export.instance),
    )
