"""Speed of KoBBQ's steps and of TEAPOT's program against another checkout of lmassay, alternating in one run.

    git worktree add /tmp/before COMMIT
    python benchmarks/side_by_side.py /tmp/before [--lines 1000000] [--rounds 5]

The inputs are made from those in tests/published/reference. Every measurement runs in a separate process, which imports
one of the two checkouts and measures the CPU-seconds of a single step, without start-up. The two take turns, and the
one that goes first changes from round to round. A ratio above 1 means that this checkout is faster. Exits with 1 if the
two write or print different bytes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import importlib
import io
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "tests" / "published" / "reference"
TOPIC, MODEL, PROMPT = "Own", "messy", 1
QUESTIONS = f"{TOPIC}_{PROMPT}.tsv"
PREDICTIONS = f"{TOPIC}_{PROMPT}_{MODEL}_predictions.tsv"
COLLECTED = f"{TOPIC}_{PROMPT}_{MODEL}.tsv"
STEPS = ("preprocess", "postprocess", "collect", "evaluate test", "evaluate all", "compare", "teapot")
# Where the two programs were before each evaluation had its own folder.
OLD_MODULES = {"steps": "lmassay.bias.steps", "teapot": "lmassay.robustness.teapot"}
NEW_MODULES = {
    "steps": "lmassay.evaluations.bias.kobbq.steps",
    "teapot": "lmassay.evaluations.robustness.teapot.program",
}


# --- inputs -----------------------------------------------------------------------------------------------------------


def write_inputs(folder: Path, copies: int, lines: int) -> None:
    """Write KoBBQ's samples and a model's raw answers, each many times with different ids, and TEAPOT's files."""
    inputs = REFERENCE / "kobbq" / "inputs"
    samples = (inputs / "Own_test_samples.tsv").read_bytes()
    raw = gzip.decompress((inputs / "raw" / f"Own_test_evaluation_{PROMPT}_{MODEL}_predictions.tsv.gz").read_bytes())
    (folder / "samples.tsv").write_bytes(repeated(samples, copies, "sample_id"))
    (folder / "raw.tsv").write_bytes(repeated(raw, copies, "guid"))
    (folder / "prompts.tsv").write_bytes((inputs / "0_own_prompts.tsv").read_bytes())
    for role in ("src", "adv", "out", "aout", "ref"):
        sentences = (REFERENCE / "teapot" / "inputs" / f"de.{role}").read_text(encoding="utf-8").splitlines()
        with (folder / f"teapot.{role}").open("w", encoding="utf-8") as stream:
            for number in range(lines):
                # The number of the repetition makes every line different.
                sentence = sentences[number % len(sentences)]
                stream.write(f"{sentence} {number // len(sentences)}\n")


def repeated(table: bytes, copies: int, column: str) -> bytes:
    """Return a TSV file with many copies of its rows, which have different template numbers in their ids."""
    header, *rows = csv.reader(io.StringIO(table.decode(), newline=""), delimiter="\t")
    index = header.index(column)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter="\t")
    writer.writerow(header)
    for copy in range(copies):
        for row in rows:
            category, template, rest = row[index].split("-", 2)
            number = int(template[:-1]) + 100 * copy
            writer.writerow([*row[:index], f"{category}-{number:03}{template[-1]}-{rest}", *row[index + 1 :]])
    return stream.getvalue().encode()


# --- one measurement, in a process that imports one checkout ----------------------------------------------------------


def module(kind: str, name: str = "") -> Any:
    for prefix in (NEW_MODULES[kind], OLD_MODULES[kind]):
        try:
            return importlib.import_module(f"{prefix}.{name}" if name else prefix)
        except ModuleNotFoundError:
            continue
    raise SystemExit(f"the checkout has no {kind} {name}")


