"""Write docs/metrics.md from the ``Metric`` objects of the evaluations that come with lmassay.

Run ``python docs/generate_metrics.py``. With ``--check`` it only compares and exits with 1 if the page is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from lmassay.contracts import Evaluation
from lmassay.plugins.evaluations import OWN_PACKAGE, installed_evaluations
from lmassay.types import Metric

PAGE = Path(__file__).parent / "metrics.md"
_INTRO = """\
# Metrics

This page lists every [metric](concepts.md#metric) of the built-in [evaluations](concepts.md#evaluation). Use the name
in `--metric`, `--fail-if` and, in Python, `run["name"]`. A run reports the metrics that apply to its task, data and
options.

- **Better** says which values are better. With `–`, a value is neither good nor bad; it only describes the run.
- **Range** is the smallest and the largest possible value. `-∞` and `∞` mean that there is no limit.
- **Chance** is the expected value of random guessing, if it is known.
- **Not among the results of a run**: `s_out`, `s_adv`, `margin`, `correct_biased`, `correct_counter` and `test` are
  scores of single examples or splits. `lmassay compare --metric` and exports have them, `run["name"]` does not.
- **Only on the [card](card.md)**: `gain`.
- **Derived names**: `METRIC.std` is the standard deviation over examples or splits, `METRIC.p5` and `METRIC.p95` are
  percentiles, `dev_METRIC` is a metric on the dev set, `ew@top0.9` is a metric at a
  [cut-off](syntax.md#what-it-measures), and `invalid@top0.9` is the share of contexts without a verb there.

[Your own task](extending/task.md) declares its metrics in the same way. `docs/generate_metrics.py` generates this page
from the code.
"""
_DIRECTIONS = {"higher": "higher", "lower": "lower", "zero": "closer to 0"}
# The page that explains each evaluation.
_PAGES = {
    "robustness": "robustness.md",
    "syntax": "syntax.md",
    "bias": "bias.md",
    "fewshot": "fewshot.md",
    "lm_eval": "interchange.md",
}
# Metrics that differ only in the end of their name share one row of the table.
FAMILIES = {
    "coverage_": (
        "coverage_METRIC",
        "coverage",
        "The share of templates that have data for this metric. Reported only if some templates have none.",
    ),
    "letter_": ("letter_A … letter_Z", "answers with this letter", "How often the model chooses this letter."),
}


def page() -> str:
    """Return the text of the whole page."""
    parts = [_INTRO]
    for evaluation in shipped_evaluations():
        parts.append(_section(evaluation))
    return "\n".join(parts)


def shipped_evaluations() -> list[Evaluation]:
    """Return lmassay's own evaluations; other installed packages may offer more."""
    everything = installed_evaluations()
    return [evaluation for evaluation in everything.evaluations if everything.origins[evaluation.name] == OWN_PACKAGE]


def _section(evaluation: Evaluation) -> str:
    question = evaluation.question or "Results imported from lm-evaluation-harness"
    lines = [
        f"## {evaluation.name}",
        "",
        f"[{question}]({_PAGES[evaluation.name]})",
        "",
        "| name | title | better | range | chance | meaning |",
        "|---|---|---|---|---|---|",
        *_rows(evaluation.metrics),
        "",
    ]
    return "\n".join(lines)


def _rows(metrics: Sequence[Metric]) -> list[str]:
    rows: list[str] = []
    families_done: set[str] = set()
    for metric in metrics:
        prefix = next((prefix for prefix in FAMILIES if metric.name.startswith(prefix)), None)
        if prefix is None:
            direction = _DIRECTIONS[metric.better]
            rows.append(_row(metric.name, metric.display_title, direction, metric, metric.meaning))
        elif prefix not in families_done:
            families_done.add(prefix)
            name, title, meaning = FAMILIES[prefix]
            # Families describe a run; `Metric.better` has no value for that.
            rows.append(_row(name, title, "–", metric, meaning))
    return rows


def _row(name: str, title: str, direction: str, metric: Metric, meaning: str) -> str:
    chance = "" if metric.chance is None else f"{metric.chance:g}"
    cells = [f"`{name}`", title, direction, _range(metric), chance, meaning]
    return f"| {' | '.join(cells)} |"


def _range(metric: Metric) -> str:
    low, high = metric.bounds or (None, None)
    low_text = "-∞" if low is None else f"{low:g}"
    high_text = "∞" if high is None else f"{high:g}"
    return f"{low_text} to {high_text}"


def main() -> int:
    text = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write("docs/metrics.md is out of date; run: python docs/generate_metrics.py\n")
        return 1
    if sys.argv[1:]:
        sys.stderr.write("usage: python docs/generate_metrics.py [--check]\n")
        return 2
    PAGE.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
