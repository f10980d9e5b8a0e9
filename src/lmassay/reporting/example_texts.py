"""The texts of an example that a reader wants to see: what was asked, what was answered, how the answer was read, and
what was expected."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lmassay.plugins.evaluations import evaluation_of, view_of
from lmassay.plugins.hooks import call_hook, name_value_pairs
from lmassay.types import Candidates, Continuation, Response, Row, RunRecord, Substitutions, TrainingOutcome
from lmassay.types.wording import counted

Exchanges = Sequence[tuple[Mapping[str, Any], Response]]
"""The exchanges about an example: its requests, each with the model's response."""
Texts = list[tuple[str, str]]
NamedValues = list[tuple[str, Any]]
MAX_EXCHANGES = 3


def texts_of(record: RunRecord, row: Row, exchanges: Exchanges) -> Texts:
    """Return the texts of an example as (name, text), in reading order; empty ones are left out."""
    values = _values(record, row, exchanges)
    for metric, reason in row.score.unscored.items():
        # The points of a curve (ew@top0.5) have the same reason as the metric itself.
        if "@" not in metric:
            values.append((f"no {metric}", reason))
    values.append(("error", row.error))
    texts: Texts = []
    for name, value in values:
        is_empty = value in (None, "", [], {})
        if not is_empty:
            texts.append((name, _plain(value)))
    return texts


def _values(record: RunRecord, row: Row, exchanges: Exchanges) -> NamedValues:
    """Return the texts that the evaluation's ``texts`` hook selects; generic ones if it has no hook or that fails."""

    def generic() -> NamedValues:
        return generic_texts(row, exchanges)

    evaluation = evaluation_of(record)
    make_texts = view_of(record).texts
    if evaluation is None or make_texts is None:
        return generic()
    values = call_hook(evaluation, "texts", make_texts, row, exchanges, reads=name_value_pairs, otherwise=generic)
    return list(values)


def generic_texts(row: Row, exchanges: Exchanges) -> NamedValues:
    """Return everything that is known about an example, for a task that does not say what to show."""
    inputs = list(row.example.inputs.items())
    # Many tasks repeat an input among the details of a score, but it is shown only once.
    details = [detail for detail in row.score.details.items() if detail not in inputs]
    return [*prompts_and_answers(exchanges), *inputs, *details, ("reference", row.example.reference)]


def prompts_and_answers(exchanges: Exchanges) -> NamedValues:
    """Return alternately prompts and answers, those of the first MAX_EXCHANGES requests."""
    values: NamedValues = []
    for number, (request, response) in enumerate(exchanges[:MAX_EXCHANGES], 1):
        suffix = f" {number} of {len(exchanges)}" if len(exchanges) > 1 else ""
        values.append((f"prompt{suffix}", prompt_text(request)))
        values.append((f"answer{suffix}", answer_text(response)))
    more = len(exchanges) - MAX_EXCHANGES
    if more > 0:
        values.append(("more", f"{counted(more, 'more prompt')} with answers; lmassay view shows all of them"))
    return values


def prompt_text(request: Mapping[str, Any]) -> str:
    """Return the text that a request gave to the model, for every kind of request."""
    messages: Sequence[Any] = request.get("messages") or ()
    if len(messages) == 1:
        _, content = messages[0]
        text = str(content)
    elif messages:
        text = "\n\n".join(f"{role}: {content}" for role, content in messages)
    elif "text" in request:
        # A request for substitutions in a text. There may be an instruction before the text and after it.
        text = f"{request.get('left', '')}{request['text']}{request.get('right', '')}"
    elif "left" in request:
        # A request to fill the blank between two texts.
        text = f"{request['left']}___{request.get('right', '')}"
    else:
        text = str(request.get("prompt") or request.get("context") or "")
    continuation = request.get("continuation")
    if continuation:
        return f"{text} [{continuation}]"
    return text


def answer_at(exchanges: Exchanges, position: int) -> str:
    """Return the answer to one of the requests; empty if there are fewer."""
    if position >= len(exchanges):
        return ""
    _, response = exchanges[position]
    return answer_text(response)


def answer_text(response: Response) -> str:
    """Return an answer as readable text, for every kind of request."""
    answer = response.answer
    if isinstance(answer, str):
        if response.finish == "stop":
            return answer
        # A reader must see that a text was cut off at the token limit, or filtered.
        return f"{answer} [{response.finish}]"
    if isinstance(answer, Continuation):
        return f"log-probability {answer.total:.3f} over {counted(len(answer.tokens), 'token')}"
    if isinstance(answer, Candidates):
        return f"log-probabilities of {len(answer):,} words"
    if isinstance(answer, TrainingOutcome):
        return "trained"
    if isinstance(answer, Substitutions):
        return "\n".join(substitution.text for substitution in answer.items)
    return response.error or f"no answer ({response.finish})"


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, ensure_ascii=False)
