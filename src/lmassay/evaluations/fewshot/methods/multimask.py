"""PET and P-tuning where the answer is a text of several tokens: COPA's choices, WSC's referent, ReCoRD's entities.

The three tasks share how a network reads a gap (``decoding``). What each of them trains, and how a score becomes a
label, is a rule of its own: ``ChoiceRule``, ``ReferentRule``, ``EntityRule``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.methods.cloze import CausalCloze, Cloze, Reading, label_index
from lmassay.evaluations.fewshot.methods.decoding import CausalGaps, Gaps, MaskedGaps, Positions, known_decoding
from lmassay.evaluations.fewshot.methods.learner import EncodedItem, Learner, collate
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tokens import special_ids

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


Costs = Sequence[Sequence[torch.Tensor]]
"""For each item the token costs of its texts, the right one first."""
TRUE = "True"
"""WSC's label for a referent that is the right one."""
MOST_WRONG = 9
"""So many wrong entities at most are trained against a right one (ReCoRD)."""


class AnswerRule(Protocol):
    """What a task does with its gap."""

    def encode(self, example: InputExample, training: bool) -> EncodedItem | None:
        """The example as an item; None for one that cannot be trained on."""

    def loss(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The loss of a micro-batch."""

    def logits(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """One row an item, one column a label."""


class MultiMask(Learner):
    """A learner for gaps of several tokens; examples of any length are evaluated together.

    Continuous prompt slots keep their places when masks are trimmed: their ids travel with the item.
    """

    def __init__(
        self, net: Network, pvp: Any, rule: AnswerRule, *, decoding: str = "default", batch_size: int = 32
    ) -> None:
        self.net, self.pvp, self.rule = net, pvp, rule
        self.network: torch.nn.Module = net.module
        self.gaps: Gaps
        if net.kind == "causal":
            # There is one order only: left to right.
            known_decoding(decoding)
            self.gaps = CausalGaps(self.read, batch_size)
        else:
            self.gaps = MaskedGaps(self.read, known_decoding(decoding), batch_size)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        items = (self.rule.encode(example, training) for example in examples)
        return [item for item in items if item is not None]

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        return self.rule.loss(self.gaps, items)

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        return self.rule.logits(self.gaps, items)

    def read(self, items: Sequence[EncodedItem], positions: Positions) -> torch.Tensor:
        """Logits over the tokenizer's vocabulary for what stands at the positions; the head is run nowhere else."""
        return read_at(self.net, items, positions)


def read_at(net: Network, items: Sequence[EncodedItem], positions: Positions) -> torch.Tensor:
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
    """PET's learner for a task: ``Cloze`` or ``CausalCloze`` for labels of one token, ``MultiMask`` for texts.

    ``reference``: one hinge over the whole micro-batch, as FewNLU (COPA) and PET (ReCoRD) have it, instead of one an
    example; and WSC's surplus masks by the name of an example's file. ``count_padding``: whether WSC's surplus masks
    are trained to be padding; without a word, yes, and no for DeBERTa, whose loss in FewNLU passes over the padding.
    """
    if task.kind == "labels":
        by_words = CausalCloze if net.kind == "causal" else Cloze
        return by_words(net, task, reading, temperature=temperature)
    pvp = reading.pvp(task, net.tokenizer)
    return MultiMask(
        net,
        pvp,
        rule_for(task, pvp, net, reference=reference, count_padding=count_padding),
        decoding=decoding_strategy,
        batch_size=eval_batch_size,
    )


def rule_for(
    task: NluTask, pvp: Any, net: Network, *, reference: bool = False, count_padding: bool | None = None
) -> ChoiceRule | ReferentRule | EntityRule:
    if task.kind == "choices":
        return ChoiceRule(pvp, task.labels, per_batch=reference)
    if task.kind == "entities":
        return EntityRule(pvp, task.labels, per_batch=reference)
    if task.kind == "referent":
        counted = net.family != "deberta-v2" if count_padding is None else count_padding
        return ReferentRule(
            pvp, task.labels, net.tokenizer, pad_id=net.pad_id, count_padding=counted, by_file=reference
        )
    raise ConfigError(f"{task.name}: no way is known to learn a task of kind '{task.kind}'")


# --- the hinge between the right text and the wrong ones --------------------------------------------------------------


def hinge(gaps: Gaps, costs: Costs, *, per_batch: bool) -> torch.Tensor:
    """The sum over wrong texts of ``max(0, 1 + cost(right) - cost(wrong))``, mean over items.

    A text's cost is the mean over its tokens (the sum for causal models). ``per_batch`` is how FewNLU and PET train:
    the right texts of the whole micro-batch have one mean cost over all their tokens, so have the first wrong ones,
    the second ones and so on, and a hinge is taken between the means.
    """
    lines = _joined(costs) if per_batch else costs
    losses = []
    for right, *wrong in lines:
        least = gaps.total(right)
        losses.append(sum((torch.relu(1 + least - gaps.total(cost)) for cost in wrong), start=right.new_zeros(())))
    return torch.stack(losses).mean()


def _joined(costs: Costs) -> list[list[torch.Tensor]]:
    """All items as one: its n-th text is made of all n-th texts."""
    most = max(len(of_item) for of_item in costs)
    return [[torch.cat([of_item[n] for of_item in costs if len(of_item) > n]) for n in range(most)]]


# --- COPA -------------------------------------------------------------------------------------------------------------


class ChoiceRule:
    """COPA: which of two texts belongs into the gap.

    A hinge between the two choices; at evaluation the likelier one, with as many masks as it has tokens.

    Quirk 20 (one hinge for a whole micro-batch) is kept with ``per_batch`` and mended without. Quirk 23 (evaluation
    crashes with token types) is gone: types are trimmed with the masks.
    """

    def __init__(self, pvp: Any, labels: Sequence[str], *, per_batch: bool = False) -> None:
        self._pvp, self._labels, self._per_batch = pvp, labels, per_batch

    def encode(self, example: InputExample, training: bool) -> EncodedItem:
        item = gap_item(self._pvp, example, self._labels, training)
        choices = self._pvp.choices(example)
        if len(choices) != len(self._labels):
            raise DataError(f"{example.guid}: {len(choices)} choices for {len(self._labels)} labels")
        item.extra["texts"] = nonempty(choices, example)
        return item

    def loss(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        return hinge(gaps, gaps.costs(items, [right_choice_first(item) for item in items]), per_batch=self._per_batch)

    def logits(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        return torch.tensor(gaps.scores(items, [item.extra["texts"] for item in items]), dtype=torch.float64)


def right_choice_first(item: EncodedItem) -> list[list[int]]:
    """The right choice, then the others in their order."""
    texts: list[list[int]] = item.extra["texts"]
    return [texts[item.label], *texts[: item.label], *texts[item.label + 1 :]]


def gap_item(
    pvp: Any, example: InputExample, labels: Sequence[str], training: bool, *, by_file: bool = False
) -> EncodedItem:
    """The example in its pattern, without what stands in the gap; ``by_file`` lets its file say what it is for."""
    encoded = pvp.encode(example, training=None if by_file else training)
    label = label_index(example.label, labels)
    if training and label < 0:
        raise DataError(f"{example.guid}: an example without label cannot be trained on")
    return EncodedItem(
        list(encoded.ids), list(encoded.types), list(encoded.masks), list(encoded.prompts), label, example.logits
    )


def nonempty(texts: Sequence[Sequence[int]], example: InputExample) -> list[list[int]]:
    if not all(texts):
        raise DataError(f"{example.guid}: a text for the gap is empty or has no tokens in this vocabulary")
    return [list(text) for text in texts]


# --- WSC --------------------------------------------------------------------------------------------------------------


class ReferentRule:
    """WSC: does the pronoun refer to the candidate? The network says whom it means, and the words are compared.

    It is trained to write the true referent; at evaluation what it writes is compared with the candidate (T5's way).

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

    def encode(self, example: InputExample, training: bool) -> EncodedItem | None:
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

    def loss(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Cross-entropy, mean over all tokens of the micro-batch."""
        return torch.cat([cost for (cost,) in gaps.costs(items, [[item.extra["target"]] for item in items])]).mean()

    def logits(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
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
    mine, theirs = _words(written), _words(candidate)
    return all(word in theirs for word in mine) or all(word in mine for word in theirs)


def _words(text: str) -> list[str]:
    return [word for word in re.split("[^a-z]", text.lower()) if word]


# --- ReCoRD -----------------------------------------------------------------------------------------------------------


class EntityRule:
    """ReCoRD: which entity of the passage belongs into the gap of a query. FewNLU never ran it; this is PET's way.

    Hinges between an answer and up to nine wrong entities, summed; at evaluation the likeliest entity is the answer.

    PET takes the hinges over a whole micro-batch, which is kept with ``per_batch``. The two logits of a question are
    the scores of its best wrong entity and of its best right one: label 1 means that it is answered rightly. The entity
    itself is left in the item (``extra["answer"]``), for metrics that compare texts.
    """

    def __init__(self, pvp: Any, labels: Sequence[str], *, per_batch: bool = False) -> None:
        self._pvp, self._labels, self._per_batch = pvp, labels, per_batch

    def encode(self, example: InputExample, training: bool) -> EncodedItem:
        item = gap_item(self._pvp, example, self._labels, training)
        names = self._pvp.choice_texts(example)
        answers = set(example.meta.get("answers", ()))
        item.extra["names"] = list(names)
        item.extra["texts"] = nonempty(self._pvp.choices(example), example)
        item.extra["right"] = [name in answers for name in names]
        if not names:
            raise DataError(f"{example.guid}: the passage has no entities to choose from")
        if training and not any(item.extra["right"]):
            raise DataError(f"{example.guid}: none of its entities is an answer, so nothing can be learned from it")
        return item

    def loss(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        return hinge(gaps, gaps.costs(items, [right_entity_first(item) for item in items]), per_batch=self._per_batch)

    def logits(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        rows = []
        for item, scores in zip(items, gaps.scores(items, [item.extra["texts"] for item in items]), strict=True):
            item.extra["answer"] = item.extra["names"][scores.index(max(scores))]
            # Below all others where there is none of a kind: what is unanswerable or cannot be missed.
            least = min(scores) - 1.0
            marked = list(zip(scores, item.extra["right"], strict=True))
            rows.append([max((s for s, r in marked if r is right), default=least) for right in (False, True)])
        return torch.tensor(rows, dtype=torch.float64)


def right_entity_first(item: EncodedItem) -> list[list[int]]:
    """The first answer, then the wrong entities in their order."""
    marked = list(zip(item.extra["texts"], item.extra["right"], strict=True))
    right = next(text for text, is_right in marked if is_right)
    return [right, *[text for text, is_right in marked if not is_right][:MOST_WRONG]]
