"""Methods with a training loop: the options that they share, how they fit, and the classifier that this gives.

A method adds its own options as fields and says what learns::

    @dataclass(kw_only=True)
    class Mine(Training):
        sharpness: float = 1.0

        def learner(self, lesson: Lesson) -> Learner: ...
"""

# Annotations here are evaluated at once: options are read from the ``__init__`` of subclasses, whose modules need not
# know these names.

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
from safetensors.torch import save_file

from lmassay.errors import ConfigError, ModelError, StoreError
from lmassay.evaluations.fewshot.methods import deberta
from lmassay.evaluations.fewshot.methods.cloze import Reading, place_of
from lmassay.evaluations.fewshot.methods.contract import Choice, Course, DrawsState, Lesson
from lmassay.evaluations.fewshot.methods.engine import Hyper, Look, Taught, check_schedule, copied, scores, train
from lmassay.evaluations.fewshot.methods.learner import Item, Learner
from lmassay.evaluations.fewshot.methods.network import Network, quiet, seeded
from lmassay.evaluations.fewshot.metrics import judged
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


CARD, ADDED = "lmassay.json", "added.safetensors"
"""The files of a saved training beside those of transformers."""
_Count = Annotated[int, Field(ge=1)]
_Share = Annotated[float, Field(gt=0, le=1)]


@dataclass(kw_only=True)
class Training(ABC):
    """``max_steps`` updates of ``batch_size`` examples each, ``micro_batch`` of them in the network at once.

    The dev set is looked at every ``eval_ratios`` of the training (a number or several: one training serves all); the
    best weights are kept, of equals the latest; ``patience`` looks without a better score end it. With ratio 1 or
    without a dev set the last weights are taken. ``epochs`` stands in for ``max_steps``.
    ``reference`` repeats FewNLU's loop to the letter: AdamW of transformers 4.5.1, one update more.
    ``temperature`` is for soft labels; ``spatial_dropout`` leaves out features of the input embeddings in training;
    ``fix_deberta`` keeps a DeBERTa's word embeddings, head and first third of layers as they are.
    """

    masked_only: ClassVar[bool] = False
    reads_patterns: ClassVar[bool] = True

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
    eval_ratios: _Share | tuple[_Share, ...] = 0.02
    patience: _Count = 6
    optimiser: Literal["auto", "adamw", "hf_adamw"] = "auto"
    temperature: Annotated[float, Field(gt=0)] = 2.0
    spatial_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    fix_deberta: bool = False
    reference: bool = False

    @abstractmethod
    def learner(self, lesson: Lesson) -> Learner:
        """The network with its loss and scores, fresh."""

    def fit(self, lesson: Lesson) -> "FittedNetwork":
        """Teach a fresh network. The same lesson gives the same numbers, whatever ran before it in the process."""
        if lesson.model is None:
            raise ConfigError("model: this method trains a language model; give one")
        device, threads = _where(lesson.model)
        with seeded(lesson.seed, device, threads), ExitStack() as stack:
            learner = self.learner(lesson)
            net = learner.net
            if self.fix_deberta:
                _freeze(net)
            if self.spatial_dropout:
                stack.callback(WordNoise(net.module, rate=self.spatial_dropout, seed=lesson.seed).remove)
            items = learner.encode(lesson.train, training=True)
            _check(items, lesson)
            net.check_lengths(items)
            hyper = self.hyper()
            look = self._look(learner, lesson)
            asked = learner.encode(lesson.asked, training=False)
            net.check_lengths(asked)
            taught = train(learner, items, look, hyper, sampler_seed=lesson.sampler_seed, told=lesson.told)
        fitted = FittedNetwork(learner, net, taught, hyper.eval_batch, lesson.seed)
        fitted.remember(lesson.asked, asked)
        return fitted

    def hyper(self) -> Hyper:
        chosen: Literal["adamw", "hf_adamw"] = "hf_adamw" if self.reference else "adamw"
        return Hyper(
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
            eval_ratios=self.eval_ratios if isinstance(self.eval_ratios, tuple) else (self.eval_ratios,),
            patience=self.patience,
            optimiser=chosen if self.optimiser == "auto" else self.optimiser,
            reference=self.reference,
        )

    def check_pattern(self, task: "NluTask", pattern: int) -> None:
        """A pattern must be one of the task's; numbers of slots are another matter."""
        if not self.reads_patterns:
            return
        known = task.patterns.get("cloze", [])
        if known and pattern not in known:
            raise ConfigError(f"{task.name} has no pattern {pattern}; it has {', '.join(map(str, known))}")

    def check_model(self, model: Any) -> None:
        """Whether a model can be taught in this way."""
        if self.masked_only and getattr(model, "kind", "masked") == "causal":
            raise ConfigError(
                f"task.method: {type(self).__name__} fills words in inside a text, which a model that reads from left "
                "to right cannot; take a masked model, or pet"
            )

    def check_lesson(self, n_train: int, *, has_dev: bool) -> None:
        """What would fail in every training of such a size, told before any is begun."""
        check_schedule(self.hyper(), n_train, has_dev=has_dev)

    def reading(self, lesson: Lesson, *, pattern: int, mode: Literal["cls", "cloze", "ptuning"]) -> Reading:
        """How the lesson's examples are turned into tokens."""
        known = lesson.task.patterns.get(mode, [])
        if known and pattern not in known:
            raise ConfigError(
                f"pattern: {lesson.task.name} has no pattern {pattern} for {mode}; it has {', '.join(map(str, known))}"
            )
        return Reading(pattern, self.max_seq_length, mode, lesson.seed)

    def _look(self, learner: Learner, lesson: Lesson) -> Look | None:
        if not lesson.dev:
            return None
        items = learner.encode(lesson.dev, training=False)
        learner.net.check_lengths(items)
        labels = [place_of(example.label, lesson.task.labels) for example in lesson.dev]
        if -1 in labels:
            raise ModelError(f"{lesson.dev[labels.index(-1)].guid} has no label; dev examples need one")

        def look() -> dict[str, float]:
            found = scores(learner, items, self.eval_batch)
            return judged(lesson.task, lesson.dev, found.tolist(), answers_in(items))

        return look


