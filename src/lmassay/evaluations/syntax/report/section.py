"""The syntax section: constructions by model in the layout of Newman et al. (2021), curves, and failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lmassay.evaluations.syntax.few_verbs import few_verbs_note
from lmassay.evaluations.syntax.metrics import VERB_PAIR
from lmassay.evaluations.syntax.report import curves, heatmap
from lmassay.evaluations.syntax.report.runs import MEAN, SyntaxRun, System, read_run, systems, wrong_mass
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
from lmassay.reporting.sections import results_section, results_table
from lmassay.statistics.observations import counted_labels
from lmassay.storage.store import Store
from lmassay.types import Result, Row, RunRecord
from lmassay.types.wording import counted, enumerated

MAX_SYSTEMS = 12
"""Only the first systems of each table have curves, and only the first runs have examples: at most this many."""

_METRICS = (("mw", "MW"), ("ew", "EW"), ("tse", "TSE"))
# The last column of the facts, "nouns" or "clusters", depends on the option ``clusters``.
_FACTS = ("mass", "contexts", "rows", "dropped", "errors", "lemmas")
_MAX_NAMED_CONSTRUCTIONS = 3
_DIGITS = 3
_SCORES_CAPTION = (
    "MW: share of the verbs' probability that is on agreeing forms. EW: share of the verbs whose right form is more "
    "probable than the wrong one. TSE: the same for the verbs of the data's own sentence pairs. sg, pl: only the "
    "contexts whose right verb is singular or plural."
)
_FACTS_CAPTION = (
    "mass: probability of all verbs that MW counts. rows: sentence pairs that TSE counts, with the number of different "
    "verb pairs. dropped: sentence pairs that TSE does not count, mostly because a verb form is not a single token. "
    "lemmas: verbs with both forms in the vocabulary."
)


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    """Return the section of the report for runs of the task ``syntax``."""
    runs = [read_run(store, record) for record in records]
    with_results = []
    for run in runs:
        if run.bases and any(metric in dict(_METRICS) for metric, _ in run.results):
            with_results.append(run)
    if not with_results:
        return Section(results_section(store, records).blocks, _examples(runs))
    blocks: list[Block] = []
    # Systems are compared in one table only if they share constructions.
    groups = overlapping(systems(with_results), lambda system: system.constructions)
    for names, members in groups:
        if len(groups) > 1:
            blocks.append(Heading(in_short(names)))
        blocks += _tables(names, members)
        blocks += _notes(members)
        blocks += _user_metric_tables(members)
        blocks += heatmap.blocks(names, members)
        blocks += curves.blocks(names, members[:MAX_SYSTEMS])
    if any(len(members) > MAX_SYSTEMS for _, members in groups):
        blocks.append(
            Note(
                f"Only the first {MAX_SYSTEMS} models or settings of each table have curves; for the others, write "
                "another report of their runs."
            )
        )
    if len(runs) > MAX_SYSTEMS:
        blocks.append(
            Note(
                f"Only the first {MAX_SYSTEMS} runs have examples; for the others, write another report of their runs."
            )
        )
    note = "TSE weights each context by its rows, as in the table above."
    return Section(blocks, _examples(runs[:MAX_SYSTEMS]), comparison_note=note)


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables(names: Sequence[str], members: Sequence[System]) -> list[Block]:
    """Return one table for one system; for several, a table of scores in the paper's layout and folded tables of facts.

    The facts say what the numbers of a system are based on.
    """
    if len(members) == 1:
        score_headers = [Cell(title) for _, title in _METRICS]
        header = [Cell("construction", kind="text"), *score_headers, *_fact_headers(members[0])]
        body = _body(names, members, facts=True)
        return [Table(f"{_SCORES_CAPTION} {_FACTS_CAPTION}", [header], [body])]
    # The first metric of each system has a line at its left edge, which separates the systems.
    metric_headers = [Cell(title, edge=index == 0) for index, (_, title) in enumerate(_METRICS)]
    system_headers = [Cell(system.title, span=len(_METRICS), edge=True) for system in members]
    headers = [
        [Cell("", kind="text"), *system_headers],
        [Cell("construction", kind="text"), *(metric_headers * len(members))],
    ]
    blocks: list[Block] = [Table(_SCORES_CAPTION, headers, [_body(names, members)], dense=True)]
    for system in members:
        header = [Cell("construction", kind="text"), *_fact_headers(system)]
        body = _body(names, [system], scores=False, facts=True)
        table = Table(_FACTS_CAPTION, [header], [body])
        blocks.append(Folded(f"What the numbers of {system.title} are based on", [table]))
    return blocks


def _fact_headers(system: System) -> list[Cell]:
    return [*map(Cell, _FACTS), Cell("nouns" if _clusters_option(system) == "auto" else "clusters")]


def _clusters_option(system: System) -> str:
    """Return the task's option ``clusters``: auto (the agreement noun), a field of the data, or none.

    It is the same for all runs of a system. The labels of a field are stored in the group "noun", too.
    """
    return system.runs[0].record.depends_on.get("clusters", "auto")


def _body(names: Sequence[str], members: Sequence[System], scores: bool = True, facts: bool = False) -> Body:
    """Return a row per construction, then all together and the mean over constructions."""

    def row_cells(construction: str | None) -> list[Cell]:
        cells: list[Cell] = []
        if scores:
            for system in members:
                cells += _score_cells(system, construction)
        if facts:
            cells += _fact_cells(members[0], construction)
        return cells

    rows = [TableRow([name(construction), *row_cells(construction)]) for construction in names]
    has_overall = any(system.result("mw") or system.result("tse") for system in members)
    if len(names) < 2 or not has_overall:
        return Body(rows)
    rows.append(TableRow([name("overall"), *row_cells(None)], "total"))
    mean_cells: list[Cell] = []
    if scores:
        for system in members:
            for index, (metric, _) in enumerate(_METRICS):
                mean_cells.append(measured(system.mean(metric), _DIGITS, edge=index == 0))
    if facts:
        # Of the facts, only the mass has a mean over constructions.
        mean_cells.append(measured(members[0].mean("mass"), _DIGITS))
        mean_cells += [Cell("")] * len(_FACTS)
    rows.append(TableRow([name(MEAN), *mean_cells], "total"))
    return Body(rows)


def _score_cells(system: System, construction: str | None) -> list[Cell]:
    cells = []
    for index, (metric, _) in enumerate(_METRICS):
        by_number = []
        for short, number in (("sg", "singular"), ("pl", "plural")):
            result = system.result(metric, construction, number)
            if result is not None and result.value is not None:
                by_number.append(f"{short} {number_text(result.value, 2)}")
        small_print = [" · ".join(by_number)] if by_number else []
        cells.append(measured(system.result(metric, construction), _DIGITS, *small_print, edge=index == 0))
    return cells


def _fact_cells(system: System, construction: str | None) -> list[Cell]:
    """Return mass, counts, lemmas, and nouns or other clusters, of one construction or of all."""
    lemmas: set[int] = set()
    nouns: set[str] = set()
    without_noun = 0
    for run in system.runs:
        for of_construction, basis in run.bases.items():
            if construction is None or of_construction == construction:
                lemmas.update(basis.lemmas)
                nouns.update(basis.nouns)
                without_noun += basis.without_noun
    ew = system.result("ew", construction)
    tse = system.result("tse", construction)
    contexts = count(None)
    rows = count(None)
    not_scored = count(None)
    errors = count(None)
    below_contexts: list[str] = []
    if ew is not None:
        contexts = count(ew.n)
        errors = count(ew.n_error)
        if ew.n_unscored:
            below_contexts.append(f"{ew.n_unscored:,} unscored")
    if tse is not None:
        rows = count(tse.n)
        not_scored = count(tse.n_unscored)
        if ew is None:
            errors = count(tse.n_error)
    below_nouns: list[str] = []
    if without_noun and _clusters_option(system) != "none":
        below_nouns.append(f"{without_noun:,} unknown")
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
    """Say how many verb pairs TSE is based on; results of earlier versions do not have that number."""
    if tse is None or VERB_PAIR not in tse.clusters:
        return []
    return [counted_labels(tse.clusters[VERB_PAIR], VERB_PAIR)]


def _range(numbers: set[int]) -> str:
    if not numbers:
        return ""
    low = min(numbers)
    high = max(numbers)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _user_metric_tables(members: Sequence[System]) -> list[Block]:
    """Return a table for each run that has results of the user's own metrics."""
    builtin_metrics = {*dict(_METRICS), "mass"}
    tables: list[Block] = []
    for system in members:
        for run in system.runs:
            results = []
            for (metric, _), result in run.results.items():
                if metric not in builtin_metrics and "@" not in metric:
                    results.append(result)
            if results:
                tables.append(results_table(run.record, results))
    return tables


