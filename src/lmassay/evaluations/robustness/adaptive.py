"""Attacks that look at the system's answers before they continue: gradient-guided substitutions, and a beam search.

Everything that an attack has tried so far is in the example's inputs, in the same form as for a best-of-N search:
``adv_src`` has the candidates and ``made_by`` what made them. A killed run can therefore continue from cached answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from lmassay.evaluations.robustness.attack import (
    Attack,
    AttackCandidate,
    Gradient,
    Search,
    perturbation_names,
    perturbers_of,
)
from lmassay.types import Substitute, Substitutions

Inputs = Mapping[str, Any]
Spans = list[list[int]]

# ``made_by`` of a candidate that is the sentence itself, because nothing in it can be changed.
NOTHING = "none"
# The attack's ``kind`` → what the model is asked for, see ``Substitute.candidates``.
_CANDIDATES_OF = {"unconstrained": "any", "knn": "neighbours", "charswap": "unknown"}


class AdaptiveAttack(Protocol):
    """An attack whose next queries depend on the answers to earlier ones."""

    @property
    def signature(self) -> str:
        """Everything that the attack depends on."""

    @property
    def max_queries(self) -> int:
        """The largest number of queries per sentence, including the one for the sentence itself."""

    def first_inputs(self) -> Inputs:
        """What an attack adds to the inputs of an example before it begins."""

    def next_inputs(
        self, inputs: Inputs, fitness: Sequence[float], substitutions: Substitutions | None
    ) -> Inputs | None:
        """Return the inputs of an example, extended by what to try next; None if the attack is over.

        ``fitness`` has s_src + d_tgt of each candidate so far. ``substitutions`` is the answer to the last query, if
        that was a gradient query.
        """


def adaptive_attack(attack: Attack, base_dir: Path) -> AdaptiveAttack | None:
    """The adaptive attack of a configuration; None for attacks whose candidates do not depend on answers."""
    if attack.gradient is not None:
        return GradientAttack(attack.gradient, attack.seed)
    if attack.search is not None and attack.search.beam is not None:
        return BeamSearch(attack.search, attack.search.beam, attack.seed, base_dir)
    return None


# --- gradient-guided substitutions ------------------------------------------------------------------------------------


class GradientAttack:
    """Replaces one word per step, guided by a gradient. Each step continues from the best candidate of the last one."""

    def __init__(self, options: Gradient, seed: int) -> None:
        self._options = options
        self._seed = seed
        # The number of candidates of each step: its queries except one, the backward pass that recommends them.
        self._widths = [queries - 1 for queries in _queries_of_steps(options.budget - 1, options.substitutions)]

    @property
    def signature(self) -> str:
        options = self._options
        k = f"|k:{options.k}" if options.kind == "knn" else ""
        return (
            f"gradient({options.kind}{k}|substitutions:{options.substitutions}|budget:{options.budget}"
            f"|seed:{self._seed})"
        )

    @property
    def max_queries(self) -> int:
        return self._options.budget

    def first_inputs(self) -> Inputs:
        return {"adv_src": [], "made_by": [], "gradient_queries": [], "replaced": []}

    def next_inputs(
        self, inputs: Inputs, fitness: Sequence[float], substitutions: Substitutions | None
    ) -> Inputs | None:
        if substitutions is not None:
            return self._with_candidates(inputs, substitutions)
        if NOTHING in inputs["made_by"]:
            return None
        return self._with_query(inputs, fitness)

    def request(self, query: Mapping[str, Any], target: str, left: str, right: str) -> Substitute:
        """The request for a query that :meth:`next_inputs` has put into the inputs of an example."""
        return Substitute(
            query["text"],
            target,
            candidates=_CANDIDATES_OF[self._options.kind],  # type: ignore[arg-type]
            neighbours=self._options.k,
            count=query["count"],
            keep=tuple((start, end) for start, end in query["keep"]),
            seed=self._seed,
            left=left,
            right=right,
        )

    def _with_query(self, inputs: Inputs, fitness: Sequence[float]) -> Inputs | None:
        """Ask for substitutions in the best candidate of the last step, or in the sentence itself."""
        queries = inputs["gradient_queries"]
        if len(queries) == len(self._widths):
            return None
        text: str = inputs["src"]
        keep: Spans = []
        if queries:
            candidates_of_step = range(queries[-1]["before"], len(inputs["adv_src"]))
            best = max(candidates_of_step, key=lambda candidate: fitness[candidate])
            text = inputs["adv_src"][best]
            # A word is replaced only once.
            keep = inputs["replaced"][best]
        query = {
            "text": text,
            "keep": keep,
            # The candidates so far; those that this query recommends come after them.
            "before": len(inputs["adv_src"]),
            "count": self._widths[len(queries)],
        }
        return {**inputs, "gradient_queries": [*queries, query]}

    def _with_candidates(self, inputs: Inputs, substitutions: Substitutions) -> Inputs | None:
        """Try the substitutions that the gradient recommends; None if all of them have been tried before."""
        query = inputs["gradient_queries"][-1]
        texts = list(inputs["adv_src"])
        made_by = list(inputs["made_by"])
        replaced = list(inputs["replaced"])
        for item in substitutions.items:
            if item.text == inputs["src"] or item.text in texts:
                continue
            growth = len(item.text) - len(query["text"])
            spans = [[item.start, item.end]]
            for start, end in query["keep"]:
                # Words after the replacement have moved if its length differs from that of the word it replaces.
                shift = growth if start > item.start else 0
                spans.append([start + shift, end + shift])
            texts.append(item.text)
            made_by.append(f"{self._options.kind} x{len(spans)}")
            replaced.append(sorted(spans))
        if len(texts) > len(inputs["adv_src"]):
            return {**inputs, "adv_src": texts, "made_by": made_by, "replaced": replaced}
        if texts:
            return None
        return _with_nothing(inputs)


# --- beam search ------------------------------------------------------------------------------------------------------


class BeamSearch:
    """Perturbs the best candidates again: after each step, the ``beam`` best of all candidates so far are kept."""

    def __init__(self, search: Search, beam: int, seed: int, base_dir: Path) -> None:
        self._search = search
        self._beam = beam
        self._seed = seed
        self._perturbers = list(perturbers_of(search, seed, base_dir))
        # The number of candidates of each step.
        self._widths = _queries_of_steps(search.budget - 1, search.steps)

    @property
    def signature(self) -> str:
        search = self._search
        names = perturbation_names(search, self._perturbers)
        rates = ",".join(f"{rate:g}" for rate in search.rates)
        return (
            f"search({names}|rates:{rates}|budget:{search.budget}|beam:{self._beam}|steps:{search.steps}"
            f"|seed:{self._seed})"
        )

    @property
    def max_queries(self) -> int:
        return self._search.budget

    def first_inputs(self) -> Inputs:
        return {"adv_src": [], "made_by": [], "steps": 0}

    def next_inputs(
        self, inputs: Inputs, fitness: Sequence[float], substitutions: Substitutions | None
    ) -> Inputs | None:
        steps = inputs["steps"]
        if steps == len(self._widths) or NOTHING in inputs["made_by"]:
            return None
        candidates = self._new_candidates(inputs, self._starts(inputs, fitness), self._widths[steps])
        if candidates:
            texts = [candidate.text for candidate in candidates]
            origins = [candidate.made_by for candidate in candidates]
            return {
                **inputs,
                "adv_src": [*inputs["adv_src"], *texts],
                "made_by": [*inputs["made_by"], *origins],
                "steps": steps + 1,
            }
        if inputs["adv_src"]:
            return None
        return _with_nothing(inputs)

    def _starts(self, inputs: Inputs, fitness: Sequence[float]) -> list[AttackCandidate]:
        """What the next step perturbs: the sentence itself in the first step, then the best candidates so far.

        ``made_by`` of a start is the text to which the name of the next perturbation is appended.
        """
        if not inputs["adv_src"]:
            return [AttackCandidate(inputs["src"], "")]
        best_first = sorted(range(len(fitness)), key=lambda candidate: -fitness[candidate])
        starts = []
        for candidate in best_first[: self._beam]:
            starts.append(AttackCandidate(inputs["adv_src"][candidate], inputs["made_by"][candidate] + " + "))
        return starts

    def _new_candidates(self, inputs: Inputs, starts: Sequence[AttackCandidate], width: int) -> list[AttackCandidate]:
        """Up to ``width`` texts that have not been tried yet, drawn from all starts in turn."""
        tried = {inputs["src"], *inputs["adv_src"]}
        index = inputs["line"] - 1
        candidates: list[AttackCandidate] = []
        for perturber in self._perturbers:
            for start in starts:
                text = perturber(start.text, index)
                if text in tried:
                    continue
                tried.add(text)
                candidates.append(AttackCandidate(text, f"{start.made_by}{perturber.name}@{perturber.rate:g}"))
                if len(candidates) == width:
                    return candidates
        return candidates


def _with_nothing(inputs: Inputs) -> Inputs:
    """The inputs of a sentence in which nothing can be changed: the sentence itself is the only candidate."""
    return {**inputs, "adv_src": [inputs["src"]], "made_by": [NOTHING]}


def _queries_of_steps(queries: int, steps: int) -> list[int]:
    """Divide queries evenly among steps; the remaining ones go to the first steps, one each.

    >>> _queries_of_steps(9, 2)
    [5, 4]
    """
    each, left_over = divmod(queries, steps)
    return [each + 1] * left_over + [each] * (steps - left_over)
