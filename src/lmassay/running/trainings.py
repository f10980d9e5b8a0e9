"""Runs trainings as jobs on the workers of an executor.

A training job consists of plain data, so any process that has lmassay installed can run it. Its outcome is plain data,
too: the process that requested the training stores it, because only one process may write to a results folder.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lmassay
from lmassay.errors import ClusterError, LmassayError, error_with_location
from lmassay.plugins.registry import current_registry
from lmassay.redaction import redact
from lmassay.running.batches import worker_name
from lmassay.running.jobs import MAX_WORKER_DEATHS, Executor, FinishedJob, Resources, RunningJobs
from lmassay.running.worker_model import ModelDescription, check_version, model_of_run
from lmassay.running.worker_process import JobCancelled, undisturbed_job
from lmassay.types import Response, Train, TrainingOutcome, canonical, response_as_dict, response_from_dict

# Replaces an outcome that is stored and that no other training needs, to save memory; see run_trainings.
_DROPPED_OUTCOME = Response(TrainingOutcome({}))

# The key of an answer from a worker that must not train for this run; see run_training.
_REFUSED = "refused"

OnProgress = Callable[[float], None]
"""A function that a trainer calls from time to time with the share that is done, from 0 to 1.

It raises an error if the training was cancelled. The trainer must not catch this error, so that the training ends.
"""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training to run, with the keys of the trainings that must be done before it."""

    key: str
    """The key under which the response of the training is cached in the store."""
    request: Train
    model: ModelDescription | None
    base_dir: Path
    earlier_keys: tuple[str, ...] = ()
    """The keys of the trainings whose outcomes this one needs."""
    kept_in: Path | None = None
    """The folder in which the trained model is kept; None if it is not kept."""
    resources: Resources = field(default_factory=dict)
    """What the model needs from a worker."""
    model_identity: str = ""
    """The identity of the run's model as JSON, which the model of a worker must have, too; empty without a model."""

    @property
    def lacks_kept_model(self) -> bool:
        """Whether the trained model is to be kept and is not there."""
        return self.kept_in is not None and not self.kept_in.is_dir()

    def payload(self, responses: Mapping[str, Response]) -> dict[str, Any]:
        """Return what a worker process needs to run the job, as plain data.

        ``responses`` must contain the responses of all jobs that come before it.
        """
        earlier_outcomes: list[dict[str, Any]] = []
        for earlier_key in self.earlier_keys:
            answer = responses[earlier_key].answer
            assert isinstance(answer, TrainingOutcome)
            earlier_outcomes.append(dict(answer.outcome))
        data_paths = dict(self.request.data_paths)
        if self.kept_in is not None:
            data_paths["keep"] = str(self.kept_in)
        return {
            "version": lmassay.__version__,
            "model": None if self.model is None else self.model.as_dict(),
            "identity": self.model_identity,
            "base_dir": str(self.base_dir),
            "trainer": self.request.trainer,
            "spec": dict(self.request.spec),
            "data_paths": data_paths,
            "earlier": earlier_outcomes,
        }


# --- one training -----------------------------------------------------------------------------------------------------


