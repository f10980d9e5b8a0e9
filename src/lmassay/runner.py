"""Plan, ask, judge, aggregate. Everything is kept as it comes; a run can be taken up where it stopped."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import lmassay
from lmassay import provenance
from lmassay.config import RunConfig
from lmassay.contracts import Model, Task, ask, label_of
from lmassay.errors import ConfigError, DataError, PluginError, StoreError
from lmassay.options import split_spec
from lmassay.store import NewRun, RunRecord, Store
from lmassay.table import ScoreTable
from lmassay.types import Example, Generate, Request, Response, Row, Score, Slot, digest, request_as_dict, request_key

Progress = Callable[[float, int | None], None]
"""Called with examples done (a fraction counts) and examples in all, if known."""

CHUNK = 1024
MOST_CACHED_CANDIDATES = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that was checked and can start."""

    config: RunConfig
    task: Task
    model: Model | None
    depends_on: Mapping[str, str]
    """What the numbers depend on, by name: the parts of the signature."""

    @property
    def signature(self) -> str:
        return provenance.signature(self.depends_on)

    @property
    def cluster(self) -> str | None:
        """The group whose members are not independent of each other, if the task names one."""
        name: str | None = getattr(self.task, "cluster", None)
        return name

    @property
    def headline(self) -> list[str]:
        """The metrics that tables and comparisons show unless told otherwise; none named means all."""
        return list(getattr(self.task, "headline", ()))

    @property
    def weights(self) -> dict[str, str]:
        """Metrics that are means over something else than examples: metric → the column that says over how many."""
        return dict(getattr(self.task, "weights", {}))

    @property
    def pair_by(self) -> str | None:
        """The group by which runs are paired that have no example in common."""
        name: str | None = getattr(self.task, "pair_by", None)
        return name

    @property
    def notes(self) -> list[str]:
        """What the task and the model would have the user know before the run."""
        notes = [getattr(part, "notes", None) for part in (self.task, self.model)]
        return [note for told in notes if callable(told) for note in told()]

    @property
    def label(self) -> str:
        return label_of(self.task)

    @property
    def model_label(self) -> str:
        return "none" if self.model is None else label_of(self.model)

    @property
    def size(self) -> int | None:
        """Examples in all, where the task knows without reading them."""
        size = getattr(self.task, "size", None)
        known = size() if callable(size) else None
        return known if self.config.limit is None or known is None else min(known, self.config.limit)

    @property
    def requests_each(self) -> int | None:
        """Requests an example, where the task knows."""
        each: int | None = getattr(self.task, "requests_each", None)
        return each


def plan(config: RunConfig) -> Plan:
    """Build task and model and check all that can be checked without asking anything."""
    task = config.build_task()
    model = config.build_model()
    if not isinstance(task, Task):
        raise PluginError(f"the task {config.task!r} lacks a method of the contract; see docs/extending.md")
    if model is not None and not isinstance(model, Model):
        raise PluginError(f"the model {config.model!r} lacks name, can or identity; see docs/extending.md")
    _check_fit(task, model)
    for part in (task, model):
        check = getattr(part, "check", None)
        if callable(check):
            check()
    check_model = getattr(task, "check_model", None)
    if model is not None and callable(check_model):
        check_model(model)
    return Plan(config, task, model, _depends_on(config, task, model))


def start(planned: Plan, store: Store, sweep: str = "", progress: Progress | None = None) -> RunRecord:
    """Run a plan from the beginning."""
    new = NewRun(
        id=store.new_id(planned.label),
        sweep=sweep or new_sweep(),
        name=planned.config.name,
        task=planned.task.name,
        model=planned.model_label,
        label=planned.label,
        config=planned.config.model_dump(mode="json"),
        signature=planned.signature,
        provenance={
            **provenance.snapshot(),
            "signature": planned.depends_on,
            "cluster": planned.cluster,
            "headline": planned.headline,
            "weights": planned.weights,
            "pair_by": planned.pair_by,
        },
        planned=planned.size,
    )
    with store.lock(new.id):
        store.add_run(new)
        return _work(planned, store, new.id, progress)


