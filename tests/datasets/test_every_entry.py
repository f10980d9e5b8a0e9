"""Every data set of the catalogue: it can be fetched, its counts are those of its files, and it runs by name.

The entries and their parts are found in the catalogue, so a new entry is tested without a change here, unless it
belongs to a task that no data set has used before.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lmassay.datasets.catalogue import catalogue, local_path
from lmassay.datasets.entry import EXAMPLES, DataFile, DataSet
from lmassay.running import runner
from lmassay.running.config import expand
from tests.helpers import lmassay, write_config
from tests.published_data import FIGURES
from tests.tiny_models import save_model

ENTRIES = catalogue().entries
FEWEST = 100
"""So many examples are run, or all if a data set has fewer."""


@pytest.fixture(scope="module")
def environment(data_mirror: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An empty cache into which all data sets are fetched with one command."""
    variables = {"LMASSAY_CACHE": str(tmp_path_factory.mktemp("cache")), "LMASSAY_DATA_MIRROR": data_mirror}
    done = lmassay("data", "get", "--all", "--partial", env=variables)
    assert done.returncode == 0, done.stderr
    return variables


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model for the tasks that need one."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    sentences = save_model(tmp_path_factory.mktemp("models") / "gpt2", "gpt2", window=512)
    return {
        "minimal_pairs": {"name": "hf", "model": str(sentences)},
        # Many verbs are single tokens of this one.
        "syntax": {"name": "hf", "model": str(FIGURES / "tse" / "models" / "gpt2-tiny")},
        "bias": "echo",
    }


@pytest.fixture
def fetched_here(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


# --- counts -----------------------------------------------------------------------------------------------------------


def rows_of(path: Path, reading: Mapping[str, Any]) -> int:
    """The number of examples in a file, counted without lmassay."""
    if reading.get("format") == "alternating":
        return len(path.read_text(encoding="utf-8").splitlines()) // 2
    if path.suffix in (".csv", ".tsv"):
        with path.open(encoding="utf-8", newline="") as stream:
            return sum(1 for _ in csv.DictReader(stream, delimiter="," if path.suffix == ".csv" else "\t"))
    if path.suffix == ".jsonl":
        return sum(1 for line in path.read_text(encoding="utf-8").split("\n") if line.strip())
    return path.read_text(encoding="utf-8").count("\n")


@pytest.mark.parametrize("name", ENTRIES)
def test_the_counts_that_are_shown_are_those_of_the_files(name, environment):
    document = json.loads(lmassay("data", "show", name, "--json", env=environment).stdout)
    shown = {}
    counted = {}
    total = 0
    for file in document["files"]:
        if file["path"] is not None and file["examples"] is not None:
            shown[file["file"]] = file["examples"]
            counted[file["file"]] = rows_of(Path(file["path"]), ENTRIES[name].reading)
        if file["role"] == EXAMPLES:
            total += file["examples"] or 0
    assert counted == shown
    assert document["examples"] == total


# --- runs -------------------------------------------------------------------------------------------------------------


def parts_of(entry: DataSet) -> list[str]:
    """The values that ``name/part`` accepts."""
    if entry.part is None:
        return []
    values: dict[str, None] = {}
    for _, _, file in entry.files():
        if file.role == EXAMPLES and entry.part in file.labels:
            values[file.labels[entry.part]] = None
    return list(values)


def names() -> Iterator[tuple[str, str]]:
    """Every data set, as a whole and by part."""
    for entry in ENTRIES.values():
        yield entry.name, ""
        for part in parts_of(entry):
            yield entry.name, part


def files_of(entry: DataSet, part: str) -> list[tuple[Path, DataFile]]:
    labels = {entry.part: part} if entry.part is not None and part else {}
    return [(local_path(source, path), file) for source, path, file in entry.select(labels)]


def pairs_task(entry: DataSet, part: str) -> dict[str, Any]:
    return {"name": entry.task, "data": f"{entry.name}/{part}" if part else entry.name}


def fewshot_task(entry: DataSet, part: str) -> dict[str, Any]:
    """The cheapest method: the most frequent label of the training examples."""
    task = {"name": "fewshot", "data": f"superglue/{part}", "method": "majority", "splits": {"k": 2}}
    return {**task, "test": "dev" if files_of(entry, part) else "dev32"}


def robustness_task(entry: DataSet, part: str) -> dict[str, Any]:
    """An attack whose outputs are published, so that no model is needed."""
    paths = {path.name: str(path) for path, _ in files_of(entry, part)}
    if "src.txt" in paths:
        roles = ("src.txt", "ref.txt", "adv_src.txt", "out.txt", "adv_out.txt")
    else:
        roles = ("src.fr", "ref.en", "adv.charswap.fr", "base.en", "adv.charswap.en")
    source, reference, attacked, output, attacked_output = (paths[role] for role in roles)
    return {
        "task": {"name": "robustness", "src": source, "ref": reference, "attack": {"file": attacked}},
        "model": {"name": "outputs", "files": {"out": output, "adv_out": attacked_output}},
    }


BUILDERS: Mapping[str, Callable[[DataSet, str], dict[str, Any]]] = {
    "minimal_pairs": pairs_task,
    "syntax": pairs_task,
    "bias": pairs_task,
    "fewshot": fewshot_task,
    "robustness": robustness_task,
}


def config_of(entry: DataSet, part: str, models: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration that uses a data set by name."""
    assert entry.task in BUILDERS, f"say in BUILDERS how data of the task {entry.task} are used"
    built = BUILDERS[entry.task](entry, part)
    if "task" in built:
        return built
    config: dict[str, Any] = {"task": built}
    if entry.task in models:
        config["model"] = models[entry.task]
    return config


def is_complete(entry: DataSet, part: str) -> bool:
    return all(path.is_file() for path, _ in files_of(entry, part))


@pytest.mark.parametrize("name", ENTRIES)
def test_every_data_set_runs_by_name(name, fetched_here, models, tmp_path):
    """The smallest part that the mirror has and that is large enough, or the whole data set if it has no parts."""
    entry = ENTRIES[name]
    sizes = {part: size_of(entry, part) for part in parts_of(entry) or [""] if is_complete(entry, part)}
    part = min(sizes, key=lambda part: (sizes[part] < FEWEST, sizes[part]))
    config = write_config(tmp_path / "config.yaml", config_of(entry, part, models))
    done = lmassay("run", config, "--limit", 2 * FEWEST, "--results", tmp_path / "results", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["status"] == "done"
    assert examples_used(tmp_path / "results") >= min(FEWEST, sizes[part])


def size_of(entry: DataSet, part: str) -> int:
    return sum(file.examples or 0 for _, file in files_of(entry, part))


def examples_used(results: Path) -> int:
    """How many examples of the data the run was about. Those of a few-shot run are trainings, each with many tests."""
    from lmassay.storage.store import Store

    number = 0
    with Store(results) as store:
        for row in store.rows(store.run("latest").id):
            details = row.score.details if row.score is not None else {}
            number += int(details.get("n_test", 1))
    return number


@pytest.mark.parametrize(("name", "part"), [pair for pair in names() if pair[1]])
def test_every_part_can_be_planned_by_name(name, part, fetched_here, models):
    entry = ENTRIES[name]
    if not is_complete(entry, part):
        pytest.skip(f"the mirror lacks files of {name}/{part}")
    (config,) = expand(config_of(entry, part, models), Path.cwd())
    plan = runner.plan(config)
    # Gathering the contexts of a hundred thousand pairs takes a minute.
    if entry.task != "syntax":
        assert plan.size > 0
