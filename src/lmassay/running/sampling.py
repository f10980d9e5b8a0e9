"""Repeated sampling: each example is asked several times, at a temperature above 0.

Each sample of an example is a separate row, with an id such as ``example~2`` and the group ``sampled_example``. Tasks
do not have to support this: their methods ``requests``, ``follow_up`` and ``score`` get the original example.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from lmassay.contracts import Model, StoredAnswers
from lmassay.errors import ConfigError
from lmassay.statistics.repetition import SAMPLE_OF
from lmassay.types import Design, Example, Generate, Request

if TYPE_CHECKING:
    from lmassay.contracts import Task
    from lmassay.running.config import RunConfig


def sampled_examples(examples: Iterable[Example], samples: int) -> Iterator[Example]:
    """Yield each example as often as it is sampled, with different ids; with one sample, the examples as they are."""
    for example in examples:
        if samples == 1:
            yield example
            continue
        groups = {**example.groups, SAMPLE_OF: example.id}
        for number in range(1, samples + 1):
            yield replace(example, id=f"{example.id}~{number}", groups=groups)


def original_example(example: Example) -> Example:
    """The task's own example from which a sample was made."""
    if SAMPLE_OF not in example.groups:
        return example
    groups = {name: label for name, label in example.groups.items() if name != SAMPLE_OF}
    return replace(example, id=example.groups[SAMPLE_OF], groups=groups)


def same_sample(extended: Example, sample: Example) -> Example:
    """The extended example as a sample: with the id and the group of ``sample``.

    The task extended the original example, because it does not know about samples.
    """
    if SAMPLE_OF not in sample.groups:
        return extended
    groups = {**extended.groups, SAMPLE_OF: sample.groups[SAMPLE_OF]}
    return replace(extended, id=sample.id, groups=groups)


def sampled_request(request: Request, temperature: float | None) -> Request:
    """The request with the configuration's temperature; requests for choices or probabilities do not change."""
    if temperature is None or not isinstance(request, Generate) or request.choices:
        return request
    return replace(request, temperature=temperature)


def sampled_design(design: Design, samples: int) -> Design:
    """The task's design. Samples of one example form a cluster, unless the design already has larger clusters."""
    if samples == 1 or design.clusters:
        return design
    return replace(design, clusters=(SAMPLE_OF,))


def check_sampling(config: RunConfig, task: Task, model: Model | None) -> None:
    """Raise a ConfigError if answers cannot be sampled as the configuration says."""
    if config.samples == 1 and config.temperature is None:
        _check_settings(config, task, model)
        return
    key = "samples" if config.samples > 1 else "temperature"
    if model is None or "generate" not in task.needs:
        raise ConfigError(
            f"{key}: the task {task.name} asks for no text that could be sampled; remove samples and temperature"
        )
    if isinstance(model, StoredAnswers):
        raise ConfigError(f"{key}: {model.name} looks up stored answers, which are always the same; remove this key")
    example = next(iter(task.examples()), None)
    if example is None:
        return
    requests = [sampled_request(request, config.temperature) for request in task.requests(example)]
    free_texts = [request for request in requests if isinstance(request, Generate) and not request.choices]
    if not free_texts:
        raise ConfigError(f"{key}: the task {task.name} takes the most probable choice, which is not sampled")
    if config.samples > 1 and all(request.temperature == 0 for request in free_texts):
        raise ConfigError("samples: all answers at temperature 0 are the same; set temperature above 0, such as 0.7")
    model.check_requests(requests)


def _check_settings(config: RunConfig, task: Task, model: Model | None) -> None:
    """Let the model refuse settings of the task's requests, such as their temperature.

    The first example is read only if the model checks requests.
    """
    if model is None or "generate" not in task.needs or type(model).check_requests is Model.check_requests:
        return
    example = next(iter(task.examples()), None)
    if example is not None:
        model.check_requests(task.requests(example))
