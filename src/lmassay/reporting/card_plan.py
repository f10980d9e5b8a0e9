"""Which evaluations can be put to which models, and how; all of it known before anything is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.contracts import Model, label_of
from lmassay.errors import PluginError
from lmassay.plugins.options import Spec, build, options_model, split_spec
from lmassay.plugins.registry import current
from lmassay.reporting.card_ways import EVALUATIONS, Size, Way, data_folder, ways
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
class Part:
    """One evaluation of one model: its configuration, or why it is not applicable."""

    evaluation: str
    model: str
    config: Mapping[str, Any] | None
    reason: str = ""

    def runs(self) -> list[RunConfig]:
        """The runs as the store will know them."""
        if self.config is None:
            return []
        return expand(dict(self.config), data_folder(self.evaluation), default_name=f"card {self.evaluation}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that was named."""

    spec: Spec
    label: str
    can: frozenset[str]


def candidates(words: Sequence[str], base: Path) -> list[Candidate]:
    """The models behind the words, each once, with labels that tell them apart where they can be given one."""
    found: dict[str, Candidate] = {}
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
            found[key] = Candidate({"name": name, **options, "label": label}, label, frozenset(model.can))
        else:
            found[key] = Candidate(spec, label, frozenset(model.can))
    return list(found.values())


def _made(spec: Spec, word: str, base: Path) -> Model:
    model = build("model", spec, base)
    if not isinstance(model, Model):
        raise PluginError(f"the model {word} lacks name, can or identity; see docs/extending/model.md")
    if isinstance(model.can, str):
        raise PluginError(f"the model {word}: can must be a set of verbs, such as frozenset({{'generate'}})")
    return model


def _takes_label(spec: Spec, base: Path) -> bool:
    """Whether a kind of model has the option ``label``."""
    name, _ = split_spec(spec, "model")
    return "label" in options_model(current().get("model", name, base)).model_fields


def parts(models: Sequence[Candidate], size: Size, only: Sequence[str] = EVALUATIONS) -> list[Part]:
    """Every evaluation of every model, evaluation by evaluation."""
    return [
        part
        for evaluation in EVALUATIONS
        if evaluation in only
        for part in _parts(evaluation, models, ways(evaluation, size))
    ]


def _parts(evaluation: str, models: Sequence[Candidate], known: Sequence[Way]) -> list[Part]:
    able = [model for model in models if any(way.needs <= model.can for way in known)]
    # Models are best compared when all are asked in the same way.
    shared = next((way for way in known if all(way.needs <= model.can for model in able)), None)
    found = []
    for model in models:
        own = shared if model in able and shared else next((way for way in known if way.needs <= model.can), None)
        config = None if own is None else {**own.config, "model": model.spec}
        found.append(Part(evaluation, model.label, config, "" if own else _reason(model, known)))
    return found


def _reason(model: Candidate, known: Sequence[Way]) -> str:
    # A way that needs what another does and more adds nothing to the choice.
    least = dict.fromkeys(way.needs for way in known if not any(other.needs < way.needs for other in known))
    wanted = ", or ".join(map(_listed, least))
    can = _listed(model.can) if model.can else "do none of what models are asked"
    return f"it takes a model that can {wanted}; {model.label} can {can}"


def _listed(verbs: frozenset[str]) -> str:
    told = [words for verb, words in _VERBS.items() if verb in verbs]
    return " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)


def as_yaml(part: Part) -> dict[str, Any]:
    """The configuration of a part, to be written beside others: its data are named where they lie."""
    assert part.config is not None
    folder = data_folder(part.evaluation)
    task = dict(part.config["task"])
    for key in ("src", "ref", "data"):
        if isinstance(task.get(key), str) and (folder / task[key]).is_file():
            task[key] = str(folder / task[key])
    return {"name": f"card {part.evaluation}", **part.config, "task": task}
