"""Text from a causal model: prompts that begin alike are neighbours and read once, others are batched by length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from lmassay.errors import FatalModelError, ModelError
from lmassay.models.hf.batches import Batcher, Tokens, by_padded_size, padded_at_left
from lmassay.models.hf.capabilities import grows_branches
from lmassay.models.hf.causal import CausalLM
from lmassay.models.hf.chat import Chat, RenderedPrompt
from lmassay.models.hf.load import LoadedModel
from lmassay.models.hf.logits import NO_NUMBERS
from lmassay.models.hf.prefix_tree import DecodingTree, PrefixReader, distinct_tokens, search_along, take_branches
from lmassay.models.hf.tokenization import WordTokenizer
from lmassay.types import Finish, Generate, Response, digest, request_as_dict

# Tokens of prompts and answers that a batch keeps: padded ones, or those of the tree that they make.
_CPU_TOKENS, _ACCELERATOR_TOKENS = 2048, 16384
# Tokens of such a tree that are read at a time.
_CPU_NODES, _ACCELERATOR_NODES = 384, 2048
# Beginnings are shared where a tree keeps at most this part of what prompts and answers side by side would.
_WORTH_SHARING = 0.9


class TextGenerator:
    """Continues prompts with a loaded model."""

    def __init__(
        self, loaded: LoadedModel, causal: CausalLM, words: WordTokenizer, chat: Chat, batch_tokens: int | None
    ) -> None:
        self._loaded, self._causal, self._words, self._chat = loaded, causal, words, chat
        on_cpu = loaded.device.type == "cpu"
        self._batcher = Batcher(batch_tokens or (_CPU_TOKENS if on_cpu else _ACCELERATOR_TOKENS))
        self._nodes = _CPU_NODES if on_cpu else _ACCELERATOR_NODES

    def generate(self, requests: Mapping[int, Generate]) -> Iterator[tuple[int, Response | ModelError]]:
        """Answers as they are ready, by the places of the requests; those with the same settings share batches."""
        alike: dict[tuple[Any, ...], list[int]] = {}
        prompts: dict[int, Tokens] = {}
        for place, request in requests.items():
            try:
                prompts[place] = self._prompt(request)
            except ModelError as error:
                yield place, error
                continue
            room = self._room(request, prompts[place])
            if room < 1:
                yield place, Response(finish="too_long", tokens_in=len(prompts[place]))
            else:
                alike.setdefault((room, request.temperature, request.stop), []).append(place)
        for (room, *_), places in alike.items():
            yield from self._alike(requests, prompts, places, room)

    def _alike(
        self, requests: Mapping[int, Generate], prompts: Mapping[int, Tokens], places: Sequence[int], room: int
    ) -> Iterator[tuple[int, Response | ModelError]]:
        order = sorted(places, key=prompts.__getitem__)
        ordered = [prompts[place] for place in order]
        walk = self._walk(ordered, room)
        if walk is None:
            order.sort(key=lambda place: len(prompts[place]))

        def length(place: int) -> int:
            return len(prompts[place]) + room

        def take(batch: Sequence[int], start: int, budget: int) -> int:
            return take_branches(ordered, start, budget, room) if walk else by_padded_size(length)(batch, start, budget)

        def work(batch: Sequence[int]) -> Iterator[Response]:
            return self._batch([prompts[place] for place in batch], [requests[place] for place in batch], room, walk)

        yield from zip(order, self._batcher.run(order, take, work), strict=True)

    def _walk(self, prompts: Sequence[Tokens], room: int) -> PrefixReader | None:
        """A way through sorted prompts, if it pays and the model can let answers grow out of a tree."""
        answers = len(prompts) * room
        if distinct_tokens(prompts) + answers > _WORTH_SHARING * (sum(map(len, prompts)) + answers):
            return None
        return PrefixReader(self._loaded.model, self._loaded.device) if self._shares_prefixes else None

    @cached_property
    def _shares_prefixes(self) -> bool:
        return self._causal.remembers and grows_branches(self._loaded.model, self._loaded.device)

    def _room(self, request: Generate, prompt: Tokens) -> int:
        """New tokens that a prompt leaves room for; a neighbour in the batch must not take it away."""
        window = self._loaded.window
        return request.max_tokens if window is None else min(request.max_tokens, window - len(prompt))

    def _prompt(self, request: Generate) -> Tokens:
        return self._words.prompt(
            self._chat.prompt(request.messages) if request.messages else RenderedPrompt(request.prompt)
        )

    def _batch(
        self, prompts: Sequence[Tokens], requests: Sequence[Generate], room: int, walk: PrefixReader | None
    ) -> Iterator[Response]:
        loaded, tokenizer, settings = self._loaded, self._loaded.tokenizer, requests[0]
        started = time.perf_counter()
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else (tokenizer.eos_token_id or 0)
        inputs = padded_at_left(prompts, loaded.device)
        start = inputs["input_ids"].shape[1]
        # Sampling is choosing the best after adding noise (see gumbel), so the search itself is always greedy.
        options: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        options["logits_processor"] = [_numbers]
        if settings.temperature > 0:
            options["logits_processor"] += [_disturbed(requests, settings.temperature)]
        if settings.stop:
            options["stopping_criteria"] = [_stop_at(settings.stop, tokenizer, start)]
        with torch.inference_mode():
            if walk is not None:
                branches = DecodingTree(walk, loaded.model, loaded.device, prompts, self._nodes)
                options["custom_generate"] = search_along(branches, pad)
            whole = loaded.model.generate(**inputs, max_new_tokens=room, pad_token_id=pad, **options)
        seconds = (time.perf_counter() - started) / len(prompts)
        ends = _end_tokens(loaded)
        for prompt, row in zip(prompts, whole[:, start:].tolist(), strict=True):
            yield _response(loaded, settings, row, ends, len(prompt), seconds)


def _numbers(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """The scores as they are; what is no number would be taken for the best."""
    if bool(torch.isnan(scores).any()):
        raise FatalModelError(NO_NUMBERS)
    return scores


def generator_of(request: Generate) -> torch.Generator:
    """A source of noise for one request and draw: neighbours and batch sizes change nothing."""
    return torch.Generator().manual_seed(int(digest(request_as_dict(request), request.draw)[:15], 16))


def gumbel(size: int, generator: torch.Generator) -> torch.Tensor:
    """Noise to be added to ``size`` log-probabilities, which were divided by the temperature.

    The largest of the disturbed values is a sample: the Gumbel-max trick.
    """
    noise = torch.rand(size, generator=generator)
    return -torch.log(-torch.log(noise.clamp(1e-20, 1 - 1e-7)))


def _disturbed(requests: Sequence[Generate], temperature: float) -> Callable[..., torch.Tensor]:
    """Noise that makes the largest logit a sample at this temperature; each row has a source of its own."""
    generators = [generator_of(request) for request in requests]

    def disturb(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        noise = torch.stack([gumbel(scores.shape[-1], generator) for generator in generators])
        return scores / temperature + noise.to(scores)

    return disturb


def _stop_at(stops: Sequence[str], tokenizer: Any, start: int) -> Callable[..., torch.Tensor]:
    """Tells which rows hold a stop text by now; the library's own way needs vocabularies of certain kinds."""

    def stopped(ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        texts = tokenizer.batch_decode(ids[:, start:], skip_special_tokens=True)
        return torch.tensor([any(stop in text for stop in stops) for text in texts], device=ids.device)

    return stopped


def _end_tokens(loaded: LoadedModel) -> set[int]:
    configured = loaded.model.generation_config.eos_token_id
    listed = configured if isinstance(configured, list) else [configured]
    return {int(token) for token in [*listed, loaded.tokenizer.eos_token_id] if token is not None}


def _response(
    loaded: LoadedModel, settings: Generate, row: list[int], ends: set[int], tokens_in: int, seconds: float
) -> Response:
    end = next((i for i, token in enumerate(row) if token in ends), None)
    kept = row if end is None else row[:end]
    text = str(loaded.tokenizer.decode(kept, skip_special_tokens=True))
    cut = [place for place in (text.find(stop) for stop in settings.stop) if place >= 0]
    stopped = end is not None or bool(cut)
    text = text[: min(cut)] if cut else text
    finish: Finish = "stop" if stopped else "length"
    return Response(text, finish=finish, tokens_in=tokens_in, tokens_out=len(kept), seconds=seconds)
