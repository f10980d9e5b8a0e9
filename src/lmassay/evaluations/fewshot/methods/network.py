"""A trainable language model, whose head can be run at single positions and for single words.

That saves most of the head's work, because few-shot methods need the logits of a few words at one position only.
Weights are float32 on every device. With the dtype bfloat16, matrix products are computed in bfloat16 (autocast).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors import safe_open
from torch.nn.functional import gelu
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

from lmassay.errors import ConfigError, DataError, error_with_location
from lmassay.evaluations.fewshot.methods import deberta
from lmassay.evaluations.fewshot.methods.learner import Batch, EncodedItem, collate
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.models.hf.load import choose_device, read_tokenizer, window_of
from lmassay.redaction import excerpt

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


Kind = Literal["masked", "causal"]
HeadKind = Literal["lm", "classifier"]
TensorFunction = Callable[[torch.Tensor], torch.Tensor]
# Families whose last layer is built like BERT's.
_LIKE_BERT = ("bert", "roberta", "xlm-roberta", "camembert", "electra")
# Texts are truncated to this number of tokens to compute their features.
_FEATURE_MAX_TOKENS = 128
_FEATURE_BATCH_SIZE = 16
# The epsilon of the layer norm in ALBERT's head. transformers 4.5.1, which FewNLU used, had torch's default there. The
# weights were trained with 1e-12, which is in the checkpoints' configurations and which later versions use.
_REFERENCE_ALBERT_EPS = 1e-5


class Network:
    """A transformer with its tokenizer on a device. ``module`` holds the parameters.

    ``new_parameters`` are the names of parameters that were initialized at random, because the checkpoint does not
    have them. ``reference`` reproduces the numbers of the library versions that FewNLU used.
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
        new_parameters: Sequence[str] = (),
        reference: bool = False,
    ) -> None:
        self.module = module.to(device)
        self.tokenizer = tokenizer
        self.kind = kind
        self.device = device
        self.dtype = dtype
        self.threads = threads
        self.new_parameters = tuple(new_parameters)
        self.reference = reference
        if reference and self.family == "albert" and hasattr(module, "predictions"):
            module.predictions.LayerNorm.eps = _REFERENCE_ALBERT_EPS
        self._head: Head | None = None
        self.pad_id = padding_id(tokenizer)
        self.window = window_of(module, tokenizer)
        """The longest sequence that the model can read, in tokens; None if it is not known."""
        self._reads_types = kind == "masked" and reads_types(module.config)

    @property
    def family(self) -> str:
        """The architecture, such as ``bert`` or ``deberta-v2``."""
        return str(self.module.config.model_type)

    @property
    def backbone(self) -> Any:
        """The transformer without its head."""
        return self.module.base_model

    @property
    def input_embeddings(self) -> torch.nn.Embedding:
        """The input embeddings, one row per token of the vocabulary."""
        embeddings: torch.nn.Embedding = self.module.get_input_embeddings()
        return embeddings

    @property
    def head(self) -> Head:
        """The language-model head."""
        if self._head is None:
            self._head = masked_head(self.module) if self.kind == "masked" else causal_head(self.module)
        return self._head

    def check_head(self) -> None:
        """Raise a DataError if the head does not compute the same logits as the model itself, tested on a few tokens.

        Families of models scale and cap their logits in many ways, and new families are added. The check must come
        before the first training step: in evaluation mode, RWKV changes its weights in place, and changes them back
        when it is next trained, which must not happen between the forward and the backward pass.
        """
        # It does not matter which tokens these are.
        batch = collate([EncodedItem([0, 1, 2], [0, 0, 0])], self.pad_id, self.device)
        inputs = self.inputs(batch)
        attention_type = getattr(self.backbone, "attention_type", None)
        # Dropout would draw random numbers, and bfloat16 would be too coarse.
        with evaluating(self.module), torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            expected = self.module(**inputs).logits
            logits = self.head.logits(self.backbone(**inputs).last_hidden_state)
        if attention_type is not None and self.backbone.attention_type != attention_type:
            # BigBird uses full attention from its first short text on.
            self.backbone.set_attention_type(attention_type)
        tolerance = 1e-3 * max(1.0, float(expected.abs().max()))
        if logits.shape != expected.shape or not torch.allclose(logits, expected, rtol=0.0, atol=tolerance):
            raise DataError(
                f"lmassay does not know how {self.family} models compute their logits; use another model, or a method "
                "without training"
            )

    def check_lengths(self, items: Sequence[EncodedItem]) -> None:
        """Raise a ConfigError if an item is longer than the model's window."""
        longest = max(map(len, items), default=0)
        if self.window is not None and longest > self.window:
            raise ConfigError(
                f"max_seq_length: an example has {longest} tokens, but the model reads at most {self.window}; write "
                f"max_seq_length: {self.window} or less"
            )

    def inputs(self, batch: Batch, embeds: torch.Tensor | None = None) -> dict[str, Any]:
        """The arguments for the transformer. ``embeds``, if given, are input embeddings that replace the token ids."""
        arguments: dict[str, Any] = {"attention_mask": batch.attention}
        if embeds is None:
            arguments["input_ids"] = batch.ids
        else:
            arguments["inputs_embeds"] = embeds
        if self._reads_types:
            arguments["token_type_ids"] = batch.types
        if self.kind == "causal":
            arguments["use_cache"] = False
        return arguments

    def hidden(self, batch: Batch, embeds: torch.Tensor | None = None) -> torch.Tensor:
        """The last hidden states: rows × positions × size."""
        with self.precision():
            states: torch.Tensor = self.backbone(**self.inputs(batch, embeds)).last_hidden_state
        return states

    def hidden_at(self, batch: Batch, positions: torch.Tensor) -> torch.Tensor:
        """The last hidden state at one position per row: rows × size."""
        # Only one position is read, so the last layer is computed there alone. ``reference`` computes it at all
        # positions, as FewNLU does.
        layer = None if self.reference else last_layer(self.module)
        if layer is None:
            rows = torch.arange(len(positions), device=positions.device)
            return self.hidden(batch)[rows, positions]
        with only_at(layer, positions), self.precision():
            states: torch.Tensor = self.backbone(**self.inputs(batch)).last_hidden_state
        return states[:, 0]

    def decode(self, states: torch.Tensor, token_ids: torch.Tensor | None = None) -> torch.Tensor:
        """The logits of these tokens (by default of the whole vocabulary) for hidden states, in float32."""
        with self.precision():
            return self.head.logits(states, token_ids, self.input_embeddings.weight).float()

    def classify(self, batch: Batch, embeds: torch.Tensor | None = None) -> torch.Tensor:
        """The logits of a classification head."""
        with self.precision():
            logits: torch.Tensor = self.module(**self.inputs(batch, embeds)).logits
        return logits.float()

    def precision(self) -> AbstractContextManager[Any]:
        """The context in which products are computed: bfloat16 if that was chosen."""
        context: AbstractContextManager[Any] = nullcontext()
        if self.dtype == "bfloat16":
            context = torch.autocast(self.device.type, torch.bfloat16)
        return context


