"""The syntax section: constructions by model in the layout of Newman et al. (2021), curves, failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lmassay.evaluations.syntax.metrics import VERB_PAIR
from lmassay.evaluations.syntax.report import curves, heatmap
from lmassay.evaluations.syntax.report.runs import MEAN, SyntaxRun, System, read, systems, wrong_mass
from lmassay.reporting.blocks import (
    Block,
    Body,
    Cell,
    DisplayedExample,
    Examples,
    Folded,
    Heading,
    Note,
    Section,
    Table,
    TableRow,
    count,
    in_short,
    measured,
    name,
    overlapping,
)
from lmassay.reporting.example_texts import Exchanges, NamedValues
from lmassay.reporting.numbers import few_label_notes, number_text
from lmassay.reporting.sections import results_section as results_as_they_are
from lmassay.reporting.sections import results_table
from lmassay.statistics.observations import counted_labels
from lmassay.storage.store import Store
from lmassay.types import Result, Row, RunRecord

MOST_SYSTEMS = 12
"""More than these have their numbers in the tables, but neither curves nor examples."""

_METRICS = (("mw", "MW"), ("ew", "EW"), ("tse", "TSE"))
_FACTS = ("mass", "contexts", "rows", "dropped", "errors", "lemmas", "nouns")
_DIGITS = 3
_WHAT_IT_IS = (
    "MW: share of the verbs' probability that agrees. EW: share of the verbs whose right form is more probable than "
    "the wrong one. TSE: the same of the rows' own verbs. sg, pl: where the right verb is singular, plural."
)
_WHAT_IT_RESTS_ON = (
    "mass: probability of all verbs that MW counts. rows: sentence pairs that TSE counts, with how many different verb "
    "pairs; dropped: sentence pairs with a verb form that is no single token. lemmas: verbs with both forms in the "
    "vocabulary."
)


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    runs = [read(store, record) for record in records]
    shown = systems([run for run in runs if run.bases and any(metric in dict(_METRICS) for metric, _ in run.results)])
    if not shown:
        plain = results_as_they_are(store, records)
        return Section(plain.blocks, _examples(runs))
    blocks: list[Block] = []
    grouped = overlapping(shown, lambda system: system.constructions)
    for names, members in grouped:
        blocks += [Heading(in_short(names))] if len(grouped) > 1 else []
        blocks += _tables(names, members)
        blocks += _notes(members)
        blocks += [results_table(run.record, own) for system in members for run in system.runs if (own := _own(run))]
        blocks += heatmap.blocks(names, members)
        blocks += curves.blocks(names, members[:MOST_SYSTEMS])
    if len(runs) > MOST_SYSTEMS:
        blocks.append(Note(f"Curves and examples of the first {MOST_SYSTEMS} runs only; report the others themselves."))
    note = "Every context counts once here, for TSE too, which the table counts by rows."
    return Section(blocks, _examples(runs[:MOST_SYSTEMS]), comparison_note=note)


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables(names: Sequence[str], members: Sequence[System]) -> list[Block]:
    """One system: scores and what they rest on in one table. Several: the layout of the paper, the rest below."""
    if len(members) == 1:
        head = [Cell("construction", kind="text"), *(Cell(title) for _, title in _METRICS), *map(Cell, _FACTS)]
        return [Table(f"{_WHAT_IT_IS} {_WHAT_IT_RESTS_ON}", [head], [_body(names, members, facts=True)])]
    triple = [Cell(title, edge=place == 0) for place, (_, title) in enumerate(_METRICS)]
    heads = [
        [Cell("", kind="text"), *(Cell(system.title, span=len(triple), edge=True) for system in members)],
        [Cell("construction", kind="text"), *(triple * len(members))],
    ]
    head = [Cell("construction", kind="text"), *map(Cell, _FACTS)]
    return [
        Table(_WHAT_IT_IS, heads, [_body(names, members)], dense=True),
        *(
            Folded(
                f"What the numbers of {system.title} rest on",
                [Table(_WHAT_IT_RESTS_ON, [head], [_body(names, [system], scores=False, facts=True)])],
            )
            for system in members
        ),
    ]


def _body(names: Sequence[str], members: Sequence[System], scores: bool = True, facts: bool = False) -> Body:
    def cells(construction: str | None) -> list[Cell]:
        found = [cell for system in members for cell in _scores(system, construction)] if scores else []
        return found + (_facts(members[0], construction) if facts else [])

    lines = [TableRow([name(construction), *cells(construction)]) for construction in names]
    if len(names) > 1 and any(system.result("mw") or system.result("tse") for system in members):
        lines.append(TableRow([name("overall"), *cells(None)], "total"))
        means = [
            measured(system.mean(metric), _DIGITS, edge=place == 0)
            for system in members
            for place, (metric, _) in enumerate(_METRICS)
        ]
        rest = [measured(members[0].mean("mass"), _DIGITS), *[Cell("")] * (len(_FACTS) - 1)]
        lines.append(TableRow([name(MEAN), *(means if scores else []), *(rest if facts else [])], "total"))
    return Body(lines)


def _scores(system: System, construction: str | None) -> list[Cell]:
    cells = []
    for place, (metric, _) in enumerate(_METRICS):
        apart = [(short, system.result(metric, construction, n)) for short, n in (("sg", "singular"), ("pl", "plural"))]
        texts = [f"{short} {number_text(r.value, 2)}" for short, r in apart if r and r.value is not None]
        small = [" · ".join(texts)] if texts else []
        cells.append(measured(system.result(metric, construction), _DIGITS, *small, edge=place == 0))
    return cells


def _facts(system: System, construction: str | None) -> list[Cell]:
    """Mass, counts, lemmas and nouns of one construction, or of all."""
    lemmas: set[int] = set()
    nouns: set[str] = set()
    without_noun = 0
    for run in system.runs:
        for of_construction, basis in run.bases.items():
            if construction is None or of_construction == construction:
                lemmas.update(basis.lemmas)
                nouns.update(basis.nouns)
                without_noun += basis.alone
    ew, tse = system.result("ew", construction), system.result("tse", construction)
    contexts, rows, not_scored, errors = count(None), count(None), count(None), count(None)
    below_contexts: list[str] = []
    if ew is not None:
        contexts, errors = count(ew.n), count(ew.n_error)
        if ew.n_unscored:
            below_contexts.append(f"{ew.n_unscored:,} unscored")
    if tse is not None:
        rows, not_scored = count(tse.n), count(tse.n_unscored)
        if ew is None:
            errors = count(tse.n_error)
    below_nouns = [f"{without_noun:,} unknown"] if without_noun else []
    return [
        measured(system.result("mass", construction), _DIGITS),
        Cell(contexts.text, below_contexts),
        Cell(rows.text, _verb_pairs(tse)),
        not_scored,
        errors,
        Cell(_range(lemmas)),
        Cell(f"{len(nouns):,}" if nouns else "", below_nouns),
    ]


def _verb_pairs(tse: Result | None) -> list[str]:
    """How many verb pairs TSE rests on; results of earlier versions do not say."""
    if tse is None or VERB_PAIR not in tse.clusters:
        return []
    return [counted_labels(tse.clusters[VERB_PAIR], VERB_PAIR)]


def _range(numbers: set[int]) -> str:
    if not numbers:
        return ""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _own(run: SyntaxRun) -> list[Result]:
    """Results of the user's own metrics."""
    known = {*dict(_METRICS), "mass"}
    return [result for (metric, _), result in run.results.items() if metric not in known and "@" not in metric]


