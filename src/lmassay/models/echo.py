"""A model that returns the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from lmassay.contracts import Model
from lmassay.types import Finish, Generate, Response


class Echo(Model):
    """A deterministic stand-in for a system: it repeats the prompt, optionally reversed or in upper case."""

    name = "echo"
    can = frozenset({"generate"})

    option_help: ClassVar[Mapping[str, str]] = {
        "transform": "how the text is changed",
        "label": "name in tables",
    }
    config_example = "model: {name: echo, transform: upper}"

    def __init__(self, transform: Literal["none", "reverse", "upper"] = "none", label: str = "") -> None:
        self.transform = transform
        self.label = label

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, "transform": self.transform}

    def generate(self, requests: Sequence[Generate]) -> Iterator[Response]:
        for request in requests:
            text = request.prompt or "\n".join(content for _, content in request.messages)
            words = text.split(" ")
            # For this model, a token is a word.
            answer_words = words[: request.max_tokens]
            finish: Finish = "length" if len(answer_words) < len(words) else "stop"
            answer = self._transformed(" ".join(answer_words))
            yield Response(answer, finish=finish, tokens_out=len(answer_words))

    def _transformed(self, text: str) -> str:
        if self.transform == "reverse":
            return text[::-1]
        if self.transform == "upper":
            return text.upper()
        return text
