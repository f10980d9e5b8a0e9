"""An entry of the catalogue: the YAML file that describes one data set.

An entry names the public repository and the commit of each file and pins the content of every file by a digest, so that
everybody who uses the data set's name uses the same bytes. To add a data set, add such a file; see docs/data.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from lmassay.datasets.questions import QuestionFormat
from lmassay.errors import DataError, did_you_mean
from lmassay.plugins.yaml_models import YamlModel, read_model
from lmassay.storage.files import git_blob_id, sha256

EXAMPLES = "examples"
"""The role of the files that a task reads if it gets only the name of the data set."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_HEX = re.compile(r"[0-9a-f]+")
_SHA256_LENGTH = 64
_SHA1_LENGTH = 40
# Windows reserves these names for devices, with any extension.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_GITHUB = "github.com"

Labels = Mapping[str, str | Sequence[str]]
"""Conditions by which files are selected: a dict from the name of a label to one of its values, or several."""


def safe_path(text: str) -> str:
    """Return a relative path unchanged. Raises ValueError if it could leave the folder that it is joined to."""
    parts = PurePosixPath(text).parts
    leaves_folder = text.startswith("/") or ".." in parts
    # An entry may be written on Linux and used on Windows, which refuses these characters and names.
    has_forbidden_character = re.search(r'[\\:*?"<>|\x00-\x1f]', text) is not None
    has_device_name = any(_DEVICE.fullmatch(part) for part in parts)
    if not parts or leaves_folder or has_forbidden_character or has_device_name:
        raise ValueError("must be a relative path with forward slashes that stays inside its folder")
    return text


def _digest_of(length: int) -> AfterValidator:
    def check(text: str) -> str:
        if len(text) != length or not _HEX.fullmatch(text):
            raise ValueError(f"must be {length} hexadecimal digits in lower case")
        return text

    return AfterValidator(check)


SafePath = Annotated[str, AfterValidator(safe_path)]
Sha256 = Annotated[str, _digest_of(_SHA256_LENGTH)]
Sha1 = Annotated[str, _digest_of(_SHA1_LENGTH)]


class DataFile(YamlModel):
    """One file of a data set: the digest of its content, and what it contains."""

    sha256: Sha256 | None = None
    git_blob: Sha1 | None = None
    """Git's id of the content, which is used if no SHA-256 has been published."""
    bytes: Annotated[int, Field(ge=0)] | None = None
    """The size of the file, if it is known."""
    examples: Annotated[int, Field(ge=0)] | None = None
    """The number of examples in the file, if it is known."""
    role: str = EXAMPLES
    """What the task uses the file for: :data:`EXAMPLES`, or another role that the task knows, such as ``control``."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    """Labels that distinguish this file from others of the data set, such as ``category`` or ``language``."""

    @model_validator(mode="after")
    def _check_is_pinned(self) -> DataFile:
        if self.sha256 is None and self.git_blob is None:
            raise ValueError("must have a 'sha256' or a 'git_blob', so that its content can be verified")
        return self

    def matches(self, path: Path) -> bool:
        """Return whether the file at ``path`` has the pinned content."""
        # The size is compared first, because it finds most incomplete downloads without reading the file.
        if self.bytes is not None and path.stat().st_size != self.bytes:
            return False
        if self.sha256 is not None:
            return sha256(path) == self.sha256
        return git_blob_id(path.read_bytes()) == self.git_blob


class Source(YamlModel):
    """Files from one public repository at one commit."""

    repository: str
    """The address of the repository, such as ``https://github.com/owner/name``."""
    commit: Sha1
    """The commit whose files are used."""
    licence: str
    folder: SafePath
    """The folder with the files in the cache and in a mirror."""
    path: SafePath | None = None
    """The folder with the files in the repository; its root if left out."""
    url: str | None = None
    """A template for the address of a file, with the placeholders ``{commit}`` and ``{path}``. Repositories on GitHub
    do not need it."""
    files: Mapping[str, DataFile]
    """A dict from the path of a file, relative to ``path``, to its description."""

    @field_validator("repository", "url")
    @classmethod
    def _check_address(cls, address: str | None) -> str | None:
        if address is not None and urlsplit(address).scheme != "https":
            raise ValueError("must be an address that begins with https://")
        return address

    @field_validator("url")
    @classmethod
    def _check_placeholders(cls, url: str | None) -> str | None:
        if url is not None:
            rest = url.replace("{commit}", "").replace("{path}", "")
            has_both = "{commit}" in url and "{path}" in url
            if not has_both or "{" in rest or "}" in rest:
                raise ValueError("must contain {commit} and {path}, and no other braces")
        return url

    @field_validator("files")
    @classmethod
    def _check_paths(cls, files: Mapping[str, DataFile]) -> Mapping[str, DataFile]:
        if not files:
            raise ValueError("must name at least one file")
        for path in files:
            try:
                safe_path(path)
            except ValueError as error:
                raise ValueError(f"the path {path!r} {error}") from None
        return files

    @model_validator(mode="after")
    def _check_has_address(self) -> Source:
        if self.url is None and urlsplit(self.repository).hostname != _GITHUB:
            raise ValueError("needs 'url' with {commit} and {path}, because the repository is not on GitHub")
        return self

    def address_of(self, path: str) -> str:
        """Return the address from which a file can be downloaded at the pinned commit."""
        in_repository = str(PurePosixPath(self.path or "") / path)
        if self.url is not None:
            return self.url.format(commit=self.commit, path=quote(in_repository))
        owner_and_name = urlsplit(self.repository).path.strip("/")
        return f"https://raw.githubusercontent.com/{owner_and_name}/{self.commit}/{quote(in_repository)}"


