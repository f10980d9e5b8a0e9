"""Load the weights and the tokenizer of a model folder, and choose the device and the number format.

Weights are read from safetensors files only, and code in the folder is not run unless the user allows it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer

from lmassay.errors import ConfigError, DataError
from lmassay.models.hf.folder_errors import folder_problem
from lmassay.models.hf.source import Kind
from lmassay.models.hf.window import RELATIVE_POSITIONS

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory, with its tokenizer."""

    model: Any
    tokenizer: Any
    device: torch.device
    window: int | None
    """The longest sequence that the model supports, in tokens; None if it is not known."""


def choose_device(wanted: str, must_exist: bool = True) -> torch.device:
    """The device with this name. For ``auto``, CUDA or Apple's MPS if this machine has it, else the CPU.

    An Intel GPU (XPU) is only used if it is named. With ``must_exist=False``, the device may be one that only the
    workers of a cluster have. Raises a ConfigError for any other name, and for a device that does not exist.
    """
    if wanted == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        if torch.backends.mps.is_available():
            return torch.device("mps")
        return torch.device("cpu")
    not_a_device = f"model.device: '{wanted}' is not a device; write auto, cpu, cuda, cuda:1, mps or xpu"
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise ConfigError(not_a_device) from error
    # Torch has further types, such as "meta", on which a model cannot run.
    if device.type not in ("cpu", "cuda", "mps", "xpu"):
        raise ConfigError(not_a_device)
    if must_exist:
        _require_device(device)
    return device


