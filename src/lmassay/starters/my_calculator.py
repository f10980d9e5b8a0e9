"""A model for my_task.yaml: it adds digit by digit and forgets to carry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lmassay import Generate, Model


class Calculator(Model):
    """A model that is right only if no two digits add up to more than nine."""

    name = "calculator"
    can = frozenset({"generate"})

    def identity(self) -> Mapping[str, object]:
        return {"name": self.name}

    def generate(self, requests: Sequence[Generate]) -> list[str]:
        return [self.add(request.prompt) for request in requests]

    def add(self, prompt: str) -> str:
        # The prompt begins with solved sums; the last one is the question.
        first, second = re.findall(r"\d+", prompt)[-2:]
        digits = []
        for upper, lower in zip(first, second, strict=True):
            digits.append(str((int(upper) + int(lower)) % 10))
        return "".join(digits)
