"""Write a run as refining-tse would have written it.

``<logger.path>/<dataset>_<model>_<metrics>/`` contains config.yaml, log.txt, metrics/*.txt, npzs/*.npz (key ``arr_0``),
json/ for objects that the original stores in a binary format that can run code when it is read, and an empty figs/.
"""

from __future__ import annotations

import json
import secrets
import shutil
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmassay.errors import DataError
from lmassay.evaluations.syntax.refining_tse.config import TSE, VERBS, Compat, TseConfig
from lmassay.evaluations.syntax.refining_tse.plugins import RowScore, row_scores, user_metrics
from lmassay.storage.files import atomic_write
from lmassay.types import Row, RunRecord

Floats = NDArray[np.float64]
Summary = Mapping[str, Any]
"""The output of a metric: numbers and texts become lines, arrays npz files, everything else JSON files."""

RUN_FILE = "json/run.json"
"""What ran: model, compat, run and time of writing."""

_NO_SCORE = "INVALID_SCORE_VALUE"


@dataclass(frozen=True)
class TseOutcome:
    """A finished run, with the configuration of refining-tse that it was run from."""

    config: TseConfig
    record: RunRecord
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    """What a reader of the log should also know."""

    @property
    def compat(self) -> Compat:
        """The option ``compat`` of the task."""
        compat: Compat = self.record.config["task"].get("compat", "none")
        return compat

    @cached_property
    def contexts(self) -> list[Row]:
        """The rows of the run that are contexts; the others are pairs without a blank."""
        return [row for row in self.rows if "rows" in row.example.inputs]

    @cached_property
    def verdicts(self) -> dict[int, int]:
        """Row number → 1 if the right verb is more probable, else 0; rows that cannot be judged are left out."""
        verdicts = {}
        for context in self.contexts:
            for row_number, hit in context.score.details.get("tse", ()):
                if hit is not None:
                    verdicts[row_number] = hit
        return dict(sorted(verdicts.items()))

    def column(self, name: str) -> Floats:
        """Return a metric of all contexts, NaN where it has no value."""
        return np.array([row.score.values.get(name, np.nan) for row in self.contexts], dtype=np.float64)

    def curve(self, metric: str, side: str, cutoffs: Sequence[float]) -> Floats:
        """Return contexts × cut-offs, NaN where no lemma is within the cut-off."""
        if not cutoffs:
            return np.empty((len(self.contexts), 0))
        return np.stack([self.column(f"{metric}@{side}{cutoff:g}") for cutoff in cutoffs], axis=1)


def summaries(outcome: TseOutcome) -> dict[str, Summary]:
    """Return the output of every metric of the configuration."""
    by_metric: dict[str, Summary] = {}
    for name in outcome.config.metrics:
        if name == TSE:
            by_metric[name] = _tse_summary(outcome)
        elif name == VERBS:
            by_metric[name] = _verbs_summary(outcome)
        else:
            by_metric[name] = _user_metric_summary(outcome, name)
    return by_metric


def _tse_summary(outcome: TseOutcome) -> Summary:
    verdicts = outcome.verdicts
    judged = np.array(list(verdicts.values()), dtype=np.int64)
    return {
        **_overall(judged.astype(np.float64)),
        "ML_scores": judged,
        "ML-valid_min_pairs": _pairs(outcome.contexts, verdicts),
        "ML-valid_min_pairs_idxs": np.array(list(verdicts), dtype=np.int64),
    }


def _verbs_summary(outcome: TseOutcome) -> Summary:
    main = outcome.config.main
    metric = outcome.config.voting
    assert main is not None
    assert metric is not None
    # Names and order are the original's: the lines of one kind for both sides, then those of the next kind.
    cutoffs = {"top": main.cutoffs_top, "bottom": main.cutoffs_bot}
    cutoff_lines: dict[str, Any] = {}
    score_lines: dict[str, Any] = {}
    mass_arrays: dict[str, Any] = {}
    invalid_lines: dict[str, Any] = {}
    score_arrays: dict[str, Any] = {}
    for side, side_name in (("top", "top-k"), ("bottom", "bottom-k")):
        scores = outcome.curve(metric, side, cutoffs[side])
        cutoff_lines[f"Cutoffs ({side_name})"] = _number_line(cutoffs[side])
        score_lines[f"Overall scores ({side_name})"] = _number_line(nanmeans(scores))
        mass_arrays[f"Prob counted ({side_name})"] = outcome.curve("mass", side, cutoffs[side])
        invalid_lines[f"% examples invalid ({side_name})"] = _number_line(np.isnan(scores).mean(axis=0))
        score_arrays[f"Cutoff scores ({side_name})"] = scores
    lemma_counts = {row.score.details["lemmas"] for row in outcome.contexts if "lemmas" in row.score.details}
    first_rows = [row.example.inputs["rows"][0][0] for row in outcome.contexts]
    summary: dict[str, Any] = {
        # In these two lines, the original counts only the first context of each batch.
        **_overall(outcome.column(metric)),
        "Number of lemmas": max(lemma_counts, default=0),
        **cutoff_lines,
        **score_lines,
        **mass_arrays,
        **invalid_lines,
        **score_arrays,
        "main-valid_min_pairs": _pairs(outcome.contexts, first_rows),
        "main-valid_min_pairs_idxs": np.array(first_rows, dtype=np.int64),
    }
    lemma_stats = _lemma_stats(outcome.contexts)
    if lemma_stats:
        summary["Lemma Stats"] = lemma_stats
    return summary


