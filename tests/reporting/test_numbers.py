"""Notes about the numbers of a run."""

from __future__ import annotations

from lmassay.reporting.numbers import missing_metric_notes
from lmassay.types import Design, Provenance, Result, RunRecord


def record_with(*metrics: str) -> RunRecord:
    results = [Result(metric, "overall", 0.5, None, None, 2) for metric in metrics]
    provenance = Provenance(design=Design(headline=("right",)))
    return RunRecord("r", "s", "", "sums", "m", "l", "done", {}, "", provenance, results, "", None, "", None)


def test_a_main_metric_that_no_example_has_is_reported_with_what_was_meant() -> None:
    assert missing_metric_notes(record_with("rihgt", "speed")) == [
        "l: the task declares the metric 'right', but no example has such a score; did you mean 'rihgt'?"
    ]


def test_a_run_with_its_main_metric_or_without_any_result_gets_no_note() -> None:
    assert missing_metric_notes(record_with("right")) == missing_metric_notes(record_with()) == []
