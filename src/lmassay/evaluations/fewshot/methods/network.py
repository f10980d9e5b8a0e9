"""A language model with its weights free to be trained: hidden states, and the head where and for what it is needed.

On a CPU the numbers are float32. Where bfloat16 is chosen the weights stay float32 and the products are bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

from lmassay.errors import ConfigError, DataError, failure
from lmassay.evaluations.fewshot.methods import deberta
from lmassay.evaluations.fewshot.methods.batches import Batch
from lmassay.evaluations.fewshot.methods.heads import Head, causal_head, masked_head
from lmassay.evaluations.fewshot.methods.last_layer import last_layer, only_at
from lmassay.evaluations.fewshot.methods.learner import Item
from lmassay.models.hf.load import choose_device, read_tokenizer, window_of

Kind = Literal["masked", "causal"]
HeadKind = Literal["lm", "classifier"]
# transformers 4.5.1, with which FewNLU ran, had torch's own eps in ALBERT's head; the weights were made with 1e-12,
# which the checkpoints' configurations say and later versions follow.
_REFERENCE_ALBERT_EPS = 1e-5


class Network:
    """A transformer with its tokenizer on a device. ``module`` holds the parameters.

    ``drawn`` names those that no file had; ``reference``: numbers as in FewNLU's time.
    """

    def __init__(
        self,
        module: Any,
        tokenizer: Any,
        kind: Kind,
        device: torch.device,
        dtype: str = "float32",
        threads: int = 1,
        *,
        drawn: Sequence[str] = (),
        reference: bool = False,
    ) -> None:
        self.module, self.tokenizer, self.kind = module.to(device), tokenizer, kind
        self.device, self.dtype, self.threads = device, dtype, threads
        self.drawn, self.reference = tuple(drawn), reference
        if reference and self.family == "albert" and hasattr(module, "predictions"):
            module.predictions.LayerNorm.eps = _REFERENCE_ALBERT_EPS
        self._head: Head | None = None
        self.pad_id = padding(tokenizer)
        self.window = window_of(module, tokenizer)
        """The longest sequence it was made for, in tokens."""
        self._reads_types = kind == "masked" and reads_types(module.config)

    @property
    def family(self) -> str:
        return str(self.module.config.model_type)

    @property
    def backbone(self) -> Any:
        """The transformer without its head."""
        return self.module.base_model

    @property
    def words(self) -> torch.nn.Embedding:
        """The input embeddings."""
        embeddings: torch.nn.Embedding = self.module.get_input_embeddings()
        return embeddings

    @property
    def head(self) -> Head:
        if self._head is None:
            self._head = masked_head(self.module) if self.kind == "masked" else causal_head(self.module)
        return self._head

    def check_lengths(self, items: Sequence[Item]) -> None:
        longest = max(map(len, items), default=0)
        if self.window is not None and longest > self.window:
            raise ConfigError(
                f"max_seq_length: an example has {longest} tokens, but the model reads at most {self.window}; write "
                f"max_seq_length: {self.window} or less"
            )

    def inputs(self, batch: Batch, embeds: torch.Tensor | None = None) -> dict[str, Any]:
        """Arguments of the transformer; ``embeds`` stand in for the token ids."""
        own: dict[str, Any] = {"attention_mask": batch.attention}
        own |= {"input_ids": batch.ids} if embeds is None else {"inputs_embeds": embeds}
        own |= {"token_type_ids": batch.types} if self._reads_types else {}
        own |= {"use_cache": False} if self.kind == "causal" else {}
        return own

    def hidden(self, batch: Batch, embeds: torch.Tensor | None = None) -> torch.Tensor:
        """The last hidden states: rows × positions × size."""
        with self.precision():
            states: torch.Tensor = self.backbone(**self.inputs(batch, embeds)).last_hidden_state
        return states

    def hidden_at(self, batch: Batch, places: torch.Tensor) -> torch.Tensor:
        """The last hidden state at one position a row: rows × size."""
        layer = None if self.reference else last_layer(self.module)
        if layer is None:
            return self.hidden(batch)[torch.arange(len(places), device=places.device), places]
        with only_at(layer, places), self.precision():
            states: torch.Tensor = self.backbone(**self.inputs(batch)).last_hidden_state
        return states[:, 0]

    def decode(self, states: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of the words with the ids ``rows`` (of all words without) for hidden states, in float32."""
        with self.precision():
            return self.head.logits(states, rows, self.words.weight).float()

    def classify(self, batch: Batch, embeds: torch.Tensor | None = None) -> torch.Tensor:
        """The logits of a classification head."""
        with self.precision():
            logits: torch.Tensor = self.module(**self.inputs(batch, embeds)).logits
        return logits.float()

    def precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.dtype == "bfloat16" else nullcontext()


