"""Turns the runs in a store into studies with the verdicts of the protocol.

A run has one configuration of hyper-parameters or, if it has several patterns or evaluation ratios, one for each of
them. Its rows are trainings. The runs of one model and method that differ only in hyper-parameters and splits make a
study. Within a study, trainings are grouped by split strategy and task, and each task gets a verdict.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmassay.evaluations.fewshot.outcomes import NOT_ASKED, OUT_OF_CHOICE, option_text
from lmassay.evaluations.fewshot.protocol import overlap
from lmassay.evaluations.fewshot.protocol.judging import ONLY_CONFIGURATION, ProtocolVerdict, Trial, judge, stability
from lmassay.evaluations.fewshot.protocol.regimes import Regime
from lmassay.evaluations.fewshot.protocol.splits import strategy_name
from lmassay.evaluations.fewshot.protocol.strategies import ABBREVIATIONS, SINGLE
from lmassay.evaluations.fewshot.task import Splits
from lmassay.plugins.options import split_spec
from lmassay.statistics.intervals import Settings
from lmassay.storage.store import Store
from lmassay.types import Row, RunRecord, canonical
from lmassay.types.wording import NO_MODEL

TASK = "fewshot"
# Regimes in which the trainings of all patterns are combined, so that none of the patterns can be selected.
_PATTERNS_TOGETHER = ("ensemble", "distillation")
# Options that are not hyper-parameters, with their defaults. Runs that differ in them are in different studies. If an
# option were missing here, runs that differ in it would look like repetitions of the same training, and only the latest
# of them would count.
_FIXED = {
    "labelled": ["train", "dev32"],
    "labelled_examples": None,
    "test": "dev",
    "test_examples": None,
    "unlabeled": None,
    "extra": None,
    "relabel_extra": False,
    "seed": 42,
}
# The scores of a row that are not the task's metrics.
_OTHER_SCORES = ("test", "dev", "updates", "chosen_step", OUT_OF_CHOICE, NOT_ASKED)


@dataclass(frozen=True, slots=True)
class Strategy:
    """A split strategy with its settings, and its verdict on each task."""

    label: str
    """Distinguishes it from other strategies of its study: ``multi_splits``, or ``MS, K=4`` if several K were run."""
    options: Splits
    verdicts: Mapping[str, ProtocolVerdict]
    """Task → verdict."""
    curves: Mapping[str, Sequence[ProtocolVerdict]]
    """Task → the verdicts for several numbers of splits K, in ascending order of K (for the third criterion)."""
    ran_every_k: bool
    """True if each verdict of a curve comes from runs with that K; False if it comes from the first splits of a run."""

    @property
    def name(self) -> str:
        """The name of the strategy, even if the runs used one of its other names."""
        return strategy_name(self.options.strategy)

    @property
    def k(self) -> int:
        """The number of splits. "fixed" and "dev32" make a single one, whatever the option ``k`` says."""
        if self.name in SINGLE:
            return 1
        return self.options.k


@dataclass(frozen=True, slots=True)
class Study:
    """One method with one model, under one or several split strategies."""

    model: str
    method: str
    fixed: Mapping[str, Any]
    """Options that are not hyper-parameters and differ from their defaults."""
    strategies: Sequence[Strategy]
    runs: Sequence[str]
    settings: Settings
    title: str = ""

    @property
    def tasks(self) -> list[str]:
        """All tasks, in the order in which strategies have them."""
        tasks: list[str] = []
        for strategy in self.strategies:
            tasks += [task for task in strategy.verdicts if task not in tasks]
        return tasks

    @property
    def verdicts(self) -> dict[str, Mapping[str, ProtocolVerdict]]:
        """Strategy label → task → verdict."""
        return {strategy.label: strategy.verdicts for strategy in self.strategies}

    @property
    def main_strategies(self) -> list[Strategy]:
        """The strategies without those that differ from another one only by a smaller K.

        The curves of the strategy with the largest K contain the verdicts of the others.
        """
        largest: dict[str, Strategy] = {}
        # In ascending order of K, so that the last one assigned is the largest.
        for strategy in sorted(self.strategies, key=lambda strategy: strategy.k):
            largest[_options_without_k(strategy.options)] = strategy
        main = []
        for strategy in self.strategies:
            if largest[_options_without_k(strategy.options)] is strategy:
                main.append(strategy)
        return main


def read_studies(store: Store, records: Iterable[RunRecord]) -> list[Study]:
    """The few-shot runs among the records, judged."""
    runs = []
    for record in records:
        if record.base_task == TASK and isinstance(record.config.get("task"), Mapping):
            runs.append((record, list(store.rows(record.id))))
    return studies(runs)


def studies(runs: Iterable[tuple[RunRecord, Sequence[Row]]]) -> list[Study]:
    """The studies of few-shot runs, which are given with their rows, in the order of the runs."""
    by_study: dict[str, list[_FewShotRun]] = {}
    settings: Settings | None = None
    for record, rows in runs:
        run = _FewShotRun(record, rows)
        by_study.setdefault(run.study_key, []).append(run)
        # A page has a single confidence level, which is that of the first run.
        settings = settings or record.settings
    if settings is None:
        return []
    return _titled([_study(members, settings) for members in by_study.values()])


class _FewShotRun:
    """A few-shot run, with the parts of its configuration that the protocol needs."""

    def __init__(self, record: RunRecord, rows: Sequence[Row]) -> None:
        self.record = record
        self.rows = rows
        self.task: Mapping[str, Any] = record.config["task"]
        self.method, self.method_options = split_spec(self.task.get("method", "pet"), "task.method")
        self.regime = Regime.model_validate(self.task.get("regime") or {})
        self.splits = Splits.model_validate(self.task.get("splits") or {})

    @property
    def fixed(self) -> dict[str, Any]:
        """The options that are not hyper-parameters and differ from their defaults."""
        fixed = {}
        for key, default in _FIXED.items():
            value = self.task.get(key, default)
            if value != default:
                fixed[key] = value
        return fixed

    @property
    def study_key(self) -> str:
        """Runs with the same key belong to one study."""
        weights = self.record.depends_on.get("model")
        return canonical([self.record.model, weights, self.method, self.regime.name, self.fixed])

    @property
    def strategy_key(self) -> str:
        """Runs with the same key were split in the same way."""
        return canonical({**self.splits.model_dump(), "strategy": strategy_name(self.splits.strategy)})

    def correlation(self, metrics: Iterable[str]) -> Mapping[str, float]:
        """Metric → how strongly the splits are correlated because they share examples."""
        replicates = self.record.design.replicates
        # Runs of early versions did not record the correlations.
        if replicates is None:
            options = self.splits
            replicates = overlap.replicates(list(metrics), options.strategy, options.k, options.ratio)
        return replicates.correlation

    def configurations(self) -> list[tuple[dict[str, Any], str | None, str | None]]:
        """(hyper-parameters, pattern, evaluation ratio) of each configuration in the run.

        The last two are texts, as in the groups of the run's rows; they are None if these do not name them.
        """
        shared = self._shared_parameters()
        variants = list(dict.fromkeys(_variant(row) for row in self.rows))
        if not variants:
            variants = self._planned_variants()
        configurations = []
        for pattern, eval_ratio in variants:
            params = dict(shared)
            if pattern is not None:
                params["pattern"] = _number(pattern)
            if eval_ratio is not None:
                params["every"] = _number(eval_ratio)
            configurations.append((params, pattern, eval_ratio))
        return configurations

    def _shared_parameters(self) -> dict[str, Any]:
        """The hyper-parameters that all configurations of the run have in common."""
        params = dict(self.method_options)
        # Several evaluation ratios are several configurations, which the rows distinguish. A single ratio is added
        # here, under the name that the rows use.
        ratios = params.pop("eval_ratios", None)
        if isinstance(ratios, list) and len(ratios) == 1:
            ratios = ratios[0]
        if isinstance(ratios, int | float):
            params["every"] = ratios
        for key, value in (self.task.get("regime") or {}).items():
            if key in ("name", "repetitions"):
                continue
            # Each pattern is a separate configuration, unless the trainings of all patterns are combined.
            if key == "patterns" and self.regime.name not in _PATTERNS_TOGETHER:
                continue
            params[f"regime.{key}"] = value
        return params

    def _planned_variants(self) -> list[tuple[str | None, str | None]]:
        """The pairs (pattern, evaluation ratio) of a run that has no rows yet, as far as its configuration says."""
        patterns: list[str | None] = [None]
        own_pattern = self.method_options.get("pattern")
        if self.regime.name in _PATTERNS_TOGETHER:
            pass
        elif self.regime.patterns:
            patterns = [str(pattern) for pattern in self.regime.patterns]
        elif own_pattern is not None:
            patterns = [str(own_pattern)]
        eval_ratios: list[str | None] = [None]
        ratios = self.method_options.get("eval_ratios")
        if isinstance(ratios, list) and len(ratios) > 1:
            eval_ratios = [f"{ratio:g}" for ratio in ratios]
        return list(itertools.product(patterns, eval_ratios))


def _variant(row: Row) -> tuple[str | None, str | None]:
    """The pattern and the evaluation ratio of a training; None for what does not differ within its run."""
    return row.example.groups.get("pattern"), row.example.groups.get("every")


def _split(row: Row) -> int:
    return int(row.example.groups["split"])


def _number(text: str) -> int | float | str:
    """The number that is written in a text, or the text itself if it is not a number."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# --- studies ----------------------------------------------------------------------------------------------------------


