"""Your own task: can a model add?

    lmassay run my_task.yaml

A task defines what to ask and how to score an answer. Running, caching, resuming, intervals, comparisons and the report
work automatically.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence

from lmassay import Design, Example, Generate, Metric, Response, Score, Task

SOLVED = "2 + 3 = 5\n14 + 21 = 35\n"


class Sums(Task):
    """Sums of two numbers. ``digits`` is their length, ``each`` the number of sums of each length."""

    name = "sums"
    version = 1  # increase it when the same answers may score differently than before
    needs = frozenset({"generate"})
    metrics = (
        Metric("right", "sums that are right", bounds=(0, 1), verdict=True),
        Metric("off_by", "distance from the right sum", better="lower"),
    )
    design = Design(headline=("right",))  # the metrics that tables and comparisons show first

    def __init__(self, digits: Sequence[int] = (1, 2), each: int = 20, seed: int = 0) -> None:
        self.digits, self.each, self.seed = tuple(digits), each, seed

    def examples(self) -> Iterator[Example]:
        for length in self.digits:
            rng = random.Random(self.seed)
            numbers = range(10 ** (length - 1), 10**length)
            for number in range(self.each):
                first, second = rng.choice(numbers), rng.choice(numbers)
                inputs = {"first": first, "second": second}
                yield Example(f"{length}-{number}", inputs, first + second, groups={"digits": str(length)})

    def requests(self, example: Example) -> list[Generate]:
        prompt = f"{SOLVED}{example.inputs['first']} + {example.inputs['second']} ="
        return [Generate(prompt, max_tokens=6, stop=("\n",))]

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        scores = []
        for example, answers in zip(examples, responses, strict=True):
            scores.append(self.verdict(example.reference, answers[0].text))
        return scores

    def verdict(self, expected: int, answer: str) -> Score:
        number = re.search(r"-?\d+", answer)
        if number is None:
            return Score({"right": 0.0}, unscored={"off_by": "no number in the answer"}, details={"answer": answer})
        off_by = abs(int(number[0]) - expected)
        return Score({"right": float(off_by == 0), "off_by": float(off_by)}, details={"answer": answer})

    def signature(self) -> Mapping[str, object]:
        return {"digits": ",".join(map(str, self.digits)), "each": self.each, "seed": self.seed}
