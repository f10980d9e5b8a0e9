"""Find the files of a local model, and read from them what can be known without loading the model."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from lmassay.errors import DataError, MissingExtra, NotFetched, closest
from lmassay.models import embedded
from lmassay.models.cache import HUB_FILES, NOT_HUB_FILES, read_card, require_converter
from lmassay.models.hf.folder_errors import plain_folder_errors, read_json_object, tokenizer_problem
from lmassay.models.hf.gguf_header import check_gguf
from lmassay.models.hf.window import known_window
from lmassay.storage.files import sha256

Kind = Literal["masked", "causal", "encoder-decoder"]

# For checkpoints whose configuration does not name the head: these families fill in blanks, all others continue a text.
_MASKED_FAMILIES = frozenset(
    {"albert", "bert", "camembert", "convbert", "deberta", "deberta-v2", "distilbert", "electra", "ernie", "esm"}
    | {"fnet", "funnel", "megatron-bert", "mobilebert", "modernbert", "mpnet", "nystromformer", "roberta", "roformer"}
    | {"roberta-prelayernorm", "squeezebert", "xlm-roberta", "xlm-roberta-xl", "xmod", "eurobert"}
)
# Heads that distinguish real words from replaced ones; a model with such a head is not a language model.
_DISCRIMINATORS = frozenset({"ElectraForPreTraining", "FunnelForPreTraining"})
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "source.spm",
    "target.spm",
)
# Tokenizer classes that have only the special tokens in their files. Every other class adds its own special tokens.
_PLAIN_TOKENIZERS = frozenset({"PreTrainedTokenizerFast", "TokenizersBackend"})
_FILES_WITH_SPECIAL_TOKENS = ("tokenizer_config.json", "special_tokens_map.json")
# A model may lack these files; those that it has must be readable.
_OPTIONAL_JSON_FILES = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
)
# Further files of a tokenizer that has no tokenizer.json; a tokenizer.json contains what is in these files.
_OLDER_TOKENIZER_FILES = ("merges.txt", "spm.model", "special_tokens_map.json", "added_tokens.json")
# Further files that influence answers: how chat messages are written, and settings for generating text.
_GENERATION_FILES = ("chat_template.jinja", "generation_config.json")


@dataclass(frozen=True)
class ModelSource:
    """A folder with config, weights and tokenizer, or a GGUF file that will be converted into one."""

    name: str
    path: Path
    revision: str | None = None
    """The commit of a model from the hub; None for any other model."""

    @property
    def is_gguf(self) -> bool:
        """Whether this is a GGUF file and not a folder."""
        return self.path.suffix == ".gguf"

    @cached_property
    def config(self) -> dict[str, Any]:
        """The model's config.json."""
        file = self.path / "config.json"
        if not file.exists():
            raise DataError(f"{self.path} is not a model folder: it has no readable config.json")
        return read_json_object(file)

    @cached_property
    def kind(self) -> Kind:
        """Whether the model fills in a blank, continues a text or turns one text into another.

        Decided by the head that the model's configuration names or, if it names none, by the model's family. Raises a
        DataError for a head that is not one of a language model.
        """
        if self.is_gguf:
            return "causal"
        with plain_folder_errors(self.path):
            return self._kind_of_head()

    def _kind_of_head(self) -> Kind:
        architectures = self.config.get("architectures") or []
        if not isinstance(architectures, list):
            raise DataError(f"{self.path / 'config.json'}: architectures must be a list of names")
        heads = [str(name) for name in architectures]
        for head in heads:
            if head.endswith("EncoderModel"):
                raise DataError(f"{self.name} is a {head}, an encoder without its decoder; use the whole model")
            # Models of images and text have such heads, too, but they only continue texts.
            if self.is_encoder_decoder and head.endswith(("ForConditionalGeneration", "MTModel", "WithLMHeadModel")):
                return "encoder-decoder"
            if head.endswith(("ForMaskedLM", "ForPreTraining")) and head not in _DISCRIMINATORS:
                return "masked"
            if head.endswith(("ForCausalLM", "LMHeadModel", "LMHead", "ForConditionalGeneration")):
                return "causal"
        if heads and not any(head.endswith("Model") for head in heads):
            raise DataError(
                f"{self.name} is a {heads[0]}, which is not a language model; use a masked or a causal one (for "
                "ELECTRA, the generator); to train it as a classifier, set kind: masked or kind: causal"
            )
        if self.is_encoder_decoder:
            return "encoder-decoder"
        if self.config.get("model_type") in _MASKED_FAMILIES:
            return "masked"
        return "causal"

    @property
    def names_head(self) -> bool:
        """Whether the configuration says that the weights have a head, e.g. BertForMaskedLM and not BertModel."""
        if self.is_gguf:
            return True
        architectures = self.config.get("architectures")
        if not isinstance(architectures, list):
            return False
        for name in map(str, architectures):
            # Names of language models may end like those of bodies: GPT2LMHeadModel, MarianMTModel.
            if not name.endswith("Model") or "LMHead" in name or name == "MarianMTModel":
                return True
        return False

    @cached_property
    def window(self) -> int | None:
        """The number of tokens that the model reads at most; None if its files do not say."""
        if self.is_gguf:
            return None
        tokenizer_config: dict[str, Any] = {}
        file = self.path / "tokenizer_config.json"
        if file.is_file():
            tokenizer_config = read_json_object(file)
        return known_window(self.config, tokenizer_config)

    @cached_property
    def fast_tokenizer(self) -> Any:
        """The tokenizer, read without transformers, which takes seconds to import; None without a tokenizer.json."""
        file = self.path / "tokenizer.json"
        if not file.is_file():
            return None
        status = file.stat()
        return _read_tokenizer(file, status.st_mtime_ns, status.st_size)

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether an encoder reads one text and a decoder writes another."""
        return not self.is_gguf and bool(self.config.get("is_encoder_decoder"))

    @property
    def is_encoder(self) -> bool:
        """Whether the model reads in both directions; encoders do, unless they are configured as decoders."""
        if self.is_gguf:
            return False
        return self.config.get("model_type") in _MASKED_FAMILIES and not self.config.get("is_decoder")

    @cached_property
    def lacks_mask_token(self) -> bool:
        """Whether the tokenizer's files show that it has no mask token; False if only loading it would show that."""
        # A GGUF file is converted to a causal model, whose tokenizer has none.
        if self.is_gguf:
            return True
        settings = [_settings_in(self.path / name) for name in _FILES_WITH_SPECIAL_TOKENS]
        classes = []
        for settings_of_file in settings:
            if "tokenizer_class" in settings_of_file:
                classes.append(settings_of_file["tokenizer_class"])
        if not classes:
            return False
        for name in classes:
            # A damaged file may have anything in place of a name.
            if not isinstance(name, str) or name not in _PLAIN_TOKENIZERS:
                return False
        for settings_of_file in settings:
            extra_tokens = settings_of_file.get("extra_special_tokens")
            if not isinstance(extra_tokens, dict):
                extra_tokens = {}
            if settings_of_file.get("mask_token") or extra_tokens.get("mask_token"):
                return False
        return True

    def check(self) -> None:
        """Raise a DataError for problems that are visible before anything is loaded."""
        with plain_folder_errors(self.path):
            self._check_files()

    def _check_files(self) -> None:
        if self.is_gguf:
            check_gguf(self.path)
            return
        if not any((self.path / name).is_file() for name in _TOKENIZER_FILES):
            raise DataError(f"{self.path} has no tokenizer; put tokenizer.json (or vocab.txt …) next to the weights")
        if not self._weights():
            raise DataError(
                f"{self.path} has no .safetensors weights; other formats can run code when loaded: convert them with "
                "from_pretrained and save_pretrained of transformers"
            )
        for file in self._weights():
            _check_weights(file)
        # Reading the tokenizer raises an error if its file is damaged.
        _ = self.fast_tokenizer
        for name in _OPTIONAL_JSON_FILES:
            if (self.path / name).exists():
                read_json_object(self.path / name)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all files that influence answers: two folders with the same files are the same model."""
        with plain_folder_errors(self.path):
            return self._digest_of_files()

    def _digest_of_files(self) -> str:
        if self.is_gguf:
            return sha256(self.path)[:12]
        converted_from = read_card(self.path).get("sha256")
        if isinstance(converted_from, str):
            # Converted from a GGUF file: it keeps the digest of that file.
            return converted_from[:12]
        state = hashlib.sha256()
        files = self._weights()
        for name in ("config.json", *_TOKENIZER_FILES, *_GENERATION_FILES):
            files.append(self.path / name)
        if not (self.path / "tokenizer.json").is_file():
            files += [self.path / name for name in _OLDER_TOKENIZER_FILES]
        for file in files:
            if file.is_file():
                state.update(f"{file.name}:{sha256(file)};".encode())
        return state.hexdigest()[:12]

    def _weights(self) -> list[Path]:
        return sorted(self.path.glob("*.safetensors"))


def _check_weights(file: Path) -> None:
    """Raise a DataError for a file that was cut off or is not in the safetensors format; only its header is read."""
    # The format: eight bytes with the size of the header, the header as JSON, then the tensors at the offsets in it.
    try:
        with file.open("rb") as stream:
            header_size = int.from_bytes(stream.read(8), "little")
            size = file.stat().st_size
            if not 2 <= header_size <= size - 8:
                raise DataError(f"{file} is not a safetensors file or is incomplete; copy or download it again")
            header = json.loads(stream.read(header_size))
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        data_size = max(ends, default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise DataError(
            f"{file} is not a safetensors file: its header cannot be read; copy or download it again"
        ) from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from error
    if 8 + header_size + data_size != size:
        raise DataError(
            f"{file} is incomplete: it has {size} bytes, and its header says {8 + header_size + data_size}; "
            "copy or download it again"
        )


# The last two are kept: each run of a sweep opens its model again, and a vocabulary takes a tenth of a second to read.
@lru_cache(maxsize=2)
def _read_tokenizer(file: Path, changed: int, size: int) -> Any:
    """Read a tokenizer.json. Raises a DataError if that is not possible.

    ``changed`` (the file's modification time) and ``size`` are only part of the cache key: a file that has changed is
    read again.
    """
    try:
        # transformers reads this file with the same library, but takes seconds to import.
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise MissingExtra("a local Hugging Face model", "hf") from error
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:
        # The library raises a plain Exception for everything that can be wrong with the file.
        raise DataError(tokenizer_problem(file, error)) from error


def _settings_in(file: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file does not exist or cannot be read, which is checked elsewhere."""
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}