class DebertaNetwork(Network):
    """DeBERTa with the head of its pre-training reads the masks by the enhanced mask decoder, as it did then."""

    def hidden(self, batch: Batch, embeds: torch.Tensor | None = None) -> torch.Tensor:
        with self.precision():
            return deberta.lm_hidden(self.module, self.inputs(batch, embeds))


def padding(tokenizer: Any) -> int:
    """The padding token. Causal models without one take another: nothing looks at what stands behind a text's end."""
    known = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
    return int(next(token for token in known if token is not None))


def reads_types(config: Any) -> bool:
    """Whether token types are given to a family. ALBERT knows them but FewNLU gives it none; RoBERTa has only one."""
    return getattr(config, "type_vocab_size", 0) > 1 and config.model_type != "albert"


def open_network(model: Any, head: HeadKind = "lm", n_labels: int | None = None, *, reference: bool = False) -> Network:
    """The lmassay model ``model`` with fresh weights from its files. ``reference``: numbers as in FewNLU's time.

    New parts (a classifier) are drawn from torch's current state.
    """
    if "train" not in getattr(model, "can", ()):
        name = getattr(model, "name", type(model).__name__)
        raise ConfigError(f"model: {name} cannot be trained; take a local Hugging Face model, or a method without one")
    model.check()
    device = choose_device(model.device)
    dtype = _training_dtype(model.dtype, device)
    tokenizer = read_tokenizer(model.folder, model.trust_remote_code)
    if head == "lm" and model.kind == "masked" and tokenizer.mask_token_id is None:
        raise DataError(f"the tokenizer in {model.folder} has no mask token, which a masked model needs")
    module, drawn = _module(model, head, n_labels, tokenizer)
    enhanced = head == "lm" and deberta.is_deberta(module) and deberta.has_trained_head(module)
    family = DebertaNetwork if enhanced else Network
    return family(module, tokenizer, model.kind, device, dtype, model.threads or 1, drawn=drawn, reference=reference)


def _training_dtype(chosen: str, device: torch.device) -> str:
    if chosen == "float16":
        # Gradients leave float16's range; bfloat16 has float32's.
        able = device.type == "cuda" and torch.cuda.is_bf16_supported()
        return "bfloat16" if able else "float32"
    return chosen


def _module(model: Any, head: HeadKind, n_labels: int | None, tokenizer: Any) -> tuple[Any, list[str]]:
    """The transformer, and the names of its parameters that were drawn for want of saved ones."""
    family: Any = AutoModelForMaskedLM if model.kind == "masked" else AutoModelForCausalLM
    family = AutoModelForSequenceClassification if head == "classifier" else family
    common = {"trust_remote_code": model.trust_remote_code, "local_files_only": True}
    try:
        with quiet():
            config = AutoConfig.from_pretrained(model.folder, **common)
            if config.model_type == deberta.FAMILY:
                # The published weights have another head than transformers makes by default.
                config.legacy = not _holds(model.folder, "lm_predictions.lm_head.bias")
            if head == "classifier":
                config.num_labels = n_labels
                if config.pad_token_id is None:
                    # A causal classifier reads the last token that is no padding.
                    config.pad_token_id = padding(tokenizer)
            module, info = family.from_pretrained(
                model.folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                output_loading_info=True,
                **common,
            )
    except Exception as error:
        # Whatever is wrong with files that somebody else made.
        first = (str(error).strip().splitlines() or [failure(error)])[0][:300]
        raise DataError(f"the model in {model.folder} cannot be loaded for training: {first}") from error
    missing = sorted(info.get("missing_keys", ()))
    if head == "lm" and missing:
        raise DataError(
            f"the weights in {model.folder} lack {len(missing)} parts of a {model.kind} language model ({missing[0]} "
            "…), which would be filled with random numbers; take a checkpoint that has its language-model head"
        )
    return module, missing


def _holds(folder: Path, name: str) -> bool:
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as weights:
            if name in weights.keys():  # noqa: SIM118 - no mapping
                return True
    return False


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and advice from the library: a new classifier is meant to be new."""
    level = transformers.utils.logging.get_verbosity()
    bars = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.utils.logging.set_verbosity(level)
        if bars:
            transformers.utils.logging.enable_progress_bar()
