"""PET's classification (Schick and Schütze 2021): the words of the labels compete for the mask of a pattern.

A text with a mask to fill is called a cloze. For a causal model it becomes a prompt that the label's word continues.
Such a model cannot read ahead, so the text after the mask is moved to the beginning of the prompt, or removed if it is
only punctuation. A label word is tokenized with the space before it or, if the prompt ends in an opening bracket or
quote, without one. Prompts that are too long lose tokens at their beginning, because the question is at the end.

This module reads label words of one token; the module ``label_words`` reads those of several tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from lmassay.errors import ConfigError, DataError, ModelError
from lmassay.evaluations.fewshot.methods.learner import Batch, EncodedItem, Learner, collate, label_loss
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tokens import CachedTokenizer

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


_OPENING = "\"'([{“‘«"
# These quotes are both opening and closing. They are opening ones at the beginning of a text, after a space, and after
# another opening character.
_AMBIGUOUS = "\"'"
_ENDS_WITH = "opening"
"""The key in an item's ``extra`` for the bracket or quote that its prompt ends with."""


class Verbalizer:
    """Computes the logits of labels: a label's logit is the mean of its words' logits (PET, section 3.1)."""

    def __init__(self, label_tokens: Sequence[Sequence[int]], device: torch.device) -> None:
        distinct_tokens: set[int] = set()
        for tokens in label_tokens:
            distinct_tokens.update(tokens)
        token_ids = sorted(distinct_tokens)
        self.rows = torch.tensor(token_ids, device=device)
        """The token ids of all words, each once."""
        shares = torch.zeros(len(label_tokens), len(token_ids))
        for label, tokens in enumerate(label_tokens):
            for token in tokens:
                # A quirk of PET and FewNLU: they pad the lists of words with id 0. So a word with id 0 adds nothing to
                # the sum of the logits, although it counts in the number of words.
                if token > 0:
                    shares[label, token_ids.index(token)] += 1 / len(tokens)
        self.shares = shares.to(device)
        """The weight of each word's logit in each label's logit: labels × words."""

    def labels(self, word_logits: torch.Tensor) -> torch.Tensor:
        """Label logits from the logits of the words in ``rows``."""
        return word_logits @ self.shares.T


@dataclass(frozen=True, slots=True)
class Reading:
    """How examples become items."""

    pattern: int = 0
    max_seq_length: int = 256
    """The maximum number of tokens of an item."""
    mode: Literal["cls", "cloze", "ptuning"] = "cloze"
    """Whether the input has no pattern, a pattern, or a pattern with continuous prompt tokens."""
    seed: int = 42
    """The seed for patterns that draw random numbers (WSC's surplus masks)."""

    def pvp(self, task: NluTask, tokenizer: Any) -> Any:
        """The task's pattern-verbalizer pair."""
        return task.pvp(
            tokenizer,
            pattern_id=self.pattern,
            mode=self.mode,
            max_seq_length=self.max_seq_length,
            seed=self.seed,
        )


class Cloze(Learner):
    """Label logits at the single mask of a pattern. Only the logits of label words are computed."""

    def __init__(self, net: Network, task: NluTask, reading: Reading, *, temperature: float = 2.0) -> None:
        self.net = net
        self.task = task
        self.reading = reading
        self.module: torch.nn.Module = net.module
        self.temperature = temperature
        self.pvp: Any = reading.pvp(task, net.tokenizer)
        self.verbalizer = Verbalizer(self.pvp.label_token_ids(), net.device)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        """The examples in the pattern."""
        return [item_of(example, self.pvp, self.task.labels) for example in examples]

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Cross-entropy over the labels, or distillation for items with soft labels."""
        return label_loss(self.logits(items), items, self.temperature)

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """One row per item, one column per label."""
        positions = torch.tensor([_only_mask(item) for item in items], device=self.net.device)
        states = self.net.hidden_at(self.batch(items), positions)
        word_logits = self.net.decode(states, self.verbalizer.rows)
        return self.verbalizer.labels(word_logits)

    def batch(self, items: Sequence[EncodedItem]) -> Batch:
        """The items as padded tensors."""
        return collate(items, self.net.pad_id, self.net.device)


def item_of(example: InputExample, pvp: Any, labels: Sequence[str]) -> EncodedItem:
    """The example in its pattern, as tokens."""
    encoded = pvp.encode(example)
    return EncodedItem(
        list(encoded.ids),
        list(encoded.types),
        list(encoded.masks),
        list(encoded.prompts),
        label_index(example.label, labels),
        example.logits,
    )


def label_index(label: str | None, labels: Sequence[str]) -> int:
    """The index of a label; -1 for an example without one. A ModelError if the task does not have the label."""
    if label is None:
        return -1
    if label not in labels:
        raise ModelError(f"the label '{label}' is not one of the task's labels: {', '.join(labels)}")
    return labels.index(label)


def _only_mask(item: EncodedItem) -> int:
    if len(item.masks) != 1:
        raise ModelError(f"a pattern with one mask is needed here, but this one has {len(item.masks)}; use another one")
    return item.masks[0]


# --- causal models ----------------------------------------------------------------------------------------------------


class CausalCloze(Learner):
    """Label logits of a causal model, at the last token of a prompt."""

    def __init__(self, net: Network, task: NluTask, reading: Reading, *, temperature: float = 2.0) -> None:
        self.net = net
        self.task = task
        self.reading = reading
        self.temperature = temperature
        self.module: torch.nn.Module = net.module
        self.verbalizer = self._verbalizer("")
        self._verbalizers: dict[str, Verbalizer] = {"": self.verbalizer}
        """The verbalizers by the bracket or quote that a prompt ends with, after which a word has other tokens."""

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        """The examples as prompts."""
        return [self._item(example) for example in examples]

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Cross-entropy over the labels, or distillation for items with soft labels."""
        return label_loss(self.logits(items), items, self.temperature)

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """One row per item, one column per label."""
        batch = collate(items, self.net.pad_id, self.net.device)
        all_states = self.net.hidden(batch)
        # The prompt ends before the label word, so the word is predicted at its last token. Padding comes after that.
        last_positions = torch.tensor([len(item) - 1 for item in items], device=all_states.device)
        rows = torch.arange(len(items), device=all_states.device)
        states = all_states[rows, last_positions]
        # A word has other tokens after a space than after an opening quote, so there is a verbalizer for each ending.
        rows_by_ending: dict[str, list[int]] = {}
        for row, item in enumerate(items):
            ending = item.extra.get(_ENDS_WITH, "")
            rows_by_ending.setdefault(ending, []).append(row)
        logits = states.new_zeros(len(items), len(self.task.labels), dtype=torch.float32)
        for ending, rows_of_ending in sorted(rows_by_ending.items()):
            verbalizer = self._verbalizers[ending]
            word_logits = self.net.decode(states[rows_of_ending], verbalizer.rows)
            logits[rows_of_ending] = verbalizer.labels(word_logits)
        return logits

    def _verbalizer(self, opening: str) -> Verbalizer:
        """The verbalizer for words that follow the bracket or quote ``opening`` or, if that is empty, a space."""
        tokenizer = CachedTokenizer(self.net.tokenizer)
        label_tokens = []
        for label in self.task.labels:
            words = self.task.verbalize(label, self.reading.pattern)
            label_tokens.append([_single_token(word, opening, tokenizer, self.net.tokenizer) for word in words])
        return Verbalizer(label_tokens, self.net.device)

    def _item(self, example: InputExample) -> EncodedItem:
        """The example as a prompt that fits into the window."""
        ids, ending = prompt_ids(self.net.tokenizer, self.task, self.reading, example)
        if ending not in self._verbalizers:
            self._verbalizers[ending] = self._verbalizer(ending)
        label = label_index(example.label, self.task.labels)
        return EncodedItem(ids, [0] * len(ids), label=label, logits=example.logits, extra={_ENDS_WITH: ending})


