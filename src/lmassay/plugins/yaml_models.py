"""Reads a YAML file into a pydantic model. All mistakes are reported at once, each with file, line and key.

Example::

    class Description(YamlModel):
        labels: list[str]
        words: dict[str, str] = {}

        @field_validator("words")
        @classmethod
        def _check_words(cls, words: dict[str, str], info: ValidationInfo) -> dict[str, str]:
            # If the labels themselves are wrong, they are not in info.data, and that mistake is reported separately.
            labels = info.data.get("labels")
            mistakes = Mistakes()
            for label in words:
                if labels is not None and label not in labels:
                    mistakes.add("this is not a label", label)
            mistakes.report()
            return words

    description, file = read_model(path, Description)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from lmassay.plugins.options import MISTAKE, validation_messages
from lmassay.storage.yamlfile import YamlFile, read_yaml


class YamlModel(BaseModel):
    """The base class for the contents of a file, or of a mapping inside it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_Model = TypeVar("_Model", bound=YamlModel)


def read_model(path: Path, model: type[_Model], **defaults: Any) -> tuple[_Model, YamlFile]:
    """Return the contents of a file and the file itself, whose methods add lines to messages about further mistakes.

    ``defaults`` are used for keys that the file leaves out. Raises one ConfigError that lists all mistakes.
    """
    file = read_yaml(path)
    try:
        return model.model_validate({**defaults, **file.data}, context=_Context(path.parent)), file
    except ValidationError as error:
        raise file.error(validation_messages(error, model, "")) from None


@dataclass(frozen=True, slots=True)
class _Context:
    """What validators can find out about the file that is being read, see :func:`folder_of`."""

    folder: Path


def folder_of(info: ValidationInfo) -> Path:
    """Return the folder of the file that is being read; for validators of paths."""
    if isinstance(info.context, _Context):
        return info.context.folder
    return Path()


class Mistakes:
    """Collects mistakes, so that a validator can report several at once."""

    def __init__(self) -> None:
        self._details: list[InitErrorDetails] = []

    def add(self, message: str, *location: str | int) -> None:
        """Add a mistake at a location below the field, given as keys and indexes."""
        kind = PydanticCustomError(MISTAKE, message)
        self._details.append({"type": kind, "loc": location, "input": None})

    def report(self) -> None:
        """Raise a ValidationError with all mistakes, if there are any."""
        if self._details:
            raise ValidationError.from_exception_data("mistakes", self._details)


def listed(value: Any) -> Any:
    """Return a list: a single value becomes a list of one, null an empty list."""
    if value is None:
        return []
    if isinstance(value, list):
        return value
    return [value]