def _study(runs: Sequence[_FewShotRun], settings: Settings) -> Study:
    """Make a study of these runs: sort them by strategy, and compute the verdicts."""
    configuration_names = _configuration_names(runs)
    task_names = _task_names(runs)
    by_strategy: dict[str, list[_FewShotRun]] = {}
    for run in runs:
        by_strategy.setdefault(run.strategy_key, []).append(run)
    split_options = [members[0].splits for members in by_strategy.values()]
    labels = _strategy_labels(split_options)

    strategies = []
    for label, members in zip(labels, by_strategy.values(), strict=True):
        verdicts = _verdicts(members, task_names, configuration_names, settings)
        strategies.append(Strategy(label, members[0].splits, verdicts, curves={}, ran_every_k=False))
    strategies.sort(key=_order_in_paper)

    first = runs[0]
    method = first.method
    if first.regime.name != "default":
        method += f", {first.regime.name}"
    return Study(
        model=first.record.model,
        method=method,
        fixed=first.fixed,
        strategies=[_with_curves(strategy, strategies, settings) for strategy in strategies],
        runs=[run.record.id for run in runs],
        settings=settings,
    )


def _order_in_paper(strategy: Strategy) -> tuple[int, int]:
    """The sort key for the order of strategies in the paper's tables; other strategies come after these."""
    order = list(ABBREVIATIONS)
    position = order.index(strategy.name) if strategy.name in order else len(order)
    return position, strategy.k


