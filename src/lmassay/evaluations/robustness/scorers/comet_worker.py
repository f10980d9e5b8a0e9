"""Computes COMET scores in a separate environment: reads requests and writes answers as lines of JSON.

This file is run by a Python that has unbabel-comet and need not have lmassay, so it imports nothing of lmassay. The
first answer says that the model is loaded, or why it is not; each later one answers a request.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Load the checkpoint that the command line names, then answer requests until standard input ends."""
    # Libraries print to standard output, which would spoil the answers; they get standard error instead.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    # Python usually searches this file's folder first (not with PYTHONSAFEPATH), and lmassay's own module there is also
    # called comet.
    if Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
        del sys.path[0]
    checkpoint, batch_size, gpus = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        from comet import load_from_checkpoint

        model = load_from_checkpoint(checkpoint)
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return
    answer({"ready": True})
    for line in sys.stdin:
        try:
            samples = json.loads(line)["samples"]
            output = model.predict(samples, batch_size=batch_size, gpus=gpus, progress_bar=False)
            answer({"scores": [float(score) for score in output["scores"]]})
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
