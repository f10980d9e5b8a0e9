"""One labelled or unlabelled example of a few-shot task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class InputExample:
    """Texts and label as FewNLU's processors make them; ``meta`` has what else a task needs.

    ``guid`` is unique in its file and ends in ``-<number>``; ``logits`` are soft labels from a teacher.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | None = None
    logits: Sequence[float] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    idx: int = -1