def _with_curves(strategy: Strategy, strategies: Sequence[Strategy], settings: Settings) -> Strategy:
    """The strategy with its curves: from runs with other K if there are any, else from its own first splits."""
    options = _options_without_k(strategy.options)
    same_but_k = [other for other in strategies if _options_without_k(other.options) == options]
    same_but_k.sort(key=lambda other: other.k)
    curves: dict[str, Sequence[ProtocolVerdict]] = {}
    for task, verdict in strategy.verdicts.items():
        if len(same_but_k) > 1:
            curves[task] = [other.verdicts[task] for other in same_but_k if task in other.verdicts]
            continue
        curve = stability(verdict.trials, settings)
        if len(curve) > 1:
            curves[task] = curve
    return replace(strategy, curves=curves, ran_every_k=len(same_but_k) > 1)


def _options_without_k(options: Splits) -> str:
    return canonical({**options.model_dump(), "strategy": strategy_name(options.strategy), "k": None})


# --- names ------------------------------------------------------------------------------------------------------------


def _titled(studies: Sequence[Study]) -> list[Study]:
    """The studies with titles: method and model, and further options if several studies have the same of both."""
    short_titles = []
    for study in studies:
        if study.model == NO_MODEL:
            short_titles.append(study.method)
        else:
            short_titles.append(f"{study.method} on {study.model}")
    has_options = any(study.fixed for study in studies)
    titles = []
    for study, title in zip(studies, short_titles, strict=True):
        differences = [f"{key} {option_text(value)}" for key, value in study.fixed.items()]
        if short_titles.count(title) > 1 and not differences:
            # Other studies with this title may have further options, while this one has the defaults.
            differences = ["defaults" if has_options else _run_number(study)]
        if differences:
            title += f" ({', '.join(differences)})"
        titles.append(title)
    titled = []
    for study, title in zip(studies, titles, strict=True):
        if titles.count(title) > 1:
            title += f", {_run_number(study)}"
        titled.append(replace(study, title=title))
    return titled