def _where(model: Any) -> tuple[Any, int]:
    """Device and number of threads of a model that can be trained; for one that cannot, which shows soon, the CPU."""
    from lmassay.models.hf.load import choose_device

    return choose_device(getattr(model, "device", "cpu")), getattr(model, "threads", None) or 1


def _freeze(net: Network) -> None:
    if not deberta.is_deberta(net.module):
        raise ConfigError(f"fix_deberta: the model is a {net.family} and no DeBERTa-v2 or v3; leave it out")
    deberta.freeze(net.module)


def _check(items: list[Item], lesson: Lesson) -> None:
    if not items:
        raise ModelError("there is nothing to learn from: the split's training part is empty")
    if any(item.label < 0 and item.logits is None for item in items):
        named = next(example.guid for example in lesson.train if example.label is None and example.logits is None)
        raise ModelError(f"{named} has no label; training examples need one")


# --- what a training returns ------------------------------------------------------------------------------------------


def answers_in(items: Sequence[Item]) -> list[str] | None:
    """The texts that ReCoRD's questions were answered with; None for tasks without such."""
    if not all("answer" in item.extra for item in items):
        return None
    return [str(item.extra["answer"]) for item in items]


class FittedNetwork:
    """What ``fit`` of a trained method returns: scores for examples, one set of weights an interval, files."""

    def __init__(self, learner: Learner, net: Network, taught: Taught, eval_batch: int, seed: int) -> None:
        self.learner, self.net = learner, net
        self._taught, self._eval_batch, self._seed = taught, eval_batch, seed
        self._used = taught.choices[0]
        self._read: dict[tuple[int, ...], tuple[list[InputExample], list[Item]]] = {}

    @property
    def choices(self) -> list[Choice]:
        """The weights that were kept, one choice an evaluation interval."""
        return self._taught.choices

    @property
    def course(self) -> Course:
        return self._taught.course

    @property
    def draws(self) -> DrawsState | None:
        """Where the method's random generators stand after the training; None for a method without any."""
        return None if self.learner.draws is None else self.learner.draws.state()

    @property
    def facts(self) -> dict[str, Any]:
        """What has a say in the numbers and is not an option of the method."""
        return {"device": self.net.device.type, "dtype": self.net.dtype, "threads": self.net.threads}

    def use(self, choice: Choice) -> None:
        """Go on with the weights of this choice."""
        if choice not in self.choices:
            raise ConfigError(f"these weights were not kept: {choice}")
        if choice.step != self._used.step:
            self._taught.use(choice)
        self._used = choice

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        # Whatever is drawn here (WSC's masks) is the same for every choice of weights.
        with seeded(self._seed, self.net.device, self.net.threads):
            return scores(self.learner, self._items(examples), self._eval_batch)

    def remember(self, examples: Sequence[InputExample], items: list[Item]) -> None:
        """Tokens that are there already."""
        self._read[tuple(map(id, examples))] = (list(examples), items)

    def _items(self, examples: Sequence[InputExample]) -> list[Item]:
        """Tokens, made once for examples that are asked about under several choices."""
        key = tuple(map(id, examples))
        if key not in self._read:
            # The examples are kept, so that their ids are not given to others.
            self._read[key] = (list(examples), self.learner.encode(examples, training=False))
            self.net.check_lengths(self._read[key][1])
        return self._read[key][1]

    def answers(self, examples: Sequence[InputExample]) -> list[str] | None:
        """The texts that were chosen when these examples were last scored; None for tasks without such."""
        return answers_in(self._items(examples))

    def save(self, folder: Path) -> None:
        """The network as transformers saves it, its tokenizer, further trained parts, and a card about the training."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with quiet():
                self.net.module.save_pretrained(folder)
            self.net.tokenizer.save_pretrained(folder)
            own = {id(parameter) for parameter in self.net.module.parameters()}
            added = {name: p for name, p in self.learner.network.named_parameters() if id(p) not in own}
            if added:
                save_file(dict(copied(added)), folder / ADDED)
            card = {"choice": asdict(self._used), "course": asdict(self.course), **self.facts}
            (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"the trained model cannot be written to {folder}: {error}") from error


# --- noisy student's noise --------------------------------------------------------------------------------------------


def spatial_dropout(embeddings: torch.Tensor, rate: float, generator: torch.Generator | None = None) -> torch.Tensor:
    """Embeddings (lines × places × width) in which a dimension is 0 at all places of a line or at none.

    The rest is scaled up by 1 / (1 - rate), so that the mean stays. It is Dropout2d with the words as pixels.
    """
    lines, _, width = embeddings.shape
    # Drawn where the generator lives: the same noise on every device.
    source = embeddings.device if generator is None else generator.device
    chance = torch.rand(lines, 1, width, generator=generator, device=source)
    kept = (chance >= rate).to(device=embeddings.device, dtype=embeddings.dtype)
    return embeddings * (kept / (1 - rate))


class WordNoise:
    """Whole dimensions of the word embeddings are left out while a network is taught; ``remove`` ends it.

    It is a hook at the embedding layer: whatever the learner does with its network is noisy, and evaluation is not.
    """

    def __init__(self, network: Any, *, rate: float, seed: int = 42) -> None:
        if not 0 <= rate < 1:
            raise ConfigError(f"dropout_rate: must be at least 0 and below 1, not {rate}")
        self._network = network
        self._rate = rate
        # Its own numbers: evaluating more often, or drawing elsewhere, does not change the noise.
        self._generator = torch.Generator().manual_seed(seed)
        self._hook = network.get_input_embeddings().register_forward_hook(self._disturb)

    def remove(self) -> None:
        """No more noise."""
        self._hook.remove()

    def _disturb(self, module: torch.nn.Module, arguments: tuple[Any, ...], embedded: torch.Tensor) -> torch.Tensor:
        if not self._network.training or self._rate == 0:
            return embedded
        return spatial_dropout(embedded, self._rate, self._generator)
