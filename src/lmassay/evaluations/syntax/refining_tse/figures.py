"""The paper's figures: scores, probability counted and contexts without a lemma, along the cut-offs."""

from __future__ import annotations

import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.errors import DataError, MissingExtra
from lmassay.evaluations.syntax.refining_tse.config import Voting
from lmassay.evaluations.syntax.refining_tse.results import TEMPLATES, Curve, Results, model_title, template_title

# Paul Tol's "muted" palette, which holds up under every kind of colour blindness; black for the set that is no
# template of Marvin & Linzen.
_COLOURS = (
    *("#332288", "#88CCEE", "#44AA99", "#DDCC77", "#999933"),
    *("#117733", "#CC6677", "#882255", "#AA4499", "#000000"),
)
# His "bright" one for templates of the user's own, with a marker that the ten do not have; seven colours and eight
# markers make 56 that can be told apart.
_OWN_COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB")
_OWN_MARKERS = ("^", "D", "v", "P", "*", "X", "<", ">")
_FEW = ("ML_simple_agrmt", "ML_obj", "ML_obj_rel_no_comp_across", "blimp")
_STYLE: dict[str, Any] = {"font.size": 10, "svg.hashsalt": "lmassay"}
# Families that hold the scripts which matplotlib's own font lacks, on Linux, Windows and macOS.
_WORLDWIDE = ("Noto ", "Nanum", "Source Han", "Malgun", "Microsoft", "MS ", "Yu ", "Apple", "Hiragino", "Arial Unicode")
_LINE = 60
_VOTINGS: tuple[Voting, Voting] = ("ew", "mw")
_GREY = "#444444"


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes: a model under a metric."""

    title: str
    model: str
    voting: Voting


Panels = Sequence[Panel | None]
"""Row by row; None leaves a hole."""


@dataclass(frozen=True, slots=True)
class Look:
    """How the curves of a set of templates are drawn, the same in all figures."""

    colour: str
    top: str = "o"
    bottom: str = "x"
    legend: str = "s"


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
    written = []
    with styled(results):
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


@contextmanager
def styled(results: Results) -> Iterator[None]:
    """Figures of these results are drawn in our style, with fonts that can show all names."""
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise MissingExtra("drawing figures", "plots") from error
    style = {**_STYLE, "font.family": families("".join([*results.models, *results.templates]))}
    with rc_context(style), warnings.catch_warnings():
        # What no font can show becomes a box; a warning for each sign would help nobody.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


def _figures(results: Results) -> Iterator[tuple[str, Panels, Shown]]:
    measured = {(model, voting) for model, _, voting in results.experiments}
    votings = [voting for voting in _VOTINGS if any(voting == other for _, other in measured)]
    # Where both metrics are there, each keeps its column, also beside a model that lacks the other.
    places = [
        Panel(f"{model_title(model)} ({voting.upper()})", model, voting) if (model, voting) in measured else None
        for model in results.models
        for voting in votings
        if {(model, other) for other in votings} & measured
    ]
    there = [panel for panel in places if panel is not None]
    if not there:
        return
    for panel in there:
        names = [n for n in results.templates if (panel.model, n, panel.voting) in results.experiments]
        few = [name for name in names if name in _FEW] or names
        yield f"{panel.model}-{panel.voting}", [panel], Shown(few, lambda curve: curve.scores, "Score")
    everything = results.templates
    yield "supp_top-bottom-scores", places, Shown(everything, lambda curve: curve.scores, "Score")
    # EW and MW count the same lemmas, so one of them shows it for both.
    one_each = list({p.model: Panel(model_title(p.model), p.model, p.voting) for p in reversed(there)}.values())[::-1]
    title = "Probability of the verbs that count"
    yield "supp_probcounted", one_each, Shown(everything, lambda curve: curve.counted, "Probability", title, False)
    title = "Contexts in which no lemma is within the cutoff"
    yield "supp_invalid-pcnt", one_each, Shown(everything, lambda curve: curve.invalid, "Share of contexts", title)


def _figure(results: Results, panels: Panels, shown: Shown) -> Any:
    """Panels in two columns, the cut-offs from the top along the upper edge, those from the bottom along the lower."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    layout = ConstrainedLayoutEngine(hspace=0.06, wspace=0.03)
    figure = Figure(figsize=(5.6 * columns, 3.6 * rows), layout=layout)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for place, axes in enumerate(grid.flat):
        panel = panels[place] if place < len(panels) else None
        if panel is None:
            axes.set_visible(False)
            continue
        low = _draw(axes, results, panel, shown)
        if not any(panels[place % columns : place : columns]):
            axes.set_xlabel("Top cutoff")
        if not any(panels[place + columns :: columns]):
            low.set_xlabel("Bottom cutoff")
        if not any(panels[place - place % columns : place]):
            axes.set_ylabel(shown.label)
            axes.tick_params(labelleft=True)
    top = 1.02 if shown.up_to_one else grid[0, 0].get_ylim()[1]
    grid[0, 0].set_ylim(-0.02 * top, top)
    if shown.title:
        figure.suptitle(shown.title, fontsize=13)
    _add_legend(figure, list(_legend(results, shown.templates)), 2 * columns)
    return figure


