"""Do white-box attacks find more than random ones at the same budget?

    python benchmarks/whitebox.py [--seeds 10] [--sentences 25] [--model FOLDER]

A tiny T5 is trained to translate the two numbers in a sentence and to leave out its other words (about half a minute;
``--model`` keeps it for the next time), and attacked on other sentences. Every gradient attack has a random counterpart
that draws from the same substitutions: up to two words, each replaced by any token, one of its ten nearest neighbours,
or its own letters in another order. Both have the same budget of queries per sentence; a backward pass counts as a
query. Every seed has its own sentences.

A gradient can only help if some words matter more than others. In a translation word by word, all of them matter;
``--word-by-word`` attacks such a model instead, and there a difference is not to be expected.

For each attack: the success rate of both, and the paired difference over seeds with its 95 % interval (Student's t).
Exit code 1 if the interval of a difference does not lie above 0.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

KINDS = ("unconstrained", "knn", "charswap")
NEIGHBOURS = 10
SUBSTITUTIONS = 2
# The sentence itself, and for each substitution one backward pass and one candidate.
BUDGET = 1 + 2 * SUBSTITUTIONS
MAX_TOKENS = 20
Pairs = list[tuple[str, str]]

# The random counterpart, as a user's own perturbation. Its rate has no meaning.
PERTURBATION = """
from lmassay import perturbation

REPLACEMENTS = {replacements}

@perturbation("random_{kind}")
def substitute(text, rng, rate):
    words = text.split()
    for position in rng.sample(range(len(words)), k=rng.randint(1, {substitutions})):
        words[position] = rng.choice(REPLACEMENTS[words[position]])
    return " ".join(words)
"""


@dataclass(frozen=True)
class Setting:
    """What all attacks share."""

    folder: Path
    model: Path
    sentences: int
    word_by_word: bool

    def pairs(self, count: int, seed: int) -> Pairs:
        """Return sentences with their translations."""
        from tests.models.hf import translators

        if self.word_by_word:
            return [(text, translators.translated(text)) for text in translators.sentences(count, seed, longest=8)]
        return translators.filled_sentences(count, seed)


def main() -> int:
    """Compare all kinds of attack and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sentences", type=int, default=25)
    parser.add_argument("--model", type=Path, help="folder of the trained model; it is trained there if it is missing")
    parser.add_argument("--word-by-word", action="store_true", help="attack a model for which all words matter")
    options = parser.parse_args()
    # The matrices are small, so further threads would only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # The model is built by the code that builds it for the tests.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        setting = Setting(folder, options.model or folder / "model", options.sentences, options.word_by_word)
        prepare(setting)
        print(f"model ready after {time.monotonic() - started:.0f} s")
        rates: dict[str, dict[str, list[float]]] = {kind: {"gradient": [], "random": []} for kind in KINDS}
        for seed in range(options.seeds):
            for kind, rate_by_guide in attack_all(setting, seed).items():
                for guide, rate in rate_by_guide.items():
                    rates[kind][guide].append(rate)
    print(f"{options.seeds} seeds, {options.sentences} sentences each, {BUDGET} queries per sentence")
    all_above_zero = True
    for kind in KINDS:
        all_above_zero &= report(kind, rates[kind])
    print(f"{time.monotonic() - started:.0f} s")
    return 0 if all_above_zero else 1


def prepare(setting: Setting) -> None:
    """Train the model if needed, and write a random counterpart of each kind of attack."""
    from tests.models.hf import translators

    if not (setting.model / "config.json").is_file():
        translators.save_trained(setting.model, steps=600, pairs=setting.pairs(4000, seed=1))
    for kind in KINDS:
        replacements = {}
        for word in (*translators.WORDS, *translators.FILLERS):
            replacements[word] = replacements_of(word, kind, setting.model)
        code = PERTURBATION.replace("{kind}", kind).replace("{substitutions}", str(SUBSTITUTIONS))
        code = code.replace("{replacements}", json.dumps(replacements))
        (setting.folder / f"random_{kind}.py").write_text(code, encoding="utf-8")


def replacements_of(word: str, kind: str, model: Path) -> list[str]:
    """Return all replacements of a word that a gradient attack may use."""
    from lmassay.contracts import ask
    from lmassay.models.hf.model import HuggingFace
    from lmassay.types import Substitute, Substitutions

    candidates: Mapping[str, Any] = {"unconstrained": "any", "knn": "neighbours", "charswap": "unknown"}
    request = Substitute(word, "un", candidates[kind], neighbours=NEIGHBOURS, count=1000)
    ((_, response),) = ask(HuggingFace(str(model)), "gradients", [request])
    assert isinstance(response.answer, Substitutions)
    return [substitution.text for substitution in response.answer.items]


def attack_all(setting: Setting, seed: int) -> dict[str, dict[str, float]]:
    """Return the success rates of all attacks with one seed: kind → gradient or random → rate."""
    import lmassay

    folder = setting.folder
    pairs = setting.pairs(setting.sentences, seed=1000 + seed)
    (folder / "src.en").write_text("".join(f"{source}\n" for source, _ in pairs), encoding="utf-8")
    (folder / "ref.fr").write_text("".join(f"{reference}\n" for _, reference in pairs), encoding="utf-8")
    attacks: list[dict[str, Any]] = []
    for kind in KINDS:
        gradient = {"kind": kind, "budget": BUDGET, "substitutions": SUBSTITUTIONS}
        search = {"perturbations": [f"{folder}/random_{kind}.py:substitute"], "rates": [0.5], "budget": BUDGET}
        # A search draws with several consecutive seeds.
        attacks += [{"seed": 1000 * seed, "gradient": gradient}, {"seed": 1000 * seed, "search": search}]
    task = {"name": "robustness", "src": str(folder / "src.en"), "ref": str(folder / "ref.fr"), "attack": attacks}
    config = {"task": {**task, "max_tokens": MAX_TOKENS}, "model": {"name": "hf", "model": str(setting.model)}}
    runs = iter(lmassay.evaluate(config, folder / f"results-{seed}"))
    rates: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        rates[kind] = {}
        for guide in ("gradient", "random"):
            success = next(runs)["success"].value
            assert success is not None
            rates[kind][guide] = success
    return rates


def report(kind: str, rates: Mapping[str, Sequence[float]]) -> bool:
    """Print the comparison of one kind of attack; True if the interval of the difference lies above 0."""
    differences = np.subtract(rates["gradient"], rates["random"])
    n = len(differences)
    mean = float(differences.mean())
    margin = float(stdtrit(n - 1, 0.975) * differences.std(ddof=1) / n**0.5)
    low, high = mean - margin, mean + margin
    print(
        f"{kind:14} success: gradient {np.mean(rates['gradient']):.3f}, random {np.mean(rates['random']):.3f}, "
        f"difference {mean:+.3f} [{low:+.3f}, {high:+.3f}], n = {n} seeds"
    )
    return low > 0


if __name__ == "__main__":
    sys.exit(main())
