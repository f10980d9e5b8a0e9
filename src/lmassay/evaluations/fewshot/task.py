"""The few-shot evaluation: how well does a model learn from a few examples, and do dev scores predict test scores?

A run is one configuration of hyper-parameters. Its examples are trainings: one per split, pattern and repetition. A
request stands for one training, and the scores of the example are those of the trained classifier on dev and test. For
a method that trains nothing (``PromptMethod``), a run has one example per split, and its requests are questions to the
model about the dev and test examples of the split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from lmassay.contracts import Model, Task
from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot import evaluation, outcomes, trainer
from lmassay.evaluations.fewshot.label_word_tokens import LabelWordTokens
from lmassay.evaluations.fewshot.methods.contract import (
    Method,
    NoChoiceError,
    PromptMethod,
    TrainingInputs,
    as_method,
)
from lmassay.evaluations.fewshot.metrics import scores_of_answered
from lmassay.evaluations.fewshot.protocol import costs, overlap, regimes
from lmassay.evaluations.fewshot.protocol.splits import (
    Split,
    SplitUnit,
    count_leaking_groups,
    make_splits,
    missing_label_warnings,
    repeated_split_warnings,
    strategy_name,
    units_of,
)
from lmassay.evaluations.fewshot.tasks.examples import InputExample, input_key
from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task, published_folder
from lmassay.models.hf.model import HuggingFace
from lmassay.plugins.data_options import InMemory
from lmassay.plugins.options import Nested, Spec, build, expand_environment, options_model, split_spec
from lmassay.plugins.registry import current_registry
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.storage.files import sha256
from lmassay.types import (
    Design,
    Example,
    Finish,
    Replicates,
    Request,
    Response,
    Result,
    Score,
    Train,
    TrainingOutcome,
    digest,
)
from lmassay.types.wording import counted

# "dev32" is FewGLUE's second file with 32 labelled examples per task.
Part = Literal["dev", "test", "dev32"]
LabelledPart = Literal["train", "dev32", "dev", "test"]
# Why the model stopped → why its answer is unusable, in the words of the report. An answer that ended normally ("stop")
# is unusable if it does not name a label.
_REASONS: dict[Finish, str] = {
    "stop": "out of choice",
    "length": "cut off",
    "refusal": "refused",
    "content_filter": "filtered",
    "empty": "empty",
    "too_long": "prompt too long",
    "not_text": "half a surrogate pair in the prompt",
}
# For these reasons the model was not asked at all. Nothing is known about its answer, so the example does not count in
# the out-of-choice rate either.
_NOT_ASKED: frozenset[Finish] = frozenset({"too_long", "not_text"})


class Splits(BaseModel):
    """How the labelled examples are divided into train and dev."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    strategy: str = "multi_splits"
    k: Annotated[int, Field(ge=1)] = 4
    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.5
    stratify: bool = False
    grouped: bool = True
    """Whether examples of one group, such as the questions about one passage, stay together. If False, only FewNLU's
    smaller groups do (``NluTask.original_group``): questions about one passage of BoolQ, MultiRC or ReCoRD may then be
    divided between train and dev."""


@dataclass(slots=True)
class _ReadAnswers:
    """What a prompt method has read from a model's answers about the examples of a split."""

    logits: list[list[float] | None] = field(default_factory=list)
    """The label scores of each example; None for an example without a usable answer."""
    unusable: dict[str, int] = field(default_factory=dict)
    """Reason → the number of examples whose answers are unusable for it."""
    not_asked: dict[int, str] = field(default_factory=dict)
    """The number of an example → why the model was not asked about it."""
    first_unreadable: str = ""
    """The message about the first answer that is not a label."""

    def add_unusable(self, reason: str) -> None:
        """Add an example whose answers are unusable. It counts neither as right nor as wrong."""
        self.logits.append(None)
        self.unusable[reason] = self.unusable.get(reason, 0) + 1


