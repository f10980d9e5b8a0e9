"""The plan of a card, the report of ``lmassay card`` that applies every evaluation to one or more models.

Everything is planned before the first request is sent. Each part of a card is an ordinary configuration, so it can also
be run without a card and then gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.contracts import CardRequest, CardVariant, Evaluation, Model, label_of
from lmassay.datasets.catalogue import files_to_fetch
from lmassay.errors import DataError, UserError, did_you_mean
from lmassay.plugins.compatibility import as_model
from lmassay.plugins.evaluations import evaluations
from lmassay.plugins.hooks import call_hook, list_of
from lmassay.plugins.members import abilities_text
from lmassay.plugins.options import Spec, build, options_model, split_spec
from lmassay.plugins.registry import current_registry
from lmassay.running.config import RunConfig, expand
from lmassay.running.model_spec import model_spec
from lmassay.types.wording import language_name


@dataclass(frozen=True, slots=True)
class PlannedEvaluation:
    """One evaluation of one model: its configuration, or the reason why it does not apply."""

    evaluation: str
    model: str
    config: Mapping[str, Any] | None
    folder: Path = Path()
    """The folder to which relative paths in the configuration refer."""
    reason: str = ""
    is_broken: bool = False
    """Whether the reason is an error in the package of the evaluation."""

    def runs(self) -> list[RunConfig]:
        """Return the configuration of each run; there are none if the evaluation does not apply."""
        if self.config is None:
            return []
        return expand(dict(self.config), self.folder, default_name=f"card {self.evaluation}")


@dataclass(frozen=True, slots=True)
class CardModel:
    """A model that the user named, with the kinds of requests that it can answer."""

    spec: Spec
    label: str
    can: frozenset[str]


def card_models(words: Sequence[str], base: Path) -> list[CardModel]:
    """Build the models that the user named on the command line (``words``), each once.

    Relative paths in the words refer to the folder ``base``.

    If several models have the same label, a number is added to the labels of all but the first one, provided that they
    take the option ``label``.
    """
    models: dict[str, CardModel] = {}
    for word in words:
        spec = model_spec(word, base)
        name, options = split_spec(spec, "model")
        # Two words may name the same model with the same options.
        key = str((name, sorted(options.items(), key=str)))
        if key in models:
            continue
        model = _build_model(spec, word, base)
        label = label_of(model)
        same_label = [other for other in models.values() if other.label.partition(" (")[0] == label]
        if same_label and _takes_label(spec, base):
            label = f"{label} ({len(same_label) + 1})"
            spec = {"name": name, **options, "label": label}
        models[key] = CardModel(spec, label, frozenset(model.can))
    return list(models.values())


def _build_model(spec: Spec, word: str, base: Path) -> Model:
    return as_model(build("model", spec, base), word)


def _takes_label(spec: Spec, base: Path) -> bool:
    """Return whether a model takes the option ``label``."""
    name, _ = split_spec(spec, "model")
    return "label" in options_model(current_registry().get("model", name, base)).model_fields


def card_evaluations() -> list[Evaluation]:
    """Return the evaluations that take part in the card."""
    return [evaluation for evaluation in evaluations() if evaluation.card is not None]


def plan_card(models: Sequence[CardModel], size: str, only: Sequence[str] = ()) -> list[PlannedEvaluation]:
    """Plan every evaluation of every model, grouped by evaluation, on the questions written for the card.

    ``size`` is ``quick``, ``standard`` or ``full``; ``only`` limits the plan to these evaluations.
    """
    planned: list[PlannedEvaluation] = []
    for evaluation in card_evaluations():
        if evaluation.card is None or (only and evaluation.name not in only):
            continue
        variants = call_hook(evaluation, "card", evaluation.card, size, reads=_read_variants, otherwise=lambda: None)
        if variants is not None:
            planned += _plan_evaluation(evaluation.name, models, variants)
            continue
        reason = "its package failed to plan its part of the card; see lmassay doctor"
        for model in models:
            planned.append(PlannedEvaluation(evaluation.name, model.label, None, reason=reason, is_broken=True))
    return planned


@dataclass(frozen=True, slots=True)
class PublishedPart:
    """An evaluation's part of the card on published data: its variants, or the reason why there are none."""

    evaluation: str
    variants: Sequence[CardVariant] = ()
    reason: str = ""
    is_broken: bool = False


def published_parts(request: CardRequest, only: Sequence[str] = ()) -> list[PublishedPart]:
    """Return the part of each evaluation; without published data in the language, it has only a reason."""
    _require_language(request.language)
    parts: list[PublishedPart] = []
    for evaluation in card_evaluations():
        if only and evaluation.name not in only:
            continue
        published = evaluation.published_card
        if published is None:
            reason = "no published data: this evaluation has only its own sentences"
            parts.append(PublishedPart(evaluation.name, reason=reason))
            continue
        if request.language not in published.languages:
            languages = ", ".join(published.languages)
            reason = f"no published data in {language_name(request.language)}; available in: {languages}"
            parts.append(PublishedPart(evaluation.name, reason=reason))
            continue
        variants = call_hook(
            evaluation, "published_card", published.variants, request, reads=_read_variants, otherwise=lambda: None
        )
        if variants is None:
            reason = "its package failed to plan its part of the card; see lmassay doctor"
            parts.append(PublishedPart(evaluation.name, reason=reason, is_broken=True))
            continue
        parts.append(PublishedPart(evaluation.name, variants))
    return parts


