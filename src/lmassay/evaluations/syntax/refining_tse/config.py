"""Read configurations of refining-tse, check them completely, and translate them into tasks and models.

"The original" is refining-tse itself, the program of Newman et al. (2021).

Paths are relative to the working folder, as in the original. A path that does not exist there is searched for next to
the configuration and in the folders above it, so that a configuration can be run from any folder.
"""

from __future__ import annotations

import math
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
"""``released`` computes what the released program computes, including its two bugs; ``none`` corrects them.

The bugs: of the verbs with the same ``idx``, only one counts; and the position of a masked model's blank may be wrong.
"""
Voting = Literal["ew", "mw"]
"""How the metric ``main`` counts verbs: all equally (EW), or by their probability (MW)."""
BATCH = 64
"""The batch size of the original; ``max_examples`` is rounded up to whole batches."""

TSE, VERBS = "ML", "main"
"""The original's names of its metrics: TSE, and EW or MW."""

_SECTIONS = ("dataset", "experiment", "logger", "metrics", "model", "unique")
_CLASS = "class"
_Cutoff = Annotated[float, Field(gt=0, le=1)]
_Count = Annotated[int, Field(ge=1, strict=True)]
_Text = Annotated[str, Field(min_length=1)]


class _ConfigSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TseDataset(_ConfigSection):
    """Which pairs are used, and how they become text."""

    add_trailing_period: StrictBool
    capitalize_first_word: StrictBool
    max_examples_per_template: _Count | None = None
    name: Literal["custom"]
    template_dir: _Text
    template_files: list[_Text] = Field(min_length=1)


class TseExperiment(_ConfigSection):
    """How many examples are used."""

    max_examples: _Count | None = None


class TseLogger(_ConfigSection):
    """Where results are written."""

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
    """The model; further keys are for a user's own class."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: _Text


_Checked = TypeVar("_Checked", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Plugins:
    """Classes that a user's files have registered for models and metrics: name → ``file.py:Class``."""

    models: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)


NO_PLUGINS = Plugins()


@dataclass(frozen=True, slots=True)
class TseConfig:
    """A checked configuration: every file that it names exists."""

    path: Path
    dataset: TseDataset
    experiment: TseExperiment
    logger: TseLogger
    metrics: Mapping[str, Mapping[str, Any]]
    main: VerbMetric | None
    model: TseModel
    unique: bool
    """Whether the result folder always has the time in its name, not only if the plain name is taken."""
    files: Sequence[Path]
    """The files of the pairs."""
    verbs: Path | None
    """The verb list; None without the metric ``main``."""
    model_class: str | None
    """``file.py:Class`` of the user's own model."""
    metric_classes: Mapping[str, str]
    """The name of each of the user's own metrics → ``file.py:Class``."""
    folder: Path
    """``logger.path``, with the name of the model that is actually run."""
    overridden: bool = False
    """Whether the model that is run is not the one that the file names."""

    @property
    def voting(self) -> Voting | None:
        """EW or MW, as the section of the main metric chooses; None without that section."""
        if self.main is None:
            return None
        return "ew" if self.main.use_equal_verb_voting else "mw"

    @property
    def templates(self) -> str:
        """The name of the set of templates.

        Only ``logger.path`` contains it, which is ``…/<model>/<templates>/<metric>`` in the original.
        """
        return self.folder.parent.name or self.files[0].stem

    @property
    def run_name(self) -> str:
        """The name of the result folder, as the original forms it: dataset, model and metrics."""
        return "_".join([self.dataset.name, short_name(self.model.name), "-".join(self.metrics)])

    def task_spec(self, compat: Compat, lemma_stats: bool = False) -> dict[str, Any]:
        """Return the task with its options. EW and MW of the same pairs give the same task, so one run serves both."""
        # The original pools the rows of all files of a configuration into one score.
        pooled = "+".join(file.stem.removesuffix("_all") for file in self.files)
        task = "syntax"
        if self.metric_classes or lemma_stats:
            # Only this task can run users' metrics and keep the statistics of every verb.
            task = "refining_tse"
        cutoffs_top: Sequence[float] = []
        cutoffs_bottom: Sequence[float] = []
        if self.main is not None:
            cutoffs_top = self.main.cutoffs_top
            cutoffs_bottom = self.main.cutoffs_bot
        options: dict[str, Any] = {
            "name": task,
            "data": {pooled: [str(file) for file in self.files]},
            "cutoffs_top": cutoffs_top,
            "cutoffs_bottom": cutoffs_bottom,
            "capitalize": self.dataset.capitalize_first_word,
            "period": self.dataset.add_trailing_period,
            "max_per_file": self.dataset.max_examples_per_template,
            "compat": compat,
            "label": self.templates,
        }
        if self.verbs is not None:
            options["verbs"] = str(self.verbs)
        if self.experiment.max_examples is not None:
            # Rounded up, because the original stops only after a whole batch.
            batches = math.ceil(self.experiment.max_examples / BATCH)
            options["max_rows"] = batches * BATCH
        if lemma_stats:
            options["lemma_stats"] = True
        if self.metric_classes:
            metrics = {}
            for name, file in self.metric_classes.items():
                metrics[name] = {"file": file, "settings": _settings(self.metrics[name])}
            options["metrics"] = metrics
        return options

    def model_spec(self, compat: Compat) -> dict[str, Any]:
        """Return the model with its options: the user's own class, or a local Hugging Face model."""
        name = self.model.name
        label = short_name(self.model.name)
        if self.model_class is not None:
            return {"name": "mpe", "file": self.model_class, "settings": _settings(dict(self.model)), "label": label}
        options = {"name": "hf", "model": name, "label": label}
        if compat == "released" and HuggingFace(name).kind == "masked":
            # The released program computes the position of RoBERTa's blank wrongly; this reproduces it.
            options["position"] = "counted"
        return options