def _notes(members: Sequence[System]) -> list[Block]:
    """How independent the rows are, and which numbers rest on few verbs."""
    notes = _clusters_notes(members)
    if notes and any(VERB_PAIR in result.clusters for result in _tse_results(members)):
        notes.append(
            Note("Intervals of TSE are clustered by verb pair as well, because all contexts try the same ones.")
        )
    for system in members:
        for run in system.runs:
            whose = f"{system.title}: " if len(members) > 1 else ""
            notes += [Note(f"{whose}{note}.") for note in few_label_notes(run.record, dict(_METRICS))]
    return notes


def _tse_results(members: Sequence[System]) -> Iterator[Result]:
    for system in members:
        for run in system.runs:
            yield from (result for (metric, _), result in run.results.items() if metric == "tse")


def _clusters_notes(members: Sequence[System]) -> list[Block]:
    """By how many nouns the intervals are clustered; a range where systems differ."""
    nouns: set[int] = set()
    nouns_by_construction: set[int] = set()
    without_noun: set[int] = set()
    has_several_constructions = False
    for system in members:
        own_nouns: set[str] = set()
        own_without_noun = 0
        constructions = 0
        for run in system.runs:
            for basis in run.bases.values():
                constructions += 1
                own_nouns.update(basis.nouns)
                own_without_noun += basis.alone
                nouns_by_construction.add(len(basis.nouns))
        nouns.add(len(own_nouns))
        without_noun.add(own_without_noun)
        has_several_constructions = has_several_constructions or constructions > 1
    # Zero means that a system has none, which is not part of the range.
    for counts in (nouns, nouns_by_construction, without_noun):
        counts.discard(0)
    if not nouns:
        if not without_noun:
            return []
        return [Note("No agreement noun is known; intervals treat every context as independent of the others.")]
    text = f"Intervals are clustered by the agreement noun: {_range(nouns)} nouns"
    if has_several_constructions:
        text += f" ({_range(nouns_by_construction)} per construction)"
    text += "."
    if without_noun:
        text += f" The noun of {_range(without_noun)} contexts is unknown; each of them is a cluster by itself."
    return [Note(text)]


