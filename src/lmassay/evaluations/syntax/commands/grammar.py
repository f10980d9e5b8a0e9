"""``lmassay grammar``"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from lmassay.cli.completion import offer
from lmassay.cli.console import print_table, say
from lmassay.errors import ConfigError
from lmassay.evaluations.syntax.grammar.grammar import Grammar, load_grammar, shipped_grammars
from lmassay.storage.files import atomic_write

_LOOKED_AT = 50


@click.group(
    epilog="Example: lmassay grammar write english -o pairs --max 400 --seed 1",
    short_help="Write minimal pairs from a grammar.",
)
def grammar() -> None:
    """Write minimal pairs from a grammar: a YAML file of your own, or one that comes with lmassay."""


@grammar.command(
    epilog="Example: lmassay grammar write marvin-linzen -o pairs --only simple_agrmt,sent_comp",
    short_help="Write one file of pairs a construction.",
)
@click.argument("source", metavar="GRAMMAR", shell_complete=offer(shipped_grammars))
@click.option(
    "-o",
    "--out",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the files, CONSTRUCTION.jsonl each.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed, another sample.")
@click.option("--max", "most", type=click.IntRange(min=1), help="A balanced sample of so many pairs a construction.")
@click.option("--only", metavar="NAME,...", help="These constructions alone.")
def write(source: str, folder: Path, seed: int, most: int | None, only: str | None) -> None:
    """Write the pairs of GRAMMAR, a YAML file or one of `lmassay grammar list`, as JSON lines."""
    chosen = load_grammar(source)
    # Everything is made before anything is written: a mistake in the last construction leaves no half of a set.
    sets = {name: chosen.write(name, seed=seed, most=most) for name in _names(chosen, only)}
    for name, rows in sets.items():
        with atomic_write(folder / f"{name}.jsonl") as stream:
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    say(f"{sum(map(len, sets.values()))} pairs in {len(sets)} files written to {folder}")


@grammar.command(
    epilog="Example: lmassay grammar show korean", short_help="Show a grammar's constructions with two pairs each."
)
@click.argument("source", metavar="GRAMMAR", shell_complete=offer(shipped_grammars))
def show(source: str) -> None:
    """Show what GRAMMAR writes: how many pairs, how many nouns to cluster by, and two pairs of each construction.

    The word that makes a sentence bad follows the good one after a stroke.
    """
    chosen = load_grammar(source)
    lines: list[tuple[object, ...]] = []
    for construction in chosen.constructions:
        facts: tuple[object, ...]
        if construction.can_be_written_out:
            rows = chosen.write(construction.name)
            facts = (construction.name, len(rows), len({row["noun"] for row in rows}))
        else:
            rows = chosen.write(construction.name, most=_LOOKED_AT)
            facts = (construction.name, f"up to {construction.bound}", len(construction.nouns))
        first, *second = (_marked(row["sentence_good"], row["sentence_bad"]) for row in _two(rows))
        lines += [(*facts, first), *(("", "", "", pair) for pair in second)]
    title = f"{chosen.name}: {chosen.about}" if chosen.about else chosen.name
    print_table(title, ("construction", "pairs", "clusters", "good/*bad"), lines, right=(1, 2), whole=(0,))


@grammar.command("list", epilog="Example: lmassay grammar list", short_help="List the grammars that come with lmassay.")
def list_() -> None:
    """List the grammars that come with lmassay."""
    rows = [(g.name, len(g.constructions), g.about) for g in map(load_grammar, shipped_grammars())]
    print_table("", ("name", "constructions", "what it is"), rows, right=(1,))


def _names(chosen: Grammar, only: str | None) -> list[str]:
    if only is None:
        return [construction.name for construction in chosen.constructions]
    names = [name.strip() for name in only.split(",") if name.strip()]
    if not names:
        raise ConfigError("--only: name at least one construction; `lmassay grammar show` lists them")
    return [chosen.construction(name).name for name in dict.fromkeys(names)]


def _two(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first pair, and the one that has least in common with it."""
    first = rows[0]
    names = [name for name in first if not name.startswith("sentence")]
    other = max(rows, key=lambda row: sum(row.get(name) != first[name] for name in names))
    return [first] if other is first else [first, other]


def _marked(good: str, bad: str) -> str:
    right, wrong = good.split(), bad.split()
    if len(right) != len(wrong):
        return f"{good} / *{bad}"
    return " ".join(r if r == w else f"{r}/*{w}" for r, w in zip(right, wrong, strict=True))
