"""Prompt tuning: the network stays as it is, only a prompt before the text is learned (Lester et al. 2021)."""

# Annotations here are evaluated at once: options are read from the ``__init__`` of subclasses, whose modules need not
# know these names.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.contract import Lesson
from lmassay.evaluations.fewshot.methods.network import open_network
from lmassay.evaluations.fewshot.methods.pet import pet_learner
from lmassay.evaluations.fewshot.methods.prompt_encoder import PromptEncoder, drawn_words
from lmassay.evaluations.fewshot.methods.ptuning import Prompted, shortened
from lmassay.evaluations.fewshot.methods.training import Training


@dataclass(kw_only=True)
class PromptTuning(Training):
    """Prompt tuning with a frozen model: ``n_tokens`` vectors are learned, and nothing else.

    They stand before the text (``place: front``), or in the slots of P-tuning's patterns (``slots``, as many as the
    pattern's number says). They start as words of the vocabulary, or (``start: labels``) as the words of the labels
    followed by words of the vocabulary. Such a prompt wants a higher learning rate than the weights of a network.
    """

    reads_patterns: ClassVar[bool] = False

    pattern: Annotated[int, Field(ge=0)] = 0
    n_tokens: Annotated[int, Field(ge=1)] = 20
    place: Literal["front", "slots"] = "front"
    start: Literal["vocabulary", "labels"] = "vocabulary"
    learning_rate: Annotated[float, Field(gt=0)] = 1e-2
    decoding_strategy: Literal["default", "ltr", "parallel"] = "default"

    def learner(self, lesson: Lesson) -> Prompted:
        net = open_network(lesson.model, reference=self.reference)
        net.module.requires_grad_(False)
        before_text = self.place == "front"
        if self.place == "slots" and net.kind == "causal" and lesson.task.kind == "labels":
            raise ConfigError("place: a causal model reads no slots behind its prompt; take front")
        reading = self.reading(lesson, pattern=self.pattern, mode="cloze" if before_text else "ptuning")
        if before_text:
            reading = shortened(reading, self.n_tokens)
        inner: Any = pet_learner(self, lesson, net, reading, self.decoding_strategy)
        slots = self.n_tokens if before_text else inner.pvp.prompt_length
        words = net.words.weight
        encoder = PromptEncoder(slots, "raw", words, seed=lesson.seed)
        if self.start == "labels":
            spoken = inner.verbalizer.rows.tolist() if lesson.task.kind == "labels" else []
            encoder.start_from(words, labels_first(spoken, len(words), slots, lesson.seed))
        front = slots if before_text else 0
        return Prompted(inner, net, encoder, learning_rate=self.learning_rate, front=front)


def labels_first(label_words: Sequence[int], vocabulary: int, slots: int, seed: int) -> list[int]:
    """The labels' words, then drawn ones.

    >>> labels_first([7, 9], vocabulary=10, slots=1, seed=0)
    [7]
    """
    return [*label_words, *drawn_words(vocabulary, slots, seed)][:slots]
