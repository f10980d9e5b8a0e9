"""Text from a causal model: chat template where there is one, prompts of like length in one batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from lmassay.errors import ModelError
from lmassay.models.hf.batches import Batcher, by_padded_size
from lmassay.models.hf.load import Loaded
from lmassay.types import Finish, Generate, Response, digest, request_as_dict

_CPU_TOKENS, _ACCELERATOR_TOKENS = 2048, 16384


def generate(
    loaded: Loaded, batch_tokens: int | None, requests: Sequence[Generate]
) -> Iterator[tuple[int, Response | ModelError]]:
    """Answers as they are ready; requests with the same settings share batches."""
    budget = batch_tokens or (_CPU_TOKENS if loaded.device.type == "cpu" else _ACCELERATOR_TOKENS)
    batcher = Batcher(budget)
    kinds: dict[tuple[Any, ...], list[int]] = {}
    prompts: list[list[int]] = []
    for place, request in enumerate(requests):
        prompts.append(_prompt(loaded, request))
        if loaded.window is not None and len(prompts[place]) + 1 > loaded.window:
            yield place, Response(finish="too_long", tokens_in=len(prompts[place]))
        else:
            kinds.setdefault((request.max_tokens, request.temperature, request.stop), []).append(place)
    for places in kinds.values():
        order = sorted(places, key=lambda place: len(prompts[place]))
        yield from _alike(loaded, batcher, requests, prompts, order)


def _alike(
    loaded: Loaded, batcher: Batcher, requests: Sequence[Generate], prompts: Sequence[list[int]], order: Sequence[int]
) -> Iterator[tuple[int, Response | ModelError]]:
    """Requests with the same settings, shortest first."""
    room = requests[order[0]].max_tokens

    def length(place: int) -> int:
        return len(prompts[place]) + room

    def work(batch: Sequence[int]) -> Iterator[Response]:
        return _batch(loaded, [prompts[place] for place in batch], [requests[place] for place in batch])

    yield from zip(order, batcher.run(order, by_padded_size(length), work), strict=True)


def _prompt(loaded: Loaded, request: Generate) -> list[int]:
    tokenizer = loaded.tokenizer
    if not request.messages:
        return list(tokenizer(request.prompt)["input_ids"]) or [tokenizer.bos_token_id or tokenizer.eos_token_id or 0]
    messages = [{"role": role, "content": content} for role, content in request.messages]
    if tokenizer.chat_template is None:
        plain = "\n".join(f"{m['role']}: {m['content']}" for m in messages) + "\nassistant:"
        return list(tokenizer(plain)["input_ids"])
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _batch(loaded: Loaded, prompts: Sequence[list[int]], requests: Sequence[Generate]) -> Iterator[Response]:
    tokenizer, settings = loaded.tokenizer, requests[0]
    started = time.perf_counter()
    longest = max(map(len, prompts))
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else (tokenizer.eos_token_id or 0)
    ids = torch.tensor([[pad] * (longest - len(p)) + p for p in prompts], device=loaded.device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=loaded.device)
    room = settings.max_tokens if loaded.window is None else min(settings.max_tokens, loaded.window - longest)
    options: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    if settings.temperature > 0:
        options = {"do_sample": True, "temperature": settings.temperature, "top_p": 1.0, "top_k": 0}
    if settings.stop:
        options["stopping_criteria"] = [_stop_at(settings.stop, tokenizer, longest)]
    with torch.inference_mode(), torch.random.fork_rng(devices=[loaded.device] if loaded.device.type == "cuda" else []):
        places = [r.place.key if r.place else 0 for r in requests]
        torch.manual_seed(int(digest([request_as_dict(r) for r in requests], places)[:8], 16))
        whole = loaded.model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=room, pad_token_id=pad, **options
        )
    seconds = (time.perf_counter() - started) / len(prompts)
    ends = _end_tokens(loaded)
    for prompt, row in zip(prompts, whole[:, longest:].tolist(), strict=True):
        yield _response(loaded, settings, row, ends, len(prompt), seconds)


def _stop_at(stops: Sequence[str], tokenizer: Any, start: int) -> Any:
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
