"""Runs a plan: sends the requests of each example, scores the answers, and aggregates the scores.

Answers are stored as they arrive and scores after each chunk of examples, so an interrupted run can be resumed where it
stopped.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from lmassay.budget import Budget, Prices, lacks_usage
from lmassay.contracts import Task, ask
from lmassay.errors import (
    BudgetNotEnforceable,
    BudgetReached,
    ConfigError,
    DataError,
    LmassayError,
    ModelError,
    PluginError,
    StoreError,
)
from lmassay.plugins.declarations import describe_value
from lmassay.plugins.python_objects import is_python_object
from lmassay.redaction import redact, remember_environment
from lmassay.running import trained_models
from lmassay.running.batches import WorkerModel
from lmassay.running.bulk import gaps, scored_batches
from lmassay.running.config import RunConfig
from lmassay.running.executors import InProcessExecutor
from lmassay.running.jobs import Executor
from lmassay.running.planning import Plan as Plan
from lmassay.running.planning import digest_of_model_files, model_identity
from lmassay.running.planning import plan as plan
from lmassay.running.sampling import original_example, same_sample, sampled_examples, sampled_request
from lmassay.running.trainings import TrainingJob, run_trainings
from lmassay.running.worker_model import ModelDescription
from lmassay.statistics.intervals import mean_result
from lmassay.statistics.repetition import variance_results
from lmassay.statistics.table import ScoreTable, score_table
from lmassay.storage import provenance
from lmassay.storage.commands import command_on_results
from lmassay.storage.in_memory import with_found_inputs
from lmassay.storage.progress import ProgressFile
from lmassay.storage.store import DAMAGED, Store, is_cacheable_request, is_cacheable_response
from lmassay.types import (
    CardPart,
    Example,
    Generate,
    NewRun,
    Request,
    Response,
    Result,
    Row,
    RowBatch,
    RunRecord,
    Score,
    State,
    Train,
    canonical,
    digest,
    request_as_dict,
    request_key,
)
from lmassay.types.wording import counted

Item = TypeVar("Item")
Progress = Callable[[float, int | None], None]
"""Called with the number of examples done, which may have a fraction, and the total number (None if unknown)."""
# How many characters of an error message, and how many reasons for missing scores, the note on a run contains.
_MAX_NOTE_LENGTH = 500
_MAX_REASONS = 3
# With many workers, a chunk has more examples, so that all of them have work; but not more than fit into memory.
_MAX_CHUNK_FACTOR = 32
SERVER = "server"
"""The part of a signature that a model finds out when it connects to its server."""


# --- runs -------------------------------------------------------------------------------------------------------------


def start(planned: Plan, store: Store, sweep: str = "", progress: Progress | None = None) -> RunRecord:
    """Record a new run and carry it out. ``sweep`` is the id that the runs of a command share; by default a new one."""
    new_run = _new_run(planned, store, sweep or new_sweep())
    with store.lock(new_run.id):
        store.add_run(new_run)
        return _carry_out(planned, store, new_run.id, progress)


def record_waiting_runs(
    planned: Sequence[Plan], store: Store, sweep: str, card: CardPart | None = None
) -> list[RunRecord]:
    """Record runs that wait for their turn, so that they can be finished even if this process dies first.

    ``sweep`` is the id that the runs of one command share; ``card`` is the card that they are a part of, if any.
    """
    new_runs = [_new_run(plan, store, sweep, card) for plan in planned]
    store.add_waiting(new_runs)
    records = {record.id: record for record in store.runs()}
    return [records[new_run.id] for new_run in new_runs]


def begin(
    planned: Plan,
    record: RunRecord,
    store: Store,
    progress: Progress | None = None,
    failed: Mapping[str, Response] | None = None,
    executor: Executor | None = None,
) -> RunRecord:
    """Carry out a recorded run, or the unfinished part of one.

    ``failed`` are the trainings that have failed, by key; they are not tried again, and count as failed. If an executor
    is given, its workers answer the requests to a model that can be copied to them.
    """
    with store.lock(record.id):
        depends_on = dict(planned.depends_on)
        if SERVER in record.depends_on:
            depends_on[SERVER] = record.depends_on[SERVER]
        signature = provenance.signature(depends_on)
        if record.signature != signature:
            # An earlier release began the run. The signature now has to name this release and its rule for intervals.
            store.set_signature(record.id, signature, depends_on)
        return _carry_out(planned, store, record.id, progress, failed, executor)


def resume(record: RunRecord, store: Store, progress: Progress | None = None) -> RunRecord:
    """Finish a run that was interrupted or cancelled, that failed, or that has examples with errors."""
    return begin(replan(record, store.folder), record, store, progress)


def replan(record: RunRecord, results: Path) -> Plan:
    """Plan a run of a results folder again. Raises StoreError if its inputs have changed since it began."""
    if record.status == DAMAGED and not record.config:
        raise StoreError(f"the run {record.id} cannot be resumed: {record.note}")
    planned = plan(RunConfig.model_validate(with_found_inputs(record.config, results)))
    if _what_scores_depend_on(planned.depends_on) != _what_scores_depend_on(record.depends_on):
        raise StoreError(
            f"the inputs of {record.id} have changed since it began, so old and new scores would not match; "
            f"start a new run\n  then: {record.signature}\n  now:  {planned.signature}"
        )
    return planned


def _what_scores_depend_on(depends_on: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of a signature that must not change while a run is unfinished.

    Three parts may change. Intervals ("ci") are computed at the end of a run. The release of lmassay does not affect
    scores: if a task changes how it scores, its version changes, and the part "task" contains this version. The server
    is unknown before the model connects to it, and is compared then.
    """
    return {name: value for name, value in depends_on.items() if name not in ("ci", "lmassay", SERVER)}