def _require_device(device: torch.device) -> None:
    """Raise a ConfigError if this machine does not have the device."""
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("model.device: there is no CUDA device here; write auto or cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise ConfigError(f"model.device: there is no {device} here; the last CUDA device is cuda:{count - 1}")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("model.device: there is no MPS device here; write auto or cpu")
    if device.type == "xpu" and not torch.xpu.is_available():
        raise ConfigError("model.device: there is no XPU device here; write auto or cpu")


def choose_dtype(wanted: str, saved_as: str | None, device: torch.device) -> str:
    """The name of the number format in which the model computes.

    This is the format ``wanted``, unless that is ``auto``. Then:

    - On a CPU it is float32, unless the weights were saved as bfloat16 and the CPU has instructions for that format;
      without such instructions, bfloat16 is many times slower.
    - On an accelerator it is the format that the weights were saved in, if that is bfloat16 or float16, else float32.
      A CUDA device without bfloat16 computes in float32 instead.
    """
    if wanted != "auto":
        return wanted
    if saved_as not in ("bfloat16", "float16"):
        return "float32"
    if device.type == "cpu":
        if saved_as == "bfloat16" and _cpu_has_bfloat16():
            return "bfloat16"
        return "float32"
    if saved_as == "bfloat16" and device.type == "cuda" and not _cuda_has_bfloat16():
        return "float32"
    return saved_as


def _cuda_has_bfloat16() -> bool:
    # If only the workers of a cluster have the device, assume that it supports bfloat16. A worker whose device does not
    # support bfloat16 then refuses to answer.
    return not torch.cuda.is_available() or torch.cuda.is_bf16_supported()


def _cpu_has_bfloat16() -> bool:
    # Linux only; on other systems float32 is the safe choice.
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def load(
    folder: Path, tokenizer: Any, kind: Kind, device: torch.device, dtype: str, trust_remote_code: bool
) -> LoadedModel:
    """Load the weights of a model folder whose tokenizer is already loaded.

    Raises a DataError if they cannot be read, lack the head of this kind of model, or need a mask token that the
    tokenizer does not have.
    """
    with quiet_loading():
        model = _model(folder, kind, dtype, trust_remote_code)
    if kind == "masked" and tokenizer.mask_token_id is None:
        raise DataError(f"the tokenizer in {folder} has no mask token, which a masked model needs")
    model.eval().to(device)
    return LoadedModel(model, tokenizer, device, window_of(model, tokenizer))


def check_architecture(folder: Path) -> None:
    """Raise a DataError if transformers cannot load a model of this architecture without code from its folder."""
    try:
        with quiet_loading():
            AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:
        # For a configuration that the library does not understand, it may raise anything.
        message = folder_problem(folder, error)
        if list(folder.glob("*.py")):
            message += "; it comes with its own code: if you trust it, set model.trust_remote_code: true"
        raise DataError(message) from error


def check_head(folder: Path, kind: Kind, trust_remote_code: bool) -> None:
    """Raise a DataError if the weights lack the head of a language model. They are loaded to find out."""
    with quiet_loading():
        _model(folder, kind, "float32", trust_remote_code)


def read_tokenizer(folder: Path, trust_remote_code: bool) -> Any:
    """The tokenizer of a model folder. Raises a DataError if it cannot be read."""
    try:
        with quiet_loading():
            tokenizer = AutoTokenizer.from_pretrained(
                folder, trust_remote_code=trust_remote_code, local_files_only=True
            )
    except Exception as error:
        # The library also reads config.json here. It may raise anything for a damaged file.
        raise DataError(f"the tokenizer in {folder} cannot be read: {folder_problem(folder, error)}") from error
    # lmassay itself reports texts that are too long; the library would also print a warning. This marks the warning as
    # already printed.
    tokenizer.deprecation_warnings["sequence-length-is-longer-than-the-specified-maximum"] = True
    return tokenizer


def _model(folder: Path, kind: Kind, dtype: str, trust_remote_code: bool) -> Any:
    """Load the weights into the class for this kind of model. The files must have all weights of this class."""
    model_classes: dict[Kind, Any] = {
        "masked": AutoModelForMaskedLM,
        "causal": AutoModelForCausalLM,
        "encoder-decoder": AutoModelForSeq2SeqLM,
    }
    try:
        model, info = model_classes[kind].from_pretrained(
            folder,
            dtype=DTYPES[dtype],
            use_safetensors=True,
            trust_remote_code=trust_remote_code,
            local_files_only=True,
            output_loading_info=True,
        )
    except Exception as error:
        # Anything can be wrong with the files: a damaged file, shapes that do not match, an unknown architecture.
        raise DataError(folder_problem(folder, error)) from error
    missing = sorted(info.get("missing_keys", ()))
    if missing:
        raise DataError(
            f"the weights in {folder} lack {len(missing)} parts of a {kind} language model ({missing[0]} …), which "
            "would be filled with random numbers; use a checkpoint with its language-model head"
        )
    return model


def window_of(model: Any, tokenizer: Any) -> int | None:
    """The longest sequence that a model reads, in tokens; None if neither the model nor the tokenizer states it."""
    limits = []
    for limit in (text_positions(model), tokenizer.model_max_length):
        # A tokenizer without a limit states a huge number, 10**30.
        if limit is not None and 0 < limit < 10**9:
            limits.append(int(limit))
    return min(limits, default=None)


def text_positions(model: Any) -> int | None:
    """The number of tokens for which a model has positions, whatever its tokenizer states; None if it has no limit."""
    config = model.config.get_text_config()
    positions = _positions(config, "max_encoder_position_embeddings")
    if positions is not None and config.model_type in ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet"):
        # The first position of these models is the id of the padding token + 1, so fewer positions remain for text.
        positions -= (config.pad_token_id or 0) + 1
    return positions


def decoder_positions(model: Any) -> int | None:
    """The longest sequence that the decoder of an encoder-decoder model writes, in tokens; None if it has no limit."""
    return _positions(model.config.get_text_config(), "max_decoder_position_embeddings")


def _positions(config: Any, own_name: str) -> int | None:
    """The number of positions of a model; None if its configuration states none, or if its positions are relative.

    ``own_name`` is the key for the encoder or the decoder alone, in models such as LED (Longformer encoder-decoder)
    that have separate limits. It is looked up first.
    """
    if config.model_type in RELATIVE_POSITIONS:
        # Positions are relative, so the number in the configuration is only the length in training.
        return None
    for name in (own_name, "max_position_embeddings", "n_positions"):
        positions = getattr(config, name, None)
        if positions:
            return int(positions)
    return None


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence the progress bars and warnings of transformers while loading; lmassay reports what matters."""
    logger = logging.getLogger("transformers")
    level = logger.level
    bars = transformers.utils.logging.is_progress_bar_enabled()
    logger.setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        logger.setLevel(level)
        if bars:
            transformers.utils.logging.enable_progress_bar()
