"""Options that take data from memory: where a configuration file names a data file, a Python program may pass the data.

An option of type ``Path`` takes texts or rows. An option with another type declares what it takes with
:class:`InMemory`. :meth:`DataStorage.store` writes the data in the options of a plug-in to files, and puts the paths of
these files in their place.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from lmassay.errors import ConfigError, DataError, LmassayError
from lmassay.plugins.options import Nested, inner_model, options_model
from lmassay.plugins.registry import current_registry
from lmassay.storage.in_memory import Rows, is_frame, rows_of, write_description


@dataclass(frozen=True, slots=True)
class InMemory:
    """Marks what an option takes from memory: ``src: Annotated[Path | None, InMemory("texts")]``."""

    kind: Literal["texts", "rows"]
    """Whether it takes a list of texts or a list of rows, which are mappings from columns to values."""
    columns: tuple[str, ...] = ()
    """The columns of a row that is given as a tuple; without them, rows must be mappings."""
    described_by: str = ""
    """An option may also take a description of data as a mapping, in place of the YAML file that a configuration file
    would name. This is the key of the mapping under which the data are; empty if the option takes no description."""


_ONE_RUN_PER_ITEM = (
    "a list in a configuration means one run per item; to pass data, write lmassay.rows([…]), or give the task as "
    "lmassay.task(name, …)"
)
# Used in place of an InMemory for an option of type Path that is not marked with one: it takes texts as well as rows.
_ANYTHING = None


@dataclass(frozen=True, slots=True)
class DataStorage:
    """Where data from memory are written, and how a list is understood."""

    results: Path
    """The results folder."""
    base: Path
    """The folder that relative paths start from."""
    lists_are_data: bool
    """Whether a list of texts or rows is data. If not, it starts one run per item, as in a configuration file."""

    def store(self, kind: str, spec: Any, key: str = "") -> Any:
        """Return the description of a plug-in with paths in place of data from memory.

        The description is that of a configuration: a name, a mapping with the key ``name``, or a list of these.
        """
        key = key or kind
        if isinstance(spec, list | tuple):
            return [self.store(kind, item, key) for item in spec]
        if not isinstance(spec, Mapping):
            return spec
        name = spec.get("name")
        fields: Mapping[str, Any] = {}
        if isinstance(name, str):
            try:
                fields = options_model(current_registry().get(kind, name, self.base)).model_fields
            except LmassayError:
                # An unknown name is reported when the configuration is checked.
                fields = {}
        return self._mapping(spec, fields, key)

    def _mapping(self, options: Mapping[str, Any], fields: Mapping[str, Any], key: str) -> dict[str, Any]:
        stored: dict[str, Any] = {}
        for option, value in options.items():
            stored[option] = self._value(value, fields.get(option), f"{key}.{option}")
        return stored

    def _value(self, value: Any, field: Any, key: str) -> Any:
        """Store the data in the value of an option. ``field`` is its declaration in pydantic; None if there is none."""
        if field is None:
            return self._without_field(value, key)
        for mark in field.metadata:
            if isinstance(mark, Nested):
                return self.store(mark.kind, value, key)
            if isinstance(mark, InMemory):
                return self._data(value, mark, key)
        if _takes_path(field.annotation):
            return self._data(value, _ANYTHING, key)
        inner = inner_model(field.annotation)
        if inner is not None:
            return self._inner(value, inner, key)
        if _takes_paths_by_name(field.annotation) and isinstance(value, Mapping):
            return {name: self._data(inner_value, _ANYTHING, f"{key}.{name}") for name, inner_value in value.items()}
        return self._without_field(value, key)

    def _inner(self, value: Any, model: type[BaseModel], key: str) -> Any:
        """Store the data in an option that is a mapping with its own keys, or a list of such mappings."""
        if isinstance(value, Mapping):
            return self._mapping(value, model.model_fields, key)
        if isinstance(value, list | tuple):
            return [self._inner(item, model, key) for item in value]
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json", exclude_unset=True)
        return value

    def _without_field(self, value: Any, key: str) -> Any:
        """Store data that are recognised without knowing the option: data frames and what ``lmassay.rows`` returns."""
        if type(value).__module__ == "numpy":
            # A list of numbers, or a single one.
            return value.tolist()
        if isinstance(value, Rows) or is_frame(value):
            return str(rows_of(value, key).write(self.results))
        if isinstance(value, Mapping):
            return {name: self._without_field(inner, f"{key}.{name}") for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._without_field(item, f"{key}[{number}]") for number, item in enumerate(value)]
        return value

    def _data(self, value: Any, mark: InMemory | None, key: str) -> Any:
        """Store the value of an option that takes data, if it is data rather than the path of a file."""
        if isinstance(value, Rows) or is_frame(value) or self._is_list_of_data(value, mark, key):
            columns = () if mark is None else mark.columns
            data = rows_of(value, key, columns=columns)
            _check_kind(data, mark, key)
            return str(data.write(self.results))
        if isinstance(value, Mapping):
            # The mapping is either a description that contains its data, or it has data in some of its values.
            if mark is not None and mark.described_by in value:
                return self._description(value, mark, key)
            return {name: self._data(inner, mark, f"{key}.{name}") for name, inner in value.items()}
        if isinstance(value, list | tuple):
            self._refuse_texts(value, mark, key)
            return [self._data(item, mark, f"{key}[{number}]") for number, item in enumerate(value)]
        return value

    def _refuse_texts(self, values: Sequence[Any], mark: InMemory | None, key: str) -> None:
        """Refuse texts and rows where a list means several sources: they would be reported as missing files."""
        if _are_rows(values, mark):
            raise ConfigError(f"{key}: these are rows, and {_ONE_RUN_PER_ITEM}")
        if mark is not None and mark.kind == "rows":
            return
        if not all(isinstance(value, str) for value in values):
            return
        # A space distinguishes a sentence from a mistyped file name.
        has_sentence = any(" " in value for value in values)
        if has_sentence and not any(self._is_file(value) for value in values):
            raise ConfigError(f"{key}: none of these is a file, and {_ONE_RUN_PER_ITEM}")

    def _is_file(self, text: str) -> bool:
        try:
            return (self.base / text).is_file()
        except (OSError, ValueError):
            # A text that is too long for a path.
            return False

    def _is_list_of_data(self, value: Any, mark: InMemory | None, key: str) -> bool:
        """Whether a value is a list of texts or rows, and not a list of several values of the option."""
        if not self.lists_are_data or not isinstance(value, list | tuple):
            return False
        if not value:
            raise DataError(f"{key}: the list is empty; give at least one text or row")
        if all(isinstance(item, str) for item in value):
            if mark is not None and mark.kind == "rows":
                # Names of files or data sets; each starts a run.
                return False
            self._refuse_file_names(value, key)
            return True
        if mark is not None and mark.columns and all(isinstance(item, tuple | list) for item in value):
            return True
        # A mapping with a name or with the key of a description is not a row.
        not_rows = {"name"} if mark is None else {"name", mark.described_by}
        for item in value:
            if isinstance(item, Mapping) and not_rows.isdisjoint(item):
                return True
        for item in value:
            is_single_value = isinstance(item, str | Path | Mapping | Rows) or is_frame(item)
            if not is_single_value:
                # Anything else, such as a number, is reported as a wrong text or row.
                return True
        return False

    def _refuse_file_names(self, texts: Sequence[str], key: str) -> None:
        """Refuse a list of file names where texts are expected: the names themselves would be evaluated as texts."""
        if not all(self._is_file(text) for text in texts):
            return
        raise ConfigError(f"{key}: these are names of files, but a list is data here; give one path, not a list")

    def _description(self, description: Mapping[str, Any], mark: InMemory, key: str) -> str:
        """Write a description of data as a file, and the data that it contains as separate files."""
        stored = dict(description)
        own_key = mark.described_by
        in_memory = DataStorage(self.results, self.base, lists_are_data=True)
        data_mark = InMemory("rows")
        value = stored[own_key]
        if isinstance(value, Mapping):
            paths = {}
            for part, inner in value.items():
                paths[part] = self._absolute(in_memory._data(inner, data_mark, f"{key}.{own_key}.{part}"))
            stored[own_key] = paths
        else:
            stored[own_key] = self._absolute(in_memory._data(value, data_mark, f"{key}.{own_key}"))
        name = stored.get("name")
        return str(write_description(stored, name if isinstance(name, str) else "", self.results))

    def _absolute(self, value: Any) -> Any:
        """Return absolute paths.

        Relative paths in a description start at ``base``, but the file that the description is written to is elsewhere.
        """
        if isinstance(value, str | Path):
            return str((self.base / Path(value).expanduser()).absolute())
        if isinstance(value, list | tuple):
            return [self._absolute(item) for item in value]
        return value


def _check_kind(data: Rows, mark: InMemory | None, key: str) -> None:
    """Raise a DataError for rows where texts are expected, or texts where rows are expected."""
    if mark is None:
        return
    if mark.kind == "texts" and not data.texts:
        columns = data.columns
        example = f"data['{columns[0]}']" if columns else "data['text']"
        raise DataError(
            f"{key}: this is a table with the columns {', '.join(columns)}, but a list of texts is expected; give one "
            f"column, such as {example}"
        )
    if mark.kind == "rows" and data.texts:
        raise DataError(f"{key}: these are texts, but rows are expected; give a list of mappings or a data frame")


def _takes_path(annotation: Any) -> bool:
    parts = typing.get_args(annotation) or (annotation,)
    return any(part is Path for part in parts) and typing.get_origin(annotation) not in (list, dict, tuple, set)


def _takes_paths_by_name(annotation: Any) -> bool:
    for part in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(part) is dict and typing.get_args(part)[1:] == (Path,):
            return True
    return False


def _are_rows(values: Sequence[Any], mark: InMemory | None) -> bool:
    """Return whether all items of a list are rows: mappings with the columns that the option's data have."""
    if mark is None or not mark.columns or not values:
        return False
    return all(isinstance(value, Mapping) and set(mark.columns) <= value.keys() for value in values)
