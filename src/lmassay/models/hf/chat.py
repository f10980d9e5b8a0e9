"""Turn the messages of a chat into the text that a model continues.

The model's own chat template does this; if the model has none, the messages are written as plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lmassay.errors import DataError, ModelError
from lmassay.models.hf.folder_errors import first_line
from lmassay.models.hf.template_limits import (
    EndlessTemplateError,
    limited_memory,
    limited_steps,
    refuse_huge_multiplications,
)

ChatPolicy = Literal["auto", "never"]
Messages = Sequence[tuple[str, str]]

# How much computing time one rendering of a template may take; an ordinary template takes about a millisecond.
_MAX_SECONDS = 3.0
# How much more memory than before one rendering may need.
_MAX_MEGABYTES = 1024
# How many characters a template may add, e.g. instructions for tools. It may also write every message twice.
_MAX_GROWTH = 1_000_000
_REMEDY = "use roles that it supports, or set the model's option chat: never"


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A text to be continued. A text from a template contains its special tokens, so no others are added to it."""

    text: str
    templated: bool = False


class Chat:
    """Turns messages into a prompt, with a tokenizer's chat template.

    With the policy ``never`` (the model's option ``chat``), the template is not used even if there is one.
    """

    def __init__(self, tokenizer: Any, policy: ChatPolicy) -> None:
        self._tokenizer = tokenizer
        self._policy = policy

    def prompt(self, messages: Messages) -> RenderedPrompt:
        """The text that the model continues as the assistant.

        Raises a ModelError if the template refuses the messages, leaves one out or writes far too much, and a
        DataError, which ends the run, if it does not finish in time or needs too much memory.
        """
        if self._policy == "never" or self._tokenizer.chat_template is None:
            return RenderedPrompt(transcript(messages))
        return RenderedPrompt(self._from_template(messages), templated=True)

    def _from_template(self, messages: Messages) -> str:
        """Write messages with the tokenizer's chat template, within limits of time and memory."""
        turns = [{"role": role, "content": content} for role, content in messages]
        try:
            refuse_huge_multiplications(self._tokenizer.chat_template)
            with limited_memory(_MAX_MEGABYTES), limited_steps(_MAX_SECONDS):
                text = str(self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
        except EndlessTemplateError as error:
            # Every other example would have to wait as long, so the run ends.
            raise DataError(
                f"the chat template of the model in {self._tokenizer.name_or_path} {error}; correct the template, or "
                "set the model's option chat: never"
            ) from error
        except Exception as error:
            # A template is a program that came with the model, and it may raise anything.
            reason = first_line(error)
            roles = ", ".join(dict.fromkeys(role for role, _ in messages))
            raise ModelError(
                f"the model's chat template refuses these messages ({roles}): {reason}; {_REMEDY}"
            ) from error
        if len(text) > _MAX_GROWTH + 2 * sum(len(content) for _, content in messages):
            raise ModelError(f"the model's chat template writes {len(text):,} characters; {_REMEDY}")
        # Some templates silently skip a role that they do not support, and the model would then answer another
        # question. Messages of the assistant are not checked: many templates rightly drop its earlier reasoning.
        for role, content in messages:
            if role != "assistant" and content.strip() not in text:
                raise ModelError(f"the model's chat template leaves out the {role} message; {_REMEDY}")
        return text


def transcript(messages: Messages) -> str:
    """A single message as it is; several as a transcript whose next turn is the assistant's.

    >>> transcript([("user", "2 + 2 =")])
    '2 + 2 ='
    >>> transcript([("system", "Be brief."), ("user", "Hello")])
    'system: Be brief.\\nuser: Hello\\nassistant:'
    """
    if len(messages) == 1:
        return messages[0][1]
    lines = [f"{role}: {content}" for role, content in messages]
    lines.append("assistant:")
    return "\n".join(lines)
