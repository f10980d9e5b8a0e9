"""Runs in a results folder: their results, examples, figures and reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from lmassay.api import display
from lmassay.api.figures import RunFigure, main_results, report_figures, results_figure, runs_figure
from lmassay.errors import UserError, did_you_mean
from lmassay.interchange.frames import Library, example_columns, frame, result_columns
from lmassay.reporting.numbers import interval_text, short_text, value_text
from lmassay.reporting.row_export import row_as_dict
from lmassay.reporting.run_labels import run_titles
from lmassay.storage.commands import default_results
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Response, Result, Row, RunRecord

if TYPE_CHECKING:
    import pandas
    import polars

# Notebooks and terminals show at most this many metrics, examples and runs.
_MAX_METRICS = 4
_MAX_EXAMPLES = 10
_MAX_RUNS = 100
_MAX_LISTED_IDS = 4
LATEST = "latest"


# --- results ----------------------------------------------------------------------------------------------------------


class Results(list[Result]):
    """The results of a run: one for each metric and group of examples.

    ``results["success"]`` is the overall result of a metric, with ``value``, ``low``, ``high`` (the interval) and
    ``n``. Iterating yields all results, including those of groups.
    """

    @overload
    def __getitem__(self, key: SupportsIndex) -> Result: ...

    @overload
    def __getitem__(self, key: slice) -> list[Result]: ...

    @overload
    def __getitem__(self, key: str) -> Result: ...

    def __getitem__(self, key: SupportsIndex | slice | str) -> Result | list[Result]:
        if not isinstance(key, str):
            return super().__getitem__(key)
        result = self.get(key)
        if result is None:
            metrics = ", ".join(self.metrics) or "no results"
            raise KeyError(f"{key}{did_you_mean(key, self.metrics)}; this run has {metrics}")
        return result

    def get(self, metric: str, group: str = OVERALL) -> Result | None:
        """Return the result of a metric, for all examples or for a group such as ``category=Age``; or None."""
        for result in self:
            if result.metric == metric and result.group == group:
                return result
        return None

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics that have an overall result."""
        return [result.metric for result in self if result.group == OVERALL]

    def __repr__(self) -> str:
        lines = [_result_text(result) for result in self if result.group == OVERALL]
        return "\n".join(lines) or "no results"

    def _repr_html_(self) -> str:
        return display.page(display.table(*_results_table(self)))


def _result_text(result: Result) -> str:
    if result.value is None:
        return f"{result.metric} {value_text(result)}"
    return f"{result.metric} {short_text(result)} (n = {result.n:,})"


def _results_table(results: Iterable[Result]) -> tuple[list[str], list[list[str]], str]:
    """Return the headers, the rows and the kinds of columns for :func:`display.table`.

    The table has a column for groups only if a result is about a group.
    """
    listed = list(results)
    has_groups = any(result.group != OVERALL for result in listed)
    rows = []
    for result in listed:
        names = [result.metric, result.group] if has_groups else [result.metric]
        rows.append([*names, value_text(result), interval_text(result), f"{result.n:,}"])
    if has_groups:
        return ["metric", "group", "value", "interval", "n"], rows, "ttnnn"
    return ["metric", "value", "interval", "n"], rows, "tnnn"


# --- examples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunExample:
    """An example of a run: what the model was asked, what it answered and how that was scored."""

    id: str
    state: str
    """scored, unscored or error."""
    inputs: Mapping[str, Any]
    """The fields of the example, such as its source text."""
    reference: Any
    """The expected answer; None if there is none."""
    groups: Mapping[str, str]
    """The groups that the example belongs to, such as its category."""
    prompts: tuple[str, ...]
    """The texts that the model was sent; empty if the answers come from files."""
    answers: tuple[Any, ...]
    """What the model answered: texts, or other objects, such as a :class:`lmassay.Continuation` with probabilities."""
    scores: Mapping[str, float]
    """Metric → score."""
    unscored: Mapping[str, str]
    """Metric → why the example has no score of it."""
    error: str | None
    """Why the model failed to answer; None if it did not."""
    details: Mapping[str, Any]
    """Further values that the task recorded, such as the choice that it recognised in an answer."""

    @property
    def prompt(self) -> str:
        """The first text that the model was sent; empty if there is none."""
        return self.prompts[0] if self.prompts else ""

    @property
    def answer(self) -> Any:
        """The first answer; None if there is none."""
        return self.answers[0] if self.answers else None