def resume(record: RunRecord, store: Store, progress: Progress | None = None) -> RunRecord:
    """Finish a run that was interrupted, cancelled, failed or left examples in error."""
    planned = plan(RunConfig.model_validate(record.config))
    if planned.signature != record.signature:
        raise StoreError(
            f"the inputs of {record.id} have changed since it began, so its parts would not fit; start a new run\n"
            f"  then: {record.signature}\n  now:  {planned.signature}"
        )
    with store.lock(record.id):
        return _work(planned, store, record.id, progress)


def new_sweep() -> str:
    """A name that the runs of one command share."""
    return secrets.token_hex(4)


def _work(planned: Plan, store: Store, run: str, progress: Progress | None) -> RunRecord:
    with ExitStack() as stack:
        close = getattr(planned.model, "close", None)
        if callable(close):
            stack.callback(close)
        store.set_status(run, "running")
        try:
            _Worker(planned, store, run, progress).work()
            results = planned.task.aggregate(ScoreTable(store.score_rows(run)), planned.config.settings)
            store.set_results(run, [result.as_dict() for result in results])
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            why = "stopped by the user" if stopped else provenance.redact(str(error))[:500]
            # The disk may be full: then even this cannot be written, and the first error is the one to show.
            with suppress(StoreError):
                store.set_status(run, "cancelled" if stopped else "failed", why)
            error.add_note(f"what was answered is kept; go on with: lmassay resume {run} --results {store.folder}")
            raise
        _finish(store, run)
    return store.run(run)


def _finish(store: Store, run: str) -> None:
    counts = store.count(run)
    if counts["error"]:
        store.set_status(run, "incomplete", f"{counts['error']} examples in error")
    elif not counts["scored"]:
        store.set_status(run, "incomplete", f"none of {counts['unscored']} examples could be scored")
    else:
        store.set_status(run, "done")
        store.forget_lock(run)


class _Worker:
    """The loop of one run."""

    def __init__(self, planned: Plan, store: Store, run: str, progress: Progress | None) -> None:
        self.task, self.model, self.config = planned.task, planned.model, planned.config
        self.store, self.run = store, run
        self.total = planned.size
        self.progress = progress or (lambda done, total: None)
        self.done = 0
        self.identity_digest = digest({} if self.model is None else model_identity(self.config, self.model))
        self.cached = getattr(self.model, "cached", True)

    def work(self) -> None:
        finished = self.store.finished_ids(self.run)
        for chunk in self._chunks():
            todo = [(position, example) for position, example in chunk if example.id not in finished]
            self.done += len(chunk) - len(todo)
            self.progress(self.done, self.total)
            if todo:
                self._process(todo)
        if self.done == 0:
            raise DataError(f"the task {self.task.name} has no examples; check its data")

    def _chunks(self) -> Iterator[list[tuple[int, Example]]]:
        size = getattr(self.task, "chunk", CHUNK)
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
        answers = self._answers([example for _, example in todo], asked)
        rows: list[tuple[int, Row]] = []
        judged: list[tuple[int, Example, list[Response]]] = []
        for (position, example), responses in zip(todo, answers, strict=True):
            failed = next((r for r in responses if not r.usable), None)
            if failed is None:
                judged.append((position, example, responses))
            elif failed.error is not None:
                rows.append((position, Row(example, "error", error=failed.error)))
            else:
                reason = {"answer": f"no answer: {failed.finish}"}
                rows.append((position, Row(example, "unscored", Score(unscored=reason))))
        rows += self._judge(judged)
        self.store.add_rows(self.run, rows)
        self.done += len(todo)
        self.progress(self.done, self.total)

    def _judge(self, judged: Sequence[tuple[int, Example, list[Response]]]) -> Iterable[tuple[int, Row]]:
        if not judged:
            return
        scores = self.task.score([e for _, e, _ in judged], [r for _, _, r in judged])
        if len(scores) != len(judged):
            raise PluginError(f"the task {self.task.name} gave {len(scores)} scores for {len(judged)} examples")
        for (position, example, _), score in zip(judged, scores, strict=True):
            checked = replace(score, values=self._checked(score.values, example))
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

    def _answers(self, examples: Sequence[Example], asked: Sequence[Sequence[Request]]) -> list[list[Response]]:
        """The responses to each example's requests: from the cache where known, each distinct question asked once."""
        keys = [
            [self._key(request, example, place) for place, request in enumerate(requests)]
            for example, requests in zip(examples, asked, strict=True)
        ]
        flat = {key: request for ks, rs in zip(keys, asked, strict=True) for key, request in zip(ks, rs, strict=True)}
        known = self.store.cached(flat) if self.cached else {}
        self._ask({key: request for key, request in flat.items() if key not in known}, known, len(examples))
        return [[known[key] for key in ks] for ks in keys]

    def _ask(self, open_requests: dict[str, Request], known: dict[str, Response], examples: int) -> None:
        if not open_requests:
            return
        if self.model is None:
            raise ConfigError(f"the task {self.task.name} asks a question, but the configuration names no model")
        answered = 0
        for verb in sorted({request.verb for request in open_requests.values()}):
            batch = [(key, request) for key, request in open_requests.items() if request.verb == verb]
            for place, response in ask(self.model, verb, [request for _, request in batch]):
                key, request = batch[place]
                known[key] = response
                if self.cached and keeps(response) and fits_cache(request):
                    self.store.add_response(key, self.run, self.model.name, request_as_dict(request), response)
                answered += 1
                self.progress(self.done + examples * answered / len(open_requests), self.total)

    def _requests(self, example: Example) -> list[Request]:
        """The task's requests; those that are sampled are told which draw they are."""
        asked = list(self.task.requests(example))
        for place, request in enumerate(asked):
            if isinstance(request, Generate) and request.temperature > 0:
                asked[place] = replace(request, draw=digest(self.config.seed, self.run, example.id, place))
        return asked

    def _key(self, request: Request, example: Example, place: int) -> str:
        if not self.cached:
            return f"{example.id}/{place}"
        parts: list[Any] = [self.identity_digest, request_key(request), self.config.seed]
        if isinstance(request, Generate) and request.temperature > 0:
            # A sampled answer belongs to this run, example and place alone: a repeat must be asked afresh.
            parts += [self.run, example.id, place]
        return digest(*parts)


