"""Methods with a training loop: their common options, how they train, and the classifier that they return.

A method adds its own options as fields and defines ``learner``, which creates the network to train::

    @dataclass(kw_only=True)
    class Sharpened(Training):
        sharpness: float = 1.0

        def learner(self, inputs: TrainingInputs) -> Learner: ...
"""

# No ``from __future__ import annotations`` here: options are read from the ``__init__`` of subclasses, and the modules
# of these subclasses need not import the names that the annotations use.

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from lmassay.errors import ConfigError, DataError, ModelError, StoreError
from lmassay.evaluations.fewshot.methods import adapters, deberta
from lmassay.evaluations.fewshot.methods.cloze import Reading, label_index
from lmassay.evaluations.fewshot.methods.contract import (
    Choice,
    DrawsState,
    Method,
    TrainedClassifier,
    TrainingCourse,
    TrainingInputs,
)
from lmassay.evaluations.fewshot.methods.engine import (
    DEFAULT_EVAL_RATIO,
    DevEvaluation,
    Hyperparameters,
    TrainingResult,
    check_schedule,
    scores,
    train,
)
from lmassay.evaluations.fewshot.methods.learner import EncodedItem, Learner
from lmassay.evaluations.fewshot.methods.network import Network, quiet, seeded
from lmassay.evaluations.fewshot.methods.prompt_encoder import NAME as PROMPT_ENCODER
from lmassay.evaluations.fewshot.metrics import task_scores
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


CARD = "lmassay.json"
"""The name of the file that describes a saved training."""
ADDED = "added.safetensors"
"""The name of the file with the trained weights that transformers does not save, such as prompt embeddings."""
_Count = Annotated[int, Field(ge=1)]
_Share = Annotated[float, Field(gt=0, le=1)]


