"""A server on loopback with vLLM's wire format and a tiny model behind it: honest, or lying in a way to order."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.servers import JSON, Reply, Server, openai_server

Numbers = list[float | None]


@dataclass
class Scored:
    """A prompt as the model reads it, before it is written as vLLM writes it."""

    ids: list[int]
    texts: list[str]
    logprobs: Numbers
    best: Numbers
    """The log-probability of the most probable token at each position."""


Lie = Callable[[Scored], Scored]


@dataclass
class VllmServer:
    """Answers /v1/completions, /tokenize and /detokenize. ``lie`` changes what is said of a prompt's tokens."""

    folder: Path
    lie: Lie = lambda scored: scored
    returns_numbers: bool = True
    """False for a server that accepts ``echo`` and returns numbers of generated tokens only."""
    rejects: tuple[str, ...] = ()
    """Parameters that the server rejects."""
    reports_usage: bool = True
    removes_spaces: bool = False
    """Whether a token loses the space that it begins with when it is decoded by itself, as SentencePiece's do."""
    max_logprobs: int = 20
    """``--max-logprobs``: how many of the next tokens are returned at most; -1 for all of the vocabulary."""
    shifts_ids: bool = False
    """Whether the ids of next tokens are not those of the tokenizer."""
    requests: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(self.folder)
        self.model = AutoModelForCausalLM.from_pretrained(self.folder).eval()

    def serve(self, method: str, path: str, raw: bytes, answer: Any) -> Reply | None:
        body = json.loads(raw)
        self.requests.append({"path": path, **body})
        if any(name in body for name in self.rejects):
            return 400, JSON, json.dumps({"error": {"message": "unknown parameter"}}).encode()
        if path == "/v1/completions":
            allowed = self.max_logprobs if self.max_logprobs >= 0 else self.model.config.vocab_size
            if (body.get("logprobs") or 0) > allowed:
                complaint = (
                    f"Requested sample logprobs of {body['logprobs']}, which is greater than max allowed: {allowed}"
                )
                return 400, JSON, json.dumps({"error": {"message": complaint}}).encode()
            return self._reply(self._completion(body))
        if path == "/tokenize" and "messages" in body:
            return self._reply({"tokens": self._tokenize(body)})
        if path == "/tokenize" and "prompt" in body:
            ids = self.tokenizer(body["prompt"], add_special_tokens=body["add_special_tokens"])["input_ids"]
            return self._reply({"tokens": list(ids)})
        if path == "/detokenize":
            return self._reply({"prompt": self.tokenizer.decode(body["tokens"])})
        return 404, JSON, b'{"error": "not found"}'

    def _reply(self, data: dict[str, Any]) -> Reply:
        return 200, JSON, json.dumps(data).encode()

    def _tokenize(self, body: dict[str, Any]) -> list[int]:
        text = self.tokenizer.apply_chat_template(
            body["messages"], tokenize=False, add_generation_prompt=body["add_generation_prompt"]
        )
        return list(self.tokenizer(text, add_special_tokens=body["add_special_tokens"])["input_ids"])

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        special = body.get("add_special_tokens", True)
        ids = list(self.tokenizer(body["prompt"], add_special_tokens=special)["input_ids"])
        rows = self._distributions(ids)
        next_row = rows[-1]
        best = max(range(len(next_row)), key=next_row.__getitem__)
        logprobs: Numbers = [None, *(row[token] for row, token in zip(rows, ids[1:], strict=False))]
        highest: Numbers = [None, *(max(row) for row in rows[:-1])]
        scored = self.lie(Scored(ids, [self._decode(token) for token in ids], logprobs, highest))
        choice: dict[str, Any] = {"index": 0, "text": self._decode(best), "finish_reason": "length"}
        top = sorted(range(len(next_row)), key=lambda token: -next_row[token])[: body.get("logprobs") or 1]
        named = self._token_name if body.get("return_tokens_as_token_ids") else self._decode
        generated = {
            "tokens": [named(best)],
            "token_logprobs": [next_row[best]],
            "top_logprobs": [{named(token): next_row[token] for token in top}],
        }
        if body.get("echo") and self.returns_numbers:
            generated["tokens"] = [*scored.texts, *generated["tokens"]]
            generated["token_logprobs"] = [*scored.logprobs, *generated["token_logprobs"]]
        if "logprobs" in body:
            choice["logprobs"] = generated
        if "prompt_logprobs" in body:
            choice["prompt_logprobs"] = self._prompt_logprobs(scored) if self.returns_numbers else None
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1}
        if not self.reports_usage:
            return {"choices": [choice]}
        return {"choices": [choice], "usage": usage}

    def _decode(self, token: int) -> str:
        text = str(self.tokenizer.decode([token]))
        return text.removeprefix(" ") if self.removes_spaces else text

    def _token_name(self, token: int) -> str:
        return f"token_id:{(token + self.shifts_ids) % self.model.config.vocab_size}"

    def _prompt_logprobs(self, scored: Scored) -> list[Any]:
        entries: list[Any] = []
        for number, (text, logprob) in enumerate(zip(scored.texts, scored.logprobs, strict=False)):
            if logprob is None:
                entries.append(None)
            else:
                entries.append({str(1000 + number): {"logprob": logprob, "rank": 1, "decoded_token": text}})
        return entries

    def _distributions(self, ids: list[int]) -> list[list[float]]:
        import torch

        with torch.inference_mode():
            logits = self.model(input_ids=torch.tensor([ids])).logits[0].double()
        rows: list[list[float]] = torch.log_softmax(logits, dim=-1).tolist()
        return rows


