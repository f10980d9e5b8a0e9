"""Label words of several tokens: the label's score is the log-probability of its whole word.

A masked network gets as many masks as the word has tokens. In training all masks are read at once, so their tokens are
treated as independent of each other. In evaluation the masks are filled one after the other (see ``decoding``), as PET
does for answers of several tokens (Schick and Schütze 2021b, section 3). A causal network predicts each token from
those before it. If a label has several words, its score is the mean of their scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.cloze import Reading, item_of, label_index, prompt_ids, tokens_after
from lmassay.evaluations.fewshot.methods.decoding import Gaps, trimmed
from lmassay.evaluations.fewshot.methods.learner import EncodedItem, label_loss, selected
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tokens import CachedTokenizer, special_ids

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

LabelWords = list[list[list[int]]]
"""For each label, for each of its words, the token ids."""
_WORDS = "words"
"""The key in an item's ``extra`` for its ``LabelWords``."""
_MIN_TEXT_TOKENS = 8
"""The label words must leave at least this number of tokens for the text."""


def has_several_tokens(words: LabelWords) -> bool:
    """Whether a label word has more than one token."""
    return longest_word(words) > 1


def longest_word(words: LabelWords) -> int:
    """The number of tokens of the longest word."""
    longest = 0
    for words_of_label in words:
        longest = max(longest, *map(len, words_of_label))
    return longest


def causal_words(task: NluTask, tokenizer: Any, pattern: int, opening: str = "") -> LabelWords:
    """The tokens of the label words as they continue a prompt.

    ``opening`` is the bracket or quote that the prompt ends with; empty if it ends otherwise.
    """
    cached = CachedTokenizer(tokenizer)
    # A part of a word that the vocabulary lacks becomes the unknown token, which is a special one.
    special = special_ids(tokenizer)
    words: LabelWords = []
    for label in task.labels:
        words_of_label = []
        for word in task.verbalize(label, pattern):
            tokens = tokens_after(word, opening, cached)
            if not tokens or any(token in special for token in tokens):
                position = f" after the {opening} at the end of the prompt" if opening else ""
                raise ConfigError(
                    f"verbalizer: the word '{word}'{position} has no separate tokens in this vocabulary; choose "
                    "another word or another pattern"
                )
            words_of_label.append(tokens)
        words.append(words_of_label)
    return words