class FewShot(Task):
    """A few-shot method on one task, under FewNLU's protocol (Zheng et al. 2022).

    ``data`` is ``superglue/rte`` or similar, a .yaml that describes your own task, or ``file.py:name`` with classes in
    FewNLU's style. The files are in ``data_dir``, or are those that the .yaml names or ``lmassay data get fewglue``
    fetched. The examples of the ``labelled`` parts are split; ``test`` is the part that the classifier is tested on.
    ``labelled_examples``, ``unlabeled`` and ``test_examples`` are the maximum numbers of examples. ``extra`` is a file
    with further training examples; with ``relabel_extra`` its labels are ignored, and the teachers of each generation
    label its examples for the next one.
    ``sampler_seeds`` are the seeds for the order of examples, one per repetition. ``keep: best`` keeps the trained
    models in the results folder, each with its best weights on dev; ``lmassay predict`` uses them.
    """

    name = "fewshot"
    version = 1
    evaluation = evaluation

    option_help: ClassVar[Mapping[str, str]] = {
        "data": (
            "a task of SuperGLUE or GLUE (superglue/rte), a .yaml file that describes your own task, or "
            "file.py:name with classes in the style of FewNLU"
        ),
        "method": "how the classifier is trained: a name, or a name with options",
        "data_dir": "the folder with the files; by default those that lmassay data get has fetched",
        "splits": (
            "how labelled examples are divided into train and dev: strategy, k splits, the ratio of train, "
            "stratify by label, grouped"
        ),
        "splits.strategy": (
            "how examples are divided: multi_splits, cross_validation, mdl, bagging, random, model_informed, dev32 or "
            "fixed"
        ),
        "splits.k": "number of splits",
        "splits.ratio": "share of the examples in train",
        "splits.stratify": "give each label the same share of train and of dev as of all examples",
        "splits.grouped": "keep examples of one group, such as a passage, together",
        "regime": (
            "how trainings are combined, or label unlabelled examples for each other (as teachers): name, patterns, "
            "repetitions, generations and more"
        ),
        "regime.name": "how trainings are combined or teach each other; default: not at all",
        "regime.patterns": "the patterns to train; if empty, the pattern of the method",
        "regime.repetitions": "trainings per split and pattern",
        "regime.generations": "number of generations; each learns from labels that the one before it gave",
        "regime.scale_factor": "factor by which the training set grows per generation",
        "regime.logits_percentage": "share of the teachers whose labels are used, between 0 and 1",
        "regime.n_most_likely": (
            "for the second generation, the number of most likely examples per label to draw from; -1: draw from all "
            "examples that the teachers give this label"
        ),
        "regime.cross": "use the models of all splits as teachers, not only those of the same split",
        "regime.dropout_rate": "share of embedding dimensions dropped by a noisy student",
        "regime.temperature": "temperature of soft labels",
        "regime.student": "with name: distillation, the method of the model that learns from all others",
        "labelled": "the parts whose examples are split; by default train, and dev32 if there is one",
        "labelled_examples": "maximum number of labelled examples, drawn with the seed",
        "test": "the part of the data that the classifier is tested on; by default dev, or test if there is no dev",
        "test_examples": "maximum number of test examples, drawn with the seed",
        "unlabeled": "maximum number of unlabelled examples, drawn with the seed",
        "extra": "a file with further training examples, such as augmented data",
        "relabel_extra": "let the teachers of later generations label the examples of extra",
        "seed": "random seed for splits, new weights and dropout",
        "sampler_seeds": "random seeds for the order of training examples, one per repetition",
        "keep": "best: keep the trained models in the results folder, for lmassay predict",
        "label": "name in tables",
    }
    config_example = "task: {name: fewshot, data: superglue/rte, method: [pet, lora], splits: {k: 4}}"

    def __init__(
        self,
        data: Annotated[str, InMemory("rows", described_by="data")],
        method: Annotated[Spec, Nested("method")] = "pet",
        data_dir: Path | None = None,
        splits: Splits = Splits(),  # noqa: B008 - frozen
        regime: regimes.Regime = regimes.Regime(),  # noqa: B008 - frozen
        labelled: list[LabelledPart] | None = None,
        labelled_examples: Annotated[int, Field(ge=2)] | None = None,
        test: Part | None = None,
        test_examples: Annotated[int, Field(ge=1)] | None = None,
        unlabeled: Annotated[int, Field(ge=1)] | None = None,
        extra: Path | None = None,
        relabel_extra: bool = False,
        seed: Annotated[int, Field(ge=0)] = 42,
        sampler_seeds: list[int] = [42],  # noqa: B006 - never written to
        keep: Literal["none", "best"] = "none",
        label: str = "",
        base_dir: Path = Path(),
    ) -> None:
        self._data = data
        self._data_dir = data_dir
        self._base = base_dir
        self._method_spec = method
        self._split_options = splits
        self._regime = regime
        self._given_labelled = labelled
        self._labelled_limit = None if labelled_examples is None else {"first": labelled_examples, "seed": seed}
        self._given_test = test
        self._test_limit = test_examples
        self._unlabeled_limit = None if unlabeled is None else {"first": unlabeled, "seed": seed}
        self._extra = extra
        self._relabel_extra = relabel_extra
        self._seed = seed
        self._sampler_seeds = sampler_seeds
        self._keep = keep
        self._model: Model | None = None
        self._too_long_text = ""
        self._method: Method = as_method(build("method", method, base_dir, "task.method"))
        self.trains = not isinstance(self._method, PromptMethod)
        self.needs = self._method.needs
        # A split has hundreds of questions. If the model refuses to answer one of them, only that question is left out,
        # not the whole split.
        self.scores_unusable = not self.trains
        regime_name = "" if regime.name == "default" else f" {regime.name}"
        # If the method is in a file, its folder is left out of the label; the path would make tables too wide.
        short_method_name = self._method_name.rpartition("/")[2]
        self.label = label or f"{Path(data).stem} {short_method_name}{regime_name}"

    # --- the task's contract ------------------------------------------------------------------------------------------

    @property
    def design(self) -> Design:  # type: ignore[override]  # the headline depends on the data
        """The clusters are the splits, because patterns and repetitions of one split are not independent trials."""
        headline = [*self._task.metrics, "dev"]
        if isinstance(self._method, PromptMethod) and self._method.answers_in_words:
            headline.append(outcomes.OUT_OF_CHOICE)
        return Design(
            clusters=("split",),
            headline=tuple(headline),
            pair_by=("split",),
            replicates=self._replicates,
        )

    @property
    def requests_each(self) -> int | None:  # type: ignore[override]  # depends on the method and the data
        """How many trainings a score needs; for a prompt method, how many requests a split needs at most.

        None if the number is not known before the run.
        """
        if not isinstance(self._method, PromptMethod):
            return self._regime.trainings_per_score
        if self._is_model_informed:
            return None
        counts = []
        for split in self._splits:
            dev = [self._labelled_examples[index] for index in split.dev]
            counts.append(self._method.count_requests(self._task, [*dev, *self._test_examples]))
        known_counts = [count for count in counts if count is not None]
        if len(known_counts) < len(counts):
            return None
        return max(known_counts, default=None)

    def choose_for(self, model: Model) -> None:
        """Let a prompt method choose how it asks this model."""
        if isinstance(self._method, PromptMethod):
            self._method.choose_for(model)
            self.needs = self._method.needs

    def check(self) -> None:
        """Raise a UserError if data, method, regime and splits do not fit together."""
        for part in [*self._labelled, self._test_part]:
            self._task.examples(part)
        # dev32 is an exception: as in FewNLU, it may be tested on although some of its examples are trained on.
        if self._test_part in self._labelled and self._test_part != "dev32":
            raise ConfigError(
                f"task.labelled: '{self._test_part}' is tested on, so it cannot be trained on; remove it here, or "
                "choose another part as task.test"
            )
        if not self.trains and self._regime.name != "default":
            raise ConfigError(
                f"task.regime: the method {self._method_name} trains nothing, so {self._regime.name} is impossible; "
                "leave regime out"
            )
        self._method.check_task(self._task)
        self._check_keep()
        self._check_unlabeled()
        self._check_regime()
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
        # Model-informed splits are known only when the model is loaded.
        if not self._is_model_informed:
            self._check_training_sizes()

    def check_model(self, model: Model) -> None:
        """Raise a UserError for a model that the method cannot use, or whose tokens do not distinguish the labels."""
        self._model = model
        self._method.check_model(model)
        for words in self._label_words():
            words.check(reads_left_to_right=not model.sees_right)

    def notes(self) -> list[str]:
        """The notes of a prompt method, which say how the model is asked, and warnings about the data.

        The warnings are about labels that a split lacks, splits that are equal, groups that are in both train and dev,
        and test examples without labels.
        """
        method_notes: list[str] = []
        if isinstance(self._method, PromptMethod):
            method_notes = list(self._method.notes())
        if self._is_model_informed:
            return method_notes
        if isinstance(self._method, PromptMethod):
            method_notes += self._note_on_shots(self._method)
        # In WSC, a method that fills a mask (a cloze) learns from right referents only, so it is intended that wrong
        # ones are missing in train.
        parts = ("dev",) if self._pairs == "cloze" else ("train", "dev")
        warnings = [
            *missing_label_warnings(self._splits, self._units, labels=self._task.labels, parts=parts),
            *repeated_split_warnings(self._splits),
        ]
        tests = self._test_examples
        tests_without_label = [example for example in tests if example.label is None]
        if tests_without_label:
            warnings.append(
                f"{len(tests_without_label)} of {len(tests)} test examples have no label: nothing is scored on test"
            )
        labelled_inputs = {input_key(example) for example in self._labelled_examples}
        repeated = sum(input_key(example) in labelled_inputs for example in tests)
        if repeated:
            warnings.append(
                f"{repeated} of {counted(len(tests), 'test example')} are also labelled examples, so the "
                "test score is too high"
            )
        grouped = units_of(self._labelled_examples, self._task.group)
        for number, leaked in enumerate(count_leaking_groups(self._splits, grouped)):
            if leaked:
                warnings.append(
                    f"split {number}: {leaked} groups of examples that belong together are in train and in dev"
                )
        prefix = f"{self._task.name}, {strategy_name(self._split_options.strategy)}"
        return [*method_notes, *(f"{prefix}: {warning}" for warning in warnings)]

    def _note_on_shots(self, method: PromptMethod) -> list[str]:
        """A note if a prompt cannot have as many examples as the method may show, because a split has fewer."""
        fewest = min((len(split.train) for split in self._splits), default=0)
        if method.shots <= fewest:
            return []
        return [
            f"{self._task.name}: shots is {method.shots}, but a split has only {counted(fewest, 'training example')}, "
            "so a prompt shows no more than these"
        ]

    def facts(self) -> list[str]:
        """How the label words of each pattern are tokenized, one text per pattern."""
        return [f"label words of {words.description()}" for words in self._label_words()]

    def _label_words(self) -> list[LabelWordTokens]:
        """The label words of each pattern, if the method reads them and the model's tokenizer is on this machine."""
        method = self._method
        # A user's method may have a pattern without using the label words. All of lmassay's own methods that train with
        # a pattern use them, and these methods can be recognized by ``can_restore``.
        if not isinstance(self._model, HuggingFace) or method.pattern is None or not method.can_restore:
            return []
        if self._task.kind != "labels":
            return []
        tokenizer = self._model.tokenizer.tokenizer
        patterns = self._regime.patterns or [method.pattern]
        label_words = []
        for pattern in patterns:
            words = method.label_words(self._task, self._model, pattern)
            if words:
                label_words.append(LabelWordTokens(self._task, pattern, words, tokenizer))
        return label_words

    def size(self) -> int | None:
        """The number of examples, see ``examples``; None if the splits depend on the model."""
        if self._is_model_informed:
            return None
        return sum(1 for _ in self.examples())

    def examples(self) -> Iterator[Example]:
        """One example per training and evaluation ratio; trainings whose logits are averaged share an example."""
        for group in self._training_groups:
            split = self._splits[group.key.split]
            for every in outcomes.eval_ratios_of(self._method):
                example_id = group.id
                groups = {"split": str(group.key.split)}
                if group.key.pattern is not None:
                    groups["pattern"] = str(group.key.pattern)
                if every is not None:
                    example_id += f"-every-{every:g}"
                    groups["every"] = f"{every:g}"
                inputs = {
                    "unit": group.id,
                    "every": every,
                    "seed": split.seed,
                    "train": list(split.train),
                    "dev": list(split.dev),
                }
                yield Example(example_id, inputs, None, groups)

    def requests(self, example: Example) -> Sequence[Request]:
        """The trainings of a group; for a method that trains nothing, its questions about dev and test examples."""
        if isinstance(self._method, PromptMethod):
            inputs, examples = self._prompt_inputs(example)
            requests: list[Request] = []
            for questions in self._method.questions(inputs, examples):
                requests += questions
            return requests
        return self._groups_by_id[example.inputs["unit"]].members

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        """The metrics on dev and test of each training, or of the group of trainings whose logits are averaged."""
        scores = []
        for example, answers in zip(examples, responses, strict=True):
            if isinstance(self._method, PromptMethod):
                scores.append(self._score_answers(self._method, example, answers))
            else:
                scores.append(self._score_trainings(example, answers))
        return scores

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        """The means over trainings, with their intervals."""
        return outcomes.results(table, self._task.metrics, settings, self._replicates)

    def signature(self) -> Mapping[str, Any]:
        """Everything that the scores depend on, for the signature of the run."""
        # The digest of the method must be the same for all splits, and wherever the data are (their contents have a
        # separate digest).
        spec = self._training_spec(regimes.TrainingKey(0, None, 0), {})
        spec |= {"train": [], "dev": [], "data": self._task.name}
        strategy = strategy_name(self._split_options.strategy)
        stratified = ".stratified" if self._split_options.stratify else ""
        sampler_seeds = "-".join(map(str, self._sampler_seeds[: self._regime.repetitions]))
        wording = self._method.wording(self._task) if isinstance(self._method, PromptMethod) else {}
        return {
            "data": f"{self._task.dataset}/{self._task.name}.{digest(self._task.digests())[:8]}",
            "splits": f"{strategy}.k{self._split_options.k}.r{self._split_options.ratio:g}{stratified}",
            "method": f"{self._method_name}.{digest(spec, self._regime_parts())[:8]}",
            "regime": self._regime.name,
            "test": f"{self._test_part}{self._test_limit or ''}",
            # FewNLU names neither the coefficient of its correlation nor a formula for stability, so lmassay's are
            # named here.
            "protocol": "lmassay.spearman.range-over-k",
            "init": f"{self._seed}.{sampler_seeds}",
            **wording,
        }

    # --- data and splits ----------------------------------------------------------------------------------------------

    @cached_property
    def _task(self) -> NluTask:
        return open_task(self._data, self._folder, self._base)

    @cached_property
    def _folder(self) -> Path | None:
        """Where the files are: the given folder, or that of a published data set."""
        if self._data_dir is not None:
            return self._data_dir
        return published_folder(self._data)

    @cached_property
    def _labelled_examples(self) -> list[InputExample]:
        """The examples that the indices of the splits refer to."""
        spec = {"labelled": self._labelled_parts, "labelled_first": self._labelled_limit}
        return trainer.labelled_of(self._task, spec)

    @cached_property
    def _labelled(self) -> list[LabelledPart]:
        """The parts whose examples are split: those that the user names, else train, and dev32 if there is one.

        Only FewGLUE has a dev32 file.
        """
        if self._given_labelled is not None:
            return self._given_labelled
        if not self._task.has("dev32"):
            return ["train"]
        return ["train", "dev32"]

    @cached_property
    def _test_part(self) -> Part:
        """The part that is tested on: the one that the user names, else dev, or test if a user's task has no dev."""
        if self._given_test is not None:
            return self._given_test
        if self._task.own_files and self._task.has("test") and not self._task.has("dev"):
            return "test"
        return "dev"

    @property
    def _test(self) -> dict[str, Any]:
        """The part that is tested on, and how many of its examples, in the form that a training's spec has."""
        return {"part": self._test_part, "first": self._test_limit, "seed": self._seed}

    @property
    def _labelled_parts(self) -> list[str]:
        return [part for part in self._labelled if self._task.has(part)]

    @cached_property
    def _test_examples(self) -> list[InputExample]:
        return trainer.test_examples(self._task, {"test": self._test})

    @cached_property
    def _units(self) -> list[SplitUnit]:
        """What splitting depends on: the group, label and pair of each labelled example."""
        group = self._task.group if self._split_options.grouped else self._task.original_group
        return units_of(self._labelled_examples, group, pair=self._task.pair)

    @property
    def _is_model_informed(self) -> bool:
        """Whether the splits depend on the model, so that nothing is known about them before it is loaded."""
        return strategy_name(self._split_options.strategy) == "model_informed"

    @cached_property
    def _splits(self) -> list[Split]:
        options = self._split_options
        features = None
        if self._is_model_informed:
            from lmassay.evaluations.fewshot.methods.network import features_of

            features = features_of(self._model, self._task, self._labelled_examples)
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
    def _pairs(self) -> Literal["all", "cloze", "classifier"]:
        """How WSC's pairs of a true and a false referent are used for training.

        A method that fills a mask (``cloze``) learns from the true one only; a classifier learns from either.
        """
        if self._task.kind != "referent":
            return "all"
        return "classifier" if self._method_name == "sequence_classifier" else "cloze"

    @property
    def _replicates(self) -> Replicates:
        """How strongly the results of splits are correlated because splits share training examples."""
        options = self._split_options
        shown_share = 1.0
        if isinstance(self._method, PromptMethod):
            # A prompt shows only some of the training examples, so two splits have fewer of them in common.
            train_share = overlap.train_share(options.strategy, options.k, options.ratio)
            n_train = train_share * len(self._labelled_examples)
            shown_share = min(1.0, self._method.shots / n_train)
        metrics = list(self._task.metrics)
        replicates = overlap.replicates(metrics, options.strategy, options.k, options.ratio, shown_share=shown_share)
        if not isinstance(self._method, PromptMethod) or not self._method.answers_in_words:
            return replicates
        # Whether an answer can be read depends on the demonstrations in the same way as whether it is right.
        correlation = {**replicates.correlation, outcomes.OUT_OF_CHOICE: replicates.correlation["test"]}
        return Replicates(replicates.group, correlation)

    # --- trainings ----------------------------------------------------------------------------------------------------

    @cached_property
    def _training_groups(self) -> list[regimes.TrainingGroup]:
        return regimes.training_groups(
            self._regime,
            len(self._splits),
            self._method.pattern,
            self._training,
            chained=self._method.continue_draws,
        )

    @cached_property
    def _groups_by_id(self) -> dict[str, regimes.TrainingGroup]:
        return {group.id: group for group in self._training_groups}

    @property
    def _method_name(self) -> str:
        return split_spec(self._method_spec, "task.method")[0]

    def _training(self, key: regimes.TrainingKey, special: Mapping[str, Any], after: Sequence[Train]) -> Train:
        """The request for one training.

        ``special`` are entries of its spec that depend on the regime, and ``after`` are the trainings that it builds
        upon.
        """
        split = self._splits[key.split]
        spec = self._training_spec(key, special)
        spec |= {"train": list(split.train), "dev": list(split.dev)}
        data_paths = {
            "data_dir": None if self._folder is None else str(self._folder),
            "base_dir": str(self._base.resolve()),
            "extra": None if self._extra is None else str(self._extra),
        }
        return Train("fewshot", spec, tuple(after), data_paths, keeps=self._keep == "best")

    def _training_spec(self, key: regimes.TrainingKey, special: Mapping[str, Any]) -> dict[str, Any]:
        """What a training depends on, without the examples of its split.

        With these added, its digest is the training's key in the store.
        """
        method: Spec = special.get("method", self._method_spec)
        if key.pattern is not None and "method" not in special:
            name, options = split_spec(method, "task.method")
            method = {"name": name, **options, "pattern": key.pattern}
        spec: dict[str, Any] = {
            "version": trainer.VERSION,
            "data": self._data,
            "files": self._task.digests(),
            "labelled": self._labelled_parts,
            "test": self._test,
            "unlabeled": self._unlabeled_limit,
            "seed": self._seed,
            "sampler_seed": self._sampler_seeds[key.repetition],
        }
        # Options that later versions added are in the spec only if they are used, so that the keys of stored trainings
        # stay the same.
        if self._labelled_limit is not None:
            spec["labelled_first"] = self._labelled_limit
        if self._extra is not None:
            spec["extra"] = sha256(self._extra)
        if self._relabel_extra:
            spec["relabel"] = True
        return {**spec, **special, **self._method_identity(method)}

    def _regime_parts(self) -> dict[str, Any]:
        """The options of the regime, with what identifies the student's method."""
        student = self._method_identity(self._regime.student) if self._distils else {}
        return {**self._regime.model_dump(mode="json"), "student": student}

    @property
    def _distils(self) -> bool:
        return self._regime.name == "distillation"

    def _method_identity(self, spec: Spec) -> dict[str, Any]:
        """What identifies a method in the key of a training.

        These are its options, except those with their default value, and everything else that its result depends on.
        """
        name, options = split_spec(spec, "task.method")
        factory = current_registry().get("method", name, self._base)
        checked = options_model(factory).model_validate(expand_environment(options, "task.method"))
        given_options = checked.model_dump(mode="json", exclude_defaults=True)
        method, made_from = trainer.made_method(spec, self._base)
        parts: dict[str, Any] = {"method": {"name": name, **given_options}, **made_from}
        identity = method.identity()
        if identity is not None:
            parts["identity"] = identity
        return parts

    def _score_trainings(self, example: Example, responses: Sequence[Response]) -> Score:
        """The scores of a training, or of several whose logits are averaged."""
        trained = [response.answer.outcome for response in responses if isinstance(response.answer, TrainingOutcome)]
        dev = [self._labelled_examples[index] for index in example.inputs["dev"]]
        score = outcomes.score(self._task, trained, example.inputs["every"], dev, self._test_examples)
        return replace(score, details={**score.details, "cost": costs.cost_of_trainings(responses)})

    # --- methods that put questions to the model ----------------------------------------------------------------------

    def _prompt_inputs(self, example: Example) -> tuple[TrainingInputs, list[InputExample]]:
        """The inputs of a prompt method for a split, and the examples it asks about: dev, then test."""
        train = [self._labelled_examples[index] for index in example.inputs["train"]]
        dev = [self._labelled_examples[index] for index in example.inputs["dev"]]
        inputs = TrainingInputs(task=self._task, model=None, train=train, dev=dev, seed=example.inputs["seed"])
        return inputs, [*dev, *self._test_examples]

    def _score_answers(self, method: PromptMethod, example: Example, responses: Sequence[Response]) -> Score:
        """The scores of a split, from the model's answers to the questions about its dev and test examples."""
        inputs, examples = self._prompt_inputs(example)
        read = self._read_answers(method, inputs, examples, responses)
        n_dev = len(inputs.dev)
        dev_logits = read.logits[:n_dev]
        test_logits = read.logits[n_dev:]
        choice = {
            "every": None,
            "dev": scores_of_answered(self._task, inputs.dev, dev_logits),
            "test": scores_of_answered(self._task, self._test_examples, test_logits),
            "dev_logits": dev_logits,
            "test_logits": test_logits,
        }
        outcome: dict[str, Any] = {"n_train": len(inputs.train), "n_dev": n_dev, "choices": [choice]}
        if read.unusable or method.answers_in_words:
            outcome["unusable"] = {"n": len(examples) - len(read.not_asked), **read.unusable}
        notes = []
        if read.first_unreadable:
            notes.append(f"not a label: {read.first_unreadable}")
        for reason, count in Counter(read.not_asked.values()).items():
            notes.append(f"{count} of {counted(len(examples), 'example')} not asked: {reason}")
        if notes:
            outcome["notes"] = notes
        not_asked = outcomes.NotAsked(
            dev=[reason for number, reason in read.not_asked.items() if number < n_dev],
            test={number - n_dev: reason for number, reason in read.not_asked.items() if number >= n_dev},
        )
        score = outcomes.score(self._task, [outcome], None, inputs.dev, self._test_examples, not_asked)
        prices = None if self._model is None else self._model.prices
        return replace(score, details={**score.details, "cost": costs.cost_of_answers(responses, prices)})

    def _read_answers(
        self,
        method: PromptMethod,
        inputs: TrainingInputs,
        examples: Sequence[InputExample],
        responses: Sequence[Response],
    ) -> _ReadAnswers:
        """Let the method read the label scores of each example from the model's answers to its questions."""
        read = _ReadAnswers()
        start = 0
        all_questions = method.questions(inputs, examples)
        for number, (questions, example) in enumerate(zip(all_questions, examples, strict=True)):
            answers = responses[start : start + len(questions)]
            start += len(questions)
            failed = [answer for answer in answers if not answer.usable]
            if failed and failed[0].finish in _NOT_ASKED:
                finish = failed[0].finish
                read.not_asked[number] = self._too_long_reason(questions) if finish == "too_long" else _REASONS[finish]
                read.logits.append(None)
            elif failed:
                read.add_unusable(_REASONS[failed[0].finish])
            else:
                try:
                    read.logits.append(method.logits(self._task, example, answers))
                except NoChoiceError as error:
                    read.add_unusable(_REASONS[answers[0].finish])
                    read.first_unreadable = read.first_unreadable or str(error)
        return read

    def _too_long_reason(self, questions: Sequence[Request]) -> str:
        """The reason for examples whose prompts are too long. It names the model's longest input, if that is known."""
        if not self._too_long_text:
            explanation = "" if self._model is None else self._model.unanswerable(questions)
            # All examples get the text of the first one, so that they are counted together.
            self._too_long_text = f"{_REASONS['too_long']}: {explanation}" if explanation else _REASONS["too_long"]
        return self._too_long_text

    # --- checks before anything is trained ----------------------------------------------------------------------------

    def _check_keep(self) -> None:
        """Raise a ConfigError if trained models are to be kept and the method has none that can be saved."""
        if self._keep == "none":
            return
        method = self._method
        name = self._method_name
        if self._distils:
            # Only the student is kept, not its teachers.
            method = as_method(build("method", self._regime.student, self._base, "task.regime.student"))
            name = split_spec(self._regime.student, "task.regime.student")[0]
        if isinstance(method, PromptMethod):
            raise ConfigError(f"task.keep: the method {name} trains nothing, so there is nothing to keep; remove keep")
        if not method.can_restore:
            raise ConfigError(f"task.keep: classifiers of the method {name} cannot be saved; remove keep")

    def _check_unlabeled(self) -> None:
        """Raise a ConfigError if the regime or the method needs unlabeled examples and the task has none."""
        needed = self._regime.uses_unlabeled or self._method.uses_unlabeled
        if not needed or self._task.has("unlabeled"):
            return
        key = "task.regime" if self._regime.uses_unlabeled else "task.method"
        if self._data.endswith((".yaml", ".yml")):
            remedy = "name them under data: in the task's file"
        else:
            remedy = "put unlabeled.jsonl next to the other files"
        raise ConfigError(f"{key}: this needs unlabeled examples, and {self._data} has none; {remedy}")

    def _check_regime(self) -> None:
        """Raise a ConfigError if the regime does not fit the task or the method, or a pattern does not exist."""
        regime = self._regime
        method = self._method
        if self._task.kind == "entities" and regime.name != "default":
            raise ConfigError(
                f"task.regime: the answers of {self._task.name} are entities that differ from example to example, so "
                f"they can neither be averaged nor taught as labels; {regime.name} does not fit, use default"
            )
        if regime.patterns and method.pattern is None:
            raise ConfigError(f"task.regime.patterns: the method {self._method_name} has no pattern; leave them out")
        if regime.name == "noisy_student" and method.spatial_dropout is None:
            raise ConfigError(f"task.regime.name: the method {self._method_name} cannot be made noisy; use ipet")
        if method.pattern is None:
            return
        key = "task.method.pattern"
        patterns = [method.pattern]
        if regime.patterns:
            key = "task.regime.patterns"
            patterns = regime.patterns
        for pattern in patterns:
            try:
                method.check_pattern(self._task, pattern)
            except ConfigError as error:
                raise ConfigError(f"{key}: {error}") from None

    def _check_training_sizes(self) -> None:
        """Raise a ConfigError if the splits are too small for the method's numbers of updates and evaluations."""
        for split in self._splits:
            try:
                self._method.check_training_size(len(split.train), has_dev=bool(split.dev))
            except ConfigError as error:
                raise ConfigError(f"task.method.{error}") from None
