"""The few-shot evaluation: how well does a model do that was shown a few examples, and can one tell beforehand?

A run is one configuration of hyper-parameters. Its examples are trainings, one a split (and pattern, repetition); what
is asked is that they be done; what is judged is how the learned classifier does on dev and test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lmassay.contracts import Model, Task
from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot import evaluation, outcomes, trainer
from lmassay.evaluations.fewshot.icl import InContext, NoChoiceError
from lmassay.evaluations.fewshot.methods.contract import Lesson
from lmassay.evaluations.fewshot.metrics import judged
from lmassay.evaluations.fewshot.protocol import overlap, regimes
from lmassay.evaluations.fewshot.protocol.splits import (
    Split,
    Unit,
    gaps,
    leaks,
    make_splits,
    repeats,
    strategy_name,
    units_of,
)
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from lmassay.plugins.options import Nested, Spec, build, expand_environment, options_model, split_spec
from lmassay.plugins.registry import current_registry
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.storage.files import sha256
from lmassay.types import Design, Example, Replicates, Request, Response, Result, Score, Train, TrainingOutcome, digest

Part = Literal["dev", "test", "dev32"]


class Splits(BaseModel):
    """How the labelled examples are parted into what is learned from and what is selected by."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    strategy: str = "multi_splits"
    k: Annotated[int, Field(ge=1)] = 4
    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.5
    stratify: bool = False
    grouped: bool = True
    """False keeps together only what FewNLU does: not the questions of ReCoRD, the passages of MultiRC …"""


