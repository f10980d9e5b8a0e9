"""Damage input for some minutes: ``make fuzz``, or ``python -m tests.fuzzing --seconds 60 --seed 7 --only stores``.

Exits with 1 if a command ended in a way that it must not. Each such case is stored in tests/fuzzing/cases, where a test
repeats it from then on.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzzing.harness import CASES, Failure, Fuzzer, save_folder
from tests.fuzzing.kinds import KINDS, StoreKind


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run the fuzzers and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300, help="for all kinds together (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another number makes other cases (default: %(default)s)")
    parser.add_argument("--only", choices=sorted(KINDS), action="append", help="one kind of input; can be repeated")
    parser.add_argument("--number", type=int, help="cases of each kind; the time limit still applies")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default: %(default)s)")
    parser.add_argument(
        "--examples", type=int, default=StoreKind.EXAMPLES, help="examples in a results folder (default: %(default)s)"
    )
    parser.add_argument("--cases", type=Path, default=CASES, metavar="FOLDER", help="where failures are stored")
    options = parser.parse_args(arguments)
    names = options.only or sorted(KINDS)
    number_of_failures = 0
    with tempfile.TemporaryDirectory(prefix="lmassay-fuzz-") as folder:
        for name in names:
            start = time.perf_counter()
            kind = StoreKind(options.examples) if name == "stores" else KINDS[name]
            fuzzer = Fuzzer(name, kind, options.seed, Path(folder), options.first)
            fuzzer.report = functools.partial(_report, fuzzer, options.cases)
            finding = fuzzer.check_intact()
            if finding is not None:
                print(f"{name}: intact input: {finding.problem}\n{finding.output}", flush=True)
                number_of_failures += 1
            fuzzer.run(options.seconds / len(names), options.number)
            seconds = time.perf_counter() - start
            number_of_failures += len(fuzzer.failures)
            print(f"{name:<15} {fuzzer.cases:>6,} cases  {seconds:6.1f} s  {len(fuzzer.failures)} failures", flush=True)
    print(f"seed {options.seed}: {number_of_failures} failures")
    return 1 if number_of_failures else 0


def _report(fuzzer: Fuzzer, cases: Path, failure: Failure) -> None:
    """Store a failure as soon as it is found, and say where."""
    file = failure.save(cases)
    print(f"  case {failure.case}: {failure.finding.problem}\n    {'; '.join(failure.changes)}")
    print(f"    lmassay {' '.join(failure.finding.commands[-1])}")
    if file is None:
        kept = save_folder(failure, fuzzer.intact, Path(tempfile.gettempdir()) / "lmassay-fuzz-failures")
        print(f"    too large for the repository; kept in {kept}", flush=True)
    else:
        print(f"    stored in {file}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
