"""How answers were read and how they ended (for the report), and the texts of an example (for the browser).

A family is one model with the prompts of one file; see `runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from lmassay.evaluations.bias.items import LETTERS
from lmassay.evaluations.bias.report.runs import AnswerExample, BiasRun, PromptFamily, Reading
from lmassay.evaluations.bias.report.tables import DIGITS, measure, rows_by_family
from lmassay.reporting.blocks import Block, Cell, DisplayedExample, Examples, Heading, Table, count
from lmassay.reporting.example_texts import Exchanges, NamedValues, answer_at, prompt_text
from lmassay.reporting.numbers import number_text
from lmassay.storage.store import Spending, Store
from lmassay.types import Row

_OUT_OF_CHOICE = "out of choice"
_PARSERS = ("reference", "robust")

# --- an example in the browser ----------------------------------------------------------------------------------------


def texts(row: Row, exchanges: Exchanges) -> NamedValues:
    """Return the texts of an example: the question with its choices, the answer, and how it was read."""
    inputs = row.example.inputs
    details = row.score.details
    choices = dict(zip(ascii_uppercase, inputs.get("choices", ()), strict=False))
    prompt = ""
    if exchanges:
        request, *_ = exchanges[0]
        prompt = prompt_text(request)
    values: NamedValues = []
    if prompt:
        values.append(("prompt", prompt))
    else:
        listed_choices = [f"{letter}: {choice}" for letter, choice in choices.items()]
        values.append(("context", inputs.get("context")))
        values.append(("question", inputs.get("question")))
        values.append(("choices", "\n".join(listed_choices)))
    finish = details.get("finish", "stop")
    answer_title = "answer" if finish == "stop" else f"answer ({finish})"
    values.append((answer_title, details.get("raw", answer_at(exchanges, 0))))
    values.append(("log-probability", _logprobs_text(choices, details)))
    values.append(("read as", _reading_text(details, choices)))
    values.append(("reference", _reference_text(row.example.reference, choices)))
    return values


def _logprobs_text(letters: Iterable[str], details: Mapping[str, Any]) -> str:
    parts = []
    for letter, logprob in zip(letters, details.get("logprobs", ()), strict=False):
        # A log of another tool may lack the log-probability of a choice.
        if logprob is not None:
            parts.append(f"{letter} {logprob:.2f}")
    return ", ".join(parts)


def _reading_text(details: Mapping[str, Any], choices: Mapping[str, str]) -> str:
    """Return the choice that was read, its role, how it was found, and what each parser read if they disagree."""
    if "letter" not in details:
        return ""
    letter = details["letter"]
    parts = []
    if letter:
        parts.append(f"{letter}: {choices.get(letter, '')}")
    else:
        parts.append(_OUT_OF_CHOICE)
    if letter and details.get("role"):
        parts.append(details["role"])
    if details.get("how"):
        parts.append(str(details["how"]))
    readings = {parser: details[parser] or _OUT_OF_CHOICE for parser in _PARSERS if parser in details}
    if len(set(readings.values())) > 1:
        texts_of_parsers = [f"the {parser} parser reads {reading}" for parser, reading in readings.items()]
        parts.append(", ".join(texts_of_parsers))
    return " · ".join(parts)


def _reference_text(reference: Any, choices: Mapping[str, str]) -> Any:
    if not isinstance(reference, Mapping):
        return reference
    role_titles = {"answer": "right", "unknown": "unknown", "biased": "stereotyped"}
    lines = []
    for role, letter in reference.items():
        if letter:
            lines.append(f"{role_titles.get(role, role)}: {letter}: {choices.get(letter, '')}")
    return "\n".join(lines)


# --- blocks of the section --------------------------------------------------------------------------------------------

MAX_DISAGREEMENTS = 20
MAX_UNREAD = 12
MAX_FAMILIES = 12
"""Examples are shown only for this many families, the first ones; the tables show all families."""

_READING_TITLES: Mapping[Reading, str] = {
    "robust": "only robust reads it",
    "reference": "only reference reads it",
    "different": "they read different letters",
    "neither": "neither reads it",
}
_PARSING_CAPTION = (
    "Two parsers turn an answer in words into a choice: reference is KoBBQ's own, robust is lmassay's own "
    "and understands more. Out of choice: share of the answers in which a parser reads no choice. The last columns "
    "count the answers that the two parsers read differently, and those that neither can read; all other answers are "
    "read as the same choice by both."
)
_POSITION_CAPTION = (
    "Share of each letter among the answers that were read. If every question is asked in all rotations of its choices "
    "and their position does not matter, all letters are equally frequent, and a question gets the same answer in all "
    "orders."
)
_ENDINGS_CAPTION = (
    "stop: the answer ended by itself. length: it was cut off at the token limit, and read up to there; an answer "
    "that was cut off before its first word is unscored. empty: the answer has no text, so it is out of choice (in "
    "imported logs: unscored). refusal, content_filter, too_long, not_text: no answer, so unscored. error: the request "
    "failed; a resumed run sends it again."
)
_DISAGREEMENTS = "answers that the parsers read differently"
_STEREOTYPES = "stereotyped answers in ambiguous contexts"
_UNREAD = "answers that neither parser reads"


def parsing(families: Sequence[PromptFamily]) -> list[Block]:
    """Return how often each parser reads no choice, and answers on which they disagree, for answers in words."""
    in_words = []
    for family in families:
        # The most probable letter needs no parser, so the parsers cannot differ.
        is_parsed = "parsing" in family.first.signature
        if is_parsed and any(run.statistics.readings for run in family.runs):
            in_words.append(family)
    if not in_words:
        return []

    def cells(family: PromptFamily) -> list[Cell]:
        readings = family.statistics.readings
        row = [Cell(family.first.signature["parsing"], kind="text")]
        row += [measure(family, metric) for metric in ("ooc_reference", "ooc_robust", "parsers_agree")]
        row += [count(readings[reading]) for reading in _READING_TITLES]
        return row

    def disagreements(family: PromptFamily) -> Sequence[AnswerExample]:
        return family.statistics.examples(("different", "robust", "reference"), MAX_DISAGREEMENTS)

    titles = ("reference: out of choice", "robust: out of choice", "they agree", *_READING_TITLES.values())
    header = [Cell("model", kind="text"), Cell("numbers use", kind="text"), *map(Cell, titles)]
    return [
        Heading("How answers were read"),
        Table(_PARSING_CAPTION, [header], rows_by_family(in_words, cells)),
        *_examples_by_family(in_words, _DISAGREEMENTS, disagreements),
    ]


def position(families: Sequence[PromptFamily]) -> list[Block]:
    """Return how often each letter was chosen and, with rotations, how much the order of the choices matters."""
    by_letter = []
    largest = 0
    all_rotations: set[str] = set()
    for family in families:
        if any(_has_letter_shares(run) for run in family.runs):
            by_letter.append(family)
            for run in family.runs:
                largest = max(largest, run.statistics.choices)
                all_rotations.update(run.statistics.by_rotation)
    if not by_letter:
        return []
    letters = LETTERS[:largest]
    rotations = sorted(all_rotations) if len(all_rotations) > 1 else []

    def cells(family: PromptFamily) -> list[Cell]:
        row = [_letter_share(family, letter) for letter in letters]
        if rotations:
            row.append(measure(family, "consistency"))
            row += [_out_of_choice(family, rotation) for rotation in rotations]
        return row

    header = [Cell("model", kind="text"), *map(Cell, letters)]
    if rotations:
        header.append(Cell("same in all orders"))
        for rotation in rotations:
            # Rotations are numbered from 0 in the data, from 1 for readers.
            number = str(int(rotation) + 1) if rotation.isdecimal() else rotation
            header.append(Cell(f"{_OUT_OF_CHOICE}, order {number}"))
        scope = f"Equal shares would be {1 / len(letters):.3f}."
    else:
        scope = "Each question was asked in one order only."
    table = Table(f"{_POSITION_CAPTION} {scope}", [header], rows_by_family(by_letter, cells))
    return [Heading("Letters and order"), table]


def endings(store: Store, families: Sequence[PromptFamily]) -> list[Block]:
    """Return how answers ended and what they cost; nothing if all of them ended by themselves at no cost."""
    all_finishes: set[str] = set()
    spending_by_run: dict[str, Spending | None] = {}
    listed = []
    for family in families:
        all_finishes.update(family.statistics.finishes)
        for run in family.runs:
            spending_by_run[run.record.id] = store.spending(run=run.record.id)
        # If the model was asked for log-probabilities, answers have no ending, but they may have a cost.
        if family.statistics.finishes or any(spending_by_run[run.record.id] for run in family.runs):
            listed.append(family)
    finishes = sorted(all_finishes)
    has_spending = any(spending_by_run.values())
    if not has_spending and all_finishes <= {"stop"}:
        return []

    def cells(family: PromptFamily) -> list[Cell]:
        counts = family.statistics.finishes
        row = [count(counts[finish] if counts else None) for finish in finishes]
        if has_spending:
            total: Spending | None = None
            for run in family.runs:
                spending = spending_by_run[run.record.id]
                if spending is not None:
                    total = spending if total is None else total.plus(spending)
            spent = "" if total is None else total.describe()
            row.append(Cell(spent, kind="text"))
        return row

    header = [Cell("model", kind="text"), *map(Cell, finishes)]
    if has_spending:
        header.append(Cell("spent", kind="text"))
    table = Table(_ENDINGS_CAPTION, [header], rows_by_family(listed, cells, "sum over"))
    return [Heading("How answers ended"), table]


def examples(families: Sequence[PromptFamily]) -> list[Examples]:
    """Return stereotyped answers in ambiguous contexts, and answers that neither parser reads."""

    def stereotypes(family: PromptFamily) -> Sequence[AnswerExample]:
        return [example for _, example in sorted(family.statistics.stereotypes.items())]

    def unread(family: PromptFamily) -> Sequence[AnswerExample]:
        return family.statistics.examples(["neither"], MAX_UNREAD)

    return [
        *_examples_by_family(families, _STEREOTYPES, stereotypes),
        *_examples_by_family(families, _UNREAD, unread),
    ]


def _examples_by_family(
    families: Sequence[PromptFamily], subject: str, choose: Callable[[PromptFamily], Sequence[AnswerExample]]
) -> list[Examples]:
    blocks = []
    for family in families[:MAX_FAMILIES]:
        chosen = choose(family)
        if chosen:
            displayed = [_displayed_example(example, subject == _STEREOTYPES) for example in chosen]
            blocks.append(Examples(f"{family.title}: {subject} ({len(chosen)} shown)", displayed))
    return blocks


def _displayed_example(example: AnswerExample, is_stereotype: bool) -> DisplayedExample:
    row = example.row
    inputs = row.example.inputs
    details = row.score.details
    groups = row.example.groups
    question = [
        ("context", str(inputs.get("context", ""))),
        ("question", str(inputs.get("question", ""))),
        ("choices", _choices_text(inputs.get("choices", ()), row.example.reference)),
    ]
    answer = [("answer", _answer_text(details))]
    if "raw" in details:
        readings = [f"{parser} {details.get(parser) or _OUT_OF_CHOICE}" for parser in _PARSERS]
        text = ", ".join(readings)
        if details.get("how"):
            text += f" ({details['how']})"
        answer.append(("read as", text))
    if is_stereotype:
        # The question shows who is stereotyped, so it comes first.
        named_texts = question + answer
        frequency = f"in {example.times} orders of its choices"
    else:
        # The wording of the answer shows why it was read like this, so it comes first.
        named_texts = answer + question[::-1]
        frequency = f"{example.times:,} such answers"
    facts = [groups.get("category", ""), groups.get("label", "")]
    if example.times > 1:
        facts.append(frequency)
    return DisplayedExample(row.example.id, " · ".join(filter(None, facts)), named_texts)


def _choices_text(choices: Sequence[str], reference: Any) -> str:
    """Return one choice per line, with its role."""
    role_titles = {"answer": "right", "biased": "stereotype"}
    roles_by_letter: dict[str, list[str]] = {}
    if isinstance(reference, Mapping):
        for role, letter in reference.items():
            roles_by_letter.setdefault(str(letter), []).append(role_titles.get(role, str(role)))
    lines = []
    for letter, choice in zip(LETTERS, choices, strict=False):
        line = f"{letter}: {choice}"
        if letter in roles_by_letter:
            line += f" ({', '.join(roles_by_letter[letter])})"
        lines.append(line)
    return "\n".join(lines)


def _answer_text(details: Mapping[str, Any]) -> str:
    if "raw" in details:
        return str(details["raw"])
    return f"{details.get('letter')} (log-probability {_logprobs_text(LETTERS, details)})"


def _has_letter_shares(run: BiasRun) -> bool:
    return any(metric.startswith("letter_") for metric, _ in run.results)


def _letter_share(family: PromptFamily, letter: str) -> Cell:
    # Results end with the last letter that was chosen; the letters after it were never chosen.
    if family.result(f"letter_{letter}") is None and any(_has_letter_shares(run) for run in family.runs):
        return Cell(number_text(0.0, DIGITS))
    return measure(family, f"letter_{letter}")


def _out_of_choice(family: PromptFamily, rotation: str) -> Cell:
    out_of_choice, answers = family.statistics.by_rotation.get(rotation, [0, 0])
    if not answers:
        return Cell("no data (n = 0)")
    return Cell(number_text(out_of_choice / answers, DIGITS), (f"{out_of_choice:,} of {answers:,}",))
