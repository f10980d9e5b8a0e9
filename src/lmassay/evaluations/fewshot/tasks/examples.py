"""One labelled or unlabelled example of a few-shot task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class InputExample:
    """An example as FewNLU's processors make it: one or two texts and a label.

    ``guid`` is unique in its file and ends in ``-<number>``. ``logits`` are the logits of a teacher, which serve as
    soft labels. ``meta`` has all other fields that a task needs, and ``idx`` is the number of the example in its file.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | None = None
    logits: Sequence[float] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    idx: int = -1


# The fields of ``meta`` that are part of the input, in users' tasks and in SuperGLUE. The others are ids, groups and
# solutions.
_INPUT_FIELDS = ("fields", "word", "choice1", "choice2", "question", "answer", "span1_text", "span2_text")


def input_key(example: InputExample) -> str:
    """Return a text that two examples share if a classifier would read the same in both."""
    further = {name: example.meta[name] for name in _INPUT_FIELDS if name in example.meta}
    # Not as JSON: the fields of users' own classes may be of any type.
    return repr((example.text_a, example.text_b, further))
