"""Encoder-decoder models (T5, BART, Marian, M2M100, NLLB, mBART): the encoder reads a text, the decoder writes another.

A prompt is what the encoder reads. In a request for log-probabilities, the context is what the encoder reads, and the
continuation is what the decoder writes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import ConfigError, FatalModelError, ModelError
from lmassay.models.hf.batches import Batcher, Tokens, by_padded_size, padded
from lmassay.models.hf.chat import transcript
from lmassay.models.hf.generation import (
    add_noise,
    decoding_tokens,
    end_tokens_of,
    generated_response,
    require_numbers,
    stop_at,
)
from lmassay.models.hf.gradients import AttackedTokens, SubstitutionFinder, spans_of, without_spaces
from lmassay.models.hf.load import LoadedModel, decoder_positions
from lmassay.models.hf.logits import MIN_LOGPROB, NOT_FINITE
from lmassay.types import Continuation, Generate, LogProbs, Response, Substitute

Answers = Iterator[tuple[int, Response | ModelError]]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TranslationOptions:
    """The options of an encoder-decoder model, whether it translates or not."""

    beams: int | None = None
    """The width of the beam search; None for the model's own setting."""
    source_language: str | None = None
    """The language of the input of a multilingual model, by its own code, such as ``en`` (M2M100) or ``eng_Latn``
    (NLLB)."""
    target_language: str | None = None
    """The language that a multilingual model is to write, by its own code."""
    batch_tokens: int | None = None
    """The maximum number of tokens per batch; None for a default that depends on the device."""
    threads: int | None = None
    """The number of CPU threads; None lets torch decide."""


def set_languages(tokenizer: Any, options: TranslationOptions) -> int | None:
    """Set the languages of the tokenizer, and return the token of the target language.

    Returns None if the options name no target language.

    Raises a ConfigError for a language that the tokenizer does not have, or if the model has no language tokens at all.
    """
    is_multilingual = hasattr(tokenizer, "src_lang")
    if not is_multilingual:
        for name, code in (("source_lang", options.source_language), ("target_lang", options.target_language)):
            if code is not None:
                raise ConfigError(f"model.{name}: this model has no language tokens; leave this option out")
        return None
    if options.source_language is not None:
        _language_token(tokenizer, options.source_language, "source_lang")
        tokenizer.src_lang = options.source_language
    if options.target_language is None:
        return None
    token = _language_token(tokenizer, options.target_language, "target_lang")
    tokenizer.tgt_lang = options.target_language
    return token


def require_language(tokenizer: Any, token: int | None) -> None:
    """Raise a ConfigError if nobody has chosen the language that a multilingual model is to write.

    ``token`` is the token of this language: what :func:`set_languages` returned, or the one in the model's own
    settings; None if neither has one.
    """
    if token is None and hasattr(tokenizer, "tgt_lang"):
        example = next(iter(_language_codes(tokenizer)), "en")
        raise ConfigError(
            "model.target_lang: this model writes several languages; give the one that you want, e.g. target_lang: "
            f"{example}"
        )


def _language_token(tokenizer: Any, code: str, option: str) -> int:
    """The token of a language. Raises a ConfigError that names the model's option if there is none."""
    codes = _language_codes(tokenizer)
    # M2M100 puts the code between underscores, NLLB and mBART use the code itself as a token. M2M100 also has pieces of
    # words that look like codes, such as "en", so the form with underscores is tried first.
    for token in (f"__{code}__", code):
        index = tokenizer.convert_tokens_to_ids(token)
        if code in codes and index is not None and index != tokenizer.unk_token_id:
            return int(index)
    examples = ", ".join(codes[:8])
    raise ConfigError(f"model.{option}: '{code}' is not a language of this model; it has {examples} …")


def _language_codes(tokenizer: Any) -> list[str]:
    """The codes of the languages that a tokenizer has."""
    if hasattr(tokenizer, "lang_code_to_id"):
        # M2M100 and mBART list their languages; those of M2M100 need not be special tokens.
        return sorted(tokenizer.lang_code_to_id)
    # NLLB and others have no such list: use the special tokens that look like a code.
    codes = []
    for token in tokenizer.all_special_tokens:
        # A tokenizer of M2M100's kind writes __en__ for en.
        code = str(token).strip("_")
        if re.fullmatch(r"[a-z]{2,3}([_-]\w+)?", code):
            codes.append(code)
    return sorted(codes)


@dataclass(frozen=True, slots=True)
class _ScoredText:
    """A text to be scored, as tokens."""

    source: Tokens
    """What the encoder reads."""
    target: Tokens
    """What the decoder writes."""
    start: int
    """The position of the first token of ``target`` that is scored."""


class EncoderDecoder:
    """A loaded encoder-decoder model with its tokenizer."""

    def __init__(self, loaded: LoadedModel, options: TranslationOptions) -> None:
        self._loaded = loaded
        self._options = options
        self._language_token = set_languages(loaded.tokenizer, options)
        if options.threads is not None:
            torch.set_num_threads(options.threads)
        # The tokenizer's limit concerns what the encoder reads. The decoder has its own, in the configuration.
        self._decoder_positions = decoder_positions(loaded.model)
        self._batcher = Batcher(options.batch_tokens or decoding_tokens(loaded.device.type))
        if hasattr(loaded.tokenizer, "tgt_lang") and self._language_token is None:
            self._language_token = loaded.model.generation_config.forced_bos_token_id
            require_language(loaded.tokenizer, self._language_token)
            token = loaded.tokenizer.convert_ids_to_tokens(self._language_token)
            loaded.tokenizer.tgt_lang = token.strip("_")
        # In most models, the language is the first token that the decoder writes. The original mBART (before mBART-50)
        # has it in two other places: its tokenizer puts it after the text, and the decoder starts from it.
        self._language_starts_decoder = (
            self._language_token is not None
            and loaded.model.config.model_type == "mbart"
            and loaded.tokenizer(text_target="")["input_ids"][0] != self._language_token
        )

    # --- generation ---------------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Generate]) -> Answers:
        """Generate a text for each prompt. Requests with equal settings share batches."""
        sources: dict[int, Tokens] = {}
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index, request in enumerate(requests):
            if request.choices:
                message = "an encoder-decoder model cannot be restricted to choices; send requests without choices"
                yield index, ModelError(message)
                continue
            if request.temperature > 0 and (self._options.beams or 1) > 1:
                yield index, ModelError("a beam search cannot sample; leave out beams, or set temperature to 0")
                continue
            text = transcript(request.messages) if request.messages else request.prompt
            sources[index] = self._source(text)
            if self._is_too_long(sources[index]):
                yield index, Response(finish="too_long", tokens_in=len(sources[index]))
            else:
                settings = (self._room(request), request.temperature, request.stop)
                groups.setdefault(settings, []).append(index)
        for (room, *_), indices in groups.items():
            yield from self._generate_group(requests, sources, indices, room)

    def _room(self, request: Generate) -> int:
        """How many new tokens the decoder may write: as requested, but not more than it has positions."""
        if self._decoder_positions is None:
            return request.max_tokens
        return min(request.max_tokens, self._decoder_positions)

    def _generate_group(
        self, requests: Sequence[Generate], sources: Mapping[int, Tokens], indices: Sequence[int], room: int
    ) -> Answers:
        """Generate for requests with equal settings and room for ``room`` new tokens."""
        # A batch is padded to its longest source, so sources of similar length waste the least.
        order = sorted(indices, key=lambda index: len(sources[index]))

        def length(index: int) -> int:
            # Both the source and the answer need memory.
            return len(sources[index]) + room

        def work(batch: Sequence[int]) -> Iterator[Response]:
            batch_sources = [sources[index] for index in batch]
            batch_requests = [requests[index] for index in batch]
            return self._generate_batch(batch_sources, batch_requests, room)

        responses = self._batcher.run(order, by_padded_size(length), work, small_first=True)
        yield from zip(order, responses, strict=True)

    def _generate_batch(self, sources: Sequence[Tokens], requests: Sequence[Generate], room: int) -> Iterator[Response]:
        model = self._loaded.model
        tokenizer = self._loaded.tokenizer
        # All requests of a batch have the same settings.
        settings = requests[0]
        started = time.perf_counter()
        options: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        options["logits_processor"] = [require_numbers]
        if self._options.beams is not None:
            options["num_beams"] = self._options.beams
        if settings.temperature > 0:
            # A sample is drawn by adding noise to the logits. In a search with several beams, this would not be
            # meaningful, so a model that uses beams by default does not use them here.
            options["num_beams"] = 1
            options["logits_processor"].append(add_noise(requests, settings.temperature))
        beams = options.get("num_beams", model.generation_config.num_beams) or 1
        if settings.stop and beams == 1:
            # With several beams, the text is cut after the search.
            options["stopping_criteria"] = [stop_at(settings.stop, tokenizer, start=1)]
        if self._language_starts_decoder:
            options["decoder_start_token_id"] = self._language_token
        elif self._language_token is not None:
            options["forced_bos_token_id"] = self._language_token
        with torch.inference_mode():
            sequences = model.generate(**self._encoded(sources), max_new_tokens=room, **options)
        seconds = (time.perf_counter() - started) / len(sources)
        end_tokens = end_tokens_of(self._loaded)
        pad = model.generation_config.pad_token_id
        # The first token of every sequence only starts the decoder.
        for source, new_tokens in zip(sources, sequences[:, 1:].tolist(), strict=True):
            if self._was_ended_by_force(new_tokens, room):
                # A text without an end token counts as cut off.
                del new_tokens[-1]
            if self._language_token is not None and new_tokens[:1] == [self._language_token]:
                # The language is not part of the answer. M2M100 would write it as text.
                del new_tokens[0]
            yield generated_response(self._loaded, settings, new_tokens, end_tokens, len(source), seconds, pad)

    def _was_ended_by_force(self, new_tokens: Sequence[int], room: int) -> bool:
        """Whether a text ends only because the model's settings force an end token where it reaches its limit.

        BART, Marian and others end every text that reaches the limit in this way. A text that would have ended there in
        any case looks the same, and is counted as cut off.
        """
        forced = self._loaded.model.generation_config.forced_eos_token_id
        if forced is None or len(new_tokens) < room:
            return False
        forced_tokens = forced if isinstance(forced, list) else [forced]
        has_ended_before = any(token in end_tokens_of(self._loaded) for token in new_tokens[:-1])
        return new_tokens[-1] in forced_tokens and not has_ended_before

    # --- log-probabilities --------------------------------------------------------------------------------------------

    def logprobs(self, requests: Sequence[LogProbs]) -> Answers:
        """Score continuations as what the decoder writes after the encoder has read the context."""
        texts: list[_ScoredText] = []
        indices: list[int] = []
        for index, request in enumerate(requests):
            context = transcript(request.messages) if request.messages else request.context
            text = self._scored_text(context, request.continuation)
            if len(text.target) <= text.start:
                yield index, Response(finish="empty")
            elif self._is_too_long(text.source) or self._exceeds_decoder(text.target):
                yield index, Response(finish="too_long")
            else:
                texts.append(text)
                indices.append(index)

        def length(entry: int) -> int:
            return len(texts[entry].source) + len(texts[entry].target)

        def work(batch: Sequence[int]) -> Iterator[Floats]:
            return self._score_batch([texts[entry] for entry in batch])

        order = sorted(range(len(texts)), key=length)
        results = self._batcher.run(order, by_padded_size(length), work)
        for entry, values in zip(order, results, strict=True):
            if isinstance(values, ModelError):
                yield indices[entry], values
            else:
                answer = Continuation(float(values.sum()), tuple(map(float, values)))
                yield indices[entry], Response(answer, tokens_in=length(entry))

    def _scored_text(self, context: str, continuation: str) -> _ScoredText:
        """Tokenize a request. Special tokens before the continuation, such as its language, are not scored."""
        tokenizer = self._loaded.tokenizer
        target = list(tokenizer(text_target=continuation)["input_ids"])
        # The unknown token stands for a part of the text, so it is scored.
        special = {*tokenizer.all_special_ids, self._language_token} - {tokenizer.unk_token_id}
        start = 0
        while start < len(target) and target[start] in special:
            start += 1
        end = len(target)
        # As in the scores of causal models, the end token is not part of the continuation.
        while end > start and target[end - 1] in special:
            end -= 1
        first_tokens = target[:start]
        if self._language_token is not None:
            first_tokens = [] if self._language_starts_decoder else [self._language_token]
        return _ScoredText(self._source(context), (*first_tokens, *target[start:end]), len(first_tokens))

    def _score_batch(self, texts: Sequence[_ScoredText]) -> Iterator[Floats]:
        with torch.inference_mode():
            batch_logprobs = self._target_logprobs(texts)
        for logprobs in batch_logprobs:
            values: Floats = logprobs.double().clamp(min=MIN_LOGPROB).cpu().numpy()
            yield values

    def _target_logprobs(self, texts: Sequence[_ScoredText]) -> list[torch.Tensor]:
        """The log-probabilities of the scored tokens of each text, as tensors that gradients can flow through."""
        model = self._loaded.model
        first = self._language_token if self._language_starts_decoder else None
        if first is None:
            first = model.generation_config.decoder_start_token_id
        if first is None:
            first = model.config.decoder_start_token_id
        if first is None:
            raise FatalModelError("the model's configuration has no decoder_start_token_id; it cannot score texts")
        # The decoder predicts each token from its start token and the tokens before. It needs no attention mask:
        # padding is on the right, and tokens of the text only see what is on their left.
        decoder_inputs = padded([(int(first), *text.target[:-1]) for text in texts], self._loaded.device)
        sources = self._encoded([text.source for text in texts])
        logits = model(**sources, decoder_input_ids=decoder_inputs["input_ids"]).logits
        batch_logprobs = []
        for line, text in enumerate(texts):
            rows = logits[line, text.start : len(text.target)].float()
            log_totals = torch.logsumexp(rows, dim=-1)
            if not bool(torch.isfinite(log_totals).all()):
                raise FatalModelError(NOT_FINITE)
            targets = torch.tensor(text.target[text.start :], device=rows.device)
            chosen = rows.gather(1, targets[:, None])[:, 0]
            batch_logprobs.append(chosen - log_totals)
        return batch_logprobs

    # --- white-box attacks --------------------------------------------------------------------------------------------

    def gradients(self, requests: Sequence[Substitute]) -> Answers:
        """Find the substitutions in the prompt (what the encoder reads) that make a target least probable."""
        return self._substitution_finder.answer(requests)

    @cached_property
    def _substitution_finder(self) -> SubstitutionFinder:
        return SubstitutionFinder(self, self._options.batch_tokens)

    @property
    def model(self) -> Any:
        """The model, with its weights."""
        return self._loaded.model

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the Hugging Face library."""
        return self._loaded.tokenizer

    @property
    def embedding(self) -> Any:
        """The module that embeds the tokens that the encoder reads."""
        return self._loaded.model.get_encoder().get_input_embeddings()

    def encode(self, prompt: str, target: str) -> AttackedTokens:
        """Tokenize a prompt and what the decoder is expected to write."""
        text = self._scored_text(prompt, target)
        if self.tokenizer.is_fast:
            offsets = self.tokenizer(prompt, return_offsets_mapping=True)["offset_mapping"]
            spans = without_spaces(prompt, offsets)
        else:
            spans = spans_of(self.tokenizer, prompt, text.source)
        return AttackedTokens(text.source, spans, text.target, text.start)

    def loss(self, batch: Sequence[AttackedTokens]) -> torch.Tensor:
        """The sum of the negative log-probabilities of all targets."""
        logprobs = self._target_logprobs([_ScoredText(tokens.ids, tokens.target, tokens.start) for tokens in batch])
        return -torch.cat(logprobs).sum()

    def is_too_long(self, tokens: AttackedTokens) -> bool:
        """Whether the encoder cannot read all tokens, or the decoder cannot write the target."""
        return self._is_too_long(tokens.ids) or self._exceeds_decoder(tokens.target)

    # --- internals --------------------------------------------------------------------------------------------------

    def _source(self, text: str) -> Tokens:
        return tuple(self._loaded.tokenizer(text)["input_ids"])

    def _encoded(self, sources: Sequence[Tokens]) -> dict[str, torch.Tensor]:
        pad = self._loaded.tokenizer.pad_token_id or 0
        return padded(sources, self._loaded.device, pad)

    def _is_too_long(self, source: Tokens) -> bool:
        return self._loaded.window is not None and len(source) > self._loaded.window

    def _exceeds_decoder(self, target: Tokens) -> bool:
        return self._decoder_positions is not None and len(target) > self._decoder_positions
