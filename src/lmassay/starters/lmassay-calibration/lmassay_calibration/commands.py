"""``lmassay calibration``: a command of the evaluation, written with click like those of lmassay."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import click
import numpy as np

from lmassay.cli.console import print_json
from lmassay.cli.options import json_option
from lmassay.cli.table_output import print_table
from lmassay.errors import DataError
from lmassay.statistics.intervals import mean_interval
from lmassay.storage.files import require_file
from lmassay.types import Settings
from lmassay_calibration.scores import ece_interval, expected_calibration_error


@click.command(epilog="Example: lmassay calibration confidences.csv", short_help="Calibration of probabilities.")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def calibration(file: Path, as_json: bool) -> None:
    """Calibration error and Brier score of probabilities that you already have.

    FILE is a .csv with one answer per line and the columns confidence (the probability of the chosen answer) and
    correct (1 or 0). The Brier score is that of the chosen answer: (confidence - correct)².
    """
    confidences, correct = _read(file)
    settings = Settings()
    squares = (confidences - correct) ** 2
    results = {
        "ece": (expected_calibration_error(confidences, correct), *ece_interval(confidences, correct, settings)),
        "brier": (float(squares.mean()), *mean_interval(squares, settings)),
        "accuracy": (float(correct.mean()), *mean_interval(correct, settings)),
    }
    if as_json:
        documents = {}
        for name, (value, low, high) in results.items():
            documents[name] = {"value": value, "low": low, "high": high}
        print_json({"n": len(confidences), "results": documents})
        return
    rows = [(name, f"{value:.4f}", _interval(low, high)) for name, (value, low, high) in results.items()]
    print_table(f"{len(confidences)} answers", ("metric", "value", "95 % interval"), rows, right=(1, 2))


def _interval(low: float | None, high: float | None) -> str:
    return "n/a" if low is None or high is None else f"[{low:.4f}, {high:.4f}]"


def _read(file: Path) -> tuple[np.ndarray, np.ndarray]:
    require_file(file, "FILE")
    confidences, correct = [], []
    with file.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        missing = {"confidence", "correct"} - set(reader.fieldnames or ())
        if missing:
            raise DataError(f"{file}, line 1: missing column: {', '.join(sorted(missing))}")
        for row in reader:
            where = f"{file}, line {reader.line_num}"
            try:
                confidence = float(row["confidence"])
            except (TypeError, ValueError):
                raise DataError(f"{where}: the confidence {row['confidence']!r} is not a number") from None
            if not 0 <= confidence <= 1 or math.isnan(confidence):
                raise DataError(f"{where}: the confidence {confidence:g} is not between 0 and 1")
            if row["correct"] not in ("0", "1"):
                raise DataError(f"{where}: correct must be 1 or 0, not {row['correct']!r}")
            confidences.append(confidence)
            correct.append(float(row["correct"]))
    if not confidences:
        raise DataError(f"{file} has no answers")
    return np.array(confidences), np.array(correct)
