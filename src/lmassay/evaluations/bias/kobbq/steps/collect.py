"""Step 4: letters become the texts of their choices, beside the questions that were asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.pandas_output import retold, rewritten
from lmassay.evaluations.bias.kobbq.steps.postprocess import PREDICTION, UNFINISHED
from lmassay.evaluations.bias.kobbq.steps.preprocess import LETTERS
from lmassay.evaluations.bias.kobbq.tsv import first_few, read_table
from lmassay.storage.files import atomic_write, forbid_overwriting


@dataclass(frozen=True, slots=True)
class Collected:
    """What the evaluation file holds."""

    questions: int
    out_of_choice: int
    unused: int
    """Predictions for other questions."""
    warnings: tuple[str, ...]


def collect(predictions_path: Path, preprocessed_path: Path, output_path: Path) -> Collected:
    """Write the preprocessed file with its column ``prediction`` filled."""
    forbid_overwriting(
        {"--output-path": output_path},
        {"--predictions-tsv-path": predictions_path, "--preprocessed-tsv-path": preprocessed_path},
    )
    answers = read_table(
        predictions_path,
        "predictions",
        ("guid",),
        remedy=f"if it was cut off, {UNFINISHED}; then run `lmassay kobbq postprocess` again",
    )
    if PREDICTION not in answers:
        raise DataError(
            f"{predictions_path}, line 1: there is no column '{PREDICTION}'; run `lmassay kobbq postprocess` first"
        )
    questions = read_table(preprocessed_path, "preprocessed", ("sample_id", *LETTERS))
    ids = questions.column("sample_id")
    questions.require_unique("sample_id", ids)
    places = answers.require_unique("guid")
    absent = [row for row, key in enumerate(ids) if key not in places]
    if absent:
        raise DataError(
            f"{len(absent)} of {questions.count} questions have no answer in {predictions_path}, first "
            f"{first_few([ids[row] for row in absent])} ({questions.where(absent[0])}); {UNFINISHED}"
        )
    found = retold(answers.column(PREDICTION))
    texts = {letter: questions.column(letter) for letter in LETTERS}
    column = []
    outside = 0
    for row, key in enumerate(ids):
        prediction = found[places[key]]
        if prediction in texts:
            prediction = texts[prediction][row]
        else:
            outside += 1
        column.append(prediction)
    with atomic_write(output_path) as stream:
        stream.writelines(rewritten(questions, PREDICTION, column))
    warnings = []
    if not answers.complete:
        warnings.append(f"{answers.where(answers.count - 1)}: the last row has no line end; it may be cut off")
    return Collected(questions.count, outside, answers.count - questions.count, tuple(warnings))
