"""PET and P-tuning where the answer is a text of several tokens: COPA's choices, WSC's referent, ReCoRD's entities.

The three tasks share how a network reads a gap (``multimask_gaps``, ``decoding``); what they train and how a score
becomes a label is a rule of their own (``copa``, ``wsc``, ``record``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.batches import collate
from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading
from lmassay.evaluations.fewshot.methods.copa import Choices
from lmassay.evaluations.fewshot.methods.decoding import Positions, known_decoding
from lmassay.evaluations.fewshot.methods.learner import Item, Learner
from lmassay.evaluations.fewshot.methods.multimask_gaps import CausalGaps, Gaps, MaskedGaps
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.methods.record import Entities
from lmassay.evaluations.fewshot.methods.wsc import Referent
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


class Rule(Protocol):
    """What a task does with its gap."""

    def encode(self, example: InputExample, training: bool) -> Item | None:
        """The example as an item; None for one that cannot be trained on."""

    def loss(self, gaps: Gaps, items: Sequence[Item]) -> torch.Tensor:
        """The loss of a micro-batch."""

    def logits(self, gaps: Gaps, items: Sequence[Item]) -> torch.Tensor:
        """One row an item, one column a label."""


class MultiMask(Learner):
    """A learner for gaps of several tokens; examples of any length are evaluated together.

    Continuous prompt slots keep their places when masks are trimmed: their ids travel with the item.
    """

    def __init__(self, net: Network, pvp: Any, rule: Rule, *, decoding: str = "default", batch_size: int = 32) -> None:
        self.net, self.pvp, self.rule = net, pvp, rule
        self.network: torch.nn.Module = net.module
        self.gaps: Gaps
        if net.kind == "causal":
            # There is one order only: left to right.
            known_decoding(decoding)
            self.gaps = CausalGaps(self.read, batch_size)
        else:
            self.gaps = MaskedGaps(self.read, known_decoding(decoding), batch_size)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[Item]:
        items = (self.rule.encode(example, training) for example in examples)
        return [item for item in items if item is not None]

    def loss(self, items: Sequence[Item]) -> torch.Tensor:
        return self.rule.loss(self.gaps, items)

    def logits(self, items: Sequence[Item]) -> torch.Tensor:
        return self.rule.logits(self.gaps, items)

    def read(self, items: Sequence[Item], positions: Positions) -> torch.Tensor:
        """Logits over the tokenizer's vocabulary for what stands at the positions; the head is run nowhere else."""
        return read_at(self.net, items, positions)


def read_at(net: Network, items: Sequence[Item], positions: Positions) -> torch.Tensor:
    """Full-vocabulary logits for what stands at each item's positions, one row a position.

    A causal network says at one place what stands at the next.
    """
    batch = collate(items, net.pad_id, net.device)
    states = net.hidden(batch)
    shift = 1 if net.kind == "causal" else 0
    rows = torch.tensor([row for row, places in enumerate(positions) for _ in places], device=states.device)
    columns = torch.tensor([place - shift for places in positions for place in places], device=states.device)
    return net.decode(states[rows, columns])


def learner_for(
    task: NluTask,
    net: Network,
    reading: Reading,
    *,
    decoding_strategy: str = "default",
    reference: bool = False,
    count_padding: bool | None = None,
    eval_batch_size: int = 32,
    temperature: float = 2.0,
) -> Learner:
    """The learner for a task of any kind: ``Cloze`` for labels of one token, ``MultiMask`` for texts.

    ``reference``: one hinge over the whole micro-batch, as FewNLU (COPA) and PET (ReCoRD) have it, instead of one an
    example; and WSC's surplus masks by the name of an example's file. ``count_padding``: whether WSC's surplus masks
    are trained to be padding; without a word, yes, and no for DeBERTa, whose loss in FewNLU passes over the padding.
    """
    if task.kind == "labels":
        return Cloze(net, task, reading, temperature=temperature)
    pvp = pvp_of(task, net, reading)
    return MultiMask(
        net,
        pvp,
        rule_for(task, pvp, net, reference=reference, count_padding=count_padding),
        decoding=decoding_strategy,
        batch_size=eval_batch_size,
    )


def pvp_of(task: NluTask, net: Network, reading: Reading) -> Any:
    return task.pvp(
        net.tokenizer,
        pattern_id=reading.pattern,
        mode=reading.mode,
        max_seq_length=reading.max_seq_length,
        seed=reading.seed,
    )


def rule_for(
    task: NluTask, pvp: Any, net: Network, *, reference: bool = False, count_padding: bool | None = None
) -> Choices | Referent | Entities:
    if task.kind == "choices":
        return Choices(pvp, task.labels, per_batch=reference)
    if task.kind == "entities":
        return Entities(pvp, task.labels, per_batch=reference)
    if task.kind == "referent":
        counted = net.family != "deberta-v2" if count_padding is None else count_padding
        return Referent(pvp, task.labels, net.tokenizer, pad_id=net.pad_id, count_padding=counted, by_file=reference)
    raise ConfigError(f"{task.name}: no way is known to learn a task of kind '{task.kind}'")