class RunExamples:
    """The examples of a run, to be iterated, indexed or sliced. They are read from the results folder when needed."""

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder
        self._run = run

    def __len__(self) -> int:
        with Store(self._folder, for_display=True) as store:
            return sum(store.count(self._run).values())

    def __iter__(self) -> Iterator[RunExample]:
        with Store(self._folder, for_display=True) as store:
            exchanges = store.requests_and_responses(self._run)
            for row, (_, requests_and_responses) in zip(store.rows(self._run), exchanges, strict=True):
                yield _example(row, requests_and_responses)

    @overload
    def __getitem__(self, key: int) -> RunExample: ...

    @overload
    def __getitem__(self, key: slice) -> list[RunExample]: ...

    @overload
    def __getitem__(self, key: str) -> RunExample: ...

    def __getitem__(self, key: int | slice | str) -> RunExample | list[RunExample]:
        """Return an example by its position or id, or several examples by a slice."""
        if isinstance(key, str):
            with Store(self._folder, for_display=True) as store:
                row = store.row_called(self._run, key)
                if row is None:
                    raise KeyError(f"this run has no example with the id '{key}'")
                return self._with_exchanges(store, row)
        positions = range(len(self))[key]
        if isinstance(positions, int):
            (example,) = self._at([positions])
            return example
        return self._at(positions)

    def _at(self, positions: Sequence[int]) -> list[RunExample]:
        """Return the examples at these positions, in this order."""
        # The store reads examples in ascending order only, but a slice may run backwards.
        in_order = sorted(positions)
        with Store(self._folder, for_display=True) as store:
            rows = store.selected_rows(self._run, in_order)
            by_position: dict[int, RunExample] = {}
            for position, row in zip(in_order, rows, strict=True):
                by_position[position] = self._with_exchanges(store, row)
        return [by_position[position] for position in positions]

    def _with_exchanges(self, store: Store, row: Row) -> RunExample:
        return _example(row, store.exchanges_of(self._run, row.example.id))

    def __repr__(self) -> str:
        return f"<{display.count(len(self), 'example')} of {self._run}>"

    def _repr_html_(self) -> str:
        examples = self[:_MAX_EXAMPLES]
        rows = []
        for example in examples:
            first_scores = list(example.scores.items())[:_MAX_METRICS]
            outcome = ", ".join(f"{name} {value:z.3g}" for name, value in first_scores)
            if not outcome:
                # Several metrics are often missing for the same reason, which is shown once.
                reason = example.error or "; ".join(dict.fromkeys(example.unscored.values()))
                outcome = f"{example.state}: {reason}"
            rows.append([example.id, example.prompt, _text(example.answer), outcome])
        table = display.table(["id", "prompt", "answer", "scores"], rows, "tttt")
        left_out = len(self) - len(examples)
        note = display.note(f"and {left_out:,} more") if left_out else display.NOTHING
        return display.page(table, note)


def _example(row: Row, exchanges: Sequence[tuple[Mapping[str, Any], Response]]) -> RunExample:
    """Return an example of a run, given its row and its requests with their responses."""
    prompts = tuple(_prompt(request) for request, _ in exchanges)
    answers = tuple(response.answer for _, response in exchanges)
    if not answers:
        # Outputs from files are not stored as responses, but as details: "out" and "adv_out" by the task robustness,
        # "raw" by bias, and "answer" by runs that were imported from other tools.
        details = row.score.details
        answers = tuple(details[name] for name in ("out", "adv_out", "raw", "answer") if name in details)
    return RunExample(
        id=row.example.id,
        state=row.state,
        inputs=row.example.inputs,
        reference=row.example.reference,
        groups=row.example.groups,
        prompts=prompts,
        answers=answers,
        scores=row.score.values,
        unscored=row.score.unscored,
        error=row.error,
        details=row.score.details,
    )


