"""ADAPET (Tam et al. 2021): PET's patterns, trained with denser supervision.

There are two losses. The decoupled label loss (section 3.1) raises the probability of the right label's word among all
words of the vocabulary, and lowers those of the other labels. For the label-conditioned loss (section 3.2) the word of
a label, which may be a wrong one, is put at the mask, and a few words of the text are hidden. The network learns that
these are probable if the label is right, and improbable if it is wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch.nn.functional import binary_cross_entropy

from lmassay.errors import ConfigError, ModelError
from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading
from lmassay.evaluations.fewshot.methods.contract import DrawsState, TrainingInputs
from lmassay.evaluations.fewshot.methods.decoding import filled
from lmassay.evaluations.fewshot.methods.label_words import LabelWordRule
from lmassay.evaluations.fewshot.methods.learner import EncodedItem, Learner, collate
from lmassay.evaluations.fewshot.methods.multimask import MultiMask, learner_for, read_at
from lmassay.evaluations.fewshot.methods.network import Network, open_network
from lmassay.evaluations.fewshot.methods.training import Training
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


UNBALANCED = -1.0
"""The value of ``adapet_balance_alpha`` that means the plain sum of both losses."""
_SECOND_ENCODING = "again"
"""The key in an item's ``extra`` for its second encoding (WSC with ``reference``)."""


