"""The bias section of a report: accuracy and bias, by category and by prompt; comparisons; how answers were read."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.report import answers, comparisons, figures
from lmassay.evaluations.bias.report.runs import (
    BiasRun,
    PromptFamily,
    bias_metrics,
    prompt_families,
    prompt_file_title,
    read_runs,
)
from lmassay.evaluations.bias.report.tables import headline
from lmassay.reporting.blocks import Block, Heading, Note, Section
from lmassay.reporting.sections import results_section
from lmassay.storage.store import Store
from lmassay.types import RunRecord

_ACCURACY_MEANING = (
    "In ambiguous contexts the right answer is that it cannot be known; in disambiguated contexts the text gives the "
    "answer. Accuracy is the share of right answers among those that could be read."
)
_BIAS_MEANING = {
    "diff_bias_amb": (
        "Diff-bias in ambiguous contexts is the share of stereotyped answers minus the share of counter-stereotyped "
        "ones. In disambiguated contexts it is the accuracy where the context confirms the stereotype minus the "
        "accuracy where it contradicts it."
    ),
    "s_amb": (
        "s is twice the share of stereotyped answers among those that are not unknown, minus one. In ambiguous "
        "contexts it is multiplied by the share of wrong answers, which makes it the share of stereotyped answers "
        "minus the share of counter-stereotyped ones."
    ),
}
_SIGN_MEANING = (
    "Positive values lean towards the stereotype, negative values against it. Zero means that both directions balance, "
    "not that no answer was stereotyped: read it next to the accuracy. The numbers hold for these stereotypes, this "
    "language and these prompts; they do not measure harm, nor do they prove fairness elsewhere."
)

_CONTROL_MEANING = (
    "Control questions are about people whom no stereotype concerns (MBBQ). The accuracy on them shows how well the "
    "model answers such questions at all: if it is as low as the accuracy on the other questions, the errors are not "
    "due to stereotypes."
)


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    """Return the section of the report for runs of the bias task, one part per data set."""
    runs = [run for run in read_runs(store, records) if run.result("ooc") is not None]
    if not runs:
        return results_section(store, records)
    runs_by_data: dict[str, list[BiasRun]] = {}
    for run in runs:
        runs_by_data.setdefault(run.data, []).append(run)
    blocks: list[Block] = []
    for data, runs_on_data in runs_by_data.items():
        if len(runs_by_data) > 1:
            blocks.append(Heading(f"Data: {_data_title(data, list(runs_by_data))}"))
        blocks += _data_blocks(store, prompt_families(runs_on_data))
    # `compared=()` leaves out the general comparisons of a report, because this section has its own.
    return Section(blocks, answers.examples(prompt_families(runs)), compared=())


def _data_title(data: str, all_data: Sequence[str]) -> str:
    """Return the name of the data, with the digest if other data in the report have the same name."""
    name = data.rpartition(".")[0] or data
    for other in all_data:
        if other != data and other.rpartition(".")[0] == name:
            return data
    return name


def _data_blocks(store: Store, families: Sequence[PromptFamily]) -> list[Block]:
    metric, _ = bias_metrics(families[0].runs)
    blocks: list[Block] = [Note(f"{_ACCURACY_MEANING} {_BIAS_MEANING[metric]} {_SIGN_MEANING}")]
    if any(_has_control_questions(family) for family in families):
        blocks.append(Note(_CONTROL_MEANING))
    blocks.append(headline(families))
    blocks += _prompt_files_note(families)
    blocks += figures.categories(families)
    blocks += figures.spread(families)
    blocks += comparisons.blocks(store, families)
    blocks += answers.parsing(families)
    blocks += answers.position(families)
    blocks += answers.endings(store, families)
    return blocks


def _has_control_questions(family: PromptFamily) -> bool:
    return any(run.result(scores.CONTROL_OOC) is not None for run in family.runs)


def _prompt_files_note(families: Sequence[PromptFamily]) -> list[Block]:
    """Return a note on which files the titles such as "default prompts" stand for; none for a single file."""
    runs = [family.first for family in families]
    files = {prompt_file_title(run, runs): run.prompt_file for run in runs}
    if len(files) < 2:
        return []
    # If files have the same name, their title is already the name with the digest.
    listed = "; ".join(file if title == file else f"{title}: {file}" for title, file in files.items())
    return [Note(f"Prompt files with the beginning of their SHA-256: {listed}.")]
