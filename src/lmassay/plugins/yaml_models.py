"""A YAML file read into a pydantic model: all mistakes are reported at once, each with file, line and key.

::

    class Description(YamlModel):
        labels: list[str]
        words: dict[str, str] = {}

        @field_validator("words")
        @classmethod
        def _check_words(cls, words: dict[str, str], info: ValidationInfo) -> dict[str, str]:
            mistakes = Mistakes()
            for label in words:
                if label not in info.data.get("labels", words):
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
    """What stands in a file, or in a mapping inside it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_Model = TypeVar("_Model", bound=YamlModel)


def read_model(path: Path, model: type[_Model], **defaults: Any) -> tuple[_Model, YamlFile]:
    """What a file says, and the file, which shows further mistakes in their place.

    ``defaults`` stand in for keys that the file may leave out this time.
    """
    file = read_yaml(path)
    try:
        return model.model_validate({**defaults, **file.data}, context=_Context(path.parent)), file
    except ValidationError as error:
        raise file.error(validation_messages(error, model, "")) from None


@dataclass(frozen=True, slots=True)
class _Context:
    folder: Path


def folder_of(info: ValidationInfo) -> Path:
    """The folder of the file that is read, for validators of paths."""
    return info.context.folder if isinstance(info.context, _Context) else Path()


class Mistakes:
    """Lets a validator report several mistakes, each with its place below the field."""

    def __init__(self) -> None:
        self._found: list[InitErrorDetails] = []

    def add(self, message: str, *location: str | int) -> None:
        kind = PydanticCustomError(MISTAKE, message)
        self._found.append({"type": kind, "loc": location, "input": None})

    def report(self) -> None:
        if self._found:
            raise ValidationError.from_exception_data("mistakes", self._found)


def listed(value: Any) -> Any:
    """One value where a list is due is a list of one; null is an empty list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