def _new_run(planned: Plan, store: Store, sweep: str, card: CardPart | None = None) -> NewRun:
    return NewRun(
        id=store.new_id(planned.label),
        sweep=sweep,
        name=planned.config.name,
        task=planned.task.name,
        model=planned.model_label,
        label=planned.label,
        config=planned.config.model_dump(mode="json"),
        signature=planned.signature,
        provenance=planned.provenance(card),
        planned=planned.size,
    )


def new_sweep() -> str:
    """Return a new id that the runs of one command share."""
    return secrets.token_hex(4)


def _carry_out(
    planned: Plan,
    store: Store,
    run: str,
    progress: Progress | None,
    failed: Mapping[str, Response] | None = None,
    executor: Executor | None = None,
) -> RunRecord:
    """Process the open examples of a run, compute its results and set its status; for ``failed`` see :func:`begin`."""
    # Functions and plug-ins may read a key from the environment themselves, and repeat it.
    remember_environment()
    progress_file = ProgressFile(store.folder, run)

    def report_progress(done: float, total: int | None) -> None:
        progress_file.update(done, total)
        if progress is not None:
            progress(done, total)

    with ExitStack() as stack:
        if planned.model is not None:
            stack.callback(planned.model.close)
        stack.callback(progress_file.remove)
        store.set_status(run, "running")
        stopped_by_budget = ""
        try:
            try:
                Worker(planned, store, run, report_progress, failed, executor).work()
            except BudgetReached as reached:
                # Results are computed from the examples that could be paid for.
                stopped_by_budget = str(reached)
            _compute_results(planned, store, run)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                status = "cancelled"
                note = "stopped by the user"
            else:
                status = "failed"
                note = redact(str(error))[:_MAX_NOTE_LENGTH]
            # If the disk is full, not even the status can be written; the original error is the one to show.
            with suppress(StoreError):
                store.set_status(run, status, note)
            condition = resume_condition(error)
            error.add_note(f"all answers so far are stored; {condition}{_how_to_continue(planned, store, run)}")
            raise
        _set_final_status(store, run, stopped_by_budget)
    return store.run(run)


def resume_condition(error: BaseException) -> str:
    """Return what must happen before a run that ended with this error is resumed; empty if nothing."""
    if isinstance(error, KeyboardInterrupt):
        return ""
    if isinstance(error, PluginError) or _is_unexpected(error):
        # Scores of the old and the new code would not match, so a run cannot be resumed with changed code.
        return "if you correct the plug-in, start a new run, which reuses the answers; if its code stays the same, "
    if isinstance(error, BudgetNotEnforceable):
        # A run keeps its budget when it is resumed.
        return "if the server reports tokens now, "
    # Resuming without a fix would only repeat the same error.
    return "when this is fixed, "


def _is_unexpected(error: BaseException) -> bool:
    """Return whether an exception probably comes from the code of a plug-in; a lack of memory, for one, does not."""
    if not isinstance(error, Exception) or isinstance(error, LmassayError | OSError | MemoryError):
        return False
    return "out of memory" not in str(error)


