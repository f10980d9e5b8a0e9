"""PET with a causal model: the cloze becomes a left-to-right prompt, and the label's word comes next.

What stands behind the mask is moved in front of the text before it, for the model cannot see ahead; where that is only
punctuation it is dropped. A word for a label must be one token, with the space before it or, where the prompt ends in
an opening bracket or quote, without: others are refused by name.
Texts that are too long lose tokens at their beginning, so that question and cue stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.methods.batches import collate
from lmassay.evaluations.fewshot.methods.cloze import Reading, Verbalizer, place_of
from lmassay.evaluations.fewshot.methods.learner import Item, Learner
from lmassay.evaluations.fewshot.methods.losses import label_loss
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tokens import Words

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

_OPENING = "\"'([{“‘«"
_EITHER = "\"'"
"""What opens and closes alike: it opens where nothing, a space or something opening stands before it."""
_ENDS = "opening"
"""Where an item keeps what opens at the end of its prompt."""


class CausalCloze(Learner):
    """Label logits at the last token of a prompt."""

    def __init__(self, net: Network, task: NluTask, reading: Reading, *, temperature: float = 2.0) -> None:
        self.net, self.task, self.reading, self.temperature = net, task, reading, temperature
        self.network: torch.nn.Module = net.module
        self.verbalizer = self._verbalizer("")
        self._behind: dict[str, Verbalizer] = {"": self.verbalizer}
        """The words as they stand behind nothing (a space) or behind a bracket or quote."""

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[Item]:
        return [self._item(example) for example in examples]

    def loss(self, items: Sequence[Item]) -> torch.Tensor:
        return label_loss(self.logits(items), items, self.temperature)

    def logits(self, items: Sequence[Item]) -> torch.Tensor:
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
        words = Words(self.net.tokenizer)
        of_labels = [self.task.verbalize(label, self.reading.pattern) for label in self.task.labels]
        tokens = [[_one_token(word, opening, words, self.net.tokenizer) for word in spoken] for spoken in of_labels]
        return Verbalizer(tokens, self.net.device)

    def _item(self, example: InputExample) -> Item:
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
        label = place_of(example.label, self.task.labels)
        return Item(ids, [0] * len(ids), label=label, logits=example.logits, extra={_ENDS: ending})


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


def _one_token(word: str, opening: str, words: Words, tokenizer: Any) -> int:
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
