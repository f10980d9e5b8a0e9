"""Convert GGUF files (llama.cpp's format) to ordinary model folders in float32.

A file is converted once, and the folder is kept in the user's cache. transformers can read a GGUF file directly, but
unpacks it again at every load or, for some architectures, at every forward pass.
"""

from __future__ import annotations

import contextlib
import functools
import io
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmassay.errors import DataError, error_with_location
from lmassay.models import cache
from lmassay.storage.cache import require_space
from lmassay.storage.files import require_file, sha256
from lmassay.storage.provenance import versions

_FLOAT32_BYTES = 4
# Bytes for the tokenizer's files.
_MARGIN = 50_000_000

# How a byte-pair tokenizer splits text before it merges pairs, by llama.cpp's names. The first group splits off single
# digits and otherwise splits like GPT-2; transformers does not know these names and would join a digit to the space
# before it.
_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
# These split exactly like GPT-2.
_AS_GPT2 = frozenset({"gpt-2", "phi-2", "mpt", "olmo", "jais", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de"})
# These keep a word whole if it is in the vocabulary, and begin a text with BOS unless the file says otherwise: Llama 3,
# the models that split text like Llama 3, and Mistral's tekken, which splits text in its own way.
_KEEPS_KNOWN_WORDS = frozenset(
    {
        "llama3",
        "llama-v3",
        "llama-bpe",
        "falcon3",
        "falcon-h1",
        "pixtral",
        "midm-2.0",
        "lfm2",
        "jina-v5-nano",
        "tekken",
    }
)

# Held during a conversion: it needs a lot of memory, and silences standard error for the whole process.
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Header:
    """What a GGUF file says about itself."""

    architecture: str
    parameters: int
    """The number of weights."""
    tokenizer: str
    """The kind of tokenizer, by llama.cpp's name: ``gpt2`` is any byte-pair tokenizer, ``llama`` SentencePiece."""
    pre_tokenizer: str
    """How a byte-pair tokenizer splits text before it merges pairs, by llama.cpp's name; may be empty."""
    adds_bos: bool
    adds_eos: bool


def converted(path: Path, report: Callable[[str], None] = lambda _: None, *, name: str = "") -> Path:
    """The folder with the float32 version of a GGUF file, for ``from_pretrained``; it is written at the first call.

    ``report`` receives messages about the progress. ``name`` is recorded as the model's name; by default, that of the
    file.
    """
    require_file(path, "GGUF")
    digest = sha256(path)
    folder = cache.gguf_folder(digest)
    if folder.is_dir():
        return folder
    cache.require_converter(f"reading {path.name}")

    def fill(new: Path) -> None:
        header = _convert(path, new, report)
        card = {
            "name": name or path.stem,
            "source": path.name,
            "sha256": digest,
            "architecture": header.architecture,
            "parameters": header.parameters,
            "dtype": "float32",
            "versions": versions(),
        }
        cache.write_card(new, card)

    with _one_at_a_time:
        return cache.populated(folder, fill)


def _convert(path: Path, new: Path, report: Callable[[str], None]) -> _Header:
    """Write the converted model and its tokenizer into the folder ``new``."""
    # Imported before standard error is silenced: transformers writes its warnings to the stream that was standard error
    # when it was imported.
    import transformers  # noqa: F401
    from safetensors import SafetensorError

    reader, header = _open_gguf(path)
    require_space(new.parent, _FLOAT32_BYTES * header.parameters + _MARGIN)
    report(f"converting {path.name}, {header.parameters / 1e6:.1f} million parameters, to float32; this is done once")
    try:
        with _in_own_folder(path) as file, _read_once(reader), _quiet():
            model, used = _model(file)
            tokenizer, is_known = _tokenizer(file, header)
    except Exception as error:
        # transformers may raise anything for a file that it does not understand.
        raise DataError(
            f"{path} (architecture {header.architecture!r}) cannot be converted: {error_with_location(error)}; "
            f"use the same model as a folder with safetensors weights"
        ) from error
    if used != header.parameters:
        report(f"note: {header.parameters - used} numbers of {path.name} are not used by {type(model).__name__}")
    if not is_known:
        pre_tokenizer = header.pre_tokenizer or "unnamed"
        report(f"note: {path.name} splits text in an unknown way ({pre_tokenizer}); it is split as for GPT-2")
    try:
        with _quiet():
            model.save_pretrained(new, max_shard_size="1000GB")
            tokenizer.save_pretrained(new)
    except SafetensorError as error:
        raise DataError(f"cannot write to {new.parent}: {error}; make room or set LMASSAY_CACHE") from error
    return header


def _open_gguf(path: Path) -> tuple[Any, _Header]:
    """Open a GGUF file: a reader that has read everything except for the weights, and the header."""
    from gguf import GGUFReader

    class Reader(GGUFReader):  # type: ignore[misc]
        """Reads from a plain array: reading the words of a vocabulary from a ``memmap`` is several times slower."""

        data: Any

        def _get(self, *arguments: Any, **options: Any) -> Any:
            # The plain array is a view of the same memory.
            self.data = np.asarray(self.data)
            return super()._get(*arguments, **options)

    try:
        reader = Reader(path)
        # Single values only: the others are the vocabulary and its merges, which are large.
        fields = {key: field.contents() for key, field in reader.fields.items() if len(field.data) == 1}
        parameters = sum(int(tensor.n_elements) for tensor in reader.tensors)
        architecture = str(fields["general.architecture"])
    except Exception as error:
        # A damaged file can break the reader anywhere.
        raise DataError(
            f"{path} is not a complete GGUF file: {error_with_location(error)}; download it again"
        ) from error
    if int(fields.get("split.count", 1)) > 1:
        raise DataError(f"{path} is one part of a split model; join the parts with llama-gguf-split --merge")
    tokenizer = str(fields.get("tokenizer.ggml.model", ""))
    pre_tokenizer = str(fields.get("tokenizer.ggml.pre", ""))
    adds_bos_by_default = tokenizer == "llama" or pre_tokenizer in _KEEPS_KNOWN_WORDS
    header = _Header(
        architecture=architecture,
        parameters=parameters,
        tokenizer=tokenizer,
        pre_tokenizer=pre_tokenizer,
        adds_bos=bool(fields.get("tokenizer.ggml.add_bos_token", adds_bos_by_default)),
        adds_eos=bool(fields.get("tokenizer.ggml.add_eos_token", False)),
    )
    return reader, header


def _model(path: Path) -> tuple[Any, int]:
    """The model with its weights, and how many of the file's numbers it uses."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    auto: Any = AutoModelForCausalLM
    unpack: Any = load_gguf_checkpoint
    config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name, trust_remote_code=False)
    # Without memory for weights, which are assigned below.
    with torch.device("meta"):
        model = auto.from_config(config, dtype=torch.float32, trust_remote_code=False)
    unpacked = unpack(str(path), return_tensors=True, model_to_load=model)["tensors"]
    weights = {name: tensor.to(torch.float32).contiguous() for name, tensor in unpacked.items()}
    unexpected = model.load_state_dict(weights, strict=False, assign=True).unexpected_keys
    model.tie_weights()
    missing = [name for name, tensor in model.state_dict().items() if tensor.is_meta]
    if unexpected or missing:
        raise ValueError(f"unexpected weights: {unexpected[:3]}, missing weights: {missing[:3]}")
    return model, sum(tensor.numel() for tensor in weights.values())


def _tokenizer(path: Path, header: _Header) -> tuple[Any, bool]:
    """The tokenizer, and whether it certainly splits text in the same way as the tokenizer in the file."""
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        path.parent,
        gguf_file=path.name,
        trust_remote_code=False,
        add_bos_token=header.adds_bos,
        add_eos_token=header.adds_eos,
    )
    backend = tokenizer.backend_tokenizer
    # Only byte-pair tokenizers have a choice of how text is split.
    if header.tokenizer != "gpt2" or header.pre_tokenizer in _AS_GPT2:
        return tokenizer, True
    if header.pre_tokenizer in _SINGLE_DIGITS:
        steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
        return tokenizer, True
    backend.model.ignore_merges = header.pre_tokenizer in _KEEPS_KNOWN_WORDS
    # transformers sets a sequence of steps if it knows the name, and leaves GPT-2's single step if it does not.
    return tokenizer, isinstance(backend.pre_tokenizer, pre_tokenizers.Sequence)


@contextlib.contextmanager
def _in_own_folder(path: Path) -> Iterator[Path]:
    """Yield the path of the file in a separate temporary folder: files next to it must not influence the conversion."""
    with tempfile.TemporaryDirectory(prefix="lmassay-") as folder:
        file = Path(folder) / path.name
        try:
            file.symlink_to(path.resolve())
        except OSError:
            # On some systems, only administrators may create links.
            shutil.copyfile(path, file)
        yield file


@contextlib.contextmanager
def _read_once(reader: Any) -> Iterator[None]:
    """Make transformers use a reader that has already read the file.

    Otherwise, transformers would read the file again for the configuration, the weights and the tokenizer, and build
    the table of the names of all weights again for each module of the model. This takes ten times as long as unpacking
    a small model.
    """
    import gguf

    before = gguf.GGUFReader, gguf.get_tensor_name_map
    # transformers imports both when it calls them.
    gguf.GGUFReader = lambda *_: reader
    gguf.get_tensor_name_map = functools.cache(gguf.get_tensor_name_map)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = before


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide transformers' progress bars; ``report`` shows the progress instead."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield
