"""What ``lmassay tse`` does: refining-tse's configurations, result folders, table and plots."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmassay.cli.actions.run import plugin_output_to_stderr
from lmassay.cli.console import print_error, say, warn, without_controls
from lmassay.cli.exit import INCOMPLETE, USER_ERROR
from lmassay.cli.progress import progress_bar
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

_UNFINISHED = ("interrupted", "cancelled", "failed", "incomplete")
_RELEASED = (
    "As in the released program: one lemma counts per value of idx, and a masked model is read at the position that "
    "the original computes for the blank, even if that is another token."
)


def run(configs: Sequence[Path], results: Path, files: Sequence[Path], **options: Any) -> int:
    """Run configurations of refining-tse and write a result folder for each."""
    return _run_all(configs, results, files, options)


def run_all(folder: Path, whitelist: str, blacklist: str, results: Path, files: Sequence[Path], **options: Any) -> int:
    """Run every .yaml file below FOLDER. A configuration that fails does not stop the others."""
    configs = _matching_configs(folder, _parts(whitelist), _parts(blacklist))
    if not configs:
        raise ConfigError(f"no .yaml file below {folder} passes --whitelist and --blacklist")
    return _run_all(configs, results, files, options)


def plots(folder: Path, target: Path, formats: Sequence[FigureFormat], compat: Compat | None) -> None:
    """Write latex_table.tex and the figures of the paper from result folders of refining-tse or lmassay."""
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


def _matching_configs(folder: Path, whitelist: Sequence[str], blacklist: Sequence[str]) -> list[Path]:
    """Return the configurations sorted by path: if each model has a folder, as in the original, it is loaded once."""
    matching = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".yaml", ".yml") or not path.is_file():
            continue
        text = path.as_posix()
        if whitelist and not any(part in text for part in whitelist):
            continue
        if any(part in text for part in blacklist):
            continue
        matching.append(path)
    return matching


def _run_all(configs: Sequence[Path], results: Path, files: Sequence[Path], options: Mapping[str, Any]) -> int:
    with Store(results, create=True) as store:
        with plugin_output_to_stderr():
            plugins = load_plugins(files) if files else NO_PLUGINS
        session = _Session(store, plugins, **options)
        codes = []
        for number, path in enumerate(configs, 1):
            codes.append(session.work(path, f"[{number}/{len(configs)}]"))
    if len(configs) > 1:
        say(f"{codes.count(0)} of {len(codes)} configurations are done; their runs are in {results}")
    return max(codes)


@dataclass
class _Session:
    """The options of one command, and what it has done so far."""

    store: Store
    plugins: Plugins
    compat: Compat
    model: str | None
    """The model of ``--model``, which replaces that of every configuration."""
    lemma_stats: bool
    """Whether rank and probability of every verb form are kept."""
    again: bool
    """Whether a run is repeated although the store has its results."""
    sweep: str = field(default_factory=runner.new_sweep)
    done: dict[str, RunRecord] = field(default_factory=dict)
    """The runs of this command, by task and model."""
    loaded_key: str = ""
    """The options of the model that was loaded last."""
    loaded_model: Any = None

    def work(self, path: Path, count: str) -> int:
        """Run one configuration and return its exit code; whatever goes wrong is reported, and the others continue."""
        try:
            with plugin_output_to_stderr(), _advise_to_run_again():
                config = read_tse_config(path, self.model, self.plugins)
                check_writable(config)
                record = self._record(config, f"{count} {path}")
            if record.status != "done":
                errors = [f"  {times} × {text}" for text, times in self.store.errors(record.id)]
                print_error(f"{path}: {record.note}; run the same command again to try once more", errors)
                return INCOMPLETE
            self._write(config, record)
        except LmassayError as error:
            text = str(error)
            if not text.startswith(str(path)):
                text = f"{path}: {text}"
            print_error(text, getattr(error, "__notes__", []))
            return USER_ERROR
        except Exception as error:
            # A bug, here or in a library. It is shown in full, but it must not stop the configurations that follow.
            print_error(f"{path}: unexpected {error_with_location(error)}", [traceback.format_exc().rstrip()])
            return USER_ERROR
        return 0

    def _record(self, config: TseConfig, title: str) -> RunRecord:
        """Return the run of a configuration: an earlier one, an interrupted one that is continued, or a new one."""
        task = config.task_spec(self.compat, self.lemma_stats)
        model = config.model_spec(self.compat)
        # The label is only a name: configurations that differ in nothing else share a run.
        key = canonical([{**task, "label": ""}, model])
        if key in self.done:
            say(f"{title}: this is the same run as that of an earlier configuration, {self.done[key].id}")
        else:
            run = RunConfig(name=config.path.stem, task=task, model=model, base_dir=Path.cwd())
            self.done[key] = self._run(runner.plan(run), title)
        return self.done[key]

    def _run(self, planned: Plan, title: str) -> RunRecord:
        """Return an existing run with the same signature, or continue or start one."""
        previous = None if self.again else self._previous_run(planned)
        if previous is not None and previous.status == "done":
            say(f"{title}: run {previous.id} has these numbers already")
            return previous
        say(title if previous is None else f"{title}: continuing run {previous.id}")
        with progress_bar(title) as advance:
            if previous is not None:
                return runner.resume(previous, self.store, advance)
            return runner.start(self._with_loaded_model(planned), self.store, self.sweep, advance)

    def _previous_run(self, planned: Plan) -> RunRecord | None:
        """Return the last run with the same signature, that is, the same data, model, options and version."""
        # lmassay cannot know which weights a user's class reads, so its finished runs are repeated.
        is_reproducible = planned.model is None or planned.model.cached
        last_usable = None
        for record in self.store.runs():
            if record.signature != planned.signature:
                continue
            if record.status in _UNFINISHED or (record.status == "done" and is_reproducible):
                last_usable = record
        return last_usable

    def _with_loaded_model(self, planned: Plan) -> Plan:
        """Give a run the model that was loaded last, if it is the same one, so that it is not loaded again."""
        key = canonical(planned.config.model)
        if key != self.loaded_key:
            self.loaded_key = key
            self.loaded_model = planned.model
        return replace(planned, model=self.loaded_model)

    def _write(self, config: TseConfig, record: RunRecord) -> None:
        """Write the result folder of a run, and print its scores and the path of the folder."""
        notes = [_RELEASED] if self.compat == "released" else []
        outcome = TseOutcome(config, record, list(self.store.rows(record.id)), notes)
        summary_by_metric = summaries(outcome)
        folder, log = write_folder(outcome, summary_by_metric, self.store.folder)
        if config.logger.print_to_stdout:
            click.echo(without_controls(log), nl=False)
        scores = ", ".join(_score_text(config, name, summary) for name, summary in summary_by_metric.items())
        model_name = short_name(config.model.name)
        click.echo(without_controls(f"{model_name}, {config.templates}: {scores} → {folder}"))


@contextmanager
def _advise_to_run_again() -> Iterator[None]:
    """Replace the runner's advice: ``lmassay resume`` would finish the run but write no result folder."""
    try:
        yield
    except BaseException as error:
        for index, note in enumerate(getattr(error, "__notes__", [])):
            if "lmassay resume" in note:
                error.__notes__[index] = "answers so far are kept; run the same command again to continue"
        raise


def _score_text(config: TseConfig, name: str, summary: Summary) -> str:
    """Return the score of one metric with its number of examples."""
    title = name
    # TSE compares the two verbs of each row; EW and MW compare all verbs once per distinct context.
    unit = "rows"
    if name == TSE:
        title = "TSE"
    elif name == VERBS:
        title = (config.voting or "").upper()
        unit = "contexts"
    score = summary.get("Overall model score")
    count = summary.get("Number of examples")
    if not isinstance(score, float):
        return f"{title} no score"
    return f"{title} {score:.4f} ({count} {unit})"
