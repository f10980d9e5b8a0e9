"""The data types that all parts of lmassay share.

They are immutable, do no input or output, and can be stored as JSON. A run passes through them in this order: a task
yields an :class:`Example` and turns it into requests (:class:`Generate`, :class:`LogProbs`, :class:`Slot`,
:class:`Substitute`, :class:`Train`); a model answers each with a :class:`Response`; the task gives the example a
:class:`Score`; the scores of a run are aggregated into a list of :class:`Result`.

Import them from this package. A future version may move a type to another of its modules.
"""

from __future__ import annotations

from lmassay.types.design import (
    INTERVAL_RULE,
    Combination,
    Design,
    Replicates,
    Settings,
    combination_from_dict,
    design_from_dict,
)
from lmassay.types.json_text import (
    canonical,
    compact,
    digest,
)
from lmassay.types.metrics import (
    Better,
    Metric,
    find_metric,
    metric_as_dict,
    metric_from_dict,
)
from lmassay.types.requests import (
    Example,
    Generate,
    LogProbs,
    Request,
    Slot,
    SourceLocation,
    Substitute,
    Train,
    Verb,
    is_text,
    request_as_dict,
    request_key,
)
from lmassay.types.responses import (
    Answer,
    Candidate,
    Candidates,
    Continuation,
    Finish,
    Response,
    Substitution,
    Substitutions,
    TrainingOutcome,
    candidates_from_rows,
    response_as_dict,
    response_from_dict,
)
from lmassay.types.row_batch import RowBatch
from lmassay.types.runs import (
    Annotation,
    CardPart,
    NewRun,
    Provenance,
    RunRecord,
    provenance_from_dict,
)
from lmassay.types.scores import (
    OVERALL,
    Outcome,
    PerTestScores,
    Result,
    Row,
    Score,
    State,
)

__all__ = [
    "INTERVAL_RULE",
    "OVERALL",
    "Annotation",
    "Answer",
    "Better",
    "Candidate",
    "Candidates",
    "CardPart",
    "Combination",
    "Continuation",
    "Design",
    "Example",
    "Finish",
    "Generate",
    "LogProbs",
    "Metric",
    "NewRun",
    "Outcome",
    "PerTestScores",
    "Provenance",
    "Replicates",
    "Request",
    "Response",
    "Result",
    "Row",
    "RowBatch",
    "RunRecord",
    "Score",
    "Settings",
    "Slot",
    "SourceLocation",
    "State",
    "Substitute",
    "Substitution",
    "Substitutions",
    "Train",
    "TrainingOutcome",
    "Verb",
    "candidates_from_rows",
    "canonical",
    "combination_from_dict",
    "compact",
    "design_from_dict",
    "digest",
    "find_metric",
    "is_text",
    "metric_as_dict",
    "metric_from_dict",
    "provenance_from_dict",
    "request_as_dict",
    "request_key",
    "response_as_dict",
    "response_from_dict",
]
