"""Chat turns as the text that a model continues: by its own template, or plainly where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lmassay.errors import ModelError

ChatPolicy = Literal["auto", "never"]
Messages = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A text to be continued. One from a template brings its special tokens along and gets no others."""

    text: str
    templated: bool = False


class Chat:
    """How a tokenizer writes chat turns; ``never`` leaves its template aside."""

    def __init__(self, tokenizer: Any, policy: ChatPolicy) -> None:
        self._tokenizer, self._policy = tokenizer, policy

    def prompt(self, messages: Messages) -> RenderedPrompt:
        if self._policy == "never" or self._tokenizer.chat_template is None:
            return RenderedPrompt(plainly(messages))
        return RenderedPrompt(self._templated(messages), templated=True)

    def _templated(self, messages: Messages) -> str:
        turns = [{"role": role, "content": content} for role, content in messages]
        try:
            text = str(self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
        except Exception as error:  # a template is a program of the model's makers, and refuses in its own way
            reason = (str(error).strip().splitlines() or [repr(error)])[0]
            raise ModelError(
                f"the model's chat template refuses {_roles(messages)}: {reason}; ask in turns that it knows, or set "
                "the model's option chat: never"
            ) from error
        # Some templates skip a role that they do not know. What the assistant said may be cut, e.g. its thoughts.
        for role, content in messages:
            if role != "assistant" and content.strip() not in text:
                raise ModelError(
                    f"the model's chat template leaves the {role} message out; ask in turns that it knows, or set the "
                    "model's option chat: never"
                )
        return text


def plainly(messages: Messages) -> str:
    """A single message as it is, several as a transcript whose next turn is the assistant's.

    >>> plainly([("user", "2 + 2 =")])
    '2 + 2 ='
    >>> plainly([("system", "Be brief."), ("user", "Hello")])
    'system: Be brief.\\nuser: Hello\\nassistant:'
    """
    if len(messages) == 1:
        return messages[0][1]
    return "\n".join([*(f"{role}: {content}" for role, content in messages), "assistant:"])


def _roles(messages: Messages) -> str:
    roles = ", ".join(dict.fromkeys(role for role, _ in messages))
    return f"these messages ({roles})"
