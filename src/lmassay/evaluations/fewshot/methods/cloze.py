"""PET's way of classifying: the words of the labels compete for the mask of a pattern (Schick and Schütze 2021).

With a causal model the cloze becomes a left-to-right prompt, and the label's word comes next. What stands behind the
mask is moved in front of the text before it, for the model cannot see ahead; where that is only punctuation it is
dropped. A word for a label must be one token, with the space before it or, where the prompt ends in an opening bracket
or quote, without: others are refused by name. Texts that are too long lose tokens at their beginning, so that question
and cue stay.
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
_EITHER = "\"'"
"""What opens and closes alike: it opens where nothing, a space or something opening stands before it."""
_ENDS = "opening"
"""Where an item keeps what opens at the end of its prompt."""


class Verbalizer:
    """Which words speak for which label: a label's logit is the mean of its words' logits."""

    def __init__(self, label_tokens: Sequence[Sequence[int]], device: torch.device) -> None:
        rows = sorted({token for tokens in label_tokens for token in tokens})
        self.rows = torch.tensor(rows, device=device)
        """The token ids of all words, each once."""
        shares = torch.zeros(len(label_tokens), len(rows))
        for label, tokens in enumerate(label_tokens):
            for token in tokens:
                # The original reads id 0 as "no word here", yet counts it.
                shares[label, rows.index(token)] += (token > 0) / len(tokens)
        self.shares = shares.to(device)
        """Labels × words; what a word's logit counts for a label."""

    def labels(self, words: torch.Tensor) -> torch.Tensor:
        """Label logits from the logits of the words in ``rows``."""
        return words @ self.shares.T


@dataclass(frozen=True, slots=True)
class Reading:
    """How examples become items: pattern, window, seed of what a pattern draws."""

    pattern: int = 0
    max_seq_length: int = 256
    mode: Literal["cls", "cloze", "ptuning"] = "cloze"
    seed: int = 42

    def pvp(self, task: NluTask, tokenizer: Any) -> Any:
        return task.pvp(
            tokenizer,
            pattern_id=self.pattern,
            mode=self.mode,
            max_seq_length=self.max_seq_length,
            seed=self.seed,
        )


class Cloze(Learner):
    """Label logits at the single mask; nothing else of the vocabulary is computed."""

    def __init__(self, net: Network, task: NluTask, reading: Reading, *, temperature: float = 2.0) -> None:
        self.net, self.task, self.reading = net, task, reading
        self.network: torch.nn.Module = net.module
        self.temperature = temperature
        self.pvp: Any = reading.pvp(task, net.tokenizer)
        self.verbalizer = Verbalizer(self.pvp.label_token_ids(), net.device)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        return [item_of(example, self.pvp, self.task.labels) for example in examples]

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        return label_loss(self.logits(items), items, self.temperature)

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        places = torch.tensor([_only_mask(item) for item in items], device=self.net.device)
        states = self.net.hidden_at(self.batch(items), places)
        return self.verbalizer.labels(self.net.decode(states, self.verbalizer.rows))

    def batch(self, items: Sequence[EncodedItem]) -> Batch:
        return collate(items, self.net.pad_id, self.net.device)


def item_of(example: InputExample, pvp: Any, labels: Sequence[str]) -> EncodedItem:
    """The example in the pattern's words, as tokens."""
    encoded = pvp.encode(example)
    place = label_index(example.label, labels)
    return EncodedItem(
        list(encoded.ids), list(encoded.types), list(encoded.masks), list(encoded.prompts), place, example.logits
    )


def label_index(label: str | None, labels: Sequence[str]) -> int:
    """The label's place; -1 for an example without one."""
    if label is None:
        return -1
    if label not in labels:
        raise ModelError(f"the label '{label}' is none of the task's: {', '.join(labels)}")
    return labels.index(label)


def _only_mask(item: EncodedItem) -> int:
    if len(item.masks) != 1:
        raise ModelError(f"a pattern with one mask is needed here, this one has {len(item.masks)}; take another one")
    return item.masks[0]


# --- causal models ----------------------------------------------------------------------------------------------------


