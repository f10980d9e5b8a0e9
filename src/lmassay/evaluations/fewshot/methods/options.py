"""The options that all methods with a training loop share, and how such a method runs.

A method adds its own options as fields and says what learns::

    @dataclass(kw_only=True)
    class Mine(Training):
        sharpness: float = 1.0

        def learner(self, lesson: Lesson) -> Learner: ...
"""

# Annotations here are evaluated at once: options are read from the ``__init__`` of subclasses, whose modules need not
# know these names.

from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from lmassay.errors import ConfigError, ModelError
from lmassay.evaluations.fewshot.methods import deberta
from lmassay.evaluations.fewshot.methods.cloze import Reading, place_of
from lmassay.evaluations.fewshot.methods.contract import Lesson
from lmassay.evaluations.fewshot.methods.engine import Hyper, Look, check_schedule, scores, train
from lmassay.evaluations.fewshot.methods.fitted import FittedNetwork, answers_in
from lmassay.evaluations.fewshot.methods.learner import Item, Learner
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.methods.noise import WordNoise
from lmassay.evaluations.fewshot.methods.weights import seeded
from lmassay.evaluations.fewshot.metrics import judged

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

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

    def fit(self, lesson: Lesson) -> FittedNetwork:
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