class DebertaNetwork(Network):
    """DeBERTa with its pre-training head: masks are read by the enhanced mask decoder, as in pre-training."""

    def hidden(self, batch: Batch, embeds: torch.Tensor | None = None) -> torch.Tensor:
        """The states that the language-model head reads: rows × positions × size."""
        with self.precision():
            return deberta.lm_hidden(self.module, self.inputs(batch, embeds))


def padding_id(tokenizer: Any) -> int:
    """The id of the padding token.

    Causal models without one can use any other token, because no token attends to those after it.
    """
    if tokenizer.pad_token_id is not None:
        return int(tokenizer.pad_token_id)
    if tokenizer.eos_token_id is not None:
        return int(tokenizer.eos_token_id)
    return 0


def reads_types(config: Any) -> bool:
    """Whether a family of models gets token types.

    RoBERTa has only one type. ALBERT has several, but FewNLU passes none to it.
    """
    return getattr(config, "type_vocab_size", 0) > 1 and config.model_type != "albert"


def open_network(
    model: Any,
    head: HeadKind = "lm",
    n_labels: int | None = None,
    *,
    reference: bool = False,
    check_head: bool = True,
) -> Network:
    """Load the weights of an lmassay model as a network that can be trained.

    ``check_head=False`` is for callers that need only hidden states.

    Parts that the files lack (a classification head) are initialized from torch's current random state. ``reference``
    reproduces the numbers of the library versions that FewNLU used.
    """
    if "train" not in getattr(model, "can", ()):
        name = getattr(model, "name", type(model).__name__)
        raise ConfigError(
            f"model: {name} cannot be trained; use a local Hugging Face model, or a method without training"
        )
    model.check()
    device = choose_device(model.device)
    dtype = _training_dtype(model.dtype, device)
    tokenizer = read_tokenizer(model.folder, model.trust_remote_code)
    if head == "lm" and model.kind == "masked" and tokenizer.mask_token_id is None:
        raise DataError(f"the tokenizer in {model.folder} has no mask token, which a masked model needs")
    module, new_parameters = _module(model, head, n_labels, tokenizer)
    enhanced = head == "lm" and deberta.is_deberta(module) and deberta.has_trained_head(module)
    network_class = DebertaNetwork if enhanced else Network
    network = network_class(
        module,
        tokenizer,
        model.kind,
        device,
        dtype,
        model.threads or 1,
        new_parameters=new_parameters,
        reference=reference,
    )
    if head == "lm" and check_head:
        network.check_head()
    return network