def recompute(record: RunRecord, store: Store) -> None:
    """Compute the results of a run again from its stored examples; no example is requested or scored.

    Raises StoreError if the inputs of the run have changed.
    """
    with store.lock(record.id):
        planned = replan(record, store.folder)
        _compute_results(planned, store, record.id)
        _set_final_status(store, record.id, stopped_by_budget="")


def _compute_results(planned: Plan, store: Store, run: str) -> None:
    """Compute the results of a run from its stored examples, and store them."""
    with_test_scores = planned.task.design.replicates is not None
    table = score_table(store, run, with_test_scores=with_test_scores)
    results = _results(planned, table) if len(table) else []
    store.set_results(run, results)


def _how_to_continue(planned: Plan, store: Store, run: str) -> str:
    if is_python_object(planned.config.task) or is_python_object(planned.config.model):
        return "continue by calling lmassay.evaluate again with the same objects"
    return f"continue with: {command_on_results(store.folder, 'resume', run)}"


def _results(planned: Plan, table: ScoreTable) -> list[Result]:
    """Return the results that the task computes, and the means of metrics that it declares but does not report."""
    task = planned.task
    settings = planned.config.settings
    results = _list_of(Result, task.aggregate(table, settings), f"the task {task.name}: aggregate")
    reported = {result.metric for result in results}
    for metric in task.metrics:
        if metric.name not in reported and table.has(metric.name):
            results.append(mean_result(table, metric.name, settings, cluster=planned.design.cluster))
    if planned.config.samples > 1:
        for name in task.design.headline or sorted(reported):
            if table.has(name):
                results += variance_results(table, name)
    return results


def _list_of(kind: type[Item], value: Any, source: str) -> list[Item]:
    """Return what a task's method returned as a list, after checking its type."""
    if not isinstance(value, Iterable) or isinstance(value, str | Mapping):
        raise PluginError(f"{source} must return a list of {kind.__name__} objects, not {describe_value(value)}")
    items = list(value)
    for item in items:
        if not isinstance(item, kind):
            raise PluginError(f"{source} must return {kind.__name__} objects only, not {describe_value(item)}")
    return items


def _set_final_status(store: Store, run: str, stopped_by_budget: str) -> None:
    """Set the status of a run whose results have been computed."""
    counts = store.count(run)
    if stopped_by_budget:
        store.set_status(run, "stopped", stopped_by_budget)
    elif counts["error"]:
        store.set_status(run, "incomplete", f"{counted(counts['error'], 'example')} with errors")
    elif not counts["scored"]:
        reasons = store.unscored_reasons(store.run(run))
        explanation = ""
        if reasons:
            explanation = f" ({'; '.join(reason for reason, _ in reasons[:_MAX_REASONS])})"
        unscored = counted(counts["unscored"], "example")
        store.set_status(run, "incomplete", f"none of {unscored} could be scored{explanation}")
    else:
        store.set_status(run, "done")
        store.forget_lock(run)


# --- the examples of a run --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Item:
    """An example that is being processed, with its requests, their cache keys and the responses."""

    position: int
    example: Example
    requests: list[Request]
    keys: list[str]
    responses: list[Response] | None = None
    """None until all requests are answered; it stays None if the budget did not allow all of them."""
    earlier: dict[str, Response] = field(default_factory=dict)
    """If the task asks in rounds (see ``Task.follow_up``), the responses of earlier rounds by key."""


@dataclass(slots=True)
class _ChunkProgress:
    """How many requests of a chunk of examples are answered.

    There may be several rounds of requests, if later requests depend on earlier answers.
    """

    examples: int
    expected: int = 0
    """The largest number of requests in all rounds; 0 if there is only one round."""
    sent: int = 0
    """The number of requests in earlier rounds."""
    furthest: float = 0.0
    """The largest share of the chunk that was reported as done."""

    def examples_done(self, answered: int, requests: int) -> float:
        """How many examples are done, possibly with a fraction, if ``answered`` of the round's ``requests`` are."""
        expected = max(self.expected, self.sent + requests)
        # A round may have more requests than expected; the bar still never goes back.
        self.furthest = max(self.furthest, (self.sent + answered) / expected)
        return self.examples * self.furthest