@dataclass(kw_only=True)
class Training(Method, ABC):
    """The options of a training loop.

    - ``max_steps``: the number of updates, with ``batch_size`` examples each; ``epochs`` replaces it
    - ``micro_batch``: how many examples go through the network at once
    - ``eval_ratios``: the fraction of the training between two evaluations on the dev set. The best weights are kept;
      of equally good ones, the latest. If several ratios are given, one training serves all of them. With ratio 1, or
      without a dev set, the final weights are kept.
    - ``patience``: the training ends after this number of evaluations without a better score
    - ``temperature``: divides the logits of soft labels
    - ``spatial_dropout``: the fraction of dimensions of the input embeddings that are dropped in training
    - ``fix_deberta``: freezes the word embeddings, the head and the first third of the layers of a DeBERTa
    - ``reference``: repeats FewNLU's loop exactly, with AdamW of transformers 4.5.1 and one additional update
    """

    can_restore: ClassVar[bool] = True  # type: ignore[misc]  # not an option
    masked_only: ClassVar[bool] = False
    """True for methods that need a masked model, which sees the text on both sides of a gap."""
    reads_patterns: ClassVar[bool] = True
    """False for methods whose option ``pattern`` is a number of prompt tokens."""

    max_seq_length: Annotated[int, Field(ge=8)] = 256
    max_steps: _Count = 250
    epochs: _Count | None = None
    batch_size: _Count = 16
    micro_batch: _Count = 4
    eval_batch: _Count = 32
    learning_rate: Annotated[float, Field(gt=0)] = 1e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-8
    warmup_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0
    eval_ratios: _Share | tuple[_Share, ...] = DEFAULT_EVAL_RATIO
    patience: _Count = 6
    optimiser: Literal["auto", "adamw", "hf_adamw"] = "auto"
    temperature: Annotated[float, Field(gt=0)] = 2.0
    spatial_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    fix_deberta: bool = False
    reference: bool = False

    @abstractmethod
    def learner(self, inputs: TrainingInputs) -> Learner:
        """The network to train, with its loss and its label scores."""

    def fit(self, inputs: TrainingInputs) -> "FittedNetwork":
        """Train a network. The same inputs give the same numbers, whatever ran before in the same process."""
        if inputs.model is None:
            raise ConfigError("model: this method trains a language model; give one")
        device, threads = _device_and_threads(inputs.model)
        with seeded(inputs.seed, device, threads), ExitStack() as stack:
            learner = self.learner(inputs)
            net = learner.net
            if self.fix_deberta:
                _freeze_deberta(net)
            if self.spatial_dropout:
                noise = EmbeddingNoise(net.module, rate=self.spatial_dropout, seed=inputs.seed)
                stack.callback(noise.remove)
            items = learner.encode(inputs.train, training=True)
            _check_trainable(items, inputs)
            net.check_lengths(items)
            hyper = self.hyperparameters()
            evaluate_dev = self._dev_evaluation(learner, inputs)
            # The test examples are encoded before the training, so that one that does not fit is reported at once.
            test_items = learner.encode(inputs.test, training=False)
            net.check_lengths(test_items)
            result = train(
                learner,
                items,
                evaluate_dev,
                hyper,
                sampler_seed=inputs.sampler_seed,
                report_progress=inputs.report_progress,
            )
        fitted = FittedNetwork(learner, net, result, hyper.eval_batch, inputs.seed)
        fitted.remember(inputs.test, test_items)
        return fitted

    def restore(self, inputs: TrainingInputs, folder: Path) -> "FittedNetwork":
        """The classifier that was saved in a folder; ``inputs.model`` is the model in it."""
        device, threads = _device_and_threads(inputs.model)
        with seeded(inputs.seed, device, threads):
            learner = self.learner(inputs)
            if learner.net.new_parameters:
                missing = ", ".join(learner.net.new_parameters[:3])
                raise DataError(f"the saved model in {folder} lacks trained weights ({missing}); it is not complete")
            _load_added(learner.net.module, folder)
        learner.module.eval()
        only_choice = Choice(every=None, step=0, dev={}, stopped_at=0)
        result = TrainingResult(TrainingCourse(updates=0), [only_choice], {}, {})
        return FittedNetwork(learner, learner.net, result, self.eval_batch, inputs.seed)

    def hyperparameters(self) -> Hyperparameters:
        """The options as the training loop takes them."""
        optimiser = self.optimiser
        if optimiser == "auto":
            optimiser = "hf_adamw" if self.reference else "adamw"
        eval_ratios = self.eval_ratios
        if not isinstance(eval_ratios, tuple):
            eval_ratios = (eval_ratios,)
        return Hyperparameters(
            max_steps=None if self.epochs is not None else self.max_steps,
            epochs=self.epochs or 1,
            batch_size=self.batch_size,
            micro_batch=self.micro_batch,
            eval_batch=self.eval_batch,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            adam_epsilon=self.adam_epsilon,
            warmup_ratio=self.warmup_ratio,
            max_grad_norm=self.max_grad_norm,
            eval_ratios=eval_ratios,
            patience=self.patience,
            optimiser=optimiser,
            reference=self.reference,
        )

    def check_pattern(self, task: "NluTask", pattern: int) -> None:
        """Raise a ConfigError if the task does not have this pattern."""
        if not self.reads_patterns:
            return
        available = task.patterns.get("cloze", [])
        if available and pattern not in available:
            raise ConfigError(f"{task.name} has no pattern {pattern}; it has {', '.join(map(str, available))}")

    def check_model(self, model: Any) -> None:
        """Raise a ConfigError for a causal model if the method fills gaps inside a text."""
        if self.masked_only and getattr(model, "kind", "masked") == "causal":
            raise ConfigError(
                f"task.method: {type(self).__name__} fills gaps inside a text, but this model reads from left to "
                "right; use a masked model, or the method pet"
            )

    def check_training_size(self, n_train: int, *, has_dev: bool) -> None:
        """Raise a ConfigError for numbers of updates and evaluations that are impossible with this many examples."""
        check_schedule(self.hyperparameters(), n_train, has_dev=has_dev)

    def reading(self, inputs: TrainingInputs, *, pattern: int, mode: Literal["cls", "cloze", "ptuning"]) -> Reading:
        """How examples are turned into tokens."""
        task = inputs.task
        available = task.patterns.get(mode, [])
        if available and pattern not in available:
            raise ConfigError(
                f"pattern: {task.name} has no pattern {pattern} for {mode}; it has {', '.join(map(str, available))}"
            )
        return Reading(pattern, self.max_seq_length, mode, inputs.seed)

    def _dev_evaluation(self, learner: Learner, inputs: TrainingInputs) -> DevEvaluation | None:
        """A function that computes the dev metrics of the current weights; None without dev examples."""
        if not inputs.dev:
            return None
        items = learner.encode(inputs.dev, training=False)
        learner.net.check_lengths(items)
        for example in inputs.dev:
            if label_index(example.label, inputs.task.labels) < 0:
                raise ModelError(f"{example.guid} has no label; dev examples need one")

        def evaluate_dev() -> dict[str, float]:
            logits = scores(learner, items, self.eval_batch)
            return task_scores(inputs.task, inputs.dev, logits.tolist(), chosen_answers(items))

        return evaluate_dev


