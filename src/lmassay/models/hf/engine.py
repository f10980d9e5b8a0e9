"""The three verbs on a model in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import ModelError
from lmassay.models.hf.batches import Tokens
from lmassay.models.hf.causal import CausalLM, CausalReader
from lmassay.models.hf.chat import Chat, ChatPolicy
from lmassay.models.hf.choices import ChoiceSelector
from lmassay.models.hf.generation import TextGenerator
from lmassay.models.hf.load import LoadedModel, choose_device, choose_dtype, load, read_tokenizer
from lmassay.models.hf.logits import candidate_columns
from lmassay.models.hf.masked import MaskedLM, MaskedReader
from lmassay.models.hf.source import Kind, ModelSource
from lmassay.models.hf.tokenization import Position, WordTokenizer
from lmassay.types import Candidates, Continuation, Generate, LogProbs, Response, Slot

Answered = Iterator[tuple[int, Response | ModelError]]
Floats = NDArray[np.float64]
Logits = NDArray[np.float32]
Outcome = TypeVar("Outcome")
# Tokens a batch: a tree on a CPU is cheapest when its attention mask is small, padded rows want larger products.
_TREE_TOKENS, _PADDED_TOKENS, _ACCELERATOR_TOKENS = 192, 512, 4096


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the model is asked."""

    kind: Kind
    pll: Literal["within_word_l2r", "original"]
    position: Position
    chat: ChatPolicy
    batch_tokens: int | None
    threads: int | None


def numbers(source: ModelSource, device: str, dtype: str) -> dict[str, str]:
    """The device and number format that will be used."""
    chosen = choose_device(device)
    saved_as = None if source.is_gguf else source.config.get("dtype", source.config.get("torch_dtype"))
    return {"device": chosen.type, "dtype": choose_dtype(dtype, saved_as, chosen)}


def open_words(folder: Path, prefix: str, leading_space: bool | None, trust_remote_code: bool) -> WordTokenizer:
    return WordTokenizer(read_tokenizer(folder, trust_remote_code), prefix, leading_space)


def open_model(
    folder: Path,
    source: ModelSource,
    words: WordTokenizer,
    kind: Kind,
    device: str,
    dtype: str,
    trust_remote_code: bool,
) -> LoadedModel:
    chosen = numbers(source, device, dtype)
    return load(folder, words.tokenizer, kind, choose_device(device), chosen["dtype"], trust_remote_code)


