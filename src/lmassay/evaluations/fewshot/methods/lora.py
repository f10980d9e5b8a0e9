"""LoRA (Hu et al. 2022): matrices of low rank are added to those of a frozen network and trained with PET's loss."""

# No ``from __future__ import annotations`` here: options are read from the ``__init__`` of subclasses, and the modules
# of these subclasses need not import the names that the annotations use.

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

# The names of the projections for queries and values, which the paper adapts. Some families of models compute both with
# one matrix; the names of these matrices are in the second line.
QUERY_AND_VALUE = frozenset(
    {"query", "value", "query_proj", "value_proj", "q_proj", "v_proj", "q_lin", "v_lin", "q", "v"}
    | {"Wqkv", "qkv_proj", "query_key_value", "c_attn", "in_proj", "x_proj"}
)


@dataclass(kw_only=True)
class Lora(Training):
    """LoRA with peft (extra: fewshot): PET on a frozen model with trained matrices of rank ``r`` added to its own.

    The added matrices are scaled by ``alpha`` / ``r``. ``target_modules`` are names of layers; by default the
    projections for queries and values, under the names that the family of models uses. ``head: classifier`` uses a new
    classification head instead of the pattern's words; it is trained too, and so is everything else that the checkpoint
    does not have (often BERT's pooler).
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
        """PET's learner, or a classifier, on the adapted network."""
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
        """Add the matrices to the network and freeze everything else.

        Not frozen are a new classification head and other parts that the checkpoint does not have.
        """
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
        """The names of the layers to adapt."""
        layers: set[str] = set()
        for name, part in module.named_modules():
            if _is_matrix(part):
                layers.add(_last_name(name))
        targets = QUERY_AND_VALUE & layers
        if self.target_modules is not None:
            targets = frozenset(self.target_modules)
        missing = sorted(targets - layers)
        if missing or not targets:
            problem = f"no layer called {', '.join(missing)}" if missing else "no projections of a known name"
            existing = ", ".join(sorted(layers))
            raise ConfigError(f"target_modules: the {module.config.model_type} model has {problem}; it has {existing}")
        return sorted(targets)


def head_parts(module: Any) -> list[str]:
    """The names of the parts of a classifier that do not belong to the transformer."""
    names = []
    for name, part in module.named_children():
        has_parameters = next(part.parameters(), None) is not None
        if part is not module.base_model and has_parameters:
            names.append(name)
    return names


def fresh_parts(net: Network, adapted: list[str]) -> list[str]:
    """The names of the parts that are trained as a whole: the head, and other layers that the checkpoint does not have.

    These are initialized at random, so they would be useless if they were frozen.
    """
    head = head_parts(net.module)
    further = set()
    for parameter in net.new_parameters:
        layer = parameter.rpartition(".")[0]
        is_in_head = layer.split(".")[0] in head
        if layer and not is_in_head and _last_name(layer) not in adapted:
            further.add(layer)
    return [*head, *sorted(further)]


def _last_name(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def _is_matrix(part: Any) -> bool:
    # GPT-2 has its own class of linear layers, with the matrix transposed.
    return type(part).__name__ in ("Linear", "Conv1D") and hasattr(part, "weight")


def _transposed(module: Any, names: list[str]) -> bool:
    """Whether the adapted layers have transposed matrices, as those of GPT-2."""
    adapted = [part for name, part in module.named_modules() if _last_name(name) in names]
    return any(type(part).__name__ == "Conv1D" for part in adapted)
