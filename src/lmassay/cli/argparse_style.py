"""Options as argparse reads them, for the commands that keep the command line of an original program."""

from __future__ import annotations

import click


class AddedOption(click.Option):
    """An option that the original program does not have. It must be written in full.

    So every abbreviation that is unique in the original is unique here, too.
    """


class AbbreviatedCommand(click.Command):
    """Takes any unique beginning of an option's name for the option: ``--prompt-i 1`` for ``--prompt-id 1``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.in_full(ctx, args))

    def in_full(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words of a command line with the names of all options in full."""
        words: list[str] = []
        for position, word in enumerate(args):
            if word == "--":
                return [*words, *args[position:]]
            words.append(self._option_in_full(ctx, word))
        return words

    def _option_in_full(self, ctx: click.Context, word: str) -> str:
        name, equals, value = word.partition("=")
        if not name.startswith("--"):
            return word
        candidates: list[str] = []
        for parameter in self.get_params(ctx):
            if name in parameter.opts:
                return word
            if isinstance(parameter, AddedOption):
                continue
            # An option may have two names with the same beginning; either of them will do.
            matching = [option for option in parameter.opts if option.startswith(name)]
            candidates += matching[:1]
        if len(candidates) > 1:
            raise click.UsageError(f"Option '{name}' may be {', '.join(sorted(candidates))}; write more of it.", ctx)
        return f"{candidates[0]}{equals}{value}" if candidates else word


class ListOptionsCommand(AbbreviatedCommand):
    """Takes ``--models a b c``: what follows a repeatable option up to the next option belongs to it.

    If the option is given again, the last list counts, as with argparse's ``nargs="+"``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = self.in_full(ctx, args)
        repeatable = {name: option for option in self.params if option.multiple for name in option.opts}
        lists: dict[click.Parameter, list[str]] = {}
        others: list[str] = []
        current: list[str] | None = None
        for position, word in enumerate(args):
            if word == "--":
                others += args[position:]
                break
            if not word.startswith("-") or len(word) == 1:
                (others if current is None else current).append(word)
                continue
            name, equals, value = word.partition("=")
            option = repeatable.get(name)
            if option is None:
                current = None
                others.append(word)
                continue
            following = args[position + 1 : position + 2]
            if not equals and (not following or following[0].startswith("--")):
                raise click.UsageError(f"Option '{name}' requires at least one argument.", ctx)
            current = [value] if equals else []
            lists[option] = current
        # For click, each value of a list has the option's name in front of it.
        spread: list[str] = []
        for option, values in lists.items():
            for value in values:
                spread += [option.opts[0], value]
        return super().parse_args(ctx, [*spread, *others])
