"""TEAPOT's command line: ``lmassay teapot`` prints what ``teapot`` (pmichel31415/teapot-nlp) prints.

Flags, results and the last line of a usage error are the original's; the help text is ours. Where the original crashes,
this command gives the right result or a clear error: see docs/migrating/teapot.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lmassay.errors import LmassayError, PluginError, UserError, error_with_location
from lmassay.evaluations.robustness import criterion
from lmassay.evaluations.robustness.scorers.base import (
    Scorer,
    ScorerError,
    has_own_decrease,
    own_decrease,
    works_by_chunks,
)
from lmassay.evaluations.robustness.teapot import module
from lmassay.evaluations.robustness.teapot.options import command_line_parser
from lmassay.plugins.registry import Registry, current_registry
from lmassay.storage.files import ParallelText, open_parallel, require_file

# The original suspects tokenized text if this many lines end in " .".
TOKENIZED_LINES = 100
_NOTE = "Note: No reference file provided. Will use the reference-less criterion."
_NOTHING_TO_DO = (
    "give --src and --adv-src (source side), or --out and --adv-out (target side), or all four; "
    "--ref adds a reference. See lmassay teapot -h"
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class TeapotOutput:
    """What is printed to standard output, and warnings for the user."""

    text: str
    warnings: list[str]


@dataclass(slots=True)
class _ScoredSide:
    """One side of the evaluation, source or target.

    Each of its ``passes`` names the roles of the texts that are compared: two, such as ``out`` and ``ref``, or three
    (``adv_out``, ``out`` and ``ref``) for a scorer that computes d_tgt itself.
    """

    scorer: Scorer
    lang: str | None
    passes: Sequence[tuple[str, ...]]
    scores: list[list[float]] = field(default_factory=list)

    def score(self, number: int, columns: Mapping[str, list[str]]) -> list[float]:
        """The scores of the pass with this index; ``columns`` has the texts of each role."""
        first, second, *third = (columns[role] for role in self.passes[number])
        try:
            if third:
                return own_decrease(self.scorer, first, second, third[0], self.lang)
            scores = list(self.scorer.score(first, second, lang=self.lang))
        except LmassayError:
            raise
        except Exception as error:
            raise ScorerError(f"the scorer {self.scorer.name} failed: {error_with_location(error)}") from error
        if len(scores) != len(first):
            raise ScorerError(f"the scorer {self.scorer.name} gave {len(scores)} scores for {len(first)} pairs")
        return scores


def run(argv: Sequence[str], progress: Progress | None = None) -> TeapotOutput:
    """Run the evaluation that the arguments describe.

    Raises a UserError, or SystemExit where argparse does (-h, bad options).
    """
    parser = command_line_parser()
    # The arguments are parsed twice: the first time to find the scorers, which may then add their own options.
    arguments_for_scorers, _ = parser.parse_known_args(argv)
    module.install()
    registry = Registry(parent=current_registry())
    with registry.active():
        with _no_stray_output():
            for source in arguments_for_scorers.custom_scores_source:
                registry.run_file_again(Path(source))
            s_src_class = _scorer_class(registry, arguments_for_scorers.s_src)
            s_tgt_class = _scorer_class(registry, arguments_for_scorers.s_tgt)
            classes = [s_src_class, s_tgt_class]
            for cls in dict.fromkeys(classes):
                _add_args(cls, parser)
        args = parser.parse_args(argv)
        with _no_stray_output():
            return _evaluate(args, classes, progress or _no_progress)


def _no_progress(done: int, total: int) -> None:
    """The progress callback of callers that have none."""


@contextmanager
def _no_stray_output() -> Iterator[None]:
    """Use this around a user's code: what it prints goes to standard error, and sys.exit becomes a PluginError."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except SystemExit as stop:
        raise PluginError(f"a scorer ended the program with code {stop.code!r}; it should raise an error") from stop


