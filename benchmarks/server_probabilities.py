"""How far the probabilities of a llama.cpp server are from those of the same model inside lmassay.

    python -m benchmarks.server_probabilities --slots 150

It serves the embedded model twice: its own file, with weights of 4 bits, and a file with the same weights as float32.
For weights of 4 bits, llama.cpp also rounds the activations, to 8 bits; lmassay does not. With float32 weights, both
compute the same. So the second file shows whether lmassay reads the server correctly, and the first one shows what the
rounding changes.

Exits with 1 if the float32 file has another best word in more than 2 % of the blanks, or if a best word that differs,
of either file, is not a near tie for the local model. Needs xllamacpp and the embedded model; takes 5 to 15 minutes.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, quants
from numpy.typing import NDArray
from tests.llama import llama_server

from lmassay.contracts import Model, ask
from lmassay.models import embedded
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.models.hf.model import SmolLM2
from lmassay.running.config import expand
from lmassay.running.planning import plan
from lmassay.types import Candidates, Slot

_CONSTRUCTIONS = {
    "Simple": "english:simple",
    "In a sentential complement": "english:sentential_complement",
    "VP coordination": ["english:vp_coordination", "english:long_vp_coordination"],
    "Across prepositional phrase": "english:across_pp",
    "Across subject relative clause": "english:across_subject_relative",
    "Across object relative clause": "english:across_object_relative",
    "In object relative clause": "english:in_object_relative",
}
# Words below this log-probability do not matter for a decision.
_IMPROBABLE = -10.0
# In nats: for the local model, the server's best word is at most this much less probable than its own.
_NEAR_TIE = 0.15
_REQUIRED_AGREEMENT = 0.98
# The value of general.file_type for a file whose tensors are all float32.
_ALL_FLOAT32 = 0


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A blank for which the server has another best word than the local model."""

    left: str
    server_word: str
    local_word: str
    gap: float
    """How much less probable the server's word is than the local model's own, for the local model, in nats."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The server's probabilities at all blanks, compared with the local model's."""

    blanks: int
    words: int
    disagreements: tuple[Disagreement, ...]
    differences: NDArray[np.float64]
    """Absolute differences of log-probabilities, for every word of one token at every blank."""
    probable_differences: NDArray[np.float64]
    """The same, only for words above ``_IMPROBABLE``."""

    @property
    def agreement(self) -> float:
        """The share of blanks with the same best word."""
        return 1 - len(self.disagreements) / self.blanks

    @property
    def has_only_near_ties(self) -> bool:
        """Whether every best word that differs is a near tie."""
        return all(disagreement.gap < _NEAR_TIE for disagreement in self.disagreements)


def distinct_slots(count: int) -> list[Slot]:
    """Return a random sample of the blanks in the constructions of the card."""
    syntax = {"name": "syntax", "data": _CONSTRUCTIONS, "max_per_file": 20}
    (config,) = expand({"task": syntax, "model": "smollm2"}, Path())
    task = plan(config).task
    by_context: dict[str, Slot] = {}
    for example in task.examples():
        for request in task.requests(example):
            assert isinstance(request, Slot)
            by_context[request.left] = request
    slots = list(by_context.values())
    random.Random(0).shuffle(slots)
    return slots[:count]


def logprobs_of(model: Model, slots: Sequence[Slot]) -> list[NDArray[np.float64]]:
    """Return the log-probabilities of all words at each blank."""
    by_index: dict[int, NDArray[np.float64]] = {}
    for index, response in ask(model, "slot", slots):
        if not isinstance(response.answer, Candidates):
            raise SystemExit(f"no answer: {response.error}")
        by_index[index] = np.array(response.answer.logprobs, dtype=np.float64)
    return [by_index[index] for index in range(len(slots))]


