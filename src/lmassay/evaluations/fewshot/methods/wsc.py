"""WSC: does the pronoun refer to the candidate? The network says whom it means, and the words are compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.methods.copa import gap_item, nonempty
from lmassay.evaluations.fewshot.methods.learner import Item
from lmassay.evaluations.fewshot.methods.multimask_gaps import Gaps
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tokens import special_ids

TRUE = "True"


class Referent:
    """Trained to write the true referent; at evaluation what it writes is compared with the candidate (T5's way).

    In training the referent has 0 to 3 masks more than tokens, in evaluation one (the pattern's doing), and the surplus
    is trained to be padding unless ``count_padding`` is off. A false referent says nothing about what to write: it is
    left out of training. Causal networks are trained on the referent alone, as they see no masks.

    Quirk 37: in FewNLU the name of its file decides what a training example is, so that dev examples taken from it have
    surplus masks by chance; kept with ``by_file``.
    """

    def __init__(
        self,
        pvp: Any,
        labels: Sequence[str],
        tokenizer: Any,
        *,
        pad_id: int,
        count_padding: bool = True,
        by_file: bool = False,
    ) -> None:
        if TRUE not in labels:
            raise DataError(f"a task about referents needs the label '{TRUE}', this one has {', '.join(labels)}")
        self._pvp, self._labels, self._tokenizer = pvp, labels, tokenizer
        self._true = list(labels).index(TRUE)
        self._pad_id, self._count_padding = pad_id, count_padding
        self._by_file = by_file
        self._masked = tokenizer.mask_token_id is not None

    def encode(self, example: InputExample, training: bool) -> Item | None:
        if training and example.label is not None and example.label != TRUE:
            return None
        item = gap_item(self._pvp, example, self._labels, training, by_file=self._by_file)
        (span,) = nonempty(self._pvp.choices(example), example)
        (item.extra["candidate"],) = self._pvp.choice_texts(example)
        surplus = len(item.masks) - len(span) if self._masked and self._count_padding else 0
        item.extra["span"] = span
        item.extra["target"] = [*span, *[self._pad_id] * surplus]
        item.weight = len(item.extra["target"])
        return item

    def loss(self, gaps: Gaps, items: Sequence[Item]) -> torch.Tensor:
        """Cross-entropy, mean over all tokens of the micro-batch."""
        return torch.cat([cost for (cost,) in gaps.costs(items, [[item.extra["target"]] for item in items])]).mean()

    def logits(self, gaps: Gaps, items: Sequence[Item]) -> torch.Tensor:
        """1 for the label that the comparison gives, 0 for the other."""
        rows = torch.zeros(len(items), len(self._labels), dtype=torch.float64)
        for number, (item, tokens) in enumerate(zip(items, gaps.write(items), strict=True)):
            meant = same_referent(self.text(tokens), item.extra["candidate"])
            rows[number, self._true if meant else 1 - self._true] = 1.0
        return rows

    def text(self, tokens: Sequence[int]) -> str:
        """What the network wrote, without special tokens and ids that only the network has (DeBERTa's spare rows)."""
        special, size = special_ids(self._tokenizer), len(self._tokenizer)
        return str(self._tokenizer.decode([token for token in tokens if token not in special and token < size]))


def same_referent(written: str, candidate: str) -> bool:
    """Whether the words of one are all among those of the other.

    >>> same_referent("the city councilmen", "councilmen"), same_referent("the demonstrators", "councilmen")
    (True, False)
    """
    mine, theirs = words(written), words(candidate)
    return all(word in theirs for word in mine) or all(word in mine for word in theirs)


def words(text: str) -> list[str]:
    return [word for word in re.split("[^a-z]", text.lower()) if word]
