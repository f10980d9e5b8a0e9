"""Any Hugging Face masked or causal language model on this machine: a folder, a GGUF file or a fetched hub name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from lmassay.contracts import Model
from lmassay.errors import ConfigError, MissingExtra, ModelError
from lmassay.models.hf.source import ModelSource, find_source
from lmassay.types import Generate, LogProbs, Response, Slot, canonical

Placed = tuple[int, Response]
# The model that was asked last, for the next run to ask: a sweep loads its weights once, and holds one model at a time.
_LOADED: dict[str, Any] = {}


class HuggingFace(Model):
    """A local language model.

    ``prefix`` is what stands before a text: ``auto`` (what the tokenizer itself puts there; before a text that is
    scored from its first token on, the token between documents), ``none``, ``bos``, ``eos`` or a token.
    ``leading_space`` puts a space before a text; left out, only before the blanks of RoBERTa-like models.
    ``chat: auto`` writes messages by the model's own chat template, where it has one; ``never``, or without a template,
    a single message is the bare text and several are a transcript.
    ``pll`` is how masked models score a text. ``position: counted`` reads blanks where refining-tse as released does.
    """

    name = "hf"

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        label: str = "",
        kind: Literal["auto", "masked", "causal"] = "auto",
        device: str = "auto",
        dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
        prefix: str = "auto",
        leading_space: bool | None = None,
        pll: Literal["within_word_l2r", "original"] = "within_word_l2r",
        position: Literal["found", "counted"] = "found",
        chat: Literal["auto", "never"] = "auto",
        batch_tokens: Annotated[int, Field(ge=1)] | None = None,
        threads: Annotated[int, Field(ge=1)] | None = None,
        trust_remote_code: bool = False,
        base_dir: Path = Path(),
    ) -> None:
        self._model, self._revision, self._base = model, revision, base_dir
        self._kind, self._device, self._dtype = kind, device, dtype
        self._prefix, self._leading_space = prefix, leading_space
        self._pll, self._position, self._chat = pll, position, chat
        self._batch_tokens, self._threads = batch_tokens, threads
        self._trust_remote_code = trust_remote_code
        self.label = label or Path(model).name.removesuffix(".gguf") or self.name

    # --- what can be known without loading ----------------------------------------------------------------------------

    @cached_property
    def source(self) -> ModelSource:
        return find_source(self._model, self._revision, self._base)

    @property
    def kind(self) -> Literal["masked", "causal"]:
        return self.source.kind if self._kind == "auto" else self._kind

    @property
    def can(self) -> frozenset[str]:  # type: ignore[override]  # known from the checkpoint
        both = {"slot", "logprobs", "train"}
        return frozenset(both if self.kind == "masked" else both | {"generate", "choices"})

    @property
    def sees_right(self) -> bool:  # type: ignore[override]  # known from the checkpoint
        """Whether what stands behind a blank has a say in it."""
        return self.kind == "masked"

    def check(self) -> None:
        self.source.check()
        if self._position == "counted" and self.kind == "causal":
            raise ConfigError("model.position: a causal model has no blank to look for; leave it out")
        if self._prefix != "auto" and self.kind == "masked":
            raise ConfigError("model.prefix: a masked model reads a text between its own marks; leave it out")
        if self._chat != "auto" and self.kind == "masked":
            raise ConfigError("model.chat: a masked model does not chat; leave it out")
        if self.kind == "causal" and self.source.is_encoder:
            raise ConfigError(f"model.kind: {self.source.name} reads in both directions and cannot be read as causal")

    def identity(self) -> Mapping[str, Any]:
        engine = self._engine_module()
        own: dict[str, Any] = {"name": self.name, "model": self.source.name, "weights": self.source.fingerprint}
        own |= {"revision": self.source.revision[:12]} if self.source.revision else {}
        own |= engine.numbers(self.source, self._device, self._dtype)
        own |= self._words.policy(self.kind == "masked")
        own |= {"pll": self._pll} if self.kind == "masked" else {}
        own |= {"position": self._position} if self._position != "found" else {}
        own |= {"chat": self._chat} if self._chat != "auto" else {}
        own |= {"trust_remote_code": True} if self._trust_remote_code else {}
        return own

    # --- the three verbs ----------------------------------------------------------------------------------------------

    def slot(self, requests: Sequence[Slot]) -> Iterator[Placed]:
        return self._told(self._engine.slot(requests))

    def logprobs(self, requests: Sequence[LogProbs]) -> Iterator[Placed]:
        return self._told(self._engine.logprobs(requests))

    def generate(self, requests: Sequence[Generate]) -> Iterator[Placed]:
        return self._told(self._engine.generate(requests))

    # --- for those who train it -------------------------------------------------------------------------------------

    @cached_property
    def folder(self) -> Path:
        """Config, tokenizer and safetensors weights; of a GGUF file what it was turned into."""
        if not self.source.is_gguf:
            return self.source.path
        self._engine_module()
        from lmassay.models.hf.gguf import converted

        return converted(self.source.path)

    @property
    def device(self) -> str:
        """As asked for: auto, cpu, cuda:1 …"""
        return self._device

    @property
    def dtype(self) -> str:
        """The number format that was asked for, or is chosen for this machine."""
        return str(self._engine_module().numbers(self.source, self._device, self._dtype)["dtype"])

    @property
    def threads(self) -> int | None:
        return self._threads

    @property
    def trust_remote_code(self) -> bool:
        return self._trust_remote_code

    # --- inside -----------------------------------------------------------------------------------------------------

    def _engine_module(self) -> Any:
        try:
            from lmassay.models.hf import engine
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("lmassay"):
                raise
            raise MissingExtra("a local Hugging Face model", "hf") from error
        return engine

    @cached_property
    def _words(self) -> Any:
        words = self._engine_module().open_words(
            self.folder, self._prefix, self._leading_space, self._trust_remote_code
        )
        return words

    @property
    def _engine(self) -> Any:
        if self._key not in _LOADED:
            # Another model's weights make room first.
            _LOADED.clear()
            _LOADED[self._key] = self._opened()
        return _LOADED[self._key]

    @cached_property
    def _key(self) -> str:
        return canonical([dict(self.identity()), str(self.folder), self._batch_tokens, self._threads])

    def _opened(self) -> Any:
        engine = self._engine_module()
        return engine.Engine(
            engine.open_model(
                self.folder, self.source, self._words, self.kind, self._device, self._dtype, self._trust_remote_code
            ),
            self._words,
            engine.EngineOptions(self.kind, self._pll, self._position, self._chat, self._batch_tokens, self._threads),
        )

    def _told(self, answers: Iterator[tuple[int, Response | ModelError]]) -> Iterator[Placed]:
        for place, answer in answers:
            yield place, Response(error=str(answer)) if isinstance(answer, ModelError) else answer


class SmolLM2(HuggingFace):
    """The default model: SmolLM2-135M-Instruct, a small real causal model of English, from a Python package."""

    def __init__(
        self,
        label: str = "SmolLM2-135M",
        device: str = "auto",
        dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
        prefix: str = "auto",
        leading_space: bool | None = None,
        chat: Literal["auto", "never"] = "auto",
        batch_tokens: Annotated[int, Field(ge=1)] | None = None,
        threads: Annotated[int, Field(ge=1)] | None = None,
    ) -> None:
        super().__init__(
            "smollm2",
            label=label,
            device=device,
            dtype=dtype,
            prefix=prefix,
            leading_space=leading_space,
            chat=chat,
            batch_tokens=batch_tokens,
            threads=threads,
        )