def _prompt(request: Mapping[str, Any]) -> str:
    """Return the text of a stored request; three underscores stand for a blank."""
    messages = request.get("messages") or ()
    left = request.get("left", "")
    right = request.get("right", "")
    if messages:
        text = "\n\n".join(content for _, content in messages)
    elif request.get("verb") == "slot":
        text = f"{left}___{right}"
    elif "text" in request:
        # A request for substitutions in "text". What the model reads before and after it, such as an instruction, is in
        # "left" and "right".
        text = f"{left}{request['text']}{right}"
    else:
        text = str(request.get("prompt") or request.get("context") or "")
    if request.get("continuation"):
        text += str(request["continuation"])
    return text


def _text(answer: Any) -> str:
    return "" if answer is None else str(answer)


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """A run in a results folder.

    In a notebook, a run is displayed as a table and a figure of its main results.
    """

    folder: Path
    """The results folder."""
    record: RunRecord
    """Everything that is stored about the run, except for its examples."""

    @property
    def id(self) -> str:
        """The run's id, which commands such as ``lmassay show`` accept."""
        return self.record.id

    @property
    def label(self) -> str:
        """A short name made of the run's options, which distinguishes the runs of a sweep."""
        return self.record.label

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.record.task

    @property
    def model(self) -> str:
        """The label of the model."""
        return self.record.model

    @property
    def status(self) -> str:
        """``done``, or for example ``incomplete`` (examples with errors), ``stopped`` (by the budget) or ``failed``.

        The reason, if the run is not done, is in ``record.note``.
        """
        return self.record.status

    @property
    def note(self) -> str:
        """The note that a user wrote on the run (``lmassay note``); empty if there is none."""
        return self.record.annotation.note

    @property
    def tags(self) -> list[str]:
        """The tags of the run (``lmassay tag``)."""
        return list(self.record.annotation.tags)

    @property
    def notes(self) -> list[str]:
        """Remarks of the task and the model about the run, such as possible problems with the data.

        The note that a user wrote is :attr:`note`.
        """
        return list(self.record.provenance.notes)

    @property
    def signature(self) -> str:
        """One line with everything that the numbers depend on."""
        return self.record.signature

    @property
    def results(self) -> Results:
        """All results: ``run.results["success"]`` is an overall result with value, interval and n."""
        return Results(self.record.results)

    @property
    def examples(self) -> RunExamples:
        """The examples with prompts, answers and scores."""
        return RunExamples(self.folder, self.id)

    def __getitem__(self, metric: str) -> Result:
        """Return the overall result of a metric: ``run["success"].value``."""
        return self.results[metric]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every example with its state, scores and texts as a dictionary."""
        with Store(self.folder, for_display=True) as store:
            for row in store.rows(self.id):
                yield row_as_dict(row)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with one row per example.

        Its columns are ``id``, ``state``, ``score.*``, ``group.*``, ``input.*``, ``detail.*`` (what else the task
        recorded, such as the output under attack), ``reference``, ``answer``, ``unscored`` and ``error``.
        """
        data: pandas.DataFrame = frame(self._columns(), "pandas")
        return data

    def to_polars(self) -> polars.DataFrame:
        """Return a polars data frame with one row per example; see :meth:`to_pandas`."""
        data: polars.DataFrame = frame(self._columns(), "polars")
        return data

    def plot(self, metric: str | None = None) -> RunFigure:
        """Return a figure of the main results with their intervals; if a metric is given, of that metric by group.

        >>> run.plot("accuracy_amb").save("accuracy.svg")  # doctest: +SKIP
        """
        return results_figure(self.record, metric)

    def figures(self) -> list[RunFigure]:
        """Return all figures of the report about this run."""
        return report_figures(self.folder, [self.record])

    def report(self, path: str | Path) -> Path:
        """Write a report; the ending of the file name determines the format: .html, .md, .tex or .csv."""
        return display.write_report(self.folder, [self.record], Path(path))

    def _columns(self) -> dict[str, list[Any]]:
        with Store(self.folder, for_display=True) as store:
            return example_columns(store, self.id)

    def __repr__(self) -> str:
        numbers = []
        for result in main_results(self.record)[:_MAX_METRICS]:
            numbers.append(_result_text(result))
        status = "" if self.status == "done" else f" {_status_text(self.record)}:"
        text = ", ".join(numbers) or "no results"
        return f"<Run {self.id} {self.task}: {self.record.title}:{status} {text}>"

    def _repr_html_(self) -> str:
        record = self.record
        parts = [display.heading(f"{record.task}: {record.title}")]
        if record.status != "done":
            parts.append(display.warning(_status_text(record)))
        results = main_results(record)
        if results:
            parts.append(display.table(*_results_table(results)))
        figure = results_figure(record, None)
        if not figure.is_empty:
            parts.append(figure.html())
        parts += [display.note(note) for note in self.notes]
        parts.append(display.note(record.id))
        return display.page(*parts)


