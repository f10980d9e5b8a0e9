"""Step 4: replace letters with the texts of their choices, next to the questions that were asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.answering_model import models_behind, record_models
from lmassay.evaluations.bias.kobbq.pandas_output import as_pandas_rewrites, rewritten
from lmassay.evaluations.bias.kobbq.steps.postprocess import PREDICTION, UNFINISHED
from lmassay.evaluations.bias.kobbq.steps.preprocess import LETTERS
from lmassay.evaluations.bias.kobbq.tsv import first_few, read_table
from lmassay.storage.files import atomic_write, forbid_overwriting


@dataclass(frozen=True, slots=True)
class Collected:
    """What was written: how many questions, how many answers out of choice, and what users should know."""

    questions: int
    out_of_choice: int
    unused: int
    """The number of predictions for questions that are not in the preprocessed file."""
    warnings: tuple[str, ...]
    models: tuple[str, ...] = ()
    """The models that gave the answers, if the file's name has only an alias of them."""


def collect(predictions_path: Path, preprocessed_path: Path, output_path: Path) -> Collected:
    """Write the preprocessed file with its column ``prediction`` filled in."""
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
    row_of_answer = answers.require_unique("guid")
    unanswered = [row for row, question_id in enumerate(ids) if question_id not in row_of_answer]
    if unanswered:
        raise DataError(
            f"{len(unanswered)} of {questions.count} questions have no answer in {predictions_path}, first "
            f"{first_few([ids[row] for row in unanswered])} ({questions.where(unanswered[0])}); {UNFINISHED}"
        )
    # The original reads the predictions with pandas, which changes how numbers are spelled.
    predictions = as_pandas_rewrites(answers.column(PREDICTION))
    texts = {letter: questions.column(letter) for letter in LETTERS}
    collected_column = []
    out_of_choice = 0
    for row, question_id in enumerate(ids):
        prediction = predictions[row_of_answer[question_id]]
        if prediction in texts:
            prediction = texts[prediction][row]
        else:
            out_of_choice += 1
        collected_column.append(prediction)
    with atomic_write(output_path) as stream:
        stream.writelines(rewritten(questions, PREDICTION, collected_column))
    models = models_behind(predictions_path)
    record_models(output_path, models)
    warnings = []
    if not answers.complete:
        warnings.append(f"{answers.where(answers.count - 1)}: the last row has no line end; it may be cut off")
    return Collected(questions.count, out_of_choice, answers.count - questions.count, tuple(warnings), tuple(models))
