"""ADAPET: PET's patterns, taught with more of the signal (Tam et al. 2021).

Two losses for one text. The decoupled label loss pulls the right label's probability over the whole vocabulary up and
pushes the others down. For the label-conditioned loss a label that may be wrong is put in place, a few words are
masked, and these are to be likely after the right label and unlikely after a wrong one.
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
from lmassay.evaluations.fewshot.methods.learner import EncodedItem, Learner, collate
from lmassay.evaluations.fewshot.methods.multimask import MultiMask, learner_for, read_at
from lmassay.evaluations.fewshot.methods.network import Network, open_network
from lmassay.evaluations.fewshot.methods.training import Training
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


UNBALANCED = -1.0
"""A balance that stands for the plain sum of both losses."""
_AGAIN = "again"
"""Where an item keeps its second encoding."""


@dataclass(kw_only=True)
class Adapet(Training):
    """The decoupled label loss and the label-conditioned guess of hidden words.

    ``adapet_mask_alpha``: the share of a text that is hidden at most; ``adapet_balance_alpha``: the guess's share in
    the loss, -1 for the plain sum; ``max_num_lbl_tok``: how many tokens of a choice or referent count. The label loss
    and the guess both count once an update, however many micro-batches it has; with ``reference`` as in FewNLU.
    ``draw_seed``: of the labels and words that are drawn in training, if it is to be another than the training's.
    ``continue_draws``: seed the draws once for all trainings of a run, as FewNLU does, instead of once per training.
    """

    masked_only: ClassVar[bool] = True

    pattern: Annotated[int, Field(ge=0)] = 0
    adapet_mask_alpha: Annotated[float, Field(ge=0, le=1)] = 0.105
    adapet_balance_alpha: float = UNBALANCED
    max_num_lbl_tok: Annotated[int, Field(ge=1)] = 20
    draw_seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    continue_draws: bool = False

    def learner(self, inputs: TrainingInputs) -> AdapetLearner:
        balance = self.adapet_balance_alpha
        if balance != UNBALANCED and not 0 <= balance <= 1:
            raise ConfigError(f"adapet_balance_alpha: must be between 0 and 1, or -1 for the plain sum, not {balance}")
        hyper = AdapetOptions(
            mask_alpha=self.adapet_mask_alpha,
            balance_alpha=balance,
            max_num_lbl_tok=self.max_num_lbl_tok,
            accumulation=max(1, self.batch_size // self.micro_batch),
            reference=self.reference,
            draw_seed=self.draw_seed,
        )
        net = open_network(inputs.model, reference=self.reference)
        reading = self.reading(inputs, pattern=self.pattern, mode="cloze")
        learner = AdapetLearner(net, inputs.task, reading, hyper, eval_batch_size=self.eval_batch)
        if inputs.draws is not None:
            learner.draws.restore(inputs.draws)
        return learner


# --- the learner ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdapetOptions:
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
        self, net: Network, task: NluTask, reading: Reading, hyper: AdapetOptions, *, eval_batch_size: int = 32
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
        self.draws = Draws(reading.seed if hyper.draw_seed is None else hyper.draw_seed)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        if training:
            _check_labels(examples)
        items = self._pet.encode(examples, training=training)
        if training and self.hyper.reference and self._kind == "referent":
            for item, other in zip(items, self._pet.encode(examples, training=True), strict=True):
                item.extra[_AGAIN] = other
        return items

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Label probabilities; for texts their log-probability, most confident token first, as PET scores them."""
        return self.label_log_probabilities(items).exp() if self._words else self._pet.logits(items)

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        label, guess = self.label_loss(items), self.guess_loss(self.hide(items))
        mine, theirs = self._balance()
        if not self.hyper.reference:
            return mine * label + theirs * guess
        # The value is the one that is shown, the gradient the one that arrives.
        return mine * label.detach() + theirs * guess + self.hyper.accumulation * (label - label.detach())

    def losses(self, groups: Sequence[Sequence[EncodedItem]]) -> Iterator[torch.Tensor]:
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

    def label_loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The decoupled label loss."""
        if self._words:
            return decoupled_label_loss(self.label_log_probabilities(items), [item.label for item in items])
        if self._kind == "referent":
            costs = self._costs(items, [[item.extra["target"]] for item in items])
            return decoupled_text_loss(costs, [[True]] * len(items))
        costs = [
            [cost[places] for cost, places in zip(of_item, self._telling(item), strict=True)]
            for item, of_item in zip(items, self._costs(items, [item.extra["texts"] for item in items]), strict=True)
        ]
        return decoupled_text_loss(costs, [right_texts(item) for item in items])

    def _label_tokens(self, items: Sequence[EncodedItem]) -> int:
        """Over how many tokens the label loss is a mean."""
        if self._words:
            return len(items) * len(self._words)
        if self._kind == "referent":
            return sum(min(len(item.extra["target"]), self.hyper.max_num_lbl_tok) for item in items)
        return sum(len(places) for item in items for places in self._telling(item))

    def _telling(self, item: EncodedItem) -> list[list[int]]:
        """The places of each text's tokens that count."""
        return distinguishing_places([text[: self.hyper.max_num_lbl_tok] for text in item.extra["texts"]])

    def label_log_probabilities(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Items × labels, over the whole vocabulary; the head is run at the masks only."""
        scores = read_at(self.net, items, [item.masks[:1] for item in items]).log_softmax(dim=-1)
        return scores[:, self._words]

    def _costs(
        self, items: Sequence[EncodedItem], texts: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[torch.Tensor]]:
        assert isinstance(self._pet, MultiMask)
        most = self.hyper.max_num_lbl_tok
        return self._pet.gaps.costs(items, [[text[:most] for text in of_item] for of_item in texts])

    # --- label-conditioned guess --------------------------------------------------------------------------------

    def hide(self, items: Sequence[EncodedItem]) -> list[HiddenText]:
        """Draw a label for each item, put it in place and hide words."""
        if self._words:
            texts = filled_with_labels(items, self._words, self.draws)
        elif self._kind == "referent":
            texts = filled_with_referents([item.extra.get(_AGAIN, item) for item in items])
        else:
            texts = filled_with_texts(items, self.draws, reference=self.hyper.reference)
        mask_id = self.net.tokenizer.mask_token_id
        return hide_words(texts, self.draws, self.hyper.mask_alpha, mask_id=mask_id, pad_id=self.net.pad_id)

    def guess_loss(self, hidden: Sequence[HiddenText]) -> torch.Tensor:
        """The label-conditioned loss over the hidden words."""
        log_p = hidden_log_probabilities(self.net, hidden)
        return label_conditioned_loss(log_p, [one.filled.right for one in hidden], [len(one.places) for one in hidden])


def _shares(counts: Sequence[int]) -> list[float]:
    """What each part counts in a mean over all."""
    return [count / max(1, sum(counts)) for count in counts]


def _check_labels(examples: Sequence[InputExample]) -> None:
    for example in examples:
        if example.label is None:
            raise ModelError(f"{example.guid} has no label; ADAPET learns from labels, not from a teacher's scores")


# --- the two losses over probabilities (sections 3.1 and 3.2) ---------------------------------------------------------


def binary_costs(log_p: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy of probabilities that are given as logarithms.

    Where a token is wanted its cost is ``-log p`` itself: the gradient does not vanish for an unlikely one, as it does
    once a probability is too small for float32.
    """
    unwanted = binary_cross_entropy(log_p.exp(), torch.zeros_like(log_p), reduction="none")
    return torch.where(wanted, -log_p, unwanted)


def decoupled_label_loss(log_p: torch.Tensor, labels: Sequence[int]) -> torch.Tensor:
    """Equation 2: each label's probability over the whole vocabulary is pulled up or pushed down for itself.

    ``log_p`` holds items × labels.
    """
    wanted = torch.zeros_like(log_p, dtype=torch.bool)
    wanted[torch.arange(len(labels)), torch.tensor(labels)] = True
    return binary_costs(log_p, wanted).mean()


def decoupled_text_loss(costs: Sequence[Sequence[torch.Tensor]], right: Sequence[Sequence[bool]]) -> torch.Tensor:
    """The same over the tokens of texts of any length; mean over tokens. An empty cost stands for no token."""
    log_p = torch.cat([-cost for of_item in costs for cost in of_item])
    wanted: list[bool] = []
    for of_item, marks in zip(costs, right, strict=True):
        for cost, is_right in zip(of_item, marks, strict=True):
            wanted += [is_right] * len(cost)
    found = binary_costs(log_p, torch.tensor(wanted, dtype=torch.bool, device=log_p.device))
    return found.sum() / max(1, len(found))


def distinguishing_places(texts: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each text the places whose token sets it apart: not those where all texts have the same one.

    >>> distinguishing_places([[5, 6, 7], [5, 8]])
    [[1, 2], [1]]
    """
    common = {place for place, tokens in enumerate(zip(*texts, strict=False)) if len(set(tokens)) == 1}
    return [[place for place in range(len(text)) if place not in common] for text in texts]


def label_conditioned_loss(log_p: torch.Tensor, targets: Sequence[bool], counts: Sequence[int]) -> torch.Tensor:
    """Equation 3: the masked words are likely after the right label and unlikely after a wrong one; mean over words.

    ``counts`` says how many of the words belong to each item.
    """
    wanted: list[bool] = []
    for target, count in zip(targets, counts, strict=True):
        wanted += [target] * count
    found = binary_costs(log_p, torch.tensor(wanted, dtype=torch.bool, device=log_p.device))
    return found.sum() / max(1, len(found))


def right_texts(item: EncodedItem) -> list[bool]:
    """Which of an item's texts belongs into the gap."""
    marks: list[bool] | None = item.extra.get("right")
    return marks if marks is not None else [place == item.label for place in range(len(item.extra["texts"]))]


# --- the second text: a label in place, some words hidden -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilledText:
    """An item with a label or text in place of its masks."""

    ids: list[int]
    right: bool


@dataclass(frozen=True, slots=True)
class HiddenText:
    """A filled text with some of its words hidden: ``places`` are those whose token is now the mask."""

    filled: FilledText
    ids: list[int]
    places: list[int]


class Draws:
    """What is left to chance: the labels, how many words are hidden and which.

    Two generators, used in the original's order: with the seed that its two global ones have, the draws are its draws.
    """

    def __init__(self, seed: int) -> None:
        self._numbers = np.random.RandomState(seed)
        self._places = random.Random(seed)

    def state(self) -> DrawsState:
        """Where both generators stand, as plain JSON."""
        _, words, position, *_ = self._numbers.get_state(legacy=True)
        _, places, _ = self._places.getstate()
        return {"numbers": [*map(int, words), int(position)], "places": list(places)}

    def restore(self, state: DrawsState) -> None:
        """Go on where other draws stood."""
        *words, position = state["numbers"]
        # The last two are for normal distributions, of which nothing is drawn here.
        self._numbers.set_state(("MT19937", np.array(words, dtype=np.uint32), position, 0, 0.0))
        self._places.setstate((self._places.VERSION, tuple(state["places"]), None))

    def labels(self, choices: int, count: int) -> list[int]:
        return [int(label) for label in self._numbers.randint(choices, size=count)]

    def hidden(self, length: int, alpha: float) -> list[int]:
        """Places among the first ``length``, special tokens included: ``max(int(u·alpha·length), 2) - 1`` of them."""
        count = max(int(self._numbers.rand() * alpha * length), 2) - 1
        return self._places.sample(range(length), min(count, length))


def filled_with_labels(items: Sequence[EncodedItem], words: Sequence[int], draws: Draws) -> list[FilledText]:
    """Each item with the word of a drawn label at its mask."""
    labels = draws.labels(len(words), len(items))
    return [
        FilledText(filled(item, [words[label]] * len(item.masks)).ids, label == item.label)
        for item, label in zip(items, labels, strict=True)
    ]


def filled_with_texts(items: Sequence[EncodedItem], draws: Draws, *, reference: bool) -> list[FilledText]:
    """Each item with one of its texts in place of its masks, drawn.

    Quirk 16: with ``reference`` the text is always the right one, and only the target follows the draw.
    """
    filled_texts = []
    alike = len({len(item.extra["texts"]) for item in items}) == 1
    drawn = draws.labels(len(items[0].extra["texts"]), len(items)) if alike else None
    for number, item in enumerate(items):
        texts, right = item.extra["texts"], right_texts(item)
        label = drawn[number] if drawn else draws.labels(len(texts), 1)[0]
        shown = right.index(True) if reference else label
        filled_texts.append(FilledText(filled(item, texts[shown]).ids, right[label]))
    return filled_texts


def filled_with_referents(items: Sequence[EncodedItem]) -> list[FilledText]:
    """Each item with its true referent, and padding in its surplus masks."""
    return [FilledText(filled(item, item.extra["target"]).ids, True) for item in items]


def hide_words(
    texts: Sequence[FilledText], draws: Draws, alpha: float, *, mask_id: int, pad_id: int
) -> list[HiddenText]:
    """Hide words of each text. Its length is counted without padding, whose id is the tokenizer's own (quirk 18)."""
    masked_texts = []
    for text in texts:
        ids = list(text.ids)
        length = sum(token != pad_id for token in ids)
        for place in draws.hidden(length, alpha):
            ids[place] = mask_id
        places = [place for place, (old, new) in enumerate(zip(text.ids, ids, strict=True)) if old != new]
        masked_texts.append(HiddenText(text, ids, places))
    return masked_texts


def hidden_log_probabilities(net: Network, hidden: Sequence[HiddenText]) -> torch.Tensor:
    """The log-probability of each hidden word, text by text.

    As in the original, all tokens are of the first type here, and padding is not looked at even inside a text.
    """
    items = [EncodedItem(one.ids, [0] * len(one.ids)) for one in hidden]
    batch = collate(items, net.pad_id, net.device)
    batch = replace(batch, attention=(batch.ids != net.pad_id).long())
    states = net.hidden(batch)
    cells = [(row, place, one.filled.ids[place]) for row, one in enumerate(hidden) for place in one.places]
    # A micro-batch may have nothing hidden.
    rows, columns, words = torch.tensor(cells, dtype=torch.long, device=net.device).view(-1, 3).unbind(dim=1)
    return net.decode(states[rows, columns]).log_softmax(dim=-1).gather(1, words[:, None])[:, 0]
