"""How far the probabilities of a llama.cpp server are from those of the same model inside lmassay.

    python benchmarks/server_probabilities.py http://127.0.0.1:8080/v1 --slots 100

The server must serve the embedded model (`lmassay models get smollm2 --gguf` prints its file).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lmassay.contracts import Model, ask
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.models.hf.model import SmolLM2
from lmassay.running.config import read_config
from lmassay.running.planning import plan
from lmassay.types import Candidates, Slot

_EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "syntax.yaml"
# Words below this log-probability do not matter for a decision.
_IMPROBABLE = -10.0
# In nats: about the mean difference between the two computations of a log-probability.
_NEAR_TIE = 0.1


def distinct_slots(count: int) -> list[Slot]:
    """A random sample of the blanks of the syntax example."""
    (config,) = read_config(_EXAMPLE, ["task.max_per_file=20"], None).runs()
    task = plan(config).task
    by_context: dict[str, Slot] = {}
    for example in task.examples():
        for request in task.requests(example):
            assert isinstance(request, Slot)
            by_context[request.left] = request
    slots = list(by_context.values())
    random.Random(0).shuffle(slots)
    return slots[:count]


def logprobs_of(model: Model, slots: Sequence[Slot]) -> dict[int, NDArray[np.float64]]:
    """The log-probabilities of all words at each blank."""
    columns: dict[int, NDArray[np.float64]] = {}
    for index, response in ask(model, "slot", slots):
        if not isinstance(response.answer, Candidates):
            raise SystemExit(f"no answer: {response.error}")
        columns[index] = np.array(response.answer.logprobs, dtype=np.float64)
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--slots", type=int, default=100)
    options = parser.parse_args()
    slots = distinct_slots(options.slots)
    server = OpenAICompatible("smollm2", options.url, probabilities="llama.cpp", concurrency=2)
    from_server = logprobs_of(server, slots)
    from_local = logprobs_of(SmolLM2(), slots)
    differences: list[float] = []
    probable: list[float] = []
    same_best = 0
    gaps: list[float] = []
    # The distance between the local model's best two words, for blanks with the same best word and for the others.
    margins: list[tuple[float, bool]] = []
    for index, slot in enumerate(slots):
        remote = from_server[index]
        local = from_local[index]
        is_word = ~np.isnan(local)
        differences += np.abs(remote - local)[is_word].tolist()
        probable += np.abs(remote - local)[is_word & (local > _IMPROBABLE)].tolist()
        best_remote, best_local = int(np.nanargmax(remote)), int(np.nanargmax(local))
        second, best = np.sort(local[is_word])[-2:]
        margins.append((float(best - second), best_remote == best_local))
        if best_remote == best_local:
            same_best += 1
        else:
            gap = float(local[best_local] - local[best_remote])
            gaps.append(gap)
            print(f"{slot.left!r}: {slot.candidates[best_remote]} instead of {slot.candidates[best_local]}, {gap:.3f}")
    print(f"{same_best} of {len(slots)} blanks have the same best of {len(slots[0].candidates)} words")
    if gaps:
        print(f"for the local model, the other best words are {min(gaps):.3f} to {max(gaps):.3f} nats less probable")
    clear = [is_same for margin, is_same in margins if margin > _NEAR_TIE]
    print(f"{sum(clear)} of {len(clear)} where its best two words are more than {_NEAR_TIE:g} nats apart")
    print(f"difference of log-probabilities: mean {np.mean(differences):.4f}, maximum {max(differences):.4f}")
    print(f"words above {_IMPROBABLE:g}: mean {np.mean(probable):.4f}, maximum {max(probable):.4f}")


if __name__ == "__main__":
    main()
