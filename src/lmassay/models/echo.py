"""A model that gives the prompt back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from lmassay.contracts import Model
from lmassay.types import Finish, Generate, Response


class Echo(Model):
    """Deterministic stand-in for a system: repeats the prompt, reversed or upper-cased if asked for."""

    name = "echo"
    can = frozenset({"generate"})

    def __init__(self, transform: Literal["none", "reverse", "upper"] = "none", label: str = "") -> None:
        self.transform = transform
        self.label = label

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, "transform": self.transform}

    def generate(self, requests: Sequence[Generate]) -> Iterator[Response]:
        for request in requests:
            text = request.prompt or "\n".join(content for _, content in request.messages)
            words = text.split(" ")
            kept = words[: request.max_tokens]
            finish: Finish = "length" if len(kept) < len(words) else "stop"
            yield Response(self._changed(" ".join(kept)), finish=finish, tokens_out=len(kept))

    def _changed(self, text: str) -> str:
        if self.transform == "reverse":
            return text[::-1]
        return text.upper() if self.transform == "upper" else text