def compare(
    slots: Sequence[Slot], from_server: Sequence[NDArray[np.float64]], from_local: Sequence[NDArray[np.float64]]
) -> Comparison:
    """Compare the log-probabilities of a server with those of the local model."""
    disagreements = []
    differences = []
    probable_differences = []
    for slot, server, local in zip(slots, from_server, from_local, strict=True):
        # Words of several tokens are NaN, for both.
        is_scored = ~np.isnan(local)
        if not np.array_equal(is_scored, ~np.isnan(server)):
            raise SystemExit(f"{slot.left!r}: the server and the local model do not score the same words")
        difference = np.abs(server - local)
        differences.append(difference[is_scored])
        probable_differences.append(difference[is_scored & (local > _IMPROBABLE)])
        best_of_server = int(np.nanargmax(server))
        best_of_local = int(np.nanargmax(local))
        if best_of_server != best_of_local:
            gap = float(local[best_of_local] - local[best_of_server])
            words = slot.candidates
            disagreements.append(Disagreement(slot.left, words[best_of_server], words[best_of_local], gap))
    return Comparison(
        blanks=len(slots),
        words=len(slots[0].candidates),
        disagreements=tuple(disagreements),
        differences=np.concatenate(differences),
        probable_differences=np.concatenate(probable_differences),
    )


def write_float32(quantized: Path, target: Path) -> None:
    """Write the model of a GGUF file again, with the same weights as float32."""
    reader = GGUFReader(quantized)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(target, architecture)
    for name, field in reader.fields.items():
        # The writer adds these itself; there is no quantization in the new file.
        if name.startswith("GGUF.") or name in ("general.architecture", "general.quantization_version"):
            continue
        value_type = field.types[0]
        item_type = field.types[-1] if value_type == GGUFValueType.ARRAY else None
        value = _ALL_FLOAT32 if name == "general.file_type" else field.contents()
        writer.add_key_value(name, value, value_type, sub_type=item_type)
    for tensor in reader.tensors:
        weights = quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def print_comparison(name: str, comparison: Comparison) -> None:
    """Print the agreement, the differences and every blank with another best word."""
    same = comparison.blanks - len(comparison.disagreements)
    print(f"{name}:")
    print(
        f"  same best word: {same} of {comparison.blanks} blanks ({comparison.agreement:.1%}), "
        f"{comparison.words:,} words per blank"
    )
    for label, values in (
        ("all words", comparison.differences),
        (f"words above {_IMPROBABLE:g}", comparison.probable_differences),
    ):
        print(
            f"  difference of log-probabilities, {label}: mean {values.mean():.4f}, maximum {values.max():.4f}, "
            f"n = {len(values):,}"
        )
    for disagreement in sorted(comparison.disagreements, key=lambda disagreement: disagreement.gap):
        print(
            f"  {disagreement.left!r}: {disagreement.server_word} instead of {disagreement.local_word}, "
            f"gap {disagreement.gap:.3f}"
        )


def problems_of(name: str, comparison: Comparison, required_agreement: float) -> list[str]:
    """Return which requirements a comparison does not meet, one line each."""
    problems = []
    if comparison.agreement < required_agreement:
        problems.append(f"{name}: the best word is the same in only {comparison.agreement:.1%} of the blanks")
    if not comparison.has_only_near_ties:
        largest = max(disagreement.gap for disagreement in comparison.disagreements)
        problems.append(f"{name}: a best word that differs is not a near tie, gap {largest:.3f}")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=150, help="the number of blanks, at most 160")
    options = parser.parse_args()
    slots = distinct_slots(options.slots)
    from_local = logprobs_of(SmolLM2(), slots)
    quantized = embedded.fetch_gguf("smollm2", print)
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        float32 = Path(folder) / "SmolLM2-135M-Instruct.F32.gguf"
        write_float32(quantized, float32)
        # The agreement is required of the file with which the server computes what the local model computes.
        for file, required_agreement in ((quantized, 0.0), (float32, _REQUIRED_AGREEMENT)):
            with llama_server(file, Path(folder) / "log") as url:
                server = OpenAICompatible("smollm2", url, probabilities="llama.cpp", concurrency=2)
                comparison = compare(slots, logprobs_of(server, slots), from_local)
            print_comparison(file.name, comparison)
            problems += problems_of(file.name, comparison, required_agreement)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
