"""Speed of sentence chrF and BLEU against sacrebleu called sentence by sentence, in one run.

    python benchmarks/robustness.py [--pairs 50000]

The pairs are those of TEAPOT's translation example ($LMASSAY_SHARED, else ../shared), varied from cycle to cycle so
that all lines differ; without that folder they are made up. Exits with 1 if any score differs by 1e-9 or more.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import sacrebleu

from lmassay.evaluations.robustness.kernels.backend import ENGINE_VARIABLE, Scores, numba_is_usable
from lmassay.evaluations.robustness.scorers.bleu import bleu_scores
from lmassay.evaluations.robustness.scorers.chrf import chrf_scores

# numba imports the package `coverage`, and coverage.py in this folder has the same name. Without this folder on the
# path, the package is imported.
_HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]

TOLERANCE = 1e-9
REPEATS = 3
ATTACKS = ("charswap", "knn", "unconstrained")
# All that a run of `lmassay teapot` compares: adversarial with original source, outputs with reference.
FILE_PAIRS = [
    *[(f"adv.{attack}.fr", "src.fr") for attack in ATTACKS],
    *[(f"adv.{attack}.en", "ref.en") for attack in ATTACKS],
    ("base.en", "ref.en"),
]
VOCABULARY = (
    "the a of and to in that it was he she they with for on at by from which this had not but are one were all when "
    "said there been their would more some time people year government company number world area course system group "
    "problem service place case week point fact, however, although because 12 3.5 1,000 (about) state-of-the-art"
)


@dataclass(frozen=True)
class ScorerTiming:
    wall: float
    cpu: float


@dataclass(frozen=True)
class Contender:
    name: str
    cores: int
    score: Callable[[list[str], list[str]], Scores]
    repeats: int = REPEATS


@dataclass(frozen=True)
class Metric:
    name: str
    reference: Callable[[str, str], float]
    contenders: list[Contender]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=50_000, help="how many pairs to score (default: %(default)s)")
    pairs: int = parser.parse_args().pairs
    os.environ.pop(ENGINE_VARIABLE, None)  # it would override the engines named below

    source, hyps, refs = make_pairs(pairs)
    characters = statistics.mean(map(len, hyps + refs))
    print(f"{pairs} pairs from {source}, {characters:.0f} characters a line; load now {load()}")
    print(f"Python {platform.python_version()}, numpy {np.__version__}, sacrebleu {sacrebleu.__version__}")
    warm_up()
    print()
    print(f"{'':5}{'engine':<26}{'cores':>5}{'pairs/CPU-s':>13}{'ratio':>8}", end="")
    print(f"{'pairs/wall-s':>14}{'ratio':>8}{'max diff':>11}")
    worst = max(measure(metric, hyps, refs) for metric in metrics())
    print("\nRatios are against sacrebleu in this run; with two cores the wall ratio counts, with one the CPU ratio.")
    if not worst < TOLERANCE:
        print(f"scores differ by {worst:.1e}, more than {TOLERANCE:.0e}", file=sys.stderr)
        return 1
    return 0


def metrics() -> list[Metric]:
    return [
        Metric(
            "chrF",
            lambda hyp, ref: float(sacrebleu.sentence_chrf(hyp, [ref]).score) / 100,
            [
                Contender(f"lmassay, {engine}", cores, chrf_with(engine, cores))
                for engine in ("numpy", "numba")
                for cores in (1, 2)
                if engine == "numpy" or numba_is_usable()
            ],
        ),
        Metric("BLEU", reference_bleu, bleu_contenders()),
    ]


def reference_bleu(hyp: str, ref: str) -> float:
    score = sacrebleu.sentence_bleu(hyp, [ref], smooth_method="floor", smooth_value=0.01).score
    return min(float(score) / 100, 1.0)


def bleu_contenders() -> list[Contender]:
    # Measured once: sacrebleu's tokenizer caches lines, so a second round would be faster than the first.
    contenders = [Contender("lmassay, without numba", 1, bleu_with("numpy", 1), repeats=1)]
    if numba_is_usable():
        contenders += [Contender("lmassay, numba", cores, bleu_with("numba", cores)) for cores in (1, 2)]
    return contenders


def chrf_with(engine: str, threads: int) -> Callable[[list[str], list[str]], Scores]:
    return lambda hyps, refs: chrf_scores(hyps, refs, engine=engine, threads=threads)


def bleu_with(engine: str, threads: int) -> Callable[[list[str], list[str]], Scores]:
    return lambda hyps, refs: bleu_scores(hyps, refs, engine=engine, threads=threads)


def warm_up() -> None:
    """Load or compile outside the timing, and say how long it took."""
    if not numba_is_usable():
        print("numba is not installed: pip install 'lmassay[fast]'")
        return
    for name, score in (("chrF", chrf_with("numba", 1)), ("BLEU", bleu_with("numba", 1))):
        took, _ = timed(partial(score, ["warm"], ["up"]))
        print(f"warm-up of compiled {name} (load, or compile at the first run): {took.wall:.1f} s")


def measure(metric: Metric, hyps: list[str], refs: list[str]) -> float:
    """Print the rows of a metric; returns the largest difference of any score."""
    base, expected = timed(partial(score_one_by_one, metric, hyps, refs))
    print_row(metric.name, "sacrebleu, call by call", 1, len(hyps), base, base, "")
    worst = 0.0
    for contender in metric.contenders:
        timings = []
        for _ in range(contender.repeats):
            took, scores = timed(partial(contender.score, hyps, refs))
            timings.append(took)
        difference = float(np.abs(scores - expected).max(initial=0.0))
        typical = ScorerTiming(statistics.median(t.wall for t in timings), statistics.median(t.cpu for t in timings))
        print_row(metric.name, contender.name, contender.cores, len(hyps), typical, base, f"{difference:.1e}")
        worst = max(worst, difference)
    return worst


def score_one_by_one(metric: Metric, hyps: list[str], refs: list[str]) -> Scores:
    scores = np.empty(len(hyps))
    for index, (hyp, ref) in enumerate(zip(hyps, refs, strict=True)):
        scores[index] = metric.reference(hyp, ref)
        if index % 1000 == 0:
            print(f"\rsacrebleu {metric.name}: {index} of {len(hyps)}", end="", file=sys.stderr, flush=True)
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)
    return scores


def timed(function: Callable[[], Scores]) -> tuple[ScorerTiming, Scores]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return ScorerTiming(time.perf_counter() - wall, time.process_time() - cpu), result


def print_row(
    metric: str, name: str, cores: int, pairs: int, took: ScorerTiming, base: ScorerTiming, difference: str
) -> None:
    print(
        f"{metric:5}{name:<26}{cores:>5}{pairs / took.cpu:>13,.0f}{base.cpu / took.cpu:>7.1f}x"
        f"{pairs / took.wall:>14,.0f}{base.wall / took.wall:>7.1f}x{difference:>11}",
        flush=True,
    )


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def make_pairs(count: int) -> tuple[str, list[str], list[str]]:
    """Return where the pairs come from, the hypotheses and the references."""
    shared = Path(os.environ.get("LMASSAY_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    folder = shared / "data" / "teapot" / "MT"
    if folder.is_dir():
        source, originals = str(folder), read_pairs(folder)
    else:
        source, originals = "made-up sentences", made_up_pairs(7000)
    varied = [variation(*originals[n % len(originals)], cycle=n // len(originals)) for n in range(count)]
    return source, [hyp for hyp, _ in varied], [ref for _, ref in varied]


def read_pairs(folder: Path) -> list[tuple[str, str]]:
    files = {name: (folder / name).read_text(encoding="utf-8").splitlines() for pair in FILE_PAIRS for name in pair}
    return [pair for hyp, ref in FILE_PAIRS for pair in zip(files[hyp], files[ref], strict=True)]


def made_up_pairs(count: int) -> list[tuple[str, str]]:
    chance = random.Random(1)
    words = VOCABULARY.split()
    pairs = []
    for _ in range(count):
        ref = " ".join(chance.choices(words, k=chance.randint(5, 35))) + "."
        letters = list(ref)
        for _ in range(chance.randint(1, 6)):
            index = chance.randrange(len(letters) - 1)
            letters[index : index + 2] = letters[index + 1], letters[index]
        pairs.append(("".join(letters), ref))
    return pairs


def variation(hyp: str, ref: str, cycle: int) -> tuple[str, str]:
    """Return a pair as it is in cycle 0; later, its words are rotated and the number of the cycle is inserted."""
    if not cycle:
        return hyp, ref

    def vary(text: str) -> str:
        words = text.split()
        turn = cycle % max(len(words), 1)
        return " ".join([*words[turn:], str(cycle), *words[:turn]])

    return vary(hyp), vary(ref)


if __name__ == "__main__":
    sys.exit(main())
