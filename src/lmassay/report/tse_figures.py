"""The paper's figures: scores, probability counted and contexts without a lemma, along the cut-offs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lmassay.errors import DataError, MissingExtra
from lmassay.report.tse_results import TEMPLATES, Curve, Results, model_title, template_title
from lmassay.syntax.tse_config import Voting

Panel = tuple[str, str, Voting]
"""Title, model, metric."""
Values = Callable[[Curve], Sequence[float]]

# Paul Tol's "muted" palette, which holds up under every kind of colour blindness; black for the set that is no
# template of Marvin & Linzen.
_COLOURS = (
    "#332288",
    "#88CCEE",
    "#44AA99",
    "#117733",
    "#999933",
    "#DDCC77",
    "#CC6677",
    "#882255",
    "#AA4499",
    "#000000",
)
_FEW = ("ML_simple_agrmt", "ML_obj", "ML_obj_rel_no_comp_across", "blimp")
_STYLE = {"font.family": "serif", "font.size": 10, "svg.hashsalt": "lmassay"}
_VOTINGS: tuple[Voting, Voting] = ("ew", "mw")


def write_figures(results: Results, folder: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Draw all figures; gives the files in the order in which they were written."""
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise MissingExtra("drawing figures", "plots") from error
    written = []
    with rc_context(_STYLE):
        for name, figure in _figures(results):
            for kind in formats:
                file = folder / f"{name}.{kind}"
                try:
                    figure.savefig(file, dpi=200, bbox_inches="tight")
                except OSError as error:
                    raise DataError(f"cannot write {file}: {error.strerror or error}") from error
                written.append(file)
    return written


def _figures(results: Results) -> Iterator[tuple[str, Any]]:
    for model in results.models:
        for voting in _VOTINGS:
            there = [name for name in results.templates if (model, name, voting) in results.experiments]
            chosen = [name for name in there if name in _FEW] or there
            if chosen:
                panel = (f"{model_title(model)} ({voting.upper()})", model, voting)
                yield f"{model}-{voting}", _figure(results, [panel], chosen, _scores, "Score")
    both = [(f"{model_title(m)} ({v.upper()})", m, v) for m in results.models for v in _VOTINGS]
    yield "supp_top-bottom-scores", _figure(results, both, results.templates, _scores, "Score")
    # EW and MW count the same lemmas: one of them shows it.
    once = [(model_title(m), m, v) for m in results.models for v in _VOTINGS if _is_there(results, m, v)]
    first = list({model: (title, model, voting) for title, model, voting in reversed(once)}.values())[::-1]
    for name, values, label, title in (
        ("supp_probcounted", _counted, "Probability", "Probability of the verbs that count"),
        ("supp_invalid-pcnt", _invalid, "Share of contexts", "Contexts in which no lemma is within the cutoff"),
    ):
        yield name, _figure(results, first, results.templates, values, label, title)


def _scores(curve: Curve) -> Sequence[float]:
    return curve.scores


def _counted(curve: Curve) -> Sequence[float]:
    return curve.counted


def _invalid(curve: Curve) -> Sequence[float]:
    return curve.invalid


def _is_there(results: Results, model: str, voting: Voting) -> bool:
    return any((model, name, voting) in results.experiments for name in results.templates)


def _figure(
    results: Results, panels: Sequence[Panel], templates: Sequence[str], values: Values, label: str, title: str = ""
) -> Any:
    """Panels in two columns, the cut-offs from the top along the upper edge, those from the bottom along the lower."""
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.6 * columns, 3.6 * rows + 0.9), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for place, (axes, panel) in enumerate(zip(grid.flat, panels, strict=False)):
        edges = (place < columns, place >= len(panels) - columns)
        _draw(axes, results, panel, templates, values, edges)
        if place % columns == 0:
            axes.set_ylabel(label)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    if title:
        figure.suptitle(title, fontsize=13)
    figure.legend(handles=list(_legend(templates)), loc="outside lower center", ncols=columns * 2, frameon=False)
    return figure


def _draw(
    axes: Any, results: Results, panel: Panel, templates: Sequence[str], values: Values, edges: tuple[bool, bool]
) -> None:
    title, model, voting = panel
    low = axes.twiny()
    for name in templates:
        found = results.experiments.get((model, name, voting))
        if found is not None:
            line = {"color": _colour(name, templates), "linewidth": 1.3, "markersize": 4.5}
            axes.plot(*_points(found.top, values), marker="o", linestyle="solid", **line)
            low.plot(*_points(found.bottom, values), marker="x", linestyle="dashed", **line)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlim(0, 1.04)
    axes.xaxis.set_ticks_position("top")
    axes.xaxis.set_label_position("top")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    low.set_xscale("log")
    low.xaxis.set_ticks_position("bottom")
    low.xaxis.set_label_position("bottom")
    axes.set_title(title, fontsize=11)
    if edges[0]:
        axes.set_xlabel("Top cutoff")
    if edges[1]:
        low.set_xlabel("Bottom cutoff")


def _points(curve: Curve, values: Values) -> tuple[list[float], list[float]]:
    """In the order of the cut-offs, which a configuration may list in any."""
    pairs = sorted(zip(curve.cutoffs, values(curve), strict=False))
    return [x for x, _ in pairs], [y for _, y in pairs]


def _colour(name: str, templates: Sequence[str]) -> str:
    """A set of templates has the same colour in all figures."""
    order = [*TEMPLATES, *(other for other in templates if other not in TEMPLATES)]
    return _COLOURS[order.index(name) % len(_COLOURS)]


def _legend(templates: Sequence[str]) -> Iterator[Any]:
    from matplotlib.lines import Line2D

    for name in templates:
        yield Line2D([], [], color=_colour(name, templates), marker="s", linestyle="none", label=template_title(name))
    yield Line2D([], [], color="#444444", marker="o", markersize=4.5, linestyle="solid", label="Top cutoffs")
    yield Line2D([], [], color="#444444", marker="x", markersize=4.5, linestyle="dashed", label="Bottom cutoffs")
