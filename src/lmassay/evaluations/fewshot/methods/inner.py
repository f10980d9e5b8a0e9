"""The learner inside PET and the methods on top of it, by the kind of task and of network."""

from __future__ import annotations

from typing import Any

from lmassay.evaluations.fewshot.methods.causal import CausalCloze
from lmassay.evaluations.fewshot.methods.cloze import Reading
from lmassay.evaluations.fewshot.methods.contract import Lesson
from lmassay.evaluations.fewshot.methods.learner import Learner
from lmassay.evaluations.fewshot.methods.multimask import learner_for
from lmassay.evaluations.fewshot.methods.network import Network


def inner_learner(method: Any, lesson: Lesson, net: Network, reading: Reading) -> Learner:
    """PET's learner for a task and a network, with the options that these methods share."""
    if net.kind == "causal" and lesson.task.kind == "labels":
        return CausalCloze(net, lesson.task, reading, temperature=method.temperature)
    return learner_for(
        lesson.task,
        net,
        reading,
        decoding_strategy=method.decoding_strategy,
        reference=method.reference,
        eval_batch_size=method.eval_batch,
        temperature=method.temperature,
    )
