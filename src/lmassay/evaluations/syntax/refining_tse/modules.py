"""Provide refining-tse's modules for classes written for it: ``from src.models.MPE_model import MPEModel``.

A class in the original's tree says ``from .MPE_model import MPEModel``. Its file is therefore loaded as a part of the
package ``src.models`` or ``src.metrics``, so that relative imports work as well.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from lmassay.errors import ConfigError, LmassayError, PluginError, did_you_mean, error_with_location
from lmassay.evaluations.syntax.pairs import joined
from lmassay.evaluations.syntax.refining_tse.config import BATCH, Plugins
from lmassay.models.hf.source import find_source
from lmassay.plugins.source_folder import SourceFolder
from lmassay.types import digest

Kind = Literal["models", "metrics"]
INVALID = None
"""The original's value for "no score"."""

# The tables in which users of the original register their classes: name → class.
MODELS: dict[str, Any] = {}
METRICS: dict[str, Any] = {}
# The names of these tables in the original.
MODEL_TABLE = "model_name_to_MPEModel_class"
METRIC_TABLE = "metric_name_to_MetricComputer_class"
# Files that were loaded and registered a class; a file runs only once in a process.
_REGISTERING_FILES: set[Path] = set()


class Number(Enum):
    """The grammatical number of the verb form that agrees."""

    SINGULAR = 0
    PLURAL = 1


class MPEModel:
    """Base class of a model; subclasses implement ``word_to_index`` and ``predict``."""

    def __init__(self, config: Any) -> None:
        """``config`` is the section ``model`` of the configuration."""

    @property
    def word_to_index(self) -> Any:
        """Like a dict: a word → its index among the logits."""
        raise NotImplementedError("word_to_index is not implemented")

    def predict(self, left_context: Sequence[Sequence[str]], right_context: Sequence[Sequence[str]]) -> Any:
        """Return the logits at the verb, one row per context, given the words before and after it."""
        raise NotImplementedError("predict is not implemented")


class EarlierTokenizer:
    """A tokenizer that behaves as it did in transformers 4, for which refining-tse's classes were written.

    Current tokenizers ignore ``add_prefix_space`` without a warning, so RoBERTa would read another text, and they have
    neither ``batch_encode_plus`` nor ``encode_plus``. Everything else is passed on to the tokenizer itself.
    """

    def __init__(self, tokenizer: Any) -> None:
        object.__setattr__(self, "_tokenizer", tokenizer)

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling look for methods before there is a tokenizer.
        if name == "_tokenizer":
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # For example ``self.tokenizer.pad_token = self.tokenizer.eos_token``.
        setattr(self._tokenizer, name, value)

    def __len__(self) -> int:
        return len(self._tokenizer)

    def __call__(self, text: Any, text_pair: Any = None, *, add_prefix_space: bool = False, **options: Any) -> Any:
        if add_prefix_space:
            text = _with_space_before(text, options)
        return self._tokenizer(text, text_pair, **options)

    def encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        return self(text, text_pair, **options)

    def batch_encode_plus(self, batch_text_or_text_pairs: Sequence[Any], **options: Any) -> Any:
        texts = list(batch_text_or_text_pairs)
        if not any(isinstance(text, tuple) for text in texts):
            return self(texts, **options)
        firsts, seconds = zip(*texts, strict=True)
        return self(list(firsts), list(seconds), **options)

    def encode(self, text: Any, text_pair: Any = None, *, add_prefix_space: bool = False, **options: Any) -> Any:
        if add_prefix_space:
            text = _with_space_before(text, options)
        return self._tokenizer.encode(text, text_pair, **options)

    def tokenize(self, text: str, *, add_prefix_space: bool = False, **options: Any) -> Any:
        if add_prefix_space:
            text = _with_space_before(text, options)
        return self._tokenizer.tokenize(text, **options)


