"""Where adversarial inputs come from: a file, a perturbation, a search over perturbations, or a gradient."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from lmassay.errors import ConfigError, closest
from lmassay.evaluations.robustness import DEFAULT_RATE
from lmassay.evaluations.robustness.perturbations.base import Perturber, make_perturber
from lmassay.plugins.data_options import InMemory
from lmassay.plugins.options import MISTAKE

# How many inputs are perturbed before a run, to see whether the attack changes them. The results are kept for the run,
# because a user's own perturbation may be slow.
INPUTS_CHECKED_BEFORE_RUN = 1000


class Search(BaseModel):
    """Try many perturbations of each sentence, and keep the one with the highest s_src + d_tgt.

    ``budget`` is the number of queries to the system per sentence, including the one for the unperturbed sentence.
    Without ``beam``, all candidates are perturbations of the sentence itself (best of N). With it, the search has
    ``steps``, and each step perturbs the best ``beam`` candidates so far once more.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    perturbations: list[str] = ["charswap", "keyboard", "delete", "insert", "homoglyph"]
    rates: list[float] = [0.1, 0.3]
    budget: int = Field(default=10, ge=2, le=10_000)
    beam: int | None = Field(default=None, ge=1, le=1000, strict=True)
    steps: int = Field(default=3, ge=1, le=1000, strict=True)

    @model_validator(mode="after")
    def _fits_budget(self) -> Search:
        if self.beam is None and "steps" in self.model_fields_set:
            raise ValueError("steps is for a beam search; give beam as well, or leave steps out")
        if self.beam is not None and self.budget - 1 < self.steps:
            raise ValueError(f"a beam search with {self.steps} steps needs a budget of at least {self.steps + 1}")
        return self


class Gradient(BaseModel):
    """Replace up to ``substitutions`` words, each time the one whose replacement increases the model's loss most.

    The loss is that of the reference or, without one, of the output without attack. Its increase is estimated from the
    gradient by a first-order approximation, so the attack needs the model's weights (a white-box attack).

    ``kind`` is what a word is replaced by: any other token (``unconstrained``), one of its ``k`` nearest neighbours in
    embedding space (``knn``), or the same word with two letters swapped, so that the model's vocabulary does not have
    it (``charswap``). ``budget`` is the number of queries per sentence, including the one for the unperturbed sentence;
    a backward pass counts as one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["unconstrained", "knn", "charswap"]
    k: int = Field(default=10, ge=1, le=10_000, strict=True)
    substitutions: int = Field(default=3, ge=1, le=1000, strict=True)
    budget: int = Field(default=10, ge=3, le=10_000, strict=True)

    @model_validator(mode="after")
    def _fits_budget(self) -> Gradient:
        if self.kind != "knn" and "k" in self.model_fields_set:
            raise ValueError("k is for kind: knn; leave it out")
        least = 1 + 2 * self.substitutions
        if self.budget < least:
            raise ValueError(
                f"{self.substitutions} substitutions need a budget of at least {least}: one query for the sentence "
                f"itself, and for each substitution a backward pass and a query"
            )
        return self


class Attack(BaseModel):
    """One attack of a configuration: ``charswap``, or ``{name: …, file: adv.fr}``, ``{name: …, search: {…}}``
    or ``{name: …, gradient: {…}}``.

    ``name`` is what tables show; it is also the perturbation, unless ``perturb``, ``file``, ``search`` or ``gradient``
    is given. ``rate``, ``redraws`` and ``options`` are only for a single perturbation; ``seed`` is also for a search or
    a gradient attack. ``redraws`` is how often at most a perturbation is repeated for a sentence that it left
    unchanged: with a low rate and some redraws, almost every sentence gets one small change.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    file: Annotated[Path | None, InMemory("texts")] = None
    perturb: str | None = None
    rate: float = Field(default=DEFAULT_RATE, ge=0, le=1, allow_inf_nan=False)
    seed: int = 0
    redraws: int = Field(default=0, ge=0, le=1000, strict=True)
    options: dict[str, Any] = {}
    search: Search | None = None
    gradient: Gradient | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Mapping) and not value.keys() & {"file", "search", "gradient"}:
            for key in value:
                # A key that resembles one of Attack's own keys is left to the usual error, which suggests that key.
                if key not in cls.model_fields and closest(str(key), cls.model_fields) is None:
                    # The message is a template whose braces are placeholders, so literal braces are passed as values.
                    raise PydanticCustomError(
                        MISTAKE,
                        "unknown key '{key}'; options of the perturbation belong in options: {brace}{key}: …{close}",
                        {"key": str(key), "brace": "{", "close": "}"},
                    )
        return value

    @model_validator(mode="after")
    def _one_source(self) -> Attack:
        sources = [part for part in (self.file, self.perturb, self.search, self.gradient) if part is not None]
        if len(sources) > 1:
            raise ValueError("give only one of file, perturb, search and gradient")
        if not (self.name or self.perturb or self.file or self.search or self.gradient):
            raise ValueError("give a name, a file, a perturbation, a search or a gradient")
        for source, kind in (
            (self.file, "file of attacked texts"),
            (self.search, "search"),
            (self.gradient, "gradient attack"),
        ):
            if source is None:
                continue
            for option in ("rate", "redraws", "options"):
                if option in self.model_fields_set:
                    raise ValueError(f"{option} has no effect on a {kind}; leave it out")
        return self

    @property
    def label(self) -> str:
        """The name of the attack in tables, without options. If a sweep varies options, labels of runs name them."""
        if self.name and (self.file or self.perturb or self.search or self.gradient):
            return self.name
        if self.file is not None:
            return self.file.name
        if self.search is not None:
            return f"search ({', '.join(self.search.perturbations)})"
        if self.gradient is not None:
            return f"gradient ({self.gradient.kind})"
        return self.name or str(self.perturb)


