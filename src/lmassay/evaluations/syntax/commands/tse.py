"""``lmassay tse``"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lmassay.cli.argparse_style import AbbreviatedCommand, AddedOption
from lmassay.cli.console import print_error, say, warn, without_controls
from lmassay.cli.progress import progress_bar
from lmassay.cli.run import EXIT_FAILED, EXIT_WITH_ERRORS, plugin_output_to_stderr
from lmassay.errors import ConfigError, LmassayError, error_with_location
from lmassay.evaluations.syntax.refining_tse.config import (
    NO_PLUGINS,
    TSE,
    VERBS,
    Compat,
    Plugins,
    TseConfig,
    read_tse_config,
    short_name,
)
from lmassay.evaluations.syntax.refining_tse.folder import Summary, TseOutcome, check_writable, summaries, write_folder
from lmassay.evaluations.syntax.refining_tse.modules import load_plugins
from lmassay.running import runner
from lmassay.running.config import RunConfig
from lmassay.running.runner import Plan
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import RunRecord, canonical

if TYPE_CHECKING:
    from lmassay.reporting.figure_files import FigureFormat

F = TypeVar("F", bound=Callable[..., Any])
_STORE = Path("results") / "lmassay"
_UNFINISHED = ("interrupted", "cancelled", "failed", "incomplete")
_RELEASED = (
    "As released: one lemma per index counts, and a masked model's blank is read where the original counts it to be."
)


@click.group(
    epilog="Example: lmassay tse run-all configs --whitelist bert-large-cased --blacklist blimp",
    short_help="refining-tse's configurations, folders, table and plots.",
)
def tse() -> None:
    """Work as with refining-tse: its configurations, its result folders, its table and plots."""


def _run_options(function: F) -> F:
    """What ``run`` and ``run-all`` share."""
    for option in reversed(
        (
            click.option(
                "--compat",
                cls=AddedOption,
                type=click.Choice(["none", "released"]),
                default="none",
                show_default=True,
                help="released: compute what the released program does, its two bugs included.",
            ),
            click.option(
                "--model",
                cls=AddedOption,
                metavar="MODEL",
                help="Run this model (folder, .gguf file or hub name) instead; results go under its name.",
            ),
            click.option(
                "--plugins",
                "files",
                cls=AddedOption,
                metavar="FILE",
                multiple=True,
                type=click.Path(path_type=Path),
                help="Python file that registers models or metrics of your own; repeatable.",
            ),
            click.option(
                "--lemma-stats",
                cls=AddedOption,
                is_flag=True,
                help="Keep every verb form's rank and probability in every context; takes much room.",
            ),
            click.option(
                "--again",
                cls=AddedOption,
                is_flag=True,
                help="Ask the model even if these very numbers are there already.",
            ),
            click.option(
                "--results",
                cls=AddedOption,
                type=click.Path(path_type=Path, file_okay=False),
                default=lambda: Path(os.environ.get("LMASSAY_RESULTS", _STORE)),
                show_default=f"$LMASSAY_RESULTS or ./{_STORE.as_posix()}",
                help="Folder that holds the runs.",
            ),
        )
    ):
        function = option(function)
    return function


@tse.command(
    epilog="Example: lmassay tse run configs/bert-base-cased/ML_simple_agrmt/mw.yaml",
    short_help="Run configurations of refining-tse.",
)
@click.argument("configs", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@_run_options
def run(configs: Sequence[Path], results: Path, files: Sequence[Path], **options: Any) -> int:
    """Run configurations as they are and write a result folder for each.

    TSE, EW and MW come out of one pass: two configurations that differ in the metric alone ask the model once. A run
    that was interrupted goes on where it stopped.
    """
    return _run_all(configs, results, files, options)


@tse.command(
    "run-all",
    cls=AbbreviatedCommand,
    epilog="Example: lmassay tse run-all configs --whitelist bert-large-cased,gpt2-xl --blacklist blimp",
    short_help="Run all configurations below a folder.",
)
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--whitelist", metavar="A,B", default="", help="Only paths that contain one of these.")
@click.option("--blacklist", metavar="C,D", default="", help="No path that contains one of these.")
@_run_options
def run_all(folder: Path, whitelist: str, blacklist: str, results: Path, files: Sequence[Path], **options: Any) -> int:
    """Run every .yaml file below FOLDER; one that fails does not stop the others."""
    configs = _chosen(folder, _parts(whitelist), _parts(blacklist))
    if not configs:
        raise ConfigError(f"no .yaml file below {folder} passes --whitelist and --blacklist")
    return _run_all(configs, results, files, options)


@tse.command(
    epilog="Example: lmassay tse plots results -o plots --format png --format pdf",
    short_help="Write the LaTeX table and the figures.",
)
@click.argument(
    "folder", metavar="[RESULTS]", default=Path("results"), type=click.Path(path_type=Path, file_okay=False)
)
@click.option(
    "-o",
    "--out",
    "target",
    default=Path("plots"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the table and the figures.",
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    default=("png",),
    show_default=True,
    type=click.Choice(["png", "pdf", "svg"]),
    help="Format of the figures; repeatable.",
)
@click.option(
    "--compat",
    type=click.Choice(["none", "released"]),
    help="Only runs of this kind. Without it, runs as released are left out of a model that has others.",
)
def plots(folder: Path, target: Path, formats: Sequence[FigureFormat], compat: Compat | None) -> None:
    """Write latex_table.tex and the figures of the paper from result folders, refining-tse's own as well as ours.

    RESULTS is the folder that holds <model>/<templates>/<metric>/<run>; by default ./results. Of several runs of one
    kind the newest counts.
    """
    from lmassay.evaluations.syntax.refining_tse.figures import write_figures
    from lmassay.evaluations.syntax.refining_tse.results import latex_table, read_results

    results = read_results(folder, compat)
    for warning in results.warnings:
        warn(warning)
    table = target / "latex_table.tex"
    with atomic_write(table) as stream:
        stream.write(latex_table(results))
    click.echo(without_controls(table))
    with progress_bar("drawing"):
        written = write_figures(results, target, list(dict.fromkeys(formats)))
    for file in written:
        click.echo(without_controls(file))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _chosen(folder: Path, wanted: Sequence[str], unwanted: Sequence[str]) -> list[Path]:
    """In the order of their names, so that the configurations of a model follow each other and it is loaded once."""
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml") and path.is_file())
    return [
        path
        for path in found
        if (not wanted or any(part in path.as_posix() for part in wanted))
        and not any(part in path.as_posix() for part in unwanted)
    ]


def _run_all(configs: Sequence[Path], results: Path, files: Sequence[Path], options: Mapping[str, Any]) -> int:
    with Store(results, create=True) as store:
        with plugin_output_to_stderr():
            plugins = load_plugins(files) if files else NO_PLUGINS
        session = _Session(store, plugins, **options)
        codes = [session.work(path, f"[{number}/{len(configs)}]") for number, path in enumerate(configs, 1)]
    if len(configs) > 1:
        say(f"{codes.count(0)} of {len(codes)} configurations are done; their runs are in {results}")
    return max(codes)


@dataclass
class _Session:
    """One command: what it was told, and what it has done so far."""

    store: Store
    plugins: Plugins
    compat: Compat
    model: str | None
    lemma_stats: bool
    again: bool
    sweep: str = field(default_factory=runner.new_sweep)
    done: dict[str, RunRecord] = field(default_factory=dict)
    loaded: tuple[str, Any] = ("", None)

    def work(self, path: Path, count: str) -> int:
        """Run one configuration; whatever goes wrong is told, and the others go on."""
        try:
            with plugin_output_to_stderr(), _told_to_run_again():
                config = read_tse_config(path, self.model, self.plugins)
                check_writable(config)
                record = self._record(config, f"{count} {path}")
            if record.status != "done":
                again = "run the same command again to try once more"
                print_error(
                    f"{path}: {record.note}; {again}", [f"  {n} × {t}" for t, n in self.store.errors(record.id)]
                )
                return EXIT_WITH_ERRORS
            self._write(config, record)
        except LmassayError as error:
            text = str(error)
            print_error(text if text.startswith(str(path)) else f"{path}: {text}", getattr(error, "__notes__", []))
            return EXIT_FAILED
        except Exception as error:
            # A bug, here or in a library: shown in full, but hours of other configurations need not wait for it.
            print_error(f"{path}: unexpected {error_with_location(error)}", [traceback.format_exc().rstrip()])
            return EXIT_FAILED
        return 0

    def _record(self, config: TseConfig, what: str) -> RunRecord:
        """The run that answers a configuration: made now, made before, or finished now."""
        task, model = config.task_spec(self.compat, self.lemma_stats), config.model_spec(self.compat)
        key = canonical([{**task, "label": ""}, model])
        if key in self.done:
            say(f"{what}: from the same run {self.done[key].id}")
        else:
            run = RunConfig(name=config.path.stem, task=task, model=model, base_dir=Path.cwd())
            self.done[key] = self._worked(runner.plan(run), what)
        return self.done[key]

    def _worked(self, planned: Plan, what: str) -> RunRecord:
        known = None if self.again else self._known(planned)
        if known is not None and known.status == "done":
            say(f"{what}: these numbers are there already, from run {known.id}")
            return known
        say(what if known is None else f"{what}: going on with run {known.id}")
        with progress_bar(what) as advance:
            if known is not None:
                return runner.resume(known, self.store, advance)
            return runner.start(self._with_loaded_model(planned), self.store, self.sweep, advance)

    def _known(self, planned: Plan) -> RunRecord | None:
        """The last run with the same signature, that is, the same data, model, options and version."""
        alike = [record for record in self.store.runs() if record.signature == planned.signature]
        # Of a class of the user's own it is not known what weights it reads: it is asked again.
        lasting = planned.model is None or planned.model.cached
        usable = [r for r in alike if r.status in _UNFINISHED or (r.status == "done" and lasting)]
        return usable[-1] if usable else None

    def _with_loaded_model(self, planned: Plan) -> Plan:
        """The configurations of a model follow each other: it is loaded for the first of them only."""
        key = canonical(planned.config.model)
        if key != self.loaded[0]:
            self.loaded = (key, planned.model)
        return replace(planned, model=self.loaded[1])

    def _write(self, config: TseConfig, record: RunRecord) -> None:
        notes = [_RELEASED] if self.compat == "released" else []
        outcome = TseOutcome(config, record, list(self.store.rows(record.id)), notes)
        told = summaries(outcome)
        folder, log = write_folder(outcome, told, self.store.folder)
        if config.logger.print_to_stdout:
            click.echo(without_controls(log), nl=False)
        parts = ", ".join(_told(config, name, summary) for name, summary in told.items())
        click.echo(without_controls(f"{short_name(config.model.name)}, {config.templates}: {parts} → {folder}"))


@contextmanager
def _told_to_run_again() -> Iterator[None]:
    """``lmassay resume``, which the runner advises, finishes the run but writes no folder."""
    try:
        yield
    except BaseException as error:
        for place, note in enumerate(getattr(error, "__notes__", [])):
            if "lmassay resume" in note:
                error.__notes__[place] = "what was answered is kept; run the same command again to go on"
        raise


def _told(config: TseConfig, name: str, summary: Summary) -> str:
    """One metric in a few words."""
    title = {TSE: "TSE", VERBS: (config.voting or "").upper()}.get(name, name)
    score, n = summary.get("Overall model score"), summary.get("Number of examples")
    if not isinstance(score, float):
        return f"{title} no score"
    return f"{title} {score:.4f} ({n} {'contexts' if name == VERBS else 'rows'})"