def run_training(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Run one training, given as the payload of its job, and return the response as plain JSON.

    A training that fails returns a response with an error, so that other trainings can continue. The response of a
    worker that has another version of lmassay, or another model, is marked as refused.
    """
    with undisturbed_job() as raise_if_cancelled:
        started = time.monotonic()

        def report_progress(share: float) -> None:
            # The share is not shown; the call is where a training can be stopped.
            raise_if_cancelled()

        try:
            outcome = _outcome_of(payload, report_progress)
        except ClusterError as error:
            # No training was attempted, so it must not be stored as one that failed.
            return {**_failure(f"worker {worker_name()}: {error}"), _REFUSED: True}
        except LmassayError as error:
            return _failure(str(error))
        except JobCancelled:
            return _failure("the training was cancelled")
        except OSError as error:
            reason = error.strerror or str(error)
            return _failure(f"{reason}: {error.filename}" if error.filename else reason)
        except SystemExit:
            return _failure("the training code tried to exit the program (sys.exit)")
        except KeyboardInterrupt:
            # Worker processes ignore Ctrl-C (see executors.py), so in a worker only the training code can have
            # raised this. Dask's workers train in a thread, and Ctrl-C only reaches the main thread.
            if not _is_worker():
                raise
            return _failure("the training code raised KeyboardInterrupt")
        except Exception as error:
            return _failure(f"the training failed: {error_with_location(error)}")
        seconds = round(time.monotonic() - started, 3)
        return response_as_dict(Response(TrainingOutcome(outcome), seconds=seconds))


def _failure(message: str) -> dict[str, Any]:
    # The message is sent to another process, perhaps on another machine.
    return response_as_dict(Response(error=redact(message)))


def _outcome_of(payload: Mapping[str, Any], on_progress: OnProgress) -> Mapping[str, Any]:
    """Train as the payload of a job describes, and return the outcome."""
    check_version(payload["version"])
    base_dir = Path(payload["base_dir"])
    train = current_registry().get("trainer", payload["trainer"], base_dir)
    model = None if payload["model"] is None else model_of_run(payload["model"], payload["identity"])
    outcome: Mapping[str, Any] = train(
        model,
        payload["spec"],
        data_paths=payload["data_paths"],
        earlier=payload["earlier"],
        on_progress=on_progress,
    )
    # Raises an error here, and not when it is stored, if the outcome is not plain JSON.
    canonical(outcome)
    return outcome


def _is_worker() -> bool:
    """Return whether this is a worker process, or a worker thread of Dask."""
    return multiprocessing.parent_process() is not None or threading.current_thread() is not threading.main_thread()


# --- all trainings ----------------------------------------------------------------------------------------------------


def run_trainings(
    jobs: Mapping[str, TrainingJob], responses: dict[str, Response], executor: Executor
) -> Iterator[tuple[str, Response]]:
    """Run all jobs that have no response yet, in the order of their dependencies; yield each response as it arrives.

    Responses are also added to ``responses``. Raises a ClusterError if a worker has another version of lmassay than the
    run, or another model.
    """
    waiting = {key: job for key, job in jobs.items() if key not in responses}
    needed_later: set[str] = set()
    for job in waiting.values():
        if job.kept_in is not None:
            # Created here, never by a worker: a worker that does not find the folder has another file system, and
            # refuses to train.
            job.kept_in.parent.mkdir(parents=True, exist_ok=True)
        needed_later.update(job.earlier_keys)
    running: RunningJobs[TrainingJob] = RunningJobs(executor, run_training)
    try:
        while waiting or len(running):
            yield from _submit_ready_jobs(waiting, running, responses)
            refusal = ""
            for finished in running.wait():
                if _is_refused(finished):
                    # The other trainings that have ended are handled first, so that their outcomes are stored.
                    refusal = str(finished.result["error"])
                    continue
                job = finished.job
                response = _response(finished)
                # Outcomes can be large. Keep only those in memory that later jobs need; failures are needed for
                # messages.
                is_needed = job.key in needed_later or not response.usable
                responses[job.key] = response if is_needed else _DROPPED_OUTCOME
                failed_at_once: list[tuple[str, Response]] = []
                if not executor.in_process and not refusal:
                    # During the yield below, the caller stores the outcome. The next jobs are submitted before it, so
                    # that no worker is idle meanwhile. An in-process executor would run the whole next training here,
                    # before this outcome is stored.
                    failed_at_once = list(_submit_ready_jobs(waiting, running, responses))
                yield job.key, response
                yield from failed_at_once
            if refusal:
                raise ClusterError(refusal)
    finally:
        running.cancel()


def _submit_ready_jobs(
    waiting: dict[str, TrainingJob], running: RunningJobs[TrainingJob], responses: dict[str, Response]
) -> Iterator[tuple[str, Response]]:
    """Submit the jobs that can start now; yield those that cannot be run at all, with the reason as response."""
    ready = [key for key, job in waiting.items() if responses.keys() >= set(job.earlier_keys)]
    for key in ready:
        job = waiting[key]
        if not running.has_room(job.resources):
            continue
        del waiting[key]
        earlier_failure = _first_failure(job.earlier_keys, responses)
        if earlier_failure is not None:
            responses[key] = Response(error=f"a training that this one needs failed: {earlier_failure.error}")
            yield key, responses[key]
            continue
        running.submit(job, job.payload(responses), job.resources)


def _first_failure(keys: Sequence[str], responses: Mapping[str, Response]) -> Response | None:
    for key in keys:
        if not responses[key].usable:
            return responses[key]
    return None


def _is_refused(finished: FinishedJob[TrainingJob]) -> bool:
    return not finished.gave_up and _REFUSED in finished.result


def _response(finished: FinishedJob[TrainingJob]) -> Response:
    """Return the response to a finished training job; the response may be an error."""
    if finished.gave_up:
        return Response(
            error=f"the process that ran this training died {MAX_WORKER_DEATHS} times; was it out of memory?"
        )
    response = response_from_dict(finished.result)
    if response.usable and finished.job.lacks_kept_model:
        return Response(
            error=f"the worker kept the trained model in {finished.job.kept_in}, which this machine does not see; "
            "workers must share the file system of the results folder"
        )
    return response
