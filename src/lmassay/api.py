"""lmassay from Python: the same runs, store and comparisons as on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmassay.interchange.frames import Library, example_columns, frame, result_columns
from lmassay.reporting.row_export import row_as_dict
from lmassay.running import runner
from lmassay.running.config import expand, load_runs
from lmassay.running.labels import with_sweep_labels
from lmassay.statistics.comparison import Comparison, Side, compare_runs, load_side
from lmassay.storage.store import Store
from lmassay.types import Result, RunRecord

if TYPE_CHECKING:
    import pandas
    import polars


@dataclass(frozen=True, slots=True)
class Run:
    """A run in a results folder. Get one from ``evaluate`` or ``load_run``."""

    folder: Path
    """The results folder that the run is in."""
    record: RunRecord
    """Everything the results folder stores about the run: label, status, configuration, versions."""

    @property
    def id(self) -> str:
        """The id of the run, as ``lmassay ls`` lists it."""
        return self.record.id

    @property
    def signature(self) -> str:
        """One line that names everything the numbers depend on: data, scorers, prompts, model, versions."""
        return self.record.signature

    @property
    def results(self) -> list[Result]:
        """Every number of the run: one result per metric and group of examples."""
        return list(self.record.results)

    def __getitem__(self, metric: str) -> Result:
        """Return the result of a metric over all examples: ``run["success"].value``."""
        for result in self.results:
            if result.metric == metric and result.group == "overall":
                return result
        raise KeyError(f"{metric}; this run has {', '.join(dict.fromkeys(r.metric for r in self.results))}")

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one dictionary per example with its state, scores and texts, as ``lmassay export`` writes them."""
        with Store(self.folder) as store:
            yield from (row_as_dict(row) for row in store.rows(self.id))

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with one row per example.

        The columns are ``id``, ``state``, ``score.*``, ``group.*``, ``input.*``, reference, answer and error. Requires
        the extra ``tables``.
        """
        made: pandas.DataFrame = frame(self._columns(), "pandas")
        return made

    def to_polars(self) -> polars.DataFrame:
        """Return the same table as a polars data frame."""
        made: polars.DataFrame = frame(self._columns(), "polars")
        return made

    def _columns(self) -> dict[str, list[Any]]:
        with Store(self.folder) as store:
            return example_columns(store, self.id)


def evaluate(config: str | Path | Mapping[str, Any], results: str | Path = "results") -> list[Run]:
    """Run a configuration and return its runs.

    The configuration is the path of a YAML file or a dictionary with the same keys. If it contains lists where a single
    value is expected, there is one run for every combination. Everything is stored in the folder ``results``; responses
    that are already there are not requested again.
    """
    if isinstance(config, Mapping):
        runs = expand(dict(config), Path.cwd(), default_name="python")
    else:
        runs = load_runs(Path(config))
    planned = with_sweep_labels([runner.plan(run) for run in runs])
    folder, sweep = Path(results), runner.new_sweep()
    with Store(folder, create=True) as store:
        return [Run(folder, runner.start(plan, store, sweep)) for plan in planned]


def load_run(run: str, results: str | Path = "results") -> Run:
    """Load a run from a results folder by its id, a unique part of the id, or ``latest``."""
    with Store(Path(results)) as store:
        return Run(Path(results), store.run(run))


def all_runs(results: str | Path = "results") -> list[Run]:
    """Load all runs of a results folder, oldest first."""
    with Store(Path(results)) as store:
        return [Run(Path(results), record) for record in store.runs()]


def results_frame(runs: Iterable[Run], library: Library = "pandas") -> Any:
    """Return the results of several runs as one data frame with a row per run, metric and group.

    Each row has the value, its interval and the number of examples. ``library`` is ``"pandas"`` or ``"polars"``.
    """
    return frame(result_columns(run.record for run in runs), library)


def compare(base: Run, *others: Run) -> list[Comparison]:
    """Compare each of the other runs with ``base``, metric by metric, on the examples that both runs scored."""
    return compare_runs(_side(base), [_side(other) for other in others])


def _side(run: Run) -> Side:
    with Store(run.folder) as store:
        return load_side(store, run.record)
