"""How answers were read: both parsers, letters and order, how answers ended; and an example's texts for the browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lmassay.evaluations.bias.items import LETTERS
from lmassay.evaluations.bias.report.runs import AnswerExample, BiasRun, PromptFamily, Reading
from lmassay.evaluations.bias.report.tables import DIGITS, lines_by_family, measure
from lmassay.reporting.blocks import Block, Cell, DisplayedExample, Examples, Heading, Table, count
from lmassay.reporting.example_texts import Exchanges, NamedValues, answer_at, prompt_text
from lmassay.reporting.numbers import number_text
from lmassay.storage.store import Spending, Store
from lmassay.types import Row

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def texts(row: Row, asked: Exchanges) -> NamedValues:
    """The question with its choices, the answer, and how it was read."""
    inputs, details = row.example.inputs, row.score.details
    choices = dict(zip(_LETTERS, inputs.get("choices", ()), strict=False))
    prompt = prompt_text(asked[0][0]) if asked else ""
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
        (f"answer ({finish})" if finish != "stop" else "answer", details.get("raw", answer_at(asked, 0))),
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


# --- blocks of the section --------------------------------------------------------------------------------------------

MOST_DISAGREEMENTS = 20
MOST_UNREAD = 12
MOST_FAMILIES = 12
"""More than these have their numbers, but no examples."""

_READINGS: Mapping[Reading, str] = {
    "robust": "only robust reads it",
    "reference": "only reference reads it",
    "different": "they read different letters",
    "neither": "neither reads it",
}
_PARSING = (
    "Two ways from an answer in words to a choice: reference is KoBBQ's own, robust understands more. Out of choice: "
    "share of the answers that a parser cannot read. The counts say where the two disagree; what both read alike is "
    "the rest."
)
_POSITION = (
    "Share of each letter among the answers that were read. Where every question is asked in all rotations of its "
    "choices, letters would be equally frequent if their place did not matter, and a question would get the same "
    "answer in all orders."
)
_ENDINGS = (
    "stop: ended by itself; length: cut at the most tokens allowed, and read as far as it goes. refusal, "
    "content_filter, empty: no answer, hence unscored. error: none came; a resumed run asks again."
)


def parsing(families: Sequence[PromptFamily]) -> list[Block]:
    """Both parsers' rates, for runs whose answers are words."""
    written = [f for f in families if any(run.seen.readings for run in f.runs)]
    if not written:
        return []

    def cells(family: PromptFamily) -> list[Cell]:
        readings = family.seen.readings
        return [
            Cell(family.first.signature.get("parsing", "letters"), kind="text"),
            *(measure(family, metric) for metric in ("ooc_reference", "ooc_robust", "parsers_agree")),
            *(count(readings[reading]) for reading in _READINGS),
        ]

    titles = ("reference: out of choice", "robust: out of choice", "they agree", *_READINGS.values())
    head = [Cell("model", kind="text"), Cell("numbers use", kind="text"), *map(Cell, titles)]
    table = Table(_PARSING, [head], lines_by_family(written, cells))
    kinds: tuple[Reading, ...] = ("different", "robust", "reference")
    return [
        Heading("How answers were read"),
        table,
        *_some(written, _DISAGREE, lambda f: f.seen.shown(kinds, MOST_DISAGREEMENTS)),
    ]


def position(families: Sequence[PromptFamily]) -> list[Block]:
    """Letters and rotations."""
    asked = [f for f in families if any(_letters(run) for run in f.runs)]
    if not asked:
        return []
    letters = LETTERS[: max(run.seen.choices for family in asked for run in family.runs)]
    rotations = sorted({r for f in asked for run in f.runs for r in run.seen.by_rotation})
    rotated = rotations if len(rotations) > 1 else []

    def cells(family: PromptFamily) -> list[Cell]:
        shares = [_letter(family, letter) for letter in letters]
        found = [measure(family, "consistency")] if rotated else []
        return [*shares, *found, *(_ooc(family, rotation) for rotation in rotated)]

    head = [Cell("model", kind="text"), *map(Cell, letters)]
    head += [Cell("same in all orders")] if rotated else []
    head += [Cell(f"out of choice, order {int(r) + 1 if r.isdecimal() else r}") for r in rotated]
    even = (
        f" Equal shares would be {1 / len(letters):.3f}." if rotated else " Each question was asked in one order only."
    )
    return [Heading("Letters and order"), Table(_POSITION + even, [head], lines_by_family(asked, cells))]


