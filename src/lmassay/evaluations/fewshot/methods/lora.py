"""LoRA: small matrices beside those of a frozen network are learned with PET's loss (Hu et al. 2022), through peft."""

# Annotations here are evaluated at once: options are read from the ``__init__`` of subclasses, whose modules need not
# know these names.

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from lmassay.errors import ConfigError, MissingExtra
from lmassay.evaluations.fewshot.methods.classifier import Classifier
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.methods.learner import Learner
from lmassay.evaluations.fewshot.methods.network import Network, open_network
from lmassay.evaluations.fewshot.methods.pet import pet_learner
from lmassay.evaluations.fewshot.methods.training import Training

# What families call the projections for queries and values (some keep them in one matrix); the paper adapts these.
QUERY_AND_VALUE = frozenset(
    {"query", "value", "query_proj", "value_proj", "q_proj", "v_proj", "q_lin", "v_lin", "q", "v"}
    | {"Wqkv", "qkv_proj", "query_key_value", "c_attn", "in_proj", "x_proj"}
)


@dataclass(kw_only=True)
class Lora(Training):
    """LoRA through peft (extra: fewshot): PET on a frozen model with trained matrices of rank ``r`` beside its own.

    What is added counts ``alpha`` / ``r``. ``target_modules`` are the layers' names; left out, the projections for
    queries and values, whatever the family calls them. ``head: classifier`` takes a new classification head instead of
    the pattern's words and trains that, too, with whatever else the checkpoint lacks (BERT's pooler, often).
    """

    pattern: Annotated[int, Field(ge=0)] = 0
    r: Annotated[int, Field(ge=1)] = 8
    alpha: Annotated[float, Field(gt=0)] = 16.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    target_modules: tuple[str, ...] | None = None
    head: Literal["cloze", "classifier"] = "cloze"
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4
    decoding_strategy: Literal["default", "ltr", "parallel"] = "default"

    def learner(self, inputs: TrainingInputs) -> Learner:
        if self.head == "classifier":
            net = open_network(inputs.model, "classifier", len(inputs.task.labels), reference=self.reference)
            self.adapt(net)
            reading = self.reading(inputs, pattern=0, mode="cls")
            return Classifier(net, inputs.task, reading, temperature=self.temperature)
        net = open_network(inputs.model, reference=self.reference)
        self.adapt(net)
        reading = self.reading(inputs, pattern=self.pattern, mode="cloze")
        return pet_learner(self, inputs, net, reading, self.decoding_strategy)

    def adapt(self, net: Network) -> None:
        """Put the matrices into the network; everything else is frozen (but a new classifier, and what was drawn)."""
        try:
            from peft import LoraConfig
        except ImportError:
            raise MissingExtra("LoRA", "fewshot") from None
        names = self._targets(net.module)
        new_parts = fresh_parts(net, names) if self.head == "classifier" else []
        net.module.add_adapter(
            LoraConfig(
                r=self.r,
                lora_alpha=self.alpha,
                lora_dropout=self.dropout,
                target_modules=names,
                fan_in_fan_out=_transposed(net.module, names),
                modules_to_save=new_parts or None,
            )
        )
        net.module.to(net.device)

    def _targets(self, module: Any) -> list[str]:
        known = {name.rsplit(".", 1)[-1] for name, part in module.named_modules() if _is_matrix(part)}
        wanted = QUERY_AND_VALUE & known if self.target_modules is None else set(self.target_modules)
        missing = sorted(wanted - known)
        if missing or not wanted:
            what = f"no layer called {', '.join(missing)}" if missing else "no projections of a known name"
            raise ConfigError(
                f"target_modules: the {module.config.model_type} model has {what}; it has {', '.join(sorted(known))}"
            )
        return sorted(wanted)


def head_parts(module: Any) -> list[str]:
    """The names of what a classifier has beside the transformer."""
    parts = [(name, part) for name, part in module.named_children() if part is not module.base_model]
    return [name for name, part in parts if next(part.parameters(), None) is not None]


def fresh_parts(net: Network, adapted: list[str]) -> list[str]:
    """The head, and further layers that the checkpoint did not have: frozen random numbers would be of no use."""
    head = head_parts(net.module)
    layers = {name.rpartition(".")[0] for name in net.drawn}
    apart = {layer for layer in layers if layer.split(".")[0] not in head and layer.rsplit(".", 1)[-1] not in adapted}
    return [*head, *sorted(apart - {""})]


def _is_matrix(part: Any) -> bool:
    # GPT-2 has linear layers of a kind of its own, with the matrix transposed.
    return type(part).__name__ in ("Linear", "Conv1D") and hasattr(part, "weight")


def _transposed(module: Any, names: list[str]) -> bool:
    kinds = {type(part).__name__ for name, part in module.named_modules() if name.rsplit(".", 1)[-1] in names}
    return "Conv1D" in kinds