def _draw(axes: Any, results: Results, panel: Panel, shown: Shown) -> Any:
    """Draw one panel; gives its axes for the cut-offs from the bottom."""
    low = axes.twiny()
    for name in shown.templates:
        found = results.experiments.get((panel.model, name, panel.voting))
        if found is not None:
            look = _look(name, results)
            line = {"color": look.colour, "linewidth": 1.3, "markersize": 4.5}
            axes.plot(*_points(found.top, shown), marker=look.top, linestyle="solid", **line)
            low.plot(*_points(found.bottom, shown), marker=look.bottom, linestyle="dashed", fillstyle="none", **line)
    # A dollar sign in a name is no formula.
    axes.set_title(_wrapped(panel.title), fontsize=11, parse_math=False)
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


def _look(name: str, results: Results) -> Look:
    if name in TEMPLATES:
        return Look(_COLOURS[list(TEMPLATES).index(name)])
    place = [other for other in results.templates if other not in TEMPLATES].index(name)
    marker = _OWN_MARKERS[place % len(_OWN_MARKERS)]
    return Look(_OWN_COLOURS[place % len(_OWN_COLOURS)], marker, marker, marker)


def _add_legend(figure: Any, handles: Sequence[Any], most_columns: int) -> None:
    """Below all panels, in as many columns as fit; the figure grows by what it takes."""
    for columns in range(min(most_columns, len(handles)), 0, -1):
        legend = figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)
        size = legend.get_window_extent()
        if size.width <= figure.bbox.width or columns == 1:
            break
        legend.remove()
    figure.set_figwidth(max(figure.get_figwidth(), size.width / figure.dpi))
    figure.set_figheight(figure.get_figheight() + size.height / figure.dpi)


def _wrapped(text: str) -> str:
    """In lines that are no wider than a panel; signs of East Asia are twice as wide as others."""
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text) > len(text) // 4
    return textwrap.fill(text, _LINE // 2 if wide else _LINE)


def families(text: str) -> list[str]:
    """Fonts to draw a text with: the usual one, and behind it one that has what it lacks, if there is any."""
    from matplotlib import font_manager

    usual = font_manager.get_font(font_manager.findfont("serif"))
    lacking = {sign for sign in text if not usual.get_char_index(ord(sign))}
    found = ["serif"]
    installed = set(font_manager.get_font_names()) if lacking else set()
    for name in sorted(installed, key=lambda name: ("Noto Serif" not in name, "CJK" not in name, name)):
        if not lacking:
            break
        if not name.startswith(_WORLDWIDE):
            continue
        font = font_manager.get_font(font_manager.findfont(name))
        has = {sign for sign in lacking if font.get_char_index(ord(sign))}
        found += [name] if has else []
        lacking -= has
    return found


def _legend(results: Results, templates: Sequence[str]) -> Iterator[Any]:
    from matplotlib.lines import Line2D

    for name in templates:
        look = _look(name, results)
        label = _wrapped(template_title(name))
        yield Line2D([], [], color=look.colour, marker=look.legend, linestyle="none", label=label)
    yield Line2D([], [], color=_GREY, marker="o", markersize=4.5, linestyle="solid", label="Top cutoffs")
    yield Line2D([], [], color=_GREY, marker="x", markersize=4.5, linestyle="dashed", label="Bottom cutoffs")
