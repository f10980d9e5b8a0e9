"""refining-tse's result folders: a run written as the original would have written it.

``<logger.path>/<dataset>_<model>_<metrics>/`` holds config.yaml, log.txt, metrics/*.txt, npzs/*.npz (key ``arr_0``),
json/ for what the original keeps in a format that can run code when read, and an empty figs/.
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
from lmassay.evaluations.syntax.refining_tse.plugins import own_metrics, row_scores
from lmassay.storage.files import atomic_write
from lmassay.types import Row, RunRecord

Floats = NDArray[np.float64]
Summary = Mapping[str, Any]
"""What a metric tells: numbers and texts become lines, arrays npz files, everything else JSON files."""

RUN_FILE = "json/run.json"
"""What ran: model, compat, run and time of writing."""

_NO_SCORE = "INVALID_SCORE_VALUE"
_SIDES = {"top": "top-k", "bottom": "bottom-k"}


@dataclass(frozen=True)
class TseOutcome:
    """A finished run, seen through a configuration."""

    config: TseConfig
    record: RunRecord
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    """What a reader of the log should know besides."""

    @property
    def compat(self) -> Compat:
        compat: Compat = self.record.config["task"].get("compat", "none")
        return compat

    @cached_property
    def contexts(self) -> list[Row]:
        return [row for row in self.rows if "rows" in row.example.inputs]

    @cached_property
    def verdicts(self) -> dict[int, int]:
        """TSE's verdict on every row of the data that can be judged, in the order of the data."""
        found = ((at, hit) for row in self.contexts for at, hit in row.score.details.get("tse", ()))
        return dict(sorted((at, hit) for at, hit in found if hit is not None))

    def column(self, name: str) -> Floats:
        return np.array([row.score.values.get(name, np.nan) for row in self.contexts], dtype=np.float64)

    def curve(self, metric: str, side: str, cutoffs: Sequence[float]) -> Floats:
        """Contexts × cut-offs, NaN where no lemma is within the cut-off."""
        if not cutoffs:
            return np.empty((len(self.contexts), 0))
        return np.stack([self.column(f"{metric}@{side}{cutoff:g}") for cutoff in cutoffs], axis=1)


def summaries(outcome: TseOutcome) -> dict[str, Summary]:
    """What every metric of the configuration has to tell."""
    told = {}
    for name in outcome.config.metrics:
        if name == TSE:
            told[name] = _tse_summary(outcome)
        elif name == VERBS:
            told[name] = _verbs_summary(outcome)
        else:
            told[name] = _own_summary(outcome, name)
    return told


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
    main, metric = outcome.config.main, outcome.config.voting
    assert main is not None
    assert metric is not None
    cutoffs = {"top": main.cutoffs_top, "bottom": main.cutoffs_bot}
    scores = {side: outcome.curve(metric, side, cuts) for side, cuts in cutoffs.items()}
    counted = {side: outcome.curve("mass", side, cuts) for side, cuts in cutoffs.items()}
    first = [row.example.inputs["rows"][0][0] for row in outcome.contexts]
    lemmas = {row.score.details["lemmas"] for row in outcome.contexts if "lemmas" in row.score.details}
    told: dict[str, Any] = {
        # The original prints the first context of each batch and the number of batches here.
        **_overall(outcome.column(metric)),
        "Number of lemmas": max(lemmas, default=0),
        **{f"Cutoffs ({_SIDES[side]})": _line(cuts) for side, cuts in cutoffs.items()},
        **{f"Overall scores ({_SIDES[side]})": _line(nanmeans(found)) for side, found in scores.items()},
        **{f"Prob counted ({_SIDES[side]})": found for side, found in counted.items()},
        **{
            f"% examples invalid ({_SIDES[side]})": _line(np.isnan(found).mean(axis=0))
            for side, found in scores.items()
        },
        **{f"Cutoff scores ({_SIDES[side]})": found for side, found in scores.items()},
        "main-valid_min_pairs": _pairs(outcome.contexts, first),
        "main-valid_min_pairs_idxs": np.array(first, dtype=np.int64),
    }
    stats = _lemma_stats(outcome.contexts)
    return {**told, "Lemma Stats": stats} if stats else told


def _own_summary(outcome: TseOutcome, name: str) -> Summary:
    options = outcome.record.config["task"]["metrics"][name]
    (metric,) = own_metrics({name: options}, Path(outcome.record.config["base_dir"]))
    found = sorted((s for row in outcome.contexts for s in row_scores(row.score, name)), key=lambda s: s.row)
    scores, rows = [score.score for score in found], [score.row for score in found]
    return {
        **metric.summary(scores, [score.extra for score in found]),
        f"{name}_scores": np.array(scores, dtype=np.float64),
        f"{name}-valid_min_pairs": _pairs(outcome.contexts, rows),
        f"{name}-valid_min_pairs_idxs": np.array(rows, dtype=np.int64),
    }


def _overall(scores: Floats) -> Summary:
    there = scores[~np.isnan(scores)]
    if len(there) == 0:
        return {"Overall model score": _NO_SCORE}
    return {"Overall model score": float(there.mean()), "Number of examples": len(there)}