def _evaluate(args: argparse.Namespace, classes: Sequence[type[Scorer]], progress: Progress) -> TeapotOutput:
    has_source = args.src is not None and args.adv_src is not None
    has_target = args.out is not None and args.adv_out is not None
    if not (has_source or has_target):
        raise UserError(_NOTHING_TO_DO)
    paths = _paths(args, has_source=has_source, has_target=has_target)
    # Both scorers are created even if only one side is evaluated, so that a wrong option of either is reported.
    s_src = _make(classes[0], args)
    s_tgt = _make(classes[1], args)
    sides: dict[str, _ScoredSide] = {}
    if has_source:
        sides["src"] = _ScoredSide(s_src, args.src_lang, [("adv_src", "src")])
    if has_target:
        sides["tgt"] = _ScoredSide(s_tgt, args.tgt_lang, _target_passes(s_tgt, has_reference=args.ref is not None))
    for side in sides.values():
        if side.scorer.needs_source:
            raise UserError(
                f"the scorer {side.scorer.name} also reads the source of each translation, which TEAPOT's command does "
                "not pass on; use it as s_tgt of the robustness task (lmassay run)"
            )
        side.scorer.check(side.lang)
    text = open_parallel(paths)
    warnings = [*_incomplete_sides(args), *_byte_order_marks(text)]
    warnings += _score(text, list(sides.values()), progress)
    return TeapotOutput("".join(f"{line}\n" for line in _lines(args, sides)), warnings)


def _paths(args: argparse.Namespace, *, has_source: bool, has_target: bool) -> dict[str, Path]:
    """Return the files of the sides that are evaluated, by role."""
    roles: list[str] = []
    if has_source:
        roles += ["src", "adv_src"]
    if has_target:
        roles += ["out", "adv_out", "ref"]
    paths: dict[str, Path] = {}
    for role in ("src", "adv_src", "out", "adv_out", "ref"):
        name = getattr(args, role)
        if name is None:
            continue
        # This includes files that are ignored because their partner is missing: a wrong path is still a mistake.
        require_file(Path(name), role)
        if role in roles:
            paths[role] = Path(name)
    return paths


def _target_passes(s_tgt: Scorer, *, has_reference: bool) -> list[tuple[str, ...]]:
    """Return the roles that each pass over the target side compares."""
    if not has_reference:
        return [("adv_out", "out")]
    if has_own_decrease(s_tgt):
        return [("adv_out", "out", "ref")]
    return [("out", "ref"), ("adv_out", "ref")]


def _score(text: ParallelText, sides: Sequence[_ScoredSide], progress: Progress) -> list[str]:
    """Fill in the scores of every side, chunk by chunk; returns warnings about text that looks tokenized."""
    # A scorer that needs all lines at once gets them in one chunk.
    size = text.lines
    if all(works_by_chunks(side.scorer) for side in sides):
        size = min(side.scorer.chunk for side in sides)
    # File → number of lines that end like tokenized text.
    looks_tokenized = dict.fromkeys(text.files, 0)
    for side in sides:
        side.scores = [[] for _ in side.passes]
    done = 0
    progress(done, text.lines)
    for chunk in text.chunks(size, keep_bom=True):
        columns: dict[str, list[str]] = {}
        for role in text.files:
            lines = [row[role] for row in chunk]
            columns[role] = lines
            looks_tokenized[role] += sum(line.endswith(" .") for line in lines)
        for side in sides:
            for number, roles in enumerate(side.passes):
                try:
                    side.scores[number] += side.score(number, columns)
                except ScorerError as error:
                    raise _with_line(error, text.files[roles[0]].path, done) from error
        done += len(chunk)
        progress(done, text.lines)
    warnings = []
    for role, count in looks_tokenized.items():
        if count >= TOKENIZED_LINES:
            warnings.append(
                f"{text.files[role].path}: {count} lines end in ' .', so it looks tokenized; scores are meant for "
                f"plain text"
            )
    return warnings