def _with_space_before(text: Any, options: Mapping[str, Any]) -> Any:
    """Put a space before a text, or before each text of a batch, unless it begins with white space or is empty."""
    if isinstance(text, str):
        return f" {text}" if text and not text[0].isspace() else text
    if options.get("is_split_into_words"):
        raise PluginError(
            "add_prefix_space with is_split_into_words is not supported; join the words with spaces and pass the text"
        )
    return [_with_space_before(text_of_batch, options) for text_of_batch in text]


class TransformersIndexer:
    """Like a dict: a word → its index, for words that a tokenizer has as one token."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.cache: dict[str, Any] = {}

    def __getitem__(self, token: str) -> Any:
        return self.tokenizer.convert_tokens_to_ids(token)

    def get(self, token: str, default_value: Any = None) -> Any:
        index = self[token]
        if index is None or index == self.tokenizer.unk_token_id:
            return default_value
        return index

    def __contains__(self, token: str) -> bool:
        return self.get(token) is not None


class TransformersPrefixSpaceIndexer(TransformersIndexer):
    """A :class:`TransformersIndexer` for tokenizers whose tokens include the space before a word."""

    def __getitem__(self, token: str) -> Any:
        if token not in self.cache:
            # The space is written out: a class may pass a tokenizer that ignores ``add_prefix_space``.
            ids = self.tokenizer.encode(f" {token}", add_special_tokens=False)
            self.cache[token] = ids[0] if len(ids) == 1 else self.tokenizer.unk_token_id
        return self.cache[token]


class TransformersModel(MPEModel):
    """Base class of a model from transformers; subclasses implement ``predict``."""

    def __init__(
        self,
        config: Any,
        tokenizer_cls: Any,
        model_cls: Any,
        use_prefix_space: bool = False,
        add_padding_token: bool = False,
        cache_dir: str | None = None,
        bidirectional: bool = True,
    ) -> None:
        super().__init__(config)
        self.device = _device()
        model = _from_local_files(model_cls, config["name"], cache_dir, use_safetensors=True)
        self.model = model.to(self.device).eval()
        self.tokenizer = EarlierTokenizer(_from_local_files(tokenizer_cls, config["name"], cache_dir))
        if add_padding_token:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        indexer = TransformersPrefixSpaceIndexer if use_prefix_space else TransformersIndexer
        self.indexer = indexer(self.tokenizer)
        self.bidirectional = bidirectional

    @property
    def word_to_index(self) -> Any:
        return self.indexer


def _from_local_files(loaded_class: Any, name: str, cache_dir: str | None, **options: Any) -> Any:
    """Load a model or tokenizer that was downloaded before, because a run downloads nothing."""
    try:
        return loaded_class.from_pretrained(name, cache_dir=cache_dir, local_files_only=True, **options)
    except OSError:
        if Path(name).is_dir():
            raise
    # It is not in the cache folder that the class uses. `lmassay models get` stores models in the standard one.
    folder = find_source(name, None, Path()).path
    return loaded_class.from_pretrained(folder, local_files_only=True, **options)


def mean_example_aggregator(score_per_example: Sequence[Any], extra_info_per_example: Sequence[Any]) -> tuple[Any, Any]:
    """Return the mean, or no score if there is nothing to take the mean of."""
    scores = [float(score) for score in score_per_example]
    return (sum(scores) / len(scores), {}) if scores else (INVALID, {})


AGGREGATORS: dict[str, Callable[..., Any]] = {"mean": mean_example_aggregator}


class MetricComputer:
    """Base class of a metric; subclasses implement ``_compute``."""

    def __init__(self, config: Any) -> None:
        """``config`` is the metric's section of the configuration."""
        self._score_per_example: list[Any]
        self.score_per_example = self._score_per_example = []
        self.extra_info_per_example: list[Any] = []
        self.use_custom_dataset = config.get("use_custom_dataset", False)
        self.summary_functions = self._summary_functions = self.initialize_summary_functions()
        self.example_aggregator = self.get_example_aggregator_from_name(config.get("example_aggregator", "mean"))

    def initialize_summary_functions(self) -> list[Callable[[], Any]]:
        return []

    def get_example_aggregator_from_name(self, aggregator_name: str) -> Any:
        return AGGREGATORS[aggregator_name]

    def _compute(self, logits: Any, label: Any, template_id: Any, word_to_index: Any) -> Any:
        """Return (scores, extra information, anything else) of a batch."""
        raise NotImplementedError("_compute is not implemented")

    def summarize(self) -> dict[str, Any]:
        """Return the values that are written about all examples together: name → value."""
        overall, summary = self.example_aggregator(self.score_per_example, self.extra_info_per_example)
        if overall is INVALID:
            return {**summary, "Overall model score": "INVALID_SCORE_VALUE"}
        summary = {**summary, "Overall model score": overall, "Number of examples": len(self.score_per_example)}
        for function in self.summary_functions:
            summary.update(function())
        return summary


