"""The list of runs: filters, search, groups and order, all of them in the address."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmassay.storage.store import Store
from lmassay.types import Annotation
from lmassay.view.folder import ResultsFolder, Snapshot
from lmassay.view.run_list import ListQuery, choices, run_list
from tests.view.kit import UGLY, add_run, sample_folder


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory) -> Snapshot:
    folder: Path = sample_folder(tmp_path_factory.mktemp("listed"))
    with Store(folder, create=True) as store:
        add_run(store, "20261101-110000-brackets-dddddd", model="org/model[v1]*", label="brackets")
        store.annotate("20261101-080000-plain-aaaaaa", Annotation("do not cite 인용", ("baseline", "paper")))
    return ResultsFolder(folder).snapshot()


def shown(snapshot: Snapshot, **query: str) -> list[str]:
    listed = run_list(snapshot, ListQuery.of(query))
    endings = []
    for _, rows in listed.groups:
        endings += [row.record.id[-6:] for row in rows]
    assert listed.count == len(endings)
    return endings


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["dddddd", "cccccc", "bbbbbb", "aaaaaa"]),
        ({"status": "incomplete"}, ["cccccc"]),
        ({"task": "quiz"}, ["dddddd", "bbbbbb", "aaaaaa"]),
        ({"model": "large"}, ["bbbbbb"]),
        ({"model": "org/model[v1]*"}, ["dddddd"]),
        ({"tag": "paper"}, ["aaaaaa"]),
        ({"evaluation": "bias"}, ["cccccc"]),
        ({"q": "CITE"}, ["aaaaaa"]),
        ({"q": "인용"}, ["aaaaaa"]),
        ({"q": "<script>"}, ["cccccc"]),
        ({"q": "bbbbbb"}, ["bbbbbb"]),
        ({"q": "nothing has this"}, []),
        ({"task": "quiz", "model": "tiny"}, ["aaaaaa"]),
        ({"sort": "created"}, ["aaaaaa", "bbbbbb", "cccccc", "dddddd"]),
        ({"sort": "metric:accuracy"}, ["bbbbbb", "aaaaaa", "dddddd", "cccccc"]),
        ({"sort": "metric:unknown"}, ["dddddd", "cccccc", "bbbbbb", "aaaaaa"]),
        ({"sort": "rubbish", "group": "rubbish", "other": "x"}, ["dddddd", "cccccc", "bbbbbb", "aaaaaa"]),
    ],
    ids=str,
)
def test_the_address_selects_and_sorts_runs(snapshot, query, expected):
    assert shown(snapshot, **query) == expected


def test_runs_without_a_model_are_a_group(tmp_path):
    with Store(tmp_path, create=True) as store:
        add_run(store, "20261101-110000-method-eeeeee", model="none", label="ridge")
    by_model = run_list(ResultsFolder(tmp_path).snapshot(), ListQuery(group="model"))
    assert [title for title, _ in by_model.groups] == ["no model"]


@pytest.mark.parametrize("name", ["gpt*", "gpt-?", "gpt-[4]"])
def test_a_chosen_name_is_not_a_pattern(tmp_path, name):
    with Store(tmp_path, create=True) as store:
        add_run(store, "20261101-080000-plain-aaaaaa", model=name, task=name)
        add_run(store, "20261101-080000-plain-bbbbbb", model="gpt-4", task="gpt-4")
        store.annotate("20261101-080000-plain-aaaaaa", Annotation("", (name,)))
        store.annotate("20261101-080000-plain-bbbbbb", Annotation("", ("gpt-4",)))
    listed = ResultsFolder(tmp_path).snapshot()
    for query in ({"model": name}, {"task": name}, {"tag": name}):
        assert shown(listed, **query) == ["aaaaaa"]


def test_runs_are_grouped_by_model_or_task(snapshot):
    by_model = run_list(snapshot, ListQuery(group="model"))
    assert [title for title, _ in by_model.groups] == ["large", "org/model[v1]*", "tiny"]
    by_task = run_list(snapshot, ListQuery(group="task"))
    assert [(title, len(rows)) for title, rows in by_task.groups] == [("quiz", 3), ("riddle", 1)]


def test_an_address_that_is_written_is_read_back(snapshot):
    query = ListQuery(q="a & b", model="org/model[v1]*", group="task", sort="metric:accuracy")
    import urllib.parse

    parameters = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(query.url()).query))
    assert ListQuery.of(parameters) == query
    assert ListQuery().url() == "/"


def test_the_summary_counts_what_is_shown(snapshot):
    assert run_list(snapshot, ListQuery()).summary == "4 runs: 3 done, 1 incomplete"
    assert run_list(snapshot, ListQuery(task="riddle")).summary == "1 of 4 runs: 1 incomplete"


def test_controls_offer_what_there_is_and_what_is_chosen(snapshot):
    offered = choices(snapshot, ListQuery(model="gone"))
    assert offered.model == ["gone", "large", "org/model[v1]*", "tiny"]
    assert offered.tag == ["baseline", "paper"]
    assert offered.status == ["done", "incomplete"]
    assert ("metric:accuracy", "best accuracy") in offered.sort


def test_runs_can_be_sorted_by_a_headline_metric_whose_name_looks_like_a_point_of_a_curve(tmp_path):
    with Store(tmp_path, create=True) as store:
        add_run(store, "20261101-080000-one-aaaaaa", metric="pass@1", scores={"e1": 1.0, "e2": 1.0})
        add_run(store, "20261101-090000-two-bbbbbb", metric="pass@1", scores={"e1": 1.0, "e2": 0.0})
    programs = ResultsFolder(tmp_path).snapshot()
    assert ("metric:pass@1", "best pass@1") in choices(programs, ListQuery()).sort
    assert shown(programs, sort="metric:pass@1") == ["aaaaaa", "bbbbbb"]


def test_runs_with_the_same_label_are_told_apart(snapshot):
    labels = []
    for _, rows in run_list(snapshot, ListQuery(task="quiz", sort="created")).groups:
        labels += [row.label for row in rows]
    assert labels == ["plain", "plain", "brackets"]
    assert UGLY in {row.label for _, rows in run_list(snapshot, ListQuery()).groups for row in rows}