def _training_dtype(chosen: str, device: torch.device) -> str:
    if chosen == "float16":
        # Gradients overflow in float16; bfloat16 has the range of float32.
        has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        return "bfloat16" if has_bfloat16 else "float32"
    return chosen


def _module(model: Any, head: HeadKind, n_labels: int | None, tokenizer: Any) -> tuple[Any, list[str]]:
    """The transformer, and the names of parameters that were initialized at random because no file has them."""
    auto_class: Any = AutoModelForCausalLM
    if head == "classifier":
        auto_class = AutoModelForSequenceClassification
    elif model.kind == "masked":
        auto_class = AutoModelForMaskedLM
    common = {"trust_remote_code": model.trust_remote_code, "local_files_only": True}
    try:
        with quiet():
            config = AutoConfig.from_pretrained(model.folder, **common)
            if config.model_type == deberta.FAMILY:
                # The head of the published weights is not the one that transformers creates by default.
                config.legacy = not _has_weights(model.folder, "lm_predictions.lm_head.bias")
            if config.model_type == "rwkv":
                # RWKV divides its weights in evaluation mode, against overflows in half precision. A model that is
                # saved in this state would be wrong.
                config.rescale_every = 0
            if head == "classifier":
                config.num_labels = n_labels
                if config.pad_token_id is None:
                    # A causal classifier reads the last token that is not padding.
                    config.pad_token_id = padding_id(tokenizer)
            module, info = auto_class.from_pretrained(
                model.folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                output_loading_info=True,
                **common,
            )
    except Exception as error:
        # Files from elsewhere can be wrong in any way. Messages of transformers may fill a page, so only the first line
        # is shown.
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else error_with_location(error)
        raise DataError(f"the model in {model.folder} cannot be loaded for training: {excerpt(reason, 300)}") from error
    missing = sorted(info.get("missing_keys", ()))
    if head == "lm" and missing:
        raise DataError(
            f"the weights in {model.folder} lack {len(missing)} parts of a {model.kind} language model ({missing[0]} "
            "…), which would be random numbers; use a checkpoint that has its language-model head"
        )
    return module, missing


def _has_weights(folder: Path, name: str) -> bool:
    """Whether a checkpoint has a parameter of this name."""
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as weights:
            if name in weights.keys():  # noqa: SIM118 - not a mapping
                return True
    return False


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Inside this context, a network and its parts are in evaluation mode."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, was_training in modes:
            part.training = was_training


@contextmanager
def quiet() -> Iterator[None]:
    """Hide progress bars and warnings of transformers, such as that a new classifier is not trained yet."""
    verbosity = transformers.utils.logging.get_verbosity()
    has_bars = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.utils.logging.set_verbosity(verbosity)
        if has_bars:
            transformers.utils.logging.enable_progress_bar()


# --- the language-model head in two steps, so that it can be run at chosen positions and for chosen tokens ------------


class _FewRows(torch.autograd.Function):  # type: ignore[misc]  # torch is Any where it is not installed
    """Selects some rows of the input embeddings. Their gradient is sparse.

    A dense gradient would be a matrix as large as the embeddings and consist almost only of zeros. It would have to be
    added to the gradient from the model's input, which is as expensive as computing that gradient.
    """

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        ctx.rows = rows
        ctx.shape = weight.shape
        return weight[rows]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        indices = ctx.rows.unsqueeze(0)
        gradient = torch.sparse_coo_tensor(indices, gradients[0], ctx.shape, check_invariants=False)
        # None: the row numbers have no gradient.
        return gradient, None


