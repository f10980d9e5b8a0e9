"""Runs that are shown together have labels that tell them apart, whatever store or sweep they are from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmassay.api import evaluate
from lmassay.reporting.headline import headlines
from lmassay.reporting.run_labels import distinct_labels, label_runs, run_titles, short_run_titles
from lmassay.reporting.tiles import overview_tiles
from lmassay.storage.store import Store
from tests.compare_kit import add, rates


@pytest.fixture
def runs(tmp_path):
    def make(*more):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for number, (_, signature) in enumerate(more):
            add(folder, f"id-{number}", rates([1]), task="robustness", label="a", model="m", signature=signature)
        with Store(folder) as store:
            return [replace(run, config=config) for run, (config, _) in zip(store.runs(), more, strict=True)]

    return make


def labels(records):
    return [record.label for record in records]


def test_options_come_first_then_settings_then_the_id(runs):
    config = {"task": {"name": "robustness", "s_src": "chrf"}}
    other = {"task": {"name": "robustness", "s_src": "bleu"}}
    assert labels(distinct_labels(runs((config, {}), (other, {})))) == ["a, s_src=chrf", "a, s_src=bleu"]
    assert labels(distinct_labels(runs((config, {"src": "1"}), (config, {"src": "2"})))) == ["a, src 1", "a, src 2"]
    assert labels(distinct_labels(runs((config, {}), (config, {})))) == ["a, 0", "a, 1"]


def test_labels_that_differ_stay_as_they_are(runs):
    first, second = runs(({"task": "robustness"}, {}), ({"task": "robustness", "seed": 2}, {}))
    assert labels(distinct_labels([first, replace(second, label="b")])) == ["a", "b"]
    assert labels(distinct_labels([first, replace(second, model="other")])) == ["a", "a"]


def test_a_mark_stands_in_the_label_and_in_titles_without_a_label(runs):
    two_runs = runs(({"task": "robustness"}, {"s_src": "x"}), ({"task": "robustness"}, {"s_src": "y"}))
    shown = label_runs([two_runs[0], replace(two_runs[1], model="other")])
    assert labels(shown.records) == ["a [a]", "a [b]"]
    assert short_run_titles(shown.records) == ["m [a]", "other [b]"]
    assert shown.notes_on("robustness") == shown.notes
    assert shown.notes_on("bias") == []


def test_a_run_without_a_model_is_named_by_its_label(runs):
    without_model = [
        replace(record, model="none", label=f"method {n}") for n, record in enumerate(runs(({}, {}), ({}, {})))
    ]
    assert [record.title for record in without_model] == [record.label for record in without_model]
    assert run_titles(without_model) == [record.label for record in without_model]
    assert short_run_titles(without_model) == [record.label for record in without_model]
    assert {record.model_cell for record in without_model} == {"–"}


def test_numbers_of_one_model_in_the_overview_are_distinguished(tmp_path):
    """If several entries were all called "echo", a reader could not tell which is which."""
    (tmp_path / "src.txt").write_text("the cat sat on the mat\nwe drink water\n", encoding="utf-8")
    src = str(tmp_path / "src.txt")
    task = {"name": "robustness", "src": src, "ref": src, "attack": ["charswap", "worddrop"]}
    model = {"name": "echo", "transform": ["none", "upper"]}
    evaluate({"task": {**task, "s_src": ["chrf", "bleu"]}, "model": model, "resamples": 100}, tmp_path / "r")
    with Store(tmp_path / "r") as store:
        names = [headline.shown_model for headline in headlines(store, store.runs())]
        shown = str(overview_tiles(store, store.runs(), names_unfinished=False))
    assert names == [
        "echo (transform=none), s_src=chrf [a]",
        "echo (transform=upper), s_src=chrf [a]",
        "echo (transform=none), s_src=bleu [b]",
        "echo (transform=upper), s_src=bleu [b]",
    ]
    assert all(name in shown for name in names)
