"""Answer requests (slot, logprobs, generate, gradients) with a masked or causal model in memory."""

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
from transformers import GenerationConfig

from lmassay.errors import ModelError
from lmassay.models.hf.batches import Tokens
from lmassay.models.hf.causal import AttackedCausalModel, CausalLM, CausalReader
from lmassay.models.hf.chat import Chat, ChatPolicy
from lmassay.models.hf.choices import ChoiceSelector
from lmassay.models.hf.encoder_decoder import EncoderDecoder, TranslationOptions, require_language, set_languages
from lmassay.models.hf.generation import TextGenerator
from lmassay.models.hf.generation import decoding_tokens as decoding_tokens
from lmassay.models.hf.gradients import SubstitutionFinder
from lmassay.models.hf.load import LoadedModel, choose_device, choose_dtype, load, read_tokenizer
from lmassay.models.hf.logits import candidate_columns
from lmassay.models.hf.masked import MaskedLM, MaskedReader
from lmassay.models.hf.source import Kind, ModelSource
from lmassay.models.hf.tokenization import Position, WordTokenizer
from lmassay.models.spelling import not_comparable
from lmassay.types import Candidates, Continuation, Generate, LogProbs, Response, Slot, Substitute, is_text

Answers = Iterator[tuple[int, Response | ModelError]]
Floats = NDArray[np.float64]
Logits = NDArray[np.float32]
Result = TypeVar("Result")

# Tokens per batch, unless the user sets them. On a CPU, a prefix tree is fastest if its attention mask is small; padded
# sequences are fastest if the matrix products are larger.
_TREE_TOKENS = 192
_PADDED_TOKENS = 512
_ACCELERATOR_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options that apply to all requests to a model; see :class:`lmassay.models.hf.model.HuggingFace`."""

    kind: Kind
    pll: Literal["within_word_l2r", "original"]
    position: Position
    chat: ChatPolicy
    batch_tokens: int | None
    """The maximum number of tokens per batch; None for a default that depends on the device."""
    threads: int | None
    """The number of CPU threads; None lets torch decide."""


Boundary = Literal["none", "space", "space+end"]
"""Which tokens mark the end of a word: none, those that begin with a space, or these and the end of the text."""


@dataclass(frozen=True, slots=True)
class TokenScores:
    """The log-probability of every token of a text; NaN for a first token without a prefix."""

    spans: tuple[tuple[int, int], ...]
    """Where each token begins and ends in the text."""
    logprobs: Floats
    boundaries: Floats | None = None
    """The log-probability of a word boundary before each token and, as the last value, after the text."""


def device_and_dtype(source: ModelSource, device: str, dtype: str, must_exist: bool = True) -> dict[str, str]:
    """The device and the number format that will be used, as options of the model.

    With ``must_exist=False``, the device may be one that only the workers of a cluster have.
    """
    chosen_device = choose_device(device, must_exist)
    saved_as = None
    if not source.is_gguf:
        # The key was called torch_dtype in older versions of transformers.
        saved_as = source.config.get("dtype", source.config.get("torch_dtype"))
    return {"device": chosen_device.type, "dtype": choose_dtype(dtype, saved_as, chosen_device)}


def open_tokenizer(folder: Path, prefix: str, leading_space: bool | None, trust_remote_code: bool) -> WordTokenizer:
    """The tokenizer of a model folder, with the model's options."""
    return WordTokenizer(read_tokenizer(folder, trust_remote_code), prefix, leading_space)


def open_model(
    folder: Path,
    source: ModelSource,
    tokenizer: WordTokenizer,
    kind: Kind,
    device: str,
    dtype: str,
    trust_remote_code: bool,
) -> LoadedModel:
    """Load the model of a folder."""
    chosen_dtype = device_and_dtype(source, device, dtype)["dtype"]
    return load(folder, tokenizer.tokenizer, kind, choose_device(device), chosen_dtype, trust_remote_code)


def open_encoder_decoder(
    folder: Path,
    source: ModelSource,
    device: str,
    dtype: str,
    options: TranslationOptions,
    trust_remote_code: bool,
) -> EncoderDecoder:
    """Load the encoder-decoder model of a folder."""
    tokenizer = read_tokenizer(folder, trust_remote_code)
    chosen_dtype = device_and_dtype(source, device, dtype)["dtype"]
    loaded = load(folder, tokenizer, "encoder-decoder", choose_device(device), chosen_dtype, trust_remote_code)
    return EncoderDecoder(loaded, options)


