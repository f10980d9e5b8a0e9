"""The recipes on the page about clusters that no test can run: their options and YAML are what the tools accept."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from tests.docs.blocks import blocks_of, page_text

PAGE = "docs/clusters.md"


def dask_commands() -> list[list[str]]:
    """The words of every call of dask on the page, in commands and in YAML."""
    commands = []
    for block in blocks_of(page_text(PAGE), PAGE):
        for line in block.text.splitlines():
            without_variables = re.sub(r"^(\w+=\S+ )+", "", line)
            if without_variables.startswith("dask "):
                commands.append(shlex.split(without_variables))
    for document in kubernetes_documents():
        if document["kind"] == "Deployment":
            commands += [container["command"] for container in containers_of(document)]
    return commands


def yaml_documents() -> list[dict[str, Any]]:
    documents = []
    for block in blocks_of(page_text(PAGE), PAGE):
        if block.language == "yaml":
            documents += list(yaml.safe_load_all(block.text))
    return documents


def kubernetes_documents() -> list[dict[str, Any]]:
    return [document for document in yaml_documents() if "apiVersion" in document]


def containers_of(deployment: dict[str, Any]) -> list[dict[str, Any]]:
    containers: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
    return containers


def unknown_options(part: str, words: Sequence[str]) -> list[str]:
    """The options among the words that Dask's command line does not have. Its own parser passes them on silently."""
    from distributed.cli import dask_scheduler, dask_worker

    command = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}[part]
    known: set[str] = set()
    for parameter in command.params:
        known.update(parameter.opts, parameter.secondary_opts)
    return [word for word in words if word.startswith("-") and word not in known]


def test_dask_has_every_option_on_the_page():
    pytest.importorskip("distributed", reason="distributed is not installed")
    commands = dask_commands()
    assert len(commands) >= 10
    for _, part, *words in commands:
        assert unknown_options(part, words) == []


def test_an_option_that_dask_does_not_have_would_be_noticed():
    pytest.importorskip("distributed", reason="distributed is not installed")
    assert unknown_options("worker", ["tcp://127.0.0.1:8786", "--threads", "1"]) == ["--threads"]


def test_every_value_on_the_page_has_the_type_that_dask_expects():
    pytest.importorskip("distributed", reason="distributed is not installed")
    from distributed.cli import dask_scheduler, dask_worker

    parsers = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}
    for _, part, *words in dask_commands():
        # Certificates must exist; ours are only named.
        is_readable = not any(word.startswith("--tls") for word in words)
        if is_readable:
            context = parsers[part].make_context(part, list(words))
            assert context.params["port" if part == "scheduler" else "nthreads"] in (8786, 1, "8786")


def test_deployments_select_their_own_containers():
    documents = kubernetes_documents()
    assert [document["kind"] for document in documents] == ["Service", "Deployment", "Deployment"]
    service, *deployments = documents
    for deployment in deployments:
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == deployments[0]["spec"]["template"]["metadata"]["labels"]
    (worker,) = containers_of(deployments[1])
    address = f"tcp://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert address in worker["command"]


def test_the_keys_for_tls_are_those_of_dask():
    dask = pytest.importorskip("dask", reason="dask is not installed")
    pytest.importorskip("distributed", reason="distributed is not installed")
    (document,) = [document for document in yaml_documents() if "distributed" in document]

    def check(given: Any, known: Any, path: str) -> None:
        for key, value in given.items():
            assert key in known, f"{path}.{key}"
            if isinstance(value, dict):
                check(value, known[key], f"{path}.{key}")

    check(document["distributed"], dask.config.get("distributed"), "distributed")


def test_dask_jobqueue_accepts_the_options_of_the_slurm_recipe():
    jobqueue = pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    (block,) = [block for block in blocks_of(page_text(PAGE), PAGE) if block.language == "python"]
    options = set(re.findall(r"^    (\w+)=", block.text, flags=re.MULTILINE))
    known = set(inspect.signature(jobqueue.core.Job.__init__).parameters)
    known |= set(inspect.signature(jobqueue.slurm.SLURMJob.__init__).parameters)
    assert options <= known


def test_the_times_on_the_page_are_the_defaults_of_dask():
    dask = pytest.importorskip("dask", reason="dask is not installed")
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    assert distributed
    text = " ".join(page_text("docs/clusters.md").split())
    defaults = {}
    for layer in dask.config.defaults:
        dask.config.update(defaults, layer)

    def seconds(key: str) -> float:
        return dask.utils.parse_timedelta(dask.config.get(key, config=defaults))

    assert f"about {seconds('distributed.comm.timeouts.tcp'):.0f} seconds (`distributed.comm.timeouts.tcp`)" in text
    # Dask looks at the workers once in the time that it waits, so it notices after one to two times that.
    assert seconds("distributed.scheduler.worker-ttl") == 300
    assert "noticed after five to ten minutes" in text
    assert f"samples every job {1 / seconds('distributed.worker.profile.interval'):.0f} times per second" in text
    for part, sentence in (("pause", "above {:.0%} of its limit"), ("terminate", "stops it above {:.0%}")):
        share = dask.config.get(f"distributed.worker.memory.{part}", config=defaults)
        assert sentence.format(share).replace("%", " %") in text
    failures = dask.config.get("distributed.scheduler.allowed-failures", config=defaults)
    assert f"`allowed-failures` times, {failures} by default" in text