# --- notes ------------------------------------------------------------------------------------------------------------


def _notes(members: Sequence[System]) -> list[Block]:
    """Say by what intervals are clustered, and which numbers are based on few verbs."""
    notes = _cluster_notes(members)
    if notes and any(VERB_PAIR in result.clusters for result in _tse_results(members)):
        notes.append(
            Note("Intervals of TSE are also clustered by verb pair, because all contexts use the same verb pairs.")
        )
    for system in members:
        # Runs of one system often have the same note, which is then written once.
        constructions_of_note: dict[str, list[str]] = {}
        for run in system.runs:
            for note in _few_notes(run):
                constructions_of_note.setdefault(note, []).extend(run.bases)
        for note, constructions in constructions_of_note.items():
            subjects = [system.title] if len(members) > 1 else []
            if len(constructions) < len(system.constructions):
                subjects.append(enumerated(constructions, _MAX_NAMED_CONSTRUCTIONS))
            prefix = f"{', '.join(subjects)}: " if subjects else ""
            notes.append(Note(f"{prefix}{note}."))
    return notes


def _few_notes(run: SyntaxRun) -> list[str]:
    """Return which numbers of a run are based on few verb pairs or few verbs."""
    notes = few_label_notes(run.record, dict(_METRICS))
    lemma_counts: set[int] = set()
    for basis in run.bases.values():
        lemma_counts |= basis.lemmas
    few_verbs = few_verbs_note(lemma_counts)
    if few_verbs:
        notes.append(few_verbs)
    return notes


