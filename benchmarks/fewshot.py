"""Speed of few-shot training, as ratios within one run.

    python benchmarks/fewshot.py                all of it, one after the other
    python benchmarks/fewshot.py micro          one micro-batch of PET compared with FewNLU: fewshot_micro.py
    python benchmarks/fewshot.py training       a whole training against FewNLU's loop: fewshot_training.py
    python benchmarks/fewshot.py intervals      two evaluation ratios in one training: fewshot_intervals.py
    python benchmarks/fewshot.py sweep          8 trainings on one process, two, and a Dask cluster: fewshot_sweep.py

Each has options to shorten it (--help). Models have random parameters and the size that is printed; their vocabulary is
made from FewGLUE's texts ($LMASSAY_SHARED, else ../shared). Exits with 1 if a target is missed or numbers differ.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PARTS = ("micro", "training", "intervals", "sweep")


def run(part: str, arguments: Sequence[str]) -> int:
    # One thread: CPU seconds are compared, and two processes must not take each other's core.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-m", f"benchmarks.fewshot_{part}", *arguments]
    return subprocess.run(command, cwd=Path(__file__).resolve().parents[1], env=environment).returncode


def main(argv: Sequence[str]) -> int:
    if not argv:
        return max(run(part, []) for part in PARTS)
    if argv[0] not in PARTS:
        print(__doc__)
        return 0 if argv[0] in ("-h", "--help") else 2
    return run(argv[0], argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
