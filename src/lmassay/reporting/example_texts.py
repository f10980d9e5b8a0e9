"""What a reader wants to see of an example: what was asked, what came back, how it was read, what was right."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lmassay.types import Candidates, Continuation, Response, Row, Trained

Asked = Sequence[tuple[Mapping[str, Any], Response]]
Texts = list[tuple[str, str]]
MOST_QUESTIONS = 3
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def texts_of(task: str, row: Row, asked: Asked) -> Texts:
    """(name, text) in reading order; texts that are not there are left out."""
    found = _OF_TASK.get(task, _of_any)(row, asked)
    unscored = [(f"no {metric}", reason) for metric, reason in row.score.unscored.items() if "@" not in metric]
    told = [*found, *unscored, ("error", row.error)]
    return [(name, _plain(text)) for name, text in told if text not in (None, "", [], {})]


Found = list[tuple[str, Any]]


def _of_robustness(row: Row, asked: Asked) -> Found:
    source, inputs, details = row.example.inputs.get("src"), row.example.inputs, row.score.details
    versions = list(inputs.get("adv_src", ()))
    perturbed = details.get("adv_src", versions[0] if len(versions) == 1 else None)
    place = 1 + versions.index(perturbed) if perturbed in versions else 1
    prompts = [_prompt(request) for request, _ in asked]
    return [
        ("source", source),
        ("perturbed", perturbed),
        ("made by", details.get("made_by")),
        # What a translator is given is the sentence itself; a chat model is given instructions with it.
        ("prompt", prompts[0] if prompts and prompts[0] != source else None),
        ("output", details.get("out", _answer_at(asked, 0))),
        ("perturbed prompt", prompts[place] if len(prompts) > place and prompts[place] != perturbed else None),
        ("output on perturbed", details.get("adv_out", _answer_at(asked, place))),
        ("reference", row.example.reference),
    ]


def _of_syntax(row: Row, _: Asked) -> Found:
    inputs, details = row.example.inputs, row.score.details
    if "left" not in inputs:
        return [("right", inputs.get("good")), ("wrong", inputs.get("bad")), ("where", inputs.get("where"))]
    hits = dict(details.get("tse", ()))
    verdicts = {None: "not judged", 0: "wrong", 1: "right"}
    pairs = [
        f"{good} / {bad}: {verdicts.get(hits.get(number), 'judged')}" for number, good, bad in inputs.get("rows", ())
    ]
    return [
        ("context", f"{inputs['left']}___{inputs.get('right', '')}"),
        ("right / wrong verb", "\n".join(dict.fromkeys(pairs))),
        ("lemmas scored", details.get("lemmas")),
        ("not one token", ", ".join(map(str, details.get("not_single_token", ())))),
        ("reference", row.example.reference),
    ]


def _of_minimal_pairs(row: Row, _: Asked) -> Found:
    inputs, details = row.example.inputs, row.score.details
    compared = [f"{context} [{word.strip()}]" for context, word in inputs.get("asked", ()) if context]
    judged = [
        f"{side} {details[f'logprob_{side}']:.3f} over {details.get(f'tokens_{side}', '?')} tokens"
        for side in ("good", "bad")
        if f"logprob_{side}" in details
    ]
    return [
        ("good", inputs.get("good")),
        ("bad", inputs.get("bad")),
        ("compared", "\n".join(compared)),
        ("log-probability", "\n".join(judged)),
    ]


def _of_bias(row: Row, asked: Asked) -> Found:
    inputs, details = row.example.inputs, row.score.details
    choices = dict(zip(_LETTERS, inputs.get("choices", ()), strict=False))
    prompt = _prompt(asked[0][0]) if asked else ""
    question = [
        ("context", inputs.get("context")),
        ("question", inputs.get("question")),
        ("choices", "\n".join(f"{letter}: {choice}" for letter, choice in choices.items())),
    ]
    logprobs = zip(choices, details.get("logprobs", ()), strict=False)
    # The log of another tool need not have asked for every choice.
    by_choice = ", ".join(f"{letter} {value:.2f}" for letter, value in logprobs if value is not None)
    finish = details.get("finish", "stop")
    return [
        *([("prompt", prompt)] if prompt else question),
        (f"answer ({finish})" if finish != "stop" else "answer", details.get("raw", _answer_at(asked, 0))),
        ("log-probability", by_choice),
        ("read as", _read(details, choices)),
        ("reference", _reference(row.example.reference, choices)),
    ]


def _read(details: Mapping[str, Any], choices: Mapping[str, str]) -> str:
    if "letter" not in details:
        return ""
    letter = details["letter"]
    told = [f"{letter}: {choices.get(letter, '')}" if letter else "out of choice"]
    told += [details["role"]] if letter and details.get("role") else []
    told += [str(details["how"])] if details.get("how") else []
    parsers = {name: details[name] or "out of choice" for name in ("reference", "robust") if name in details}
    differ = ", ".join(f"the {name} parser reads {read}" for name, read in parsers.items())
    return " · ".join([*told, *([differ] if len(set(parsers.values())) > 1 else [])])


def _reference(reference: Any, choices: Mapping[str, str]) -> Any:
    if not isinstance(reference, Mapping):
        return reference
    roles = {"answer": "right", "unknown": "unknown", "biased": "stereotyped"}
    return "\n".join(
        f"{roles.get(role, role)}: {letter}: {choices.get(letter, '')}" for role, letter in reference.items() if letter
    )


def _of_fewshot(row: Row, asked: Asked) -> Found:
    inputs, details, groups = row.example.inputs, row.score.details, row.example.groups
    sizes = [("train", "n_train", "train"), ("dev", "n_dev", "dev"), ("test", "n_test", None)]
    counts = [
        f"{details.get(key, len(inputs.get(listed or '', ())))} {name}"
        for name, key, listed in sizes
        if key in details or listed in inputs
    ]
    course = [
        f"step {step}: {', '.join(f'{metric} {value:.3f}' for metric, value in scores.items())}"
        for step, scores in details.get("curve") or ()
    ]
    return [
        ("configuration", ", ".join([*(f"{k} {v}" for k, v in groups.items()), f"seed {inputs.get('seed')}"])),
        ("examples", ", ".join(counts)),
        ("trained on rows", ", ".join(map(str, inputs.get("train", ())))),
        ("chosen on rows", ", ".join(map(str, inputs.get("dev", ())))),
        ("on the dev set", "\n".join(course)),
        ("notes", details.get("notes")),
        *_questions([pair for pair in asked if pair[0].get("verb") != "train"]),
    ]


def _of_any(row: Row, asked: Asked) -> Found:
    inputs = list(row.example.inputs.items())
    return [
        *(_questions(asked) if asked else []),
        *inputs,
        *((name, value) for name, value in row.score.details.items() if (name, value) not in inputs),
        ("reference", row.example.reference),
    ]


_OF_TASK: Mapping[str, Callable[[Row, Asked], Found]] = {
    "robustness": _of_robustness,
    "syntax": _of_syntax,
    "refining_tse": _of_syntax,
    "minimal_pairs": _of_minimal_pairs,
    "bias": _of_bias,
    "fewshot": _of_fewshot,
}


def _questions(asked: Asked) -> Found:
    """Prompts and answers in turn; of many, the first few."""
    several = len(asked) > 1
    found: Found = []
    for number, (request, response) in enumerate(asked[:MOST_QUESTIONS], 1):
        which = f" {number} of {len(asked)}" if several else ""
        found += [(f"prompt{which}", _prompt(request)), (f"answer{which}", _answer(response))]
    return found


def _prompt(request: Mapping[str, Any]) -> str:
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


def _answer_at(asked: Asked, place: int) -> str:
    return _answer(asked[place][1]) if place < len(asked) else ""


def _answer(response: Response) -> str:
    answer = response.answer
    if isinstance(answer, str):
        return answer if response.finish == "stop" else f"{answer} [{response.finish}]"
    if isinstance(answer, Continuation):
        return f"log-probability {answer.total:.3f} over {len(answer.tokens)} tokens"
    if isinstance(answer, Candidates):
        return f"log-probabilities of {len(answer):,} words"
    if isinstance(answer, Trained):
        return "trained"
    return response.error or f"no answer ({response.finish})"


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, ensure_ascii=False)
