"""PET (Schick and Schütze 2021): the network is fine-tuned to fill the mask of a pattern with the word of the label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods import deberta
from lmassay.evaluations.fewshot.methods.cloze import Reading
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.methods.engine import micro_batch_counts, updates_between_evaluations
from lmassay.evaluations.fewshot.methods.learner import Learner
from lmassay.evaluations.fewshot.methods.mlm import LoaderSchedule, WithMlmLoss, mlm_batches, reference_mlm_batches
from lmassay.evaluations.fewshot.methods.multimask import learner_for
from lmassay.evaluations.fewshot.methods.network import Network, open_network
from lmassay.evaluations.fewshot.methods.training import FittedNetwork, Training


@dataclass(kw_only=True)
class Pet(Training):
    """Cross-entropy over the label words at the mask of ``pattern``.

    ``lm_training`` adds masked language modelling (MLM) of ``unlabeled_batch_size`` unlabeled examples per update (with
    ``reference`` per micro-batch, as in FewNLU); by default there are as many of them as labelled ones. ``alpha``
    weights both losses as in PET: alpha · PET + (1 - alpha) · MLM. ``sum`` is the plain sum of both, as in FewNLU,
    where alpha had no effect. ``decoding_strategy`` is the order in which the masks of answers with several tokens are
    filled (COPA, WSC, ReCoRD, and label words of several tokens).
    """

    pattern: Annotated[int, Field(ge=0)] = 0
    lm_training: bool = False
    alpha: Annotated[float, Field(gt=0, le=1)] | Literal["sum"] = "sum"
    unlabeled_batch_size: Annotated[int, Field(ge=1)] | None = None
    decoding_strategy: Literal["default", "ltr", "parallel"] = "default"

    def __post_init__(self) -> None:
        self.uses_unlabeled = self.lm_training

    def learner(self, inputs: TrainingInputs) -> Learner:
        """PET's learner; with ``lm_training``, it also has the loss of masked language modelling."""
        net = open_network(inputs.model, reference=self.reference)
        reading = self.reading(inputs, pattern=self.pattern, mode="cloze")
        learner = pet_learner(self, inputs, net, reading, self.decoding_strategy)
        if not self.lm_training:
            return learner
        if not inputs.unlabeled:
            raise ConfigError(
                f"lm_training: {inputs.task.name} has no unlabeled examples; add some, or remove lm_training"
            )
        return self._with_mlm_loss(learner, net, reading, inputs)

    def restore(self, inputs: TrainingInputs, folder: Path) -> FittedNetwork:
        """The saved classifier. It needs no unlabeled examples: masked language modelling is used only in training."""
        if self.lm_training:
            return replace(self, lm_training=False).restore(inputs, folder)
        return super().restore(inputs, folder)

    def _with_mlm_loss(self, learner: Learner, net: Network, reading: Reading, inputs: TrainingInputs) -> WithMlmLoss:
        """The learner with the loss of masked language modelling on the unlabeled examples."""
        items = learner.encode(inputs.unlabeled, training=False)
        net.check_lengths(items)
        # FewNLU uses one batch of unlabeled examples per micro-batch, lmassay one per update.
        n_labelled = self.batch_size
        if self.reference:
            n_labelled = min(self.micro_batch, self.batch_size)
        size = self.unlabeled_batch_size or n_labelled
        seeds = {"seed": inputs.seed, "sampler_seed": inputs.sampler_seed}
        if self.reference:
            schedule = self._loader_schedule(len(inputs.train), has_dev=bool(inputs.dev))
            batches = reference_mlm_batches(items, net, size, schedule, max_seq_length=reading.max_seq_length, **seeds)
        else:
            batches = mlm_batches(items, net, size, **seeds)
        weights = (1.0, 1.0) if self.alpha == "sum" else (self.alpha, 1 - self.alpha)
        # DeBERTa's loss in FewNLU is a sum over tokens, that of other families a mean.
        is_summed = self.reference and net.family == deberta.FAMILY
        return WithMlmLoss(learner, net, batches, weights, summed=is_summed)

    def _loader_schedule(self, n_train: int, *, has_dev: bool) -> LoaderSchedule:
        """When FewNLU restarts its data loaders.

        Each restart draws a number from the random generator that also draws FewNLU's masks.
        """
        hyper = self.hyperparameters()
        per_epoch, per_update = micro_batch_counts(n_train, hyper)
        total_updates = hyper.max_steps or per_epoch // per_update * hyper.epochs
        between_evaluations = updates_between_evaluations(hyper.eval_ratios[0], total_updates) * per_update
        if not has_dev or not between_evaluations:
            return LoaderSchedule(per_epoch, None)
        return LoaderSchedule(per_epoch, between_evaluations)


def pet_learner(
    method: Training, inputs: TrainingInputs, net: Network, reading: Reading, decoding_strategy: str = "default"
) -> Learner:
    """PET's learner for a task. PET uses it, and the methods that are built upon PET."""
    return learner_for(
        inputs.task,
        net,
        reading,
        decoding_strategy=decoding_strategy,
        reference=method.reference,
        eval_batch_size=method.eval_batch,
        temperature=method.temperature,
    )