def _run_number(study: Study) -> str:
    return study.runs[0].rpartition("-")[2]


def _strategy_labels(options: Sequence[Splits]) -> list[str]:
    """A label for each strategy: its name, and the options that differ from other strategies with this name."""
    options_by_strategy: dict[str, list[Splits]] = {}
    for splits in options:
        options_by_strategy.setdefault(strategy_name(splits.strategy), []).append(splits)
    labels = []
    for splits in options:
        strategy = strategy_name(splits.strategy)
        descriptions = _descriptions(splits)
        differences = []
        for name, description in descriptions.items():
            # An option is named only if the strategy also occurs with another value of it.
            values = {_descriptions(other)[name] for other in options_by_strategy[strategy]}
            if len(values) > 1:
                differences.append(description)
        label = strategy
        if differences:
            # To keep the label short, the paper's abbreviation replaces the name.
            abbreviation = ABBREVIATIONS.get(strategy, strategy)
            label = ", ".join([abbreviation, *differences])
        labels.append(label)
    return labels


def _descriptions(splits: Splits) -> dict[str, str]:
    """Option → its value in the words of a label."""
    return {
        "k": f"K={splits.k}",
        "ratio": f"ratio {splits.ratio:g}",
        "stratify": "stratified" if splits.stratify else "not stratified",
        "grouped": "grouped" if splits.grouped else "grouped as published",
    }


def _task_names(runs: Sequence[_FewShotRun]) -> dict[str, str]:
    """Run id → the name of its task, which includes the digest of the data only if data of the same name differ."""
    full_names: dict[str, str] = {}
    short_names: dict[str, str] = {}
    for run in runs:
        # This is a text such as ``superglue/rte.0123abcd``. Runs of early versions do not have it.
        signed = run.record.depends_on.get("data")
        full = signed or str(run.task["data"])
        full_names[run.record.id] = full
        short_names[full] = full
        if signed:
            short_names[full] = signed.rpartition(".")[0] or signed
    all_short_names = list(short_names.values())
    names = {}
    for run_id, full in full_names.items():
        short = short_names[full]
        is_unique = all_short_names.count(short) == 1
        names[run_id] = short if is_unique else full
    return names


def _configuration_names(runs: Sequence[_FewShotRun]) -> dict[str, str]:
    """Hyper-parameters (as canonical JSON) → the name of the configuration, which consists of those that differ."""
    all_params: list[dict[str, Any]] = []
    for run in runs:
        for params, _, _ in run.configurations():
            all_params.append(params)
    varying = _varying_keys(all_params)
    names = {}
    for params in all_params:
        parts = []
        for key in varying:
            if key in params:
                parts.append(f"{key}={_value_text(params[key])}")
            elif key not in ("pattern", "every"):
                parts.append(f"{key} by default")
        names[canonical(params)] = ", ".join(parts) or ONLY_CONFIGURATION
    return names


