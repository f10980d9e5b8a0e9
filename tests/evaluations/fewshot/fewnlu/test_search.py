"""FewNLU's search scripts as configurations."""

from __future__ import annotations

import pytest

from lmassay.running.config import load_runs
from lmassay.running.selection import select
from tests.helpers import EVALUATIONS


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")


FOLDER = EVALUATIONS / "fewshot/starters/fewnlu"
# Configurations that the scripts go through, and those that a training serves at once (two evaluation ratios).
COUNTS = {"pet": (232, 2), "pet_mlm": (232, 2), "adapet": (232, 2), "ptuning": (224, 2), "cls": (28, 1)}
COUNTS |= {"semi_single": (14, 1), "semi_cross": (14, 1)}


@pytest.mark.parametrize("family", ["albert", "deberta"])
@pytest.mark.parametrize("name", COUNTS)
def test_a_search_goes_through_as_many_configurations_as_the_script(name, family):
    configurations, at_once = COUNTS[name]
    runs = load_runs(FOLDER / f"search_{name}_{family}.yaml")
    assert len(runs) * at_once == configurations
    assert len({run.task["data"] for run in runs}) == 7


def test_one_task_can_be_searched_alone():
    runs = load_runs(FOLDER / "search_pet_albert.yaml")
    assert len(runs) == 116
    assert len(select(runs, ["data=superglue/rte"])) == 24


def test_pet_is_searched_over_the_published_space():
    runs = load_runs(FOLDER / "search_pet_albert.yaml")
    counts = {}
    for run in runs:
        method = run.task["method"]
        assert method["eval_ratios"] == [0.02, 0.04]
        assert method["batch_size"] == 16
        task = run.task["data"].removeprefix("superglue/")
        assert method["micro_batch"] == (1 if task == "multirc" else 8)
        assert method["max_seq_length"] == {"wsc": 128, "copa": 96, "multirc": 512}.get(task, 256)
        counts[task] = counts.get(task, 0) + 2
    assert counts == {"boolq": 48, "rte": 48, "cb": 48, "wic": 24, "wsc": 24, "multirc": 24, "copa": 16}
