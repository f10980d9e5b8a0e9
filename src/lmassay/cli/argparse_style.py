"""Click commands that parse options like argparse, for the compatibility commands."""

from __future__ import annotations

import click


class AddedOption(click.Option):
    """An option that lmassay adds to those of the original program. It cannot be abbreviated.

    If it could, an abbreviation that is unique in the original program might be ambiguous here.
    """


class AbbreviatedCommand(click.Command):
    """A command that accepts unique abbreviations of options, such as ``--prompt-i 1`` for ``--prompt-id 1``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.in_full(ctx, args))

    def in_full(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments with all abbreviated options written in full."""
        words: list[str] = []
        for position, word in enumerate(args):
            if word == "--":
                return [*words, *args[position:]]
            words.append(self._option_in_full(ctx, word))
        return words

    def _option_in_full(self, ctx: click.Context, word: str) -> str:
        """Return an argument with its option written in full; unchanged if it is not an abbreviation."""
        name, equals, value = word.partition("=")
        if not name.startswith("--"):
            return word
        candidates: list[str] = []
        for parameter in self.get_params(ctx):
            if name in parameter.opts:
                return word
            if isinstance(parameter, AddedOption):
                continue
            # An option may have two names with the same beginning; it does not matter which is used.
            matching = [option for option in parameter.opts if option.startswith(name)]
            candidates += matching[:1]
        if len(candidates) > 1:
            meanings = ", ".join(sorted(candidates))
            raise click.UsageError(f"Option '{name}' is ambiguous ({meanings}); write the whole name.", ctx)
        if candidates:
            return f"{candidates[0]}{equals}{value}"
        return word


class ListOptionsCommand(AbbreviatedCommand):
    """A command that accepts ``--models a b c``: a repeatable option takes all arguments up to the next option.

    If the option is given again, only the last list counts, as with argparse's ``nargs="+"``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = self.in_full(ctx, args)
        repeatable: dict[str, click.Parameter] = {}
        for parameter in self.params:
            if parameter.multiple:
                repeatable |= dict.fromkeys(parameter.opts, parameter)
        lists: dict[click.Parameter, list[str]] = {}
        others: list[str] = []
        # The list of the last repeatable option, which takes the values that follow. None at the beginning and after
        # any other option, whose value is left to Click.
        current: list[str] | None = None
        for position, word in enumerate(args):
            if word == "--":
                others += args[position:]
                break
            # A single hyphen stands for standard input, so it is a value.
            is_value = not word.startswith("-") or len(word) == 1
            if is_value:
                target = others if current is None else current
                target.append(word)
                continue
            name, equals, value = word.partition("=")
            option = repeatable.get(name)
            if option is None:
                current = None
                others.append(word)
                continue
            # The next argument, if there is one. Here, only two hyphens mark an option.
            following = args[position + 1 : position + 2]
            if not equals and (not following or following[0].startswith("--")):
                raise click.UsageError(f"Option '{name}' requires at least one argument.", ctx)
            current = [value] if equals else []
            lists[option] = current
        # Click expects the name of the option in front of each value: --models a --models b.
        repeated: list[str] = []
        for option, values in lists.items():
            for value in values:
                repeated += [option.opts[0], value]
        return super().parse_args(ctx, [*repeated, *others])
