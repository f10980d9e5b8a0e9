"""Read result folders that refining-tse or lmassay wrote, and make the LaTeX table of the paper from them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.syntax.refining_tse.config import Compat, Voting
from lmassay.evaluations.syntax.refining_tse.folder import RUN_FILE, nanmeans
from lmassay.evaluations.syntax.refining_tse.published import TEMPLATE_SETS
from lmassay.reporting.formats import latex
from lmassay.storage.yamlfile import read_mapping

# Folder → title, in the order of the table of Newman et al. (2021).
TEMPLATES = {name: template_set.title for name, template_set in TEMPLATE_SETS.items()}
_MODELS = {
    "bert-base-cased": "BERT-base cased",
    "bert-base-uncased": "BERT-base uncased",
    "bert-large-cased": "BERT-large cased",
    "bert-large-uncased": "BERT-large uncased",
    "gpt2": "GPT2",
    "gpt2-xl": "GPT2-XL",
    "roberta-base": "RoBERTa-base",
    "roberta-large": "RoBERTa-large",
}
# The depth of a result folder: the names of <model>/<templates>/<metric>/<run> are read.
_FOLDER_LEVELS = 4


@dataclass(frozen=True, slots=True)
class Curve:
    """Means over contexts at each cut-off, for the most probable (top) or the least probable (bottom) verbs."""

    cutoffs: Sequence[float] = ()
    scores: Sequence[float] = ()
    counted: Sequence[float] = ()
    """The probability mass of the verbs that are counted."""
    invalid: Sequence[float] = ()
    """The share of contexts without a score. The original's file calls it a percentage, but it is between 0 and 1."""


@dataclass(frozen=True, slots=True)
class ExperimentCurves:
    """EW or MW of a model on a set of templates."""

    top: Curve
    bottom: Curve

    @property
    def headline(self) -> float | None:
        """The score at the largest top cut-off, or None."""
        # A folder of the original may lack the last values of a curve.
        points = list(zip(self.top.cutoffs, self.top.scores, strict=False))
        if not points:
            return None
        _, score = max(points)
        if np.isnan(score):
            return None
        return score