@dataclass(frozen=True, slots=True)
class AttackCandidate:
    """One adversarial sentence, and the perturbation that made it."""

    text: str
    made_by: str


class CandidateMaker:
    """Makes the candidates for a sentence: one for a single perturbation, up to ``budget`` - 1 for a search."""

    def __init__(self, attack: Attack, base_dir: Path) -> None:
        self._search = attack.search
        if attack.search is None:
            perturber = make_perturber(
                attack.perturb or attack.name,
                rate=attack.rate,
                seed=attack.seed,
                options=attack.options,
                base=base_dir,
                redraws=attack.redraws,
                key="task.attack.options",
            )
            self._perturbers = [perturber]
            self._perturbed = lru_cache(INPUTS_CHECKED_BEFORE_RUN)(perturber)
        else:
            if not attack.search.perturbations or not attack.search.rates:
                raise ConfigError("task.attack.search: give at least one perturbation and one rate")
            self._perturbers = list(perturbers_of(attack.search, attack.seed, base_dir))

    @property
    def signature(self) -> str:
        """Everything that the candidates depend on."""
        if self._search is None:
            return self._perturbers[0].signature
        names = perturbation_names(self._search, self._perturbers)
        rates = ",".join(f"{rate:g}" for rate in self._search.rates)
        return f"search({names}|rates:{rates}|budget:{self._search.budget}|seed:{self._perturbers[0].seed})"

    @property
    def max_candidates(self) -> int:
        """How many candidates a sentence has at most."""
        if self._search is None:
            return 1
        return self._search.budget - 1

    def changes(self, text: str, index: int) -> bool:
        """Whether a candidate differs from ``text``. This needs no model, not even for a search."""
        if self._search is None:
            return self._perturbed(text, index) != text
        return any(perturber(text, index) != text for perturber in self._perturbers)

    def could_change(self, text: str, index: int) -> bool:
        """Whether a candidate would differ from ``text`` if every word were changed."""
        for perturber in self._perturbers:
            at_full_rate = replace(perturber, rate=1.0)
            if at_full_rate(text, index) != text:
                return True
        return False

    def candidates(self, text: str, index: int) -> list[AttackCandidate]:
        """The candidates, at least one.

        Those of a search are distinct and differ from ``text``; if no perturbation changes it, it is the only one.
        """
        if self._search is None:
            return [AttackCandidate(self._perturbed(text, index), self._perturbers[0].name)]
        candidates: dict[str, AttackCandidate] = {}
        for perturber in self._perturbers:
            changed = perturber(text, index)
            if changed != text and changed not in candidates:
                candidates[changed] = AttackCandidate(changed, f"{perturber.name}@{perturber.rate:g}")
                if len(candidates) == self.max_candidates:
                    break
        return list(candidates.values()) or [AttackCandidate(text, "none")]


def perturbation_names(search: Search, perturbers: Sequence[Perturber]) -> str:
    """The perturbations of a search as its signature names them: a user's own function with the hash of its source."""
    perturber_of_name = {perturber.name: perturber for perturber in perturbers}
    names = []
    for name in search.perturbations:
        perturber = perturber_of_name.get(name)
        if perturber is not None and perturber.source:
            names.append(f"{perturber.short_name}[{perturber.source}]")
        else:
            # A perturbation that the budget does not reach has no perturber.
            names.append(name)
    return ",".join(names)


def perturbers_of(search: Search, seed: int, base_dir: Path) -> Iterator[Perturber]:
    """Perturbers in rounds: each perturbation at each rate, then again with another seed, enough to fill the budget."""
    # Every perturbation is tried at the first rate before the second rate is used, so that even a small budget covers
    # different kinds of change.
    kinds = []
    for rate in search.rates:
        kinds += [(name, rate) for name in search.perturbations]
    # Many draws repeat an earlier one or change nothing, so there are twice as many draws as the budget allows.
    for draw in range(2 * search.budget):
        name, rate = kinds[draw % len(kinds)]
        # Each round has another seed; with the same one, it would repeat the changes of the first.
        seed_of_round = seed + draw // len(kinds)
        yield make_perturber(name, rate=rate, seed=seed_of_round, options={}, base=base_dir)
