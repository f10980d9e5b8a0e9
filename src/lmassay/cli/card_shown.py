"""A card on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from lmassay.cli.console import print_table, sentence
from lmassay.plugins.evaluations import evaluations
from lmassay.reporting.compared import interval_text
from lmassay.reporting.headline import (
    Against,
    Headline,
    absent,
    against_first,
    first_of_each,
    headlines,
    without_result,
)
from lmassay.reporting.numbers import p_text, short_text
from lmassay.reporting.tiles import interval_head
from lmassay.storage.store import Store
from lmassay.types import RunRecord


def print_card(store: Store, records: Sequence[RunRecord]) -> None:
    """The headline numbers: a row a question and model, then what they mean."""
    found, missing = headlines(store, records), absent(records)
    failed = without_result(records, found)
    several = len({headline.model for headline in found} | set(missing) | set(failed)) > 1
    left_out = any(headline.result.n_error or headline.result.n_unscored for headline in found)
    rows = []
    for evaluation in evaluations():
        for headline in (h for h in found if h.evaluation.name == evaluation.name):
            result = headline.result
            cells: list[object] = [headline.question, *([headline.model] if several else []), headline.shown_title]
            counts = [f"{result.n_error} in error, {result.n_unscored} unscored"] if left_out else []
            rows.append([*cells, short_text(result), headline.scope, *counts])
        for what, lacking in (("not applicable", missing), ("no result", failed)):
            for model, reasons in lacking.items():
                if evaluation.name in reasons:
                    name, counts = [model] if several else [], [""] if left_out else []
                    rows.append([evaluation.question, *name, what, "", reasons[evaluation.name], *counts])
    value = f"value and {interval_head(found)}"
    heads = ["question", *(["model"] if several else []), "number", value, "of", *(["left out"] if left_out else [])]
    print_table("", heads, rows)
    click.echo()
    for first in first_of_each(found):
        sentence(f"{first.shown_title}: {first.explanation}")
        for headline in found:
            is_same_number = (headline.evaluation.name, headline.metric) == (first.evaluation.name, first.metric)
            if is_same_number and headline.beside:
                sentence(f"  {headline.model}: {'; '.join(headline.beside)}.")
    if several:
        _print_differences(store, found)


def card_as_json(store: Store, records: Sequence[RunRecord]) -> dict[str, Any]:
    """What ``--json`` prints."""
    found = headlines(store, records)
    return {
        "headlines": [_as_dict(headline) for headline in found],
        "not_applicable": absent(records),
        "no_result": without_result(records, found),
        "comparisons": [_pair_as_dict(pair) for pair in against_first(store, found)],
        "runs": [record.as_json() for record in records],
    }


def _as_dict(headline: Headline) -> Mapping[str, Any]:
    return {
        "evaluation": headline.evaluation.name,
        "model": headline.model,
        "metric": headline.metric,
        "title": headline.shown_title,
        "better": headline.better,
        "scope": headline.scope,
        "beside": list(headline.beside),
        "meaning": headline.shown_meaning,
        "limits": headline.limits,
        "result": headline.result.as_dict(),
        "runs": [record.id for record in headline.records],
    }


def _pair_as_dict(pair: Against) -> Mapping[str, Any]:
    return {
        "evaluation": pair.new.evaluation.name,
        "base_model": pair.base.model,
        "model": pair.new.model,
        **asdict(pair.row),
    }


def _print_differences(store: Store, found: Sequence[Headline]) -> None:
    pairs = against_first(store, found)
    rows = [
        (
            pair.new.shown_title,
            pair.new.model,
            pair.base.model,
            f"{pair.row.difference:+z.3f}",
            interval_text(pair.row, "+", 3),
            p_text(pair.row.p),
            p_text(pair.row.p_adjusted),
            pair.row.n,
        )
        for pair in pairs
    ]
    if rows:
        click.echo()
        heads = ("number", "model", "against", "difference", "interval", "p", "p (FDR)", "n")
        print_table("Paired on what both were asked:", heads, rows, right=(3, 4, 5, 6, 7))
        for note in dict.fromkeys(pair.new.comparison_note for pair in pairs if pair.new.comparison_note):
            sentence(note)
