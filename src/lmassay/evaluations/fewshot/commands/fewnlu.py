"""The command ``lmassay fewnlu``: it has FewNLU's command line and writes FewNLU's files."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmassay.cli.argparse_style import AddedOption, ListOptionsCommand
from lmassay.cli.console import print_error, say, without_controls
from lmassay.cli.options import ExecutorChoice, executor_options
from lmassay.errors import ConfigError, UserError
from lmassay.evaluations.fewshot.fewnlu.flags import BY_NAME, FLAGS, Flag, decisions

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.fewnlu.config import TranslatedFlags
    from lmassay.evaluations.fewshot.fewnlu.files import FewNluSummary
    from lmassay.evaluations.fewshot.fewnlu.trainings import Round

STORE = "lmassay"
"""The results folder inside the output folder, for ``lmassay show, report, resume … --results``."""
MARK = "fewnlu.json"
"""The file in the results folder that says which flags an output folder belongs to."""
# What --overwrite_output_dir removes: only the files and folders that FewNLU and lmassay write.
_OUTPUT_NAMES = re.compile(r"p\d+|g\d+|final|lmassay|writer_logs|result_test\.txt")
# Flags that do not influence the trainings.
_NOT_COMPARED = ("do_train", "do_eval", "overwrite_output_dir", "output_dir", "final_results", "keep")
_MAX_NAMED_FLAGS = 5
_TYPES: dict[str, Any] = {"text": str, "whole": int, "number": float}


class _FewNluCommand(ListOptionsCommand):
    """A command with FewNLU's command line.

    A flag may have several values and may be abbreviated, and the help has FewNLU's groups of flags.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of the flags group by group, then what happens to flags that did not work in FewNLU."""
        help_records = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                help_records[parameter.name] = record
        for group, flags in FLAGS.items():
            with formatter.section(group):
                records_of_group = [help_records.pop(flag.name) for flag in flags if flag.name in help_records]
                formatter.write_dl(records_of_group)
        # The remaining options are lmassay's own, such as --workers.
        with formatter.section("Other"):
            formatter.write_dl(list(help_records.values()))
        with formatter.section("Flags that had no effect in FewNLU, or made it fail"):
            formatter.write_dl([(name, f"{state}: {text}") for name, state, text in decisions()])


def _option(flag: Flag, group: str) -> click.Option:
    """The click option of a flag."""
    option_class = AddedOption if group == "Beyond FewNLU" else click.Option
    names = [f"--{flag.name}"]
    if flag.kind == "switch":
        return option_class(names, is_flag=True, help=flag.help)
    settings: dict[str, Any] = {"help": flag.help}
    settings["type"] = click.Choice(flag.choices) if flag.choices else _TYPES[flag.kind]
    if flag.several:
        settings |= {"multiple": True, "metavar": "N..."}
    if group == "Required":
        settings["required"] = True
    else:
        has_default = flag.default not in (None, "")
        settings |= {"default": flag.default, "show_default": has_default and flag.state != "refused"}
    return option_class(names, **settings)


def _options() -> list[click.Parameter]:
    options: list[click.Parameter] = []
    for group, flags in FLAGS.items():
        options += [_option(flag, group) for flag in flags]
    return options


@click.command(
    cls=_FewNluCommand,
    params=_options(),
    epilog="Example: lmassay fewnlu --method pet --arch_method default --data_dir FewGLUE/RTE --model_type albert "
    "--model_name_or_path albert-base-v2 --dataset_name superglue --task_name rte --output_dir out/rte "
    "--few_shot_setting dev32_split --max_steps 250 --pattern_ids 0 1 --do_train --do_eval",
    short_help="FewNLU's own command line.",
)
@executor_options
@click.pass_context
def fewnlu(ctx: click.Context, /, execution: ExecutorChoice, **values: Any) -> int:
    """Train and test a few-shot method with FewNLU's flags, and write FewNLU's files.

    Each training is saved in OUTPUT_DIR/lmassay as soon as it is done. If the command is interrupted, run it again to
    continue. `lmassay show`, `report` and `protocol` read the trainings with --results OUTPUT_DIR/lmassay.
    """
    from lmassay.evaluations.fewshot.fewnlu.config import translate

    source = click.core.ParameterSource.COMMANDLINE
    given = frozenset(name for name in BY_NAME if ctx.get_parameter_source(name) is source)
    translated = translate(values, given, Path.cwd())
    for note in translated.notes:
        say(f"note: {note}")
    return _FewNluRun(values, translated, execution).run()


