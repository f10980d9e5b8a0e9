"""What refining-tse's table and plots show: result folders read back, the original's own as well as lmassay's."""

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
from lmassay.reporting.formats import latex
from lmassay.storage.yamlfile import read_mapping

# Folder → title, in the order of the paper's table.
TEMPLATES = {
    "ML_simple_agrmt": "Simple",
    "ML_sent_comp": "In a sentential complement",
    "ML_vp_coord": "VP coordination",
    "ML_prep": "Across prepositional phrase",
    "ML_subj": "Across subject relative clause",
    "ML_obj": "Across object relative clause",
    "ML_obj_rel_no_comp_across": "Across object relative (no that)",
    "ML_obj_rel_within": "In object relative clause",
    "ML_obj_rel_no_comp_within": "In object relative (no that)",
    "blimp": "BLiMP",
}
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
_SIDES = ("top-k", "bottom-k")


@dataclass(frozen=True, slots=True)
class Curve:
    """Means over contexts, along the cut-offs of one side."""

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
        """The score at the largest top cut-off."""
        _, score = max(zip(self.top.cutoffs, self.top.scores, strict=False), default=(0.0, np.nan))
        return None if np.isnan(score) else score


@dataclass(slots=True)
class Results:
    """All that was found, by model, templates and metric."""

    experiments: dict[tuple[str, str, Voting], ExperimentCurves] = field(default_factory=dict)
    tse: dict[tuple[str, str], float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def models(self) -> list[str]:
        return sorted({key[0] for key in [*self.experiments, *self.tse]})

    @property
    def templates(self) -> list[str]:
        """The ten of the paper that there are, in its order, then any others."""
        found = {key[1] for key in [*self.experiments, *self.tse]}
        return [name for name in TEMPLATES if name in found] + sorted(found - TEMPLATES.keys())

    def score(self, model: str, templates: str, voting: Voting) -> float | None:
        found = self.experiments.get((model, templates, voting))
        return None if found is None else found.headline


def model_title(model: str) -> str:
    return _MODELS.get(model, model)


def template_title(templates: str) -> str:
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
        """What it tells: EW or MW, TSE."""
        verbs = [] if self.experiment is None else [self.experiment[0].upper()]
        return verbs if self.tse is None else [*verbs, "TSE"]


def read_results(folder: Path, compat: Compat | None = None) -> Results:
    """Every run below a folder; of several of the same kind, the newest.

    Numbers as released are never mixed with others: ``compat`` says which of them to take; without it, those as
    released count for a model that has no others.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; give the one that holds <model>/<templates>/<metric>/<run>")
    results = Results()
    runs = _of_one_compat(list(_runs(folder.resolve(), results.warnings)), compat, results.warnings)
    _add_newest(results, runs)
    if not results.models:
        error = DataError(
            f"{folder} holds no results; they lie in <model>/<templates>/<metric>/<run>/metrics, as "
            "`lmassay tse run` writes them"
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


def _of_one_compat(runs: Sequence[_ResultFolder], wanted: Compat | None, warnings: list[str]) -> list[_ResultFolder]:
    """For each model, either runs as released or others."""
    kept = []
    for model in dict.fromkeys(run.model for run in runs):
        of_model = [run for run in runs if run.model == model]
        fixed = [run for run in of_model if run.compat == "none"]
        chosen: Compat = wanted or ("none" if fixed else "released")
        kept += [run for run in of_model if run.compat == chosen]
        left_out = [run for run in of_model if run.compat != chosen]
        if left_out:
            how = "not as released" if chosen == "released" else "as released (--compat released takes them)"
            warnings.append(f"{model}: runs left out, for they are {how}: {_listed(left_out)}")
        elif wanted is None and chosen == "released" and any(run.compat == "none" for run in runs):
            warnings.append(f"{model}: all runs are as released, their numbers are not to be compared with others")
    return kept


def _listed(runs: Sequence[_ResultFolder], most: int = 3) -> str:
    paths = [str(run.path) for run in runs]
    return ", ".join(paths[:most] + (["…"] if len(paths) > most else []))


def _add_newest(results: Results, runs: Sequence[_ResultFolder]) -> None:
    cells: dict[tuple[str, str, str], list[_ResultFolder]] = {}
    for run in sorted(runs, key=lambda run: (run.written, run.path)):
        for kind in run.kinds:
            cells.setdefault((run.model, run.templates, kind), []).append(run)
    for (model, templates, kind), found in sorted(cells.items()):
        newest = found[-1]
        if kind == "TSE":
            assert newest.tse is not None
            results.tse[model, templates] = newest.tse
        else:
            assert newest.experiment is not None
            voting, experiment = newest.experiment
            results.experiments[model, templates, voting] = experiment
        if len(found) > 1:
            what = f"{model}, {templates}, {kind}"
            results.warnings.append(f"{what}: {len(found)} runs of this kind; using {newest.path}")


def _read(run: Path) -> _ResultFolder:
    verbs, pairs = run / "metrics" / "main.txt", run / "metrics" / "ML.txt"
    experiment = None
    if verbs.is_file():
        voting = _voting(run)
        if voting is None:
            raise ValueError("neither its config.yaml nor its folder (mw, tse_ew) tells EW from MW")
        lines = _lines(verbs)
        experiment = voting, ExperimentCurves(*(_curve(run, lines, side) for side in _SIDES))
    score = _numbers(_lines(pairs).get("Overall model score", "")) if pairs.is_file() else []
    return _ResultFolder(run, *_provenance(run), experiment, score[0] if score else None)


def _provenance(run: Path) -> tuple[Compat, float]:
    """How a run was made, and when it was written; what lmassay did not write is the released program's."""
    file = run / RUN_FILE
    if not file.is_file():
        return "released", max(path.stat().st_mtime for path in (run / "metrics", *(run / "metrics").iterdir()))
    told = json.loads(file.read_text(encoding="utf-8"))
    try:
        return "released" if told["compat"] == "released" else "none", datetime.fromisoformat(told["time"]).timestamp()
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{RUN_FILE} does not tell compat and time") from None


def _voting(run: Path) -> Voting | None:
    try:
        data, _ = read_mapping(run / "config.yaml")
        told = data["metrics"]["main"]["use_equal_verb_voting"]
        return "ew" if told else "mw"
    except (ConfigError, KeyError, TypeError):
        name = run.parent.name.lower()
        return "ew" if "ew" in name else "mw" if "mw" in name else None


def _curve(run: Path, lines: Mapping[str, str], side: str) -> Curve:
    cutoffs, scores, invalid = (
        _numbers(lines.get(f"{name} ({side})", "")) for name in ("Cutoffs", "Overall scores", "% examples invalid")
    )
    file = run / "npzs" / f"Prob counted ({side}).npz"
    if not file.is_file():
        return Curve(cutoffs, scores, (), invalid)
    with np.load(file) as arrays:
        counted = arrays["arr_0"]
    return Curve(cutoffs, scores, nanmeans(counted), invalid)


def _lines(file: Path) -> dict[str, str]:
    """``name: value``; a name that stands there twice has its last value."""
    parts = (line.partition(": ") for line in file.read_text(encoding="utf-8").splitlines())
    return {name: value for name, colon, value in parts if colon}


def _numbers(text: str) -> list[float]:
    """Numbers between commas; nothing where the original had no score to print."""
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
    """The ten rows of the paper, and below them whatever else was evaluated."""
    models = results.models
    titles = [latex.spanning(latex.escape_signs(model_title(model)), len(_METRICS)) for model in models]
    heads = [
        latex.row_text(["", *titles]),
        latex.rules([1, *[len(_METRICS)] * len(models)]),
        latex.row_text(["Templates", *_METRICS * len(models)]),
    ]
    rows = [_scores(results, name) for name in TEMPLATES]
    others = [name for name in results.templates if name not in TEMPLATES]
    if others:
        rows += [latex.MIDRULE, *(_scores(results, name) for name in others)]
    return f"{_HEAD}\n{latex.booktabs_table('l' + ' ccc' * len(models), heads, rows)}\n"


def _scores(results: Results, templates: str) -> str:
    cells: list[str] = []
    for model in results.models:
        mw, ew = (results.score(model, templates, voting) for voting in ("mw", "ew"))
        cells += [_MISSING if mw is None else rf"\textit{{{mw:.2f}}}"]
        cells += _larger_in_bold(ew, results.tse.get((model, templates)))
    return latex.row_text([latex.escape_signs(template_title(templates)), *cells])


def _larger_in_bold(ew: float | None, tse: float | None) -> list[str]:
    if ew is None or tse is None:
        return [_MISSING if value is None else f"{value:.2f}" for value in (ew, tse)]
    larger = f"{max(ew, tse):.2f}"
    return [rf"\textbf{{{value:.2f}}}" if f"{value:.2f}" == larger else f"{value:.2f}" for value in (ew, tse)]
