"""Examples, and the requests to a model that a task creates from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Literal

from lmassay.types.json_text import digest, is_utf8

Verb = Literal["generate", "logprobs", "slot", "train", "gradients"]
"""The kinds of request: ``train``, and the names of the methods with which a model answers the others."""


@dataclass(frozen=True, slots=True)
class Example:
    """One item of a data set: the input and, if there is one, the expected answer."""

    id: str
    """A name that is unique within the task."""
    inputs: Mapping[str, Any]
    """The texts and other values from which the task creates its requests."""
    reference: Any = None
    """The expected answer, if the data has one."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Labels by which results are grouped and examples are clustered, such as ``{"category": "Age"}``."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The position of a request in its data set, for models that look up stored answers by line or id."""

    role: str
    """Which of the example's answers is meant. For example, ``out`` is the answer to the original text, and ``adv_out``
    the answer to the attacked text."""
    key: int | str
    """The line number, counted from 0, or the id."""


@dataclass(frozen=True, slots=True)
class Generate:
    """A request for generated text, given either a prompt or chat messages."""

    verb: ClassVar[Verb] = "generate"
    prompt: str = ""
    """The text to continue; empty if ``messages`` is given."""
    messages: tuple[tuple[str, str], ...] = ()
    """A chat as pairs of role and content, such as ``(("user", "Hello"),)``."""
    max_tokens: int = 256
    """The maximum length of the answer in tokens."""
    temperature: float = 0.0
    """The sampling temperature; 0 means that the most probable token is chosen."""
    stop: tuple[str, ...] = ()
    """Texts at which generation stops."""
    choices: tuple[str, ...] = ()
    """If given, the answer is the one of these texts that the model finds most probable."""
    # The two fields below do not change the question to the model. ``compare=False`` excludes them from comparisons and
    # from ``request_key``. Still, no other run reuses a sampled answer: if the temperature is above 0, the runner adds
    # the run, the example and the number of the request to the cache key.
    location: SourceLocation | None = field(default=None, compare=False)
    """Where the request is in its data set."""
    draw: str = field(default="", compare=False)
    """Identifies the sample if the temperature is above 0; local models use it as their random seed."""


@dataclass(frozen=True, slots=True)
class LogProbs:
    """A request for the log-probability of a continuation, after a context or as the reply to chat messages."""

    verb: ClassVar[Verb] = "logprobs"
    context: str
    """The text before the continuation; empty if ``messages`` is given."""
    continuation: str
    """The text whose probability is wanted."""
    messages: tuple[tuple[str, str], ...] = ()
    """A chat as pairs of role and content."""
    location: SourceLocation | None = field(default=None, compare=False)
    """Where the request is in its data set."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A request for the probabilities of candidate words in a blank.

    The full text is ``left + word + right``, including spaces. Masked models see both sides of the blank, causal models
    only the left.
    """

    verb: ClassVar[Verb] = "slot"
    left: str
    """The text before the blank."""
    right: str
    """The text after the blank."""
    candidates: tuple[str, ...]
    """The words to score."""
    ranked: bool = True
    """Whether to return each word's rank in the vocabulary and the probability mass above and below it."""
    multi_token: bool = False
    """Whether words of several tokens are scored token by token; if not, they get no score."""
    full_logits: bool = field(default=False, compare=False)
    """Whether the answer includes the logits of the whole vocabulary; it is then never stored.

    Not part of the cache key, so that the keys of earlier versions stay valid.
    """
    location: SourceLocation | None = field(default=None, compare=False)
    """Where the request is in its data set."""


@dataclass(frozen=True, slots=True)
class Substitute:
    """A request for the substitutions in a text that harm the model most, estimated with a gradient.

    This is what a white-box attack needs.

    The model reads ``left + text + right``. A substitution is scored by the first-order approximation of how much it
    increases the loss of ``target``: the gradient at the old token, times the difference of the two embeddings.
    """

    verb: ClassVar[Verb] = "gradients"
    text: str
    """The text in which a token or word is replaced."""
    target: str
    """The text that the model should no longer write. The attack increases its loss, the negative log-probability."""
    candidates: Literal["any", "neighbours", "unknown"] = "any"
    """What replaces a token: ``any`` other token, or one of its nearest ``neighbours`` in embedding space. With
    ``unknown``, whole words are replaced: two letters are swapped so that the word is not in the vocabulary."""
    neighbours: int = 10
    """The number of nearest neighbours, if ``candidates`` is ``neighbours``."""
    count: int = 1
    """The largest number of substitutions to return."""
    keep: tuple[tuple[int, int], ...] = ()
    """Parts of ``text`` that must not be changed, as pairs of character positions: that of the first character, and the
    one after the last character."""
    seed: int = 0
    """Decides between substitutions with equal scores."""
    left: str = ""
    """The text that the model reads before ``text``, such as an instruction."""
    right: str = ""
    """The text that the model reads after ``text``."""