def check_languages(folder: Path, options: TranslationOptions, trust_remote_code: bool) -> None:
    """Raise a ConfigError for a language that a model's tokenizer does not have, or without a target language."""
    tokenizer = read_tokenizer(folder, trust_remote_code)
    language_token = set_languages(tokenizer, options)
    if language_token is None and (folder / "generation_config.json").is_file():
        # A model that was trained for one language may have it in its own settings.
        language_token = GenerationConfig.from_pretrained(folder).forced_bos_token_id
    require_language(tokenizer, language_token)


class RequestReader(Protocol):
    """How a kind of model (masked or causal) reads requests and computes logits for them.

    A causal model reads what precedes a blank, a masked model what is on both sides of it. The engine does not look
    into the objects that ``context`` and ``text`` return; it only passes them back to the other methods. Methods that
    yield an index with each result may yield the results in any order.
    """

    def context(self, request: Slot) -> Any:
        """What the model reads for a blank. Raises a ModelError if it cannot be read."""

    def begins_text(self, request: Slot) -> bool:
        """Whether a word in the blank is tokenized like the first word of a text: not even a space precedes it."""

    def text(self, request: LogProbs) -> Any | None:
        """What the model reads for a text; None if there is nothing to score.

        Raises a ModelError if the text cannot be read.
        """

    def length(self, item: Any) -> int:
        """How many tokens the model reads for a context or text."""

    def fill(
        self, contexts: Sequence[Any], reduce: Callable[[int, Logits], Result]
    ) -> Iterator[tuple[int, Result | ModelError]]:
        """Yield, for each blank, its index and what ``reduce(index, logits)`` returns for the logits at the blank."""

    def spell(self, words: Sequence[tuple[Any, Tokens]]) -> Iterator[tuple[int, float | ModelError]]:
        """Yield, for each (context, tokens of a word), its index and the log-probability of the word."""

    def score(self, texts: Sequence[Any]) -> Iterator[tuple[int, Floats | ModelError]]:
        """Yield, for each text, its index and the log-probabilities of its tokens."""


