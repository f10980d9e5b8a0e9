"""ADAPET's learner: two losses for one text, and PET's patterns (Tam et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lmassay.errors import ConfigError, ModelError
from lmassay.evaluations.fewshot.methods import adapet_losses as losses
from lmassay.evaluations.fewshot.methods import adapet_masks as masks
from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading
from lmassay.evaluations.fewshot.methods.learner import Item, Learner
from lmassay.evaluations.fewshot.methods.multimask import MultiMask, learner_for, read_at
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

UNBALANCED = -1.0
_AGAIN = "again"
"""Where an item keeps its second encoding."""


@dataclass(frozen=True, slots=True)
class AdapetHyper:
    """What ADAPET adds to PET's options."""

    mask_alpha: float = 0.105
    """At most this share of a text is hidden from the label-conditioned guess."""
    balance_alpha: float = UNBALANCED
    """The guess's share in the loss; -1 for the plain sum of both."""
    max_num_lbl_tok: int = 20
    """Of longer choices and referents, only so many tokens count in the label loss."""
    accumulation: int = 1
    """Micro-batches an update; matters to ``reference`` only."""
    reference: bool = False
    draw_seed: int | None = None
    """Of what is drawn in training; without, the seed of the patterns."""


class AdapetLearner(Learner):
    """The label's probability over the whole vocabulary, plus words guessed from a label that may be wrong.

    With ``reference`` as the original: the label loss is not divided by the number of micro-batches of an update and
    the balance does not touch its gradient (quirk 15), COPA's text holds the right choice whatever was drawn
    (quirk 16), and WSC's second text is encoded anew with other surplus masks. Mended without. Always mended: COPA and
    WSC in batches; padding has the tokenizer's id (quirk 18); what two choices share is found by their tokens, not by
    their probabilities (quirk 17). Always as in the original: of several words for a label the first one counts.
    """

    def __init__(
        self, net: Network, task: NluTask, reading: Reading, hyper: AdapetHyper, *, eval_batch_size: int = 32
    ) -> None:
        if net.kind != "masked":
            raise ConfigError(
                "ADAPET hides words inside a text and guesses them, which a causal language model cannot do; take a "
                "masked one, or another method"
            )
        self.net, self.hyper, self._kind = net, hyper, task.kind
        self.network: torch.nn.Module = net.module
        # PET's own learner reads the examples; its scores are ADAPET's where an answer has several tokens.
        self._pet = learner_for(task, net, reading, reference=hyper.reference, eval_batch_size=eval_batch_size)
        self._words: list[int] = []
        if isinstance(self._pet, Cloze):
            self._words = [tokens[0] for tokens in self._pet.pvp.label_token_ids()]
        self.draws = masks.Draws(reading.seed if hyper.draw_seed is None else hyper.draw_seed)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[Item]:
        if training:
            _check_labels(examples)
        items = self._pet.encode(examples, training=training)
        if training and self.hyper.reference and self._kind == "referent":
            for item, other in zip(items, self._pet.encode(examples, training=True), strict=True):
                item.extra[_AGAIN] = other
        return items

    def logits(self, items: Sequence[Item]) -> torch.Tensor:
        """Label probabilities; for texts their log-probability, most confident token first, as PET scores them."""
        return self.label_log_probabilities(items).exp() if self._words else self._pet.logits(items)

    def loss(self, items: Sequence[Item]) -> torch.Tensor:
        label, guess = self.label_loss(items), self.guess_loss(self.hide(items))
        mine, theirs = self._balance()
        if not self.hyper.reference:
            return mine * label + theirs * guess
        # The value is the one that is shown, the gradient the one that arrives.
        return mine * label.detach() + theirs * guess + self.hyper.accumulation * (label - label.detach())

    def losses(self, groups: Sequence[Sequence[Item]]) -> Iterator[torch.Tensor]:
        """Drawn once for the update; each of the two losses is a mean over what it counts in all of it."""
        mine, theirs = self._balance()
        hidden = iter(self.hide([item for group in groups for item in group]))
        drawn = [[next(hidden) for _ in group] for group in groups]
        tokens = _shares([self._label_tokens(group) for group in groups])
        words = _shares([sum(len(one.places) for one in of_group) for of_group in drawn])
        for group, of_group, label_share, guess_share in zip(groups, drawn, tokens, words, strict=True):
            label, guess = self.label_loss(group), self.guess_loss(of_group)
            yield mine * label_share * label + theirs * guess_share * guess

    def _balance(self) -> tuple[float, float]:
        """What the label loss and the guess count."""
        balance = self.hyper.balance_alpha
        return (1.0, 1.0) if balance == UNBALANCED else (1 - balance, balance)

    # --- label loss ---------------------------------------------------------------------------------------------

    def label_loss(self, items: Sequence[Item]) -> torch.Tensor:
        """The decoupled label loss."""
        if self._words:
            return losses.decoupled(self.label_log_probabilities(items), [item.label for item in items])
        if self._kind == "referent":
            costs = self._costs(items, [[item.extra["target"]] for item in items])
            return losses.decoupled_texts(costs, [[True]] * len(items))
        costs = [
            [cost[places] for cost, places in zip(of_item, self._telling(item), strict=True)]
            for item, of_item in zip(items, self._costs(items, [item.extra["texts"] for item in items]), strict=True)
        ]
        return losses.decoupled_texts(costs, [losses.right_texts(item) for item in items])

    def _label_tokens(self, items: Sequence[Item]) -> int:
        """Over how many tokens the label loss is a mean."""
        if self._words:
            return len(items) * len(self._words)
        if self._kind == "referent":
            return sum(min(len(item.extra["target"]), self.hyper.max_num_lbl_tok) for item in items)
        return sum(len(places) for item in items for places in self._telling(item))

    def _telling(self, item: Item) -> list[list[int]]:
        """The places of each text's tokens that count."""
        return losses.telling([text[: self.hyper.max_num_lbl_tok] for text in item.extra["texts"]])

    def label_log_probabilities(self, items: Sequence[Item]) -> torch.Tensor:
        """Items × labels, over the whole vocabulary; the head is run at the masks only."""
        scores = read_at(self.net, items, [item.masks[:1] for item in items]).log_softmax(dim=-1)
        return scores[:, self._words]

    def _costs(self, items: Sequence[Item], texts: Sequence[Sequence[Sequence[int]]]) -> list[list[torch.Tensor]]:
        assert isinstance(self._pet, MultiMask)
        most = self.hyper.max_num_lbl_tok
        return self._pet.gaps.costs(items, [[text[:most] for text in of_item] for of_item in texts])

    # --- label-conditioned guess --------------------------------------------------------------------------------

    def hide(self, items: Sequence[Item]) -> list[masks.Hidden]:
        """Draw a label for each item, put it in place and hide words."""
        if self._words:
            told = masks.told_labels(items, self._words, self.draws)
        elif self._kind == "referent":
            told = masks.told_referents([item.extra.get(_AGAIN, item) for item in items])
        else:
            told = masks.told_texts(items, self.draws, reference=self.hyper.reference)
        mask_id = self.net.tokenizer.mask_token_id
        return masks.hide(told, self.draws, self.hyper.mask_alpha, mask_id=mask_id, pad_id=self.net.pad_id)

    def guess_loss(self, hidden: Sequence[masks.Hidden]) -> torch.Tensor:
        """The label-conditioned loss over the hidden words."""
        log_p = masks.hidden_log_probabilities(self.net, hidden)
        return losses.conditioned(log_p, [one.told.right for one in hidden], [len(one.places) for one in hidden])


def _shares(counts: Sequence[int]) -> list[float]:
    """What each part counts in a mean over all."""
    return [count / max(1, sum(counts)) for count in counts]


def _check_labels(examples: Sequence[InputExample]) -> None:
    for example in examples:
        if example.label is None:
            raise ModelError(f"{example.guid} has no label; ADAPET learns from labels, not from a teacher's scores")