def _user_metric_summary(outcome: TseOutcome, name: str) -> Summary:
    options = outcome.record.config["task"]["metrics"][name]
    (metric,) = user_metrics({name: options}, Path(outcome.record.config["base_dir"]))
    scored_rows: list[RowScore] = []
    for context in outcome.contexts:
        scored_rows += row_scores(context.score, name)
    scored_rows.sort(key=lambda scored: scored.row)
    scores = [scored.score for scored in scored_rows]
    row_numbers = [scored.row for scored in scored_rows]
    return {
        **metric.summary(scores, [scored.extra for scored in scored_rows]),
        f"{name}_scores": np.array(scores, dtype=np.float64),
        f"{name}-valid_min_pairs": _pairs(outcome.contexts, row_numbers),
        f"{name}-valid_min_pairs_idxs": np.array(row_numbers, dtype=np.int64),
    }


def _overall(scores: Floats) -> Summary:
    """Return the lines with the mean and the number of scores; without scores, the original's word for that."""
    present = scores[~np.isnan(scores)]
    if len(present) == 0:
        return {"Overall model score": _NO_SCORE}
    return {"Overall model score": float(present.mean()), "Number of examples": len(present)}


def nanmeans(scores: Floats) -> list[float]:
    """Return the mean of each column, NaN for a column of NaN, without numpy's warning."""
    means = []
    for column in scores.T:
        means.append(float("nan") if np.isnan(column).all() else float(np.nanmean(column)))
    return means


def _number_line(values: Iterable[float]) -> str:
    return ", ".join(repr(float(value)) for value in values)


def _pairs(contexts: Iterable[Row], row_numbers: Iterable[int]) -> list[Mapping[str, Any]]:
    """Return the rows of the data with these numbers, with the contexts sent to the model, in the order of the data."""
    wanted = set(row_numbers)
    pairs = {}
    for context in contexts:
        inputs = context.example.inputs
        for row_number, good, bad in inputs["rows"]:
            if row_number in wanted:
                pairs[row_number] = {
                    "row": row_number,
                    "left": inputs["left"],
                    "right": inputs["right"],
                    "number": context.example.reference,
                    "good": good,
                    "bad": bad,
                }
    return [pairs[row_number] for row_number in sorted(pairs)]


def _lemma_stats(contexts: Iterable[Row]) -> dict[str, dict[str, list[float]]]:
    """Return verb form → statistic → one value per context; empty if the run has no such statistics."""
    stats: dict[str, dict[str, list[float]]] = {}
    for context in contexts:
        for form, values in context.score.details.get("lemma_stats", {}).items():
            columns = stats.setdefault(form, {"ranks_from_top": [], "probs": [], "cum_probs": []})
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    return stats


# --- writing ----------------------------------------------------------------------------------------------------------


def write_folder(outcome: TseOutcome, summary_by_metric: Mapping[str, Summary], store: Path) -> tuple[Path, str]:
    """Write the output of the metrics, completely or not at all; return the folder and the text of its log."""
    with _unfinished(outcome.config) as folder:
        for name in ("metrics", "npzs", "json", "figs"):
            (folder / name).mkdir()
        (folder / "config.yaml").write_bytes(_config_as_run(outcome))
        for name, summary in summary_by_metric.items():
            lines = [f"Metric: {name}", *_lines(summary)]
            text = "".join(f"{line}\n" for line in lines)
            (folder / "metrics" / f"{name}.txt").write_text(text, encoding="utf-8")
            _write_values(folder, summary)
        (folder / RUN_FILE).write_text(json.dumps(_run_facts(outcome), ensure_ascii=False) + "\n", encoding="utf-8")
        while True:
            target = _unused_folder(outcome.config)
            log = _log(outcome, target, store, summary_by_metric)
            (folder / "log.txt").write_text(log, encoding="utf-8")
            try:
                folder.replace(target)
            except OSError:
                # Another process may have taken the name in the meantime.
                if not target.exists():
                    raise
            else:
                return target, log


