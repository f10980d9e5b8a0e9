"""The table of all commands: those of the core and those of the installed evaluations.

Listing commands does not import them, so ``lmassay --help`` is fast.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lmassay.contracts import Command
from lmassay.plugins.evaluations import InstalledEvaluations, PluginProblem, installed_evaluations, precedence

_CLI = "lmassay.cli"
# The core's own commands in the order of the help screen. Evaluations add theirs to these sections or to new ones.
_CORE = {
    "Getting started": (
        Command("card", "Run all evaluations on a model and write one report.", f"{_CLI}.card:card"),
        Command("init", "Write a sample configuration or start a plug-in.", f"{_CLI}.init:init"),
        Command("doctor", "Check the installation or a results folder.", f"{_CLI}.doctor:doctor"),
        Command("completion", "Print a shell completion script.", f"{_CLI}.completion:completion"),
    ),
    "Run": (
        Command("run", "Run a configuration.", f"{_CLI}.run:run"),
        Command("check", "Check a configuration without running it.", f"{_CLI}.check:check"),
        Command("resume", "Finish runs that were interrupted or have errors.", f"{_CLI}.resume:resume"),
        Command("reproduce", "Compute published numbers again and compare them.", f"{_CLI}.reproduce:reproduce"),
    ),
    "Results": (
        Command("ls", "List the runs in a results folder.", f"{_CLI}.ls:ls"),
        Command("show", "Show the results of a run.", f"{_CLI}.show:show"),
        Command("note", "Write a note on a run.", f"{_CLI}.annotate:note"),
        Command("tag", "Tag a run.", f"{_CLI}.annotate:tag"),
        Command("rm", "Remove runs from a results folder.", f"{_CLI}.rm:rm"),
        Command("compare", "Compare runs on the examples they share.", f"{_CLI}.compare:compare"),
        Command("report", "Write a report: HTML, Markdown, LaTeX, CSV or figures.", f"{_CLI}.report:report"),
        Command("figures", "Write the figures of a report for a paper: SVG, PDF, PNG.", f"{_CLI}.figures:figures"),
        Command("table", "Write a table: rows, columns and metrics as you choose.", f"{_CLI}.table:table"),
        Command("view", "Watch and browse a results folder in the browser.", f"{_CLI}.view:view"),
        Command("merge", "Merge results folders of several machines.", f"{_CLI}.merge:merge"),
        Command("export", "Export a run to JSON Lines, CSV, lm-eval or Every Eval Ever.", f"{_CLI}.export:export"),
    ),
    "Texts": (Command("surprisal", "Score every word or token of a text.", f"{_CLI}.surprisal:surprisal_command"),),
    "Data": (Command("data", "List, fetch and verify published data sets.", f"{_CLI}.data:data"),),
    "Evaluations": (),
    "Components": (
        Command("tasks", "List the tasks.", f"{_CLI}.components:tasks"),
        Command("models", "List the models, or fetch one.", f"{_CLI}.models:models"),
    ),
    "Compatibility commands": (),
}
# Such names can be typed without quotes and completed by a shell.
_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class CommandTable:
    """The usable commands by section of the help screen, and why the other commands cannot be used."""

    sections: Mapping[str, Sequence[Command]]
    problems: Sequence[PluginProblem]

    @property
    def by_name(self) -> dict[str, Command]:
        """The usable commands by name, in the order of the help screen."""
        by_name: dict[str, Command] = {}
        for commands in self.sections.values():
            for command in commands:
                by_name[command.name] = command
        return by_name


def command_table() -> CommandTable:
    """Return the commands of the core and of all installed evaluations."""
    return _table_with(installed_evaluations())


@functools.cache
def _table_with(installed: InstalledEvaluations) -> CommandTable:
    """Return the table with the core's commands and those of installed evaluations."""
    sections = {title: list(commands) for title, commands in _CORE.items()}
    # Name of a command → the package that has it.
    package_of_command: dict[str, str] = {}
    for commands in sections.values():
        for command in commands:
            package_of_command[command.name] = "lmassay"
    problems: list[PluginProblem] = []
    # lmassay's own evaluations come first, so that no other package can take the name of one of their commands.
    evaluations = sorted(installed.evaluations, key=lambda evaluation: precedence(installed.origins[evaluation.name]))
    for evaluation in evaluations:
        origin = installed.origins[evaluation.name]
        for command in evaluation.commands:
            problem = _problem_with(command, package_of_command)
            if problem:
                # Only this command is left out; the rest of the evaluation can be used.
                problems.append(PluginProblem(origin, problem, is_left_out=False))
                continue
            sections.setdefault(command.section, []).append(command)
            package_of_command[command.name] = origin
    # A section may be empty if no installed evaluation adds a command to it.
    filled_sections = {title: commands for title, commands in sections.items() if commands}
    return CommandTable(filled_sections, problems)


def _problem_with(command: Command, package_of_command: Mapping[str, str]) -> str:
    """Return why a command cannot be used; empty if it can."""
    if not isinstance(command.name, str) or not _NAME.fullmatch(command.name):
        return (
            f"has the command {command.name!r}; a name may have only lower-case letters, digits and hyphens: rename it"
        )
    if command.name in package_of_command:
        other_package = package_of_command[command.name]
        return f"has the command '{command.name}', which {other_package} already has; rename it"
    if not all(isinstance(text, str) for text in (command.help, command.path, command.section)):
        return f"has the command '{command.name}', whose help, path and section must all be strings"
    return ""
