"""What ``lmassay predict`` does: label new texts with kept models, and write the labels."""

from __future__ import annotations

import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lmassay.cli.actions.run import plugin_output_to_stderr
from lmassay.cli.console import say
from lmassay.cli.endings import format_by_ending
from lmassay.cli.table_output import print_table
from lmassay.errors import DataError, UserError
from lmassay.running import trained_models
from lmassay.storage.commands import command_on_results
from lmassay.storage.files import STANDARD_INPUT, atomic_write, forbid_overwriting, is_stream, open_decoded, open_text
from lmassay.storage.store import Store
from lmassay.types.controls import escape_controls_in_json, replace_controls

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.keeping import KeptModel
    from lmassay.evaluations.fewshot.predictions import Prediction
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

_BEST = "best"
_ENDINGS = (".jsonl", ".tsv", ".csv")


@dataclass(frozen=True)
class _KeptGroup:
    """The kept models of one split: a single one, or those of an ensemble, whose logits are averaged."""

    name: str
    models: list[KeptModel]

    @property
    def dev_score(self) -> float | None:
        """The mean dev score of its models; None if there was no dev set."""
        scores = [model.dev_score for model in self.models if model.dev_score is not None]
        return sum(scores) / len(scores) if scores else None


def predict(
    run: str, source: Path | None, output: Path | None, split: str, listed: bool, device: str, results: Path
) -> None:
    """Label new texts with a model that a few-shot run trained and kept (keep: best)."""
    from lmassay.evaluations.fewshot.predictions import predictions

    if output == Path("-"):
        output = None
    if output is not None:
        # An unknown ending is an error, which must come before the texts are labelled.
        format_by_ending(output, {ending: ending for ending in _ENDINGS})
    groups = _kept_groups(run, results)
    if listed:
        _print_groups(groups)
        return
    if source is None:
        raise UserError("--in is missing: give the file with the texts to label, or --list to see the trained models")
    if output is not None:
        forbid_overwriting({"-o": output}, {"--in": source})
    group = _chosen_group(groups, split)
    with plugin_output_to_stderr():
        task = group.models[0].task()
        examples = _examples(task, source)
        # All texts are labelled before anything is written, so that an error does not leave half a file.
        rows = list(predictions(group.models, task, examples, device=device))
    if output is None:
        _write(sys.stdout, rows, task, ".jsonl")
    else:
        with atomic_write(output, newline="") as stream:
            _write(stream, rows, task, output.suffix.lower())
    where = f"; written to {output}" if output is not None else ""
    texts = "1 text" if len(rows) == 1 else f"{len(rows):,} texts"
    say(f"labelled {texts} with {_named(group)}{where}")


def _kept_groups(run: str, results: Path) -> list[_KeptGroup]:
    """The kept models of a run, one group per split. ``run`` may also be the folder of a kept model."""
    from lmassay.evaluations.fewshot.keeping import open_kept

    folder = Path(run).expanduser()
    if folder.is_dir():
        return [_KeptGroup(folder.name, [open_kept(folder)])]
    with Store(results, for_display=True) as store:
        record = store.run(run)
    folders_by_example = trained_models.read_list(results, record.id)
    if not folders_by_example:
        raise UserError(
            f"the run {record.id} kept no trained models; write keep: best under task, then run it again "
            "(a training that is repeated gives the same scores)"
        )
    groups = []
    for example, folders in folders_by_example.items():
        for one in folders:
            if not one.is_dir():
                command = command_on_results(results, "resume", record.id)
                raise DataError(f"the trained model {one} is missing; train it again: {command}")
        groups.append(_KeptGroup(example, [open_kept(one) for one in folders]))
    return groups


def _print_groups(groups: Sequence[_KeptGroup]) -> None:
    rows = []
    for number, group in enumerate(groups):
        dev_score = group.dev_score
        dev = "none held out" if dev_score is None else f"{dev_score:.4f}"
        folders = "\n".join(str(model.folder) for model in group.models)
        rows.append([str(number), group.name, dev, folders])
    print_table("", ("", "name", "dev", "folder"), rows, right=(0, 2), whole=(3,))


def _chosen_group(groups: Sequence[_KeptGroup], split: str) -> _KeptGroup:
    if split == _BEST:
        return max(groups, key=_score_to_choose_by)
    for number, group in enumerate(groups):
        if split in (group.name, str(number)):
            return group
    names = ", ".join(group.name for group in groups)
    raise UserError(f"--split {split}: there is no such trained model; the run has {names} (numbered from 0), or best")


def _score_to_choose_by(group: _KeptGroup) -> float:
    """The sort key to choose a group by: its dev score. Without dev scores, the first group is chosen."""
    if group.dev_score is None:
        return -1.0
    return group.dev_score


def _named(group: _KeptGroup) -> str:
    label = str(group.models[0].card["label"])
    dev = "" if group.dev_score is None else f", dev score {group.dev_score:.4f}"
    return f"{label} ({group.name}{dev})"


def _examples(task: NluTask, source: Path) -> Any:
    """The texts in a file as examples; the task reads them like its unlabeled examples."""
    if not is_stream(source):
        return task.processor._create_examples(str(source), "unlabeled")
    # A task reads files by their ending, and may read them twice, so a stream is written to a file first.
    copy = open_text(source, "input").path
    name = "standard input" if source == STANDARD_INPUT else str(source)
    with tempfile.TemporaryDirectory(prefix="lmassay-predict-") as folder:
        file = Path(folder) / f"texts{_ending_of(copy)}"
        shutil.copyfile(copy, file)
        try:
            return task.processor._create_examples(str(file), "unlabeled")
        except DataError as error:
            # The message should name the user's input, not the temporary file.
            raise DataError(str(error).replace(str(file), name)) from None


def _ending_of(stream_copy: Path) -> str:
    """The ending for a copy of a stream, by its content: a stream has no ending that would say its format."""
    with open_decoded(stream_copy, encoding="utf-8-sig") as stream:
        first_line = stream.readline().strip()
    if first_line.startswith(("{", "[")):
        return ".jsonl"
    return ".tsv" if "\t" in first_line else ".csv"


def _write(stream: IO[str], rows: Sequence[Prediction], task: NluTask, ending: str) -> None:
    """Write the predictions in the format that has this ending."""
    if ending == ".jsonl":
        for prediction in rows:
            line = json.dumps(_as_json(prediction), ensure_ascii=False)
            stream.write(escape_controls_in_json(line) + "\n")
        return
    delimiter = "\t" if ending == ".tsv" else ","
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    for row in _table(rows, task.labels):
        cells = []
        for value in row:
            # A tab or line break in a text would be read as the end of its cell or row by simple readers.
            cells.append(replace_controls(value) if isinstance(value, str) else value)
        writer.writerow(cells)


def _as_json(row: Prediction) -> dict[str, Any]:
    fields: dict[str, Any] = {"idx": row.idx, "label": row.label}
    if row.probabilities:
        fields["probabilities"] = _rounded(row.probabilities)
    return fields


def _table(rows: Sequence[Prediction], labels: Sequence[str]) -> Iterator[list[Any]]:
    header = ["idx", "label"]
    # ReCoRD's predictions name an entity and have no probabilities of labels.
    if any(row.probabilities for row in rows):
        header += [f"p({label})" for label in labels]
    yield header
    for row in rows:
        yield [row.idx, row.label, *_rounded(row.probabilities).values()]


def _rounded(probabilities: Mapping[str, float]) -> dict[str, float]:
    return {label: round(probability, 6) for label, probability in probabilities.items()}
