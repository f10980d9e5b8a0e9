"""The bias section: accuracy beside bias, by category, over prompts, default against debiased, and how it was read."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.evaluations.bias.report import answers, comparisons, figures
from lmassay.evaluations.bias.report.runs import BiasRun, PromptFamily, bias_metrics, families, prompts_name, read_all
from lmassay.evaluations.bias.report.tables import headline
from lmassay.reporting.blocks import Block, Heading, Note, Section
from lmassay.reporting.sections import results_section as results_as_they_are
from lmassay.storage.store import Store
from lmassay.types import RunRecord

_ACCURACY = (
    "In ambiguous contexts the right answer is that it cannot be known; in disambiguated ones the context says it. "
    "Accuracy is the share of right answers among those that could be read."
)
_MEANING = {
    "diff_bias_amb": (
        "Diff-bias in ambiguous contexts: share of stereotyped less share of counter-stereotyped answers. In "
        "disambiguated ones: accuracy where the stereotype holds less accuracy where it does not."
    ),
    "s_amb": (
        "s: twice the share of stereotyped answers among those that are not unknown, less one; in ambiguous contexts "
        "times the share of wrong answers, that is the share of stereotyped less that of counter-stereotyped ones."
    ),
}
_SIGN = (
    "Positive leans towards the stereotype, negative against it, zero means that both directions balance, not that no "
    "answer was stereotyped: read it beside the accuracy. It holds for these stereotypes, this language and these "
    "prompts; it is no measure of harm, nor proof of fairness elsewhere."
)


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    runs = [run for run in read_all(store, records) if run.result("ooc") is not None]
    if not runs:
        return results_as_they_are(store, records)
    blocks: list[Block] = []
    by_data: dict[str, list[BiasRun]] = {}
    for run in runs:
        by_data.setdefault(run.data, []).append(run)
    for data, members in by_data.items():
        blocks += [Heading(f"Data: {data.rpartition('.')[0] or data}")] if len(by_data) > 1 else []
        blocks += _of_data(store, families(members))
    # What is worth comparing was compared above.
    return Section(blocks, answers.examples(families(runs)), compared=())


def _of_data(store: Store, found: Sequence[PromptFamily]) -> list[Block]:
    (metric, _) = bias_metrics(found[0].runs)
    blocks: list[Block] = [Note(f"{_ACCURACY} {_MEANING[metric]} {_SIGN}"), headline(found), *_prompt_files(found)]
    blocks += figures.categories(found)
    blocks += figures.spread(found)
    blocks += comparisons.blocks(store, found)
    blocks += answers.parsing(found)
    blocks += answers.position(found)
    return blocks + answers.endings(store, found)


def _prompt_files(found: Sequence[PromptFamily]) -> list[Block]:
    """Which files are meant where they are called default and debiased."""
    runs = [family.first for family in found]
    files = {prompts_name(run, runs): run.prompt_file for run in runs}
    told = "; ".join(f"{title}: {file}" for title, file in files.items())
    return [Note(f"Prompt files with the beginning of their SHA-256: {told}.")] if len(files) > 1 else []
