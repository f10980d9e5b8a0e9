"""What ``lmassay grammar`` does: write minimal pairs from a grammar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lmassay.cli.console import say
from lmassay.cli.table_output import print_table
from lmassay.errors import ConfigError
from lmassay.evaluations.syntax.grammar.grammar import Grammar, load_grammar, shipped_grammars
from lmassay.storage.files import atomic_write
from lmassay.types.wording import counted

# If a construction has too many pairs, only this many are created, to find two to show.
_SAMPLE_SIZE = 50


def write(source: str, folder: Path, seed: int, most: int | None, only: str | None) -> None:
    """Write the pairs of GRAMMAR as JSON Lines. GRAMMAR is a YAML file or a name from `lmassay grammar list`."""
    chosen = load_grammar(source)
    # All pairs are made before any file is written, so a mistake in the last construction leaves no incomplete set.
    sets = {name: chosen.write(name, seed=seed, most=most) for name in _names(chosen, only)}
    for name, rows in sets.items():
        with atomic_write(folder / f"{name}.jsonl") as stream:
            for row in rows:
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    pairs = counted(sum(map(len, sets.values())), "pair")
    say(f"{pairs} in {counted(len(sets), 'file')} written to {folder}")


def show(source: str) -> None:
    """Show each construction of GRAMMAR: how many pairs and clusters (nouns) it has, and two of its pairs."""
    chosen = load_grammar(source)
    lines: list[tuple[object, ...]] = []
    for construction in chosen.constructions:
        facts: tuple[object, ...]
        if construction.can_be_written_out:
            rows = chosen.write(construction.name)
            facts = (construction.name, len(rows), len({row["noun"] for row in rows}))
        else:
            rows = chosen.write(construction.name, most=_SAMPLE_SIZE)
            facts = (construction.name, f"up to {construction.bound}", len(construction.nouns))
        for row in _two_different(rows):
            lines.append((*facts, _marked(row["sentence_good"], row["sentence_bad"])))
            # The facts are shown only next to the first pair.
            facts = ("", "", "")
    title = f"{chosen.name}: {chosen.about}" if chosen.about else chosen.name
    print_table(title, ("construction", "pairs", "clusters", "good/*bad"), lines, right=(1, 2), whole=(0,))


def list_() -> None:
    """List the grammars that come with lmassay."""
    rows = []
    for name in shipped_grammars():
        shipped = load_grammar(name)
        rows.append((shipped.name, len(shipped.constructions), shipped.about))
    print_table("", ("name", "constructions", "description"), rows, right=(1,))


def _names(chosen: Grammar, only: str | None) -> list[str]:
    if only is None:
        return [construction.name for construction in chosen.constructions]
    names = [name.strip() for name in only.split(",") if name.strip()]
    if not names:
        raise ConfigError("--only: name at least one construction; `lmassay grammar show` lists them")
    return [chosen.construction(name).name for name in dict.fromkeys(names)]


def _two_different(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first pair, and the one that has least in common with it."""
    first = rows[0]
    fields = [name for name in first if not name.startswith("sentence")]

    def differences(row: dict[str, Any]) -> int:
        return sum(row.get(name) != first[name] for name in fields)

    other = max(rows, key=differences)
    return [first] if other is first else [first, other]


def _marked(good: str, bad: str) -> str:
    """Return one sentence with the bad words after the good ones; both sentences if they differ in length."""
    good_words = good.split()
    bad_words = bad.split()
    if len(good_words) != len(bad_words):
        return f"{good} / *{bad}"
    words = []
    for good_word, bad_word in zip(good_words, bad_words, strict=True):
        words.append(good_word if good_word == bad_word else f"{good_word}/*{bad_word}")
    return " ".join(words)