def step(name: str, folder: Path) -> Callable[[], str]:
    """Return a function that runs a step and returns what the step prints."""
    prompts = folder / "prompts.tsv"
    if name == "teapot":
        run = module("teapot").run
        roles = {"--src": "src", "--adv-src": "adv", "--out": "out", "--adv-out": "aout", "--ref": "ref"}
        arguments: list[str] = []
        for option, role in roles.items():
            arguments += [option, str(folder / f"teapot.{role}")]
        return lambda: str(run(arguments).text)
    if name == "preprocess":
        preprocess = module("steps", name).preprocess
        paths = {"tsv_path": folder / QUESTIONS, "json_path": folder / "questions.json"}
        return lambda: str(preprocess(folder / "samples.tsv", prompts, PROMPT, **paths) and "")
    if name == "postprocess":
        (folder / PREDICTIONS).write_bytes((folder / "raw.tsv").read_bytes())
        postprocess = module("steps", name).postprocess
        return lambda: str(postprocess(folder / PREDICTIONS, folder / QUESTIONS).out_of_choice)
    if name == "collect":
        collect = module("steps", name).collect
        return lambda: str(collect(folder / PREDICTIONS, folder / QUESTIONS, folder / COLLECTED).out_of_choice)
    if name == "compare":
        compare = module("steps", name).compare
        return lambda: str(compare(str(folder / "result"), str(folder / "result"), ["1"], [MODEL])[0].text())
    evaluation = module("steps", "evaluate")
    mode = name.partition(" ")[2]

    def evaluate() -> str:
        results = list(evaluation.evaluate([MODEL], folder, TOPIC, mode, prompts, PROMPT))
        evaluation.write_results(folder / f"result_{PROMPT}.tsv", results)
        return ""

    return evaluate


def measure(name: str, folder: Path, repeat: int) -> None:
    """Print the fewest CPU-seconds of several tries, and a digest of all that was written and printed."""
    times, printed = [], ""
    for _ in range(repeat):
        work = step(name, folder)
        start = time.process_time()
        printed = work()
        times.append(time.process_time() - start)
    digest = hashlib.sha256(printed.encode())
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("teapot."):
            digest.update(path.read_bytes())
    print(json.dumps({"seconds": min(times), "digest": digest.hexdigest()}))


# --- both checkouts in turn -------------------------------------------------------------------------------------------


def measured(checkout: Path, name: str, folder: Path, repeat: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "", "--step", name, "--folder", str(folder), "--repeat", str(repeat)]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{checkout}: {name} failed:\n{done.stderr}")
    measurement: dict[str, Any] = json.loads(done.stdout)
    return measurement


def compare_all(other: Path, options: argparse.Namespace) -> bool:
    same = True
    print(f"  {'step':14} {'other':>9} {'this':>9}   other/this: median, lowest to highest of {options.rounds} rounds")
    with tempfile.TemporaryDirectory() as scratch:
        folders = {other: Path(scratch) / "other", ROOT: Path(scratch) / "this"}
        for folder in folders.values():
            folder.mkdir()
            write_inputs(folder, options.copies, options.lines)
        for name in options.steps or STEPS:
            repeat = 1 if name == "teapot" else options.repeat
            ratios: list[float] = []
            seconds = {other: math.inf, ROOT: math.inf}
            for number in range(options.rounds):
                order = [other, ROOT] if number % 2 == 0 else [ROOT, other]
                measurements: dict[Path, dict[str, Any]] = {}
                for checkout in order:
                    measurements[checkout] = measured(checkout, name, folders[checkout], repeat)
                    seconds[checkout] = min(seconds[checkout], measurements[checkout]["seconds"])
                same = same and measurements[other]["digest"] == measurements[ROOT]["digest"]
                ratios.append(measurements[other]["seconds"] / measurements[ROOT]["seconds"])
            spread = f"{statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}"
            print(f"  {name:14} {seconds[other]:8.3f}s {seconds[ROOT]:8.3f}s   {spread}", flush=True)
    print("the same bytes" if same else "THE BYTES DIFFER")
    return same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="folder of the other checkout")
    parser.add_argument("--lines", type=int, default=1_000_000, help="of TEAPOT's files (default: %(default)s)")
    parser.add_argument("--copies", type=int, default=40, help="of KoBBQ's 504 questions (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=5, help="tries of KoBBQ's steps per round; the best one counts")
    parser.add_argument("--steps", nargs="*", choices=STEPS)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        measure(options.step, options.folder, options.repeat)
        return 0
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores{load}; CPU-seconds, best of all tries")
    print(f"KoBBQ: {504 * options.copies:,} questions; TEAPOT: {options.lines:,} lines")
    return 0 if compare_all(options.other.resolve(), options) else 1


if __name__ == "__main__":
    sys.exit(main())