class FewShot(Task):
    """A few-shot method on one task, under FewNLU's protocol (Zheng et al. 2022).

    ``data`` is ``superglue/rte`` and the like (files in ``data_dir``), a .yaml that describes a task of your own, or
    ``file.py:name`` with classes in FewNLU's style. ``labelled`` are the files whose examples are split, ``test``
    is the file that is tested on. ``labelled_examples``, ``unlabeled`` and ``test_examples`` limit those files.
    ``extra`` is a file with more to train on, whose labels ``relabel_extra`` leaves to the teachers of later
    generations. ``sampler_seeds`` are the orders of the repetitions' training examples.
    """

    name = "fewshot"
    version = 1
    evaluation = evaluation

    def __init__(
        self,
        data: str,
        method: Annotated[Spec, Nested("method")] = "pet",
        data_dir: Path | None = None,
        splits: Splits = Splits(),  # noqa: B008 - frozen
        regime: regimes.Regime = regimes.Regime(),  # noqa: B008 - frozen
        labelled: list[Literal["train", "dev32"]] = ["train", "dev32"],  # noqa: B006 - never written to
        labelled_examples: Annotated[int, Field(ge=2)] | None = None,
        test: Part = "dev",
        test_examples: Annotated[int, Field(ge=1)] | None = None,
        unlabeled: Annotated[int, Field(ge=1)] | None = None,
        extra: Path | None = None,
        relabel_extra: bool = False,
        seed: Annotated[int, Field(ge=0)] = 42,
        sampler_seeds: list[int] = [42],  # noqa: B006 - never written to
        label: str = "",
        base_dir: Path = Path(),
    ) -> None:
        self._data, self._data_dir, self._base = data, data_dir, base_dir
        self._method_spec, self._options, self._regime = method, splits, regime
        self._labelled, self._extra, self._relabel = labelled, extra, relabel_extra
        self._first = None if labelled_examples is None else {"first": labelled_examples, "seed": seed}
        self._test = {"part": test, "first": test_examples, "seed": seed}
        self._unlabeled = None if unlabeled is None else {"first": unlabeled, "seed": seed}
        self._seed, self._sampler_seeds = seed, sampler_seeds
        self._method = build("method", method, base_dir, "task.method")
        self.asks = callable(getattr(self._method, "questions", None))
        """True for methods that put questions to the model instead of training it."""
        self.trains = not self.asks
        self.needs = getattr(self._method, "needs", frozenset({"train"}))
        self.requests_each = None if self.asks else 1
        regime_name = "" if regime.name == "default" else f" {regime.name}"
        self.label = label or f"{Path(data).stem} {self._method_name}{regime_name}"

    # --- what the runner asks -----------------------------------------------------------------------------------------

    @property
    def design(self) -> Design:  # type: ignore[override]  # the headline depends on the data
        # Patterns and repetitions of a split are no independent trials; a method without patterns has splits as well.
        return Design(
            clusters=("split",),
            headline=(*self._task.metrics, "dev"),
            pair_by=("split",),
            replicates=self._replicates,
        )

    def check(self) -> None:
        parts = [*self._labelled, self._test["part"]]
        for part in parts:
            self._task.examples(part)  # type: ignore[arg-type]
        if self.asks:
            self._method.check(self._task)
            if self._regime.name != "default":
                raise ConfigError(
                    f"task.regime: {self._method_name} trains nothing, so there is no {self._regime.name}"
                )
        _check_unlabeled(self._data, self._task, self._method, self._regime)
        _check_regime(self._task, self._method_name, self._method, self._regime)
        if self._distils:
            build("method", self._regime.student, self._base, "task.regime.student")
        if self._extra is not None:
            if not self._extra.is_file():
                raise ConfigError(f"task.extra: there is no file {self._extra}")
            trainer.extra_examples(self._task, str(self._extra))
        if len(self._sampler_seeds) < self._regime.repetitions:
            raise ConfigError(
                f"task.sampler_seeds: {self._regime.repetitions} repetitions need as many seeds; got "
                f"{len(self._sampler_seeds)}"
            )
        check = getattr(self._method, "check_task", None)
        if callable(check):
            check(self._task)
        if strategy_name(self._options.strategy) != "model_informed":
            _check_lessons(self._method, self._splits)

    def check_model(self, model: Model) -> None:
        self._model = model
        check = getattr(self._method, "check_model", None)
        if callable(check):
            check(model)

    def notes(self) -> list[str]:
        if strategy_name(self._options.strategy) == "model_informed":
            return []
        strategy = strategy_name(self._options.strategy)
        # A cloze learns from right referents only, so wrong ones are missing by design.
        parts = ("dev",) if self._pairs == "cloze" else ("train", "dev")
        missing = gaps(self._splits, self._units, labels=self._task.labels, parts=parts)
        told = [*missing, *repeats(self._splits), *_without_labels(self._tested)]
        grouped = units_of(self._all, self._task.group)
        told += [
            f"split {number}: {many} groups of examples that belong together are in train and in dev"
            for number, many in enumerate(leaks(self._splits, grouped))
            if many
        ]
        return [f"{self._task.name}, {strategy}: {note}" for note in told]

    def size(self) -> int | None:
        if strategy_name(self._options.strategy) == "model_informed":
            return None
        return sum(1 for _ in self.examples())

    def examples(self) -> Iterator[Example]:
        for unit in self._wanted:
            split = self._splits[unit.seat.split]
            for every in outcomes.evaluation_intervals(self._method):
                suffix = "" if every is None else f"-every-{every:g}"
                groups = {"split": str(unit.seat.split)}
                groups |= {} if unit.seat.pattern is None else {"pattern": str(unit.seat.pattern)}
                groups |= {} if every is None else {"every": f"{every:g}"}
                parts = {"train": list(split.train), "dev": list(split.dev)}
                inputs = {"unit": unit.id, "every": every, "seed": split.seed, **parts}
                yield Example(unit.id + suffix, inputs, None, groups)

    def requests(self, example: Example) -> Sequence[Request]:
        if self.asks:
            lesson, examples = self._asked(example)
            return [r for asked in self._method.questions(lesson, examples) for r in asked]
        return self._by_id[example.inputs["unit"]].members

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        return [self._judge(example, answers) for example, answers in zip(examples, responses, strict=True)]

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        return outcomes.results(table, self._task.metrics, settings, self._replicates)

    def signature(self) -> Mapping[str, Any]:
        # Where the data lie is no part of what the numbers depend on; what is in them stands beside.
        spec = self._spec_of(regimes.Seat(0, None, 0), {}) | {"train": [], "dev": [], "data": self._task.name}
        strategy = strategy_name(self._options.strategy)
        options = "" if not self._options.stratify else ".stratified"
        return {
            "data": f"{self._task.dataset}/{self._task.name}.{digest(self._task.digests())[:8]}",
            "splits": f"{strategy}.k{self._options.k}.r{self._options.ratio:g}{options}",
            "method": f"{self._method_name}.{digest(spec, self._regime_parts())[:8]}",
            "regime": self._regime.name,
            "test": f"{self._test['part']}{self._test['first'] or ''}",
            # FewNLU names neither the coefficient of its correlation nor a number for stability.
            "protocol": "lmassay.spearman.range-over-k",
            "init": f"{self._seed}.{'-'.join(map(str, self._sampler_seeds[: self._regime.repetitions]))}",
        }

    # --- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _task(self) -> NluTask:
        return open_task(self._data, self._data_dir, self._base)

    @cached_property
    def _all(self) -> list[InputExample]:
        return trainer.labelled_of(self._task, {"labelled": self._parts, "labelled_first": self._first})

    @property
    def _parts(self) -> list[str]:
        return [part for part in self._labelled if self._task.has(part)]

    @cached_property
    def _units(self) -> list[Unit]:
        group = self._task.group if self._options.grouped else self._task.original_group
        return units_of(self._all, group, pair=self._task.pair)

    @cached_property
    def _splits(self) -> list[Split]:
        options = self._options
        features = None
        if strategy_name(options.strategy) == "model_informed":
            from lmassay.evaluations.fewshot.methods.network import features_of

            features = features_of(getattr(self, "_model", None), self._task, self._all)
        return make_splits(
            options.strategy,
            self._units,
            k=options.k,
            ratio=options.ratio,
            seed=self._seed,
            stratify=options.stratify,
            features=features,
            pairs=self._pairs,
        )

    @property
    def _replicates(self) -> Replicates:
        """How much the splits share of what is learned from."""
        options = self._options
        shown = 1.0
        if isinstance(self._method, InContext):
            trained_on = overlap.train_share(options.strategy, options.k, options.ratio) * len(self._all)
            shown = min(1.0, self._method.shots / trained_on)
        return overlap.replicates(self._task.metrics, options.strategy, options.k, options.ratio, shown_share=shown)

    @property
    def _pairs(self) -> Literal["all", "cloze", "classifier"]:
        """WSC's pairs of a true and a false referent: a cloze learns from the true one."""
        if self._task.kind != "referent":
            return "all"
        return "classifier" if self._method_name == "sequence_classifier" else "cloze"

    @cached_property
    def _wanted(self) -> list[regimes.Unit]:
        own = getattr(self._method, "pattern", None)
        chained = getattr(self._method, "continue_draws", False)
        return regimes.units(self._regime, len(self._splits), own, self._train, chained=chained)

    @cached_property
    def _by_id(self) -> dict[str, regimes.Unit]:
        return {unit.id: unit for unit in self._wanted}

    @property
    def _method_name(self) -> str:
        return split_spec(self._method_spec, "task.method")[0]

    def _train(self, seat: regimes.Seat, special: Mapping[str, Any], after: Sequence[Train]) -> Train:
        spec = self._spec_of(seat, special)
        split = self._splits[seat.split]
        spec |= {"train": list(split.train), "dev": list(split.dev)}
        where = {
            "data_dir": None if self._data_dir is None else str(self._data_dir),
            "base_dir": str(self._base.resolve()),
            "extra": None if self._extra is None else str(self._extra),
        }
        return Train("fewshot", spec, tuple(after), where)

    def _spec_of(self, seat: regimes.Seat, special: Mapping[str, Any]) -> dict[str, Any]:
        method: Spec = special.get("method", self._method_spec)
        if seat.pattern is not None and "method" not in special:
            name, options = split_spec(method, "task.method")
            method = {"name": name, **options, "pattern": seat.pattern}
        spec = {
            "version": trainer.VERSION,
            "data": self._data,
            "files": self._task.digests(),
            "labelled": self._parts,
            "test": self._test,
            "unlabeled": self._unlabeled,
            "seed": self._seed,
            "sampler_seed": self._sampler_seeds[seat.repetition],
        }
        spec |= {} if self._first is None else {"labelled_first": self._first}
        spec |= {} if self._extra is None else {"extra": sha256(self._extra)}
        spec |= {"relabel": True} if self._relabel else {}
        return {**spec, **special, **self._identified(method)}

    def _regime_parts(self) -> dict[str, Any]:
        student = self._identified(self._regime.student) if self._distils else {}
        return {**self._regime.model_dump(mode="json"), "student": student}

    @property
    def _distils(self) -> bool:
        return self._regime.name == "distillation"

    def _identified(self, spec: Spec) -> dict[str, Any]:
        """A method as part of a training: its options in one spelling, and what else makes its result its own."""
        name, options = split_spec(spec, "task.method")
        factory = current_registry().get("method", name, self._base)
        checked = options_model(factory).model_validate(expand_environment(options, "task.method"))
        found: dict[str, Any] = {"method": {"name": name, **checked.model_dump(mode="json", exclude_defaults=True)}}
        made, made_from = trainer.made_method(spec, self._base)
        found |= made_from
        identity = getattr(made, "identity", None)
        return found | ({"identity": identity()} if callable(identity) else {})

    def _asked(self, example: Example) -> tuple[Lesson, list[InputExample]]:
        """The lesson of a split whose questions go to the model, and whom it is asked about: dev, then test."""
        train = [self._all[place] for place in example.inputs["train"]]
        dev = [self._all[place] for place in example.inputs["dev"]]
        lesson = Lesson(task=self._task, model=None, train=train, dev=dev, seed=example.inputs["seed"])
        return lesson, [*dev, *self._tested]

    @cached_property
    def _tested(self) -> list[InputExample]:
        return trainer.test_examples(self._task, {"test": self._test})

    def _judge(self, example: Example, answers: Sequence[Response]) -> Score:
        if self.asks:
            return self._judge_answers(example, answers)
        found = [answer.answer.outcome for answer in answers if isinstance(answer.answer, TrainingOutcome)]
        dev = [self._all[place] for place in example.inputs["dev"]]
        return outcomes.score(self._task, found, example.inputs["every"], dev, self._tested)

    def _judge_answers(self, example: Example, answers: Sequence[Response]) -> Score:
        lesson, examples = self._asked(example)
        logits, left, odd = [], list(answers), []
        for asked, about in zip(self._method.questions(lesson, examples), examples, strict=True):
            try:
                logits.append(self._method.logits(self._task, about, left[: len(asked)]))
            except NoChoiceError as error:
                odd.append(str(error))
            del left[: len(asked)]
        if odd:
            # Neither right nor wrong: the model was not able to say.
            return Score(unscored={"answer": f"{len(odd)} of {len(examples)} answers are no choice, e.g. {odd[0]}"})
        many = len(lesson.dev)
        outcome = {
            "n_train": len(lesson.train),
            "n_dev": many,
            "choices": [
                {
                    "every": None,
                    "dev": judged(self._task, lesson.dev, logits[:many]),
                    "test": judged(self._task, self._tested, logits[many:]),
                    "dev_logits": logits[:many],
                    "test_logits": logits[many:],
                }
            ],
        }
        return outcomes.score(self._task, [outcome], None, lesson.dev, self._tested)