@dataclass(frozen=True, slots=True)
class Head:
    """The language-model head: a transformation of the last hidden state, then a matrix with one row per token."""

    transform: TensorFunction
    """Applied to the hidden states."""
    weight: Callable[[], torch.Tensor]
    """Returns the matrix."""
    bias: Callable[[], torch.Tensor | None]
    finish: TensorFunction
    """Applied to the logits; in most families it changes nothing."""

    def logits(
        self,
        states: torch.Tensor,
        token_ids: torch.Tensor | None = None,
        input_embeddings: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The logits of all tokens, or of those whose ids are given in a vector.

        With ``token_ids``, the gradient of the matrix is sparse if it is also that of the input embeddings (tied
        weights).
        """
        weight = self.weight()
        bias = self.bias()
        if token_ids is not None:
            is_tied = weight is input_embeddings
            weight = _FewRows.apply(weight, token_ids) if is_tied else weight[token_ids]
            if bias is not None:
                bias = bias[token_ids]
        logits = torch.nn.functional.linear(self.transform(states), weight, bias)
        return self.finish(logits)


def masked_head(model: Any) -> Head:
    """The head of a masked language model, recognized by the names of its parts."""
    if _has(model, "cls.predictions.transform"):  # BERT and similar models, DeBERTa as transformers saves it
        return _linear(model.cls.predictions.transform, model.cls.predictions.decoder)
    if _has(model, "lm_predictions.lm_head.LayerNorm"):  # DeBERTa as Microsoft saves it, with tied weights
        part = model.lm_predictions.lm_head
        input_embeddings = model.get_input_embeddings()
        return Head(
            lambda states: part.LayerNorm(part.transform_act_fn(part.dense(states))),
            lambda: input_embeddings.weight,
            lambda: part.bias,
            _unchanged,
        )
    if _has(model, "lm_head.layer_norm"):  # RoBERTa and similar models
        part = model.lm_head
        return _linear(lambda states: part.layer_norm(gelu(part.dense(states))), part.decoder)
    if _has(model, "predictions.LayerNorm"):  # ALBERT
        part = model.predictions
        return _linear(lambda states: part.LayerNorm(part.activation(part.dense(states))), part.decoder)
    if _has(model, "generator_predictions"):  # ELECTRA's generator
        return _linear(model.generator_predictions, model.generator_lm_head)
    if _has(model, "vocab_transform"):  # DistilBERT
        return _linear(
            lambda states: model.vocab_layer_norm(model.activation(model.vocab_transform(states))),
            model.vocab_projector,
        )
    if _has(model, "head.norm") and _has(model, "decoder"):  # ModernBERT
        return _linear(model.head, model.decoder)
    raise DataError(
        f"the language-model head of {model.config.model_type} models is unknown; use BERT, RoBERTa, ALBERT, DeBERTa, "
        "ELECTRA's generator, DistilBERT or ModernBERT, or a causal language model"
    )


def causal_head(model: Any) -> Head:
    """The head of a causal language model: the output embeddings. Some families also scale or cap the logits."""
    config = model.config.get_text_config()
    scale = 1.0
    # Cohere and Falcon-H1 multiply the logits.
    for name in ("logit_scale", "lm_head_multiplier"):
        scale *= getattr(config, name, None) or 1.0
    # In Granite and others the logits are divided by this number; in HyperCLOVA X they are multiplied by it.
    scaling = getattr(config, "logits_scaling", None) or 1.0
    if config.model_type == "hyperclovax":
        scale *= scaling
    else:
        scale /= scaling
    # Gemma, RecurrentGemma and xLSTM cap the logits.
    cap: float | None = None
    for name in ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap"):
        cap = cap or getattr(config, name, None)

    def finish(logits: torch.Tensor) -> torch.Tensor:
        if scale != 1.0:
            logits = logits * scale
        if cap is not None:
            logits = torch.tanh(logits / cap) * cap
        return logits

    transform: TensorFunction = _unchanged
    if _has(model, "lm_head.norm") and _has(model, "decoder"):  # ModernBERT's decoder
        transform = model.lm_head
    return _linear(transform, model.get_output_embeddings(), finish)


def _unchanged(states: torch.Tensor) -> torch.Tensor:
    return states


def _linear(transform: TensorFunction, last: Any, finish: TensorFunction = _unchanged) -> Head:
    # Weight and bias are looked up whenever they are used, because LoRA and tied embeddings may replace the tensors.
    return Head(transform, lambda: last.weight, lambda: getattr(last, "bias", None), finish)


def _has(model: Any, path: str) -> bool:
    for name in path.split("."):
        model = getattr(model, name, None)
        if model is None:
            return False
    return True


# --- the last layer, at the mask only ---------------------------------------------------------------------------------


# A cloze (a text with a mask) needs only the state at its mask, so the last layer is computed there alone. The earlier
# layers are needed at all positions, because the last one attends to them. This saves about 7 % of the work in a
# network with 12 layers, and a fifth in one with 4. Without dropout, the results are the same up to rounding. With
# dropout, fewer random numbers are drawn than for all positions.


def last_layer(module: Any) -> Any | None:
    """The last layer, if it is built like BERT's; None for other families."""
    config = module.config
    if config.model_type not in _LIKE_BERT:
        return None
    if getattr(config, "_attn_implementation", None) not in ("sdpa", "eager"):
        return None
    encoder = getattr(module.base_model, "encoder", None)
    layers = getattr(encoder, "layer", [None])
    return layers[-1]


@contextmanager
def only_at(layer: Any, positions: torch.Tensor) -> Iterator[None]:
    """Inside this context, the layer computes a single position per row, which is given in ``positions``."""
    layer.forward = partial(_forward_at, layer, positions)
    try:
        yield
    finally:
        # Without this attribute, the object has the ``forward`` of its class again.
        del layer.forward


def _forward_at(
    layer: Any, positions: torch.Tensor, states: torch.Tensor, mask: torch.Tensor | None = None, *_: Any, **__: Any
) -> torch.Tensor:
    """BERT's layer with a single query per row, instead of one per position."""
    attention = layer.attention.self
    rows = torch.arange(len(states), device=states.device)
    chosen = states[rows, positions].unsqueeze(1)
    if mask is not None and mask.shape[2] > 1:
        # A mask with one row per query: only that of the chosen position is needed.
        mask = mask[rows, :, positions].unsqueeze(2)

    def by_head(projected: torch.Tensor) -> torch.Tensor:
        # Rows × positions × size → rows × heads × positions × size of a head.
        heads = projected.view(len(states), -1, attention.num_attention_heads, attention.attention_head_size)
        return heads.transpose(1, 2)

    queries = by_head(attention.query(chosen))
    keys = by_head(attention.key(states))
    values = by_head(attention.value(states))
    dropout = attention.dropout.p if attention.training else 0.0
    mixed = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, dropout_p=dropout, scale=attention.scaling
    )
    heads_joined = mixed.transpose(1, 2).flatten(2)
    attended = layer.attention.output(heads_joined, chosen)
    output: torch.Tensor = layer.feed_forward_chunk(attended)
    return output