@dataclass
class LabelWordRule:
    """The rule for tasks with fixed labels: the words of the labels compete for the gap."""

    task: NluTask
    net: Network
    reading: Reading
    pvp: Any
    """The pattern for a masked network; None for a causal one."""
    words: LabelWords
    temperature: float = 2.0

    def __post_init__(self) -> None:
        remaining = self.reading.max_seq_length - longest_word(self.words)
        if remaining < _MIN_TEXT_TOKENS:
            raise ConfigError(
                f"max_seq_length: the longest label word leaves {max(0, remaining)} of {self.reading.max_seq_length} "
                "tokens for the text; raise max_seq_length"
            )
        self._by_opening = {"": self.words}

    @property
    def tokens(self) -> list[int]:
        """The tokens of all words, each once."""
        distinct: set[int] = set()
        for words_of_label in self.words:
            for word in words_of_label:
                distinct.update(word)
        return sorted(distinct)

    def encode(self, example: InputExample, training: bool) -> EncodedItem:
        """The example with as many masks as the longest word has tokens; for a causal network, as a prompt."""
        item = self._causal_item(example) if self.net.kind == "causal" else self._masked_item(example)
        # ADAPET needs one text per label. As in FewNLU, it is the label's first word.
        item.extra["texts"] = [words_of_label[0] for words_of_label in item.extra[_WORDS]]
        return item

    def _masked_item(self, example: InputExample) -> EncodedItem:
        """The example in its pattern, with as many masks as the longest word has tokens."""
        item = item_of(example, self.pvp, self.task.labels)
        item = with_masks(item, longest_word(self.words))
        item.extra[_WORDS] = self.words
        return item

    def _causal_item(self, example: InputExample) -> EncodedItem:
        """The example as a prompt, with a placeholder for the label word at its end."""
        longest = longest_word(self.words)
        shorter = replace(self.reading, max_seq_length=self.reading.max_seq_length - longest)
        ids, opening = prompt_ids(self.net.tokenizer, self.task, shorter, example)
        if opening not in self._by_opening:
            self._by_opening[opening] = causal_words(self.task, self.net.tokenizer, self.reading.pattern, opening)
        # The last token is a placeholder for the label word; the network never reads it.
        return EncodedItem(
            [*ids, self.net.pad_id],
            [0] * (len(ids) + 1),
            masks=[len(ids)],
            label=label_index(example.label, self.task.labels),
            logits=example.logits,
            extra={_WORDS: self._by_opening[opening]},
        )

    def loss(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Cross-entropy over the labels, or distillation for items with soft labels."""
        return label_loss(self._training_scores(gaps, items), items, self.temperature)

    def logits(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The mean log-probability of each label's words, one row per item."""
        scores = gaps.scores(items, [_flat(item.extra[_WORDS]) for item in items])
        rows = []
        for item, scores_of_item in zip(items, scores, strict=True):
            values = torch.tensor(scores_of_item, dtype=torch.float64)
            rows.append(_label_scores(item.extra[_WORDS], values))
        return torch.stack(rows)

    def _training_scores(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The scores of the labels, with gradient: items × labels."""
        costs = self.costs(gaps, items, [_flat(item.extra[_WORDS]) for item in items])
        rows = []
        for item, costs_of_item in zip(items, costs, strict=True):
            word_scores = torch.stack([-cost.sum() for cost in costs_of_item])
            rows.append(_label_scores(item.extra[_WORDS], word_scores))
        return torch.stack(rows)

    def costs(
        self, gaps: Gaps, items: Sequence[EncodedItem], texts: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[torch.Tensor]]:
        """For each item and text, the cost of each token: its negative log-probability, with gradient.

        As in evaluation, a masked network reads the item once for each length of its texts, with as many masks as
        tokens.
        """
        if self.net.kind == "causal":
            return gaps.costs(items, texts)
        # For each item, the costs by the number of the text. They are computed for one length after the other, so not
        # in the order of the texts.
        costs_by_number: list[dict[int, torch.Tensor]] = [{} for _ in items]
        lengths: set[int] = set()
        for texts_of_item in texts:
            lengths.update(map(len, texts_of_item))
        for length in sorted(lengths):
            # All items have the same words, so each item has words of every length.
            numbers: list[list[int]] = []
            texts_of_length: list[list[Sequence[int]]] = []
            for texts_of_item in texts:
                numbers_of_item = [number for number, text in enumerate(texts_of_item) if len(text) == length]
                numbers.append(numbers_of_item)
                texts_of_length.append(selected(texts_of_item, numbers_of_item))
            items_with_masks = [trimmed(item, length) for item in items]
            for row, costs_of_item in enumerate(gaps.costs(items_with_masks, texts_of_length)):
                costs_by_number[row].update(zip(numbers[row], costs_of_item, strict=True))
        costs: list[list[torch.Tensor]] = []
        for by_number in costs_by_number:
            costs.append([by_number[number] for number in sorted(by_number)])
        return costs


def with_masks(item: EncodedItem, count: int) -> EncodedItem:
    """The item with ``count`` masks in place of its only one.

    >>> item = with_masks(EncodedItem([2, 9, 3], [0, 1, 1], masks=[1], prompts=[2]), 3)
    >>> item.ids, item.types, item.masks, item.prompts
    ([2, 9, 9, 9, 3], [0, 1, 1, 1, 1], [1, 2, 3], [4])
    """
    if len(item.masks) != 1:
        raise ConfigError(
            f"a pattern with one mask is needed here, but this one has {len(item.masks)}; use another one"
        )
    (mask,) = item.masks
    surplus = count - 1
    prompts = []
    for position in item.prompts:
        # Everything after the mask moves to the right.
        prompts.append(position + surplus if position > mask else position)
    mask_ids = [item.ids[mask]] * count
    mask_types = [item.types[mask]] * count
    return replace(
        item,
        ids=[*item.ids[:mask], *mask_ids, *item.ids[mask + 1 :]],
        types=[*item.types[:mask], *mask_types, *item.types[mask + 1 :]],
        masks=list(range(mask, mask + count)),
        prompts=prompts,
        extra=dict(item.extra),
    )


def _flat(words: LabelWords) -> list[list[int]]:
    flat: list[list[int]] = []
    for words_of_label in words:
        flat += words_of_label
    return flat


def _label_scores(words: LabelWords, word_scores: torch.Tensor) -> torch.Tensor:
    """The mean score of each label's words, which are next to each other in ``word_scores``."""
    counts = [len(words_of_label) for words_of_label in words]
    return torch.stack([scores.mean() for scores in word_scores.split(counts)])
