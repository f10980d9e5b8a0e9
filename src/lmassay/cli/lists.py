"""Options that take several values in a row, as argparse's ``nargs="+"`` does."""

from __future__ import annotations

import click


class WithLists(click.Command):
    """Takes ``--models a b c`` as the originals do: what follows a repeatable option up to the next belongs to it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = {name for option in self.params if option.multiple for name in option.opts}
        spread: list[str] = []
        current = ""
        for position, word in enumerate(args):
            name, equals, value = word.partition("=")
            if word == "--":
                spread += args[position:]
                break
            if word.startswith("-") and len(word) > 1:
                current = name if name in names else ""
                follows = args[position + 1 : position + 2]
                if not current:
                    spread.append(word)
                elif equals:
                    spread += [name, value]
                elif not follows or follows[0].startswith("--"):
                    raise click.UsageError(f"Option '{name}' requires at least one argument.", ctx)
            else:
                spread += [current, word] if current else [word]
        return super().parse_args(ctx, spread)
