"""A results folder with very many rows, some of whose texts try to inject markup or scripts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmassay.reporting.page import render
from lmassay.storage.store import Store
from lmassay.types import Example, NewRun, Row, Score, State, provenance_from_dict

MANY = 50_000
HOSTILE = [
    "<script>window.injected = 1</script>",
    "</script><script>window.injected = 2</script>",
    "<img src=x onerror='window.injected = 3'>",
    "</textarea></title></style><svg onload='window.injected = 4'>",
    "javascript:window.injected=5//",
    "\u202eright to left\u202c \u2067isolated",
    "a lone \ud800 surrogate and a NUL \x00 and \x1b[31m red",
    "{{7*7}} ${7*7} <!-- ]]>",
]
WORDS = (
    "the neighbour",
    "asked her friend",
    "about",
    "a long letter",
    "that nobody",
    "had ever answered",
    "before winter",
)


def fill(folder: Path, many: int = MANY) -> None:
    """Two runs of questions and one of sentences; every 40th row has an error, every 97th a hostile text."""
    rng = random.Random(0)
    with Store(folder, create=True) as store:
        for number, model in enumerate((HOSTILE[0], "a plain model")):
            _add(store, f"bias-{number}", "bias", model, _questions(rng, many // 5))
        _add(store, "robustness-0", "robustness", HOSTILE[2], _sentences(rng, many - 2 * (many // 5)))


def page(folder: Path) -> str:
    with Store(folder) as store:
        return render(store, store.runs())


def _add(store: Store, run: str, task: str, model: str, rows: Iterator[Row]) -> None:
    label = f"{task} {HOSTILE[1]}"
    provenance: dict[str, Any] = {"command": ["run", HOSTILE[2]], "signature": {"model": model}}
    store.add_run(
        NewRun(run, run, "", task, model, label, {"task": task}, f"task:{task}", provenance_from_dict(provenance), None)
    )
    store.add_rows(run, enumerate(rows))
    store.set_status(run, "done")


def _questions(rng: random.Random, many: int) -> Iterator[Row]:
    for number in range(many):
        odd = HOSTILE[number // 97 % len(HOSTILE)] if number % 97 == 0 else ""
        state: State = "error" if number % 40 == 7 else "scored"
        inputs = {"context": f"{odd} {_sentence(rng, 30)}", "question": _sentence(rng, 6), "choices": ["one", "two"]}
        groups = {
            "category": f"category {number % 11}" if number % 500 else HOSTILE[1],
            "template": str(number),
            "<b>odd</b>": f"x{number % 3}",
        }
        values = {"accuracy_amb": float(rng.random() > 0.5), "ooc": round(rng.random(), 4)}
        details = {"raw": f"{odd} answer {number}", "letter": "A", "role": "unknown", "how": "letter"}
        failed, name = state == "error", odd.replace("\ud800", "")
        yield Row(
            Example(f"q-{number}{name}", inputs, {"answer": "A"}, groups),
            state,
            Score() if failed else Score(values, {}, details),
            f"the server is on fire {name}" if failed else None,
        )


def _sentences(rng: random.Random, many: int) -> Iterator[Row]:
    for number in range(many):
        odd = HOSTILE[number // 97 % len(HOSTILE)] if number % 97 == 0 else ""
        source, changed = f"{_sentence(rng, 7)} {odd}", f"{_sentence(rng, 7)} {odd}"
        inputs = {"src": source, "adv_src": [changed], "line": number + 1}
        details = {"adv_src": changed, "out": _sentence(rng, 7), "adv_out": _sentence(rng, 7)}
        values = {"s_src": rng.random(), "d_tgt": rng.random(), "success": float(rng.random() > 0.5)}
        yield Row(Example(f"{number + 1}-s", inputs, _sentence(rng, 7)), "scored", Score(values, {}, details))


def _sentence(rng: random.Random, length: int) -> str:
    return " ".join(rng.choices(WORDS, k=length))
