"""What a reader wants to see of an example: what was asked, what came back, how it was read, what was right."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lmassay.plugins.evaluations import evaluation_of, view_of
from lmassay.plugins.hooks import call_hook, name_value_pairs
from lmassay.types import Candidates, Continuation, Response, Row, RunRecord, TrainingOutcome

Exchanges = Sequence[tuple[Mapping[str, Any], Response]]
Texts = list[tuple[str, str]]
MOST_QUESTIONS = 3


NamedValues = list[tuple[str, Any]]


def texts_of(record: RunRecord, row: Row, asked: Exchanges) -> Texts:
    """(name, text) in reading order; texts that are not there are left out."""
    parts = _parts(record, row, asked)
    unscored = [(f"no {metric}", reason) for metric, reason in row.score.unscored.items() if "@" not in metric]
    shown = [*parts, *unscored, ("error", row.error)]
    return [(name, _plain(text)) for name, text in shown if text not in (None, "", [], {})]


def _parts(record: RunRecord, row: Row, asked: Exchanges) -> NamedValues:
    """What the evaluation shows of an example; the general form if it does not say."""

    def general() -> NamedValues:
        return generic_texts(row, asked)

    evaluation, make = evaluation_of(record), view_of(record).texts
    if evaluation is None or make is None:
        return general()
    return call_hook(evaluation, "texts", make, row, asked, reads=name_value_pairs, otherwise=general)


def generic_texts(row: Row, asked: Exchanges) -> NamedValues:
    """All that is known about an example, for a task that does not say what to show."""
    inputs = list(row.example.inputs.items())
    return [
        *(prompts_and_answers(asked) if asked else []),
        *inputs,
        *((name, value) for name, value in row.score.details.items() if (name, value) not in inputs),
        ("reference", row.example.reference),
    ]


def prompts_and_answers(asked: Exchanges) -> NamedValues:
    """Prompts and answers in turn; of many, the first few."""
    several = len(asked) > 1
    parts: NamedValues = []
    for number, (request, response) in enumerate(asked[:MOST_QUESTIONS], 1):
        which = f" {number} of {len(asked)}" if several else ""
        parts += [(f"prompt{which}", prompt_text(request)), (f"answer{which}", answer_text(response))]
    return parts


def prompt_text(request: Mapping[str, Any]) -> str:
    """What the model was given, whatever the verb."""
    turns = [(str(role), str(content)) for role, content in request.get("messages") or ()]
    if turns:
        text = turns[0][1] if len(turns) == 1 else "\n\n".join(f"{role}: {content}" for role, content in turns)
    elif "left" in request:
        text = f"{request['left']}___{request.get('right', '')}"
    else:
        text = str(request.get("prompt") or request.get("context") or "")
    continuation = request.get("continuation")
    return f"{text} [{continuation}]" if continuation else text


def answer_at(asked: Exchanges, place: int) -> str:
    """The answer to one of the requests; empty if there is none."""
    return answer_text(asked[place][1]) if place < len(asked) else ""


def answer_text(response: Response) -> str:
    """An answer as a reader wants to see it, whatever was asked."""
    answer = response.answer
    if isinstance(answer, str):
        return answer if response.finish == "stop" else f"{answer} [{response.finish}]"
    if isinstance(answer, Continuation):
        return f"log-probability {answer.total:.3f} over {len(answer.tokens)} tokens"
    if isinstance(answer, Candidates):
        return f"log-probabilities of {len(answer):,} words"
    if isinstance(answer, TrainingOutcome):
        return "trained"
    return response.error or f"no answer ({response.finish})"


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, ensure_ascii=False)