class Worker:
    """Processes the examples of one run: requests, scores and stores them. It is not a worker process."""

    def __init__(
        self,
        planned: Plan,
        store: Store,
        run: str,
        progress: Progress | None = None,
        failed: Mapping[str, Response] | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.task = planned.task
        self.model = planned.model
        self.config = planned.config
        self.store = store
        self.run = run
        self.total = planned.size
        self.progress = progress or (lambda done, total: None)
        self.done = 0
        self.chunk_progress = _ChunkProgress(0)
        self.model_inputs = planned.model_inputs
        identity: dict[str, Any] = {}
        self.cached = True
        self.metered = False
        self.prices: Prices | None = None
        if self.model is not None:
            identity = model_identity(self.config, self.model, self.model_inputs)
            self.cached = self.model.cached
            # Only models behind an API count their tokens; their prices may be unknown.
            self.metered = self.model.metered
            self.prices = self.model.prices
        self.identity_digest = digest(identity)
        # The cache key of a request → the key of the answer to it that only this run uses. Few runs have such answers.
        self.own_answers = store.own_answer_keys(run)
        self.budget = self._remaining_budget()
        # Raised at the end of the chunk in which the budget was used up, see _process.
        self.budget_reached: BudgetReached | None = None
        # The trainings that have failed, by key; they are not tried again.
        self.failed = failed or {}
        self.worker_model = self._worker_model(executor)
        self.is_connected = False
        self.depends_on = planned.depends_on

    def _worker_model(self, executor: Executor | None) -> WorkerModel | None:
        """Return the model on the workers of an executor; None if requests are answered in this process."""
        if self.model is None or self.config.model is None or not self.model.distributable:
            return None
        if executor is None or executor.in_process:
            return None
        description = self._model_description()
        return None if description is None else WorkerModel(self.model, description, executor)

    def _model_description(self) -> ModelDescription | None:
        """Return what a worker needs to create the model; None if the run has none."""
        if self.config.model is None:
            return None
        source = self.model_inputs.sources.get("model", "")
        files_digest = ""
        if source:
            files_digest = digest_of_model_files(self.config.model, self.config.base_dir, self.model_inputs)
        return ModelDescription(self.config.model, self.config.base_dir, source, files_digest)

    def _remaining_budget(self) -> Budget:
        """Return the command's budget, with what its other runs and earlier attempts have spent."""
        limits = self.config.budget
        budget = Budget()
        if limits is not None and self.metered:
            budget = Budget(limits.usd, limits.tokens)
        spending = self.store.spending(sweep=self.store.run(self.run).sweep)
        if spending is not None:
            budget.spent_usd = spending.usd or 0.0
            budget.spent_tokens = spending.tokens_in + spending.tokens_out
            budget.answers = spending.answers
        return budget

    def work(self) -> None:
        """Process all examples that are not finished yet. Raises BudgetReached when the budget is used up."""
        if self.model is not None:
            self.model.use_budget(self.budget)
            # In this folder, a model records its open batches at a provider, so that a resumed run can collect them.
            self.model.use_folder(self.store.folder / "open")
        # Rows may be damaged, e.g. because another program changed them. They are deleted, and scored again.
        self.store.drop_damaged_rows(self.run)
        batches = self._scored_batches()
        if batches is not None:
            self._store_batches(batches)
            return
        finished = self.store.finished_ids(self.run)
        for chunk in self.chunks():
            unfinished = [(position, example) for position, example in chunk if example.id not in finished]
            self.done += len(chunk) - len(unfinished)
            self.progress(self.done, self.total)
            if unfinished:
                self._process(unfinished)
            if self.task.trains:
                self._restore_kept_models([example for _, example in chunk if example.id in finished])
        if self.done == 0:
            raise DataError(f"the task {self.task.name} has no examples; check its data")
        self._adopt_server()
        if self.task.trains:
            self._list_kept_models()

    def _scored_batches(self) -> Iterator[RowBatch] | None:
        """Return the scores of the unfinished examples as columns; None if the run goes example by example."""
        if not self.total or self.config.samples > 1 or self.store.has_single_rows(self.run):
            return None
        open_positions = gaps(self.store.finished_positions(self.run), self.total)
        batches = scored_batches(self.task, self.model, open_positions)
        if batches is not None:
            self.done = self.total - sum(len(positions) for positions in open_positions)
        return batches

    def _store_batches(self, batches: Iterable[RowBatch]) -> None:
        self.progress(self.done, self.total)
        for batch in batches:
            self.store.add_batch(self.run, batch)
            self.done += len(batch)
            self.progress(self.done, self.total)

    def chunks(self) -> Iterator[list[tuple[int, Example]]]:
        """Yield the examples in chunks, each with its position. Raises a PluginError if two have the same id."""
        size = self.task.chunk
        if self.model is not None:
            size = max(size, self.model.chunk)
        if self.worker_model is not None:
            # Each chunk ends with a wait for the slowest worker, so fewer and larger chunks waste less time.
            size *= min(self.worker_model.workers, _MAX_CHUNK_FACTOR)
        seen_ids: set[str] = set()
        originals = islice(self.task.examples(), self.config.limit)
        examples = enumerate(sampled_examples(originals, self.config.samples))
        while True:
            chunk = list(islice(examples, size))
            if not chunk:
                return
            for _, example in chunk:
                if example.id in seen_ids:
                    raise PluginError(f"two examples have the id '{example.id}'; ids must be unique")
                seen_ids.add(example.id)
            yield chunk

    def _process(self, examples: Sequence[tuple[int, Example]]) -> None:
        """Request, score and store a chunk of examples.

        Raises BudgetReached if the budget is used up, after the examples that could be paid for have been stored.
        """
        items: list[_Item] = []
        for position, example in examples:
            requests = self._requests(example)
            keys = [self.key(request, example, number) for number, request in enumerate(requests)]
            items.append(_Item(position, example, requests, keys))
        self.chunk_progress = _ChunkProgress(len(items), self._most_requests(len(items)))
        self._fill_in_responses(items)
        self._follow_up(items)
        rows: list[tuple[int, Row]] = []
        answered: list[_Item] = []
        for item in items:
            if item.responses is None:
                # The budget was used up before this example, so it gets no row. ``lmassay resume`` requests it.
                continue
            errors = [response.error for response in item.responses if response.error is not None]
            unusable = [response for response in item.responses if not response.usable]
            if errors:
                rows.append((item.position, Row(item.example, "error", error=errors[0])))
            elif not unusable or self.task.scores_unusable:
                answered.append(item)
            else:
                score = Score(unscored={"answer": f"no answer: {unusable[0].finish}"})
                rows.append((item.position, Row(item.example, "unscored", score)))
        # Scored together, because some scorers are much faster on many examples at once.
        rows += self._scored_rows(answered)
        self.store.add_rows(self.run, rows, self._response_keys(items))
        self.done += len(rows)
        self.progress(self.done, self.total)
        # Raised only now, so that the responses that were paid for are scored and stored first.
        if self.budget_reached is not None:
            raise self.budget_reached

    def _most_requests(self, examples: int) -> int:
        """The largest number of requests for these examples if the task asks in rounds, else 0."""
        if type(self.task).follow_up is Task.follow_up:
            return 0
        return examples * (self.task.requests_each or 0)

    def _follow_up(self, items: Sequence[_Item]) -> None:
        """Send the requests that depend on earlier answers, in rounds, until the task has none left."""
        task = self.task
        if type(task).follow_up is Task.follow_up:
            return
        open_items = list(items)
        while open_items:
            answered = []
            for item in open_items:
                if item.responses is not None and all(response.usable for response in item.responses):
                    answered.append(item)
            # The task gets its own examples, not the samples that were made of them (see lmassay.running.sampling).
            # _extend turns the extended examples into samples again.
            examples = [original_example(item.example) for item in answered]
            responses = [item.responses or [] for item in answered]
            extended = _list_of(Example, task.follow_up(examples, responses), f"the task {task.name}: follow_up")
            if len(extended) != len(answered):
                raise PluginError(f"the task {task.name}: follow_up gave {len(extended)} of {len(answered)} examples")
            open_items = []
            for item, example, extended_example in zip(answered, examples, extended, strict=True):
                if extended_example is example:
                    # The task returns an example itself if it has no further requests for it.
                    continue
                if self.budget_reached is not None:
                    # The budget is used up. An example cannot be scored with only some of its responses.
                    item.responses = None
                    continue
                self._extend(item, example, extended_example)
                open_items.append(item)
            self._fill_in_responses(open_items)

    def _extend(self, item: _Item, example: Example, extended: Example) -> None:
        """Give an item the requests of its extended example; ``example`` is what the task extended."""
        sample = same_sample(extended, item.example)
        requests = self._requests(sample)
        keys = [self.key(request, sample, number) for number, request in enumerate(requests)]
        if extended.id != example.id or keys[: len(item.keys)] != item.keys:
            raise PluginError(
                f"the task {self.task.name}: follow_up changed the id or the earlier requests of {item.example.id}"
            )
        item.example = sample
        item.requests = requests
        item.keys = keys
        # Earlier requests are usually answered from the cache again. For a model without a cache, these are used.
        item.earlier = dict(zip(keys, item.responses or [], strict=False))
        item.responses = None

    def _response_keys(self, items: Sequence[_Item]) -> dict[str, list[str]]:
        """Return the keys under which the responses to each example are stored, so that reports can show them."""
        keys_by_id: dict[str, list[str]] = {}
        if not self.cached:
            return keys_by_id
        for item in items:
            if item.responses is None:
                continue
            stored_keys = []
            for key, request, response in zip(item.keys, item.requests, item.responses, strict=True):
                if is_cacheable_request(request) and not isinstance(request, Train):
                    stored_keys.append(self._storage_key(key, response))
            keys_by_id[item.example.id] = stored_keys
        return keys_by_id

    # --- scores -------------------------------------------------------------------------------------------------------

    def _scored_rows(self, items: Sequence[_Item]) -> list[tuple[int, Row]]:
        """Let the task score examples whose requests were all answered."""
        if not items:
            return []
        examples = [original_example(item.example) for item in items]
        responses = [item.responses or [] for item in items]
        scores = _list_of(Score, self.task.score(examples, responses), f"the task {self.task.name}: score")
        if len(scores) != len(items):
            raise PluginError(f"the task {self.task.name} gave {len(scores)} scores for {len(items)} examples")
        rows = []
        for item, score in zip(items, scores, strict=True):
            checked = replace(score, values=self._checked_values(score.values, item.example))
            self._check_outcomes(checked, item.example)
            state: State = "scored" if checked.values else "unscored"
            rows.append((item.position, Row(item.example, state, checked)))
        return rows

    def _checked_values(self, values: Mapping[str, Any], example: Example) -> dict[str, float]:
        """Return the scores as finite floats; anything else could not be stored or averaged."""
        checked = {}
        for metric, value in values.items():
            try:
                checked[metric] = float(value)
            except (TypeError, ValueError):
                checked[metric] = math.nan
            if not math.isfinite(checked[metric]):
                raise PluginError(
                    f"the task {self.task.name} gave {value!r} as {metric} of the example {example.id}; "
                    "a score must be a finite number, or be left out with a reason in `unscored`"
                )
        return checked

    def _check_outcomes(self, score: Score, example: Example) -> None:
        """Check that the outcomes by label average to the value of their metric."""
        for metric, outcomes in score.outcomes.items():
            source = f"the task {self.task.name} gave outcomes of {metric} for the example {example.id}"
            if metric not in self.task.design.crossed:
                raise PluginError(f"{source}, but its design.crossed does not say what their labels are")
            rows = sum(outcome.rows for outcome in outcomes)
            total = sum(outcome.value * outcome.rows for outcome in outcomes)
            value = score.values.get(metric)
            # Comparisons with NaN are false, so NaN is refused as well.
            is_mean = value is not None and rows > 0 and math.isclose(total / rows, value, rel_tol=1e-9, abs_tol=1e-9)
            if not is_mean:
                raise PluginError(f"{source} whose mean is not the value of the metric, {value}")

    # --- requests and responses ---------------------------------------------------------------------------------------

    def _requests(self, example: Example) -> list[Request]:
        """Return the task's requests for an example; sampled ones get their own seed in ``draw``."""
        requests = []
        for request in self.task.requests(original_example(example)):
            requests.append(sampled_request(request, self.config.temperature))
        for number, request in enumerate(requests):
            if isinstance(request, Generate) and request.temperature > 0:
                draw = digest(self.config.seed, self.run, example.id, number)
                requests[number] = replace(request, draw=draw)
        return requests

    def _fill_in_responses(self, items: Sequence[_Item]) -> None:
        """Fill in the responses: from the cache where possible, otherwise from the model.

        Equal requests are sent once. The responses of an item stay None if the budget did not allow all its requests.
        """
        requests: dict[str, Request] = {}
        for item in items:
            requests.update(zip(item.keys, item.requests, strict=True))
        responses: dict[str, Response] = {}
        for item in items:
            responses.update(item.earlier)
        responses |= self._cached_responses([key for key in requests if key not in responses])
        for key, request in requests.items():
            if self.lacks_kept_model(key, request):
                # The outcome of the training is stored, but the trained model is not: it was not kept, or was deleted.
                # So the training is repeated.
                responses.pop(key, None)
            if key in self.failed:
                responses[key] = self.failed[key]
        open_requests = {key: request for key, request in requests.items() if key not in responses}
        try:
            self._send(open_requests, responses)
        except BudgetReached as reached:
            # Raised later, see _process: examples that are fully answered are scored and stored first.
            self.budget_reached = reached
        for item in items:
            if all(key in responses for key in item.keys):
                item.responses = [responses[key] for key in item.keys]

    def _cached_responses(self, keys: Collection[str]) -> dict[str, Response]:
        """Return the responses that are stored already, by the keys of their requests."""
        if not self.cached:
            return {}
        # The key under which a response is stored → the key of its request. They differ if this run has its own answer.
        key_of_stored = {self.own_answers.get(key, key): key for key in keys}
        responses: dict[str, Response] = {}
        for stored_key, response in self.store.cached(key_of_stored).items():
            responses[key_of_stored[stored_key]] = response
        # Responses that only this run may use, such as a refusal, are stored under a separate key.
        key_of_private: dict[str, str] = {}
        for key in keys:
            if key not in responses:
                key_of_private[self._private_key(key)] = key
        for private_key, response in self.store.cached(key_of_private).items():
            responses[key_of_private[private_key]] = response
        return responses

    def _send(self, open_requests: Mapping[str, Request], responses: dict[str, Response]) -> None:
        """Send requests to the model, store each response as it arrives, and add it to ``responses``."""
        if not open_requests:
            return
        by_verb: dict[str, dict[str, Request]] = {}
        for key, request in open_requests.items():
            by_verb.setdefault(request.verb, {})[key] = request
        if self.model is None and set(by_verb) != {"train"}:
            raise ConfigError(f"the task {self.task.name} sends requests, but the configuration names no model")
        answered = 0
        for verb, batch in sorted(by_verb.items()):
            for key, request, response in self._responses_to(verb, batch):
                responses[key] = response
                if self.metered:
                    self._count_spending(response)
                if self.cached and response.error is None and is_cacheable_request(request):
                    self.store_response(key, request, response)
                if self.metered:
                    # After storing: the answer has been paid for, whatever it says about its tokens.
                    self.budget.require_usage(response)
                # A training may need other trainings first. They are not among the open requests and do not count.
                if key in open_requests:
                    answered += 1
                done = self.done + self.chunk_progress.examples_done(answered, len(open_requests))
                self.progress(done, self.total)
        self.chunk_progress.sent += len(open_requests)

    def _responses_to(self, verb: str, batch: Mapping[str, Request]) -> Iterator[tuple[str, Request, Response]]:
        """Yield each request of a batch with its key and response, and also the trainings that trainings depend on."""
        if verb == "train":
            jobs = self.training_jobs(batch)
            outcomes = self.store.cached(jobs)
            for key, job in jobs.items():
                if job.lacks_kept_model:
                    outcomes.pop(key, None)
            for key in jobs:
                if key in self.failed:
                    outcomes[key] = self.failed[key]
            for key, response in run_trainings(jobs, outcomes, InProcessExecutor()):
                yield key, jobs[key].request, response
            return
        assert self.model is not None
        self._connect()
        keys = list(batch)
        requests = list(batch.values())
        if self.worker_model is None:
            responses = ask(self.model, verb, requests)
        else:
            responses = self.worker_model.ask(verb, requests)
        for number, response in responses:
            key = keys[number]
            yield key, batch[key], response

    def _connect(self) -> None:
        """Let the model test its server before the first request, and add what it found to the run's signature."""
        if self.is_connected or self.model is None:
            return
        report = self.model.connect(self.task.needs)
        self.is_connected = True
        if report is None:
            return
        if self.metered:
            self._count_spending(Response("", tokens_in=report.tokens_in, tokens_out=report.tokens_out))
        record = self.store.run(self.run)
        before = record.depends_on.get(SERVER)
        # Redacted, so that it can be compared with the stored one.
        signature = redact(report.signature)
        if before is not None and before != signature:
            raise StoreError(
                f"the server of {self.run} is not the same as when the run began (then: {before}; now: {signature}), "
                "so old and new scores would not match; start a new run"
            )
        self._record_server(signature)

    def _record_server(self, server: str) -> None:
        depends_on = {**self.depends_on, SERVER: server}
        self.store.set_signature(self.run, provenance.signature(depends_on), depends_on)

    def _adopt_server(self) -> None:
        """If all answers came from the cache, record the server that an earlier run with the same model recorded."""
        record = self.store.run(self.run)
        if self.is_connected or self.model is None or SERVER in record.depends_on:
            return
        for earlier in self.store.runs():
            same_model = earlier.depends_on.get("model") == record.depends_on.get("model")
            if same_model and SERVER in earlier.depends_on:
                self._record_server(earlier.depends_on[SERVER])
                return

    def store_response(self, key: str, request: Request, response: Response) -> None:
        """Store a response, either for all runs or for this run only."""
        model_name = "" if self.model is None else self.model.name
        self.store.add_response(
            self._storage_key(key, response), self.run, model_name, request_as_dict(request), response
        )

    def training_jobs(self, batch: Mapping[str, Request]) -> dict[str, TrainingJob]:
        """Return the jobs for trainings and for all trainings they depend on, by key."""
        jobs: dict[str, TrainingJob] = {}
        model = self._model_description()
        identity = "" if self.model is None else canonical(dict(self.model.identity()))

        def add(key: str, request: Train) -> None:
            """Add the job of a training, after those of the trainings that it depends on."""
            if key in jobs:
                return
            earlier_keys = []
            for earlier in request.after:
                earlier_key = self._shared_key(earlier)
                add(earlier_key, earlier)
                earlier_keys.append(earlier_key)
            # The model of a training that is only needed by other trainings is not kept.
            kept_in = self._kept_in(key, request) if key in batch else None
            jobs[key] = TrainingJob(
                key,
                request,
                model,
                self.config.base_dir,
                tuple(earlier_keys),
                kept_in,
                {} if self.model is None else self.model.resources,
                identity,
            )

        for key, request in batch.items():
            assert isinstance(request, Train)
            add(key, request)
        return jobs

    # --- trained models that are kept ---------------------------------------------------------------------------------

    def _kept_in(self, key: str, request: Request) -> Path | None:
        """Return the folder in which the trained model of a request is kept; None if it is not kept."""
        if isinstance(request, Train) and request.keeps:
            # Without a cache, the key is unique within the run only.
            training = key if self.cached else digest(key, self.run)
            return trained_models.model_folder(self.store.folder, training)
        return None

    def lacks_kept_model(self, key: str, request: Request) -> bool:
        """Whether a request is a training whose model is to be kept but is not in the results folder."""
        folder = self._kept_in(key, request)
        return folder is not None and not folder.is_dir()

    def _restore_kept_models(self, examples: Sequence[Example]) -> None:
        """Train the models of finished examples again if they were deleted. Their scores stay as they are."""
        missing: dict[str, Request] = {}
        for example in examples:
            for number, request in enumerate(self.task.requests(example)):
                key = self.key(request, example, number)
                if key not in self.failed and self.lacks_kept_model(key, request):
                    missing[key] = request
        responses: dict[str, Response] = {}
        self.chunk_progress = _ChunkProgress(0)
        self._send(missing, responses)
        for response in responses.values():
            if response.error is not None:
                raise ModelError(f"a trained model is missing and could not be trained again: {response.error}")

    def _list_kept_models(self) -> None:
        """Write a list of the folders with this run's trained models, so that they can be found without its data."""
        folders: dict[str, list[str]] = {}
        for example in self.task.examples():
            names = []
            for number, request in enumerate(self.task.requests(example)):
                folder = self._kept_in(self.key(request, example, number), request)
                if folder is not None and folder.is_dir():
                    names.append(folder.name)
            if names:
                folders[example.id] = names
        if folders:
            trained_models.write_list(self.store.folder, self.run, folders)

    def _count_spending(self, response: Response) -> None:
        """Add the tokens and the cost of a response to the budget and to the store."""
        self.budget.spend(response, self.prices)
        cost: float | None = None
        if self.prices is not None and not lacks_usage(response):
            cost = self.prices.of(response.tokens_in or 0, response.tokens_out or 0)
        self.store.add_spending(self.run, response, cost)

    # --- cache keys ---------------------------------------------------------------------------------------------------

    def key(self, request: Request, example: Example, number: int) -> str:
        """Return the cache key of an example's request; ``number`` is its position among the example's requests."""
        if not self.cached:
            return f"{example.id}/{number}"
        if isinstance(request, Generate) and request.temperature > 0:
            # A sampled answer belongs to one run, example and request; any other must draw its own sample.
            return self._shared_key(request, self.run, example.id, number)
        return self._shared_key(request)

    def _shared_key(self, request: Request, *further: Any) -> str:
        """Return a key that is the same in all runs that ask the same model the same question."""
        return digest(self.identity_digest, request_key(request), self.config.seed, *further)

    def _private_key(self, key: str) -> str:
        """Return the key for a response that only this run may use."""
        return digest(key, self.run)

    def _storage_key(self, key: str, response: Response) -> str:
        if is_cacheable_response(response):
            return self.own_answers.get(key, key)
        return self._private_key(key)
