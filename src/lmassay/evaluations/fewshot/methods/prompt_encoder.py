"""Continuous prompts (Liu et al. 2021): trained vectors at positions of a pattern, called slots, that have no word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

import numpy as np
import torch

from lmassay.errors import ConfigError, did_you_mean

EncoderHead = Literal["raw", "lstm", "mlp"]
HEADS: tuple[str, ...] = get_args(EncoderHead)
NAME = "prompt_encoder"
"""The name of the encoder's module inside a network."""
SLOT = -2
"""The id of a slot in the input of a prompted network. No token has it; -1 is taken by ``pvp.NO_MASK``."""


class PromptEncoder(torch.nn.Module):  # type: ignore[misc]  # torch is Any where it is not installed
    """One vector per slot, as wide as the word embeddings of the network that reads them.

    ``raw`` learns the vectors themselves, starting from words drawn from the vocabulary; ``mlp`` and ``lstm`` pass them
    through a small network first. ``mlp`` treats each slot alone; with ``lstm``, the slots of a prompt depend on each
    other (P-tuning, section 3.2). Names and sizes of the weights are FewNLU's.
    """

    def __init__(self, slots: int, head: str, words: torch.Tensor, *, seed: int = 42) -> None:
        super().__init__()
        if slots < 1:
            raise ConfigError(f"a prompt needs 1 slot or more, not {slots}; choose a pattern with prompt slots")
        if head not in HEADS:
            raise ConfigError(f"prompt_encoder_head_type: there is no '{head}'{did_you_mean(head, HEADS)}")
        self.slots = slots
        self.head = head
        width = words.shape[1]
        with seeded(seed):
            self.prompt_embeddings = torch.nn.Embedding(slots, width)
            if head == "lstm":
                self.lstm_head = torch.nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
                self.mlp_head = _two_layers(2 * width, width)
            elif head == "mlp":
                self.mlp = _two_layers(width, width)
        if head == "raw":
            self.start_from(words, drawn_words(len(words), slots, seed))

    def start_from(self, words: torch.Tensor, tokens: Sequence[int]) -> None:
        """Initialise the vectors with the embeddings of these tokens."""
        with torch.no_grad():
            rows = words[torch.as_tensor(tokens, device=words.device)]
            self.prompt_embeddings.weight.copy_(rows)

    def forward(self) -> torch.Tensor:
        """The vectors: slots × width."""
        vectors: torch.Tensor = self.prompt_embeddings.weight
        if self.head == "lstm":
            # The slots are one sequence, read in both directions.
            states, _ = self.lstm_head(vectors.unsqueeze(0))
            vectors = self.mlp_head(states).squeeze(0)
        elif self.head == "mlp":
            vectors = self.mlp(vectors)
        return vectors


def _two_layers(incoming: int, width: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(incoming, width), torch.nn.ReLU(), torch.nn.Linear(width, width))


def drawn_words(vocabulary: int, slots: int, seed: int) -> list[int]:
    """One token per slot, drawn from the vocabulary with replacement. As in FewNLU, numpy's older generator is used."""
    tokens = np.random.RandomState(seed).choice(vocabulary, slots)
    return [int(token) for token in tokens]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside this context, what torch draws depends on the seed alone. Draws after it are not affected."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def put_in(embedded: torch.Tensor, slots: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Word embeddings (rows × positions × width), with the vectors put into the slots of each row in their order.

    >>> put_in(torch.zeros(1, 3, 1), torch.tensor([[True, False, True]]), torch.tensor([[1.0], [2.0]])).tolist()
    [[[1.0], [0.0], [2.0]]]
    """
    # For each slot, its number within the row.
    numbers = (slots.cumsum(1) - 1)[slots]
    return embedded.index_put((slots,), vectors.to(embedded.dtype)[numbers])


class Slots:
    """Replaces the embedding of every SLOT in a network's input with the vectors of an encoder.

    This is done by hooks at the embedding layer, so it works for every family of models, task and loss.
    """

    def __init__(self, network: Any, encoder: PromptEncoder) -> None:
        self._embedding = network.get_input_embeddings()
        self._encoder = encoder.to(self._embedding.weight.device)
        filler = getattr(self._embedding, "padding_idx", None)
        self._filler = 0 if filler is None else filler
        self._slots: torch.Tensor | None = None
        # As a module of the network, the encoder is trained, saved and moved with it.
        network.add_module(NAME, encoder)
        self._hooks = [
            self._embedding.register_forward_pre_hook(self._hide),
            self._embedding.register_forward_hook(self._fill),
        ]

    def remove(self) -> None:
        """Remove the hooks; the encoder stays a module of the network."""
        for hook in self._hooks:
            hook.remove()

    def _hide(self, module: torch.nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Before the embedding layer: replace the slots by an id that it can look up."""
        ids = arguments[0]
        self._slots = ids == SLOT
        return (ids.masked_fill(self._slots, self._filler), *arguments[1:])

    def _fill(self, module: torch.nn.Module, arguments: tuple[Any, ...], embedded: torch.Tensor) -> torch.Tensor:
        """After the embedding layer: put the encoder's vectors into the slots."""
        slots = self._slots
        self._slots = None
        if slots is None or not bool(slots.any()):
            return embedded
        return put_in(embedded, slots, self._encoder())