@contextmanager
def vllm_server(server: VllmServer) -> Iterator[Server]:
    with openai_server(office=server) as running:
        yield running


# --- lies -------------------------------------------------------------------------------------------------------------


def one_too_few(scored: Scored) -> Scored:
    return Scored(scored.ids, scored.texts, scored.logprobs[:-1], scored.best)


def one_token_too_few(scored: Scored) -> Scored:
    return Scored(scored.ids, scored.texts[:-1], scored.logprobs[:-1], scored.best)


def sampled(scored: Scored) -> Scored:
    """The numbers of the tokens that the model would have chosen, with the texts of those that were sent."""
    return Scored(scored.ids, scored.texts, scored.best, scored.best)


def other_tokenizer(scored: Scored) -> Scored:
    """One token per character, as many numbers as tokens."""
    texts = list("".join(scored.texts))
    numbers: Numbers = [None, *([-2.0] * (len(texts) - 1))]
    return Scored(scored.ids, texts, numbers, scored.best)


def zeros(scored: Scored) -> Scored:
    return Scored(scored.ids, scored.texts, [None, *([0.0] * (len(scored.texts) - 1))], scored.best)


def shifted(scored: Scored) -> Scored:
    """The number of each token is that of the token before."""
    numbers: Numbers = [None, -1.0, *scored.logprobs[1:-1]]
    return Scored(scored.ids, scored.texts, numbers[: len(scored.texts)], scored.best)


def in_bits(scored: Scored) -> Scored:
    numbers = [None if value is None else value / math.log(2) for value in scored.logprobs]
    return Scored(scored.ids, scored.texts, numbers, scored.best)


def truncated(scored: Scored) -> Scored:
    """Only the last tokens of a long prompt are read and returned, as vLLM's truncate_prompt_tokens does it."""
    return Scored(scored.ids, scored.texts[-20:], [None, *scored.logprobs[-19:]], scored.best)


def lower_case(scored: Scored) -> Scored:
    return Scored(scored.ids, [text.lower() for text in scored.texts], scored.logprobs, scored.best)


def probabilities(scored: Scored) -> Scored:
    """Probabilities instead of their logarithms."""
    numbers = [None if value is None else math.exp(value) for value in scored.logprobs]
    return Scored(scored.ids, scored.texts, numbers, scored.best)


LIES: dict[str, Lie] = {
    lie.__name__: lie
    for lie in (
        *(one_too_few, one_token_too_few, sampled, other_tokenizer, zeros),
        *(shifted, in_bits, truncated, lower_case, probabilities),
    )
}