def plan_published_card(models: Sequence[CardModel], parts: Sequence[PublishedPart]) -> list[PlannedEvaluation]:
    """Plan every part for every model."""
    planned: list[PlannedEvaluation] = []
    for part in parts:
        if part.variants:
            planned += _plan_evaluation(part.evaluation, models, part.variants)
            continue
        for model in models:
            planned.append(
                PlannedEvaluation(part.evaluation, model.label, None, reason=part.reason, is_broken=part.is_broken)
            )
    return planned


def published_languages() -> list[str]:
    """Return the languages in which at least one evaluation has published data."""
    languages: set[str] = set()
    for evaluation in card_evaluations():
        if evaluation.published_card is not None:
            languages.update(evaluation.published_card.languages)
    return sorted(languages)


def _require_language(language: str) -> None:
    languages = published_languages()
    if language not in languages:
        raise UserError(
            f"--language {language}: there are no published data in this language{did_you_mean(language, languages)}"
        )


def require_published_data(parts: Sequence[PublishedPart]) -> None:
    """Raise a DataError with the command that fetches missing data.

    Callers do this before they build a model, because building one may take long.
    """
    missing: dict[str, str] = {}
    for part in parts:
        for variant in part.variants:
            for need in variant.data:
                to_fetch, all_files = files_to_fetch(need.spec, need.role)
                if to_fetch == 0:
                    continue
                missing[need.dataset] = need.dataset
                if to_fetch < all_files:
                    missing[need.dataset] = f"{need.dataset} ({to_fetch} of {all_files} files are missing)"
    if missing:
        raise DataError(
            f"the card on published data needs {', '.join(missing.values())}: lmassay data get {' '.join(missing)}"
        )


def _read_variants(value: Any) -> list[CardVariant] | None:
    return list_of(CardVariant)(value)


def _plan_evaluation(
    evaluation: str, models: Sequence[CardModel], variants: Sequence[CardVariant]
) -> list[PlannedEvaluation]:
    """Choose the variant of an evaluation that each model is evaluated by."""
    applicable_models = [model for model in models if _first_possible(variants, [model])]
    # Only models that are evaluated by the same variant can be compared.
    shared = _first_possible(variants, applicable_models)
    planned: list[PlannedEvaluation] = []
    for model in models:
        variant = _first_possible(variants, [model])
        if variant is None:
            reason = _inapplicable_reason(model, variants)
            planned.append(PlannedEvaluation(evaluation, model.label, None, reason=reason))
            continue
        # If no variant suits all models, each one uses the first that it can answer.
        if shared is not None:
            variant = shared
        config = {**variant.config, "model": model.spec}
        planned.append(PlannedEvaluation(evaluation, model.label, config, variant.folder))
    return planned


def _first_possible(variants: Sequence[CardVariant], models: Sequence[CardModel]) -> CardVariant | None:
    """Return the first variant that all of the models can answer."""
    for variant in variants:
        if all(variant.needs <= model.can for model in models):
            return variant
    return None


def _inapplicable_reason(model: CardModel, variants: Sequence[CardVariant]) -> str:
    """Return why no variant applies: what a model would have to be able to do, and what this one can do."""
    all_needs = [variant.needs for variant in variants]
    alternatives: list[str] = []
    for needs in all_needs:
        # A variant that needs more than another one is not worth mentioning: the other one is easier to satisfy.
        needs_more = any(other < needs for other in all_needs)
        text = abilities_text(needs)
        if not needs_more and text not in alternatives:
            alternatives.append(text)
    return f"needs a model that can {', or '.join(alternatives)}; {model.label} can {abilities_text(model.can)}"


def as_yaml(part: PlannedEvaluation) -> dict[str, Any]:
    """Return the configuration of a part as a user would write it to a file, with full paths to its data."""
    assert part.config is not None
    task_spec = part.config["task"]
    task: Any
    if isinstance(task_spec, list):
        # Several tasks together make up the evaluation's part of the card.
        task = [_with_full_paths(spec, part.folder) for spec in task_spec]
    else:
        task = _with_full_paths(task_spec, part.folder)
    return {"name": f"card {part.evaluation}", **part.config, "task": task}


def _with_full_paths(task_spec: Spec, folder: Path) -> dict[str, Any]:
    task = {"name": task_spec} if isinstance(task_spec, str) else dict(task_spec)
    for key, value in task.items():
        is_path = isinstance(value, str) and "\n" not in value and (folder / value).is_file()
        if is_path:
            task[key] = str(folder / value)
    return task
