"""lmassay from Python: the same runs, store and comparisons as on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmassay.interchange.frames import Library, example_columns, frame, result_columns
from lmassay.reporting.export import row_as_dict
from lmassay.running import runner
from lmassay.running.config import expand, load_runs
from lmassay.running.labels import labelled
from lmassay.statistics.comparison import Comparison, Side, compare_runs, load_side
from lmassay.storage.store import Store
from lmassay.types import Result, RunRecord

if TYPE_CHECKING:
    import pandas
    import polars


@dataclass(frozen=True, slots=True)
class Run:
    """A run in a results folder."""

    folder: Path
    record: RunRecord

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def signature(self) -> str:
        return self.record.signature

    @property
    def results(self) -> list[Result]:
        return list(self.record.results)

    def __getitem__(self, metric: str) -> Result:
        """The overall result of a metric: ``run["success"].value``."""
        for result in self.results:
            if result.metric == metric and result.group == "overall":
                return result
        raise KeyError(f"{metric}; this run has {', '.join(dict.fromkeys(r.metric for r in self.results))}")

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every example with its state, scores and texts."""
        with Store(self.folder) as store:
            yield from (row_as_dict(row) for row in store.rows(self.id))

    def to_pandas(self) -> pandas.DataFrame:
        """A row an example: ``id``, ``state``, ``score.*``, ``group.*``, ``input.*``, reference, answer, error."""
        made: pandas.DataFrame = frame(self._columns(), "pandas")
        return made

    def to_polars(self) -> polars.DataFrame:
        """The same as a polars data frame."""
        made: polars.DataFrame = frame(self._columns(), "polars")
        return made

    def _columns(self) -> dict[str, list[Any]]:
        with Store(self.folder) as store:
            return example_columns(store, self.id)


def evaluate(config: str | Path | Mapping[str, Any], results: str | Path = "results") -> list[Run]:
    """Run a configuration, given as a file or a mapping; one Run for every combination of its lists."""
    if isinstance(config, Mapping):
        runs = expand(dict(config), Path.cwd(), default_name="python")
    else:
        runs = load_runs(Path(config))
    planned = labelled([runner.plan(run) for run in runs])
    folder, sweep = Path(results), runner.new_sweep()
    with Store(folder, create=True) as store:
        return [Run(folder, runner.start(plan, store, sweep)) for plan in planned]


def load_run(run: str, results: str | Path = "results") -> Run:
    """A run by its id, part of it, or ``latest``."""
    with Store(Path(results)) as store:
        return Run(Path(results), store.run(run))


def all_runs(results: str | Path = "results") -> list[Run]:
    """All runs of a results folder, oldest first."""
    with Store(Path(results)) as store:
        return [Run(Path(results), record) for record in store.runs()]


def results_frame(runs: Iterable[Run], library: Library = "pandas") -> Any:
    """The results of several runs as one data frame: a row a metric and group, with interval and counts."""
    return frame(result_columns(run.record for run in runs), library)


def compare(base: Run, *others: Run) -> list[Comparison]:
    """Each other run against ``base``, on the examples both have."""
    return compare_runs(_side(base), [_side(other) for other in others])


def _side(run: Run) -> Side:
    with Store(run.folder) as store:
        return load_side(store, run.record)