def _status_text(record: RunRecord) -> str:
    """Return the status with its reason, which is ``record.note``. (``Run.note`` is what a user wrote.)"""
    return f"{record.status} ({record.note})" if record.note else record.status


class Runs(list[Run]):
    """A list of runs. Names also work as keys: ``runs["latest"]``, an id or its beginning or end, a label, or a model.

    In a notebook, runs are displayed as a table and a figure that compares them.
    """

    @overload
    def __getitem__(self, key: SupportsIndex) -> Run: ...

    @overload
    def __getitem__(self, key: slice) -> Runs: ...

    @overload
    def __getitem__(self, key: str) -> Run: ...

    def __getitem__(self, key: SupportsIndex | slice | str) -> Run | Runs:
        if isinstance(key, str):
            return self._named(key)
        if isinstance(key, slice):
            return Runs(super().__getitem__(key))
        return super().__getitem__(key)

    def _named(self, name: str) -> Run:
        """Return the run that a name stands for, or raise a KeyError with a suggestion."""
        if not self:
            raise KeyError(f"{name}; there are no runs")
        if name == LATEST:
            return self[-1]
        ids = [run for run in self if name and (run.id.startswith(name) or run.id.endswith(name))]
        labels = [run for run in self if name in (run.label, run.model, run.record.title)]
        exact = [run for run in self if run.id == name]
        # A label may happen to be the beginning of an id; then the label is meant.
        matches = exact or labels or ids
        if len(matches) == 1:
            return matches[0]
        if matches:
            listed = ", ".join(run.id for run in matches[:_MAX_LISTED_IDS])
            raise KeyError(f"{name}; {len(matches)} runs match: {listed}; write a whole id")
        names: list[str] = []
        for run in self:
            names += [run.id, run.label, run.model]
        raise KeyError(f"{name}{did_you_mean(name, names)}")

    def where(self, **fields: str) -> Runs:
        """Return the runs with these values: ``runs.where(task="bias", status="done")``.

        The keywords are ``id``, ``task``, ``model``, ``label``, ``status`` and ``name`` (that of the configuration).
        """
        allowed = ("id", "task", "model", "label", "status", "name")
        for field in fields:
            if field not in allowed:
                raise UserError(
                    f"runs have no '{field}'{did_you_mean(field, allowed)}; choose from {', '.join(allowed)}"
                )
        selected = Runs()
        for run in self:
            values = {field: getattr(run.record, field) for field in fields}
            if values == fields:
                selected.append(run)
        return selected

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with one row per run, metric and group, with intervals."""
        data: pandas.DataFrame = frame(result_columns(run.record for run in self), "pandas")
        return data

    def to_polars(self) -> polars.DataFrame:
        """Return a polars data frame with one row per run, metric and group; see :meth:`to_pandas`."""
        data: polars.DataFrame = frame(result_columns(run.record for run in self), "polars")
        return data

    def plot(self, metric: str | None = None) -> RunFigure:
        """Return a figure of one metric of all runs with intervals.

        By default, this is the first main metric of the first run that has results. A run without the metric is left
        out; if no run has it, this is a UserError.
        """
        return runs_figure([run.record for run in self], metric)

    def figures(self) -> list[RunFigure]:
        """Return all figures of the report about these runs."""
        return report_figures(self._folder(), [run.record for run in self])

    def report(self, path: str | Path) -> Path:
        """Write a report; the ending of the file name determines the format: .html, .md, .tex or .csv."""
        return display.write_report(self._folder(), [run.record for run in self], Path(path))

    def _folder(self) -> Path:
        """Return the results folder of these runs; raise a UserError if they are in several folders."""
        folders = {run.folder.resolve(): run.folder for run in self}
        if not folders:
            raise UserError("there are no runs to show")
        if len(folders) > 1:
            raise UserError("these runs are in several results folders; merge them first with lmassay merge")
        return next(iter(folders.values()))

    def __repr__(self) -> str:
        lines = [f"<{display.count(len(self), 'run')}>"]
        lines += [repr(run) for run in self[:_MAX_RUNS]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        if not self:
            return display.page(display.note("no runs"))
        if len(self) == 1:
            return self[0]._repr_html_()
        records = [run.record for run in self[:_MAX_RUNS]]
        metrics: dict[str, None] = {}
        for record in records:
            metrics |= dict.fromkeys(result.metric for result in main_results(record))
        columns_of_metrics = list(metrics)[:_MAX_METRICS]
        headers = ["run", "n", *columns_of_metrics]
        are_done = all(record.status == "done" for record in records)
        rows = []
        for record, title in zip(records, run_titles(records), strict=True):
            # The number of examples is that of the first metric that the run has.
            count = ""
            cells = []
            for metric in columns_of_metrics:
                result = record.result(metric)
                if result is None:
                    cells.append("")
                    continue
                count = count or f"{result.n:,}"
                cells.append(short_text(result))
            row = [title, count, *cells]
            if not are_done:
                row.append(_status_text(record))
            rows.append(row)
        kinds = f"tn{'n' * len(columns_of_metrics)}"
        if not are_done:
            headers.append("status")
            kinds += "t"
        parts = [display.table(headers, rows, kinds)]
        left_out = len(self) - len(records)
        if left_out:
            parts.append(display.note(f"and {left_out:,} more"))
        figure = runs_figure(records, None)
        if not figure.is_empty:
            parts.append(figure.html())
        return display.page(*parts)


# --- results folders --------------------------------------------------------------------------------------------------


def results_folder(results: str | Path | None) -> Path:
    """Return a results folder; by default that of the environment variable LMASSAY_RESULTS, or ``results``."""
    return default_results() if results is None else Path(results)


def load(results: str | Path | None = None) -> Runs:
    """Return the runs of a results folder, oldest first; ``lmassay.load()["latest"]`` is the last one.

    The default is the folder that the commands use: the one that the environment variable ``LMASSAY_RESULTS`` names, or
    ``results`` in the working folder.
    """
    folder = results_folder(results)
    with Store(folder, for_display=True) as store:
        return Runs(Run(folder, record) for record in store.runs())


def all_runs(results: str | Path | None = None) -> Runs:
    """Return all runs of a results folder, oldest first; the same as :func:`load`."""
    return load(results)


def load_run(run: str, results: str | Path | None = None) -> Run:
    """Return a stored run, given its id, the beginning or end of its id, or ``latest``."""
    folder = results_folder(results)
    with Store(folder, for_display=True) as store:
        return Run(folder, store.run(run))


def results_frame(runs: Iterable[Run], library: Library = "pandas") -> Any:
    """Return the results of several runs as one data frame: one row per run, metric and group, with intervals."""
    return frame(result_columns(run.record for run in runs), library)
