"""Text from a causal model: chat template where there is one, prompts of like length in one batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from lmassay.errors import ModelError
from lmassay.models.hf.batches import Batcher, by_padded_size
from lmassay.models.hf.load import Loaded
from lmassay.types import Finish, Generate, Response, digest, request_as_dict

_CPU_TOKENS, _ACCELERATOR_TOKENS = 2048, 16384


class Generator:
    """Continues prompts with a loaded model."""

    def __init__(self, loaded: Loaded, batch_tokens: int | None) -> None:
        self._loaded = loaded
        usual = _CPU_TOKENS if loaded.device.type == "cpu" else _ACCELERATOR_TOKENS
        self._batcher = Batcher(batch_tokens or usual)

    def generate(self, requests: Sequence[Generate]) -> Iterator[tuple[int, Response | ModelError]]:
        """Answers as they are ready; requests with the same settings and room share batches."""
        alike: dict[tuple[Any, ...], list[int]] = {}
        prompts = [self._prompt(request) for request in requests]
        for place, (request, prompt) in enumerate(zip(requests, prompts, strict=True)):
            room = self._room(request, prompt)
            if room < 1:
                yield place, Response(finish="too_long", tokens_in=len(prompt))
            else:
                alike.setdefault((room, request.temperature, request.stop), []).append(place)
        for (room, *_), places in alike.items():
            order = sorted(places, key=lambda place: len(prompts[place]))
            yield from zip(order, self._alike(requests, prompts, order, room), strict=True)

    def _alike(
        self, requests: Sequence[Generate], prompts: Sequence[list[int]], order: Sequence[int], room: int
    ) -> Iterator[Response | ModelError]:
        def length(place: int) -> int:
            return len(prompts[place]) + room

        def work(batch: Sequence[int]) -> Iterator[Response]:
            return self._batch([prompts[place] for place in batch], [requests[place] for place in batch], room)

        return self._batcher.run(order, by_padded_size(length), work)

    def _room(self, request: Generate, prompt: list[int]) -> int:
        """New tokens that a prompt leaves room for; a neighbour in the batch must not take it away."""
        window = self._loaded.window
        return request.max_tokens if window is None else min(request.max_tokens, window - len(prompt))

    def _prompt(self, request: Generate) -> list[int]:
        tokenizer = self._loaded.tokenizer
        if not request.messages:
            return list(tokenizer(request.prompt)["input_ids"]) or [
                tokenizer.bos_token_id or tokenizer.eos_token_id or 0
            ]
        messages = [{"role": role, "content": content} for role, content in request.messages]
        if tokenizer.chat_template is None:
            plain = "\n".join(f"{m['role']}: {m['content']}" for m in messages) + "\nassistant:"
            return list(tokenizer(plain)["input_ids"])
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def _batch(self, prompts: Sequence[list[int]], requests: Sequence[Generate], room: int) -> Iterator[Response]:
        loaded, tokenizer, settings = self._loaded, self._loaded.tokenizer, requests[0]
        started = time.perf_counter()
        longest = max(map(len, prompts))
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else (tokenizer.eos_token_id or 0)
        ids = torch.tensor([[pad] * (longest - len(p)) + p for p in prompts], device=loaded.device)
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=loaded.device)
        # Sampling is choosing the best after adding noise (see _gumbel), so the search itself is always greedy.
        options: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        if settings.temperature > 0:
            options["logits_processor"] = [_gumbel(requests, settings.temperature)]
        if settings.stop:
            options["stopping_criteria"] = [_stop_at(settings.stop, tokenizer, longest)]
        with torch.inference_mode():
            whole = loaded.model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=room, pad_token_id=pad, **options
            )
        seconds = (time.perf_counter() - started) / len(prompts)
        ends = _end_tokens(loaded)
        for prompt, row in zip(prompts, whole[:, longest:].tolist(), strict=True):
            yield _response(loaded, settings, row, ends, len(prompt), seconds)


def _gumbel(requests: Sequence[Generate], temperature: float) -> Callable[..., torch.Tensor]:
    """Noise that makes the largest logit a sample at this temperature (the Gumbel-max trick).

    Each row has a generator of its own, seeded by its request and draw: neighbours and batch sizes change nothing.
    """
    generators = [
        torch.Generator().manual_seed(int(digest(request_as_dict(request), request.draw)[:15], 16))
        for request in requests
    ]

    def disturb(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        noise = torch.stack([torch.rand(scores.shape[-1], generator=generator) for generator in generators])
        gumbel = -torch.log(-torch.log(noise.clamp(1e-20, 1 - 1e-7)))
        return scores / temperature + gumbel.to(scores)

    return disturb


def _stop_at(stops: Sequence[str], tokenizer: Any, start: int) -> Callable[..., torch.Tensor]:
    """Tells which rows hold a stop text by now; the library's own way needs vocabularies of certain kinds."""

    def stopped(ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        texts = tokenizer.batch_decode(ids[:, start:], skip_special_tokens=True)
        return torch.tensor([any(stop in text for stop in stops) for text in texts], device=ids.device)

    return stopped


def _end_tokens(loaded: Loaded) -> set[int]:
    configured = loaded.model.generation_config.eos_token_id
    listed = configured if isinstance(configured, list) else [configured]
    return {int(token) for token in [*listed, loaded.tokenizer.eos_token_id] if token is not None}


def _response(
    loaded: Loaded, settings: Generate, row: list[int], ends: set[int], tokens_in: int, seconds: float
) -> Response:
    end = next((i for i, token in enumerate(row) if token in ends), None)
    kept = row if end is None else row[:end]
    text = str(loaded.tokenizer.decode(kept, skip_special_tokens=True))
    cut = [place for place in (text.find(stop) for stop in settings.stop) if place >= 0]
    stopped = end is not None or bool(cut)
    text = text[: min(cut)] if cut else text
    finish: Finish = "stop" if stopped else "length"
    return Response(text, finish=finish, tokens_in=tokens_in, tokens_out=len(kept), seconds=seconds)