def _with_line(error: ScorerError, path: Path, offset: int) -> PluginError:
    """The error with the file and the line; ``offset`` is the number of lines before the chunk."""
    if error.pair is None:
        return PluginError(f"{path}: {error.message}")
    return PluginError(f"{path}, line {offset + error.pair}: {error.message}")


def _lines(args: argparse.Namespace, sides: dict[str, _ScoredSide]) -> Iterator[str]:
    """The lines of the output, exactly as the original prints them."""
    if args.ref is None:
        yield _NOTE
    blocks: list[list[str]] = []
    s_src = np.empty(0)
    if "src" in sides:
        s_src = np.asarray(sides["src"].scores[0])
        blocks.append(_block(f"Source side preservation ({sides['src'].scorer.name}):", s_src, args))
    if "tgt" in sides:
        name = sides["tgt"].scorer.name
        if args.ref is None:
            target = np.asarray(sides["tgt"].scores[0])
            blocks.append(_block(f"Target side preservation ({name}):", target, args))
        else:
            scores = [np.asarray(scores) for scores in sides["tgt"].scores]
            # If there is only one pass, the scorer has computed d_tgt itself.
            target = scores[0] if len(scores) == 1 else criterion.relative_decrease(*scores)
            blocks.append(_block(f"Target side degradation (relative decrease in {name}):", target, args))
    if len(sides) == 2:
        succeeds = criterion.success(s_src, target, args.success_threshold, with_reference=args.ref is not None)
        rate = 100 * float(succeeds.mean())
        blocks.append([f"{rate:.3f}" if args.terse else f"Success percentage: {rate:.2f} %"])
    for number, block in enumerate(blocks):
        if number and not args.terse:
            yield "-" * 80
        yield from block


def _block(title: str, scores: criterion.Scores, args: argparse.Namespace) -> list[str]:
    """The lines that summarize one list of scores; with --terse only its mean."""
    summary = criterion.summarise(scores)
    mean = args.scale * summary.mean
    if args.terse:
        return [f"{mean:.3f}"]
    std = args.scale * summary.std
    p5 = args.scale * summary.p5
    p95 = args.scale * summary.p95
    return [title, f"Mean:\t{mean:.3f}", f"Std:\t{std:.3f}", f"5%-95%:\t{p5:.3f}-{p95:.3f}"]


def _incomplete_sides(args: argparse.Namespace) -> Iterator[str]:
    """Warnings about files that are ignored because their counterpart is missing."""
    for one, other in (("src", "adv_src"), ("adv_src", "src"), ("out", "adv_out"), ("adv_out", "out")):
        if getattr(args, one) is not None and getattr(args, other) is None:
            yield f"--{one.replace('_', '-')} is ignored without --{other.replace('_', '-')}"


def _byte_order_marks(text: ParallelText) -> Iterator[str]:
    for file in text.files.values():
        if file.bom:
            yield f"{file.path} begins with a byte-order mark, which counts as a character here; remove it"


def _scorer_class(registry: Registry, key: str) -> type[Scorer]:
    scorer_class = registry.get("scorer", key, Path())
    if not (isinstance(scorer_class, type) and issubclass(scorer_class, Scorer)):
        raise PluginError(f"'{key}' is not a scorer: it must be a subclass of Scorer or a function with @scorer")
    return scorer_class


def _add_args(cls: type[Scorer], parser: argparse.ArgumentParser) -> None:
    try:
        cls.add_args(parser)
    except Exception as error:
        raise PluginError(f"add_args of the scorer {cls.__name__} failed: {error_with_location(error)}") from error


def _make(cls: type[Scorer], args: argparse.Namespace) -> Scorer:
    try:
        return cls.from_args(args)
    except LmassayError:
        raise
    except Exception as error:
        raise PluginError(f"from_args of the scorer {cls.__name__} failed: {error_with_location(error)}") from error