def check_writable(config: TseConfig) -> None:
    """Raise a DataError if the results could not be written: better before hours of work than after them."""
    existing = config.folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        with TemporaryDirectory(prefix=".lmassay-", dir=existing):
            pass
    except OSError as error:
        raise DataError(
            f"logger.path: cannot write to {config.folder}: {existing}: {error.strerror or error}; give another folder"
        ) from error


def _run_facts(outcome: TseOutcome) -> dict[str, Any]:
    """Return what ``tse plots`` must know about a folder to keep numbers with the original's bugs apart from others."""
    return {
        "model": outcome.config.model.name,
        "compat": outcome.compat,
        "run": outcome.record.id,
        "time": datetime.now().astimezone().isoformat(),
    }


def _config_as_run(outcome: TseOutcome) -> bytes:
    """Return a copy of the configuration, with a comment above it if the run differs from what it says."""
    config = outcome.config
    differences = []
    if config.overridden:
        differences.append(f"model {config.model.name} (--model)")
    if outcome.compat != "none":
        differences.append(f"--compat {outcome.compat}")
    text = config.path.read_bytes()
    if not differences:
        return text
    # A name may contain line breaks, which would end the comment.
    comment = " ".join(f"# Run by lmassay with {' and '.join(differences)}.".split())
    return comment.encode() + b"\n" + text.removeprefix(BOM_UTF8)


def _unused_folder(config: TseConfig) -> Path:
    """Return a folder that does not exist yet: results are never overwritten."""
    plain = config.folder / config.run_name
    if not config.unique and not plain.exists():
        return plain
    stamped = plain.with_name(f"{plain.name}_{datetime.now():%y-%m-%d-%H-%M-%S}")
    number = 2
    target = stamped
    while target.exists():
        target = stamped.with_name(f"{stamped.name}-{number}")
        number += 1
    return target


@contextmanager
def _unfinished(config: TseConfig) -> Iterator[Path]:
    """Make a temporary folder that no other process uses; it gets its final name when everything is written."""
    unfinished = config.folder / f".{config.run_name}.{secrets.token_hex(4)}.unfinished"
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
    except OSError as error:
        raise DataError(f"cannot write {config.folder / config.run_name}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _log(outcome: TseOutcome, target: Path, store: Path, summary_by_metric: Mapping[str, Summary]) -> str:
    config = outcome.config
    lines = [
        f"Writing output to: {target}",
        f"Using config file {config.path}.",
        f"Run {outcome.record.id} in {store}",
        f"Signature {outcome.record.signature}",
        *outcome.notes,
    ]
    if config.logger.print_metrics_to_general_log:
        lines += [f"Metric: {name}" for name in summary_by_metric]
    lines += ["", "--------Summary Results--------", ""]
    for name, summary in summary_by_metric.items():
        lines += [f"For metric {name}:", *_lines(summary), "-" * 30]
    return "".join(f"{line}\n" for line in lines)


def _lines(summary: Summary) -> Iterator[str]:
    """Yield the lines that the file of a metric in metrics/ and the log both contain."""
    for name, value in summary.items():
        if isinstance(value, np.ndarray):
            yield f"Writing npz with name {name}."
        elif _is_plain(value):
            yield f"{name}: {value}"
        else:
            yield f"Writing json with name {name}."


def _write_values(folder: Path, summary: Summary) -> None:
    """Write arrays to npzs/ and all other values that do not fit on a line to json/."""
    for name, value in summary.items():
        if isinstance(value, np.ndarray):
            np.savez(folder / "npzs" / f"{_file_name(name)}.npz", value)
        elif not _is_plain(value):
            with atomic_write(folder / "json" / f"{_file_name(name)}.json") as stream:
                json.dump(value, stream, ensure_ascii=False, default=str)


def _file_name(key: str) -> str:
    """Return a key as a file name; a slash in a user's key would lead to another folder."""
    return str(key).replace("/", "%2F").replace("\\", "%5C")


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) or bool(np.isscalar(value))
