"""What the runs of a sweep are called: base label and the options that vary, no more and no less."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.api import evaluate
from lmassay.running import runner
from lmassay.running.config import RunConfig, expand
from lmassay.running.differences import distinguishing_values, short_texts
from lmassay.running.labels import with_distinct_labels, with_sweep_labels
from lmassay.storage.store import Store
from tests.helpers import EVALUATIONS, ROOT, lmassay, write_config, write_lines

ECHO = {"name": "echo"}


def labels(folder, task, model="echo", **more):
    """The labels of the runs of a robustness sweep, with those of their models where they differ."""
    write_lines(folder / "src.txt", ["several wonderful people travelled through distant mountains together"])
    tasks = task if isinstance(task, list) else [task]
    specs = [{"name": "robustness", "src": "src.txt", "attack": "charswap", **one} for one in tasks]
    runs = expand({"task": specs, "model": model, **more}, folder)
    planned = with_sweep_labels([runner.plan(run) for run in runs])
    models = {plan.model_label for plan in planned}
    return [plan.label if len(models) == 1 else f"{plan.label} on {plan.model_label}" for plan in planned]


@pytest.mark.parametrize(
    ("task", "more", "expected"),
    [
        ({}, {}, ["charswap"]),
        ({"attack": ["charswap", "worddrop"]}, {}, ["charswap", "worddrop"]),
        # Options of a plug-in are compared with those of the same plug-in only.
        ({"attack": [{"name": "charswap", "rate": 0.5}, "worddrop"]}, {}, ["charswap", "worddrop"]),
        (
            {"attack": [{"name": "charswap", "rate": [0.5, 0.7]}, "worddrop"]},
            {},
            ["charswap, rate=0.5", "charswap, rate=0.7", "worddrop"],
        ),
        # An attack without a search has no options of one.
        (
            {"attack": ["charswap", {"search": {"perturbations": ["charswap", "delete"], "beam": 2}}]},
            {},
            ["charswap", "search (charswap, delete)"],
        ),
        (
            {"attack": ["charswap", {"search": {"perturbations": ["delete"], "budget": [3, 5]}}]},
            {},
            ["charswap", "search (delete), attack.search.budget=3", "search (delete), attack.search.budget=5"],
        ),
        # A name of the user's own does not show what it stands for.
        (
            {"attack": [{"name": "mine", "perturb": ["charswap", "worddrop"]}]},
            {},
            ["mine, perturb=charswap", "mine, perturb=worddrop"],
        ),
        ({"attack": [{"name": "x", "search": {"budget": [2, 3]}}]}, {}, ["x, search.budget=2", "x, search.budget=3"]),
        # A label that names one of two keys that vary together is followed by the other.
        (
            [{"attack": "charswap", "s_src": "chrf"}, {"attack": "worddrop", "s_src": "bleu"}],
            {},
            ["charswap, s_src=chrf", "worddrop, s_src=bleu"],
        ),
        # What one run leaves out is the default, and the same as the default written down.
        ([{}, {"max_tokens": 5}], {}, ["charswap, max_tokens=256", "charswap, max_tokens=5"]),
        ([{}, {"attack": "worddrop", "max_tokens": 256}], {}, ["charswap", "worddrop"]),
        ([{}, {"stop": ["a"]}], {}, ["charswap, stop=default", 'charswap, stop=["a"]']),
        # Keys of the run, and a key that two levels have.
        ({}, {"seed": [1, 2]}, ["charswap, seed=1", "charswap, seed=2"]),
        (
            {"attack": {"name": "charswap", "seed": [1, 2]}},
            {"seed": [3, 4]},
            [
                "charswap, task.attack.seed=1, seed=3",
                "charswap, task.attack.seed=1, seed=4",
                "charswap, task.attack.seed=2, seed=3",
                "charswap, task.attack.seed=2, seed=4",
            ],
        ),
        ({}, {"limit": [1, 2]}, ["charswap, limit=1", "charswap, limit=2"]),
        # The same run twice: nothing tells the two apart.
        ({}, {"seed": [1, 1]}, ["charswap", "charswap"]),
    ],
)
def test_a_label_names_the_keys_that_vary(tmp_path, task, more, expected):
    assert labels(tmp_path, task, **more) == expected


def test_what_follows_another_key_is_not_varied_by_itself(tmp_path):
    model = {"name": "echo", "label": "after ${task.attack.name}"}
    assert labels(tmp_path, {"attack": ["charswap", "worddrop"]}, model) == [
        "charswap on after charswap",
        "worddrop on after worddrop",
    ]
    for attack in ("charswap", "worddrop"):
        for role in ("out", "adv_out"):
            write_lines(tmp_path / f"{role}.{attack}", ["a sentence"])
    files = {"out": "out.${task.attack.name}", "adv_out": "adv_out.${task.attack.name}"}
    outputs = {"name": "outputs", "files": files, "label": "theirs"}
    assert labels(tmp_path, {"attack": ["charswap", "worddrop"]}, outputs) == ["charswap", "worddrop"]


def test_models_with_labels_of_their_own_need_no_options(tmp_path):
    models = [{**ECHO, "transform": "upper", "label": "loud"}, {**ECHO, "transform": "none", "label": "quiet"}]
    assert labels(tmp_path, {}, models) == ["charswap on loud", "charswap on quiet"]


def test_the_options_of_a_model_are_in_its_label(tmp_path):
    run_labels = labels(tmp_path, {"max_tokens": [5, 6]}, {**ECHO, "transform": ["none", "upper"]})
    assert run_labels == [
        "charswap, max_tokens=5 on echo (transform=none)",
        "charswap, max_tokens=5 on echo (transform=upper)",
        "charswap, max_tokens=6 on echo (transform=none)",
        "charswap, max_tokens=6 on echo (transform=upper)",
    ]


def test_files_of_one_name_are_distinguished_by_their_folders(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_lines(tmp_path / folder / "adv.txt", ["severel wonderfull people"])
    attacks = [{"file": "a/adv.txt"}, {"file": "b/adv.txt"}]
    assert labels(tmp_path, {"attack": attacks}) == [
        "adv.txt, attack.file=a/adv.txt",
        "adv.txt, attack.file=b/adv.txt",
    ]


def test_several_configurations_of_one_command_are_distinguished(tmp_path):
    write_lines(tmp_path / "src.txt", ["several wonderful people travelled through distant mountains together"])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    for name, scorer in (("a.yaml", "chrf"), ("b.yaml", "bleu")):
        write_config(tmp_path / name, {"task": {**task, "s_src": scorer}, "model": "echo"})
    runs = json.loads(lmassay("check", "a.yaml", "b.yaml", "--json", cwd=tmp_path).stdout)["runs"]
    assert [run["label"] for run in runs] == ["charswap, s_src=chrf", "charswap, s_src=bleu"]
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        write_lines(tmp_path / folder / "src.txt", [f"several wonderful people travelled to {folder} together"])
        write_config(tmp_path / folder / "c.yaml", {"task": task, "model": "echo"})
    runs = json.loads(lmassay("check", "x/c.yaml", "y/c.yaml", "--json", cwd=tmp_path).stdout)["runs"]
    assert [run["label"] for run in runs] == ["charswap, folder=x", "charswap, folder=y"]


def test_a_run_that_is_resumed_keeps_the_label_of_its_sweep(tmp_path):
    write_lines(tmp_path / "src.txt", ["several wonderful people travelled through distant mountains together"])
    task = {"name": "robustness", "src": str(tmp_path / "src.txt"), "attack": "charswap", "max_tokens": [5, 6]}
    first, _ = evaluate({"task": task, "model": "echo"}, results=tmp_path / "r")
    assert first.record.label == "charswap, max_tokens=5"
    assert first.record.base_label == "charswap"
    assert "unresolved" not in first.record.config
    with Store(tmp_path / "r", create=True) as store:
        store.set_status(first.id, "cancelled")
        resumed = lmassay("resume", first.id, "--results", tmp_path / "r")
        assert "robustness: charswap, max_tokens=5 on echo" in resumed.stderr
        assert store.run(first.id).label == "charswap, max_tokens=5"


def test_unresolved_is_no_key_of_a_configuration(tmp_path):
    write_config(tmp_path / "c.yaml", {"task": "robustness", "unresolved": {}})
    assert "unresolved: unknown key" in lmassay("check", "c.yaml", cwd=tmp_path).stderr


def test_runs_that_were_planned_without_a_file_have_their_own_labels(tmp_path):
    write_lines(tmp_path / "src.txt", ["several wonderful people travelled through distant mountains together"])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    planned = [runner.plan(RunConfig(task=task, model="echo", seed=seed, base_dir=tmp_path)) for seed in (1, 2)]
    assert [plan.label for plan in with_distinct_labels(planned)] == ["charswap, seed=1", "charswap, seed=2"]


# --- few-shot: a run alone says its method, a sweep what it varies ----------------------------------------------------


def fewshot_labels(method, **task):
    data = {"name": "fewshot", "data": str(EVALUATIONS / "fewshot/sample/reviews.yaml"), "labelled": ["train"]}
    runs = expand({"task": {**data, "method": method, **task}, "model": None}, ROOT)
    return [plan.label for plan in with_sweep_labels([runner.plan(run) for run in runs])]


def test_a_few_shot_run_alone_says_its_method_and_no_option():
    assert fewshot_labels({"name": "majority"}, splits={"strategy": "multi_splits", "k": 2}) == ["reviews majority"]


def test_few_shot_methods_and_splits_that_vary_are_named():
    assert fewshot_labels(["majority", "random"]) == ["reviews majority", "reviews random"]
    assert fewshot_labels("majority", splits={"strategy": "multi_splits", "k": [2, 4]}) == [
        "reviews majority, splits.k=2",
        "reviews majority, splits.k=4",
    ]


# --- values as short texts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2.5, True, None, "x"], ["1", "2.5", "true", "none", "x"]),
        (["data/a.tsv", "data/b.tsv"], ["a.tsv", "b.tsv"]),
        (["x/a.tsv", "y/a.tsv"], ["x/a.tsv", "y/a.tsv"]),
        (["http://h:1/v1", "http://h:2/v1"], ["http://h:1/v1", "http://h:2/v1"]),
        ([1e-5, 2e-5], ["1e-05", "2e-05"]),
        ([0.12345678, 0.12345679], ["0.12345678", "0.12345679"]),
        (["a\nb", "c\td"], ['"a b"', '"c d"']),
        (["a b", "a\nb"], ['"a b" #1', '"a b" #2']),
        (["a\u202eb"], ['"a b"']),
        ([f"{'x' * 300}1", f"{'x' * 300}2"], ["…xxxxxxxx1", "…xxxxxxxx2"]),
        (["sk-abcdefghijklmnop"], ['"[redacted]"']),
        (["", "x"], ['""', "x"]),
        ([{"a": 1}, ["b"]], ['{"a": 1}', '["b"]']),
    ],
)
def test_values_are_short_and_distinct(values, expected):
    assert short_texts(values) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(JSON, min_size=1, max_size=6))
def test_different_values_have_different_texts_of_one_short_line(values):
    texts = short_texts(values)
    by_value = {}
    for value, text in zip(values, texts, strict=True):
        by_value.setdefault(json.dumps(value, sort_keys=True), set()).add(text)
        assert len(text) < 60
        assert text.isprintable() or not text.isascii()
        text.encode("utf-8")
    assert all(len(texts_of_value) == 1 for texts_of_value in by_value.values())
    assert len({text for texts_of_value in by_value.values() for text in texts_of_value}) == len(by_value)


def test_only_as_many_keys_are_named_as_tell_runs_apart():
    configs = [{"task": {"name": "t", "a": a, "b": a}, "seed": seed} for a in (1, 2) for seed in (3, 4)]
    assert distinguishing_values([[config] for config in configs]) == [
        "a=1, seed=3",
        "a=1, seed=4",
        "a=2, seed=3",
        "a=2, seed=4",
    ]


def test_only_what_the_runs_of_a_group_agree_in_tells_it_from_others():
    groups = [[{"task": {"name": "t", "attack": a, "s_src": s}} for a in ("x", "y")] for s in ("chrf", "bleu")]
    assert distinguishing_values(groups) == ["s_src=chrf", "s_src=bleu"]


def test_a_few_shot_method_in_another_folder_is_named_without_the_folder():
    method = {"name": str(EVALUATIONS / "fewshot/sample/my_method.py:SharedWords"), "power": [1, 2]}
    assert fewshot_labels(method) == [f"reviews my_method.py:SharedWords, power={power}" for power in (1, 2)]


def test_a_plug_in_with_options_is_a_text_and_not_json():
    values = [{"name": "pet", "pattern": 0}, {"name": "data/my_method.py:Mine", "power": 0.5}]
    assert short_texts(values) == ["pet, pattern=0", "data/my_method.py:Mine, power=0.5"]
