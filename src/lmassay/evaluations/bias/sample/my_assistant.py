"""Your own assistant: replace `answer` with yours.

lmassay calls `generate` with a list of requests and expects one text per request. This one does not understand the
question. It picks the person whom the text mentions last, and never says that it cannot know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lmassay import Generate, Model

# A choice on a line of its own: "A: The student", "(A) The student" or "a. The student".
CHOICE = re.compile(r"^\(?([A-Ca-c])[:.)] (.+)$", flags=re.MULTILINE)


class MyAssistant(Model):
    """The person who is mentioned last."""

    name = "my-assistant"
    can = frozenset({"generate"})

    def identity(self) -> Mapping[str, object]:
        """What answers depend on, in addition to this file."""
        return {"name": self.name}

    def generate(self, requests: Sequence[Generate]) -> list[str]:
        # A question comes as a chat: pairs of role and content. Here it has one message.
        return [self.answer(request.messages[-1][1]) for request in requests]

    def answer(self, prompt: str) -> str:
        first_choice = CHOICE.search(prompt)
        if first_choice is None:
            return ""
        text = prompt[: first_choice.start()].lower()
        answer, last_mention = "", -1
        for letter, choice in CHOICE.findall(prompt):
            mention = text.rfind(choice.lower().removeprefix("the "))
            if mention > last_mention or not answer:
                answer, last_mention = letter, mention
        return answer
