"""Keys and addresses from environment variables. A key is read when it is needed and kept nowhere."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lmassay.errors import ConfigError, MissingExtra
from lmassay.redaction import remember_secret
from lmassay.types import Response

# Shorter ones are the place-holders of local servers, and words of answers.
_SHORTEST_KEY = 8


def first_set(names: Sequence[str]) -> tuple[str, str]:
    """The first variable that holds something, and what it holds; two empty strings if none does."""
    for name in names:
        if value := os.environ.get(name, "").strip():
            return name, value
    return "", ""


@dataclass(frozen=True, slots=True)
class Key:
    """Where a key is looked for: the first of these variables that is set."""

    variables: tuple[str, ...]

    def value(self) -> str:
        """The key, or an empty string."""
        name, value = first_set(self.variables)
        if value:
            remember_secret(value)
            if not (value.isascii() and value.isprintable() and " " not in value):
                raise ConfigError(f"the key in {name} has blanks or odd characters in it; copy it again")
        return value

    def blanked(self, response: Response) -> Response:
        """The response without the key, which a server may repeat in its answer."""
        _, value = first_set(self.variables)
        if len(value) < _SHORTEST_KEY or not isinstance(response.answer, str) or value not in response.answer:
            return response
        return replace(response, answer=response.answer.replace(value, "[redacted]"))

    def require(self) -> None:
        if not self.value():
            names = ", ".join(self.variables)
            told = f"the environment variable {names} is not set; export your API key in it"
            if len(self.variables) > 1:
                told = f"none of the environment variables {names} is set; export your API key in one of them"
            raise ConfigError(told)


def require_sdk(package: str, what: str) -> None:
    """Raise unless the SDK is installed; importing it takes more than a second and is left for the first question."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(what, "api")
