"""The card: every evaluation that has a part in it, put to one or more models. All is planned before anything is asked.

Each part is an ordinary configuration, so that it can be run by itself and gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.contracts import CardVariant, Evaluation, Model, label_of
from lmassay.plugins.compatibility import as_model
from lmassay.plugins.evaluations import evaluations
from lmassay.plugins.hooks import call_hook, list_of
from lmassay.plugins.options import Spec, build, options_model, split_spec
from lmassay.plugins.registry import current_registry
from lmassay.running.config import RunConfig, expand
from lmassay.running.model_spec import model_spec

_VERBS = {
    "generate": "write text",
    "choices": "keep to given choices",
    "logprobs": "give log-probabilities",
    "slot": "rank words at a blank",
    "train": "be trained",
}


@dataclass(frozen=True, slots=True)
class PlannedEvaluation:
    """One evaluation of one model: its configuration, or why it is not applicable."""

    evaluation: str
    model: str
    config: Mapping[str, Any] | None
    folder: Path = Path()
    """Where relative paths in the configuration start."""
    reason: str = ""
    is_broken: bool = False
    """True if the reason is a mistake in the evaluation's package."""

    def runs(self) -> list[RunConfig]:
        """The runs as the store will know them."""
        if self.config is None:
            return []
        return expand(dict(self.config), self.folder, default_name=f"card {self.evaluation}")


@dataclass(frozen=True, slots=True)
class CardModel:
    """A model that was named."""

    spec: Spec
    label: str
    can: frozenset[str]


def card_models(words: Sequence[str], base: Path) -> list[CardModel]:
    """The models behind the words, each once, with labels that tell them apart where they can be given one."""
    found: dict[str, CardModel] = {}
    for word in words:
        spec = model_spec(word, base)
        name, options = split_spec(spec, "model")
        key = str((name, sorted(options.items(), key=str)))
        if key in found:
            continue
        model = _made(spec, word, base)
        label = label_of(model)
        alike = [other for other in found.values() if other.label.partition(" (")[0] == label]
        if alike and _takes_label(spec, base):
            label = f"{label} ({len(alike) + 1})"
            found[key] = CardModel({"name": name, **options, "label": label}, label, frozenset(model.can))
        else:
            found[key] = CardModel(spec, label, frozenset(model.can))
    return list(found.values())


def _made(spec: Spec, word: str, base: Path) -> Model:
    return as_model(build("model", spec, base), word)


def _takes_label(spec: Spec, base: Path) -> bool:
    """Whether a kind of model has the option ``label``."""
    name, _ = split_spec(spec, "model")
    return "label" in options_model(current_registry().get("model", name, base)).model_fields


def card_evaluations() -> list[Evaluation]:
    """The evaluations that have a part in the card."""
    return [evaluation for evaluation in evaluations() if evaluation.card is not None]


def plan_card(models: Sequence[CardModel], size: str, only: Sequence[str] = ()) -> list[PlannedEvaluation]:
    """Every evaluation of every model, evaluation by evaluation; ``only`` those named, if any are."""
    planned: list[PlannedEvaluation] = []
    for evaluation in card_evaluations():
        if evaluation.card is None or (only and evaluation.name not in only):
            continue
        variants = call_hook(evaluation, "card", evaluation.card, size, reads=_variants, otherwise=lambda: None)
        if variants is None:
            why = "the package's part of the card failed; see lmassay doctor"
            planned += [
                PlannedEvaluation(evaluation.name, model.label, None, reason=why, is_broken=True) for model in models
            ]
        else:
            planned += _parts(evaluation.name, models, variants)
    return planned


def _variants(value: Any) -> list[CardVariant] | None:
    return list_of(CardVariant)(value)


def _parts(evaluation: str, models: Sequence[CardModel], variants: Sequence[CardVariant]) -> list[PlannedEvaluation]:
    able = [model for model in models if any(variant.needs <= model.can for variant in variants)]
    # Models are best compared when all are asked in the same way.
    shared = _first(variant for variant in variants if all(variant.needs <= model.can for model in able))
    planned: list[PlannedEvaluation] = []
    for model in models:
        own = _first(variant for variant in variants if variant.needs <= model.can)
        chosen = shared if model in able and shared is not None else own
        if chosen is None:
            planned.append(PlannedEvaluation(evaluation, model.label, None, reason=_reason(model, variants)))
        else:
            config = {**chosen.config, "model": model.spec}
            planned.append(PlannedEvaluation(evaluation, model.label, config, chosen.folder))
    return planned


def _first(variants: Iterable[CardVariant]) -> CardVariant | None:
    return next(iter(variants), None)


def _reason(model: CardModel, variants: Sequence[CardVariant]) -> str:
    # A variant that needs what another does and more adds nothing to the choice.
    needs = [variant.needs for variant in variants]
    least = dict.fromkeys(need for need in needs if not any(other < need for other in needs))
    wanted = ", or ".join(map(_listed, least))
    can = _listed(model.can) if model.can else "do none of what models are asked"
    return f"it takes a model that can {wanted}; {model.label} can {can}"


def _listed(verbs: frozenset[str]) -> str:
    told = [words for verb, words in _VERBS.items() if verb in verbs]
    return " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)


def as_yaml(part: PlannedEvaluation) -> dict[str, Any]:
    """The configuration of a part, to be written to a file: its data are named where they lie."""
    assert part.config is not None
    given = part.config["task"]
    task = {"name": given} if isinstance(given, str) else dict(given)
    for key, value in task.items():
        if isinstance(value, str) and "\n" not in value and (part.folder / value).is_file():
            task[key] = str(part.folder / value)
    return {"name": f"card {part.evaluation}", **part.config, "task": task}