# --- randomness -------------------------------------------------------------------------------------------------------


@contextmanager
def seeded(seed: int, device: torch.device, threads: int) -> Iterator[None]:
    """Inside this context, what torch draws depends on the seed alone. Draws after it are not affected.

    The number of threads is set as well, because the rounding of sums depends on it.
    """
    threads_before = torch.get_num_threads()
    with untouched_draws(device):
        torch.manual_seed(seed)
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(threads_before)


@contextmanager
def untouched_draws(device: torch.device) -> Iterator[None]:
    """What torch draws inside this context does not change the draws after it."""
    gpus: Sequence[torch.device] = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        yield


# --- features of texts before any training ----------------------------------------------------------------------------


def features_of(model: Any, task: NluTask, examples: Sequence[InputExample]) -> NDArray[np.float64]:
    """One row per example: the mean of the last hidden states over the tokens of its text."""
    if model is None or "train" not in getattr(model, "can", ()):
        raise ConfigError("task.splits.strategy: model_informed splits need a local Hugging Face model; give one")
    net = open_network(model, check_head=False)
    items = []
    for example in examples:
        text = f"{example.text_a} {example.text_b or ''}".strip()
        tokens = net.tokenizer(text, truncation=True, max_length=_FEATURE_MAX_TOKENS)["input_ids"]
        items.append(EncodedItem(tokens, [0] * len(tokens)))
    features = []
    net.module.eval()
    with torch.no_grad(), seeded(0, net.device, net.threads):
        for start in range(0, len(items), _FEATURE_BATCH_SIZE):
            batch = collate(items[start : start + _FEATURE_BATCH_SIZE], net.pad_id, net.device)
            states = net.backbone(**net.inputs(batch)).last_hidden_state
            # Padding does not count in the mean.
            weights = batch.attention.unsqueeze(-1).to(states.dtype)
            means = (states * weights).sum(1) / weights.sum(1)
            features.append(means.double().cpu().numpy())
    return np.concatenate(features)
