"""Hugging Face models on this machine: masked, causal or encoder-decoder, in a folder, a GGUF file or from the hub."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from lmassay.contracts import Model
from lmassay.errors import ConfigError, DataError, MissingExtra, ModelError, UserError
from lmassay.models.cache import read_card
from lmassay.models.hf.folder_errors import plain_folder_errors, plain_library_errors
from lmassay.models.hf.source import Kind, ModelSource, find_source
from lmassay.models.hf.window import texts_of
from lmassay.types import Generate, LogProbs, Request, Response, Slot, Substitute, canonical

# Encoder-decoder architectures that write several languages: M2M100 and NLLB, mBART.
_MULTILINGUAL = ("m2m_100", "mbart")
IndexedResponse = tuple[int, Response]

# The engine of the model that was used last: its key (see HuggingFace._key) → the engine. The next run can reuse it, so
# a sweep over tasks loads the weights once. There is at most one entry, so one model is in memory at a time.
_LOADED: dict[str, Any] = {}


class HuggingFace(Model):
    """A local language model.

    ``prefix`` is what precedes a text: ``auto``, ``none``, ``bos``, ``eos`` or a token. ``auto`` is what the tokenizer
    itself puts there. If it puts nothing there and the text is scored from its first token, ``auto`` is the token that
    separates documents in training.
    ``leading_space`` puts a space before a text; by default this is done only for texts with a blank, and only in
    masked models whose vocabulary is like RoBERTa's.
    ``chat: auto`` writes messages with the model's own chat template. With ``never``, or without a template, a single
    message is plain text and several are a transcript.
    ``pll`` is how masked models score a text (its pseudo-log-likelihood). ``position: counted`` reads blanks at the
    position that refining-tse (the program of Newman et al. 2021) computes, even if the blank is at another one, to
    reproduce its numbers.
    ``beams``, ``source_lang`` and ``target_lang`` are for encoder-decoder models: the width of the search (by default
    the model's own), and the languages of a multilingual model by its own codes, e.g. ``eng_Latn``.
    ``resources`` is what a worker of a Dask cluster must have, e.g. ``{GPU: 1}``. With it, the device need not exist on
    the machine that starts the run.
    """

    name = "hf"
    distributable = True

    option_help: ClassVar[Mapping[str, str]] = {
        "model": "a folder, a .gguf file, or the name of a model on the hub that `lmassay models get NAME` has fetched",
        "revision": "the branch, tag or commit of a model on the hub",
        "label": "name in tables; by default the name of the model",
        "kind": "the kind of model; auto reads it from the model's config.json",
        "device": "cpu, cuda, cuda:1, mps or xpu; auto uses CUDA or MPS if there is one, else the CPU",
        "dtype": (
            "the number format of the weights; auto is that of the files, but float32 on a CPU unless the files are "
            "bfloat16 and the CPU supports it"
        ),
        "prefix": (
            "what precedes a text: none, bos, eos, a token, or auto: what the tokenizer adds or, if it adds nothing "
            "and the text has no context, the token that separates documents in training"
        ),
        "leading_space": "whether a space precedes the text; by default only for blanks of models like RoBERTa",
        "pll": (
            "pseudo-log-likelihood: how masked models score a text, one masked token at a time; within_word_l2r also "
            "masks the rest of the token's word, original does not"
        ),
        "position": (
            "where the prediction for a blank is read: found is the position of the blank; counted is the position "
            "that refining-tse computes, which may be another one"
        ),
        "chat": "auto: messages are written with the tokenizer's chat template; never: they are written as plain text",
        "batch_tokens": "maximum number of tokens per batch; the default depends on the device",
        "threads": "number of CPU threads; by default torch decides",
        "trust_remote_code": "run code from the folder of the model; only for models that you trust",
        "beams": "width of the beam search of an encoder-decoder model; by default its own",
        "source_lang": "the source language of a multilingual encoder-decoder model, by its own code (eng_Latn)",
        "target_lang": "the target language of a multilingual encoder-decoder model, by its own code (deu_Latn)",
        "resources": "what a worker of a Dask cluster must have, such as {GPU: 1}",
    }
    config_example = "model: {name: hf, model: models/my-model, dtype: bfloat16}"

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        label: str = "",
        kind: Literal["auto", "masked", "causal", "encoder-decoder"] = "auto",
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
        beams: Annotated[int, Field(ge=1)] | None = None,
        source_lang: str | None = None,
        target_lang: str | None = None,
        resources: dict[str, Annotated[float, Field(gt=0)]] | None = None,
        base_dir: Path = Path(),
    ) -> None:
        self._model = model
        self.resources = resources or {}
        self._beams = beams
        self._source_lang = source_lang
        self._target_lang = target_lang
        self._revision = revision
        self._base = base_dir
        self._kind = kind
        self._device = device
        self._dtype = dtype
        self._prefix = prefix
        self._leading_space = leading_space
        self._pll = pll
        self._position = position
        self._chat = chat
        self._batch_tokens = batch_tokens
        self._threads = threads
        self._trust_remote_code = trust_remote_code
        self.label = label or _kept_label(model, base_dir) or Path(model).name.removesuffix(".gguf") or self.name

    # --- before the weights are loaded --------------------------------------------------------------------------------

    @cached_property
    def source(self) -> ModelSource:
        """The files of the model."""
        return find_source(self._model, self._revision, self._base)

    @property
    def kind(self) -> Kind:
        """Whether the model fills in blanks, continues texts or turns one text into another."""
        if self._kind == "auto":
            return self.source.kind
        return self._kind

    @property
    def can(self) -> frozenset[str]:  # type: ignore[override]  # known from the checkpoint
        if self._lacks_mask_token:
            # It can still be trained as a classifier, which needs no mask token.
            return frozenset({"train"})
        if self.kind == "masked":
            return frozenset({"slot", "logprobs", "train"})
        if self.kind == "encoder-decoder":
            return frozenset({"logprobs", "generate", "gradients"})
        return frozenset({"slot", "logprobs", "train", "generate", "choices", "gradients"})

    @property
    def _lacks_mask_token(self) -> bool:
        return self.kind == "masked" and not self._trust_remote_code and self.source.lacks_mask_token

    def remedy(self, missing: Set[str]) -> str:
        if not self._lacks_mask_token:
            return ""
        return (
            f"the tokenizer in {self.source.path} has no mask token, which a masked model needs; "
            "add mask_token to its tokenizer_config.json"
        )

    @property
    def sees_right(self) -> bool:  # type: ignore[override]  # known from the checkpoint
        """Whether the text after a blank influences what fills it."""
        return self.kind == "masked"

    def check(self) -> None:
        for package in ("torch", "transformers"):
            # Only looked up: importing them takes seconds, and most mistakes can be found without them.
            if importlib.util.find_spec(package) is None:
                raise MissingExtra("a local Hugging Face model", "hf", then=self._fetch_command())
        self.source.check()
        with plain_folder_errors(self.source.path):
            self._check_options()

    def _fetch_command(self) -> str:
        """The command that fetches the model; empty if its files are on this machine, or if no command would help."""
        try:
            _ = self.source
        except UserError as error:
            return error.commands[-1] if error.commands else ""
        return ""

    def _check_options(self) -> None:
        """Raise an error for options that do not suit the model's files."""
        if not self._trust_remote_code and not self._has_known_architecture():
            self._engine_module()
            from lmassay.models.hf.load import check_architecture

            check_architecture(self.source.path)
        if self._device not in ("auto", "cpu"):
            # Raises an error for a device that does not exist.
            self._device_and_dtype()
        if self._prefix not in ("auto", "none") and self.kind == "causal":
            # Only the tokenizer knows whether it has the token; this call raises a ConfigError if it does not.
            self._word_tokenizer.policy(masked=False)
        has_tokenizer_file = (self.source.path / "tokenizer.json").is_file()
        if not self.source.is_gguf and not has_tokenizer_file:
            # An older format, which only transformers can read.
            self._read_older_tokenizer()
        # Options that would have no effect are refused, not ignored.
        if self._pll != "within_word_l2r" and self.kind == "causal":
            raise ConfigError("model.pll: this option is for masked models; leave it out")
        if self._position == "counted" and self.kind == "causal":
            raise ConfigError("model.position: a causal model has no mask to look for; leave this option out")
        if self._prefix != "auto" and self.kind == "masked":
            raise ConfigError("model.prefix: a masked model always uses its own special tokens; leave this option out")
        if self._chat != "auto" and self.kind == "masked":
            raise ConfigError("model.chat: a masked model does not chat; leave this option out")
        if self.kind == "encoder-decoder":
            self._check_encoder_decoder()
        else:
            self._refuse_translation_options()
        if self.kind == "causal" and self.source.is_encoder:
            raise ConfigError(
                f"model.kind: {self.source.name} reads in both directions and cannot be used as a causal model"
            )

    def check_requests(self, requests: Sequence[Request]) -> None:
        if self._beams is None or self._beams == 1:
            return
        for request in requests:
            if isinstance(request, Generate) and request.temperature > 0:
                raise ConfigError(
                    f"model.beams: a beam search finds the most probable text, so temperature {request.temperature:g} "
                    "would have no effect; leave out beams, or set temperature to 0"
                )

    def unanswerable(self, requests: Sequence[Request]) -> str:
        if self._missing_head:
            return self._missing_head
        with plain_folder_errors(self.source.path):
            window = self.source.window
            if window is None:
                return ""
            for text in texts_of(requests, sees_right=self.sees_right):
                # A token is at least one byte long, so most texts need not be tokenized.
                if len(text.encode("utf-8", "surrogatepass")) < window or self.source.fast_tokenizer is None:
                    continue
                tokens = len(self.source.fast_tokenizer.encode(text, add_special_tokens=False).ids)
                if tokens > window:
                    return (
                        f"{self.source.name} reads at most {window} tokens, and a text has {tokens}; shorten the texts "
                        "or use another model"
                    )
        return ""

    @cached_property
    def _missing_head(self) -> str:
        """Why the weights are not a language model; empty if they are."""
        if self.source.names_head:
            return ""
        self._engine_module()
        from lmassay.models.hf.load import check_head

        try:
            check_head(self.folder, self.kind, self._trust_remote_code)
        except DataError as error:
            return str(error)
        return ""

    def _read_older_tokenizer(self) -> None:
        """Read a tokenizer without a tokenizer.json, to find out early if that is not possible."""
        if self.kind == "encoder-decoder":
            # The tokenizers of Marian and M2M100 have no offsets (positions of tokens in the text). Only masked and
            # causal models need these.
            self._engine_module().read_tokenizer(self.folder, self._trust_remote_code)
        else:
            _ = self.tokenizer

    def _has_known_architecture(self) -> bool:
        """Whether transformers certainly has the architecture: it has a module of this name. Nothing is imported.

        Also True for a GGUF file, whose architecture is checked when it is converted.
        """
        if self.source.is_gguf:
            return True
        transformers = importlib.util.find_spec("transformers")
        model_type = str(self.source.config.get("model_type") or "").replace("-", "_")
        if transformers is None or transformers.origin is None or not model_type.isidentifier():
            return False
        return (Path(transformers.origin).parent / "models" / model_type).is_dir()

    def _check_encoder_decoder(self) -> None:
        """Refuse options that an encoder-decoder model does not use, and languages that it does not have."""
        if not self.source.is_encoder_decoder:
            raise ConfigError(f"model.kind: {self.source.name} is not an encoder-decoder model; leave this option out")
        # Name, value and default of the options that only the other kinds of model use.
        unused_options = (
            ("prefix", self._prefix, "auto"),
            ("leading_space", self._leading_space, None),
            ("chat", self._chat, "auto"),
            ("pll", self._pll, "within_word_l2r"),
            ("position", self._position, "found"),
        )
        for name, value, default in unused_options:
            if value != default:
                raise ConfigError(f"model.{name}: an encoder-decoder model does not use this option; leave it out")
        has_languages = self._source_lang is not None or self._target_lang is not None
        if has_languages or self.source.config.get("model_type") in _MULTILINGUAL:
            self._engine_module().check_languages(self.folder, self._translation_options(), self._trust_remote_code)

    def _refuse_translation_options(self) -> None:
        options = {"beams": self._beams, "source_lang": self._source_lang, "target_lang": self._target_lang}
        for name, value in options.items():
            if value is not None:
                raise ConfigError(f"model.{name}: this option is for encoder-decoder models; leave it out")

    def _translation_options(self) -> Any:
        return self._engine_module().TranslationOptions(
            beams=self._beams,
            source_language=self._source_lang,
            target_language=self._target_lang,
            batch_tokens=self._batch_tokens,
            threads=self._threads,
        )

    def identity(self) -> Mapping[str, Any]:
        with plain_folder_errors(self.source.path):
            return self._identity()

    def _identity(self) -> dict[str, Any]:
        source = self.source
        identity: dict[str, Any] = {"name": self.name, "model": source.name, "weights": source.fingerprint}
        if source.revision:
            identity["revision"] = source.revision[:12]
        identity.update(self._device_and_dtype())
        if self.kind == "encoder-decoder":
            options = {"beams": self._beams, "source_lang": self._source_lang, "target_lang": self._target_lang}
            identity.update({name: value for name, value in options.items() if value is not None})
        else:
            identity.update(self._word_tokenizer.policy(self.kind == "masked"))
        if self.kind == "masked":
            identity["pll"] = self._pll
        # The other options are left out at their defaults, so that signatures stay short.
        if self._position != "found":
            identity["position"] = self._position
        if self._chat != "auto":
            identity["chat"] = self._chat
        if self._trust_remote_code:
            identity["trust_remote_code"] = True
        return identity

    @property
    def decoding_tokens(self) -> int:  # type: ignore[override]  # depends on the device
        if self._batch_tokens is not None:
            return self._batch_tokens
        tokens: int = self._engine_module().decoding_tokens(self._device_and_dtype()["device"])
        return tokens

    # --- requests -----------------------------------------------------------------------------------------------------

    def slot(self, requests: Sequence[Slot]) -> Iterator[IndexedResponse]:
        return self._responses(self._engine.slot(requests))

    def logprobs(self, requests: Sequence[LogProbs]) -> Iterator[IndexedResponse]:
        return self._responses(self._engine.logprobs(requests))

    def generate(self, requests: Sequence[Generate]) -> Iterator[IndexedResponse]:
        return self._responses(self._engine.generate(requests))

    def gradients(self, requests: Sequence[Substitute]) -> Iterator[IndexedResponse]:
        return self._responses(self._engine.gradients(requests))

    def token_scores(self, texts: Sequence[str], boundary: Any = "none") -> Iterator[tuple[int, Any]]:
        """Score every token of each text. :func:`lmassay.surprisal` combines these scores by word.

        ``boundary`` says which tokens mark the end of a word, see :data:`lmassay.models.hf.engine.Boundary`.
        """
        scores: Iterator[tuple[int, Any]] = self._engine.token_scores(texts, boundary)
        with plain_library_errors(self.source.path):
            yield from scores

    def _responses(self, answers: Iterator[tuple[int, Response | ModelError]]) -> Iterator[IndexedResponse]:
        """Report an error that concerns one request as the response to it."""
        with plain_library_errors(self.source.path):
            for index, answer in answers:
                if isinstance(answer, ModelError):
                    yield index, Response(error=str(answer))
                else:
                    yield index, answer

    @property
    def tokenizer(self) -> Any:
        """The tokenizer with the model's options, without loading the weights."""
        return self._word_tokenizer

    # --- for training -------------------------------------------------------------------------------------------------

    @cached_property
    def folder(self) -> Path:
        """The folder with config, tokenizer and safetensors weights; for a GGUF file, its conversion."""
        if not self.source.is_gguf:
            return self.source.path
        self._engine_module()
        from lmassay.models.hf.gguf import converted

        return converted(self.source.path)

    @property
    def device(self) -> str:
        """The device as the user wrote it: auto, cpu, cuda:1 …"""
        return self._device

    @property
    def dtype(self) -> str:
        """The number format: the user's choice, or the one chosen for this machine."""
        return self._device_and_dtype()["dtype"]

    @property
    def threads(self) -> int | None:
        """The number of threads, if the user set one."""
        return self._threads

    @property
    def trust_remote_code(self) -> bool:
        """Whether code that comes with the model may run."""
        return self._trust_remote_code

    # --- internals --------------------------------------------------------------------------------------------------

    def _engine_module(self) -> Any:
        # Imported late: torch takes seconds to import, and is an optional dependency.
        try:
            from lmassay.models.hf import engine
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("lmassay"):
                raise
            raise MissingExtra("a local Hugging Face model", "hf") from error
        return engine

    def _device_and_dtype(self) -> dict[str, str]:
        # A model that requires resources may run on a worker whose device this machine does not have.
        must_exist = not self.resources
        chosen: dict[str, str] = self._engine_module().device_and_dtype(
            self.source, self._device, self._dtype, must_exist
        )
        return chosen

    @cached_property
    def _word_tokenizer(self) -> Any:
        engine = self._engine_module()
        with plain_folder_errors(self.source.path):
            return engine.open_tokenizer(self.folder, self._prefix, self._leading_space, self._trust_remote_code)

    @property
    def _engine(self) -> Any:
        if self._key not in _LOADED:
            # The weights of the previous model are freed first.
            _LOADED.clear()
            with plain_folder_errors(self.source.path):
                _LOADED[self._key] = self._open_engine()
        return _LOADED[self._key]

    @cached_property
    def _key(self) -> str:
        return canonical([dict(self.identity()), str(self.folder), self._batch_tokens, self._threads])

    def _open_engine(self) -> Any:
        engine = self._engine_module()
        if self.kind == "encoder-decoder":
            return engine.open_encoder_decoder(
                folder=self.folder,
                source=self.source,
                device=self._device,
                dtype=self._dtype,
                options=self._translation_options(),
                trust_remote_code=self._trust_remote_code,
            )
        loaded = engine.open_model(
            folder=self.folder,
            source=self.source,
            tokenizer=self._word_tokenizer,
            kind=self.kind,
            device=self._device,
            dtype=self._dtype,
            trust_remote_code=self._trust_remote_code,
        )
        options = engine.EngineOptions(
            kind=self.kind,
            pll=self._pll,
            position=self._position,
            chat=self._chat,
            batch_tokens=self._batch_tokens,
            threads=self._threads,
        )
        return engine.Engine(loaded, self._word_tokenizer, options)


def _kept_label(model: str, base: Path) -> str:
    """The name of a model that was trained and kept by lmassay, whose folder is named after a digest; else empty."""
    for root in (base, Path()):
        label = read_card(root / Path(model).expanduser()).get("label")
        if isinstance(label, str):
            return label
    return ""


class SmolLM2(HuggingFace):
    """The default model: SmolLM2-135M-Instruct, a small causal model of English that comes in a Python package."""

    config_example = "model: {name: smollm2, threads: 2}"

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
        resources: dict[str, Annotated[float, Field(gt=0)]] | None = None,
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
            resources=resources,
        )