def nanmeans(scores: Floats) -> list[float]:
    """Without numpy's warning where there is nothing to take the mean of."""
    return [float(np.nanmean(column)) if not np.isnan(column).all() else float("nan") for column in scores.T]


def _line(values: Iterable[float]) -> str:
    return ", ".join(repr(float(value)) for value in values)


def _pairs(contexts: Iterable[Row], wanted: Iterable[int]) -> list[Mapping[str, Any]]:
    """The rows of the data as they were asked about, in the order of the data."""
    chosen = set(wanted)
    found = {}
    for row in contexts:
        inputs = row.example.inputs
        for at, good, bad in inputs["rows"]:
            if at in chosen:
                text = {"row": at, "left": inputs["left"], "right": inputs["right"], "number": row.example.reference}
                found[at] = {**text, "good": good, "bad": bad}
    return [found[at] for at in sorted(found)]


def _lemma_stats(contexts: Iterable[Row]) -> dict[str, dict[str, list[float]]]:
    """Verb form → one value a context, where the run has kept them."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in contexts:
        for form, values in row.score.details.get("lemma_stats", {}).items():
            columns = found.setdefault(form, {"ranks_from_top": [], "probs": [], "cum_probs": []})
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    return found


# --- writing ----------------------------------------------------------------------------------------------------------


def write_folder(outcome: TseOutcome, told: Mapping[str, Summary], store: Path) -> tuple[Path, str]:
    """Write what the metrics have to tell, whole or not at all; gives the folder and the text of its log."""
    with _unfinished(outcome.config) as folder:
        for name in ("metrics", "npzs", "json", "figs"):
            (folder / name).mkdir()
        (folder / "config.yaml").write_bytes(_config_as_run(outcome))
        for name, summary in told.items():
            lines = [f"Metric: {name}", *_lines(summary)]
            (folder / "metrics" / f"{name}.txt").write_text("".join(f"{t}\n" for t in lines), encoding="utf-8")
            _write_values(folder, summary)
        (folder / RUN_FILE).write_text(json.dumps(_run(outcome), ensure_ascii=False) + "\n", encoding="utf-8")
        while True:
            target = _free(outcome.config)
            log = _log(outcome, target, store, told)
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
    """Raise where the results could not be written: better before hours of work than after them. Leaves no trace."""
    there = config.folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        with TemporaryDirectory(prefix=".lmassay-", dir=there):
            pass
    except OSError as error:
        raise DataError(
            f"logger.path: cannot write to {config.folder}: {there}: {error.strerror or error}; give another folder"
        ) from error


def _run(outcome: TseOutcome) -> dict[str, Any]:
    """What ``tse plots`` must know of a folder: numbers as released are not to be mixed with others."""
    return {
        "model": outcome.config.model.name,
        "compat": outcome.compat,
        "run": outcome.record.id,
        "time": datetime.now().astimezone().isoformat(),
    }


def _config_as_run(outcome: TseOutcome) -> bytes:
    """A copy of the configuration; what ran in another way than it says stands above it."""
    config = outcome.config
    differs = [f"model {config.model.name} (--model)"] if config.overridden else []
    differs += [f"--compat {outcome.compat}"] if outcome.compat != "none" else []
    text = config.path.read_bytes()
    if not differs:
        return text
    comment = " ".join(f"# Run by lmassay with {' and '.join(differs)}.".split())
    return comment.encode() + b"\n" + text.removeprefix(BOM_UTF8)


def _free(config: TseConfig) -> Path:
    """A folder that is not there yet: results are never overwritten."""
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
    """A folder to write to until all is there; of this process alone."""
    unfinished = config.folder / f".{config.run_name}.{secrets.token_hex(4)}.unfinished"
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
    except OSError as error:
        raise DataError(f"cannot write {config.folder / config.run_name}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _log(outcome: TseOutcome, target: Path, store: Path, told: Mapping[str, Summary]) -> str:
    config = outcome.config
    lines = [
        f"Writing output to: {target}",
        f"Using config file {config.path}.",
        f"Run {outcome.record.id} in {store}",
        f"Signature {outcome.record.signature}",
        *outcome.notes,
    ]
    if config.logger.print_metrics_to_general_log:
        lines += [f"Metric: {name}" for name in told]
    lines += ["", "--------Summary Results--------", ""]
    for name, summary in told.items():
        lines += [f"For metric {name}:", *_lines(summary), "-" * 30]
    return "".join(f"{line}\n" for line in lines)


def _lines(summary: Summary) -> Iterator[str]:
    for name, value in summary.items():
        if isinstance(value, np.ndarray):
            yield f"Writing npz with name {name}."
        elif _is_plain(value):
            yield f"{name}: {value}"
        else:
            yield f"Writing json with name {name}."


def _write_values(folder: Path, summary: Summary) -> None:
    for name, value in summary.items():
        if isinstance(value, np.ndarray):
            np.savez(folder / "npzs" / f"{_file_name(name)}.npz", value)
        elif not _is_plain(value):
            with atomic_write(folder / "json" / f"{_file_name(name)}.json") as stream:
                json.dump(value, stream, ensure_ascii=False, default=str)


def _file_name(key: str) -> str:
    """A key of the user's own may hold a slash, which would lead elsewhere."""
    return str(key).replace("/", "%2F").replace("\\", "%5C")


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) or bool(np.isscalar(value))