def punctuated_join(seq: Sequence[str], joining_character: str = " ") -> str:
    """Join words to a text, with punctuation attached to the word before it."""
    return joined(seq).replace(" ", joining_character)


def load_class(spec: str, base: Path, kind: Kind) -> type:
    """Load the class ``file.py:Name`` of a user's file."""
    file, _, name = spec.rpartition(":")
    if not file:
        raise PluginError(f"'{spec}' does not name a class; write file.py:Name")
    module = load_file(base / Path(file).expanduser(), kind)
    loaded = getattr(module, name, None)
    if not isinstance(loaded, type):
        classes = []
        for member_name, member in vars(module).items():
            if isinstance(member, type) and not member_name.startswith("_"):
                classes.append(member_name)
        raise PluginError(f"{file} has no class '{name}'{did_you_mean(name, classes)}")
    return loaded


def load_file(path: Path, kind: Kind) -> types.ModuleType:
    """Run a user's Python file once, as a part of the package ``src.models`` or ``src.metrics``."""
    path = path.resolve()
    name = f"src.{kind}.lmassay_user_{path.stem}_{digest(str(path))[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_file():
        raise PluginError(f"there is no file {path}; give the path of a Python file with your class")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} is not a Python file (its name must end in .py)")
    install()
    # The file can import modules next to it, as it could in the original's tree.
    package_path = vars(sys.modules[f"src.{kind}"]).setdefault("__path__", [])
    if str(path.parent) not in package_path:
        package_path.append(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt | PluginError):
            raise
        raise PluginError(f"{path}: the file failed to import: {error_with_location(error)}") from error
    return module


def load_plugins(files: Iterable[Path]) -> Plugins:
    """Run files that register their classes in the tables of ``src.models.models`` or ``src.metrics.metrics``."""
    for path in files:
        registered_before = (dict(MODELS), dict(METRICS))
        # As in the original's tree: src/metrics/… or src/models/….
        kind: Literal["models", "metrics"] = "models"
        if path.resolve().parent.name == "metrics":
            kind = "metrics"
        module = load_file(path, kind)
        _adopt_tables(module)
        # A class that is not registered would not be used, and the numbers would be those of another model.
        if registered_before == (MODELS, METRICS) and path.resolve() not in _REGISTERING_FILES:
            raise PluginError(
                f"{path} registers no class; add `{MODEL_TABLE}['name'] = YourModel` with `from src.models.models "
                f"import {MODEL_TABLE}`, or write class: {path}:YourModel in the configuration"
            )
        _REGISTERING_FILES.add(path.resolve())
    models = {name: _spec_of(registered) for name, registered in MODELS.items()}
    metrics = {name: _spec_of(registered) for name, registered in METRICS.items()}
    return Plugins(models, metrics)


def _adopt_tables(module: types.ModuleType) -> None:
    """Take over the tables that a user's copy of the original's ``models.py`` or ``metrics.py`` defines itself."""
    MODELS.update(vars(module).get(MODEL_TABLE, {}))
    METRICS.update(vars(module).get(METRIC_TABLE, {}))


def _spec_of(cls: Any) -> str:
    file = getattr(sys.modules.get(getattr(cls, "__module__", "")), "__file__", None)
    if not isinstance(cls, type) or file is None:
        raise PluginError(f"{cls!r} is registered, but it is not a class in a file")
    return f"{file}:{cls.__name__}"


