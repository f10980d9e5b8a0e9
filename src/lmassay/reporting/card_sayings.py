"""What each evaluation says of a model in one number: its name, what it means, what it does not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lmassay.evaluations.fewshot.lessons import ACCURACY, lesson_result, tests_of
from lmassay.plugins.options import split_spec
from lmassay.reporting.headline import Headline
from lmassay.reporting.variants import overall, pooled
from lmassay.statistics.intervals import mean_result
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import RunRecord, Store
from lmassay.types import Result, Row

_BASELINES = ("majority", "random")
_OVER_SPLITS = "The interval is over what was shown, not over other tests"


def robustness(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    result = pooled(store, records, "success") if records else None
    if result is None:
        return None
    attacks = _number(len(records), "attack")
    clean = _clean_score(store, records[0])
    unchanged = sum(_unchanged(row) for record in records for row in store.rows(record.id))
    return Headline(
        evaluation="robustness",
        model=records[0].model,
        metric="success",
        title="attacks that succeed",
        better="lower",
        result=result,
        scope=f"{result.n:,} attacked inputs, {attacks}",
        beside=[
            *([] if clean.value is None else [f"score of its answers unattacked: {_value(clean)}"]),
            *([f"inputs that an attack left unchanged: {unchanged}"] if unchanged else []),
        ],
        meaning="The share of attacked inputs whose answer lost more than the input did: small changes, large harm.",
        limits=f"It speaks of {_strength(records)}; and an answer that is wrong anyway cannot break.",
        records=records,
    )


def _strength(records: Sequence[RunRecord]) -> str:
    """Which kinds of attack these are."""
    searched = sum("search(" in str(record.provenance.get("signature", {}).get("attack")) for record in records)
    if searched == len(records):
        return "attacks that look for a weak spot among a few draws, not of all there are"
    if searched:
        return "attacks drawn at random and of some that look for a weak spot, taken together"
    return "these attacks, not of one that looks for the weakest spot"


def _clean_score(store: Store, record: RunRecord) -> Result:
    """How well it does without attack, which is the same under all of them."""
    return mean_result(ScoreTable(store.score_rows(record.id)), "s_out", record.settings)


def _unchanged(row: Row) -> bool:
    """Where an attack found nothing to change, there was none."""
    source, attacked = row.example.inputs.get("src"), row.example.inputs.get("adv_src", ())
    return source is not None and bool(attacked) and all(text == source for text in attacked)


def syntax(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    if not records:
        return None
    record = records[-1]
    result, tse, ew = (overall(record, metric) for metric in ("mw", "tse", "ew"))
    if result is None:
        return None
    groups = {r["group"] for r in record.results if r["group"].startswith("construction=") and "," not in r["group"]}
    return Headline(
        evaluation="syntax",
        model=record.model,
        metric="mw",
        title="verbs that agree (MW)",
        better="higher",
        result=result,
        scope=f"{result.n:,} contexts, {_number(len(groups) or 1, 'construction')}",
        beside=[f"over all verbs alike (EW): {_value(ew)}", f"on the given pairs of verbs (TSE): {_value(tse)}"],
        meaning="A verb drawn from the model's own predictions agrees with its subject this often; by chance, half of "
        "the time.",
        limits="It is about one rule of grammar, agreement in number, in sentences made from templates.",
        records=[record],
    )


def minimal_pairs(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    if not records:
        return None
    record = records[-1]
    result = overall(record, "accuracy")
    if result is None:
        return None
    return Headline(
        evaluation="syntax",
        model=record.model,
        metric="accuracy",
        title="grammatical sentences preferred",
        better="higher",
        result=result,
        scope=_number(result.n, "pair"),
        beside=[],
        meaning="Of two sentences that differ in a word, the grammatical one is the more probable this often; by "
        "chance, half of the time.",
        limits="Which of two is the more probable says little of what the model would write.",
        records=[record],
    )


def bias(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    if not records:
        return None
    metric = "s_amb" if "s_amb" in records[0].provenance.get("headline", ()) else "diff_bias_amb"
    result = pooled(store, records, metric)
    if result is None:
        return None
    unknown, known = (pooled(store, records, name) for name in ("accuracy_amb", "accuracy_dis"))
    same = [found for record in records if (found := overall(record, "consistency")) and found.value is not None]
    beside = [f"says that it cannot tell, as it should: {_value(unknown)}"]
    beside += [f"right where the text does tell: {_value(known)}"]
    beside += [f"same answer in every order of the choices: {' and '.join(map(_value, same))}"] if same else []
    return Headline(
        evaluation="bias",
        model=records[0].model,
        metric=metric,
        title="bias where nothing is known",
        better="zero",
        result=result,
        scope=f"{result.n:,} answers, {_number(len(records), 'prompt')}",
        beside=beside,
        meaning="Where the text does not tell who it was, the stereotyped person is named this much more often than "
        "the other: 0 is even-handed, 1 always the stereotype.",
        limits="One who answers blindly, or by the place of a choice, is not biased either: look at how many answers "
        "are right where the text does tell (by chance, a third).",
        records=records,
    )


def fewshot(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    learned = [record for record in records if _learns(record)]
    if not learned:
        return None
    record = max(learned, key=_dev)
    metric = next(iter(record.provenance.get("headline") or ["acc"]))
    result = lesson_result(store, record, metric)
    if result is None:
        return None
    others = [r for r in records if not _learns(r)]
    tests = tests_of(store, record)
    return Headline(
        evaluation="fewshot",
        model=record.model,
        metric=metric,
        title=f"{metric} after a few examples",
        better="higher",
        result=result,
        scope=", ".join([_number(result.n, "split"), *([f"{tests:,} tests"] if tests else []), _told(record)]),
        beside=[f"{_told(other)}: {_value(lesson_result(store, other, metric))}" for other in others],
        meaning="After it was given a few labelled examples, it labels this share of unseen ones rightly. It has "
        "learned from them if it does better than without.",
        limits="One small task. Of several settings the one with the best dev score is shown. "
        + ("The interval is over what was shown and over the tests" if metric == ACCURACY else _OVER_SPLITS)
        + "; splits share their examples, so it is a guide.",
        records=[record],
    )


def _dev(record: RunRecord) -> float:
    dev = overall(record, "dev")
    return -1.0 if dev is None or dev.value is None else dev.value


def _learns(record: RunRecord) -> bool:
    name, options = _method(record)
    return name not in _BASELINES and not (name == "icl" and options.get("shots", 8) == 0)


def _told(record: RunRecord) -> str:
    name, options = _method(record)
    if name == "icl":
        shots = options.get("shots", 8)
        return f"{_number(shots, 'example')} shown" if shots else "none shown"
    return {"majority": "always the most frequent label", "random": "a label at random"}.get(name, name)


def _method(record: RunRecord) -> tuple[str, dict[str, Any]]:
    task = record.config["task"]
    spec = task.get("method", "pet") if isinstance(task, Mapping) else "pet"
    return split_spec(spec, "method")


def _value(result: Result | None) -> str:
    if result is None or result.value is None:
        return "no data"
    known = result.low is not None and result.high is not None
    return f"{result.value:.2f}" + (f" [{result.low:.2f}, {result.high:.2f}]" if known else f" (n = {result.n})")


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
