"""The command line: one file a verb, loaded when it is called."""

from __future__ import annotations

import importlib
import keyword
import sys

import click
from click.shell_completion import CompletionItem

import lmassay
from lmassay.cli import ending
from lmassay.cli.completion import offer_runs
from lmassay.cli.console import complain
from lmassay.cli.mistakes import usage_mistake
from lmassay.errors import LmassayError

# Verb → (module, help line), in the order of the help page.
_SECTIONS = {
    "Start": {
        "card": ("card", "Ask all four questions of a model and write one report."),
        "init": ("init", "Write a commented configuration to start from."),
        "doctor": ("doctor", "Tell what is installed, what is missing and how to get it."),
        "completion": ("completion", "Print the shell's completion script."),
    },
    "Evaluate": {
        "run": ("run", "Run a configuration: every combination of its lists."),
        "search": ("lmassay.evaluations.fewshot.commands.search", "Search for the options with the best dev score."),
        "check": ("check", "Check a configuration without asking anything."),
        "resume": ("resume", "Finish a run that was interrupted or left errors."),
    },
    "Look at results": {
        "ls": ("ls", "List the runs in a results folder."),
        "show": ("show", "Show a run's results."),
        "compare": ("compare", "Compare runs on the examples they share."),
        "report": ("report", "Write a report: HTML, Markdown, LaTeX, CSV or figures."),
        "protocol": (
            "lmassay.evaluations.fewshot.commands.protocol",
            "Judge few-shot runs: test, dev-test correlation, stability.",
        ),
        "view": ("view", "Look at a results folder in Datasette."),
        "export": ("export", "Write a run as JSON lines, CSV, lm-eval or Every Eval Ever."),
        "import": ("import_", "Take results of another harness into a results folder."),
    },
    "Make data": {
        "perturb": ("lmassay.evaluations.robustness.commands.perturb", "Write an adversarial version of a text file."),
        "grammar": ("lmassay.evaluations.syntax.commands.grammar", "Write minimal pairs from a grammar."),
        "verbs": ("lmassay.evaluations.syntax.commands.verbs", "Build a list of verbs for EW and MW."),
    },
    "As in the originals": {
        "teapot": ("lmassay.evaluations.robustness.commands.teapot", "TEAPOT's own command line, as it was."),
        "tse": ("lmassay.evaluations.syntax.commands.tse", "refining-tse's configurations, folders, table and plots."),
        "kobbq": ("lmassay.evaluations.bias.commands.kobbq", "KoBBQ's six steps with their own flags and files."),
        "fewnlu": ("lmassay.evaluations.fewshot.commands.fewnlu", "FewNLU's own command line and result files."),
    },
    "What there is": {
        "tasks": ("listings", "List the evaluations."),
        "models": ("models", "List the kinds of model, fetch one, list those fetched."),
        "scorers": ("listings", "List the scorers."),
        "perturbations": ("listings", "List the perturbations."),
        "methods": ("listings", "List the few-shot methods."),
    },
}
_VERBS = {name: verb for section in _SECTIONS.values() for name, verb in section.items()}


def _full_name(module: str) -> str:
    return module if "." in module else f"lmassay.cli.{module}"


class _Verbs(click.Group):
    """Commands that are imported only when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module = importlib.import_module(_full_name(_VERBS[cmd_name][0]))
        # A verb that is a keyword of Python has an underscore after its name, as its module has.
        command: click.Command = getattr(module, f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name)
        offer_runs(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _VERBS))
        for title, verbs in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", line) for name, (_, line) in verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=line) for name, (_, line) in _VERBS.items() if name.startswith(incomplete)]
        # The group's own options. What click makes of its commands would import them all.
        return found or click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"\b\nExit codes:\n{ending.TABLE}",
)
@click.version_option(lmassay.__version__, prog_name="lmassay")
def app() -> None:
    """Put language models and NLP systems to the test.

    \b
    lmassay card                      ask a small model all four questions
    lmassay init robustness           write a configuration to start from
    lmassay run robustness.yaml       run it
    lmassay report -o report.html     look at its results
    lmassay COMMAND -h                help with an example
    """


def main(argv: list[str] | None = None) -> None:
    """Entry point: a user's mistake is one line and exit code 2, Ctrl-C is 130, a bug is a traceback."""
    ending.prepare_streams()
    ending.heed_termination()
    try:
        status = app.main(args=argv, prog_name="lmassay", standalone_mode=False)
        ending.flush()
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            complain(usage_mistake(error))
        ending.leave(ending.USER_MISTAKE)
    except click.ClickException as error:
        complain(error.format_message())
        ending.leave(ending.USER_MISTAKE)
    except LmassayError as error:
        complain(str(error), _notes(error))
        ending.leave(ending.USER_MISTAKE)
    except (click.Abort, KeyboardInterrupt) as stop:
        # click wraps Ctrl-C; what the runner had to say hangs on the original.
        cause = stop.__cause__ or stop.__context__ or stop
        complain("stopped", _notes(cause))
        ending.leave(ending.TERMINATED if isinstance(cause, ending.Terminated) else ending.INTERRUPTED)
    except OSError as error:
        ending.leave(_not_written_or_read(error))
    except UnicodeEncodeError as error:
        if error.encoding != sys.getfilesystemencoding():
            raise
        complain(f"a file name cannot be written in this environment's encoding ({error.encoding}); set PYTHONUTF8=1")
        ending.leave(ending.USER_MISTAKE)
    ending.leave(status if isinstance(status, int) else 0)


def _not_written_or_read(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        return ending.NOT_ALL
    if error.errno not in ending.MENDABLE:
        raise error
    where = error.filename or "standard output"
    complain(f"{where}: {error.strerror}", _notes(error))
    return ending.USER_MISTAKE


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))