# --- what can be known to be wrong before anything is trained ---------------------------------------------------------


def _check_unlabeled(data: str, task: NluTask, method: Any, regime: regimes.Regime) -> None:
    """Unlabeled examples that are asked for must be there."""
    wanted = regime.uses_unlabeled or getattr(method, "uses_unlabeled", False)
    if not wanted or task.has("unlabeled"):
        return
    key = "task.regime" if regime.uses_unlabeled else "task.method"
    own = data.endswith((".yaml", ".yml"))
    where = "name them under data: in the task's file" if own else "put unlabeled.jsonl beside the other files"
    raise ConfigError(f"{key}: this needs unlabeled examples, and {data} has none; {where}")


def _check_regime(task: NluTask, name: str, method: Any, regime: regimes.Regime) -> None:
    """Whether a regime fits the task and the method, and the patterns exist."""
    if task.kind == "entities" and regime.name != "default":
        raise ConfigError(
            f"task.regime: answers of {task.name} are texts of each example, which can neither be averaged nor taught "
            f"as labels; {regime.name} does not fit, take default"
        )
    if regime.patterns and not hasattr(method, "pattern"):
        raise ConfigError(f"task.regime.patterns: the method {name} has no pattern; leave them out")
    if regime.name == "noisy_student" and not hasattr(method, "spatial_dropout"):
        raise ConfigError(f"task.regime.name: the method {name} cannot be made noisy; take ipet")
    check = getattr(method, "check_pattern", None)
    if not callable(check):
        return
    own: Any = getattr(method, "pattern", None)
    if own is None:
        return
    key, patterns = ("task.regime.patterns", regime.patterns) if regime.patterns else ("task.method.pattern", [own])
    for pattern in patterns:
        try:
            check(task, pattern)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from None


def _check_lessons(method: Any, splits: Sequence[Split]) -> None:
    """Numbers of updates and looks that make no training of such a size."""
    check = getattr(method, "check_lesson", None)
    if not callable(check):
        return
    for split in splits:
        try:
            check(len(split.train), has_dev=bool(split.dev))
        except ConfigError as error:
            raise ConfigError(f"task.method.{error}") from None


def _without_labels(tested: Sequence[InputExample]) -> list[str]:
    """A note if the test examples cannot be scored."""
    without = sum(example.label is None for example in tested)
    if not without:
        return []
    return [f"{without} of {len(tested)} test examples have no label: nothing is scored on test"]
