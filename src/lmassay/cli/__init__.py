"""The command line: one file a verb, loaded when it is called."""

from __future__ import annotations

import importlib.util
import keyword
import sys
from typing import Any

import click

import lmassay
from lmassay.cli.console import complain
from lmassay.errors import LmassayError

# Verb → (module, help line). The order is the order of the help page.
_VERBS = {
    "card": ("card", "Ask all four questions of a model and write one report."),
    "init": ("init", "Write a commented configuration to start from."),
    "run": ("run", "Run a configuration: every combination of its lists."),
    "search": ("search", "Search for the options with the best dev score."),
    "check": ("check", "Check a configuration without asking anything."),
    "resume": ("resume", "Finish a run that was interrupted or left errors."),
    "ls": ("ls", "List the runs in a results folder."),
    "show": ("show", "Show a run's results."),
    "compare": ("compare", "Compare runs on the examples they share."),
    "export": ("export", "Write a run's examples and scores as JSON lines or CSV."),
    "import": ("import_", "Take results of another harness into a results folder."),
    "report": ("report", "Write an HTML report of one or more runs."),
    "view": ("view", "Look at a results folder in Datasette."),
    "protocol": ("protocol", "Judge few-shot runs: test, dev-test correlation, stability."),
    "teapot": ("teapot", "TEAPOT's own command line, as it was."),
    "perturb": ("perturb", "Write an adversarial version of a text file."),
    "tse": ("tse", "refining-tse's configurations, folders, table and plots."),
    "grammar": ("grammar", "Write minimal pairs from a grammar."),
    "verbs": ("verbs", "Build a list of verbs for EW and MW."),
    "kobbq": ("kobbq", "KoBBQ's six steps with their own flags and files."),
    "fewnlu": ("fewnlu", "FewNLU's own command line and result files."),
    "tasks": ("listings", "List the evaluations."),
    "models": ("models", "List the kinds of model, fetch one, list those fetched."),
    "scorers": ("listings", "List the scorers."),
    "perturbations": ("listings", "List the perturbations."),
    "methods": ("listings", "List the few-shot methods."),
    "doctor": ("doctor", "Tell what is installed, what is missing and how to get it."),
    "completion": ("completion", "Print the shell's completion script."),
}

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


class _Verbs(click.Group):
    """Commands that are imported only when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        path = f"lmassay.cli.{_VERBS[cmd_name][0]}"
        if importlib.util.find_spec(path) is None:
            return None
        module = importlib.import_module(path)
        # A verb that is a keyword of Python has an underscore after its name, as its module has.
        command: click.Command = getattr(module, f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _VERBS.items()])


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lmassay.__version__, prog_name="lmassay")
def app() -> None:
    """Put language models and NLP systems to the test.

    \b
    lmassay run examples/robustness.yaml      run an evaluation
    lmassay report -o report.html             look at its results
    lmassay COMMAND -h                        help with an example
    """


def main(argv: list[str] | None = None) -> None:
    """Entry point: a user's mistake is one line and exit code 2, Ctrl-C is 130, a bug is a traceback."""
    for stream in (sys.stdout, sys.stderr):
        # A console that cannot show a character gets an escape, not a crash.
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        status = app.main(args=argv, prog_name="lmassay", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except LmassayError as error:
        complain(str(error), _notes(error))
        sys.exit(EXIT_USER_ERROR)
    except (click.Abort, KeyboardInterrupt) as stop:
        # click wraps Ctrl-C; what the runner had to say hangs on the original.
        complain("stopped", _notes(stop.__cause__ or stop.__context__ or stop))
        sys.exit(EXIT_INTERRUPTED)
    except UnicodeEncodeError as error:
        if error.encoding != sys.getfilesystemencoding():
            raise
        complain(f"a file name cannot be written in this environment's encoding ({error.encoding}); set PYTHONUTF8=1")
        sys.exit(EXIT_USER_ERROR)
    sys.exit(status if isinstance(status, int) else 0)


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))
