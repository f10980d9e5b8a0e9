"""Plug-ins keep to their contract; those of earlier versions are completed."""

from __future__ import annotations

import warnings

import pytest

from lmassay.budget import Prices
from lmassay.contracts import Model, Task
from lmassay.errors import PluginError
from lmassay.plugins.compatibility import as_model, as_task
from lmassay.types import Combination, Design, Example, Generate, Metric, Response, Score
from tests.helpers import lmassay, write_config


class Lengths(Task):
    """How long is the answer?"""

    name = "lengths"
    needs = frozenset({"generate"})
    metrics = (Metric("length", better="lower"),)

    def examples(self):
        for number, word in enumerate(["a", "bb", "ccc"]):
            yield Example(str(number), {"word": word}, groups={"kind": "x"})

    def requests(self, example):
        return [Generate(example.inputs["word"])]

    def score(self, examples, responses):
        return [Score({"length": float(len(answers[0].text))}) for answers in responses]


class Parrot(Model):
    name = "parrot"
    can = frozenset({"generate"})

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        return [Response(request.prompt) for request in requests]


# --- slips ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "meant"),
    [
        ("clusters", r"design = Design\(clusters=…\)"),
        ("headlines", r"design = Design\(headline=…\)"),
        ("weight", r"design = Design\(weights=…\)"),
        ("metric", "'metrics'"),
        ("need", "'needs'"),
        ("chunks", "'chunk'"),
        ("desing", "'design'"),
        ("check_models", "'check_model'"),
        ("signatures", "'signature'"),
    ],
)
def test_a_misspelt_member_of_a_task_is_named_with_what_was_meant(member, meant):
    task = type("Mine", (Lengths,), {member: ("kind",)})()
    with pytest.raises(PluginError, match=rf"Mine\.{member} is not a member of lmassay\.Task; did you mean {meant}"):
        as_task(task, "mine")


@pytest.mark.parametrize(("member", "meant"), [("labels", "label"), ("cache", "cached"), ("price", "prices")])
def test_a_misspelt_member_of_a_model_is_named_with_what_was_meant(member, meant):
    model = type("Mine", (Parrot,), {member: 1})()
    with pytest.raises(PluginError, match=rf"Mine\.{member} is not a member of lmassay\.Model; did you mean '{meant}'"):
        as_model(model, "mine")


def test_own_members_with_other_names_are_nobodys_business():
    members = {"words": 1, "_clusters": 2, "temperature": 3, "label": "l", "labels": ["a", "b"]}
    assert as_task(type("Mine", (Lengths,), members)(), "mine").name == "lengths"


def test_check_reports_a_slip_before_anything_is_asked(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from tests.plugins.test_compatibility import Lengths\n\nclass Mine(Lengths):\n    headlines = ('length',)\n",
        encoding="utf-8",
    )
    config = write_config(tmp_path / "c.yaml", {"task": "mine.py:Mine", "model": "echo"})
    done = lmassay("check", config)
    assert done.returncode == 2
    assert "Mine.headlines is not a member of lmassay.Task; did you mean design = Design(headline=…)" in done.stderr


@pytest.mark.parametrize("design", [Design(clusters="kind"), Design(pair_by="kind")])
def test_groups_of_a_design_are_tuples(design):
    with pytest.raises(PluginError, match="is a tuple of groups: write"):
        as_task(type("Mine", (Lengths,), {"design": design})(), "mine")


def test_two_clusters_are_refused_until_statistics_know_them():
    with pytest.raises(PluginError, match="may name one group only"):
        as_task(type("Mine", (Lengths,), {"design": Design(clusters=("a", "b"))})(), "mine")


# --- earlier versions -------------------------------------------------------------------------------------------------


def old_class(base: type, **members: object) -> object:
    """An instance of a class that has the members of another, but no base class."""
    own = {name: value for name, value in vars(base).items() if not name.startswith("__")}
    return type(base.__name__, (), {**own, **members})()


def test_a_class_without_the_base_class_is_completed_with_a_warning():
    with pytest.warns(DeprecationWarning, match=r"Lengths should inherit from lmassay\.Task"):
        task = as_task(old_class(Lengths), "mine")
    assert isinstance(task, Task)
    assert (task.chunk, task.size(), task.trains) == (1024, None, False)
    with pytest.warns(DeprecationWarning, match=r"Parrot should inherit from lmassay\.Model"):
        model = as_model(old_class(Parrot), "mine")
    assert isinstance(model, Model)
    assert (model.cached, model.metered, model.close()) == (True, False, None)


def test_prices_made_a_model_a_metered_one():
    for prices in (Prices(1.0, 2.0), None):
        with pytest.warns(DeprecationWarning, match="should inherit"):
            model = as_model(old_class(Parrot, prices=prices), "mine")
        assert model.metered


def test_single_attributes_become_a_design():
    combination = Combination({"length": 1.0})
    members = {
        "cluster": "kind",
        "headline": ["length"],
        "weights": {"length": "n"},
        "combinations": {"x": combination},
        "pair_by": "kind",
    }
    with pytest.warns(DeprecationWarning, match="declare design"):
        task = as_task(type("Mine", (Lengths,), members)(), "mine")
    assert task.design == Design(("kind",), ("length",), {"length": "n"}, {"x": combination}, ("kind",))


def test_a_subclass_that_overrides_one_of_them_keeps_the_rest_of_the_design():
    class Base(Lengths):
        @property
        def design(self):
            return Design(clusters=("kind",), headline=("length",))

    class Mine(Base):
        metrics = (Metric("other"),)
        headline = ("other",)

    with pytest.warns(DeprecationWarning, match="declare design"):
        task = as_task(Mine(), "mine")
    assert task.design == Design(clusters=("kind",), headline=("other",))


def test_a_plug_in_of_today_is_taken_as_it_is():
    task, model = Lengths(), Parrot()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_task(task, "mine") is task
        assert as_model(model, "mine") is model


@pytest.mark.parametrize("missing", ["examples", "requests", "score", "name"])
def test_what_a_task_lacks_is_named(missing):
    members = {name: value for name, value in vars(Lengths).items() if not name.startswith("__") and name != missing}
    with pytest.raises(PluginError, match=f"lacks {missing}; see docs/extending/task.md"):
        as_task(type("Mine", (Task,), members)(), "mine")
