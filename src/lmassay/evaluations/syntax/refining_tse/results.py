"""Read result folders back, those of refining-tse as well as ours, and make the paper's LaTeX table of them."""

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


@dataclass(frozen=True, slots=True)
class Curve:
    """Means over contexts along the cut-offs of one side."""

    cutoffs: Sequence[float] = ()
    scores: Sequence[float] = ()
    counted: Sequence[float] = ()
    invalid: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class ExperimentCurves:
    """EW or MW of a model on a set of templates."""

    top: Curve
    bottom: Curve

    @property
    def headline(self) -> float | None:
        """The score at the largest top cut-off, or None."""
        # A folder of the original may lack the last values of a curve.
        _, score = max(zip(self.top.cutoffs, self.top.scores, strict=False), default=(0.0, np.nan))
        return None if np.isnan(score) else score


@dataclass(slots=True)
class Results:
    """All results below a folder, by model, templates and metric."""

    experiments: dict[tuple[str, str, Voting], ExperimentCurves] = field(default_factory=dict)
    tse: dict[tuple[str, str], float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def models(self) -> list[str]:
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
    """One result folder."""

    path: Path
    compat: Compat
    written: float
    """Seconds since 1970."""
    experiment: tuple[Voting, ExperimentCurves] | None
    tse: float | None

    @property
    def model(self) -> str:
        return self.path.parents[2].name

    @property
    def templates(self) -> str:
        return self.path.parents[1].name

    @property
    def kinds(self) -> list[str]:
        """The metrics that it has: EW or MW, and TSE."""
        kinds = []
        if self.experiment is not None:
            voting, _ = self.experiment
            kinds.append(voting.upper())
        if self.tse is not None:
            kinds.append("TSE")
        return kinds


def read_results(folder: Path, compat: Compat | None = None) -> Results:
    """Read every run below a folder; of several runs of the same kind, the newest.

    Numbers of the released program are never mixed with others: ``compat`` says which of them to take. Without it,
    those of the released program are used only for models that have no others.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; give the one that contains <model>/<templates>/<metric>/<run>")
    results = Results()
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
    for metrics in sorted(folder.rglob("metrics")):
        if metrics.parent.name.startswith(".") or not metrics.is_dir():
            continue
        try:
            run = _read(metrics.parent)
        except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
            warnings.append(f"{metrics.parent} is left out: {error}")
            continue
        if run.kinds:
            yield run
        else:
            warnings.append(f"{run.path} is left out: it has no score of EW, MW or TSE")


def _with_one_compat(runs: Sequence[_ResultFolder], wanted: Compat | None, warnings: list[str]) -> list[_ResultFolder]:
    """Take, for each model, either runs of the released program or others, and warn about those left out."""
    runs_by_model: dict[str, list[_ResultFolder]] = {}
    for run in runs:
        runs_by_model.setdefault(run.model, []).append(run)
    any_corrected = any(run.compat == "none" for run in runs)
    taken = []
    for model, of_model in runs_by_model.items():
        has_corrected = any(run.compat == "none" for run in of_model)
        chosen: Compat = wanted or ("none" if has_corrected else "released")
        taken += [run for run in of_model if run.compat == chosen]
        left_out = [run for run in of_model if run.compat != chosen]
        if left_out:
            reason = "not as released" if chosen == "released" else "as released (--compat released takes them)"
            warnings.append(f"{model}: runs are left out because they are {reason}: {_first_paths(left_out)}")
        elif wanted is None and chosen == "released" and any_corrected:
            warnings.append(f"{model}: all runs are as released; do not compare their numbers with those of others")
    return taken


def _first_paths(runs: Sequence[_ResultFolder], limit: int = 3) -> str:
    paths = [str(run.path) for run in runs[:limit]]
    if len(runs) > limit:
        paths.append("…")
    return ", ".join(paths)


def _add_newest(results: Results, runs: Sequence[_ResultFolder]) -> None:
    runs_by_cell: dict[tuple[str, str, str], list[_ResultFolder]] = {}
    for run in sorted(runs, key=lambda run: (run.written, run.path)):
        for kind in run.kinds:
            runs_by_cell.setdefault((run.model, run.templates, kind), []).append(run)
    for (model, templates, kind), of_cell in sorted(runs_by_cell.items()):
        newest = of_cell[-1]
        if kind == "TSE":
            assert newest.tse is not None
            results.tse[model, templates] = newest.tse
        else:
            assert newest.experiment is not None
            voting, experiment = newest.experiment
            results.experiments[model, templates, voting] = experiment
        if len(of_cell) > 1:
            cell = f"{model}, {templates}, {kind}"
            results.warnings.append(f"{cell}: {len(of_cell)} runs of this kind; using {newest.path}")


def _read(run: Path) -> _ResultFolder:
    """Read a result folder, or raise a ValueError that says why it cannot be used."""
    verbs, pairs = run / "metrics" / "main.txt", run / "metrics" / "ML.txt"
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
        tse = scores[0] if scores else None
    compat, written = _provenance(run)
    return _ResultFolder(run, compat, written, experiment, tse)


def _provenance(run: Path) -> tuple[Compat, float]:
    """Return how a run was made, and when it was written; a folder that lmassay did not write is refining-tse's."""
    file = run / RUN_FILE
    if not file.is_file():
        metrics = run / "metrics"
        return "released", max(path.stat().st_mtime for path in (metrics, *metrics.iterdir()))
    facts = json.loads(file.read_text(encoding="utf-8"))
    try:
        compat: Compat = "released" if facts["compat"] == "released" else "none"
        return compat, datetime.fromisoformat(facts["time"]).timestamp()
    except (KeyError, TypeError, ValueError):
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
        return "mw" if "mw" in name else None
    return "ew" if is_equal else "mw"


def _curve(run: Path, values: Mapping[str, str], side: str) -> Curve:
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
    """Return the lines ``name: value`` of a file; of a name that is there twice, the last value."""
    values = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        name, colon, value = line.partition(": ")
        if colon:
            values[name] = value
    return values


def _numbers(text: str) -> list[float]:
    """Return the numbers between commas; none where the original had no score to print."""
    if not text.strip() or text.strip() == "INVALID_SCORE_VALUE":
        return []
    return [float(number) for number in text.split(",")]


# --- the paper's table in LaTeX: MW, EW and TSE of every model on every set of templates ------------------------------

_HEAD = """\
% Needs \\usepackage{booktabs}. MW in italics; of EW and TSE the larger one is bold, both where two decimals cannot
% tell them apart."""
_MISSING = "-"
_METRICS = ("MW", "EW", "TSE")


def latex_table(results: Results) -> str:
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
    return f"{_HEAD}\n{latex.booktabs_table('l' + ' ccc' * len(models), header_rows, rows)}\n"


def _table_row(results: Results, templates: str) -> str:
    cells: list[str] = []
    for model in results.models:
        mw = results.score(model, templates, "mw")
        ew = results.score(model, templates, "ew")
        cells.append(_MISSING if mw is None else rf"\textit{{{mw:.2f}}}")
        cells += _larger_in_bold(ew, results.tse.get((model, templates)))
    return latex.row_text([latex.escape_signs(template_title(templates)), *cells])


def _larger_in_bold(ew: float | None, tse: float | None) -> list[str]:
    """Return both numbers with two decimals, the larger one bold; both are if they print the same."""
    texts = [_MISSING if value is None else f"{value:.2f}" for value in (ew, tse)]
    if ew is None or tse is None:
        return texts
    larger = f"{max(ew, tse):.2f}"
    return [rf"\textbf{{{text}}}" if text == larger else text for text in texts]