@dataclass(frozen=True, slots=True)
class Train:
    """A request to train a model on examples. Any worker can do it, and the outcome is cached like an answer."""

    verb: ClassVar[Verb] = "train"
    trainer: str
    """The registered name of the function that does the training."""
    spec: Mapping[str, Any]
    """What to train, as plain JSON. The trainer defines the keys."""
    after: tuple[Train, ...] = ()
    """Trainings that must be finished first, because this one uses their outcomes."""
    data_paths: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Paths to the data on this machine. They do not affect the outcome, so they are not part of the cache key."""
    keeps: bool = field(default=False, compare=False)
    """Whether the trained model is kept in the results folder. This does not affect the outcome either. The key
    ``keep`` of ``data_paths`` is the folder to which the trainer writes the model."""
    key: str = field(init=False, compare=False, repr=False)
    """A digest that identifies the training, without the model."""

    def __post_init__(self) -> None:
        # Computed once per object: many later trainings share an earlier one, and each of them would otherwise compute
        # the digests of the whole chain again. The JSON key is "by", not "trainer", because stored answers have it.
        earlier_keys = [earlier.key for earlier in self.after]
        key = digest({"by": self.trainer, "spec": self.spec, "after": earlier_keys})
        object.__setattr__(self, "key", key)


Request = Generate | LogProbs | Slot | Train | Substitute
"""Anything that a task can ask a model."""


# --- JSON -------------------------------------------------------------------------------------------------------------


def request_as_dict(request: Request) -> dict[str, Any]:
    """Return a request as plain JSON, without the fields that do not affect the answer."""
    if isinstance(request, Train):
        earlier_keys = [training.key for training in request.after]
        # The JSON key is "by", not "trainer", because stored requests have it.
        return {"verb": request.verb, "by": request.trainer, "spec": dict(request.spec), "after": earlier_keys}
    data: dict[str, Any] = {"verb": request.verb}
    for declared in dataclasses.fields(request):
        if declared.compare:
            data[declared.name] = getattr(request, declared.name)
    return data


def request_key(request: Request) -> dict[str, Any]:
    """Return plain JSON that distinguishes a request from all others; its digest is part of the cache key."""
    if isinstance(request, Train):
        return {"verb": request.verb, "training": request.key}
    if not isinstance(request, Slot):
        return request_as_dict(request)
    # Many blanks share one long list of candidate words, so the list is hashed only once.
    without_words = dataclasses.replace(request, candidates=())
    return {**request_as_dict(without_words), "candidates": _words_digest(request.candidates)}


def is_text(request: Request) -> bool:
    """Return whether all texts of a request are valid Unicode text.

    A Python string may contain half of a surrogate pair, which no tokenizer accepts.
    """
    if isinstance(request, Generate):
        texts = [request.prompt, *request.stop, *request.choices, *(content for _, content in request.messages)]
    elif isinstance(request, LogProbs):
        texts = [request.context, request.continuation, *(content for _, content in request.messages)]
    elif isinstance(request, Slot):
        return is_utf8(request.left) and is_utf8(request.right) and _are_words(request.candidates)
    elif isinstance(request, Substitute):
        texts = [request.text, request.target, request.left, request.right]
    else:
        return True
    return all(map(is_utf8, texts))


@lru_cache(maxsize=64)
def _are_words(words: tuple[str, ...]) -> bool:
    # Many blanks share one long list of candidate words.
    return all(map(is_utf8, words))


@lru_cache(maxsize=64)
def _words_digest(words: tuple[str, ...]) -> str:
    return digest(list(words))