# --- examples ---------------------------------------------------------------------------------------------------------


def _examples(runs: Sequence[SyntaxRun]) -> list[Examples]:
    return [
        Examples(
            f"Where {run.record.label} on {run.record.model} fails most ({len(run.worst)} contexts, by the probability "
            "of wrong verbs)",
            [_shown(row) for row in run.worst],
        )
        for run in runs
        if run.worst
    ]


def _shown(row: Row) -> DisplayedExample:
    inputs, values = row.example.inputs, row.score.values
    scores = ", ".join(
        f"{title} {number_text(values.get(metric), 3)}" for metric, title in _METRICS if metric in values
    )
    texts = [
        ("context", f"{inputs.get('left', '')}___{inputs.get('right', '')}"),
        ("construction", row.example.groups.get("construction", "")),
        ("right verb", str(row.example.reference or "")),
        ("wrong mass", f"{wrong_mass(row):.3f} of {values['mass']:.3f} that all verbs have"),
        *_verdicts(row),
    ]
    return DisplayedExample(row.example.id, scores, [(what, text) for what, text in texts if text])


def _verdicts(row: Row) -> list[tuple[str, str]]:
    """The rows of the data that stand for this context, by how the model judges their pair of verbs."""
    hits = dict(row.score.details.get("tse", []))
    pairs: dict[str, list[str]] = {"TSE right": [], "TSE wrong": [], "TSE dropped": []}
    for number, good, bad in row.example.inputs.get("rows", []):
        hit = hits.get(number)
        verdict = "TSE dropped" if hit is None else "TSE right" if hit else "TSE wrong"
        pairs[verdict].append(f"{good} / {bad}")
    return [(verdict, ", ".join(dict.fromkeys(found))) for verdict, found in pairs.items()]


# --- an example in the browser ----------------------------------------------------------------------------------------


def blank_texts(row: Row, _: Exchanges) -> NamedValues:
    """A context with its blank, and the verbs that were compared there."""
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