def endings(store: Store, families: Sequence[PromptFamily]) -> list[Block]:
    """How answers ended and what they cost, where there is anything to tell."""
    told = [family for family in families if family.seen.finishes]
    kinds = sorted({kind for family in told for kind in family.seen.finishes})
    spent = {run.record.id: store.spending(run=run.record.id) for family in families for run in family.runs}
    paid = any(spent.values())
    if not paid and set(kinds) <= {"stop"}:
        return []

    def cells(family: PromptFamily) -> list[Cell]:
        found = [spending for run in family.runs if (spending := spent[run.record.id]) is not None]
        cost = [Cell(_total(found).describe() if found else "", kind="text")] if paid else []
        finishes = family.seen.finishes
        return [*(count(finishes[kind]) for kind in kinds), *cost]

    head = [Cell("model", kind="text"), *map(Cell, kinds), *([Cell("spent", kind="text")] if paid else [])]
    return [Heading("How answers ended"), Table(_ENDINGS, [head], lines_by_family(told, cells, "sum over"))]


def examples(families: Sequence[PromptFamily]) -> list[Examples]:
    """Stereotyped answers without evidence, answers that nobody could read."""
    return [
        *_some(families, _STEREOTYPES, lambda f: [kept for _, kept in sorted(f.seen.stereotypes.items())]),
        *_some(families, _UNREAD, lambda f: f.seen.shown(["neither"], MOST_UNREAD)),
    ]


_ROLES = {"answer": "right", "biased": "stereotype"}
_DISAGREE = "answers that the parsers read differently"
_STEREOTYPES = "stereotyped answers where the context does not say"
_UNREAD = "answers that neither parser reads"


def _some(
    families: Sequence[PromptFamily], what: str, of: Callable[[PromptFamily], Sequence[AnswerExample]]
) -> list[Examples]:
    found = [(family, of(family)) for family in families[:MOST_FAMILIES]]
    return [
        Examples(f"{family.title}: {what} ({len(kept)} shown)", [_shown(k, what is _STEREOTYPES) for k in kept])
        for family, kept in found
        if kept
    ]


def _total(spendings: Sequence[Spending]) -> Spending:
    """Of several runs; the cost is unknown where one is."""
    prices = [spending.usd for spending in spendings if spending.usd is not None]
    return Spending(
        sum(spending.answers for spending in spendings),
        sum(spending.tokens_in for spending in spendings),
        sum(spending.tokens_out for spending in spendings),
        sum(prices) if len(prices) == len(spendings) else None,
    )


def _shown(kept: AnswerExample, stereotype: bool) -> DisplayedExample:
    row = kept.row
    inputs, details, groups = row.example.inputs, row.score.details, row.example.groups
    question = [
        ("context", str(inputs.get("context", ""))),
        ("question", str(inputs.get("question", ""))),
        ("choices", _choices(inputs.get("choices", ()), row.example.reference)),
    ]
    answer = [("answer", _answer(details))]
    if "raw" in details:
        how = f" ({details['how']})" if details.get("how") else ""
        read = [f"{parser} {details.get(parser) or 'out of choice'}" for parser in ("reference", "robust")]
        answer.append(("read as", f"{', '.join(read)}{how}"))
    # How an answer was read is seen from its words, whom it suspects from the question.
    texts = question + answer if stereotype else answer + question[::-1]
    times = f"in {kept.times} orders of its choices" if stereotype else f"{kept.times:,} such answers"
    told = [groups.get("category", ""), groups.get("label", ""), times if kept.times > 1 else ""]
    scores = " · ".join(filter(None, told))
    return DisplayedExample(row.example.id, scores, texts)


def _choices(choices: Sequence[str], reference: Any) -> str:
    """One a line, with what each of them stands for."""
    roles: dict[str, list[str]] = {}
    for role, letter in (reference if isinstance(reference, Mapping) else {}).items():
        roles.setdefault(str(letter), []).append(_ROLES.get(role, str(role)))
    lines = []
    for letter, choice in zip(LETTERS, choices, strict=False):
        told = f" ({', '.join(roles[letter])})" if letter in roles else ""
        lines.append(f"{letter}: {choice}{told}")
    return "\n".join(lines)


def _answer(details: Mapping[str, Any]) -> str:
    if "raw" in details:
        return str(details["raw"])
    # The log of another tool need not have asked for every choice.
    found = [(x, score) for x, score in zip(LETTERS, details.get("logprobs", ()), strict=False) if score is not None]
    return f"{details.get('letter')} (log-probability {', '.join(f'{letter} {score:.2f}' for letter, score in found)})"


def _letters(run: BiasRun) -> bool:
    return any(metric.startswith("letter_") for metric, _ in run.results)


def _letter(family: PromptFamily, letter: str) -> Cell:
    """A letter beyond the last one chosen has no result: it was never chosen."""
    if family.result(f"letter_{letter}") is None and any(_letters(run) for run in family.runs):
        return Cell(number_text(0.0, DIGITS))
    return measure(family, f"letter_{letter}")


def _ooc(family: PromptFamily, rotation: str) -> Cell:
    unread, asked = family.seen.by_rotation.get(rotation, [0, 0])
    if not asked:
        return Cell("no data (n = 0)")
    return Cell(number_text(unread / asked, DIGITS), (f"{unread:,} of {asked:,}",))