def prompt_ids(tokenizer: Any, task: NluTask, reading: Reading, example: InputExample) -> tuple[list[int], str]:
    """The tokens of an example's prompt, cut to the window, and the bracket or quote that the prompt ends with."""
    before, after = task.cloze_text(example, reading.pattern)
    text = prompt(before, after)
    ids = list(tokenizer(text).input_ids)
    if ids and ids[-1] in (tokenizer.eos_token_id, tokenizer.sep_token_id):
        # Some tokenizers add an end token to every text; no answer could follow it.
        ids.pop()
    if not ids:
        raise DataError(f"{example.guid}: there is no text before the answer in pattern {reading.pattern}")
    surplus = len(ids) - reading.max_seq_length
    if surplus > 0:
        # The opening token stays; the text loses its beginning, because the question is at its end.
        start = 1 if ids[0] in (tokenizer.bos_token_id, tokenizer.cls_token_id) else 0
        ids = ids[:start] + ids[start + surplus :]
    return ids, opening(text)


def prompt(before: str, after: str) -> str:
    """The prompt that a label's word continues, from the texts before and after the mask.

    >>> prompt("Is it raining? ", "")
    'Is it raining?'
    >>> prompt("Question: is it wet? Answer: ", ". It rains.")
    'It rains. Question: is it wet? Answer:'
    """
    moved = after.strip()
    while moved and not (moved[0].isalnum() or moved[0] in _OPENING):
        moved = moved[1:].lstrip()
    return f"{moved} {before.strip()}".strip()


def opening(text: str) -> str:
    """The opening bracket or quote at the end of the text, after which a word follows without a space; else empty.

    >>> opening("Sense (1) ("), opening('He said "'), opening('He said "no"'), opening("Answer:")
    ('(', '"', '', '')
    """
    last = text[-1:]
    before = text[-2:-1]
    if not last or last not in _OPENING:
        return ""
    if last not in _AMBIGUOUS:
        return last
    opens = not before or before.isspace() or before in _OPENING
    return last if opens else ""


def tokens_after(word: str, opening: str, cached: CachedTokenizer) -> list[int] | None:
    """The tokens of a label word that follows ``opening``; None if the tokenizer joins the two into one token."""
    ids = cached.ids(opening + word)
    opening_ids = cached.ids(opening) if opening else []
    if ids[: len(opening_ids)] != opening_ids:
        return None
    return ids[len(opening_ids) :]


def _single_token(word: str, opening: str, cached: CachedTokenizer, tokenizer: Any) -> int:
    """The token of a label word that follows ``opening``; a ConfigError unless it is exactly one token."""
    ids = tokens_after(word, opening, cached)
    if ids is not None and len(ids) == 1:
        return ids[0]
    if ids is None:
        ids = cached.ids(opening + word)
    tokens = ", ".join(tokenizer.convert_ids_to_tokens(ids)) or "none"
    position = f", right after the {opening} at the end of the prompt," if opening else ""
    raise ConfigError(
        f"verbalizer: the word '{word}'{position} must be one token, but this tokenizer splits it into {len(ids)}: "
        f"{tokens}; choose another word or another pattern"
    )
