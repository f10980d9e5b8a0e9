"""ADAPET's learner: two losses for one text, and PET's patterns (Tam et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from lmassay.errors import ConfigError, ModelError
from lmassay.fewshot.examples import InputExample
from lmassay.fewshot.methods import adapet_losses as losses
from lmassay.fewshot.methods import adapet_masks as masks
from lmassay.fewshot.methods.cloze import Cloze, Reading
from lmassay.fewshot.methods.learner import Item, Learner
from lmassay.fewshot.methods.multimask import MultiMask, learner_for, read_at
from lmassay.fewshot.methods.network import Network

if TYPE_CHECKING:
    from lmassay.fewshot.tasks import NluTask

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


class AdapetLearner(Learner):
    """The label's probability over the whole vocabulary, plus words guessed from a label that may be wrong.

    With ``reference`` as the original: the label loss is not divided by the number of micro-batches of an update and
    the balance does not touch its gradient (quirk 15), COPA's text holds the right choice whatever was drawn
    (quirk 16), and WSC's second text is encoded anew with other surplus masks. Mended without. Always mended: COPA and
    WSC in batches; padding has the tokenizer's id (quirk 18); what two choices share is found by their tokens, not by
    their probabilities (quirk 17). Always as in the original: of several words for a label the first one counts.
    """

    regroups: ClassVar[bool] = False  # A mean over the hidden words of a micro-batch; and they are drawn in order.

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
        self.draws = masks.Draws(reading.seed)

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
        balance = self.hyper.balance_alpha
        mine, theirs = (1.0, 1.0) if balance == UNBALANCED else (1 - balance, balance)
        if not self.hyper.reference:
            return mine * label + theirs * guess
        # The value is the one that is shown, the gradient the one that arrives.
        return mine * label.detach() + theirs * guess + self.hyper.accumulation * (label - label.detach())

    # --- label loss ---------------------------------------------------------------------------------------------

    def label_loss(self, items: Sequence[Item]) -> torch.Tensor:
        """The decoupled label loss."""
        if self._words:
            return losses.decoupled(self.label_log_probabilities(items), [item.label for item in items])
        if self._kind == "referent":
            costs = self._costs(items, [[item.extra["target"]] for item in items])
            return losses.decoupled_texts(costs, [[True]] * len(items))
        texts = [item.extra["texts"] for item in items]
        most = self.hyper.max_num_lbl_tok
        kept = [losses.telling([text[:most] for text in of_item]) for of_item in texts]
        costs = [
            [cost[places] for cost, places in zip(of_item, of_places, strict=True)]
            for of_item, of_places in zip(self._costs(items, texts), kept, strict=True)
        ]
        return losses.decoupled_texts(costs, [losses.right_texts(item) for item in items])

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


def _check_labels(examples: Sequence[InputExample]) -> None:
    for example in examples:
        if example.label is None:
            raise ModelError(f"{example.guid} has no label; ADAPET learns from labels, not from a teacher's scores")