def _varying_keys(all_params: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the hyper-parameters that are not the same in all configurations, in order of appearance."""
    values: dict[str, set[str]] = {}
    for params in all_params:
        for key, value in params.items():
            values.setdefault(key, set()).add(canonical(value))
    varying = []
    for key, values_of_key in values.items():
        some_by_default = any(key not in params for params in all_params)
        if key in ("pattern", "every"):
            # These may be absent only because a run has no rows yet.
            some_by_default = False
        if len(values_of_key) > 1 or some_by_default:
            varying.append(key)
    return varying


def _value_text(value: Any) -> str:
    return canonical(value) if isinstance(value, Mapping) else option_text(value)


# --- trials -----------------------------------------------------------------------------------------------------------


def _verdicts(
    runs: Sequence[_FewShotRun],
    task_names: Mapping[str, str],
    configuration_names: Mapping[str, str],
    settings: Settings,
) -> dict[str, ProtocolVerdict]:
    """Task → verdict, for the runs of one strategy."""
    by_task: dict[str, list[_FewShotRun]] = {}
    for run in runs:
        by_task.setdefault(task_names[run.record.id], []).append(run)
    verdicts = {}
    for task, members in by_task.items():
        splits = _expected_splits(members)
        trials = _trials(members, splits, configuration_names)
        verdicts[task] = judge(trials, settings, splits, _warnings(members))
    return verdicts


def _expected_splits(runs: Sequence[_FewShotRun]) -> list[int]:
    """The splits that every configuration should have; if runs have a ``limit``, those that were reached."""
    if any(run.record.config.get("limit") is not None for run in runs):
        reached: set[int] = set()
        for run in runs:
            reached |= {_split(row) for row in run.rows}
        return sorted(reached)
    options = runs[0].splits
    n_splits = 1 if strategy_name(options.strategy) in SINGLE else options.k
    return list(range(n_splits))


def _warnings(runs: Sequence[_FewShotRun]) -> list[str]:
    """The notes of the runs, most of which are warnings, each once; and a warning if groups may be divided."""
    warnings: list[str] = []
    for run in runs:
        for note in run.record.provenance.notes:
            if note not in warnings:
                warnings.append(note)
    if not runs[0].splits.grouped:
        warnings.append("examples of one question or passage may be in both train and dev (grouped: false)")
    return warnings


def _trials(runs: Sequence[_FewShotRun], splits: Sequence[int], configuration_names: Mapping[str, str]) -> list[Trial]:
    """The trials of one task under one strategy. If several runs did the same training, the latest result counts."""
    trials: dict[str, Trial] = {}
    attempted: set[str] = set()
    for run in runs:
        for trial in _trials_of_run(run, splits, configuration_names):
            # Trainings with another order of the examples (sampler_seeds) are repetitions, not the same training.
            key = canonical([trial.configuration, run.task.get("sampler_seeds"), trial.split])
            if trial.state != "not done":
                attempted.add(key)
                # Repetitions within a run have different ids.
                key = canonical([key, trial.id])
            # A result is never replaced by a missing one.
            earlier = trials.get(key)
            if earlier is None or earlier.state != "done" or trial.state == "done":
                trials[key] = trial
    # A training that one run did not reach may have been done in another.
    return [trial for key, trial in trials.items() if key not in attempted]


def _trials_of_run(run: _FewShotRun, splits: Sequence[int], configuration_names: Mapping[str, str]) -> Iterable[Trial]:
    """The run's trials by configuration, followed by a trial without result for each split that was not reached."""
    for params, pattern, eval_ratio in run.configurations():
        name = configuration_names[canonical(params)]
        reached: set[int] = set()
        for row in run.rows:
            if _variant(row) == (pattern, eval_ratio):
                reached.add(_split(row))
                yield _trial(run, name, params, row)
        for split in sorted(set(splits) - reached):
            yield Trial(
                configuration=name,
                params=params,
                split=split,
                state="not done",
                reason=f"the run is {run.record.status}",
                run=run.record.id,
                id=f"split-{split}" if pattern is None else f"split-{split}-p{pattern}",
            )


def _trial(run: _FewShotRun, name: str, params: Mapping[str, Any], row: Row) -> Trial:
    """The trial of a row; ``name`` is the name of its configuration."""
    if row.state != "scored":
        return Trial(
            configuration=name,
            params=params,
            split=_split(row),
            state="failed",
            reason=row.error or "; ".join(dict.fromkeys(row.score.unscored.values())) or "no result",
            run=run.record.id,
            id=row.example.id,
        )
    scores = row.score.values
    test_metrics = {}
    for metric, score in scores.items():
        if not metric.startswith("dev_") and metric not in _OTHER_SCORES:
            test_metrics[metric] = score
    return Trial(
        configuration=name,
        params=params,
        split=_split(row),
        dev=scores.get("dev"),
        test=scores.get("test"),
        test_metrics=test_metrics,
        out_of_choice=scores.get(OUT_OF_CHOICE),
        run=run.record.id,
        id=row.example.id,
        details=row.score.details,
        chosen_step=scores.get("chosen_step"),
        on_tests=row.score.test_scores,
        correlation=run.correlation(test_metrics),
    )
