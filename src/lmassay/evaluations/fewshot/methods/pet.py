"""PET: fine-tuning through a pattern's mask (Schick and Schütze 2021), with or without an auxiliary language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods import deberta
from lmassay.evaluations.fewshot.methods.cloze import Reading
from lmassay.evaluations.fewshot.methods.contract import Lesson
from lmassay.evaluations.fewshot.methods.engine import rhythm
from lmassay.evaluations.fewshot.methods.learner import Learner
from lmassay.evaluations.fewshot.methods.mlm import MlmBeside, Rhythm, mlm_batches, reference_mlm_batches
from lmassay.evaluations.fewshot.methods.multimask import learner_for
from lmassay.evaluations.fewshot.methods.network import Network, open_network
from lmassay.evaluations.fewshot.methods.training import Training


@dataclass(kw_only=True)
class Pet(Training):
    """Cross-entropy over the label words at the mask of ``pattern``.

    ``lm_training`` adds masked language modelling of ``unlabeled_batch_size`` unlabeled examples an update (with
    ``reference`` a micro-batch, as in FewNLU); left out, as many as there are labelled ones.
    ``alpha`` weighs the two as PET does, alpha · PET + (1 - alpha) · MLM; ``sum`` is FewNLU's plain sum, whose alpha
    had no effect. ``decoding_strategy``: in which order a text of several tokens is read (COPA, WSC, ReCoRD).
    """

    pattern: Annotated[int, Field(ge=0)] = 0
    lm_training: bool = False
    alpha: Annotated[float, Field(gt=0, le=1)] | Literal["sum"] = "sum"
    unlabeled_batch_size: Annotated[int, Field(ge=1)] | None = None
    decoding_strategy: Literal["default", "ltr", "parallel"] = "default"

    @property
    def uses_unlabeled(self) -> bool:
        return self.lm_training

    def learner(self, lesson: Lesson) -> Learner:
        net = open_network(lesson.model, reference=self.reference)
        reading = self.reading(lesson, pattern=self.pattern, mode="cloze")
        inner = pet_learner(self, lesson, net, reading, self.decoding_strategy)
        if not self.lm_training:
            return inner
        if not lesson.unlabeled:
            raise ConfigError(
                f"lm_training: {lesson.task.name} has no unlabeled examples here; give them, or leave it out"
            )
        return self._beside(inner, net, reading, lesson)

    def _beside(self, inner: Learner, net: Network, reading: Reading, lesson: Lesson) -> MlmBeside:
        items = inner.encode(lesson.unlabeled, training=False)
        net.check_lengths(items)
        seeds = {"seed": lesson.seed, "sampler_seed": lesson.sampler_seed}
        labelled = min(self.micro_batch, self.batch_size) if self.reference else self.batch_size
        size, length = self.unlabeled_batch_size or labelled, reading.max_seq_length
        if self.reference:
            rhythm = self._rhythm(len(lesson.train), has_dev=bool(lesson.dev))
            drawn = reference_mlm_batches(items, net, size, rhythm, max_seq_length=length, **seeds)
        else:
            drawn = mlm_batches(items, net, size, **seeds)
        weights = (1.0, 1.0) if self.alpha == "sum" else (self.alpha, 1 - self.alpha)
        return MlmBeside(inner, net, drawn, weights, summed=self.reference and net.family == deberta.FAMILY)

    def _rhythm(self, n_train: int, *, has_dev: bool) -> Rhythm:
        hyper = self.hyper()
        parts, gathered = rhythm(n_train, hyper)
        total = hyper.max_steps or parts // gathered * hyper.epochs
        look = int(hyper.eval_ratios[0] * total) * gathered
        return Rhythm(parts, look if has_dev and look else None)


def pet_learner(
    method: Training, lesson: Lesson, net: Network, reading: Reading, decoding_strategy: str = "default"
) -> Learner:
    """PET's learner for the lesson's task, for PET and the methods that are built upon it."""
    return learner_for(
        lesson.task,
        net,
        reading,
        decoding_strategy=decoding_strategy,
        reference=method.reference,
        eval_batch_size=method.eval_batch,
        temperature=method.temperature,
    )
