"""The Python API: the same runs, results folders and comparisons as on the command line."""

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
from lmassay.statistics.comparison import Comparison, compare_runs
from lmassay.statistics.sides import Side, load_side, with_equal_samples
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Result, RunRecord

if TYPE_CHECKING:
    import pandas
    import polars


@dataclass(frozen=True, slots=True)
class Run:
    """A run in a results folder."""

    folder: Path
    """The results folder."""
    record: RunRecord
    """Everything that is stored about the run, except for its examples."""

    @property
    def id(self) -> str:
        """The run's id, which commands such as ``lmassay show`` accept."""
        return self.record.id

    @property
    def signature(self) -> str:
        """One line with everything that the numbers depend on."""
        return self.record.signature

    @property
    def results(self) -> list[Result]:
        """All results: one per metric and group."""
        return list(self.record.results)

    def __getitem__(self, metric: str) -> Result:
        """Return the overall result of a metric: ``run["success"].value``."""
        result = self.record.result(metric, OVERALL)
        if result is None:
            metrics = dict.fromkeys(result.metric for result in self.results)
            raise KeyError(f"{metric}; this run has {', '.join(metrics)}")
        return result

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every example with its state, scores and texts."""
        with Store(self.folder) as store:
            for row in store.rows(self.id):
                yield row_as_dict(row)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with one row per example.

        Its columns are ``id``, ``state``, ``score.*``, ``group.*``, ``input.*``, reference, answer and error.
        """
        data: pandas.DataFrame = frame(self._columns(), "pandas")
        return data

    def to_polars(self) -> polars.DataFrame:
        """Return a polars data frame with one row per example; see :meth:`to_pandas`."""
        data: polars.DataFrame = frame(self._columns(), "polars")
        return data

    def _columns(self) -> dict[str, list[Any]]:
        with Store(self.folder) as store:
            return example_columns(store, self.id)


def evaluate(config: str | Path | Mapping[str, Any], results: str | Path = "results") -> list[Run]:
    """Run a configuration and return its runs.

    The configuration is a YAML file or a mapping with the same keys. Lists of values start one run per combination.
    Answers that are already in the results folder are not requested again.
    """
    if isinstance(config, Mapping):
        configs = expand(dict(config), Path.cwd(), default_name="python")
    else:
        configs = load_runs(Path(config))
    # All runs are checked before the first one starts.
    plans = with_sweep_labels([runner.plan(run_config) for run_config in configs])
    folder = Path(results)
    sweep = runner.new_sweep()
    with Store(folder, create=True) as store:
        return [Run(folder, runner.start(plan, store, sweep)) for plan in plans]


def load_run(run: str, results: str | Path = "results") -> Run:
    """Return a stored run, given its id, the beginning or end of its id, or ``latest``."""
    with Store(Path(results)) as store:
        return Run(Path(results), store.run(run))


def all_runs(results: str | Path = "results") -> list[Run]:
    """Return all runs of a results folder, oldest first."""
    with Store(Path(results)) as store:
        return [Run(Path(results), record) for record in store.runs()]


def results_frame(runs: Iterable[Run], library: Library = "pandas") -> Any:
    """Return the results of several runs as one data frame: one row per run, metric and group, with intervals."""
    return frame(result_columns(run.record for run in runs), library)


def compare(base: Run, *others: Run) -> list[Comparison]:
    """Compare each other run with ``base`` on the examples that both have, by every headline metric."""
    sides = with_equal_samples([_side(run) for run in (base, *others)])
    return compare_runs(sides[0], sides[1:])


def _side(run: Run) -> Side:
    with Store(run.folder) as store:
        return load_side(store, run.record)
