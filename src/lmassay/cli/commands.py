"""All commands by name: those of the core, and those that evaluations bring. Listing them imports none of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lmassay.contracts import Command
from lmassay.plugins.evaluations import InstalledEvaluations, PluginProblem, installed_evaluations, precedence

_CLI = "lmassay.cli"
# The core's own commands in the order of the help page; evaluations add theirs to these sections or to their own.
_CORE = {
    "Start": (
        Command("card", "Ask all questions of a model and write one report.", f"{_CLI}.card:card"),
        Command("init", "Write a commented configuration to start from.", f"{_CLI}.init:init"),
        Command("doctor", "Tell what is installed, what is missing and how to get it.", f"{_CLI}.doctor:doctor"),
        Command("completion", "Print the shell's completion script.", f"{_CLI}.completion:completion"),
    ),
    "Evaluate": (
        Command("run", "Run a configuration: every combination of its lists.", f"{_CLI}.run:run"),
        Command("check", "Check a configuration without asking anything.", f"{_CLI}.check:check"),
        Command("reproduce", "Compute published numbers again and compare them.", f"{_CLI}.reproduce:reproduce"),
        Command("resume", "Finish a run that was interrupted or left errors.", f"{_CLI}.resume:resume"),
    ),
    "Look at results": (
        Command("ls", "List the runs in a results folder.", f"{_CLI}.ls:ls"),
        Command("show", "Show a run's results.", f"{_CLI}.show:show"),
        Command("compare", "Compare runs on the examples they share.", f"{_CLI}.compare:compare"),
        Command("report", "Write a report: HTML, Markdown, LaTeX, CSV or figures.", f"{_CLI}.report:report"),
        Command("view", "Look at a results folder in Datasette.", f"{_CLI}.view:view"),
        Command("export", "Write a run as JSON lines, CSV, lm-eval or Every Eval Ever.", f"{_CLI}.export:export"),
    ),
    "Make data": (),
    "Evaluations": (),
    "Compatibility commands": (),
    "Components": (
        Command("tasks", "List the evaluations.", f"{_CLI}.components:tasks"),
        Command("data", "List, fetch and verify published data sets.", f"{_CLI}.data:data"),
        Command("models", "List the kinds of model, fetch one, list those fetched.", f"{_CLI}.models:models"),
    ),
}
# What can be typed without quotes, and completed.
_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class CommandTable:
    """The commands that can be used, by the section of the help page, and what is wrong with others."""

    sections: Mapping[str, Sequence[Command]]
    problems: Sequence[PluginProblem]

    @property
    def by_name(self) -> dict[str, Command]:
        return {command.name: command for commands in self.sections.values() for command in commands}


def command_table() -> CommandTable:
    """The commands of the core and of all evaluations that are installed."""
    return _table_with(installed_evaluations())


@functools.cache
def _table_with(known: InstalledEvaluations) -> CommandTable:
    sections = {title: list(commands) for title, commands in _CORE.items()}
    # Command → who has it.
    taken = {command.name: "lmassay" for commands in sections.values() for command in commands}
    problems: list[PluginProblem] = []
    # lmassay's own evaluations come first, so that no other package takes the name of one of their commands.
    evaluations = sorted(known.evaluations, key=lambda evaluation: precedence(known.origins[evaluation.name]))
    for evaluation in evaluations:
        origin = known.origins[evaluation.name]
        for command in evaluation.commands:
            problem = _problem_with(command, taken)
            if problem:
                problems.append(PluginProblem(origin, problem, is_left_out=False))
                continue
            sections.setdefault(command.section, []).append(command)
            taken[command.name] = origin
    used = {title: commands for title, commands in sections.items() if commands}
    return CommandTable(used, problems)


def _problem_with(command: Command, taken: Mapping[str, str]) -> str:
    """Why a command cannot be used; empty if it can."""
    if not isinstance(command.name, str) or not _NAME.fullmatch(command.name):
        return f"brings the command {command.name!r}; a name has small letters, digits and hyphens only: rename it"
    if command.name in taken:
        return f"brings the command '{command.name}', which {taken[command.name]} already has; rename it"
    if not all(isinstance(text, str) for text in (command.help, command.path, command.section)):
        return f"brings the command '{command.name}', whose help, path and section must be texts"
    return ""
