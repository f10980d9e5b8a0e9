"""refining-tse's configurations: read as they are, checked all at once, told in lmassay's terms.

Paths start at the working folder, as they did; what is not there is looked for beside the configuration and in the
folders above it, so that a configuration also runs from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from lmassay.errors import did_you_mean
from lmassay.models.hf.model import HuggingFace
from lmassay.plugins.options import validation_messages
from lmassay.storage.yamlfile import read_yaml

Compat = Literal["none", "released"]
Voting = Literal["ew", "mw"]
BATCH = 64
"""Rows that the original puts to a model at once; ``max_examples`` is rounded up to whole batches of them."""

TSE, VERBS = "ML", "main"
"""What the original calls its metrics: TSE, and EW or MW."""

_SECTIONS = ("dataset", "experiment", "logger", "metrics", "model", "unique")
_CLASS = "class"
_DATA_KEYS = ("template_dir", "template_files")
_Cutoff = Annotated[float, Field(gt=0, le=1)]
_Count = Annotated[int, Field(ge=1, strict=True)]
_Text = Annotated[str, Field(min_length=1)]


class _ConfigSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TseDataset(_ConfigSection):
    """Which pairs, and how they become text."""

    add_trailing_period: StrictBool
    capitalize_first_word: StrictBool
    max_examples_per_template: _Count | None = None
    name: Literal["custom"]
    template_dir: _Text
    template_files: list[_Text] = Field(min_length=1)


class TseExperiment(_ConfigSection):
    """How much of it."""

    max_examples: _Count | None = None


class TseLogger(_ConfigSection):
    """Where results go."""

    path: _Text
    print_metrics_to_general_log: StrictBool = False
    print_to_stdout: StrictBool = False


class PairMetric(_ConfigSection):
    """The metric ``ML``: TSE."""

    example_aggregator: Literal["mean"] = "mean"
    use_custom_dataset: Literal[True] = True


class VerbMetric(PairMetric):
    """The metric ``main``: EW or MW."""

    cutoffs_bot: list[_Cutoff]
    cutoffs_top: list[_Cutoff]
    lemma_inflections_path: _Text
    use_equal_verb_voting: StrictBool


class TseModel(BaseModel):
    """The model; what stands beside its name is for a class of the user's own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: _Text


_Checked = TypeVar("_Checked", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Plugins:
    """Classes that a user's files have registered: name → ``file.py:Class``."""

    models: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)


NO_PLUGINS = Plugins()