class DataSet(YamlModel):
    """A published data set: its description and citation, the task that reads it, and its files."""

    name: str
    title: str
    summary: str
    task: str
    """The name of the task that reads it."""
    languages: tuple[str, ...]
    citation: str
    homepage: str = ""
    part: str | None = None
    """The name of the label by which a configuration selects with ``name/part``."""
    reading: Mapping[str, Any] = Field(default_factory=dict)
    """Options with which the task reads the files, for formats that it does not recognise automatically."""
    questions: QuestionFormat | None = None
    """The format of questions whose answer is in the text, for tasks that can use questions of any data set."""
    sources: tuple[Source, ...]

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(
                "must have only lower-case letters, digits, hyphens and underscores, and begin with a letter or digit"
            )
        return name

    @property
    def licences(self) -> str:
        """The licences of all sources."""
        return "; ".join(dict.fromkeys(source.licence for source in self.sources))

    @property
    def size(self) -> int:
        """The total size in bytes, without the files whose size is unknown."""
        return sum(file.bytes or 0 for _, _, file in self.files())

    @property
    def examples(self) -> int:
        """The total number of examples, without those in files whose number is unknown."""
        total = 0
        for _, _, file in self.files():
            if file.role == EXAMPLES:
                total += file.examples or 0
        return total

    @property
    def examples_text(self) -> str:
        """The number of examples for tables; ``> 100`` if the number in some files is unknown."""
        has_unknown = any(file.role == EXAMPLES and file.examples is None for _, _, file in self.files())
        if not has_unknown:
            return f"{self.examples:,}"
        if not self.examples:
            return "unknown"
        return f"> {self.examples:,}"

    def files(self) -> Iterator[tuple[Source, str, DataFile]]:
        """Yield each file with its source and its path in the source."""
        for source in self.sources:
            for path, file in source.files.items():
                yield source, path, file

    def select(self, labels: Labels, role: str = EXAMPLES) -> list[tuple[Source, str, DataFile]]:
        """Return the files with a role that match all labels. If a label has several values, one must match."""
        candidates = []
        for source, path, file in self.files():
            if file.role == role:
                candidates.append((source, path, file))
        for name, value_or_values in labels.items():
            wanted = [value_or_values] if isinstance(value_or_values, str) else list(value_or_values)
            self._check_label(name, wanted, [file for _, _, file in candidates])
            matching = []
            for source, path, file in candidates:
                if file.labels.get(name) in wanted:
                    matching.append((source, path, file))
            candidates = matching
        return candidates

    def _check_label(self, name: str, wanted: Sequence[str], files: Sequence[DataFile]) -> None:
        """Raise a DataError if no file has a label of this name, or if a wanted value is not that of any file."""
        available_names: set[str] = set()
        available_values: set[str] = set()
        for file in files:
            available_names.update(file.labels)
            if name in file.labels:
                available_values.add(file.labels[name])
        if name not in available_names:
            hint = did_you_mean(name, available_names)
            raise DataError(f"the data set {self.name} has no '{name}' to select by{hint}")
        for value in wanted:
            if value not in available_values:
                hint = did_you_mean(value, available_values)
                raise DataError(f"the data set {self.name} has no {name} '{value}'{hint}")


def read_entry(path: Path) -> DataSet:
    """Read the data set that a YAML file describes. Raises an error that lists all mistakes in the file."""
    return read_model(path, DataSet)[0]