def install() -> None:
    """Make the original's modules importable, unless a package ``src`` was imported already.

    A clone of the original in the working folder is ignored on purpose: it needs old versions of its libraries.
    """
    if "src" in sys.modules:
        return
    modules: dict[str, dict[str, Any]] = {
        "src": {"__path__": []},
        "src.constants": _CONSTANTS,
        "src.models": {"__path__": []},
        "src.models.MPE_model": _by_name(MPEModel),
        "src.models.transformers_model": _by_name(
            MPEModel, TransformersModel, TransformersIndexer, TransformersPrefixSpaceIndexer
        ),
        "src.models.utils": _by_name(punctuated_join),
        "src.models.models": {MODEL_TABLE: MODELS, "MPEModel": MPEModel},
        "src.metrics": {"__path__": []},
        "src.metrics.metric_computer": {
            **_by_name(MetricComputer, mean_example_aggregator),
            "example_aggregator_name_to_function": AGGREGATORS,
        },
        "src.metrics.metrics": {METRIC_TABLE: METRICS, "MetricComputer": MetricComputer},
    }
    for name, members in modules.items():
        module = types.ModuleType(name, "refining-tse's interface, provided by lmassay.")
        vars(module).update(members)
        sys.modules[name] = module
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, module)


_CONSTANTS: dict[str, Any] = {
    "Number": Number,
    "MaskedVerb_to_Number": {-1: Number.SINGULAR, -2: Number.PLURAL},
    "INVALID_SCORE_VALUE": INVALID,
    "BATCH_SIZE": BATCH,
}


def _by_name(*members: Any) -> dict[str, Any]:
    return {member.__name__: member for member in members}


def _device() -> Any:
    """Return the CUDA device if there is one, else the CPU.

    torch is looked up instead of imported: whoever writes such a class has imported it, and nobody else should have to.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return "cpu"
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def call_user_code(file: str, method: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's method; if it fails, raise a PluginError with file and line."""
    try:
        return call(*arguments)
    except LmassayError:
        raise
    except Exception as error:
        raise PluginError(f"{file}: {method} failed: {error_with_location(error)}") from error


def check_tokenizer(file: str, base: Path, instance: Any) -> None:
    """Raise a PluginError if a user's class relies on ``add_prefix_space``, which its own tokenizer would ignore.

    The tokenizer that :class:`TransformersModel` provides obeys it.
    """
    if isinstance(getattr(instance, "tokenizer", None), EarlierTokenizer):
        return
    source = base / Path(file.rpartition(":")[0]).expanduser()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        # Given to from_pretrained, the option still works.
        is_loading = isinstance(node.func, ast.Attribute) and node.func.attr == "from_pretrained"
        if not is_loading and any(keyword.arg == "add_prefix_space" for keyword in node.keywords):
            raise PluginError(
                f"{source}, line {node.lineno}: current tokenizers ignore add_prefix_space here, so the model would "
                "read another text; inherit from src.models.transformers_model.TransformersModel, or write the space "
                "yourself"
            )


def check_written(file: str, instance: Any, base: type, *names: str) -> None:
    """Raise a PluginError if a user's class does not override these methods of its base class."""
    for name in names:
        if inspect.getattr_static(instance, name, None) is inspect.getattr_static(base, name):
            raise PluginError(f"{file}: {name} is not implemented; the base class {base.__name__} does not provide it")


def class_identity(file: str, base: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what distinguishes a user's class from another.

    That is its name, a digest of its file with the modules next to it that the file imports, and its settings.
    """
    path, _, name = file.rpartition(":")
    source = (base / Path(path).expanduser()).resolve()
    if not source.is_file():
        raise PluginError(f"there is no file {source}; give the path of a Python file with your class")
    try:
        options = digest(dict(settings))[:8]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the settings of {name} are not plain values: {error}") from None
    return {"class": name, "source": f"src:{SourceFolder(source.parent).digest(source)}", "options": options}
