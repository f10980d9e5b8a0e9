"""Creates the model of a worker process for the first job that needs it, and keeps it for the next jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmassay
from lmassay.contracts import Model
from lmassay.errors import ClusterError
from lmassay.plugins.compatibility import as_model
from lmassay.plugins.options import Spec, build, record_inputs, split_spec
from lmassay.plugins.registry import current_registry
from lmassay.running.planning import digest_of_model_files
from lmassay.types import canonical


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What a worker needs to create the model of a run."""

    spec: Spec
    """The model as the configuration has it. The worker fills in environment variables, so no secret is sent."""
    base_dir: Path
    source: str = ""
    """The digest of the model's Python file and the modules it imports, if the model is a user's own class."""
    files_digest: str = ""
    """The digest of the files that a user's own class reads: a worker with other files would give other answers."""

    def as_dict(self) -> dict[str, Any]:
        """Return the description as plain data."""
        spec = self.spec if isinstance(self.spec, str) else dict(self.spec)
        return {
            "spec": spec,
            "base_dir": str(self.base_dir),
            "source": self.source,
            "files_digest": self.files_digest,
        }


@dataclass(slots=True)
class _Kept:
    """The model that this process used last."""

    key: str = ""
    model: Any = None


_kept = _Kept()


def model_of(description: Mapping[str, Any]) -> Any:
    """Return the model that a description names, after checking that its code is the code of the run.

    A worker of a cluster may have loaded an older version of a file, or the file may have changed since. The model that
    was used last is kept, because loading it takes long and most jobs use the same one.
    """
    base_dir = Path(description["base_dir"])
    name, _ = split_spec(description["spec"], "model")
    # Loads the model's file, so that source_of returns the digest of the code that will run.
    current_registry().get("model", name, base_dir)
    source = current_registry().source_of(name, base_dir)
    if source != description["source"]:
        raise ClusterError(f"{name}, or a module that it imports, has changed since the run began; start a new run")
    key = canonical(dict(description))
    if _kept.key != key:
        forget_model()
        with record_inputs() as inputs:
            model = build("model", json.loads(canonical(description["spec"])), base_dir)
        files_digest = description["files_digest"]
        if files_digest and files_digest != digest_of_model_files(description["spec"], base_dir, inputs):
            raise ClusterError(
                f"the files that {name} reads are not the same on this worker as where the run was started; copy them "
                "to the worker"
            )
        _kept.model = model
        _kept.key = key
    return _kept.model


def forget_model() -> None:
    """Close the model that is kept, if there is one."""
    if isinstance(_kept.model, Model):
        _kept.model.close()
    _kept.key = ""
    _kept.model = None


def check_version(run_version: str) -> None:
    """Refuse a job that another version of lmassay sent.

    Versions are also compared when the run connects to the cluster, but workers may join later.
    """
    if run_version != lmassay.__version__:
        raise ClusterError(
            f"this worker has lmassay {lmassay.__version__}, the run uses {run_version}; install the same version"
        )


def model_of_run(description: Mapping[str, Any], identity: str) -> Model:
    """Return the model of a description, after checking that it is the same as the model of the run.

    ``identity`` is the identity of the run's model as JSON. It determines the cache keys, so the results of a worker
    with other weights or another device would be stored under the wrong keys.
    """
    model = as_model(model_of(description), description["spec"])
    if canonical(dict(model.identity())) != identity:
        # The model that the worker has kept may have been loaded before its files were replaced.
        forget_model()
        model = as_model(model_of(description), description["spec"])
    own_identity = canonical(dict(model.identity()))
    if own_identity != identity:
        raise ClusterError(f"model: {_difference(json.loads(identity), json.loads(own_identity))}")
    return model


def _difference(of_run: Mapping[str, Any], of_worker: Mapping[str, Any]) -> str:
    """Say what distinguishes the model of a worker from that of the run, and what to do about it."""
    for name in [*of_run, *of_worker]:
        if of_run.get(name) == of_worker.get(name):
            continue
        message = f"{name} is {of_worker.get(name)} on this worker and {of_run.get(name)} where the run was started"
        if name in ("device", "dtype"):
            return f"{message}; set model.device and model.dtype (and model.resources, if only workers have the device)"
        return f"{message}; workers need the same model files"
    return "it is not the same on this worker"
