"""The paper's figures: scores, probability counted and contexts without a lemma, along the cut-offs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.errors import DataError, MissingExtra
from lmassay.report.tse_results import TEMPLATES, Curve, Results, model_title, template_title
from lmassay.syntax.tse_config import Voting

# Paul Tol's "muted" palette, which holds up under every kind of colour blindness; black for the set that is no
# template of Marvin & Linzen.
_COLOURS = (
    *("#332288", "#88CCEE", "#44AA99", "#DDCC77", "#999933"),
    *("#117733", "#CC6677", "#882255", "#AA4499", "#000000"),
)
_FEW = ("ML_simple_agrmt", "ML_obj", "ML_obj_rel_no_comp_across", "blimp")
_STYLE = {"font.family": "serif", "font.size": 10, "svg.hashsalt": "lmassay"}
_VOTINGS: tuple[Voting, Voting] = ("ew", "mw")
_GREY = "#444444"


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes: a model under a metric."""

    title: str
    model: str
    voting: Voting


@dataclass(frozen=True, slots=True)
class Shown:
    """What all panels of a figure show."""

    templates: Sequence[str]
    values: Callable[[Curve], Sequence[float]]
    label: str
    title: str = ""
    up_to_one: bool = True


def write_figures(results: Results, folder: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Draw all figures; gives the files in the order in which they were written."""
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise MissingExtra("drawing figures", "plots") from error
    written = []
    with rc_context(_STYLE):
        for name, panels, shown in _figures(results):
            figure = _figure(results, panels, shown)
            for kind in formats:
                file = folder / f"{name}.{kind}"
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    figure.savefig(file, dpi=200)
                except OSError as error:
                    raise DataError(f"cannot write {file}: {error.strerror or error}") from error
                written.append(file)
    return written


def _figures(results: Results) -> Iterator[tuple[str, Sequence[Panel], Shown]]:
    there = [
        Panel(f"{model_title(model)} ({voting.upper()})", model, voting)
        for model in results.models
        for voting in _VOTINGS
        if any((model, name, voting) in results.experiments for name in results.templates)
    ]
    if not there:
        return
    for panel in there:
        names = [n for n in results.templates if (panel.model, n, panel.voting) in results.experiments]
        few = [name for name in names if name in _FEW] or names
        yield f"{panel.model}-{panel.voting}", [panel], Shown(few, lambda curve: curve.scores, "Score")
    everything = results.templates
    yield "supp_top-bottom-scores", there, Shown(everything, lambda curve: curve.scores, "Score")
    # EW and MW count the same lemmas, so one of them shows it for both.
    one_each = list({p.model: Panel(model_title(p.model), p.model, p.voting) for p in reversed(there)}.values())[::-1]
    title = "Probability of the verbs that count"
    yield "supp_probcounted", one_each, Shown(everything, lambda curve: curve.counted, "Probability", title, False)
    title = "Contexts in which no lemma is within the cutoff"
    yield "supp_invalid-pcnt", one_each, Shown(everything, lambda curve: curve.invalid, "Share of contexts", title)


def _figure(results: Results, panels: Sequence[Panel], shown: Shown) -> Any:
    """Panels in two columns, the cut-offs from the top along the upper edge, those from the bottom along the lower."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    layout = ConstrainedLayoutEngine(hspace=0.06, wspace=0.03)
    figure = Figure(figsize=(5.6 * columns, 3.6 * rows + 0.9), layout=layout)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for place, (axes, panel) in enumerate(zip(grid.flat, panels, strict=False)):
        low = _draw(axes, results, panel, shown)
        if place < columns:
            axes.set_xlabel("Top cutoff")
        if place >= len(panels) - columns:
            low.set_xlabel("Bottom cutoff")
        if place % columns == 0:
            axes.set_ylabel(shown.label)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    top = 1.02 if shown.up_to_one else grid[0, 0].get_ylim()[1]
    grid[0, 0].set_ylim(-0.02 * top, top)
    if shown.title:
        figure.suptitle(shown.title, fontsize=13)
    figure.legend(handles=list(_legend(shown.templates)), loc="outside lower center", ncols=2 * columns, frameon=False)
    return figure


def _draw(axes: Any, results: Results, panel: Panel, shown: Shown) -> Any:
    """Draw one panel; gives its axes for the cut-offs from the bottom."""
    low = axes.twiny()
    for name in shown.templates:
        found = results.experiments.get((panel.model, name, panel.voting))
        if found is not None:
            line = {"color": _colour(name, shown.templates), "linewidth": 1.3, "markersize": 4.5}
            axes.plot(*_points(found.top, shown), marker="o", linestyle="solid", **line)
            low.plot(*_points(found.bottom, shown), marker="x", linestyle="dashed", **line)
    axes.set_title(panel.title, fontsize=11)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_xlim(0, 1.04)
    axes.xaxis.set_ticks_position("top")
    axes.xaxis.set_label_position("top")
    low.set_xscale("log")
    # The same for all panels, also where most cut-offs have no score.
    low.set_xlim(0.5 * min((v for e in results.experiments.values() for v in e.bottom.cutoffs), default=1e-6), 1.2)
    low.xaxis.set_ticks_position("bottom")
    low.xaxis.set_label_position("bottom")
    return low


def _points(curve: Curve, shown: Shown) -> tuple[list[float], list[float]]:
    """In the order of the cut-offs, which a configuration may list in any."""
    pairs = sorted(zip(curve.cutoffs, shown.values(curve), strict=False))
    return [x for x, _ in pairs], [y for _, y in pairs]


def _colour(name: str, templates: Sequence[str]) -> str:
    """A set of templates has the same colour in all figures."""
    order = [*TEMPLATES, *(other for other in templates if other not in TEMPLATES)]
    return _COLOURS[order.index(name) % len(_COLOURS)]


def _legend(templates: Sequence[str]) -> Iterator[Any]:
    from matplotlib.lines import Line2D

    for name in templates:
        yield Line2D([], [], color=_colour(name, templates), marker="s", linestyle="none", label=template_title(name))
    yield Line2D([], [], color=_GREY, marker="o", markersize=4.5, linestyle="solid", label="Top cutoffs")
    yield Line2D([], [], color=_GREY, marker="x", markersize=4.5, linestyle="dashed", label="Bottom cutoffs")
