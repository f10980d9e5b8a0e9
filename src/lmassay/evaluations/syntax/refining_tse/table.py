"""The paper's table in LaTeX: MW, EW and TSE of every model on every set of templates."""

from __future__ import annotations

from lmassay.evaluations.syntax.refining_tse.results import TEMPLATES, Results, model_title, template_title
from lmassay.reporting.formats.latex_text import escape_signs

_HEAD = """\
% Needs \\usepackage{booktabs}. MW in italics; of EW and TSE the larger one is bold, both where two decimals cannot
% tell them apart."""
_MISSING = "-"
_METRICS = ("MW", "EW", "TSE")


def latex_table(results: Results) -> str:
    """The ten rows of the paper, and below them whatever else was evaluated."""
    models = results.models
    others = [name for name in results.templates if name not in TEMPLATES]
    lines = [
        _HEAD,
        rf"\begin{{tabular}}{{l{' ccc' * len(models)}}}",
        r"\toprule",
        _row("", *(rf"\multicolumn{{3}}{{c}}{{{escape_signs(model_title(model))}}}" for model in models)),
        " ".join(rf"\cmidrule(lr){{{first}-{first + 2}}}" for first in range(2, 2 + 3 * len(models), 3)),
        _row("Templates", *(_METRICS * len(models))),
        r"\midrule",
        *(_scores(results, name) for name in TEMPLATES),
    ]
    if others:
        lines += [r"\midrule", *(_scores(results, name) for name in others)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _scores(results: Results, templates: str) -> str:
    cells: list[str] = []
    for model in results.models:
        mw, ew = (results.score(model, templates, voting) for voting in ("mw", "ew"))
        cells += [_MISSING if mw is None else rf"\textit{{{mw:.2f}}}"]
        cells += _larger_in_bold(ew, results.tse.get((model, templates)))
    return _row(escape_signs(template_title(templates)), *cells)


def _larger_in_bold(ew: float | None, tse: float | None) -> list[str]:
    if ew is None or tse is None:
        return [_MISSING if value is None else f"{value:.2f}" for value in (ew, tse)]
    larger = f"{max(ew, tse):.2f}"
    return [rf"\textbf{{{value:.2f}}}" if f"{value:.2f}" == larger else f"{value:.2f}" for value in (ew, tse)]


def _row(*cells: str) -> str:
    return " & ".join(cells) + r" \\"
