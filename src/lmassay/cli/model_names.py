"""A model as it is named on the command line, made into what a configuration says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lmassay.errors import UserError, did_you_mean

FORMS = "smollm2, openai:NAME, hf:NAME, a folder, or file.py:Class"


def model_spec(text: str, base: Path = Path()) -> str | dict[str, Any]:
    """``smollm2``, ``openai:gpt-4o``, ``owner/name``, ``path/to/folder`` or ``file.py:Class`` as a configuration in the
    folder ``base`` says it."""
    from lmassay.registry import current

    kind, colon, rest = text.partition(":")
    known = current().names("model")
    if text in known:
        return _kind_alone(text)
    if ".py:" in text:
        file, _, name = text.rpartition(":")
        return f"{_from(base, file)}:{name}"
    if colon and kind in known and rest:
        return {"name": kind, "model": _from(base, rest) if kind == "hf" else rest}
    if Path(text).exists() or "/" in text:
        return {"name": "hf", "model": _from(base, text)}
    raise UserError(f"there is no model '{text}'{did_you_mean(text, known)} (one on the model hub is hf:{text})")


def _kind_alone(name: str) -> str:
    from lmassay.options import options_model
    from lmassay.registry import current

    fields = options_model(current().get("model", name)).model_fields
    wanted = [field for field, about in fields.items() if about.is_required()]
    if "model" in wanted:
        raise UserError(f"--model {name}: say which one, e.g. {name}:NAME")
    if wanted:
        raise UserError(f"--model {name}: it needs {' and '.join(wanted)}, which only a configuration can say")
    return name


def _from(base: Path, path: str) -> str:
    """The way to a file from the configuration's folder; what is no file here stays what it is."""
    place = Path(path).expanduser()
    if not place.exists() or place.is_absolute():
        return str(place) if place.exists() else path
    return Path(os.path.relpath(place, base)).as_posix()
