"""Speed of the bias evaluation, as ratios within one run.

    python benchmarks/bias.py                          all of it, one after the other
    python benchmarks/bias.py steps [--all]            KoBBQ's steps on files: bias_steps.py
    python benchmarks/bias.py requests [--requests N]  questions to a server with latency and refusals: bias_requests.py

Exits with 1 if a target is missed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# Part → the arguments of each of its runs.
PARTS: dict[str, list[list[str]]] = {"steps": [[], ["--all"]], "requests": [[]]}


def run(part: str, arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, Path(__file__).with_name(f"bias_{part}.py"), *arguments]).returncode


def main(argv: Sequence[str]) -> int:
    if not argv:
        return max(run(part, arguments) for part, variants in PARTS.items() for arguments in variants)
    if argv[0] not in PARTS:
        print(__doc__)
        return 0 if argv[0] in ("-h", "--help") else 2
    return run(argv[0], argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
