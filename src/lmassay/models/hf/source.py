"""Where a local model's files lie, and what can be known of it without loading anything heavy."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from lmassay.errors import DataError, MissingExtra
from lmassay.models import embedded
from lmassay.models.cache import HUB_FILES, NOT_HUB_FILES, read_card
from lmassay.storage.files import sha256

Kind = Literal["masked", "causal"]

# Checkpoints that do not say what they were saved as: these families fill in blanks, all others continue a text.
_MASKED_FAMILIES = frozenset(
    {"albert", "bert", "camembert", "convbert", "deberta", "deberta-v2", "distilbert", "electra", "ernie", "esm"}
    | {"fnet", "funnel", "megatron-bert", "mobilebert", "modernbert", "mpnet", "nystromformer", "roberta", "roformer"}
    | {"roberta-prelayernorm", "squeezebert", "xlm-roberta", "xlm-roberta-xl", "xmod", "eurobert"}
)
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
)
# What else has a say in the answers: how chat turns are written, and what ends or steers a generated text.
_MANNER_FILES = ("chat_template.jinja", "generation_config.json")


@dataclass(frozen=True)
class ModelSource:
    """A folder with config, weights and tokenizer, or a GGUF file that will be turned into one."""

    name: str
    path: Path
    revision: str | None = None

    @property
    def is_gguf(self) -> bool:
        return self.path.suffix == ".gguf"

    @cached_property
    def config(self) -> dict[str, Any]:
        file = self.path / "config.json"
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"{self.path} holds no model: there is no readable config.json in it") from error
        except ValueError as error:
            raise DataError(f"{file} is no JSON: {error}") from error
        if not isinstance(config, dict):
            raise DataError(f"{file} is no model configuration; it must hold a JSON object")
        return config

    @cached_property
    def kind(self) -> Kind:
        """Whether the model fills in a blank or continues a text, by the head that its configuration names."""
        if self.is_gguf:
            return "causal"
        heads = [str(a) for a in self.config.get("architectures") or []]
        for head in heads:
            if head.endswith(("ForMaskedLM", "ForPreTraining")) and not head.startswith("Electra"):
                return "masked"
            if head == "ElectraForMaskedLM":
                return "masked"
            if head.endswith(("ForCausalLM", "LMHeadModel", "LMHead", "ForConditionalGeneration")):
                return "causal"
        if heads and not any(head.endswith("Model") for head in heads):
            raise DataError(
                f"{self.name} is a {heads[0]}, which is no language model; take a masked or a causal one (of ELECTRA "
                "the generator); to train it as a classifier, say what it reads like (kind: masked, or causal)"
            )
        return "masked" if self.config.get("model_type") in _MASKED_FAMILIES else "causal"

    @property
    def is_encoder(self) -> bool:
        """True for the families that see both sides unless they were made to decode."""
        if self.is_gguf:
            return False
        return self.config.get("model_type") in _MASKED_FAMILIES and not self.config.get("is_decoder")

    def check(self) -> None:
        """What can be known before anything is loaded."""
        if self.is_gguf:
            return
        if not any((self.path / name).is_file() for name in _TOKENIZER_FILES):
            raise DataError(f"{self.path} has no tokenizer; put tokenizer.json (or vocab.txt …) beside the weights")
        if not self._weights():
            raise DataError(
                f"{self.path} has no .safetensors weights; other formats can run code when loaded: convert them with "
                "save_pretrained(…, safe_serialization=True)"
            )

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that has a say in the answers: two folders with the same files are the same model."""
        if self.is_gguf:
            return sha256(self.path)[:12]
        converted_from = read_card(self.path).get("sha256")
        if isinstance(converted_from, str):
            # Unpacked from a GGUF file, whose digest it keeps.
            return converted_from[:12]
        state = hashlib.sha256()
        names = ("config.json", *_TOKENIZER_FILES, *_MANNER_FILES)
        for file in [*self._weights(), *(self.path / name for name in names)]:
            if file.is_file():
                state.update(f"{file.name}:{sha256(file)};".encode())
        return state.hexdigest()[:12]

    def _weights(self) -> list[Path]:
        return sorted(self.path.glob("*.safetensors"))


def find_source(model: str, revision: str | None, base: Path) -> ModelSource:
    """A folder or GGUF file beside the configuration or from here, a fetched embedded model, or a fetched hub name."""
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
            raise DataError(f"the model {model} is not on this machine yet; fetch it: lmassay models get {model}")
        return ModelSource(model, folder)
    if model.startswith((".", "/", "~")) or model.endswith(".gguf"):
        raise DataError(f"there is no model at {model}; give a folder, a .gguf file or a hub name")
    return _from_hub_cache(model, revision)


def _from_hub_cache(model: str, revision: str | None) -> ModelSource:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingExtra("a Hugging Face model", "hf") from error
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
        raise DataError(f"'{model}' is neither a folder, a .gguf file nor a hub name like org/model") from None
    except (LocalEntryNotFoundError, OSError):
        at = f" --revision {revision}" if revision else ""
        raise DataError(f"the model {model} is not on this machine; fetch it: lmassay models get {model}{at}") from None
    return ModelSource(model, folder, folder.name)
