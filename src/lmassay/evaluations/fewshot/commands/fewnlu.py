"""``lmassay fewnlu``"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from lmassay.cli.argparse_style import AddedOption, ListOptionsCommand
from lmassay.cli.console import print_error, say, without_controls
from lmassay.cli.options import ExecutorOptions, executor_options
from lmassay.errors import ConfigError, UserError
from lmassay.evaluations.fewshot.fewnlu.flags import BY_NAME, FLAGS, Flag, decisions

STORE = "lmassay"
"""The results folder inside the output folder, for ``lmassay show, report, resume … --results``."""
MARK = "fewnlu.json"
_OURS = re.compile(r"p\d+|g\d+|final|lmassay|writer_logs|result_test\.txt")
_TYPES: dict[str, Any] = {"text": str, "whole": int, "number": float}


class _FewNlu(ListOptionsCommand):
    """FewNLU's command line: lists behind one flag, flags cut short where that is plain, help in its groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {parameter.name: parameter.get_help_record(ctx) for parameter in self.get_params(ctx)}
        for group, flags in FLAGS.items():
            with formatter.section(group):
                formatter.write_dl([record for flag in flags if (record := records.pop(flag.name)) is not None])
        with formatter.section("Other"):
            formatter.write_dl([record for record in records.values() if record is not None])
        with formatter.section("Flags that FewNLU accepted in vain, or that broke it"):
            formatter.write_dl([(name, f"{state}: {text}") for name, state, text in decisions()])


def _option(flag: Flag, group: str) -> click.Option:
    option = AddedOption if group == "Beyond FewNLU" else click.Option
    required = group == "Required"
    if flag.kind == "switch":
        return option([f"--{flag.name}"], is_flag=True, help=flag.help)
    kind = click.Choice(flag.choices) if flag.choices else _TYPES[flag.kind]
    more: dict[str, Any] = {"multiple": True, "metavar": "N..."} if flag.several else {}
    shown = flag.default not in (None, "") and flag.state != "refused"
    default = {} if required else {"default": flag.default, "show_default": shown}
    return option([f"--{flag.name}"], type=kind, required=required, help=flag.help, **default, **more)


@click.command(
    cls=_FewNlu,
    params=[_option(flag, group) for group, flags in FLAGS.items() for flag in flags],
    epilog="Example: lmassay fewnlu --method pet --arch_method default --data_dir FewGLUE/RTE --model_type albert "
    "--model_name_or_path albert-base-v2 --dataset_name superglue --task_name rte --output_dir out/rte "
    "--few_shot_setting dev32_split --max_steps 250 --pattern_ids 0 1 --do_train --do_eval",
    short_help="FewNLU's own command line.",
)
@executor_options
@click.pass_context
def fewnlu(ctx: click.Context, /, execution: ExecutorOptions, **values: Any) -> int:
    """Train and test a few-shot method with FewNLU's flags, writing its files.

    Trainings are kept in OUTPUT_DIR/lmassay as they are done: the same command goes on where it was broken off, and
    `lmassay show`, `report` and `protocol` read them with --results OUTPUT_DIR/lmassay.
    """
    from lmassay.evaluations.fewshot.fewnlu.config import translate

    source = click.core.ParameterSource.COMMANDLINE
    given = frozenset(name for name in BY_NAME if ctx.get_parameter_source(name) is source)
    wanted = translate(values, given, Path.cwd())
    for note in wanted.notes:
        say(f"note: {note}")
    return _Command(values, wanted, execution).run()