@dataclass(slots=True)
class FolderResults:
    """All results below a folder, by model, templates and metric."""

    experiments: dict[tuple[str, str, Voting], ExperimentCurves] = field(default_factory=dict)
    tse: dict[tuple[str, str], float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def models(self) -> list[str]:
        """The models with results, in alphabetical order."""
        return sorted({key[0] for key in [*self.experiments, *self.tse]})

    @property
    def templates(self) -> list[str]:
        """The sets of templates: those of the paper that have results, in its order, then any others."""
        present = {key[1] for key in [*self.experiments, *self.tse]}
        published = [name for name in TEMPLATES if name in present]
        return published + sorted(present - TEMPLATES.keys())

    def score(self, model: str, templates: str, voting: Voting) -> float | None:
        """Return the headline score of an experiment, or None."""
        experiment = self.experiments.get((model, templates, voting))
        return None if experiment is None else experiment.headline


def model_title(model: str) -> str:
    """Return the name of a model as the paper writes it."""
    return _MODELS.get(model, model)


def template_title(templates: str) -> str:
    """Return the name of a set of templates as the paper writes it."""
    return TEMPLATES.get(templates, templates)


@dataclass(frozen=True, slots=True)
class _ResultFolder:
    """The scores in the folder of one run, ``<model>/<templates>/<metric>/<run>``."""

    path: Path
    compat: Compat
    written: float
    """When it was written, in seconds since 1970."""
    experiment: tuple[Voting, ExperimentCurves] | None
    tse: float | None

    @property
    def model(self) -> str:
        return self.path.parents[2].name

    @property
    def templates(self) -> str:
        return self.path.parents[1].name

    @property
    def metrics(self) -> list[str]:
        """The metrics that have a score: EW or MW, and TSE."""
        metrics = []
        if self.experiment is not None:
            voting, _ = self.experiment
            metrics.append(voting.upper())
        if self.tse is not None:
            metrics.append("TSE")
        return metrics


def read_results(folder: Path, compat: Compat | None = None) -> FolderResults:
    """Read the runs below a folder. Of several runs with the same model, templates and metric, the newest counts.

    The released refining-tse has two bugs. lmassay repeats them with ``compat: released`` and corrects them with
    ``none``. For one model, numbers of the two are never mixed: ``compat`` selects one; by default, a model's corrected
    runs are used if it has any. If only some models have corrected runs, a warning names the others.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; give the one that contains <model>/<templates>/<metric>/<run>")
    results = FolderResults()
    runs = _with_one_compat(list(_runs(folder.resolve(), results.warnings)), compat, results.warnings)
    _add_newest(results, runs)
    if not results.models:
        error = DataError(
            f"{folder} has no results; they are in <model>/<templates>/<metric>/<run>/metrics, as `lmassay tse run` "
            "writes them"
        )
        for warning in results.warnings:
            error.add_note(f"  {warning}")
        raise error
    return results


def _runs(folder: Path, warnings: list[str]) -> Iterator[_ResultFolder]:
    """Yield the result folders below a folder that have scores, and warn about the others."""
    for metrics_folder in sorted(folder.rglob("metrics")):
        path = metrics_folder.parent
        if path.name.startswith(".") or not metrics_folder.is_dir():
            continue
        try:
            run = _read(path)
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            warnings.append(f"{path} is left out: {error}")
            continue
        if run.metrics:
            yield run
        else:
            warnings.append(f"{run.path} is left out: it has no score of EW, MW or TSE")


def _with_one_compat(runs: Sequence[_ResultFolder], wanted: Compat | None, warnings: list[str]) -> list[_ResultFolder]:
    """Select, for each model, either corrected runs or those with the original's bugs; warn about those left out."""
    runs_by_model: dict[str, list[_ResultFolder]] = {}
    for run in runs:
        runs_by_model.setdefault(run.model, []).append(run)
    any_corrected = any(run.compat == "none" for run in runs)
    selected: list[_ResultFolder] = []
    for model, model_runs in runs_by_model.items():
        corrected = [run for run in model_runs if run.compat == "none"]
        with_bugs = [run for run in model_runs if run.compat == "released"]
        chosen = wanted
        if chosen is None:
            chosen = "none" if corrected else "released"
        if chosen == "released":
            selected += with_bugs
            left_out = corrected
            reason = "do not have the numbers of the released program"
        else:
            selected += corrected
            left_out = with_bugs
            reason = "have the numbers of the released program (to use them: --compat released)"
        if left_out:
            warnings.append(f"{model}: runs are left out because they {reason}: {_first_paths(left_out)}")
        elif wanted is None and chosen == "released" and any_corrected:
            warnings.append(
                f"{model}: all runs have the numbers of the released program; do not compare them with other models"
            )
    return selected


def _first_paths(runs: Sequence[_ResultFolder], limit: int = 3) -> str:
    paths = [str(run.path) for run in runs[:limit]]
    if len(runs) > limit:
        paths.append("…")
    return ", ".join(paths)


def _add_newest(results: FolderResults, runs: Sequence[_ResultFolder]) -> None:
    """Add the newest run of each model, set of templates and metric to the results."""
    runs_by_cell: dict[tuple[str, str, str], list[_ResultFolder]] = {}
    for run in sorted(runs, key=lambda run: (run.written, run.path)):
        for metric in run.metrics:
            runs_by_cell.setdefault((run.model, run.templates, metric), []).append(run)
    for (model, templates, metric), cell_runs in sorted(runs_by_cell.items()):
        newest = cell_runs[-1]
        if metric == "TSE":
            assert newest.tse is not None
            results.tse[model, templates] = newest.tse
        else:
            assert newest.experiment is not None
            voting, experiment = newest.experiment
            results.experiments[model, templates, voting] = experiment
        if len(cell_runs) > 1:
            cell = f"{model}, {templates}, {metric}"
            results.warnings.append(f"{cell}: {len(cell_runs)} runs; using the newest, {newest.path}")


def _read(run: Path) -> _ResultFolder:
    """Read a result folder, or raise a ValueError that says why it cannot be used."""
    if len(run.parts) <= _FOLDER_LEVELS:
        raise ValueError("the folders above it must be <model>/<templates>/<metric>")
    verbs = run / "metrics" / "main.txt"
    pairs = run / "metrics" / "ML.txt"
    experiment = None
    if verbs.is_file():
        voting = _voting(run)
        if voting is None:
            raise ValueError("neither its config.yaml nor its folder (mw, tse_ew) says whether it is EW or MW")
        values = _named_values(verbs)
        experiment = voting, ExperimentCurves(_curve(run, values, "top-k"), _curve(run, values, "bottom-k"))
    tse = None
    if pairs.is_file():
        scores = _numbers(_named_values(pairs).get("Overall model score", ""))
        if scores:
            tse = scores[0]
    compat, written = _provenance(run)
    return _ResultFolder(run, compat, written, experiment, tse)


def _provenance(run: Path) -> tuple[Compat, float]:
    """Return the ``compat`` of a run, and when it was written; a folder without RUN_FILE is one of refining-tse."""
    file = run / RUN_FILE
    if not file.is_file():
        metrics = run / "metrics"
        # A program that writes into an existing folder changes the times of its files, not always that of the folder.
        times = [path.stat().st_mtime for path in (metrics, *metrics.iterdir())]
        return "released", max(times)
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        compat: Compat = "released" if facts["compat"] == "released" else "none"
        return compat, datetime.fromisoformat(facts["time"]).timestamp()
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError(f"{RUN_FILE} lacks compat or time") from None


def _voting(run: Path) -> Voting | None:
    """Return whether a folder has EW or MW: from its configuration, or else from the name of the folder above."""
    try:
        config, _ = read_mapping(run / "config.yaml")
        is_equal = config["metrics"]["main"]["use_equal_verb_voting"]
    except (ConfigError, KeyError, TypeError):
        name = run.parent.name.lower()
        if "ew" in name:
            return "ew"
        if "mw" in name:
            return "mw"
        return None
    if is_equal:
        return "ew"
    return "mw"


def _curve(run: Path, values: Mapping[str, str], side: str) -> Curve:
    """Return the curve of one side, ``top-k`` or ``bottom-k``."""
    cutoffs = _numbers(values.get(f"Cutoffs ({side})", ""))
    scores = _numbers(values.get(f"Overall scores ({side})", ""))
    invalid = _numbers(values.get(f"% examples invalid ({side})", ""))
    file = run / "npzs" / f"Prob counted ({side}).npz"
    if not file.is_file():
        return Curve(cutoffs, scores, (), invalid)
    with np.load(file) as arrays:
        counted = arrays["arr_0"]
    return Curve(cutoffs, scores, nanmeans(counted), invalid)


def _named_values(file: Path) -> dict[str, str]:
    """Return the lines ``name: value`` of a file; if a name appears twice, its last value counts."""
    values = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        name, colon, value = line.partition(": ")
        if colon:
            values[name] = value
    return values


def _numbers(text: str) -> list[float]:
    """Return the numbers between commas; an empty list where the original had no score to print."""
    if not text.strip() or text.strip() == "INVALID_SCORE_VALUE":
        return []
    return [float(number) for number in text.split(",")]


# --- the paper's table in LaTeX: MW, EW and TSE of every model on every set of templates ------------------------------

_HEAD = """\
% Needs \\usepackage{booktabs}. MW is in italics. The larger of EW and TSE is bold; both are if they are equal after
% rounding to two decimals."""
_MISSING = "-"
_METRICS = ("MW", "EW", "TSE")


def latex_table(results: FolderResults) -> str:
    """Return the table: the ten rows of the paper, and below them whatever else was evaluated."""
    models = results.models
    titles = [latex.spanning(latex.escape_signs(model_title(model)), len(_METRICS)) for model in models]
    header_rows = [
        latex.row_text(["", *titles]),
        latex.rules([1, *[len(_METRICS)] * len(models)]),
        latex.row_text(["Templates", *_METRICS * len(models)]),
    ]
    rows = [_table_row(results, name) for name in TEMPLATES]
    others = [name for name in results.templates if name not in TEMPLATES]
    if others:
        rows.append(latex.MIDRULE)
        rows += [_table_row(results, name) for name in others]
    columns = "l" + " ccc" * len(models)
    table = latex.booktabs_table(columns, header_rows, rows)
    return f"{_HEAD}\n{table}\n"


def _table_row(results: FolderResults, templates: str) -> str:
    cells: list[str] = []
    for model in results.models:
        mw = results.score(model, templates, "mw")
        ew = results.score(model, templates, "ew")
        cells.append(_MISSING if mw is None else rf"\textit{{{mw:.2f}}}")
        cells += _larger_in_bold(ew, results.tse.get((model, templates)))
    return latex.row_text([latex.escape_signs(template_title(templates)), *cells])


def _larger_in_bold(ew: float | None, tse: float | None) -> list[str]:
    """Return both numbers with two decimals and the larger one in bold, or both if they are equal after rounding."""
    cells = [_decimals_or_dash(ew), _decimals_or_dash(tse)]
    if ew is None or tse is None:
        return cells
    larger = _decimals_or_dash(max(ew, tse))
    for position, cell in enumerate(cells):
        if cell == larger:
            cells[position] = rf"\textbf{{{cell}}}"
    return cells


def _decimals_or_dash(value: float | None) -> str:
    return _MISSING if value is None else f"{value:.2f}"