class CausalCloze(Learner):
    """Label logits at the last token of a prompt."""

    def __init__(self, net: Network, task: NluTask, reading: Reading, *, temperature: float = 2.0) -> None:
        self.net, self.task, self.reading, self.temperature = net, task, reading, temperature
        self.network: torch.nn.Module = net.module
        self.verbalizer = self._verbalizer("")
        self._behind: dict[str, Verbalizer] = {"": self.verbalizer}
        """The words as they stand behind nothing (a space) or behind a bracket or quote."""

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        return [self._item(example) for example in examples]

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        return label_loss(self.logits(items), items, self.temperature)

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        states = self.net.hidden(collate(items, self.net.pad_id, self.net.device))
        last = torch.tensor([len(item) - 1 for item in items], device=states.device)
        states = states[torch.arange(len(items), device=states.device), last]
        endings = [item.extra.get(_ENDS, "") for item in items]
        found = states.new_zeros(len(items), len(self.task.labels), dtype=torch.float32)
        for ending in sorted(set(endings)):
            places = [place for place, other in enumerate(endings) if other == ending]
            spoken = self._behind[ending]
            found[places] = spoken.labels(self.net.decode(states[places], spoken.rows))
        return found

    def _verbalizer(self, opening: str) -> Verbalizer:
        words = CachedTokenizer(self.net.tokenizer)
        of_labels = [self.task.verbalize(label, self.reading.pattern) for label in self.task.labels]
        tokens = [[_one_token(word, opening, words, self.net.tokenizer) for word in spoken] for spoken in of_labels]
        return Verbalizer(tokens, self.net.device)

    def _item(self, example: InputExample) -> EncodedItem:
        before, after = self.task.cloze_text(example, self.reading.pattern)
        text, tokenizer = prompt(before, after), self.net.tokenizer
        ids = list(tokenizer(text).input_ids)
        ending = opening(text)
        if ending not in self._behind:
            self._behind[ending] = self._verbalizer(ending)
        if ids and ids[-1] in (tokenizer.eos_token_id, tokenizer.sep_token_id):
            # Some tokenizers end every text, which nothing could follow.
            ids.pop()
        if not ids:
            raise DataError(f"{example.guid}: there is no text before the answer in pattern {self.reading.pattern}")
        surplus = len(ids) - self.reading.max_seq_length
        if surplus > 0:
            start = 1 if ids[0] in (tokenizer.bos_token_id, tokenizer.cls_token_id) else 0
            ids = ids[:start] + ids[start + surplus :]
        label = label_index(example.label, self.task.labels)
        return EncodedItem(ids, [0] * len(ids), label=label, logits=example.logits, extra={_ENDS: ending})


def prompt(before: str, after: str) -> str:
    """The text to be continued by a label's word.

    >>> prompt("Is it raining? ", "")
    'Is it raining?'
    >>> prompt("Question: is it wet? Answer: ", ". It rains.")
    'It rains. Question: is it wet? Answer:'
    """
    behind = after.strip()
    while behind and not (behind[0].isalnum() or behind[0] in _OPENING):
        behind = behind[1:].lstrip()
    return f"{behind} {before.strip()}".strip()


def opening(text: str) -> str:
    """The bracket or quote that opens at the text's end, behind which a word has no space; empty without one.

    >>> opening("Sense (1) ("), opening('He said "'), opening('He said "no"'), opening("Answer:")
    ('(', '"', '', '')
    """
    last, before = text[-1:], text[-2:-1]
    if not last or last not in _OPENING:
        return ""
    closes = last in _EITHER and before and not before.isspace() and before not in _OPENING
    return "" if closes else last


def _one_token(word: str, opening: str, words: CachedTokenizer, tokenizer: Any) -> int:
    ids, lead = words.ids(opening + word), words.ids(opening) if opening else []
    if ids[: len(lead)] == lead:
        ids = ids[len(lead) :]
        if len(ids) == 1:
            return ids[0]
    tokens = ", ".join(tokenizer.convert_ids_to_tokens(ids)) or "none"
    where = f", right behind the {opening} at the end of the prompt," if opening else ""
    raise ConfigError(
        f"verbalizer: the word '{word}'{where} must be one token, but this tokenizer makes {len(ids)} of it: {tokens}; "
        "choose another word or another pattern"
    )