def _device_and_threads(model: Any) -> tuple[Any, int]:
    """The device and the number of threads to train with.

    A model that cannot be trained, such as one behind an API, has neither. ``open_network`` reports it later.
    """
    from lmassay.models.hf.load import choose_device

    device = choose_device(getattr(model, "device", "cpu"))
    threads = getattr(model, "threads", None) or 1
    return device, threads


def _freeze_deberta(net: Network) -> None:
    if not deberta.is_deberta(net.module):
        raise ConfigError(f"fix_deberta: the model is a {net.family}, not a DeBERTa-v2 or v3; remove this option")
    deberta.freeze(net.module)


def _check_trainable(items: list[EncodedItem], inputs: TrainingInputs) -> None:
    """Raise a ModelError if there is nothing to learn, or an example has neither a label nor soft labels."""
    if not items:
        raise ModelError("the training part of the split is empty, so there is nothing to learn from")
    if all(item.label >= 0 or item.logits is not None for item in items):
        return
    for example in inputs.train:
        if example.label is None and example.logits is None:
            raise ModelError(f"{example.guid} has no label; training examples need one")


# --- what a training returns ------------------------------------------------------------------------------------------


def chosen_answers(items: Sequence[EncodedItem]) -> list[str] | None:
    """The texts that the model chose for ReCoRD's questions; None for tasks with fixed labels."""
    answers = []
    for item in items:
        if "answer" not in item.extra:
            return None
        answers.append(str(item.extra["answer"]))
    return answers