class RequestReader(Protocol):
    """What the engine needs of a kind of model: the causal one reads from the left, the masked one around the blank.

    Contexts and texts are opaque to the engine.
    """

    def context(self, request: Slot) -> Any:
        """What is read for a blank."""

    def begins_text(self, request: Slot) -> bool:
        """Whether a word at the blank is spelled as at the very beginning: nothing, not even a space, before it."""

    def text(self, request: LogProbs) -> Any | None:
        """What is read for a text; None if there is nothing to score. Raises a ModelError for what cannot be read."""

    def length(self, read: Any) -> int:
        """Tokens that go into the model at once."""

    def fill(
        self, contexts: Sequence[Any], reduce: Callable[[int, Logits], Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        """What ``reduce`` makes of the logits at each blank."""

    def spell(self, words: Sequence[tuple[Any, Tokens]]) -> Iterator[tuple[int, float | ModelError]]:
        """The log-probability of each (context, tokens of a word)."""

    def score(self, texts: Sequence[Any]) -> Iterator[tuple[int, Floats | ModelError]]:
        """The log-probabilities of each text's tokens."""


class Engine:
    """A loaded model with its words."""

    def __init__(self, loaded: LoadedModel, words: WordTokenizer, manner: EngineOptions) -> None:
        self._loaded, self._words, self._manner = loaded, words, manner
        if manner.threads is not None:
            torch.set_num_threads(manner.threads)
        self._reader = self._make_reader()

    def slot(self, requests: Sequence[Slot]) -> Answered:
        """Words of one token at once; longer ones, where asked for, when all contexts have been read."""
        contexts: list[Any] = []
        kept: list[int] = []
        for place, request in enumerate(requests):
            try:
                context = self._reader.context(request)
            except ModelError as error:
                yield place, error
                continue
            if self._too_long(context):
                yield place, Response(finish="too_long")
                continue
            contexts.append(context)
            kept.append(place)
        waiting: dict[int, Candidates] = {}
        for entry, answer in self._reader.fill(
            contexts, lambda entry, logits: self._columns(requests[kept[entry]], logits)
        ):
            place = kept[entry]
            if isinstance(answer, ModelError):
                yield place, answer
            elif requests[place].multi_token and self._long_words(requests[place]):
                waiting[entry] = answer
            else:
                yield place, Response(answer, tokens_in=self._reader.length(contexts[entry]))
        for entry, whole in self._with_long_words([requests[place] for place in kept], contexts, waiting):
            yield kept[entry], whole

    def logprobs(self, requests: Sequence[LogProbs]) -> Answered:
        texts: list[Any] = []
        kept: list[int] = []
        for place, request in enumerate(requests):
            try:
                text = self._reader.text(request)
            except ModelError as error:
                yield place, error
                continue
            if text is None:
                yield place, Response(finish="empty")
            elif self._too_long(text):
                yield place, Response(finish="too_long")
            else:
                texts.append(text)
                kept.append(place)
        for entry, values in self._reader.score(texts):
            if isinstance(values, ModelError):
                yield kept[entry], values
            else:
                answer = Continuation(float(values.sum()), tuple(map(float, values)))
                yield kept[entry], Response(answer, tokens_in=self._reader.length(texts[entry]))

    def generate(self, requests: Sequence[Generate]) -> Answered:
        """Free answers are written, those among choices weighed."""
        placed = dict(enumerate(requests))
        yield from self._chooser.choose({place: request for place, request in placed.items() if request.choices})
        yield from self._generator.generate(
            {place: request for place, request in placed.items() if not request.choices}
        )

    # --- inside -------------------------------------------------------------------------------------------------------

    def _make_reader(self) -> RequestReader:
        manner = self._manner
        if manner.kind == "causal":
            return CausalReader(self._causal, self._words, self._chat)
        pad = self._words.tokenizer.pad_token_id or 0
        masked = MaskedLM(self._loaded.model, self._loaded.device, self._batch_tokens(_PADDED_TOKENS), pad)
        return MaskedReader(masked, self._words, manner.pll, manner.position)

    def _batch_tokens(self, on_cpu: int) -> int:
        return self._manner.batch_tokens or (on_cpu if self._loaded.device.type == "cpu" else _ACCELERATOR_TOKENS)

    @cached_property
    def _causal(self) -> CausalLM:
        return CausalLM(self._loaded.model, self._loaded.device, self._batch_tokens(_TREE_TOKENS))

    @cached_property
    def _chat(self) -> Chat:
        return Chat(self._words.tokenizer, self._manner.chat)

    @cached_property
    def _generator(self) -> TextGenerator:
        return TextGenerator(self._loaded, self._causal, self._words, self._chat, self._manner.batch_tokens)

    @cached_property
    def _chooser(self) -> ChoiceSelector:
        return ChoiceSelector(self._causal.score, self._words, self._chat, self._loaded.window)

    def _columns(self, request: Slot, logits: Logits) -> Candidates:
        # torch's softmax, as in the published system: numpy's may differ in the last bit, which decides ties.
        probabilities = torch.softmax(torch.from_numpy(logits), dim=-1).numpy() if request.ranked else None
        ids = self._words.single_ids(request.candidates, self._reader.begins_text(request))
        return candidate_columns(logits, probabilities, ids)

    def _long_words(self, request: Slot) -> list[tuple[int, tuple[int, ...]]]:
        """The candidates that need more than one token, with those."""
        spelled = self._words.spell_all(request.candidates, self._reader.begins_text(request))
        return [(i, ids) for i, ids in enumerate(spelled) if ids is not None and len(ids) > 1]

    def _cannot_be_compared(self, request: Slot) -> list[int]:
        """Where one word's tokens begin another's, a model that reads from the left cannot prefer the longer one."""
        spelled = self._words.spell_all(request.candidates, self._reader.begins_text(request))
        return [
            i
            for i, ids in enumerate(spelled)
            if any(ids and other and ids != other and _one_begins_other(ids, other) for other in spelled)
        ]

    def _with_long_words(
        self, requests: Sequence[Slot], contexts: Sequence[Any], waiting: dict[int, Candidates]
    ) -> Answered:
        """Words of several tokens by the chain rule, one token after the other; they have no rank."""
        columns = {entry: np.array(answer.logprobs, dtype=np.float64) for entry, answer in waiting.items()}
        asked = [
            (entry, word, ids)
            for entry in waiting
            for word, ids in self._long_words(requests[entry])
            if self._reader.length(contexts[entry]) + len(ids) - 1 <= (self._loaded.window or math.inf)
        ]
        failed: dict[int, ModelError] = {}
        for number, total in self._reader.spell([(contexts[entry], ids) for entry, _, ids in asked]):
            entry, word, _ = asked[number]
            if isinstance(total, ModelError):
                failed[entry] = total
            else:
                columns[entry][word] = total
        for entry, answer in waiting.items():
            if self._manner.kind == "causal":
                columns[entry][self._cannot_be_compared(requests[entry])] = np.nan
            whole = Response(replace(answer, logprobs=columns[entry]), tokens_in=self._reader.length(contexts[entry]))
            yield entry, failed.get(entry, whole)

    def _too_long(self, read: Any) -> bool:
        return self._loaded.window is not None and self._reader.length(read) > self._loaded.window


def _one_begins_other(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    short, long = sorted((a, b), key=len)
    return long[: len(short)] == short
