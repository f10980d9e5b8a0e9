"""Reads the name or description of a model on the command line, as in ``lmassay card MODEL``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmassay.errors import ConfigError, closest
from lmassay.plugins.options import Spec
from lmassay.plugins.registry import current_registry
from lmassay.redaction import shown_value
from lmassay.storage.file_names import paths_spelled_on_disk
from lmassay.storage.yamlfile import read_brackets, read_mapping

DEFAULT_MODEL = "smollm2"
_YAML_SUFFIXES = (".yaml", ".yml")


def model_spec(text: str, base: Path) -> Spec:
    """Return the model that a text describes, with absolute paths so that it means the same from every folder.

    The text is one of:

    - the name of a registered model, such as ``smollm2``;
    - a registered model and its own model name, such as ``openai:gpt-x``;
    - a folder or GGUF file with a local model;
    - a user's own class, ``file.py:Name``;
    - a YAML file, or a mapping in braces such as ``{name: openai, base_url: …}``;
    - otherwise, the name of a model on the Hugging Face hub.

    Raises a ConfigError if a text of the last kind is almost the name of a registered model, and so probably misspelt.
    """
    text = paths_spelled_on_disk(text, base)
    if not text.strip():
        raise ConfigError("model: the name is empty; see `lmassay card -h`")
    if text.lstrip().startswith("{"):
        return _with_absolute_paths(read_brackets(text, "model"), base)
    if text.endswith(_YAML_SUFFIXES):
        data, _ = read_mapping(base / text)
        # The file may be a description of the model or a whole configuration.
        spec = data if "name" in data else data.get("model", data)
        return _with_absolute_paths(spec, (base / text).resolve().parent, text)
    file, colon, class_name = text.rpartition(":")
    if colon and file.endswith(".py"):
        return f"{(base / file).resolve()}:{class_name}"
    registered = current_registry().names("model")
    if text in registered:
        return text
    name, colon, own_name = text.partition(":")
    if colon and name in registered:
        if name == "hf":
            own_name = _absolute(own_name, base)
        return {"name": name, "model": own_name}
    if text.endswith(".py") and (base / text).is_file():
        raise ConfigError(f"model: name the class in {text} as well: {text}:NAME")
    if (base / text).exists():
        return {"name": "hf", "model": _absolute(text, base)}
    suggestion = closest(text, registered)
    if suggestion is not None:
        raise ConfigError(f"model: '{text}' is neither a file nor a known model; did you mean '{suggestion}'?")
    return {"name": "hf", "model": text}


def _with_absolute_paths(spec: Any, base: Path, source: str = "") -> Spec:
    """Return a model's description with absolute paths; relative ones start at ``base``.

    ``source`` is the file that has the description, for messages.
    """
    if isinstance(spec, str):
        return model_spec(spec, base)
    if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
        prefix = f"{source}: " if source else ""
        raise ConfigError(f"{prefix}model: give a mapping with the key 'name' and the options; got {shown_value(spec)}")
    name = spec["name"]
    is_users_class = ".py:" in name
    resolved: dict[str, Any] = {}
    for key, value in spec.items():
        # Options with the type Path are resolved later. Two others may be a path: the model of `hf`, which can also be
        # a name on the hub, and texts with a slash among the options of a user's own class.
        may_be_path = (key == "model" and name == "hf") or (is_users_class and "/" in str(value))
        if isinstance(value, str) and key != "name" and may_be_path:
            value = _absolute(value, base)
        resolved[key] = value
    if is_users_class:
        resolved["name"] = str(model_spec(name, base))
    return resolved


def _absolute(text: str, base: Path) -> str:
    """Return the absolute path of a file or folder; a text that is not a path is returned as it is."""
    path = base / Path(text).expanduser()
    if not text or not path.exists():
        return text
    return str(path.resolve())