class Engine:
    """A loaded model with its tokenizer."""

    def __init__(self, loaded: LoadedModel, tokenizer: WordTokenizer, options: EngineOptions) -> None:
        self._loaded = loaded
        self._word_tokenizer = tokenizer
        self._options = options
        if options.threads is not None:
            torch.set_num_threads(options.threads)
        self._reader = self._make_reader()

    def slot(self, requests: Sequence[Slot]) -> Answers:
        """Score the candidates for a blank.

        Candidates of one token are scored as soon as the context has been read; longer ones, if the request allows
        them, after all contexts.
        """
        contexts: list[Any] = []
        # The index in ``requests`` of the request that each context belongs to.
        indices: list[int] = []
        for index, request in enumerate(requests):
            try:
                context = self._reader.context(request)
            except ModelError as error:
                yield index, error
                continue
            if self._is_too_long(context):
                yield index, Response(finish="too_long")
                continue
            contexts.append(context)
            indices.append(index)

        def reduce(entry: int, logits: Logits) -> Candidates:
            return self._candidates(requests[indices[entry]], logits)

        incomplete: dict[int, Candidates] = {}
        for entry, answer in self._reader.fill(contexts, reduce):
            index = indices[entry]
            if isinstance(answer, ModelError):
                yield index, answer
            elif requests[index].multi_token and self._long_words(requests[index]):
                # The scores of longer candidates are added below.
                incomplete[entry] = answer
            else:
                yield index, Response(answer, tokens_in=self._reader.length(contexts[entry]))
        requests_read = [requests[index] for index in indices]
        for entry, response in self._add_long_words(requests_read, contexts, incomplete):
            yield indices[entry], response

    def logprobs(self, requests: Sequence[LogProbs]) -> Answers:
        """Return the log-probability of each continuation, in total and by token."""
        texts: list[Any] = []
        indices: list[int] = []
        for index, request in enumerate(requests):
            try:
                text = self._reader.text(request)
            except ModelError as error:
                yield index, error
                continue
            if text is None:
                yield index, Response(finish="empty")
            elif self._is_too_long(text):
                yield index, Response(finish="too_long")
            else:
                texts.append(text)
                indices.append(index)
        for entry, values in self._reader.score(texts):
            if isinstance(values, ModelError):
                yield indices[entry], values
            else:
                answer = Continuation(float(values.sum()), tuple(map(float, values)))
                yield indices[entry], Response(answer, tokens_in=self._reader.length(texts[entry]))

    def generate(self, requests: Sequence[Generate]) -> Answers:
        """Generate text, or select an answer if the request has choices."""
        with_choices: dict[int, Generate] = {}
        without_choices: dict[int, Generate] = {}
        for index, request in enumerate(requests):
            if request.choices:
                with_choices[index] = request
            else:
                without_choices[index] = request
        yield from self._choice_selector.choose(with_choices)
        yield from self._generator.generate(without_choices)

    def gradients(self, requests: Sequence[Substitute]) -> Answers:
        """Find the substitutions in a prompt that make a continuation least probable; only causal models can."""
        return self._substitution_finder.answer(requests)

    def token_scores(self, texts: Sequence[str], boundary: Boundary) -> Iterator[tuple[int, TokenScores | ModelError]]:
        """Score every token of each text. For causal models, also score word boundaries, if ``boundary`` names some."""
        boundary_ids = self._boundary_ids(boundary)
        scores_boundaries = self._options.kind == "causal" and len(boundary_ids) > 0
        items: list[Any] = []
        indices: list[int] = []
        for index, text in enumerate(texts):
            if not text.strip():
                yield index, TokenScores((), np.empty(0))
                continue
            request = LogProbs("", text)
            if not is_text(request):
                yield index, ModelError("the text contains half of a surrogate pair, which is not text; correct it")
                continue
            item = self._reader.text(request)
            if item is None:
                # A single token with nothing before it.
                yield index, TokenScores(self._token_spans(text), np.array([np.nan]))
                continue
            # The last token is usually only predicted. It is read if the boundary after it is scored as well.
            if self._is_too_long(item, extra_tokens=1 if scores_boundaries else 0):
                yield index, ModelError(f"the text is longer than the model's window of {self._loaded.window:,} tokens")
                continue
            items.append(item)
            indices.append(index)
        scores: Iterator[tuple[int, Any]] = self._reader.score(items)
        if scores_boundaries:
            scores = self._causal.score_with_boundaries(items, boundary_ids)
        for entry, values in scores:
            if isinstance(values, ModelError):
                yield indices[entry], values
                continue
            logprobs, boundaries = values if isinstance(values, tuple) else (values, None)
            yield indices[entry], self._token_scores(texts[indices[entry]], logprobs, boundaries)

    # --- internals ----------------------------------------------------------------------------------------------------

    def _token_scores(self, text: str, logprobs: Floats, boundaries: Floats | None) -> TokenScores:
        """Combine the scores of the tokens with their positions in the text."""
        spans = self._token_spans(text)
        # Without a prefix, nothing predicts the first token.
        unscored = np.full(len(spans) - len(logprobs), np.nan)
        if boundaries is not None:
            boundaries = np.concatenate([unscored, boundaries])
        return TokenScores(spans, np.concatenate([unscored, logprobs]), boundaries)

    def _token_spans(self, text: str) -> tuple[tuple[int, int], ...]:
        return tuple(self._word_tokenizer.token_spans(text))

    def _boundary_ids(self, boundary: Boundary) -> NDArray[np.int64]:
        """The tokens that mark a word boundary; none if the tokenizer does not mark spaces."""
        ids = self._word_tokenizer.ids_after_space
        end = self._word_tokenizer.tokenizer.eos_token_id
        if boundary == "none":
            return np.empty(0, dtype=np.int64)
        if boundary == "space+end" and len(ids) and end is not None:
            return np.union1d(ids, [end])
        return ids

    def _make_reader(self) -> RequestReader:
        if self._options.kind == "causal":
            return CausalReader(self._causal, self._word_tokenizer, self._chat)
        pad = self._word_tokenizer.tokenizer.pad_token_id or 0
        masked = MaskedLM(self._loaded.model, self._loaded.device, self._batch_tokens(_PADDED_TOKENS), pad)
        return MaskedReader(masked, self._word_tokenizer, self._options.pll, self._options.position)

    def _batch_tokens(self, on_cpu: int) -> int:
        if self._options.batch_tokens:
            return self._options.batch_tokens
        if self._loaded.device.type == "cpu":
            return on_cpu
        return _ACCELERATOR_TOKENS

    @cached_property
    def _causal(self) -> CausalLM:
        return CausalLM(self._loaded.model, self._loaded.device, self._batch_tokens(_TREE_TOKENS))

    @cached_property
    def _chat(self) -> Chat:
        return Chat(self._word_tokenizer.tokenizer, self._options.chat)

    @cached_property
    def _generator(self) -> TextGenerator:
        return TextGenerator(self._loaded, self._causal, self._word_tokenizer, self._chat, self._options.batch_tokens)

    @cached_property
    def _substitution_finder(self) -> SubstitutionFinder:
        attacked = AttackedCausalModel(self._loaded, self._word_tokenizer)
        return SubstitutionFinder(attacked, self._options.batch_tokens)

    @cached_property
    def _choice_selector(self) -> ChoiceSelector:
        return ChoiceSelector(self._causal.score, self._word_tokenizer, self._chat, self._loaded.window)

    def _candidates(self, request: Slot, logits: Logits) -> Candidates:
        """Score the candidates that are single tokens, from the logits at the blank."""
        probabilities = None
        if request.ranked:
            # torch's softmax, as in refining-tse: numpy's may differ in the last bit, which decides ties.
            probabilities = torch.softmax(torch.from_numpy(logits), dim=-1).numpy()
        ids = self._word_tokenizer.single_ids(request.candidates, self._reader.begins_text(request))
        answer = candidate_columns(logits, probabilities, ids)
        if request.full_logits:
            # A copy, because a view of this row would keep the logits of the whole batch in memory.
            return replace(answer, logits=logits.copy(), ids=ids)
        return answer

    def _spellings(self, request: Slot) -> tuple[Tokens | None, ...]:
        return self._word_tokenizer.spell_all(request.candidates, self._reader.begins_text(request))

    def _long_words(self, request: Slot) -> list[tuple[int, Tokens]]:
        """The index and the tokens of each candidate that needs more than one token."""
        long_words = []
        for index, ids in enumerate(self._spellings(request)):
            if ids is not None and len(ids) > 1:
                long_words.append((index, ids))
        return long_words

    def _add_long_words(
        self, requests: Sequence[Slot], contexts: Sequence[Any], incomplete: dict[int, Candidates]
    ) -> Answers:
        """Add the log-probabilities of candidates of several tokens, by the chain rule. These have no rank."""
        window = self._loaded.window or math.inf
        logprobs: dict[int, Floats] = {}
        # The index of the context, the index of the candidate, and the tokens of every word to be scored.
        long_words: list[tuple[int, int, Tokens]] = []
        for entry, answer in incomplete.items():
            logprobs[entry] = np.array(answer.logprobs, dtype=np.float64)
            for candidate, ids in self._long_words(requests[entry]):
                # The last token is only predicted. A word that does not fit has no score.
                if self._reader.length(contexts[entry]) + len(ids) - 1 <= window:
                    long_words.append((entry, candidate, ids))
        errors: dict[int, ModelError] = {}
        words = [(contexts[entry], ids) for entry, _, ids in long_words]
        for number, total in self._reader.spell(words):
            entry, candidate, _ = long_words[number]
            if isinstance(total, ModelError):
                errors[entry] = total
            else:
                logprobs[entry][candidate] = total
        for entry, answer in incomplete.items():
            if entry in errors:
                yield entry, errors[entry]
                continue
            if self._options.kind == "causal":
                logprobs[entry][not_comparable(self._spellings(requests[entry]))] = np.nan
            complete = replace(answer, logprobs=logprobs[entry])
            yield entry, Response(complete, tokens_in=self._reader.length(contexts[entry]))

    def _is_too_long(self, item: Any, extra_tokens: int = 0) -> bool:
        window = self._loaded.window
        return window is not None and self._reader.length(item) + extra_tokens > window
