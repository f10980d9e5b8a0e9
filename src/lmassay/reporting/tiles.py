"""The overview on top of a report: the four questions, each with its number, what it means and what it does not."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup

from lmassay.reporting.blocks import Block, Body, Cell, Line, Note, Table, Tile, TileLine, Tiles, name
from lmassay.reporting.card_ways import EVALUATIONS, QUESTIONS
from lmassay.reporting.compared import interval_text as difference_interval
from lmassay.reporting.gauge import gauge
from lmassay.reporting.headline import Headline, first_of_each
from lmassay.reporting.headlines import ONLY_SPLITS, Against, Reasons, absent, against_first, headlines, without_result
from lmassay.reporting.numbers import interval_text, p_text, value_text
from lmassay.storage.store import RunRecord, Store

_DIGITS = 3
# Where chance lies, for the numbers that have such a point.
_CHANCE = {"mw": 0.5, "accuracy": 0.5}
_BETTER = {"lower": "less is better", "higher": "more is better", "zero": "0 is best"}


def overview(store: Store, records: Sequence[RunRecord]) -> list[Block]:
    """For the page: one tile a question; differences between models below."""
    found, missing = headlines(store, records), absent(records)
    failed = without_result(records, found)
    # Models stand in the order in which they were asked, whatever came of it.
    order = list(dict.fromkeys([*(record.model for record in records), *missing]))
    tiles = [tile for evaluation in EVALUATIONS for tile in _tiles(evaluation, found, missing, failed, order)]
    blocks = [*_differences(store, found), *_unfinished(found)]
    return [Tiles(tiles), *blocks] if tiles else blocks


def plain_overview(store: Store, records: Sequence[RunRecord]) -> list[Block]:
    """The same in a table, for formats that have no tiles."""
    found, missing = headlines(store, records), absent(records)
    rows = [
        (
            headline.evaluation,
            [
                name(headline.question, headline.title),
                Cell(headline.model, kind="text"),
                Cell(value_text(headline.result.as_dict(), _DIGITS)),
                Cell(interval_text(headline.result.as_dict(), _DIGITS)),
                Cell(_scope(headline), headline.beside, kind="text"),
            ],
        )
        for headline in found
    ]
    for what, lacking in (("not applicable", missing), ("no result", without_result(records, found))):
        for model, reasons in lacking.items():
            for evaluation, reason in reasons.items():
                blank = [Cell(model, kind="text"), Cell(what), Cell(""), Cell(reason, kind="text")]
                rows.append((evaluation, [name(QUESTIONS[evaluation]), *blank]))
    if not rows:
        return []
    lines = [Line(cells) for _, cells in sorted(rows, key=lambda row: EVALUATIONS.index(row[0]))]
    heads = [Cell("question", kind="text"), Cell("model", kind="text"), Cell("value"), Cell(interval_head(found))]
    table = Table("", [[*heads, Cell("of", kind="text")]], [Body(lines)])
    notes = [Note(f"{h.title}: {h.meaning} {h.limits}") for h in first_of_each(found)]
    return [table, *notes, *_differences(store, found), *_unfinished(found)]


def interval_head(found: Sequence[Headline]) -> str:
    """What the intervals promise, where all promise the same."""
    levels = {record.settings.confidence for headline in found for record in headline.records}
    return f"{100 * next(iter(levels)):g} % interval" if len(levels) == 1 else "interval"


def anchor(task: str) -> str:
    """Where on the page a task's section begins."""
    return "evaluation-" + re.sub(r"\W+", "-", task)


def _tiles(
    evaluation: str, found: Sequence[Headline], missing: Reasons, failed: Reasons, order: Sequence[str]
) -> list[Tile]:
    """One tile for each number that an evaluation puts first: usually one."""
    of_this = [headline for headline in found if headline.evaluation == evaluation]
    lacking = [TileLine(m, "n/a", reason=r[evaluation]) for m, r in missing.items() if evaluation in r]
    lacking += [TileLine(m, "no result", reason=r[evaluation]) for m, r in failed.items() if evaluation in r]
    if not of_this:
        title = "no result" if any(evaluation in reasons for reasons in failed.values()) else "not applicable"
        return [Tile(QUESTIONS[evaluation], title, lacking, "", "", "")] if lacking else []
    tiles = []
    for first in first_of_each(of_this):
        alike = [headline for headline in of_this if headline.metric == first.metric]
        tiles.append(
            Tile(
                question=first.question,
                title=f"{first.title}; {_BETTER[first.better]}",
                lines=sorted([*map(_line, alike), *lacking], key=lambda line: order.index(line.model)),
                meaning=first.meaning,
                limits=first.limits,
                anchor=anchor(first.records[0].task),
            )
        )
    return tiles


def _line(headline: Headline) -> TileLine:
    result = headline.result.as_dict()
    number = (value_text(result, _DIGITS), interval_text(result, _DIGITS))
    return TileLine(headline.model, *number, _scope(headline), headline.beside, drawing=_gauge(headline))


def _scope(headline: Headline) -> str:
    left = [(headline.result.n_error, "in error"), (headline.result.n_unscored, "unscored")]
    return ", ".join([headline.scope, *(f"{count:,} {what}" for count, what in left if count)])


def _gauge(headline: Headline) -> Markup:
    """The value with its interval on the scale of the number; a mark where chance or even-handedness lies."""
    result = headline.result
    best_is_zero = headline.better == "zero"
    chart = gauge(
        f"{headline.title}: {headline.model} {value_text(result.as_dict(), _DIGITS)}",
        result.value,
        (result.low, result.high),
        axis_low=-1.0 if best_is_zero else 0.0,
        reference=0.0 if best_is_zero else _CHANCE.get(headline.metric),
    )
    return chart.svg()


def _differences(store: Store, found: Sequence[Headline]) -> list[Block]:
    pairs = against_first(store, found)
    if not pairs:
        return []
    heads = ("difference", "interval", "p", "p (FDR)", "n")
    head = [Cell("number", kind="text"), Cell("model", kind="text"), Cell("against", kind="text"), *map(Cell, heads)]
    caption = (
        "Models side by side on what both were asked; p from a test that flips signs (or swaps the models) within "
        "examples or clusters, FDR: adjusted for the number of rows. n: what was scored, of the model with fewer. An "
        "interval that holds 0 shows no difference."
    )
    if any(pair.new.evaluation == "fewshot" for pair in pairs):
        caption += f" {ONLY_SPLITS}"
    return [Table(caption, [head], [Body([Line(_difference(pair)) for pair in pairs])])]


def _difference(pair: Against) -> list[Cell]:
    row = pair.row
    texts = (
        f"{row.difference:+z.3f}",
        difference_interval(row, "+", _DIGITS),
        p_text(row.p),
        p_text(row.p_adjusted),
        f"{row.n:,}",
    )
    models = (Cell(pair.new.model, kind="text"), Cell(pair.base.model, kind="text"))
    return [name(pair.new.title), *models, *map(Cell, texts)]


def _unfinished(found: Sequence[Headline]) -> list[Block]:
    told = [f"{text} ({headline.model})" for headline in found for text in headline.unfinished]
    return [Note(f"Not complete, so these numbers rest on a part of the examples: {'; '.join(told)}.")] if told else []