class _FewNluRun:
    """One call of the command: its flags, their translation, and its output folder."""

    def __init__(self, flags: Mapping[str, Any], translated: TranslatedFlags, execution: ExecutorChoice) -> None:
        self.flags = flags
        self.translated = translated
        self.execution = execution
        self.folder = Path(flags["output_dir"]).expanduser().resolve()
        self.results = self.folder / STORE

    def run(self) -> int:
        """Train and write the files; returns the exit code."""
        from lmassay.cli.actions.run import plugin_output_to_stderr
        from lmassay.running.runner import new_sweep, record_waiting_runs
        from lmassay.storage.store import STORE_FILE, Store

        with plugin_output_to_stderr():
            plan = self._plan()
        if self.flags["do_train"]:
            self._prepare_folder()
        elif not (self.results / STORE_FILE).is_file():
            raise UserError(f"--do_eval: there are no trainings in {self.folder}; give --do_train, too")
        elif self._evaluate_kept_models(plan):
            return 0
        # If some weights are missing, as with --keep none, the files are written from the stored outcomes instead.
        with Store(self.results, create=True) as store:
            records = [record for record in store.runs() if record.signature == plan.signature]
            if not records and not self.flags["do_train"]:
                raise UserError(
                    f"--do_eval: {self.folder} has no saved trainings of these flags and data; give those of the "
                    "training (only the test data may differ), or --do_train"
                )
            if not records:
                records = record_waiting_runs([plan], store, new_sweep())
            record = records[-1]
            with store.lock_sweep(record.sweep):
                return self._train_and_write(plan, record, store)

    def _plan(self) -> Any:
        """Plan the run. Errors name flags instead of keys of the configuration."""
        from lmassay.evaluations.fewshot.fewnlu.config import in_flags
        from lmassay.running.config import expand
        from lmassay.running.runner import plan

        try:
            (config,) = expand(self.translated.config, Path.cwd())
            planned = plan(config)
            # Counting the trainings makes the splits and checks the regime. Errors should come before the output
            # folder is touched.
            _ = planned.size
            return planned
        except ConfigError as error:
            raise ConfigError(in_flags(str(error))) from error

    # --- the output folder --------------------------------------------------------------------------------------------

    def _prepare_folder(self) -> None:
        """Prepare the output folder by FewNLU's rule; raise a UserError if it cannot be used.

        A folder that is not empty is used only if --overwrite_output_dir is given, or if it has unfinished results of
        the same flags, which are then continued.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"--output_dir: {self.folder} is a file; give a folder")
        if self.folder.is_dir() and any(self.folder.iterdir()):
            if self.flags["overwrite_output_dir"]:
                self._clear()
            else:
                self._check_continuable()
                say(f"continuing the trainings in {self.folder}")
        self._write_mark()

    def _check_continuable(self) -> None:
        """Raise a UserError unless the folder has unfinished results of the same flags."""
        mark = self._mark()
        if mark is None:
            raise UserError(
                f"--output_dir: {self.folder} already exists and is not empty; give another folder, or "
                "--overwrite_output_dir"
            )
        flags = self._compared_flags()
        if mark["flags"] != flags:
            differing = [f"--{name}" for name in flags if mark["flags"].get(name) != flags[name]]
            named = ", ".join(differing[:_MAX_NAMED_FLAGS])
            if len(differing) > _MAX_NAMED_FLAGS:
                named += " …"
            details = f" ({named})" if differing else ""
            raise UserError(
                f"--output_dir: {self.folder} has results of other flags{details}; give another folder, or "
                "--overwrite_output_dir"
            )
        if mark["finished"]:
            raise UserError(
                f"--output_dir: {self.folder} already has the results of this command; use --do_eval without "
                "--do_train to evaluate the saved models again and rewrite the files, or --overwrite_output_dir to "
                "train again"
            )

    def _clear(self) -> None:
        """Remove the files that FewNLU and lmassay write, and nothing else."""
        from lmassay.storage.store import STORE_FILE, Store

        if (self.results / STORE_FILE).is_file():
            with Store(self.results) as store:
                for sweep in {record.sweep for record in store.runs()}:
                    # Taking the lock fails if another command is still writing here.
                    with store.lock_sweep(sweep):
                        pass
        for path in sorted(self.folder.iterdir()):
            if not _OUTPUT_NAMES.fullmatch(path.name):
                say(f"note: {path} is not a file of FewNLU, so it is kept")
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _compared_flags(self) -> dict[str, Any]:
        """The flags that the results depend on, as they are read from JSON (with lists instead of tuples)."""
        flags = {name: value for name, value in self.flags.items() if name not in _NOT_COMPARED}
        as_json: dict[str, Any] = json.loads(json.dumps(flags))
        return as_json

    def _mark(self) -> dict[str, Any] | None:
        """What an earlier command wrote to the MARK file; None if there is no such file, or if it is damaged."""
        try:
            mark = json.loads((self.results / MARK).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        is_complete = isinstance(mark, dict) and {"flags", "finished"} <= mark.keys()
        return mark if is_complete else None

    def _write_mark(self, *, finished: bool = False, listed: bool = False) -> None:
        """Write the MARK file: the flags that the folder belongs to, and how far the command has got.

        ``finished`` means that all trainings are done, and ``listed`` that the command's line has been added to the
        file in ``final_results``.
        """
        from lmassay.storage.files import atomic_write

        mark = {"flags": self._compared_flags(), "finished": finished, "listed": listed}
        with atomic_write(self.results / MARK) as stream:
            json.dump(mark, stream, indent=1)

    # --- training and writing -----------------------------------------------------------------------------------------

    def _train_and_write(self, plan: Any, record: Any, store: Any) -> int:
        """Do the trainings that are missing, and write FewNLU's files; returns the exit code."""
        from lmassay.cli.actions.run import work_through
        from lmassay.cli.exit import INCOMPLETE
        from lmassay.running.sweep import SweepRun

        code = 0
        if self.flags["do_train"] and record.status != "done":
            with self.execution.executor_for() as executor:
                code = work_through([SweepRun(plan, record)], store, executor)
            record = store.run(record.id)
        trainings = _StoredTrainings.of(plan, record, store)
        if trainings.missing and not self.flags["do_train"]:
            raise UserError(
                f"--do_eval: {trainings.missing} of {trainings.planned} trainings are not in {self.folder}; give "
                "--do_train"
            )
        summary = self._write_files(plan, trainings.outcomes)
        if record.status != "done" and self.flags["do_train"]:
            print_error(
                f"{trainings.missing} of {trainings.planned} trainings are missing; run the same command to try again"
            )
            for text, number in store.errors(record.id):
                say(f"  {number} × {text}")
            return max(code, INCOMPLETE)
        listed = (self._mark() or {}).get("listed", False)
        if self.flags["do_eval"] and not listed:
            self._append_final_line(summary, trainings.seconds)
        self._write_mark(finished=True, listed=listed or self.flags["do_eval"])
        return code

    def _evaluate_kept_models(self, plan: Any) -> bool:
        """Evaluate the trainings from their saved weights, and write the files; False if some weights are missing."""
        from lmassay.cli.actions.run import plugin_output_to_stderr
        from lmassay.evaluations.fewshot import keeping, trainer
        from lmassay.storage.database import KEPT_MODELS

        started = time.monotonic()
        kept_models = keeping.kept_models(self.results / KEPT_MODELS)
        models = {}
        for example in plan.task.examples():
            for training in plan.task.requests(example):
                model = keeping.matching(training, plan.model, kept_models)
                if model is None:
                    return False
                models[training.key] = (training, model)
        outcomes = {}
        device = "cpu" if self.flags["no_cuda"] else "auto"
        with plugin_output_to_stderr():
            for key, (training, model) in models.items():
                outcomes[key] = trainer.test_again(model, self.translated.task, training.spec, device)
        say(f"evaluated {len(outcomes)} saved trainings in {self.results / KEPT_MODELS}")
        summary = self._write_files(plan, outcomes)
        mark = self._mark()
        is_same_command = mark is not None and mark["flags"] == self._compared_flags()
        if mark is None or not is_same_command or not mark.get("listed", False):
            self._append_final_line(summary, time.monotonic() - started)
        if mark is not None and is_same_command:
            self._write_mark(finished=mark["finished"], listed=True)
        return True

    def _write_files(self, plan: Any, outcomes: Mapping[str, Any]) -> FewNluSummary:
        """Write FewNLU's files from the outcomes by training key, and print the summary."""
        from lmassay.evaluations.fewshot.fewnlu.files import FewNluWriter
        from lmassay.evaluations.fewshot.fewnlu.trainings import rounds

        flags = self.flags
        writer = FewNluWriter(self.folder, self.translated.task, outcomes, flags, flags["do_eval"])
        all_rounds = rounds(plan.task, flags["arch_method"], self.translated.patterns, flags["repetitions"])
        if not flags["do_train"]:
            # Models of earlier generations are not kept. The files that were written when they were trained remain.
            all_rounds = [one for one in all_rounds if _has_outcome(one, outcomes)]
        summary = writer.write_all(all_rounds)
        for line in summary.lines:
            click.echo(without_controls(line))
        return summary

    def _append_final_line(self, summary: FewNluSummary, seconds: float) -> None:
        """Add the line of this command to the file in ``final_results``."""
        from lmassay.evaluations.fewshot.fewnlu.files import append_line, final_line, final_name

        task = self.translated.task
        path = Path(self.flags["final_results"]).expanduser() / final_name(self.flags, task, summary.labelled)
        append_line(path, final_line(self.flags, task.metrics, summary, seconds))
        say(f"added to {path}")


def _has_outcome(one_round: Round, outcomes: Mapping[str, Any]) -> bool:
    for trainings in one_round.trainings.values():
        if any(training.key in outcomes for training in trainings):
            return True
    return False


class _StoredTrainings:
    """The trainings of a run that are in the store: their outcomes by training key, and how many are missing."""

    def __init__(self, jobs: Mapping[str, Any], responses: Mapping[str, Any]) -> None:
        self.planned = len(jobs)
        self.missing = len(jobs) - len(responses)
        self.outcomes = {}
        self.seconds = 0.0
        for key, response in responses.items():
            self.outcomes[jobs[key].request.key] = response.answer.outcome
            self.seconds += response.seconds or 0.0

    @classmethod
    def of(cls, plan: Any, record: Any, store: Any) -> _StoredTrainings:
        """Look up all trainings of the run, including those of teachers."""
        from lmassay.running.runner import Worker

        worker = Worker(plan, store, record.id)
        requests = {}
        for example in plan.task.examples():
            for position, request in enumerate(plan.task.requests(example)):
                requests[worker.key(request, example, position)] = request
        jobs = worker.training_jobs(requests)
        usable = {key: response for key, response in store.cached(jobs).items() if response.usable}
        return cls(jobs, usable)