@dataclass(frozen=True, slots=True)
class TseConfig:
    """A configuration that was checked: every file it names is there."""

    path: Path
    dataset: TseDataset
    experiment: TseExperiment
    logger: TseLogger
    metrics: Mapping[str, Mapping[str, Any]]
    main: VerbMetric | None
    model: TseModel
    unique: bool
    files: Sequence[Path]
    verbs: Path | None
    model_class: str | None
    """``file.py:Class`` of a model of the user's own."""
    metric_classes: Mapping[str, str]
    folder: Path
    """``logger.path``, with the name of the model that really runs."""
    overridden: bool = False
    """Another model runs than the file names."""

    @property
    def voting(self) -> Voting | None:
        if self.main is None:
            return None
        return "ew" if self.main.use_equal_verb_voting else "mw"

    @property
    def templates(self) -> str:
        """What the set of pairs is called, which only the path of the results tells."""
        return self.folder.parent.name or self.files[0].stem

    @property
    def run_name(self) -> str:
        return "_".join([self.dataset.name, short_name(self.model.name), "-".join(self.metrics)])

    def task_spec(self, compat: Compat, lemma_stats: bool = False) -> dict[str, Any]:
        """The task with its options. EW and MW of the same pairs make the same task: one run serves both."""
        pooled = "+".join(file.stem.removesuffix("_all") for file in self.files)
        options: dict[str, Any] = {
            "name": "refining_tse" if self.metric_classes or lemma_stats else "syntax",
            "data": {pooled: [str(file) for file in self.files]},
            "cutoffs_top": self.main.cutoffs_top if self.main else [],
            "cutoffs_bottom": self.main.cutoffs_bot if self.main else [],
            "capitalize": self.dataset.capitalize_first_word,
            "period": self.dataset.add_trailing_period,
            "max_per_file": self.dataset.max_examples_per_template,
            "compat": compat,
            "label": self.templates,
        }
        if self.verbs is not None:
            options["verbs"] = str(self.verbs)
        if self.experiment.max_examples is not None:
            options["max_rows"] = -(-self.experiment.max_examples // BATCH) * BATCH
        if lemma_stats:
            options["lemma_stats"] = True
        if self.metric_classes:
            options["metrics"] = {
                name: {"file": file, "settings": _settings(self.metrics[name])}
                for name, file in self.metric_classes.items()
            }
        return options

    def model_spec(self, compat: Compat) -> dict[str, Any]:
        """The model with its options: a class of the user's own, or a local Hugging Face model."""
        name, label = self.model.name, short_name(self.model.name)
        if self.model_class is not None:
            return {"name": "mpe", "file": self.model_class, "settings": _settings(dict(self.model)), "label": label}
        options = {"name": "hf", "model": name, "label": label}
        if compat == "released" and HuggingFace(name).kind == "masked":
            # RoBERTa's blank is then looked for where the released program counts it to be.
            options["position"] = "counted"
        return options


def short_name(model: str) -> str:
    """The last part of a model's name: a slash in the name of a folder would make two, and ``..`` lead out of it."""
    name = Path(model).name
    return name if name not in ("", "..") else Path(model).resolve().name or "model"


def read_tse_config(path: Path, model: str | None = None, plugins: Plugins = NO_PLUGINS) -> TseConfig:
    """Read and check a configuration; ``model`` stands in for the one that it names."""
    file = read_yaml(path)
    checking = _ConfigReader(path, file.data, model, plugins)
    config = checking.config()
    if config is None or checking.mistakes:
        raise file.error(checking.mistakes)
    return config


class _ConfigReader:
    """Reads the sections one by one, looks for all that they name, and notes everything that is wrong."""

    def __init__(self, path: Path, data: Mapping[str, Any], model: str | None, plugins: Plugins) -> None:
        self._path, self._data, self._override, self._plugins = path, data, model, plugins
        self.mistakes = [f"{key}: unknown key{did_you_mean(key, _SECTIONS)}" for key in data if key not in _SECTIONS]

    def config(self) -> TseConfig | None:
        dataset = self._section(TseDataset, "dataset", self._data.get("dataset"))
        amount = self._data.get("experiment")
        experiment = self._section(TseExperiment, "experiment", {} if amount is None else amount)
        logger = self._section(TseLogger, "logger", self._data.get("logger"))
        given = self._data.get("model") if self._override is None else {"name": self._override}
        model = self._section(TseModel, "model", given)
        metrics = self._metrics()
        main = self._section(VerbMetric, f"metrics.{VERBS}", metrics[VERBS]) if VERBS in metrics else None
        files = list(self._files(self._data.get("dataset")))
        verbs = self._verbs(metrics.get(VERBS, {}))
        model_class = None if model is None else self._model_class(model)
        classes = self._metric_classes(metrics)
        unique = self._data.get("unique", False)
        if not isinstance(unique, bool):
            self.mistakes.append(f"unique: must be true or false (got {unique!r})")
        if self.mistakes or dataset is None or experiment is None or logger is None or model is None:
            return None
        sections = (dataset, experiment, logger, metrics, main, model, unique)
        found = (files, verbs, model_class, classes, self._folder(logger, model))
        return TseConfig(self._path, *sections, *found, self._named() != model.name)

    def _section(self, section: type[_Checked], key: str, given: Any) -> _Checked | None:
        if not isinstance(given, Mapping):
            told = "this section is required" if given is None else f"must be a mapping of keys (got {given!r})"
            self.mistakes.append(f"{key}: {told}")
            return None
        try:
            return section.model_validate(given)
        except ValidationError as error:
            self.mistakes += validation_messages(error, section, key)
            return None

    def _metrics(self) -> dict[str, Mapping[str, Any]]:
        """The options of every metric; those of ``main`` are checked later."""
        given = self._data.get("metrics")
        if not isinstance(given, Mapping) or not given:
            self.mistakes.append(f"metrics: name at least one of {TSE} and {VERBS} (got {given!r})")
            return {}
        metrics = {str(name): {} if options is None else options for name, options in given.items()}
        for name, options in metrics.items():
            if name == TSE:
                self._section(PairMetric, f"metrics.{name}", options)
            elif name != VERBS and not isinstance(options, Mapping):
                self.mistakes.append(f"metrics.{name}: must be a mapping of keys (got {options!r})")
        return {name: options for name, options in metrics.items() if isinstance(options, Mapping)}

    def _metric_classes(self, metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        classes = {}
        for name, options in metrics.items():
            if name in (TSE, VERBS):
                continue
            registered = self._plugins.metrics.get(name)
            if _CLASS not in options and registered is None:
                near = did_you_mean(name, [TSE, VERBS, *self._plugins.metrics])
                self.mistakes.append(
                    f"metrics.{name}: unknown metric{near}; one of your own needs {_CLASS}: file.py:Name"
                )
            elif not name.replace("_", "").replace("-", "").isalnum():
                self.mistakes.append(f"metrics.{name}: a file is called by this name; write letters, digits, _ and -")
            else:
                classes[name] = self._class(f"metrics.{name}", options, registered) or ""
        return classes

    def _model_class(self, model: TseModel) -> str | None:
        options = dict(model)
        # The original picks a class by the name up to its first hyphen.
        registered = self._plugins.models.get(short_name(model.name).partition("-")[0])
        if registered is None and _CLASS not in options:
            for key in options.keys() - {"name"}:
                self.mistakes.append(f"model.{key}: unknown key; known: name, and {_CLASS} for a model of your own")
        return self._class("model", options, registered)

    def _class(self, key: str, options: Mapping[str, Any], registered: str | None) -> str | None:
        """The class that a section names, its file found; else the one that is registered."""
        if _CLASS not in options:
            return registered
        file, _, name = str(options[_CLASS]).rpartition(":")
        if not file.endswith(".py") or not name.isidentifier():
            self.mistakes.append(f"{key}.{_CLASS}: must be file.py:Name (got {options[_CLASS]!r})")
            return None
        found = self._found(file)
        if found is None or not found.is_file():
            self._missing(f"{key}.{_CLASS}", "file", file)
            return None
        return f"{found.resolve()}:{name}"

    def _files(self, dataset: Any) -> Iterator[Path]:
        """Also of a section in which something else is wrong, so that all is told together."""
        place, names = (dataset.get(k) if isinstance(dataset, Mapping) else None for k in _DATA_KEYS)
        if not isinstance(place, str) or not isinstance(names, list):
            return
        folder = self._found(place)
        if folder is None or not folder.is_dir():
            self._missing("dataset.template_dir", "folder", place)
            return
        # A file that stands there twice counts twice, as in the original.
        for name in map(str, names):
            found = self._found(f"{place}/{name}")
            if found is not None and found.is_file():
                yield found.resolve()
            else:
                near = did_you_mean(name, sorted(file.name for file in folder.glob("*.jsonl"))[:20])
                self.mistakes.append(f"dataset.template_files: there is no file {name} in {folder}{near}")

    def _verbs(self, main: Mapping[str, Any]) -> Path | None:
        name = main.get("lemma_inflections_path")
        if not isinstance(name, str):
            return None
        found = self._found(name)
        if found is None or not found.is_file():
            self._missing(f"metrics.{VERBS}.lemma_inflections_path", "verb list", name)
            return None
        return found.resolve()

    def _found(self, name: str) -> Path | None:
        place = Path(name).expanduser()
        roots = [Path(), *self._path.resolve().parents]
        return next((root / place for root in roots if (root / place).exists()), None)

    def _missing(self, key: str, what: str, name: str) -> None:
        self.mistakes.append(
            f"{key}: there is no {what} {name} in the working folder, beside the configuration or above it; "
            "correct the path, or run where it starts"
        )

    def _folder(self, logger: TseLogger, model: TseModel) -> Path:
        """``logger.path``; where another model runs than the file names, it must not be taken for that one."""
        folder = Path(logger.path).expanduser()
        named = self._named()
        if self._override is None or not named:
            return folder
        before, now = short_name(named), short_name(model.name)
        return Path(*(now if part == before else part for part in folder.parts))

    def _named(self) -> str:
        """The model that the file names."""
        section = self._data.get("model")
        return str(section.get("name") or "") if isinstance(section, Mapping) else ""


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a class of the user's own is given: its section, without where it was found."""
    return {name: value for name, value in options.items() if name != _CLASS}
