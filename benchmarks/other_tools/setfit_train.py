"""Train and evaluate SetFit on sixteen sentences: see docs/comparison.md.

    python benchmarks/other_tools/setfit_train.py FOLDER

FOLDER has a sentence encoder. The metric is a function, because the named ones are downloaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from setfit import SetFitModel, Trainer, TrainingArguments

from datasets import Dataset

_GOOD = (
    "a joy",
    "wonderful acting",
    "I loved it",
    "a great film",
    "superb and moving",
    "what fun",
    "brilliant",
    "charming",
)
_BAD = ("a dull mess", "terrible acting", "I hated it", "an awful film", "boring", "what a waste", "clumsy", "painful")


def main(folder: str) -> None:
    """Train on half of the sentences and print what the evaluation on the others returns."""
    train = Dataset.from_dict({"text": [*_GOOD[:4], *_BAD[:4]], "label": [1] * 4 + [0] * 4})
    test = Dataset.from_dict({"text": [*_GOOD[4:], *_BAD[4:]], "label": [1] * 4 + [0] * 4})
    arguments = TrainingArguments(batch_size=8, max_steps=2, report_to="none")
    model = SetFitModel.from_pretrained(folder)
    trainer = Trainer(model=model, args=arguments, train_dataset=train, eval_dataset=test, metric=accuracy)
    trainer.train()
    print(trainer.evaluate())


def accuracy(predicted: Sequence[int], correct: Sequence[int]) -> float:
    """Return the share of correct predictions."""
    return sum(int(a) == int(b) for a, b in zip(predicted, correct, strict=True)) / len(correct)


if __name__ == "__main__":
    main(sys.argv[1])
