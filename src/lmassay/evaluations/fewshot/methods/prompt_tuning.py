"""Prompt tuning (Lester et al. 2021): the network is frozen, and only the vectors of a prompt are learned."""

# No ``from __future__ import annotations`` here: options are read from the ``__init__`` of subclasses, and the modules
# of these subclasses need not import the names that the annotations use.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.methods.multimask import label_tokens
from lmassay.evaluations.fewshot.methods.network import open_network
from lmassay.evaluations.fewshot.methods.pet import pet_learner
from lmassay.evaluations.fewshot.methods.prompt_encoder import PromptEncoder, drawn_words
from lmassay.evaluations.fewshot.methods.ptuning import PromptedLearner, shortened, slot_pattern_words
from lmassay.evaluations.fewshot.methods.training import Training

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


@dataclass(kw_only=True)
class PromptTuning(Training):
    """Prompt tuning with a frozen model: ``n_tokens`` vectors are learned, and nothing else.

    They are put before the text (``place: front``), or into the slots of P-tuning's patterns (``place: slots``; there
    are as many as the pattern's number says). The vectors start as the embeddings of random words or, with ``start:
    labels``, of the labels' words followed by random words. They need a higher learning rate than the weights of a
    network.
    """

    reads_patterns: ClassVar[bool] = False

    pattern: Annotated[int, Field(ge=0)] = 0
    n_tokens: Annotated[int, Field(ge=1)] = 20
    place: Literal["front", "slots"] = "front"
    start: Literal["vocabulary", "labels"] = "vocabulary"
    learning_rate: Annotated[float, Field(gt=0)] = 1e-2
    decoding_strategy: Literal["default", "ltr", "parallel"] = "default"

    def label_words(self, task: "NluTask", model: Any, pattern: int) -> dict[str, list[str]]:
        """The words of the pattern, or of the pattern with slots."""
        if self.place == "slots":
            return slot_pattern_words(task, pattern)
        return super().label_words(task, model, pattern)

    def learner(self, inputs: TrainingInputs) -> PromptedLearner:
        """PET's learner on a frozen network, with a trained prompt."""
        net = open_network(inputs.model, reference=self.reference)
        net.module.requires_grad_(False)
        is_in_front = self.place == "front"
        if not is_in_front and net.kind == "causal" and inputs.task.kind == "labels":
            raise ConfigError("place: a causal model does not read slots after its prompt; use front")
        if is_in_front:
            reading = shortened(self.reading(inputs, pattern=self.pattern, mode="cloze"), self.n_tokens)
        else:
            reading = self.reading(inputs, pattern=self.pattern, mode="ptuning")
        inner: Any = pet_learner(self, inputs, net, reading, self.decoding_strategy)
        if is_in_front:
            slots = front = self.n_tokens
        else:
            slots = inner.pvp.prompt_length
            front = 0
        embeddings = net.input_embeddings.weight
        encoder = PromptEncoder(slots, "raw", embeddings, seed=inputs.seed)
        if self.start == "labels":
            # Tasks whose answers are texts have no label words; their prompts start from drawn words only.
            tokens = labels_first(label_tokens(inner), len(embeddings), slots, inputs.seed)
            encoder.start_from(embeddings, tokens)
        return PromptedLearner(inner, net, encoder, learning_rate=self.learning_rate, front=front)


def labels_first(label_words: Sequence[int], vocabulary: int, slots: int, seed: int) -> list[int]:
    """The tokens whose embeddings the prompt's vectors start from, one per slot.

    These are the words of the labels, followed by tokens that are drawn from the vocabulary.

    >>> labels_first([7, 9], vocabulary=10, slots=1, seed=0)
    [7]
    """
    return [*label_words, *drawn_words(vocabulary, slots, seed)][:slots]
