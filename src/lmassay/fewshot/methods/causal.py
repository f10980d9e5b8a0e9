"""PET with a causal model: the cloze becomes a left-to-right prompt, and the label's word comes next.

What stands behind the mask is moved in front of the text before it, for the model cannot see ahead; where that is only
punctuation it is dropped. A word for a label must be one token (with the space before it): others are refused by name.
Texts that are too long lose tokens at their beginning, so that question and cue stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from lmassay.errors import ConfigError, DataError
from lmassay.fewshot.examples import InputExample
from lmassay.fewshot.methods.batches import collate
from lmassay.fewshot.methods.cloze import Reading, Verbalizer, place_of
from lmassay.fewshot.methods.learner import Item, Learner
from lmassay.fewshot.methods.losses import label_loss
from lmassay.fewshot.methods.network import Network
from lmassay.fewshot.tokens import Words

if TYPE_CHECKING:
    from lmassay.fewshot.tasks import NluTask

_OPENING = "\"'(["


class CausalCloze(Learner):
    """Label logits at the last token of a prompt."""

    def __init__(self, net: Network, task: NluTask, reading: Reading, *, temperature: float = 2.0) -> None:
        self.net, self.task, self.reading, self.temperature = net, task, reading, temperature
        self.network: torch.nn.Module = net.module
        words = Words(net.tokenizer)
        tokens = [
            [_one_token(word, words, net.tokenizer) for word in task.verbalize(label, reading.pattern)]
            for label in task.labels
        ]
        self.verbalizer = Verbalizer(tokens, net.device)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[Item]:
        return [self._item(example) for example in examples]

    def loss(self, items: Sequence[Item]) -> torch.Tensor:
        return label_loss(self.logits(items), items, self.temperature)

    def logits(self, items: Sequence[Item]) -> torch.Tensor:
        states = self.net.hidden(collate(items, self.net.pad_id, self.net.device))
        last = torch.tensor([len(item) - 1 for item in items], device=states.device)
        states = states[torch.arange(len(items), device=states.device), last]
        return self.verbalizer.labels(self.net.decode(states, self.verbalizer.rows))

    def _item(self, example: InputExample) -> Item:
        before, after = self.task.cloze_text(example, self.reading.pattern)
        ids = list(self.net.tokenizer(prompt(before, after)).input_ids)
        tokenizer = self.net.tokenizer
        if ids and ids[-1] in (tokenizer.eos_token_id, tokenizer.sep_token_id):
            # Some tokenizers end every text, which nothing could follow.
            ids.pop()
        if not ids:
            raise DataError(f"{example.guid}: there is no text before the answer in pattern {self.reading.pattern}")
        surplus = len(ids) - self.reading.max_seq_length
        if surplus > 0:
            start = 1 if ids[0] in (tokenizer.bos_token_id, tokenizer.cls_token_id) else 0
            ids = ids[:start] + ids[start + surplus :]
        return Item(ids, [0] * len(ids), label=place_of(example.label, self.task.labels), logits=example.logits)


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


def _one_token(word: str, words: Words, tokenizer: Any) -> int:
    ids = words.ids(word)
    if len(ids) != 1:
        tokens = ", ".join(tokenizer.convert_ids_to_tokens(ids)) or "none"
        raise ConfigError(
            f"verbalizer: the word '{word}' must be one token, but this tokenizer makes {len(ids)} of it: {tokens}; "
            "choose another word or another pattern"
        )
    return ids[0]