def short_name(model: str) -> str:
    """Return the last part of a model's name.

    A slash in the name of a folder would make two folders, and ``..`` would lead out of it.
    """
    name = Path(model).name
    if name in ("", ".."):
        name = Path(model).resolve().name
    # The root folder has no name.
    return name or "model"


def read_tse_config(path: Path, model: str | None = None, plugins: Plugins = NO_PLUGINS) -> TseConfig:
    """Read and check a configuration; ``model`` replaces the model that it names."""
    file = read_yaml(path)
    reader = _ConfigReader(path, file.data, model, plugins)
    config = reader.config()
    if config is None or reader.mistakes:
        raise file.error(reader.mistakes)
    return config


class _ConfigReader:
    """Reads the sections one by one, looks for all files that they name, and collects everything that is wrong."""

    def __init__(self, path: Path, data: Mapping[str, Any], model: str | None, plugins: Plugins) -> None:
        self._path = path
        self._data = data
        self._override = model
        self._plugins = plugins
        self.mistakes = [f"{key}: unknown key{did_you_mean(key, _SECTIONS)}" for key in data if key not in _SECTIONS]

    def config(self) -> TseConfig | None:
        """Return the configuration; None, with mistakes, if something is wrong."""
        dataset = self._section(TseDataset, "dataset", self._data.get("dataset"))
        experiment_section = self._data.get("experiment")
        if experiment_section is None:
            # All options of an experiment have defaults, so the section may be left out or empty.
            experiment_section = {}
        experiment = self._section(TseExperiment, "experiment", experiment_section)
        logger = self._section(TseLogger, "logger", self._data.get("logger"))
        model_section = self._data.get("model")
        if self._override is not None:
            model_section = {"name": self._override}
        model = self._section(TseModel, "model", model_section)
        metrics = self._metrics()
        main = None
        if VERBS in metrics:
            main = self._section(VerbMetric, f"metrics.{VERBS}", metrics[VERBS])
        files = list(self._files(self._data.get("dataset")))
        verbs = self._verbs(metrics.get(VERBS, {}))
        model_class = None
        if model is not None:
            model_class = self._model_class(model)
        metric_classes = self._metric_classes(metrics)
        unique = self._data.get("unique", False)
        if not isinstance(unique, bool):
            self.mistakes.append(f"unique: must be true or false (got {unique!r})")
        if self.mistakes or dataset is None or experiment is None or logger is None or model is None:
            return None
        return TseConfig(
            path=self._path,
            dataset=dataset,
            experiment=experiment,
            logger=logger,
            metrics=metrics,
            main=main,
            model=model,
            unique=unique,
            files=files,
            verbs=verbs,
            model_class=model_class,
            metric_classes=metric_classes,
            folder=self._folder(logger, model),
            overridden=self._named_model() != model.name,
        )

    def _section(self, section: type[_Checked], key: str, entries: Any) -> _Checked | None:
        if not isinstance(entries, Mapping):
            problem = "this section is required" if entries is None else f"must be a mapping of keys (got {entries!r})"
            self.mistakes.append(f"{key}: {problem}")
            return None
        try:
            return section.model_validate(entries)
        except ValidationError as error:
            self.mistakes += validation_messages(error, section, key)
            return None

    def _metrics(self) -> dict[str, Mapping[str, Any]]:
        """Return the options of every metric; those of ``main`` are checked later."""
        section = self._data.get("metrics")
        if not isinstance(section, Mapping) or not section:
            self.mistakes.append(f"metrics: name at least one of {TSE} and {VERBS} (got {section!r})")
            return {}
        metrics: dict[str, Mapping[str, Any]] = {}
        for key, value in section.items():
            name = str(key)
            options = {} if value is None else value
            if name == TSE:
                self._section(PairMetric, f"metrics.{name}", options)
            elif name != VERBS and not isinstance(options, Mapping):
                self.mistakes.append(f"metrics.{name}: must be a mapping of keys (got {options!r})")
            if isinstance(options, Mapping):
                metrics[name] = options
        return metrics

    def _metric_classes(self, metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        classes = {}
        for name, options in metrics.items():
            if name in (TSE, VERBS):
                continue
            registered = self._plugins.metrics.get(name)
            if _CLASS not in options and registered is None:
                near = did_you_mean(name, [TSE, VERBS, *self._plugins.metrics])
                self.mistakes.append(
                    f"metrics.{name}: unknown metric{near}; your own metric needs {_CLASS}: file.py:Name"
                )
            elif not name.replace("_", "").replace("-", "").isalnum():
                self.mistakes.append(f"metrics.{name}: the name becomes a file name; use letters, digits, _ and -")
            else:
                classes[name] = self._class(f"metrics.{name}", options, registered) or ""
        return classes

    def _model_class(self, model: TseModel) -> str | None:
        options = dict(model)
        # The original picks a class by the name up to its first hyphen.
        registered = self._plugins.models.get(short_name(model.name).partition("-")[0])
        if registered is None and _CLASS not in options:
            for key in options.keys() - {"name"}:
                self.mistakes.append(f"model.{key}: unknown key; use name, and {_CLASS} for your own model")
        return self._class("model", options, registered)

    def _class(self, key: str, options: Mapping[str, Any], registered: str | None) -> str | None:
        """Return the class that a section names, with the path of its file; else the one that is registered."""
        if _CLASS not in options:
            return registered
        file, _, name = str(options[_CLASS]).rpartition(":")
        if not file.endswith(".py") or not name.isidentifier():
            self.mistakes.append(f"{key}.{_CLASS}: must be file.py:Name (got {options[_CLASS]!r})")
            return None
        path = self._find_path(file)
        if path is None or not path.is_file():
            self._missing(f"{key}.{_CLASS}", "file", file)
            return None
        return f"{path.resolve()}:{name}"

    def _files(self, dataset: Any) -> Iterator[Path]:
        """Yield the files of the pairs, even if something else in the section is wrong: all is reported together."""
        if not isinstance(dataset, Mapping):
            return
        folder_name = dataset.get("template_dir")
        file_names = dataset.get("template_files")
        if not isinstance(folder_name, str) or not isinstance(file_names, list):
            return
        folder = self._find_path(folder_name)
        if folder is None or not folder.is_dir():
            self._missing("dataset.template_dir", "folder", folder_name)
            return
        # A file that is listed twice counts twice, as in the original.
        for file_name in map(str, file_names):
            path = self._find_path(f"{folder_name}/{file_name}")
            if path is not None and path.is_file():
                yield path.resolve()
            else:
                near = did_you_mean(file_name, sorted(file.name for file in folder.glob("*.jsonl"))[:20])
                self.mistakes.append(f"dataset.template_files: there is no file {file_name} in {folder}{near}")

    def _verbs(self, main: Mapping[str, Any]) -> Path | None:
        name = main.get("lemma_inflections_path")
        if not isinstance(name, str):
            return None
        path = self._find_path(name)
        if path is None or not path.is_file():
            self._missing(f"metrics.{VERBS}.lemma_inflections_path", "verb list", name)
            return None
        return path.resolve()

    def _find_path(self, name: str) -> Path | None:
        """Look for a path in the working folder, the configuration's folder and those above it; None if not found."""
        path = Path(name).expanduser()
        for root in (Path(), *self._path.resolve().parents):
            if (root / path).exists():
                return root / path
        return None

    def _missing(self, key: str, kind: str, name: str) -> None:
        self.mistakes.append(
            f"{key}: there is no {kind} {name} in the working folder, next to the configuration or above it; "
            "correct the path, or run from the folder where it starts"
        )

    def _folder(self, logger: TseLogger, model: TseModel) -> Path:
        """Return ``logger.path``; if ``--model`` replaces the file's model, the path has the new model's name."""
        folder = Path(logger.path).expanduser()
        named_model = self._named_model()
        if self._override is None or not named_model:
            return folder
        old_name = short_name(named_model)
        new_name = short_name(model.name)
        parts = [new_name if part == old_name else part for part in folder.parts]
        return Path(*parts)

    def _named_model(self) -> str:
        """Return the model that the file names."""
        section = self._data.get("model")
        return str(section.get("name") or "") if isinstance(section, Mapping) else ""


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a user's own class gets: its section without the path of the class."""
    return {name: value for name, value in options.items() if name != _CLASS}