class _Command:
    """One call: what is asked for, and where."""

    def __init__(self, values: Mapping[str, Any], wanted: Any, execution: ExecutorOptions) -> None:
        self.values, self.wanted, self.execution = values, wanted, execution
        self.folder = Path(values["output_dir"]).expanduser().resolve()
        self.results = self.folder / STORE

    def run(self) -> int:
        from lmassay.cli.run import plugin_output_to_stderr
        from lmassay.running.runner import new_sweep, record_waiting_runs
        from lmassay.storage.store import Store

        with plugin_output_to_stderr():
            plan = self._plan()
        if self.values["do_train"]:
            self._make_room()
        elif not (self.results / "lmassay.sqlite").is_file():
            raise UserError(f"--do_eval: there are no trainings in {self.folder}; give --do_train, too")
        with Store(self.results, create=True) as store:
            found = [record for record in store.runs() if record.signature == plan.signature]
            if not found and not self.values["do_train"]:
                raise UserError(
                    f"--do_eval: the trainings in {self.folder} are of other flags or data; give those, or --do_train"
                )
            record = found[-1] if found else record_waiting_runs([plan], store, new_sweep())[0]
            with store.lock_sweep(record.sweep):
                return self._work(plan, record, store)

    def _plan(self) -> Any:
        from lmassay.evaluations.fewshot.fewnlu.config import in_flags
        from lmassay.running.config import expand
        from lmassay.running.runner import plan

        try:
            (config,) = expand(self.wanted.config, Path.cwd())
            planned = plan(config)
            # Splits and regime are made when the trainings are counted: better here than with the folder in use.
            _ = planned.size
            return planned
        except ConfigError as error:
            raise ConfigError(in_flags(str(error))) from error

    # --- the output folder --------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """FewNLU's rule: never into a folder with something in it, unless told to; what we left half done goes on."""
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"--output_dir: {self.folder} is a file; give a folder")
        if self.folder.is_dir() and any(self.folder.iterdir()):
            before = self._marked()
            if self.values["overwrite_output_dir"]:
                self._clear()
            elif before is None:
                raise UserError(
                    f"--output_dir: {self.folder} already exists and is not empty; give another, or "
                    "--overwrite_output_dir"
                )
            elif before["flags"] != self._flags():
                raise UserError(
                    f"--output_dir: {self.folder} holds the results of other flags{_differing(before, self._flags())}; "
                    "give another folder, or --overwrite_output_dir"
                )
            elif before["finished"]:
                raise UserError(
                    f"--output_dir: {self.folder} holds the results of this very command; --do_eval alone writes its "
                    "files again, --overwrite_output_dir begins anew"
                )
            else:
                say(f"going on with what was begun in {self.folder}")
        self._mark()

    def _clear(self) -> None:
        """Remove what FewNLU and we write, nothing else."""
        from lmassay.storage.store import STORE_FILE, Store

        if (self.results / STORE_FILE).is_file():
            with Store(self.results) as store:
                for sweep in {record.sweep for record in store.runs()}:
                    with store.lock_sweep(sweep):
                        pass
        for path in sorted(self.folder.iterdir()):
            if not _OURS.fullmatch(path.name):
                say(f"note: {path} is not FewNLU's and stays")
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _flags(self) -> dict[str, Any]:
        """The flags that make the results what they are."""
        aside = ("do_train", "do_eval", "overwrite_output_dir", "output_dir", "final_results")
        found: dict[str, Any] = json.loads(json.dumps({k: v for k, v in self.values.items() if k not in aside}))
        return found

    def _marked(self) -> dict[str, Any] | None:
        try:
            mark = json.loads((self.results / MARK).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return mark if isinstance(mark, dict) and {"flags", "finished"} <= mark.keys() else None

    def _mark(self, *, finished: bool = False, listed: bool = False) -> None:
        """Note whose folder it is; ``listed``: its line stands in the file of all configurations."""
        from lmassay.storage.files import atomic_write

        with atomic_write(self.results / MARK) as stream:
            json.dump({"flags": self._flags(), "finished": finished, "listed": listed}, stream, indent=1)

    # --- work ---------------------------------------------------------------------------------------------------------

    def _work(self, plan: Any, record: Any, store: Any) -> int:
        from lmassay.cli.run import EXIT_WITH_ERRORS, work_through
        from lmassay.running.sweep import SweepRun

        code = 0
        if self.values["do_train"] and record.status != "done":
            with self.execution.executor_for() as executor:
                code = work_through([SweepRun(plan, record)], store, executor)
            record = store.run(record.id)
        trained = _Trained.of(plan, record, store)
        if trained.missing and not self.values["do_train"]:
            raise UserError(
                f"--do_eval: {trained.missing} of {trained.wanted} trainings are not in {self.folder}; give --do_train"
            )
        summary = self._write(plan, trained)
        if record.status != "done" and self.values["do_train"]:
            print_error(
                f"{trained.missing} of {trained.wanted} trainings are missing; the same command tries them again"
            )
            for text, number in store.errors(record.id):
                say(f"  {number} × {text}")
            return max(code, EXIT_WITH_ERRORS)
        listed = (self._marked() or {}).get("listed", False)
        if self.values["do_eval"] and not listed:
            self._list(summary, trained)
        self._mark(finished=True, listed=listed or self.values["do_eval"])
        return code

    def _write(self, plan: Any, trained: _Trained) -> Any:
        from lmassay.evaluations.fewshot.fewnlu.files import FewNluWriter
        from lmassay.evaluations.fewshot.fewnlu.trainings import rounds

        values = self.values
        found = rounds(plan.task, values["arch_method"], self.wanted.patterns, values["repetitions"])
        summary = FewNluWriter(self.folder, self.wanted.task, trained.outcomes, values, values["do_eval"]).write_all(
            found
        )
        for line in summary.lines:
            click.echo(without_controls(line))
        return summary

    def _list(self, summary: Any, trained: _Trained) -> None:
        from lmassay.evaluations.fewshot.fewnlu.files import append_line, final_line, final_name

        task = self.wanted.task
        path = Path(self.values["final_results"]).expanduser() / final_name(self.values, task, summary.labelled)
        append_line(path, final_line(self.values, task.metrics, summary, trained.seconds))
        say(f"added to {path}")


class _Trained:
    """What the store has of a run's trainings, by what was asked."""

    def __init__(self, orders: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        self.wanted, self.missing = len(orders), len(orders) - len(found)
        self.outcomes = {orders[key].request.key: response.answer.outcome for key, response in found.items()}
        self.seconds = sum(response.seconds or 0.0 for response in found.values())

    @classmethod
    def of(cls, plan: Any, record: Any, store: Any) -> _Trained:
        from lmassay.running.runner import Worker

        worker = Worker(plan, store, record.id)
        asked = {
            worker.key(request, example, place): request
            for example in plan.task.examples()
            for place, request in enumerate(plan.task.requests(example))
        }
        orders = worker.training_jobs(asked)
        return cls(orders, {key: response for key, response in store.cached(orders).items() if response.usable})


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = [f"--{name}" for name in now if before["flags"].get(name) != now[name]]
    return f" ({', '.join(names[:5])}{' …' if len(names) > 5 else ''} differ)" if names else ""
