"""Plan, ask, judge, aggregate. Everything is kept as it comes; a run can be taken up where it stopped."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from lmassay.budget import Budget, Prices, lacks_usage
from lmassay.contracts import ask
from lmassay.errors import BudgetReached, ConfigError, DataError, PluginError, StoreError
from lmassay.plugins.declarations import describe_value
from lmassay.redaction import redact
from lmassay.running.config import RunConfig
from lmassay.running.executors import Executor, InProcessExecutor, TrainingJob, run_jobs
from lmassay.running.planning import Plan as Plan
from lmassay.running.planning import model_identity
from lmassay.running.planning import plan as plan
from lmassay.statistics.intervals import mean_result
from lmassay.statistics.table import ScoreTable
from lmassay.storage import provenance
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
    RunRecord,
    Score,
    Train,
    digest,
    request_as_dict,
    request_key,
)

Item = TypeVar("Item")
Progress = Callable[[float, int | None], None]
"""Called with examples done (a fraction counts) and examples in all, if known."""


def start(planned: Plan, store: Store, sweep: str = "", progress: Progress | None = None) -> RunRecord:
    """Run a plan from the beginning."""
    new = _new_run(planned, store, sweep or new_sweep())
    with store.lock(new.id):
        store.add_run(new)
        return _work(planned, store, new.id, progress)


def record_waiting_runs(
    planned: Sequence[Plan], store: Store, sweep: str, card: CardPart | None = None
) -> list[RunRecord]:
    """Record runs that wait for their turn, so that they can be finished even if this process dies first."""
    new = [_new_run(plan, store, sweep, card) for plan in planned]
    store.add_waiting(new)
    records = {record.id: record for record in store.runs()}
    return [records[run.id] for run in new]


def begin(
    planned: Plan,
    record: RunRecord,
    store: Store,
    progress: Progress | None = None,
    failed: Mapping[str, Response] | None = None,
) -> RunRecord:
    """Do a run that waits, or what is left of one that was broken off; ``failed`` trainings are not tried again."""
    with store.lock(record.id):
        if record.signature != planned.signature:
            # An earlier version began it, which had another rule for intervals: the signature says what is done now.
            store.set_signature(record.id, planned.signature, planned.depends_on)
        return _work(planned, store, record.id, progress, failed)


def resume(record: RunRecord, store: Store, progress: Progress | None = None) -> RunRecord:
    """Finish a run that was interrupted, cancelled, failed or left examples in error."""
    return begin(replan(record), record, store, progress)


def replan(record: RunRecord) -> Plan:
    """The plan of a run in the store, if its inputs are what they were."""
    if record.status == DAMAGED and not record.config:
        raise StoreError(f"the run {record.id} cannot be resumed: {record.note}")
    planned = plan(RunConfig.model_validate(record.config))
    if _without_interval_rule(planned.depends_on) != _without_interval_rule(record.depends_on):
        raise StoreError(
            f"the inputs of {record.id} have changed since it began, so its parts would not fit; start a new run\n"
            f"  then: {record.signature}\n  now:  {planned.signature}"
        )
    return planned


def _without_interval_rule(depends_on: Mapping[str, str]) -> dict[str, str]:
    """What the scores depend on. Intervals are computed from all of them at the end, by the rule of that time."""
    return {name: value for name, value in depends_on.items() if name != "ci"}


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
    """A name that the runs of one command share."""
    return secrets.token_hex(4)


def _work(
    planned: Plan,
    store: Store,
    run: str,
    progress: Progress | None,
    failed: Mapping[str, Response] | None = None,
) -> RunRecord:
    with ExitStack() as stack:
        if planned.model is not None:
            stack.callback(planned.model.close)
        store.set_status(run, "running")
        over = ""
        try:
            try:
                Worker(planned, store, run, progress, failed).work()
            except BudgetReached as reached:
                over = str(reached)
            on_tests = planned.task.design.replicates is not None
            table = ScoreTable(store.score_rows(run, with_test_scores=on_tests))
            results = _results(planned, table) if len(table) else []
            store.set_results(run, results)
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            why = "stopped by the user" if stopped else redact(str(error))[:500]
            # The disk may be full: then even this cannot be written, and the first error is the one to show.
            with suppress(StoreError):
                store.set_status(run, "cancelled" if stopped else "failed", why)
            again = provenance.command_line("resume", run, "--results", store.folder)
            error.add_note(f"what was answered is kept; go on with: {again}")
            raise
        _finish(store, run, over)
    return store.run(run)


def _results(planned: Plan, table: ScoreTable) -> list[Result]:
    """What the task makes of the scores, and the mean of each metric that it declares but does not report."""
    task, settings = planned.task, planned.config.settings
    results = _list_of(Result, task.aggregate(table, settings), f"the task {task.name}: aggregate")
    reported = {result.metric for result in results}
    for metric in task.metrics:
        if metric.name not in reported and table.has(metric.name):
            results.append(mean_result(table, metric.name, settings, cluster=task.design.cluster))
    return results


def _list_of(kind: type[Item], value: Any, source: str) -> list[Item]:
    """What a method of a task returns, if it is what it should be."""
    if not isinstance(value, Iterable) or isinstance(value, str | Mapping):
        raise PluginError(f"{source} must return a list of {kind.__name__} objects, not {describe_value(value)}")
    items = list(value)
    for item in items:
        if not isinstance(item, kind):
            raise PluginError(f"{source} must return {kind.__name__} objects only, not {describe_value(item)}")
    return items


def _finish(store: Store, run: str, over: str) -> None:
    counts = store.count(run)
    if over:
        store.set_status(run, "stopped", over)
    elif counts["error"]:
        store.set_status(run, "incomplete", f"{counts['error']} examples in error")
    elif not counts["scored"]:
        store.set_status(run, "incomplete", f"none of {counts['unscored']} examples could be scored")
    else:
        store.set_status(run, "done")
        store.forget_lock(run)


class Worker:
    """The loop of one run."""

    def __init__(
        self,
        planned: Plan,
        store: Store,
        run: str,
        progress: Progress | None = None,
        failed: Mapping[str, Response] | None = None,
    ) -> None:
        self.task, self.model, self.config = planned.task, planned.model, planned.config
        self.store, self.run = store, run
        self.total = planned.size
        self.progress = progress or (lambda done, total: None)
        self.done = 0
        self.model_inputs = planned.model_inputs
        identity = {} if self.model is None else model_identity(self.config, self.model, self.model_inputs)
        self.identity_digest = digest(identity)
        self.cached = self.model is None or self.model.cached
        # Models behind an API say what they cost, or that it is unknown; what others take is not counted.
        self.metered = self.model is not None and self.model.metered
        self.prices: Prices | None = None if self.model is None else self.model.prices
        self.budget = self._budget()
        self.stopped: BudgetReached | None = None
        self.failed = failed or {}
        self.executor: Executor = InProcessExecutor()

    def _budget(self) -> Budget:
        """The command's budget, less what its other runs and earlier tries have spent."""
        spent = self.store.spending(sweep=self.store.run(self.run).sweep)
        limits = self.config.budget
        budget = Budget(limits.usd, limits.tokens) if limits and self.metered else Budget()
        if spent is not None:
            budget.spent_usd, budget.answers = spent.usd or 0.0, spent.answers
            budget.spent_tokens = spent.tokens_in + spent.tokens_out
        return budget

    def work(self) -> None:
        if self.model is not None:
            self.model.use_budget(self.budget)
            self.model.use_folder(self.store.folder / "open")
        # Examples whose rows were changed from outside are judged again.
        self.store.drop_damaged_rows(self.run)
        finished = self.store.finished_ids(self.run)
        for chunk in self.chunks():
            todo = [(position, example) for position, example in chunk if example.id not in finished]
            self.done += len(chunk) - len(todo)
            self.progress(self.done, self.total)
            if todo:
                self._process(todo)
        if self.done == 0:
            raise DataError(f"the task {self.task.name} has no examples; check its data")

    def chunks(self) -> Iterator[list[tuple[int, Example]]]:
        size = max(self.task.chunk, 0 if self.model is None else self.model.chunk)
        seen: set[str] = set()
        examples = enumerate(islice(self.task.examples(), self.config.limit))
        while chunk := list(islice(examples, size)):
            for _, example in chunk:
                if example.id in seen:
                    raise DataError(f"two examples have the id '{example.id}'; ids must be unique")
                seen.add(example.id)
            yield chunk

    def _process(self, todo: Sequence[tuple[int, Example]]) -> None:
        asked = [self._requests(example) for _, example in todo]
        keys = [
            [self.key(request, e, n) for n, request in enumerate(rs)] for (_, e), rs in zip(todo, asked, strict=True)
        ]
        answers = self._answers(keys, asked)
        rows: list[tuple[int, Row]] = []
        judged: list[tuple[int, Example, list[Response]]] = []
        for (position, example), responses in zip(todo, answers, strict=True):
            if responses is None:
                continue
            failed = next((r for r in responses if not r.usable), None)
            if failed is None:
                judged.append((position, example, responses))
            elif failed.error is not None:
                rows.append((position, Row(example, "error", error=failed.error)))
            else:
                reason = {"answer": f"no answer: {failed.finish}"}
                rows.append((position, Row(example, "unscored", Score(unscored=reason))))
        rows += self._judge(judged)
        self.store.add_rows(self.run, rows, self._trace([example for _, example in todo], keys, asked, answers))
        self.done += len(rows)
        self.progress(self.done, self.total)
        if self.stopped is not None:
            raise self.stopped

    def _trace(
        self,
        examples: Sequence[Example],
        keys: Sequence[Sequence[str]],
        asked: Sequence[Sequence[Request]],
        answers: Sequence[Sequence[Response] | None],
    ) -> dict[str, list[str]]:
        """Under which keys the answers to each example are kept: readers want to see them."""
        return {
            example.id: [
                key if is_cacheable_response(response) else self._own(key)
                for key, request, response in zip(ks, requests, responses, strict=True)
                if is_cacheable_request(request) and not isinstance(request, Train)
            ]
            for example, ks, requests, responses in zip(examples, keys, asked, answers, strict=True)
            if responses is not None and self.cached
        }

    def _judge(self, judged: Sequence[tuple[int, Example, list[Response]]]) -> Iterable[tuple[int, Row]]:
        if not judged:
            return
        given_scores = self.task.score([e for _, e, _ in judged], [r for _, _, r in judged])
        scores = _list_of(Score, given_scores, f"the task {self.task.name}: score")
        if len(scores) != len(judged):
            raise PluginError(f"the task {self.task.name} gave {len(scores)} scores for {len(judged)} examples")
        for (position, example, _), score in zip(judged, scores, strict=True):
            checked = replace(score, values=self._checked(score.values, example))
            self._check_outcomes(checked, example)
            yield position, Row(example, "scored" if checked.values else "unscored", checked)

    def _checked(self, values: Mapping[str, Any], example: Example) -> dict[str, float]:
        """Plain finite floats: anything else could not be stored, averaged or trusted."""
        checked = {}
        for metric, value in values.items():
            try:
                checked[metric] = float(value)
            except (TypeError, ValueError):
                checked[metric] = math.nan
            if not math.isfinite(checked[metric]):
                raise PluginError(
                    f"the task {self.task.name} gave {value!r} as {metric} of the example {example.id}; "
                    "a score is a finite number, or left out with a reason in `unscored`"
                )
        return checked

    def _check_outcomes(self, score: Score, example: Example) -> None:
        """Outcomes are the value of a metric apart for each label, so together they must give it."""
        for metric, outcomes in score.outcomes.items():
            source = f"the task {self.task.name} gave outcomes of {metric} for the example {example.id}"
            if metric not in self.task.design.crossed:
                raise PluginError(f"{source}, but its design.crossed does not say what their labels are")
            rows = sum(outcome.rows for outcome in outcomes)
            total = sum(outcome.value * outcome.rows for outcome in outcomes)
            value = score.values.get(metric)
            if value is None or not rows > 0 or not math.isclose(total / rows, value, rel_tol=1e-9, abs_tol=1e-9):
                raise PluginError(f"{source} whose mean is not the value of the metric, {value}")

    def _answers(
        self, keys: Sequence[Sequence[str]], asked: Sequence[Sequence[Request]]
    ) -> list[list[Response] | None]:
        """The responses to each example's requests: from the cache where known, each distinct question asked once.

        None for an example whose questions could not all be paid for.
        """
        flat = {key: request for ks, rs in zip(keys, asked, strict=True) for key, request in zip(ks, rs, strict=True)}
        known = self.store.cached(flat) if self.cached else {}
        if self.cached:
            # What this run was told and no other is to be told: a refusal, an empty answer.
            own = {self._own(key): key for key in flat if key not in known}
            known |= {own[key]: response for key, response in self.store.cached(own).items()}
        known |= {key: self.failed[key] for key in flat if key in self.failed}
        try:
            self._ask({key: request for key, request in flat.items() if key not in known}, known, len(asked))
        except BudgetReached as reached:
            self.stopped = reached
        return [[known[key] for key in ks] if all(key in known for key in ks) else None for ks in keys]

    def _ask(self, open_requests: dict[str, Request], known: dict[str, Response], examples: int) -> None:
        if not open_requests:
            return
        if self.model is None and any(not isinstance(request, Train) for request in open_requests.values()):
            raise ConfigError(f"the task {self.task.name} asks a question, but the configuration names no model")
        answered = 0
        for verb in sorted({request.verb for request in open_requests.values()}):
            batch = {key: request for key, request in open_requests.items() if request.verb == verb}
            for key, request, response in self._asked(verb, batch):
                known[key] = response
                if self.metered:
                    self._spend(response)
                if self.cached and response.error is None and is_cacheable_request(request):
                    self.keep(key, request, response)
                if self.metered:
                    self.budget.require_usage(response)
                answered += key in open_requests
                self.progress(self.done + examples * answered / len(open_requests), self.total)

    def _asked(self, verb: str, batch: Mapping[str, Request]) -> Iterator[tuple[str, Request, Response]]:
        """Each request with its key and answer; of trainings also those that had to come before."""
        if verb == "train":
            orders = self.training_jobs(batch)
            known = {**self.store.cached(orders), **{key: self.failed[key] for key in orders if key in self.failed}}
            for key, response in run_jobs(orders, known, self.executor):
                yield key, orders[key].request, response
            return
        assert self.model is not None
        keys = list(batch)
        for place, response in ask(self.model, verb, [batch[key] for key in keys]):
            yield keys[place], batch[keys[place]], response

    def keep(self, key: str, request: Request, response: Response) -> None:
        """Remember an answer: for all, or for this run alone."""
        name = "" if self.model is None else self.model.name
        self.store.add_response(
            key if is_cacheable_response(response) else self._own(key),
            self.run,
            name,
            request_as_dict(request),
            response,
        )

    def training_jobs(self, batch: Mapping[str, Request]) -> dict[str, TrainingJob]:
        """Trainings and all that must come before them, by key."""
        orders: dict[str, TrainingJob] = {}

        def add(key: str, request: Train) -> None:
            if key in orders:
                return
            earlier = {self._key_of(training): training for training in request.after}
            for other, training in earlier.items():
                add(other, training)
            after = tuple(self._key_of(training) for training in request.after)
            source = self.model_inputs.sources.get("model", "")
            orders[key] = TrainingJob(key, request, self.config.model, self.config.base_dir, after, source)

        for key, request in batch.items():
            assert isinstance(request, Train)
            add(key, request)
        return orders

    def _own(self, key: str) -> str:
        return digest(key, self.run)

    def _spend(self, response: Response) -> None:
        self.budget.spend(response, self.prices)
        tokens = (response.tokens_in or 0, response.tokens_out or 0)
        unknown = self.prices is None or lacks_usage(response)
        self.store.spend(self.run, response, None if unknown or self.prices is None else self.prices.of(*tokens))

    def _requests(self, example: Example) -> list[Request]:
        """The task's requests; those that are sampled are told which draw they are."""
        asked = list(self.task.requests(example))
        for place, request in enumerate(asked):
            if isinstance(request, Generate) and request.temperature > 0:
                asked[place] = replace(request, draw=digest(self.config.seed, self.run, example.id, place))
        return asked

    def key(self, request: Request, example: Example, place: int) -> str:
        if not self.cached:
            return f"{example.id}/{place}"
        if isinstance(request, Generate) and request.temperature > 0:
            # A sampled answer belongs to this run, example and place alone: a repeat must be asked afresh.
            return self._key_of(request, self.run, example.id, place)
        return self._key_of(request)

    def _key_of(self, request: Request, *more: Any) -> str:
        return digest(self.identity_digest, request_key(request), self.config.seed, *more)
