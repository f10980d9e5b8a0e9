"""Facts about BLiMP's paradigms (Warstadt et al. 2020): where they belong, and published accuracies on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import yaml


@dataclass(frozen=True, slots=True)
class Paradigm:
    """One of the 67 sets of pairs; ``human`` and ``gpt2`` are published accuracies between 0 and 1."""

    name: str
    field: str
    phenomenon: str
    human: float
    gpt2: float


@cache
def paradigms() -> Mapping[str, Paradigm]:
    """Return all paradigms by the UID that their rows carry.

    >>> paradigms()["adjunct_island"].phenomenon
    'island_effects'
    """
    text = files("lmassay.evaluations.syntax").joinpath("blimp.yaml").read_text(encoding="utf-8")
    by_uid = {}
    for field, phenomena in yaml.safe_load(text).items():
        for phenomenon, members in phenomena.items():
            for name, facts in members.items():
                by_uid[name] = Paradigm(name, field, phenomenon, float(facts["human"]), float(facts["gpt2"]))
    return MappingProxyType(by_uid)