def find_source(model: str, revision: str | None, base: Path) -> ModelSource:
    """Find the files of the model that the option ``model`` names.

    The option is a folder or GGUF file relative to ``base`` (the folder of the configuration) or to the current folder,
    the name of an embedded model, or the name of a model on the hub that was downloaded before. Raises NotFetched for
    an embedded or hub model that is not on this machine, and a DataError for a path that is not a model.
    """
    for root in (base, Path()):
        path = (root / Path(model).expanduser()).resolve()
        if path.is_dir():
            return ModelSource(path.name, path)
        if path.is_file():
            if path.suffix != ".gguf":
                raise DataError(f"{path} is neither a model folder nor a .gguf file")
            return ModelSource(path.stem, path)
    if model in embedded.EMBEDDED:
        folder = embedded.folder(model)
        if folder is None:
            fetch = _fetch_command(model, None)
            require_converter(f"the model {model}", then=fetch)
            message = f"the model {model} is not on this machine; fetch it: lmassay models get {model}"
            raise NotFetched(message, fetch)
        return ModelSource(model, folder)
    if model.startswith((".", "/", "~")) or model.endswith(".gguf"):
        raise DataError(f"there is no model at {model}; write a folder, a .gguf file or a hub name")
    return _from_hub_cache(model, revision, base)