def _tse_results(members: Sequence[System]) -> Iterator[Result]:
    for system in members:
        for run in system.runs:
            for (metric, _), result in run.results.items():
                if metric == "tse":
                    yield result


def _cluster_notes(members: Sequence[System]) -> list[Block]:
    """Say by what the intervals are clustered, once for each value of the option ``clusters``."""
    systems_by_option: dict[str, list[System]] = {}
    for system in members:
        systems_by_option.setdefault(_clusters_option(system), []).append(system)
    notes: list[Block] = []
    for option, systems_of_option in systems_by_option.items():
        text = _cluster_text(option, systems_of_option)
        if text and len(systems_by_option) > 1:
            titles = ", ".join(system.title for system in systems_of_option)
            text = f"{titles}: {text}"
        if text:
            notes.append(Note(text))
    return notes


def _cluster_text(option: str, members: Sequence[System]) -> str:
    """Say by how many clusters the intervals are clustered, a range if systems differ; empty if nothing is scored."""
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
                own_without_noun += basis.without_noun
                nouns_by_construction.add(len(basis.nouns))
        nouns.add(len(own_nouns))
        without_noun.add(own_without_noun)
        has_several_constructions = has_several_constructions or constructions > 1
    # Zero means that a system has none, which is not part of the range.
    for counts in (nouns, nouns_by_construction, without_noun):
        counts.discard(0)
    if not nouns and not without_noun:
        return ""
    if option == "none":
        return "Intervals treat every context as independent of the others (clusters: none)."
    unit, label, clustered_by = "noun", "agreement noun", "the agreement noun"
    if option != "auto":
        unit, label, clustered_by = "value", f"value of the field '{option}'", f"the field '{option}'"
    if not nouns:
        return f"No {label} is known; intervals treat every context as independent of the others."
    text = f"Intervals are clustered by {clustered_by}: {_range(nouns)} {unit if nouns == {1} else f'{unit}s'}"
    if has_several_constructions:
        text += f" ({_range(nouns_by_construction)} per construction)"
    text += "."
    if without_noun:
        contexts = "1 context" if without_noun == {1} else f"{_range(without_noun)} contexts"
        text += f" The {unit} of {contexts} is unknown; each of them is a cluster by itself."
    return text


# --- examples ---------------------------------------------------------------------------------------------------------


def _examples(runs: Sequence[SyntaxRun]) -> list[Examples]:
    blocks = []
    for run in runs:
        if run.worst:
            contexts = counted(len(run.worst), "context")
            summary = f"Worst contexts of {run.record.title} ({contexts}, by the probability of wrong verbs)"
            blocks.append(Examples(summary, [_displayed_example(row) for row in run.worst]))
    return blocks


def _displayed_example(row: Row) -> DisplayedExample:
    inputs = row.example.inputs
    values = row.score.values
    scores = []
    for metric, title in _METRICS:
        if metric in values:
            scores.append(f"{title} {number_text(values.get(metric), 3)}")
    named_texts = [
        ("context", f"{inputs.get('left', '')}___{inputs.get('right', '')}"),
        ("construction", row.example.groups.get("construction", "")),
        ("number of the right verb", str(row.example.reference or "")),
        ("wrong mass", f"{wrong_mass(row):.3f} of {values['mass']:.3f} that all verbs have"),
        *_tse_verdicts(row),
    ]
    shown_texts = [(title, text) for title, text in named_texts if text]
    return DisplayedExample(row.example.id, ", ".join(scores), shown_texts)


def _tse_verdicts(row: Row) -> list[tuple[str, str]]:
    """Return the verb pairs of the data in this context, by how the model judges them."""
    hits = dict(row.score.details.get("tse", []))
    pairs: dict[str, list[str]] = {"TSE right": [], "TSE wrong": [], "TSE dropped": []}
    for number, good, bad in row.example.inputs.get("rows", []):
        hit = hits.get(number)
        if hit is None:
            verdict = "TSE dropped"
        elif hit:
            verdict = "TSE right"
        else:
            verdict = "TSE wrong"
        pairs[verdict].append(f"{good} / {bad}")
    return [(verdict, ", ".join(dict.fromkeys(listed))) for verdict, listed in pairs.items()]


# --- an example in the browser ----------------------------------------------------------------------------------------


def blank_texts(row: Row, _: Exchanges) -> NamedValues:
    """Return a context with its blank and the verbs compared there, or the sentences of a pair without a blank."""
    inputs = row.example.inputs
    details = row.score.details
    if "left" not in inputs:
        # The sentences do not differ in exactly one word.
        return [("right", inputs.get("good")), ("wrong", inputs.get("bad")), ("where", inputs.get("where"))]
    hits = dict(details.get("tse", ()))
    verdicts = {None: "dropped", 0: "wrong", 1: "right"}
    pairs = []
    for number, good, bad in inputs.get("rows", ()):
        pairs.append(f"{good} / {bad}: {verdicts[hits.get(number)]}")
    return [
        ("context", f"{inputs['left']}___{inputs.get('right', '')}"),
        ("right / wrong verb", "\n".join(dict.fromkeys(pairs))),
        ("lemmas scored", details.get("lemmas")),
        ("not one token", ", ".join(map(str, details.get("not_single_token", ())))),
        ("number of the right verb", row.example.reference),
    ]
