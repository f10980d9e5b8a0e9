"""Generate text with a causal model.

Prompts with a common beginning are read in a prefix tree, so the beginning is read once; others are batched by length.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from lmassay.errors import FatalModelError, ModelError
from lmassay.models.hf.batches import Batcher, Tokens, by_padded_size, padded_at_left
from lmassay.models.hf.capabilities import can_decode_in_trees
from lmassay.models.hf.causal import CausalLM
from lmassay.models.hf.chat import Chat, RenderedPrompt
from lmassay.models.hf.load import LoadedModel
from lmassay.models.hf.logits import NOT_FINITE
from lmassay.models.hf.prefix_tree import (
    DecodingTree,
    PrefixReader,
    count_nodes,
    end_of_row_with_answers,
    greedy_search_in,
)
from lmassay.models.hf.tokenization import WordTokenizer
from lmassay.types import Finish, Generate, Response, digest, request_as_dict

# How many tokens of prompts and answers a batch keeps in memory: with padding, or in a prefix tree.
_CPU_TOKENS = 2048
_ACCELERATOR_TOKENS = 16384
# How many tokens of such a tree are read at a time.
_CPU_NODES = 384
_ACCELERATOR_NODES = 2048
# A tree is used if it keeps at most this share of the tokens that separate prompts and answers would keep.
_WORTH_SHARING = 0.9


def decoding_tokens(device_type: str) -> int:
    """How many tokens of prompts and answers a batch keeps, unless the user sets it."""
    return _CPU_TOKENS if device_type == "cpu" else _ACCELERATOR_TOKENS


class TextGenerator:
    """Continues prompts with a loaded model."""

    def __init__(
        self, loaded: LoadedModel, causal: CausalLM, tokenizer: WordTokenizer, chat: Chat, batch_tokens: int | None
    ) -> None:
        self._loaded = loaded
        self._causal = causal
        self._word_tokenizer = tokenizer
        self._chat = chat
        self._batcher = Batcher(batch_tokens or decoding_tokens(loaded.device.type))
        self._nodes = _CPU_NODES if loaded.device.type == "cpu" else _ACCELERATOR_NODES

    def generate(self, requests: Mapping[int, Generate]) -> Iterator[tuple[int, Response | ModelError]]:
        """Yield (index, answer) as answers become ready; ``requests`` is a dict from index to request.

        Requests with equal settings share batches.
        """
        groups: dict[tuple[Any, ...], list[int]] = {}
        prompts: dict[int, Tokens] = {}
        for index, request in requests.items():
            try:
                prompts[index] = self._prompt(request)
            except ModelError as error:
                yield index, error
                continue
            room = self._room(request, prompts[index])
            if room < 1:
                yield index, Response(finish="too_long", tokens_in=len(prompts[index]))
            else:
                settings = (room, request.temperature, request.stop)
                groups.setdefault(settings, []).append(index)
        for (room, *_), indices in groups.items():
            yield from self._generate_group(requests, prompts, indices, room)

    def _generate_group(
        self, requests: Mapping[int, Generate], prompts: Mapping[int, Tokens], indices: Sequence[int], room: int
    ) -> Iterator[tuple[int, Response | ModelError]]:
        """Generate for requests with equal settings and room for ``room`` new tokens."""
        order = sorted(indices, key=prompts.__getitem__)
        sorted_prompts = [prompts[index] for index in order]
        reader = self._prefix_reader(sorted_prompts, room)
        if reader is None:
            # Without a tree, prompts of similar length share batches.
            order.sort(key=lambda index: len(prompts[index]))

        def length(index: int) -> int:
            return len(prompts[index]) + room

        take_padded = by_padded_size(length)

        def take(batch: Sequence[int], start: int, budget: int) -> int:
            if reader is None:
                return take_padded(batch, start, budget)
            return end_of_row_with_answers(sorted_prompts, start, budget, room)

        def work(batch: Sequence[int]) -> Iterator[Response]:
            batch_prompts = [prompts[index] for index in batch]
            batch_requests = [requests[index] for index in batch]
            return self._generate_batch(batch_prompts, batch_requests, room, reader)

        yield from zip(order, self._batcher.run(order, take, work, small_first=True), strict=True)

    def _prefix_reader(self, prompts: Sequence[Tokens], room: int) -> PrefixReader | None:
        """A reader for sorted prompts; None if a tree would save too little, or if the model cannot generate in one."""
        answers = len(prompts) * room
        in_tree = count_nodes(prompts) + answers
        separate = sum(map(len, prompts)) + answers
        if in_tree > _WORTH_SHARING * separate or not self._shares_prefixes:
            return None
        return PrefixReader(self._loaded.model, self._loaded.device)

    @cached_property
    def _shares_prefixes(self) -> bool:
        return self._causal.caches_paths and can_decode_in_trees(self._loaded.model, self._loaded.device)

    def _room(self, request: Generate, prompt: Tokens) -> int:
        """How many new tokens fit after a prompt. This does not depend on the other prompts of the batch."""
        window = self._loaded.window
        if window is None:
            return request.max_tokens
        return min(request.max_tokens, window - len(prompt))

    def _prompt(self, request: Generate) -> Tokens:
        prompt = self._chat.prompt(request.messages) if request.messages else RenderedPrompt(request.prompt)
        return self._word_tokenizer.prompt(prompt)

    def _generate_batch(
        self, prompts: Sequence[Tokens], requests: Sequence[Generate], room: int, reader: PrefixReader | None
    ) -> Iterator[Response]:
        """Generate for one batch: in a tree of the prompts if there is a ``reader``, otherwise with padding."""
        loaded = self._loaded
        tokenizer = loaded.tokenizer
        # All requests of a batch have the same settings.
        settings = requests[0]
        started = time.perf_counter()
        pad = tokenizer.pad_token_id
        if pad is None:
            pad = tokenizer.eos_token_id or 0
        inputs = padded_at_left(prompts, loaded.device)
        start = inputs["input_ids"].shape[1]
        # Sampling is done by adding noise to the logits (see gumbel), so the search itself is always greedy.
        options: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        options["logits_processor"] = [require_numbers]
        if settings.temperature > 0:
            options["logits_processor"].append(add_noise(requests, settings.temperature))
        if settings.stop:
            options["stopping_criteria"] = [stop_at(settings.stop, tokenizer, start)]
        with torch.inference_mode():
            if reader is not None:
                tree = DecodingTree(reader, loaded.model, loaded.device, prompts, self._nodes)
                options["custom_generate"] = greedy_search_in(tree, pad)
            sequences = loaded.model.generate(**inputs, max_new_tokens=room, pad_token_id=pad, **options)
        seconds = (time.perf_counter() - started) / len(prompts)
        end_tokens = end_tokens_of(loaded)
        for prompt, new_tokens in zip(prompts, sequences[:, start:].tolist(), strict=True):
            yield generated_response(loaded, settings, new_tokens, end_tokens, len(prompt), seconds, pad)


def require_numbers(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """A logits processor that changes nothing, but raises for NaN, which argmax would take for the largest value."""
    if bool(torch.isnan(scores).any()):
        raise FatalModelError(NOT_FINITE)
    return scores


def generator_of(request: Generate) -> torch.Generator:
    """A random generator for one request and draw: batch size and other requests do not influence its numbers."""
    request_digest = digest(request_as_dict(request), request.draw)
    # 15 hexadecimal digits are 60 bits: a seed has at most 64, with a sign.
    seed = int(request_digest[:15], 16)
    return torch.Generator().manual_seed(seed)


def gumbel(size: int, generator: torch.Generator) -> torch.Tensor:
    """Gumbel noise for ``size`` log-probabilities that were divided by the temperature.

    The index of the largest sum is a sample from the distribution: the Gumbel-max trick.
    """
    uniform = torch.rand(size, generator=generator)
    # The bounds keep both logarithms finite.
    return -torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-7)))


def add_noise(requests: Sequence[Generate], temperature: float) -> Callable[..., torch.Tensor]:
    """A logits processor that adds noise, so that the token with the largest logit is a sample at this temperature.

    Each row has its own generator.
    """
    generators = [generator_of(request) for request in requests]

    def with_noise(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        noise = torch.stack([gumbel(scores.shape[-1], generator) for generator in generators])
        return scores / temperature + noise.to(scores)

    return with_noise


def stop_at(stops: Sequence[str], tokenizer: Any, start: int) -> Callable[..., torch.Tensor]:
    """A stopping criterion that returns which rows contain a stop text.

    transformers has such a criterion, but it supports only some tokenizers.
    """

    def stopped(ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        texts = tokenizer.batch_decode(ids[:, start:], skip_special_tokens=True)
        has_stop = []
        for text in texts:
            has_stop.append(any(stop in text for stop in stops))
        return torch.tensor(has_stop, device=ids.device)

    return stopped


def end_tokens_of(loaded: LoadedModel) -> set[int]:
    """The tokens that end a text, by the generation config and by the tokenizer."""
    configured = loaded.model.generation_config.eos_token_id
    tokens = list(configured) if isinstance(configured, list) else [configured]
    tokens.append(loaded.tokenizer.eos_token_id)
    return {int(token) for token in tokens if token is not None}


def generated_response(
    loaded: LoadedModel,
    settings: Generate,
    new_tokens: list[int],
    end_tokens: set[int],
    tokens_in: int,
    seconds: float,
    pad: int | None,
) -> Response:
    """Cut new tokens at the end of the text, decode them, and cut the text at the first stop text.

    ``pad`` is the token that fills up an answer which ends before the others of its batch.
    """
    finish: Finish = "length"
    for position, token in enumerate(new_tokens):
        if token in end_tokens:
            new_tokens = new_tokens[:position]
            finish = "stop"
            break
    text = str(loaded.tokenizer.decode(new_tokens, skip_special_tokens=True))
    # The text ends before the first stop text in it.
    stop_positions = [text.find(stop) for stop in settings.stop if stop in text]
    if stop_positions:
        text = text[: min(stop_positions)]
        finish = "stop"
        # Padding after the stop text was not generated, so it is not counted.
        while new_tokens and new_tokens[-1] == pad:
            new_tokens = new_tokens[:-1]
    return Response(text, finish=finish, tokens_in=tokens_in, tokens_out=len(new_tokens), seconds=seconds)