def _from_hub_cache(model: str, revision: str | None, base: Path) -> ModelSource:
    """Find a model among those that were downloaded from the hub before. Nothing is downloaded here."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingExtra("a Hugging Face model", "hf", then=_fetch_command(model, revision)) from error
    try:
        folder = Path(
            snapshot_download(
                model,
                revision=revision,
                local_files_only=True,
                allow_patterns=HUB_FILES,
                ignore_patterns=NOT_HUB_FILES,
            )
        )
    except HFValidationError:
        raise DataError(f"'{model}' is not a folder, a .gguf file or a hub name like org/model") from None
    except (LocalEntryNotFoundError, OSError):
        fetch = _fetch_command(model, revision)
        message = f"the model {model} is not on this machine; fetch it: {fetch}"
        similar = _similar_model_folder(model, base)
        if similar is not None:
            message = f"there is no model folder {model}; did you mean '{similar}'? A model on the hub: {fetch}"
        raise NotFetched(message, fetch) from None
    return ModelSource(model, folder, folder.name)


def _similar_model_folder(name: str, base: Path) -> str | None:
    """Return the name of a model folder that was probably meant: one with a similar name in these two folders."""
    folders: set[str] = set()
    for root in (base, Path()):
        folders.update(config.parent.name for config in root.glob("*/config.json"))
    return closest(name, folders)


def _fetch_command(model: str, revision: str | None) -> str:
    words = ["lmassay", "models", "get", model]
    if revision:
        words += ["--revision", revision]
    return shlex.join(words)