@dataclass(kw_only=True)
class Adapet(Training):
    """The decoupled label loss and the label-conditioned prediction of hidden words.

    ``adapet_mask_alpha``: at most this share of a text is hidden, but always at least one token.
    ``adapet_balance_alpha``: the weight of the label-conditioned loss; the label loss has 1 minus this. -1 means the
    plain sum of both.
    ``max_num_lbl_tok``: only this number of tokens at the beginning of a choice or referent count.
    ``draw_seed``: seed for the labels and words that are drawn in training, if it should differ from the training's.
    ``continue_draws``: seed the draws once for all trainings of a run, as FewNLU does, instead of once per training.

    Each loss is a mean over the whole update, so the number of micro-batches does not change its weight. It does with
    ``reference``, as in FewNLU: see :class:`AdapetLearner`.
    """

    masked_only: ClassVar[bool] = True

    pattern: Annotated[int, Field(ge=0)] = 0
    adapet_mask_alpha: Annotated[float, Field(ge=0, le=1)] = 0.105
    adapet_balance_alpha: float = UNBALANCED
    max_num_lbl_tok: Annotated[int, Field(ge=1)] = 20
    draw_seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    continue_draws: bool = False

    def learner(self, inputs: TrainingInputs) -> AdapetLearner:
        """A learner that draws from its own seed, or continues the draws of the previous training."""
        balance = self.adapet_balance_alpha
        if balance != UNBALANCED and not 0 <= balance <= 1:
            raise ConfigError(f"adapet_balance_alpha: must be between 0 and 1, or -1 for the plain sum, not {balance}")
        options = AdapetOptions(
            mask_alpha=self.adapet_mask_alpha,
            balance_alpha=balance,
            max_num_lbl_tok=self.max_num_lbl_tok,
            accumulation=max(1, self.batch_size // self.micro_batch),
            reference=self.reference,
            draw_seed=self.draw_seed,
        )
        net = open_network(inputs.model, reference=self.reference)
        reading = self.reading(inputs, pattern=self.pattern, mode="cloze")
        learner = AdapetLearner(net, inputs.task, reading, options, eval_batch_size=self.eval_batch)
        if inputs.draws is not None:
            learner.draws.restore(inputs.draws)
        return learner


# --- the learner ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdapetOptions:
    """What ADAPET adds to PET's options."""

    mask_alpha: float = 0.105
    """At most this share of a text is hidden, but always at least one token."""
    balance_alpha: float = UNBALANCED
    """The weight of the label-conditioned loss; -1 for the plain sum of both."""
    max_num_lbl_tok: int = 20
    """Only the first tokens of longer choices and referents count in the label loss, up to this number."""
    accumulation: int = 1
    """Micro-batches per update; used with ``reference`` only."""
    reference: bool = False
    draw_seed: int | None = None
    """Seed of what is drawn in training; by default the seed of the training."""


class AdapetLearner(Learner):
    """A learner with ADAPET's two losses.

    ``reference`` reproduces three quirks of FewNLU:

    - The label loss is not divided by the number of micro-batches of an update, and the balance does not change its
      gradient.
    - In COPA, the text of the second loss always contains the right choice, even if the wrong one was drawn.
    - In WSC, the text of the second loss is encoded separately, so it has another number of surplus masks.

    Three mistakes of FewNLU are never reproduced: COPA and WSC can be trained in batches; padding has the tokenizer's
    id (FewNLU assumes 0); and tokens that two choices share are found by comparing tokens (FewNLU compares their
    probabilities). As in FewNLU, only the first word of a label counts if it has several.
    """

    def __init__(
        self, net: Network, task: NluTask, reading: Reading, options: AdapetOptions, *, eval_batch_size: int = 32
    ) -> None:
        if net.kind != "masked":
            raise ConfigError(
                "ADAPET hides words inside a text and predicts them, which a causal language model cannot do; use a "
                "masked model, or another method"
            )
        self.net = net
        self.options = options
        self._kind = task.kind
        self.module: torch.nn.Module = net.module
        # PET's own learner encodes the examples. If answers have several tokens, its scores are used for ADAPET, too.
        self._pet = learner_for(task, net, reading, reference=options.reference, eval_batch_size=eval_batch_size)
        self._label_words: list[int] = []
        """The token of each label's first word; empty for tasks whose answers are texts."""
        if isinstance(self._pet, Cloze):
            self._label_words = [tokens[0] for tokens in self._pet.pvp.label_token_ids()]
        draw_seed = reading.seed if options.draw_seed is None else options.draw_seed
        self.draws = Draws(draw_seed)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        """PET's items; training examples must have labels."""
        if training:
            _check_labels(examples)
        items = self._pet.encode(examples, training=training)
        if training and self.options.reference and self._kind == "referent":
            # FewNLU encodes the text of the second loss separately, so it gets another number of surplus masks.
            second_items = self._pet.encode(examples, training=True)
            for item, second in zip(items, second_items, strict=True):
                item.extra[_SECOND_ENCODING] = second
        return items

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The probabilities of the labels; if answers have several tokens, their scores as PET computes them."""
        if self._label_words:
            return self.label_log_probabilities(items).exp()
        return self._pet.logits(items)

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The loss of a micro-batch on its own, as FewNLU's loop uses it."""
        label = self.label_loss(items)
        conditioned = self.conditioned_loss(self.hide(items))
        label_weight, conditioned_weight = self._weights()
        if not self.options.reference:
            return label_weight * label + conditioned_weight * conditioned
        # FewNLU logs the balanced sum, but back-propagates the label loss separately, unbalanced and not divided by
        # the number of micro-batches. The last term adds this gradient without changing the value; the factor undoes
        # the division by the number of micro-batches in the training loop.
        logged_loss = label_weight * label.detach() + conditioned_weight * conditioned
        return logged_loss + self.options.accumulation * (label - label.detach())

    def losses(self, micro_batches: Sequence[Sequence[EncodedItem]]) -> Iterator[torch.Tensor]:
        """Yield the parts of an update's loss, one per micro-batch.

        Labels and hidden words are drawn once for the whole update, and each of the two losses is a mean over its
        tokens in the whole update.
        """
        label_weight, conditioned_weight = self._weights()
        all_items: list[EncodedItem] = []
        for items in micro_batches:
            all_items += items
        all_hidden = self.hide(all_items)

        hidden_texts: list[list[HiddenText]] = []
        label_counts: list[int] = []
        hidden_counts: list[int] = []
        start = 0
        for items in micro_batches:
            texts = all_hidden[start : start + len(items)]
            start += len(items)
            hidden_texts.append(texts)
            label_counts.append(self._count_label_tokens(items))
            hidden_counts.append(sum(len(text.positions) for text in texts))
        label_total = max(1, sum(label_counts))
        hidden_total = max(1, sum(hidden_counts))

        for number, items in enumerate(micro_batches):
            # Each loss is a mean over the micro-batch. Weighted by the micro-batch's share of the tokens, these means
            # add up to the mean over the update.
            label_share = label_counts[number] / label_total
            hidden_share = hidden_counts[number] / hidden_total
            label = self.label_loss(items)
            conditioned = self.conditioned_loss(hidden_texts[number])
            yield label_weight * label_share * label + conditioned_weight * hidden_share * conditioned

    def _weights(self) -> tuple[float, float]:
        """The weights of the label loss and of the label-conditioned loss."""
        balance = self.options.balance_alpha
        if balance == UNBALANCED:
            return 1.0, 1.0
        return 1 - balance, balance

    # --- label loss ---------------------------------------------------------------------------------------------

    def label_loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The decoupled label loss (section 3.1)."""
        if self._label_words:
            labels = [item.label for item in items]
            return decoupled_label_loss(self.label_log_probabilities(items), labels)
        if self._kind == "referent":
            # WSC learns from true referents only.
            targets = [[item.extra["target"]] for item in items]
            is_right = [[True]] * len(items)
            return decoupled_text_loss(self._costs(items, targets), is_right)
        return self._choice_loss(items)

    def _choice_loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The label loss of tasks that choose between texts, over the tokens that distinguish these texts."""
        all_costs = self._costs(items, [item.extra["texts"] for item in items])
        distinguishing_costs: list[list[torch.Tensor]] = []
        is_right: list[list[bool]] = []
        for item, costs_of_item in zip(items, all_costs, strict=True):
            costs_of_texts = []
            for cost, positions in zip(costs_of_item, self._distinguishing_positions(item), strict=True):
                costs_of_texts.append(cost[positions])
            distinguishing_costs.append(costs_of_texts)
            is_right.append(right_texts(item))
        return decoupled_text_loss(distinguishing_costs, is_right)

    def _count_label_tokens(self, items: Sequence[EncodedItem]) -> int:
        """The number of tokens that the label loss is a mean over."""
        if self._label_words:
            return len(items) * len(self._label_words)
        count = 0
        for item in items:
            if self._kind == "referent":
                count += min(len(item.extra["target"]), self.options.max_num_lbl_tok)
            else:
                count += sum(map(len, self._distinguishing_positions(item)))
        return count

    def _distinguishing_positions(self, item: EncodedItem) -> list[list[int]]:
        return distinguishing_positions(self._limited(item.extra["texts"]))

    def _limited(self, texts: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        """The texts, cut off after ``max_num_lbl_tok`` tokens."""
        limit = self.options.max_num_lbl_tok
        return [text[:limit] for text in texts]

    def label_log_probabilities(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The log-probability of each label's word among all words of the vocabulary: items × labels."""
        first_masks = [item.masks[:1] for item in items]
        log_p = read_at(self.net, items, first_masks).log_softmax(dim=-1)
        return log_p[:, self._label_words]

    def _costs(
        self, items: Sequence[EncodedItem], texts: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[torch.Tensor]]:
        """The negative log-probabilities of each text's tokens in its item's gap."""
        assert isinstance(self._pet, MultiMask)
        limited_texts = [self._limited(texts_of_item) for texts_of_item in texts]
        if isinstance(self._pet.rule, LabelWordRule):
            return self._pet.rule.costs(self._pet.gaps, items, limited_texts)
        return self._pet.gaps.costs(items, limited_texts)

    # --- label-conditioned loss ---------------------------------------------------------------------------------

    def hide(self, items: Sequence[EncodedItem]) -> list[HiddenText]:
        """Draw a label for each item, put its word at the mask, and hide some words of the text."""
        if self._label_words:
            texts = filled_with_labels(items, self._label_words, self.draws)
        elif self._kind == "referent":
            second_items = [item.extra.get(_SECOND_ENCODING, item) for item in items]
            texts = filled_with_referents(second_items)
        else:
            texts = filled_with_texts(items, self.draws, reference=self.options.reference)
        mask_id = self.net.tokenizer.mask_token_id
        return hide_words(texts, self.draws, self.options.mask_alpha, mask_id=mask_id, pad_id=self.net.pad_id)

    def conditioned_loss(self, texts: Sequence[HiddenText]) -> torch.Tensor:
        """The label-conditioned loss over the hidden words (section 3.2)."""
        log_p = hidden_log_probabilities(self.net, texts)
        is_right = [text.filled.is_right for text in texts]
        hidden_counts = [len(text.positions) for text in texts]
        return label_conditioned_loss(log_p, is_right, hidden_counts)


def _check_labels(examples: Sequence[InputExample]) -> None:
    for example in examples:
        if example.label is None:
            raise ModelError(f"{example.guid} has no label; ADAPET learns from labels, not from a teacher's scores")


# --- the two losses over probabilities (sections 3.1 and 3.2) ---------------------------------------------------------


def binary_costs(log_p: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy of probabilities that are given as logarithms: ``-log p`` if wanted, else ``-log (1 - p)``.

    For wanted tokens it is computed from ``log p`` directly. Computed from ``p``, its gradient would vanish once a
    probability is too small for float32.
    """
    unwanted = binary_cross_entropy(log_p.exp(), torch.zeros_like(log_p), reduction="none")
    return torch.where(wanted, -log_p, unwanted)


def decoupled_label_loss(log_p: torch.Tensor, labels: Sequence[int]) -> torch.Tensor:
    """Equation 2: the probability of each label is raised or lowered independently of the others.

    ``log_p`` has the log-probability of each label's word among all words, one row per item and one column per label.
    """
    wanted = torch.zeros_like(log_p, dtype=torch.bool)
    wanted[torch.arange(len(labels)), torch.tensor(labels)] = True
    return binary_costs(log_p, wanted).mean()


def decoupled_text_loss(costs: Sequence[Sequence[torch.Tensor]], right: Sequence[Sequence[bool]]) -> torch.Tensor:
    """Equation 2 for texts of any length: the mean over all tokens of all texts.

    ``costs`` has the negative log-probabilities of the tokens of each text; ``right`` says which texts are right.
    """
    log_p_of_texts: list[torch.Tensor] = []
    wanted: list[bool] = []
    for costs_of_item, right_of_item in zip(costs, right, strict=True):
        for cost, is_right in zip(costs_of_item, right_of_item, strict=True):
            log_p_of_texts.append(-cost)
            wanted += [is_right] * len(cost)
    log_p = torch.cat(log_p_of_texts)
    is_wanted = torch.tensor(wanted, dtype=torch.bool, device=log_p.device)
    token_costs = binary_costs(log_p, is_wanted)
    # Texts that do not differ in any token have no costs, and the loss is 0.
    return token_costs.sum() / max(1, len(token_costs))


def distinguishing_positions(texts: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each text, all positions but those where all texts have the same token.

    >>> distinguishing_positions([[5, 6, 7], [5, 8]])
    [[1, 2], [1]]
    """
    shared = set()
    # The positions up to the end of the shortest text are compared; all later ones distinguish the other texts.
    for position, tokens in enumerate(zip(*texts, strict=False)):
        if len(set(tokens)) == 1:
            shared.add(position)
    distinguishing = []
    for text in texts:
        distinguishing.append([position for position in range(len(text)) if position not in shared])
    return distinguishing


def label_conditioned_loss(log_p: torch.Tensor, targets: Sequence[bool], counts: Sequence[int]) -> torch.Tensor:
    """Equation 3: hidden words should be probable with the right label and improbable with a wrong one.

    ``log_p`` has the log-probabilities of the hidden words of all items. ``targets`` says which items have the right
    label, and ``counts`` how many of the words belong to each item. The loss is a mean over words.
    """
    wanted: list[bool] = []
    for target, count in zip(targets, counts, strict=True):
        wanted += [target] * count
    word_costs = binary_costs(log_p, torch.tensor(wanted, dtype=torch.bool, device=log_p.device))
    return word_costs.sum() / max(1, len(word_costs))


def right_texts(item: EncodedItem) -> list[bool]:
    """For each of an item's texts, whether it is a right one for the gap."""
    marks: list[bool] | None = item.extra.get("right")
    if marks is not None:
        return marks
    return [number == item.label for number in range(len(item.extra["texts"]))]


# --- the text of the second loss: a label at the mask, some words hidden ----------------------------------------------


@dataclass(frozen=True, slots=True)
class FilledText:
    """An item with a label or text in place of its masks, and whether that is the right one."""

    ids: list[int]
    is_right: bool


@dataclass(frozen=True, slots=True)
class HiddenText:
    """A filled text with some of its words hidden: at ``positions`` the token is now the mask."""

    filled: FilledText
    ids: list[int]
    positions: list[int]


class Draws:
    """Draws everything that is random: the labels, how many words are hidden, and which.

    There are two generators, used in the same order as FewNLU's two global ones, so with the same seed the draws are
    equal.
    """

    def __init__(self, seed: int) -> None:
        self._numbers = np.random.RandomState(seed)
        self._positions = random.Random(seed)

    def state(self) -> DrawsState:
        """The state of both generators, as plain JSON."""
        _, words, position, *_ = self._numbers.get_state(legacy=True)
        _, places, _ = self._positions.getstate()
        return {"numbers": [*map(int, words), int(position)], "places": list(places)}

    def restore(self, state: DrawsState) -> None:
        """Continue from a state that ``state`` returned."""
        *words, position = state["numbers"]
        # The last two values matter only for draws from a normal distribution, which this class does not make.
        self._numbers.set_state(("MT19937", np.array(words, dtype=np.uint32), position, 0, 0.0))
        self._positions.setstate((self._positions.VERSION, tuple(state["places"]), None))

    def labels(self, choices: int, count: int) -> list[int]:
        """``count`` labels, each with the same probability."""
        return [int(label) for label in self._numbers.randint(choices, size=count)]

    def hidden(self, length: int, alpha: float) -> list[int]:
        """Positions to hide among the first ``length``, which include special tokens.

        There are ``max(int(u · alpha · length), 2) - 1``, where u is drawn between 0 and 1.
        """
        count = max(int(self._numbers.rand() * alpha * length), 2) - 1
        return self._positions.sample(range(length), min(count, length))


def filled_with_labels(items: Sequence[EncodedItem], words: Sequence[int], draws: Draws) -> list[FilledText]:
    """Each item with the word of a drawn label at its mask."""
    texts = []
    labels = draws.labels(len(words), len(items))
    for item, label in zip(items, labels, strict=True):
        ids = filled(item, [words[label]] * len(item.masks)).ids
        texts.append(FilledText(ids, label == item.label))
    return texts


def filled_with_texts(items: Sequence[EncodedItem], draws: Draws, *, reference: bool) -> list[FilledText]:
    """Each item with one of its texts, which is drawn, in place of its masks.

    A quirk of FewNLU, reproduced with ``reference``: the right text is always inserted, and only the target depends on
    the draw, so half of the targets are wrong.
    """
    texts = []
    numbers_of_texts = {len(item.extra["texts"]) for item in items}
    drawn: list[int] = []
    if len(numbers_of_texts) == 1:
        # As in FewNLU, there is one draw for all items. COPA always has two choices.
        drawn = draws.labels(numbers_of_texts.pop(), len(items))
    for number, item in enumerate(items):
        choices = item.extra["texts"]
        is_right = right_texts(item)
        label = drawn[number] if drawn else draws.labels(len(choices), 1)[0]
        inserted = is_right.index(True) if reference else label
        ids = filled(item, choices[inserted]).ids
        texts.append(FilledText(ids, is_right[label]))
    return texts


def filled_with_referents(items: Sequence[EncodedItem]) -> list[FilledText]:
    """Each item with its true referent, and padding in its surplus masks."""
    texts = []
    for item in items:
        ids = filled(item, item.extra["target"]).ids
        texts.append(FilledText(ids, is_right=True))
    return texts


def hide_words(
    texts: Sequence[FilledText], draws: Draws, alpha: float, *, mask_id: int, pad_id: int
) -> list[HiddenText]:
    """Hide some words of each text. Padding does not count in a text's length."""
    hidden_texts = []
    for text in texts:
        ids = list(text.ids)
        length = sum(token != pad_id for token in ids)
        for position in draws.hidden(length, alpha):
            ids[position] = mask_id
        # A position whose token was the mask already is not predicted.
        positions = [position for position, old in enumerate(text.ids) if old != ids[position]]
        hidden_texts.append(HiddenText(text, ids, positions))
    return hidden_texts


def hidden_log_probabilities(net: Network, texts: Sequence[HiddenText]) -> torch.Tensor:
    """The log-probability of each hidden word, text by text.

    As in FewNLU, all tokens have token type 0 here, and padding gets no attention, even if it is inside a text.
    """
    items = [EncodedItem(text.ids, [0] * len(text.ids)) for text in texts]
    batch = collate(items, net.pad_id, net.device)
    batch = replace(batch, attention=(batch.ids != net.pad_id).long())
    states = net.hidden(batch)
    rows: list[int] = []
    columns: list[int] = []
    words: list[int] = []
    for row, text in enumerate(texts):
        for position in text.positions:
            rows.append(row)
            columns.append(position)
            words.append(text.filled.ids[position])
    # The head is run at the hidden words only. A micro-batch may have no hidden words, and an empty tensor would not
    # have an integer type by itself.
    word_ids = torch.tensor(words, dtype=torch.long, device=net.device)
    row_indices = torch.tensor(rows, dtype=torch.long)
    column_indices = torch.tensor(columns, dtype=torch.long)
    states_of_words = states[row_indices, column_indices]
    log_p = net.decode(states_of_words).log_softmax(dim=-1)
    return log_p.gather(1, word_ids[:, None])[:, 0]