def keeps(response: Response) -> bool:
    """Only answers are remembered; an error, a refusal or an empty answer may be different the next time."""
    return response.usable and response.finish in ("stop", "length")


def fits_cache(request: Request) -> bool:
    """Hundreds of words a blank would fill a disk with answers that a local model gives again in milliseconds; what
    was made of them is in the rows."""
    return not isinstance(request, Slot) or len(request.candidates) <= MOST_CACHED_CANDIDATES


def _check_fit(task: Task, model: Model | None) -> None:
    if not task.needs:
        return
    if model is None:
        can = _list(task.needs)
        raise ConfigError(f"model: the task {task.name} needs a model that can {can}; see `lmassay models`")
    silent = [verb for verb in sorted(model.can) if not callable(getattr(model, verb, None))]
    if silent:
        raise PluginError(f"the model {model.name} says that it can {_list(silent)}, but has no such method")
    lacking = task.needs - model.can
    if lacking:
        raise ConfigError(
            f"model: {model.name} cannot {_list(lacking)}, which the task {task.name} needs; it can {_list(model.can)}"
        )


def _depends_on(config: RunConfig, task: Task, model: Model | None) -> dict[str, str]:
    parts: dict[str, Any] = {"lmassay": lmassay.__version__, "task": f"{task.name}.{task.version}", **task.signature()}
    if model is not None:
        identity = ",".join(f"{k}={v}" for k, v in model_identity(config, model).items() if k != "name")
        parts["model"] = f"{model.name}({identity})"
    parts |= {"limit": config.limit, "seed": config.seed, "ci": config.settings.signature()}
    return {name: provenance.redact(provenance.plain(value)) for name, value in parts.items() if value is not None}


def model_identity(config: RunConfig, model: Model) -> dict[str, Any]:
    """What makes the model's answers its own; of a user's own class also its source and its options.

    A class that forgets an option in ``identity`` must not be served the answers of another setting.
    """
    identity = dict(model.identity())
    if not type(model).__module__.startswith("lmassay."):
        _, options = split_spec(config.model or "", "model")
        identity |= {"source": provenance.source_digest(type(model)), "options": digest(options)[:8]}
    try:
        digest(identity)
    except (TypeError, ValueError) as error:
        raise PluginError(f"the identity of the model {model.name} is no plain JSON: {error}") from None
    return identity


def _list(verbs: Iterable[str]) -> str:
    return " and ".join(sorted(verbs))
