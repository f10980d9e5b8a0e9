"""A model as it is named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmassay.errors import ConfigError, closest
from lmassay.plugins.options import Spec
from lmassay.plugins.registry import current_registry
from lmassay.storage.yamlfile import read_brackets, read_mapping

DEFAULT_MODEL = "smollm2"
_FILES = (".yaml", ".yml")


def model_spec(word: str, base: Path) -> Spec:
    """What a word stands for; paths become absolute, so that it means the same from everywhere.

    ``smollm2`` and other kinds by name, ``openai:gpt-x`` a kind and its model, ``path/to/folder`` or ``model.gguf`` a
    local model, ``file.py:Name`` a class of one's own, ``model.yaml`` or ``{name: openai, …}`` with options, anything
    else a model of the hub that was fetched.
    """
    if not word.strip():
        raise ConfigError("model: the name is empty; see `lmassay card -h`")
    if word.lstrip().startswith("{"):
        return _with_paths(read_brackets(word, "model"), base)
    if word.endswith(_FILES):
        data, _ = read_mapping(base / word)
        return _with_paths(data if "name" in data else data.get("model", data), (base / word).resolve().parent, word)
    file, colon, rest = word.rpartition(":")
    if colon and file.endswith(".py"):
        return f"{(base / file).resolve()}:{rest}"
    known = current_registry().names("model")
    if word in known:
        return word
    kind, colon, rest = word.partition(":")
    if colon and kind in known:
        return {"name": kind, "model": _absolute(rest, base) if kind == "hf" else rest}
    if word.endswith(".py") and (base / word).is_file():
        raise ConfigError(f"model: name the class in {word} as well: {word}:NAME")
    if (base / word).exists():
        return {"name": "hf", "model": _absolute(word, base)}
    meant = closest(word, known)
    if meant is not None:
        raise ConfigError(f"model: there is neither a file nor a kind of model '{word}'; did you mean '{meant}'?")
    return {"name": "hf", "model": word}


def _with_paths(spec: Any, base: Path, where: str = "") -> Spec:
    """A description whose files and folders lie beside it."""
    if isinstance(spec, str):
        return model_spec(spec, base)
    if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
        told = f"{where}: " if where else ""
        raise ConfigError(f"{told}model: give a mapping with the key 'name' and options beside it; got {spec!r}")
    name = spec["name"]
    # Of the kinds that ship, one has an option that may be a path or a name; what others call a path is known as such.
    # Of a class of one's own, text with a slash in it.
    texts = {key: value for key, value in spec.items() if isinstance(value, str) and key != "name"}
    theirs = {k: v for k, v in texts.items() if (k == "model" if name == "hf" else ".py:" in name and "/" in v)}
    paths = {key: _absolute(value, base) for key, value in theirs.items()}
    return {**spec, **paths, "name": str(model_spec(name, base)) if ".py:" in name else name}


def _absolute(value: str, base: Path) -> str:
    path = Path(value).expanduser()
    return str((base / path).resolve()) if value and (base / path).exists() else value
