"""What refining-tse's table and plots show: result folders read back, the original's own as well as lmassay's."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lmassay.errors import ConfigError, DataError
from lmassay.syntax.tse_config import Voting
from lmassay.yamlfile import read_mapping

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
class Experiment:
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

    experiments: dict[tuple[str, str, Voting], Experiment] = field(default_factory=dict)
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


def read_results(folder: Path) -> Results:
    """Every run below a folder; of several of the same kind, the last one by name."""
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; give the one that holds <model>/<templates>/<metric>/<run>")
    results = Results()
    for metrics in sorted(folder.resolve().rglob("metrics")):
        run = metrics.parent
        if run.name.startswith(".") or not metrics.is_dir():
            continue
        try:
            _add(results, run)
        except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
            results.warnings.append(f"{run} is left out: {error}")
    if not results.models:
        raise DataError(
            f"{folder} holds no results; they lie in <model>/<templates>/<metric>/<run>/metrics, as "
            "`lmassay tse run` writes them"
        )
    return results


def _add(results: Results, run: Path) -> None:
    model, templates = run.parents[2].name, run.parents[1].name
    verbs, pairs = run / "metrics" / "main.txt", run / "metrics" / "ML.txt"
    if verbs.is_file():
        voting = _voting(run)
        if voting is None:
            raise ValueError("neither its config.yaml nor its folder (mw, tse_ew) tells EW from MW")
        lines = _lines(verbs)
        results.experiments[model, templates, voting] = Experiment(*(_curve(run, lines, side) for side in _SIDES))
    if pairs.is_file():
        score = _numbers(_lines(pairs).get("Overall model score", ""))
        if score:
            results.tse[model, templates] = score[0]


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
    return Curve(cutoffs, scores, [float(np.nanmean(column)) for column in counted.T], invalid)


def _lines(file: Path) -> dict[str, str]:
    """``name: value``; a name that stands there twice has its last value."""
    parts = (line.partition(": ") for line in file.read_text(encoding="utf-8").splitlines())
    return {name: value for name, colon, value in parts if colon}


def _numbers(text: str) -> list[float]:
    """Numbers between commas; nothing where the original had no score to print."""
    if not text.strip() or text.strip() == "INVALID_SCORE_VALUE":
        return []
    return [float(number) for number in text.split(",")]
