"""PET and P-tuning where the answer is a text of several tokens: COPA's choices, WSC's referent, ReCoRD's entities.

The place of the answer in a pattern is called a gap. How a network reads it is the same for the three tasks (see
``decoding``). Each task has its own rule for what is trained and how scores become a label: ``ChoiceRule``,
``ReferentRule`` and ``EntityRule``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import torch

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.methods import deberta, label_words
from lmassay.evaluations.fewshot.methods.cloze import CausalCloze, Cloze, Reading, label_index
from lmassay.evaluations.fewshot.methods.decoding import CausalGaps, Gaps, MaskedGaps, Positions, known_decoding
from lmassay.evaluations.fewshot.methods.learner import EncodedItem, Learner, collate
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tokens import special_ids

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


Costs = Sequence[Sequence[torch.Tensor]]
"""For each item, the costs (negative log-probabilities) of the tokens of each of its texts, the right text first."""
TRUE = "True"
"""WSC's label for the right referent."""
MAX_WRONG = 9
"""In training, a right entity is compared with at most this number of wrong ones (ReCoRD, as in PET)."""


class AnswerRule(Protocol):
    """How a task uses its gap: what is trained, and how scores become a label."""

    def encode(self, example: InputExample, training: bool) -> EncodedItem | None:
        """The example as an item; None for an example that cannot be trained on."""

    def loss(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The loss of a micro-batch."""

    def logits(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """One row per item, one column per label."""


class MultiMask(Learner):
    """A learner for gaps of several tokens. What depends on the task is in its rule."""

    def __init__(
        self, net: Network, pvp: Any, rule: AnswerRule, *, decoding: str = "default", batch_size: int = 32
    ) -> None:
        self.net = net
        self.pvp = pvp
        self.rule = rule
        self.module: torch.nn.Module = net.module
        self.gaps: Gaps
        strategy = known_decoding(decoding)
        if net.kind == "causal":
            # A causal network always writes from left to right, so the decoding strategy does not matter.
            self.gaps = CausalGaps(self.read, batch_size)
        else:
            self.gaps = MaskedGaps(self.read, strategy, batch_size)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        """The examples in the pattern, without those that cannot be trained on."""
        items = []
        for example in examples:
            item = self.rule.encode(example, training)
            if item is not None:
                items.append(item)
        return items

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The loss of the task's rule."""
        return self.rule.loss(self.gaps, items)

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The label scores of the task's rule."""
        return self.rule.logits(self.gaps, items)

    def read(self, items: Sequence[EncodedItem], positions: Positions) -> torch.Tensor:
        """Logits over the tokenizer's vocabulary at the positions; the head is not run anywhere else."""
        return read_at(self.net, items, positions)


def read_at(net: Network, items: Sequence[EncodedItem], positions: Positions) -> torch.Tensor:
    """Logits over the whole vocabulary for the tokens at each item's positions, one row per position."""
    batch = collate(items, net.pad_id, net.device)
    states = net.hidden(batch)
    # The state of a causal network predicts the token at the next position.
    shift = 1 if net.kind == "causal" else 0
    rows: list[int] = []
    columns: list[int] = []
    for row, positions_of_item in enumerate(positions):
        for position in positions_of_item:
            rows.append(row)
            columns.append(position - shift)
    row_indices = torch.tensor(rows, device=states.device)
    column_indices = torch.tensor(columns, device=states.device)
    return net.decode(states[row_indices, column_indices])


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
    """PET's learner for a task: ``Cloze`` or ``CausalCloze`` for label words of one token, else ``MultiMask``.

    ``reference`` reproduces two properties of FewNLU: there is a single hinge loss for the whole micro-batch (COPA, and
    ReCoRD in PET) instead of one per example, and the name of an example's file decides how many surplus masks it gets
    (WSC). ``count_padding`` says whether the network is trained to fill WSC's surplus masks with padding. By default it
    is, except for DeBERTa, whose loss in FewNLU ignores padding. A causal network reads no masks, so it never is.
    """
    if task.kind == "labels":
        return _label_learner(
            task,
            net,
            reading,
            decoding_strategy=decoding_strategy,
            eval_batch_size=eval_batch_size,
            temperature=temperature,
        )
    pvp = reading.pvp(task, net.tokenizer)
    rule = rule_for(task, pvp, net, reference=reference, count_padding=count_padding)
    return MultiMask(net, pvp, rule, decoding=decoding_strategy, batch_size=eval_batch_size)


def _label_learner(
    task: NluTask,
    net: Network,
    reading: Reading,
    *,
    decoding_strategy: str,
    eval_batch_size: int,
    temperature: float,
) -> Learner:
    """``Cloze`` or ``CausalCloze`` if every label word is one token, else ``MultiMask``."""
    pvp = None
    if net.kind == "causal":
        words = label_words.causal_words(task, net.tokenizer, reading.pattern)
        if not label_words.has_several_tokens(words):
            return CausalCloze(net, task, reading, temperature=temperature)
    else:
        words = reading.pvp(task, net.tokenizer).label_word_ids()
        if not label_words.has_several_tokens(words):
            return Cloze(net, task, reading, temperature=temperature)
        # The pattern has only one mask, so the text is shortened to leave room for the others.
        room = label_words.longest_word(words) - 1
        shorter = replace(reading, max_seq_length=max(1, reading.max_seq_length - room))
        pvp = shorter.pvp(task, net.tokenizer)
    rule = label_words.LabelWordRule(task, net, reading, pvp, words, temperature)
    return MultiMask(net, pvp, rule, decoding=decoding_strategy, batch_size=eval_batch_size)


def label_tokens(learner: Learner) -> list[int]:
    """The tokens of the label words of a learner that ``learner_for`` made; empty if its answers are texts."""
    if isinstance(learner, MultiMask):
        return learner.rule.tokens if isinstance(learner.rule, label_words.LabelWordRule) else []
    assert isinstance(learner, Cloze | CausalCloze)
    tokens: list[int] = learner.verbalizer.rows.tolist()
    return tokens


def rule_for(
    task: NluTask, pvp: Any, net: Network, *, reference: bool = False, count_padding: bool | None = None
) -> ChoiceRule | ReferentRule | EntityRule:
    """The rule for the task's kind of answer."""
    if task.kind == "choices":
        return ChoiceRule(pvp, task.labels, per_batch=reference)
    if task.kind == "entities":
        return EntityRule(pvp, task.labels, per_batch=reference)
    if task.kind == "referent":
        if net.kind == "causal":
            # A causal network does not read masks, even if its tokenizer has one.
            count_padding = False
        elif count_padding is None:
            count_padding = net.family != deberta.FAMILY
        return ReferentRule(
            pvp, task.labels, net.tokenizer, pad_id=net.pad_id, count_padding=count_padding, by_file=reference
        )
    raise ConfigError(f"{task.name}: tasks of the kind '{task.kind}' cannot be learned by filling masks")


# --- the hinge between the right text and the wrong ones --------------------------------------------------------------


def hinge(gaps: Gaps, costs: Costs, *, per_batch: bool) -> torch.Tensor:
    """The hinge loss: the sum over wrong texts of ``max(0, 1 + cost(right) - cost(wrong))``, mean over items.

    A text's cost is the mean over its tokens (the sum for causal models). ``per_batch`` is how FewNLU and PET train:
    they take the mean cost over the tokens of all right texts of the micro-batch, over those of all first wrong texts,
    of all second wrong texts and so on, and compute a single hinge loss from these means.
    """
    if per_batch:
        costs = _joined(costs)
    losses = []
    for right, *wrong in costs:
        right_cost = gaps.total(right)
        # This zero has a gradient, so that backward also works for a micro-batch without any wrong text.
        loss = 0.0 * right_cost
        for cost in wrong:
            loss = loss + torch.relu(1 + right_cost - gaps.total(cost))
        losses.append(loss)
    return torch.stack(losses).mean()


def _joined(costs: Costs) -> list[list[torch.Tensor]]:
    """Join all items to a single one, whose n-th text consists of the n-th texts of all items that have one."""
    by_number: dict[int, list[torch.Tensor]] = {}
    for costs_of_item in costs:
        for number, cost in enumerate(costs_of_item):
            by_number.setdefault(number, []).append(cost)
    return [[torch.cat(by_number[number]) for number in sorted(by_number)]]


# --- COPA -------------------------------------------------------------------------------------------------------------


class ChoiceRule:
    """COPA: which of two texts belongs in the gap.

    Training uses a hinge loss between the two choices. Evaluation takes the more probable choice; each is read with as
    many masks as it has tokens. FewNLU has one hinge loss for a whole micro-batch, which ``per_batch`` reproduces. Its
    evaluation crashes for models with token types (BERT), because it removes surplus masks but not their types.
    """

    def __init__(self, pvp: Any, labels: Sequence[str], *, per_batch: bool = False) -> None:
        self._pvp = pvp
        self._labels = labels
        self._per_batch = per_batch

    def encode(self, example: InputExample, training: bool) -> EncodedItem:
        """The example with the tokens of its choices."""
        item = gap_item(self._pvp, example, self._labels, training)
        choices = self._pvp.choices(example)
        if len(choices) != len(self._labels):
            raise DataError(f"{example.guid}: {len(choices)} choices for {len(self._labels)} labels")
        item.extra["texts"] = nonempty(choices, example)
        return item

    def loss(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The hinge loss between the right choice and the other."""
        costs = gaps.costs(items, [right_choice_first(item) for item in items])
        return hinge(gaps, costs, per_batch=self._per_batch)

    def logits(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The log-probability of each choice."""
        scores = gaps.scores(items, [item.extra["texts"] for item in items])
        return torch.tensor(scores, dtype=torch.float64)


def right_choice_first(item: EncodedItem) -> list[list[int]]:
    """The tokens of the right choice, then those of the others in their order."""
    texts: list[list[int]] = item.extra["texts"]
    return [texts[item.label], *texts[: item.label], *texts[item.label + 1 :]]


def gap_item(
    pvp: Any, example: InputExample, labels: Sequence[str], training: bool, *, by_file: bool = False
) -> EncodedItem:
    """The example in its pattern, with masks in the gap.

    With ``by_file`` the name of its file decides whether it is encoded for training, as in FewNLU.
    """
    encoded = pvp.encode(example, training=None if by_file else training)
    label = label_index(example.label, labels)
    if training and label < 0:
        raise DataError(f"{example.guid}: an example without a label cannot be trained on")
    return EncodedItem(
        list(encoded.ids), list(encoded.types), list(encoded.masks), list(encoded.prompts), label, example.logits
    )


def nonempty(texts: Sequence[Sequence[int]], example: InputExample) -> list[list[int]]:
    """The texts as lists; a DataError if one of them has no tokens."""
    if not all(texts):
        raise DataError(f"{example.guid}: a text for the gap is empty or has no tokens in this vocabulary")
    return [list(text) for text in texts]


# --- WSC --------------------------------------------------------------------------------------------------------------


class ReferentRule:
    """WSC: does the pronoun refer to the candidate?

    As with T5, the network is trained to write the true referent. In evaluation it writes a text, whose words are
    compared with those of the candidate. A false referent does not say what to write, so it is left out of training.

    In training there are 0 to 3 masks more than the referent has tokens, in evaluation one more (see ``WscPVP``). The
    network is trained to fill these surplus masks with padding, unless ``count_padding`` is off.

    A quirk of FewNLU, reproduced with ``by_file``: the name of its file decides whether an example counts as a training
    example, so dev examples that come from the training file get random surplus masks.
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
            raise DataError(f"a task about referents needs the label '{TRUE}', but this one has {', '.join(labels)}")
        self._pvp = pvp
        self._labels = labels
        self._tokenizer = tokenizer
        self._true = list(labels).index(TRUE)
        self._pad_id = pad_id
        self._count_padding = count_padding
        self._by_file = by_file

    def encode(self, example: InputExample, training: bool) -> EncodedItem | None:
        """The example with the tokens that the network should write; None for a false referent in training."""
        if training and example.label is not None and example.label != TRUE:
            return None
        item = gap_item(self._pvp, example, self._labels, training, by_file=self._by_file)
        (referent,) = nonempty(self._pvp.choices(example), example)
        (item.extra["candidate"],) = self._pvp.choice_texts(example)
        surplus = 0
        if self._count_padding:
            surplus = len(item.masks) - len(referent)
        item.extra["span"] = referent
        item.extra["target"] = [*referent, *[self._pad_id] * surplus]
        # The loss is a mean over tokens, so an item with more tokens weighs more.
        item.weight = len(item.extra["target"])
        return item

    def loss(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Cross-entropy, mean over all tokens of the micro-batch."""
        costs = gaps.costs(items, [[item.extra["target"]] for item in items])
        return torch.cat([cost_of_target for (cost_of_target,) in costs]).mean()

    def logits(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """One row per item: 1 for the label that the comparison gives, 0 for the other."""
        rows = torch.zeros(len(items), len(self._labels), dtype=torch.float64)
        written = gaps.write(items)
        for number, (item, tokens) in enumerate(zip(items, written, strict=True)):
            is_candidate = same_referent(self.text(tokens), item.extra["candidate"])
            # There are two labels, 0 and 1, so the index of the false one is 1 minus that of the true one.
            label = self._true if is_candidate else 1 - self._true
            rows[number, label] = 1.0
        return rows

    def text(self, tokens: Sequence[int]) -> str:
        """The text that the network wrote, without special tokens.

        Ids beyond the tokenizer's vocabulary are also left out: DeBERTa's embeddings have more rows than it has tokens.
        """
        special = special_ids(self._tokenizer)
        size = len(self._tokenizer)
        words = [token for token in tokens if token not in special and token < size]
        return str(self._tokenizer.decode(words))


def same_referent(written: str, candidate: str) -> bool:
    """Whether all words of one of the two texts are also in the other.

    >>> same_referent("the city councilmen", "councilmen"), same_referent("the demonstrators", "councilmen")
    (True, False)
    """
    written_words = _words(written)
    candidate_words = _words(candidate)
    return written_words <= candidate_words or candidate_words <= written_words


def _words(text: str) -> set[str]:
    """The words of a text in lower case; anything but the letters a to z separates them, as in FewNLU."""
    return {word for word in re.split("[^a-z]", text.lower()) if word}


# --- ReCoRD -----------------------------------------------------------------------------------------------------------


class EntityRule:
    """ReCoRD: which entity of the passage belongs in the gap of a query? FewNLU never ran it, so this follows PET.

    The loss is the sum of the hinge losses between a right entity and up to nine wrong ones. In evaluation the most
    probable entity is chosen. PET has one hinge loss for a whole micro-batch, which ``per_batch`` reproduces.

    A question has two logits: the score of its best wrong entity, and that of its best right one. So label 1 is
    predicted if the question is answered correctly. The text of the chosen entity is stored in the item
    (``extra["answer"]``) for metrics that compare texts.
    """

    def __init__(self, pvp: Any, labels: Sequence[str], *, per_batch: bool = False) -> None:
        self._pvp = pvp
        self._labels = labels
        self._per_batch = per_batch

    def encode(self, example: InputExample, training: bool) -> EncodedItem:
        """The example with the tokens of its entities, and which of them are right answers."""
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
        """The hinge losses between a right entity and the wrong ones."""
        costs = gaps.costs(items, [right_entity_first(item) for item in items])
        return hinge(gaps, costs, per_batch=self._per_batch)

    def logits(self, gaps: Gaps, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The scores of the best wrong and of the best right entity."""
        rows = []
        scores_of_items = gaps.scores(items, [item.extra["texts"] for item in items])
        for item, scores in zip(items, scores_of_items, strict=True):
            chosen = scores.index(max(scores))
            item.extra["answer"] = item.extra["names"][chosen]
            # If a question has no right (or no wrong) entities, that label gets a score below those of all entities.
            best_wrong = best_right = min(scores) - 1.0
            for score, is_right in zip(scores, item.extra["right"], strict=True):
                if is_right:
                    best_right = max(best_right, score)
                else:
                    best_wrong = max(best_wrong, score)
            rows.append([best_wrong, best_right])
        return torch.tensor(rows, dtype=torch.float64)


def right_entity_first(item: EncodedItem) -> list[list[int]]:
    """The tokens of the first right entity, then those of up to nine wrong entities in their order."""
    right: list[list[int]] = []
    wrong: list[list[int]] = []
    for text, is_right in zip(item.extra["texts"], item.extra["right"], strict=True):
        if is_right:
            right.append(text)
        else:
            wrong.append(text)
    return [right[0], *wrong[:MAX_WRONG]]