class FittedNetwork(TrainedClassifier):
    """The classifier that ``fit`` returns.

    It gives label scores, has one set of weights per evaluation ratio, and can be saved.
    """

    def __init__(self, learner: Learner, net: Network, result: TrainingResult, eval_batch: int, seed: int) -> None:
        self.learner = learner
        self.net = net
        self.choices = result.choices
        self.course = result.course
        self._result = result
        self._eval_batch = eval_batch
        self._seed = seed
        self._used = result.choices[0]
        self._encoded: dict[tuple[int, ...], tuple[list[InputExample], list[EncodedItem]]] = {}

    def draws_state(self) -> DrawsState | None:
        """The state of the method's own random generators after the training; None for a method without any."""
        if self.learner.draws is None:
            return None
        state: DrawsState = self.learner.draws.state()
        return state

    @property
    def facts(self) -> dict[str, Any]:
        """What influences the numbers but is not an option of the method."""
        return {"device": self.net.device.type, "dtype": self.net.dtype, "threads": self.net.threads}

    def use(self, choice: Choice) -> None:
        """Switch to the weights of this choice."""
        if choice not in self.choices:
            raise ConfigError(f"these weights were not kept: {choice}")
        if choice.step != self._used.step:
            self._result.use(choice)
        self._used = choice

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        """Label scores, one row per example."""
        # The seed makes random draws (WSC's surplus masks) the same for every choice of weights.
        with seeded(self._seed, self.net.device, self.net.threads):
            return scores(self.learner, self._items(examples), self._eval_batch)

    def remember(self, examples: Sequence[InputExample], items: list[EncodedItem]) -> None:
        """Store the encoded examples, so that they are not encoded again."""
        # The examples are stored as well: as long as they exist, no other object can have the same ``id``.
        self._encoded[tuple(map(id, examples))] = (list(examples), items)

    def _items(self, examples: Sequence[InputExample]) -> list[EncodedItem]:
        """The encoded examples. They are encoded only once, even if they are scored under several choices."""
        key = tuple(map(id, examples))
        if key not in self._encoded:
            items = self.learner.encode(examples, training=False)
            self.remember(examples, items)
            self.net.check_lengths(items)
        _, encoded = self._encoded[key]
        return encoded

    def answers(self, examples: Sequence[InputExample]) -> list[str] | None:
        """The texts chosen when these examples were last scored; None for tasks with fixed labels."""
        return chosen_answers(self._items(examples))

    def save(self, folder: Path) -> None:
        """Write network and tokenizer as transformers does, further trained parts, and the course of the training."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            module = self.net.module
            if adapters.has_adapters(module):
                module = adapters.merged(module)
            # A prompt encoder is part of the network, but transformers could not load its weights.
            weights = {}
            added = {}
            for name, tensor in module.state_dict().items():
                if name.startswith(f"{PROMPT_ENCODER}."):
                    added[name] = tensor.detach().to("cpu", copy=True)
                else:
                    weights[name] = tensor
            with quiet():
                module.save_pretrained(folder, state_dict=weights)
            self.net.tokenizer.save_pretrained(folder)
            if added:
                save_file(added, folder / ADDED)
            card = {"choice": asdict(self._used), "course": asdict(self._result.course), **self.facts}
            (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"the trained model cannot be written to {folder}: {error}") from error


def _load_added(network: torch.nn.Module, folder: Path) -> None:
    """Load the trained parts that transformers does not save, such as prompt embeddings, into the network."""
    file = folder / ADDED
    if not file.is_file():
        return
    try:
        result = network.load_state_dict(load_file(file), strict=False)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(f"{file} cannot be read or does not fit: {str(error).splitlines()[0]}") from error
    if result.unexpected_keys:
        raise DataError(f"{file} has parts that the method does not have: {', '.join(result.unexpected_keys)}")


# --- the noise of noisy student ---------------------------------------------------------------------------------------


def spatial_dropout(embeddings: torch.Tensor, rate: float, generator: torch.Generator | None = None) -> torch.Tensor:
    """Embeddings (texts × positions × width) in which some dimensions are 0 at all positions of a text.

    All other dimensions are multiplied by 1 / (1 - rate), so that the mean stays the same. It works as torch's
    Dropout2d on images, with tokens as pixels and dimensions as channels.
    """
    n_texts, _, width = embeddings.shape
    # The numbers are drawn on the generator's device, so the noise is the same whatever device the network is on.
    source = embeddings.device if generator is None else generator.device
    uniform = torch.rand(n_texts, 1, width, generator=generator, device=source)
    kept = (uniform >= rate).to(device=embeddings.device, dtype=embeddings.dtype)
    return embeddings * (kept / (1 - rate))


class EmbeddingNoise:
    """Drops whole dimensions of the word embeddings while a network is trained, until ``remove`` is called.

    It is a hook on the embedding layer, so it affects every forward pass in training mode. Evaluation has no noise.
    """

    def __init__(self, network: Any, *, rate: float, seed: int = 42) -> None:
        if not 0 <= rate < 1:
            raise ConfigError(f"dropout_rate: must be at least 0 and below 1, not {rate}")
        self._network = network
        self._rate = rate
        # With a separate generator, the noise does not depend on other random draws.
        self._generator = torch.Generator().manual_seed(seed)
        self._hook = network.get_input_embeddings().register_forward_hook(self._disturb)

    def remove(self) -> None:
        """End the noise."""
        self._hook.remove()

    def _disturb(self, module: torch.nn.Module, arguments: tuple[Any, ...], embedded: torch.Tensor) -> torch.Tensor:
        if not self._network.training or self._rate == 0:
            return embedded
        return spatial_dropout(embedded, self._rate, self._generator)
