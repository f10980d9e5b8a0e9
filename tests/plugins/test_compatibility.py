"""Plug-ins keep to their contract; those of earlier versions are completed."""

from __future__ import annotations

import json
import sys
import warnings

import pytest

from lmassay.budget import Budget, Prices
from lmassay.contracts import Model, Task
from lmassay.errors import OldPluginWarning, PluginError
from lmassay.plugins.compatibility import as_model, as_task
from lmassay.types import Combination, Design, Example, Generate, Metric, Response, Score
from tests.helpers import lmassay, write_config
from tests.plugins.packages import evaluation_called


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
        ("metrix", "'metrics'"),
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
    with pytest.raises(PluginError, match="may name only one group"):
        as_task(type("Mine", (Lengths,), {"design": Design(clusters=("a", "b"))})(), "mine")


@pytest.mark.parametrize(
    ("base", "attribute", "meant"),
    [(Lengths, "lable", "label"), (Lengths, "metrcs", "metrics"), (Parrot, "chached", "cached")],
)
def test_a_misspelt_member_that_is_set_in_init_is_reported(base, attribute, meant):
    plugin = type("Mine", (base,), {"__init__": lambda self: setattr(self, attribute, ())})()
    with pytest.raises(PluginError, match=rf"Mine sets self\.{attribute}, .* did you mean '{meant}'"):
        (as_task if base is Lengths else as_model)(plugin, "mine")


def test_data_and_options_of_an_instance_are_not_slips():
    class Mine(Lengths):
        def __init__(self, metric: str = "length", designs: int = 1):
            self.metric, self.designs = metric, designs
            self.labels = ["a", "b"]
            self.words = {}

    assert as_task(Mine(), "mine").name == "lengths"


# --- members of wrong types -------------------------------------------------------------------------------------------

BIAS = evaluation_called("bias")
SYNTAX = evaluation_called("syntax")
WRONG_TASKS = [
    (
        {"metrics": Metric("m")},
        r"metrics must be a tuple of Metric objects.*write metrics=\(Metric\(…\),\) with a comma",
    ),
    ({"metrics": ("m",)}, r"metrics\[0\] must be a Metric, not 'm' \(str\)"),
    ({"metrics": (Metric("m"), Metric("m"))}, "metrics declares 'm' twice"),
    ({"evaluation": "bias"}, r"evaluation must be an Evaluation or None, not 'bias' \(str\); write the object"),
    ({"evaluation": SYNTAX}, "belongs to the evaluation syntax, but neither its name"),
    ({"design": {"headline": ("m",)}}, r"design must be a Design, not \{.*write design = Design"),
    ({"design": Design(headline="length")}, r"design\.headline is a tuple of metrics: write \('length',\)"),
    ({"design": Design(headline=("lenght",))}, r"design\.headline names 'lenght'.*did you mean 'length'"),
    ({"design": Design(weights={"lenght": "n"})}, r"design\.weights names 'lenght'"),
    ({"design": Design(weights={"length": 2})}, r"design\.weights\['length'\] must be the name of a score, not 2"),
    ({"design": Design(combinations={"c": {"m": 1}})}, r"design\.combinations\['c'\] must be a Combination"),
    ({"name": ""}, "name must be a text that is not empty"),
    ({"name": 3}, r"name must be a text that is not empty, not 3 \(int\)"),
    ({"label": 3}, r"label must be a text, not 3"),
    ({"needs": "generate"}, r"needs must be a set of abilities.*not 'generate' \(str\)"),
    ({"needs": frozenset({"genrate"})}, "needs names 'genrate'.*did you mean 'generate'"),
    ({"chunk": 0}, "chunk must be a whole number of at least 1, not 0"),
    ({"version": "one"}, "version must be a whole number, not 'one'"),
]


@pytest.mark.parametrize(("members", "message"), WRONG_TASKS)
def test_a_member_of_a_task_of_a_wrong_type_is_named_with_what_is_expected(members, message):
    with pytest.raises(PluginError, match=message):
        as_task(type("Mine", (Lengths,), members)(), "mine")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"can": ["generate"]}, r"can must be a set of abilities.*not \['generate'\] \(list\)"),
        ({"can": None}, "can must be a set of abilities"),
        ({"can": frozenset({"genrate"})}, "can names 'genrate'.*did you mean 'generate'"),
        ({"prices": 3}, r"prices must be Prices or None, not 3 \(int\)"),
        ({"chunk": "x"}, "chunk must be a whole number of at least 0"),
        ({"name": 3}, "name must be a text"),
        ({"label": 7}, "label must be a text"),
        ({"cached": "no"}, "cached must be True or False"),
    ],
)
def test_a_member_of_a_model_of_a_wrong_type_is_named_with_what_is_expected(members, message):
    with pytest.raises(PluginError, match=message):
        as_model(type("Mine", (Parrot,), members)(), "mine")


def test_all_wrong_members_are_reported_at_once():
    with pytest.raises(PluginError) as refused:
        as_task(type("Mine", (Lengths,), {"chunk": 0, "label": 3, "design": None})(), "mine")
    assert len(str(refused.value).splitlines()) == 3


def test_a_task_may_extend_an_evaluation_with_one_task_under_its_own_name():
    assert len(BIAS.tasks) == 1
    assert as_task(type("Mine", (Lengths,), {"evaluation": BIAS})(), "mine").evaluation is BIAS


MINE = "from tests.plugins.test_compatibility import Lengths, Parrot\n\nclass Mine({base}):\n    {member}\n"


@pytest.mark.parametrize(
    ("base", "member", "message"),
    [
        ("Lengths", "def signature(self): return None", "signature() must be a mapping, not None"),
        ("Lengths", "def notes(self): return 'careful'", "notes() must be a list of texts, not 'careful' (str)"),
        ("Lengths", "def size(self): return -1", "size() must be a number of examples or None, not -1"),
        ("Parrot", "def identity(self): return None", "identity() must be a mapping, not None"),
        ("Parrot", "def notes(self): return [1]", "notes() must be a list of texts"),
    ],
)
def test_check_reports_what_methods_return(tmp_path, base, member, message):
    (tmp_path / "mine.py").write_text(MINE.format(base=base, member=member), encoding="utf-8")
    (tmp_path / "other.py").write_text(MINE.format(base="Lengths", member="pass"), encoding="utf-8")
    names = {"task": "mine.py:Mine", "model": "echo"}
    if base == "Parrot":
        names = {"task": "other.py:Mine", "model": "mine.py:Mine"}
    done = lmassay("check", write_config(tmp_path / "c.yaml", names))
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (
            "def aggregate(self, table, settings): return None",
            "aggregate must return a list of Result objects, not None",
        ),
        ("def aggregate(self, table, settings): return [('m', 1.0)]", "aggregate must return Result objects only"),
        ("def score(self, examples, responses): return [{} for _ in examples]", "score must return Score objects only"),
    ],
)
def test_a_wrong_return_value_in_a_run_is_one_line(tmp_path, member, message):
    (tmp_path / "mine.py").write_text(MINE.format(base="Lengths", member=member), encoding="utf-8")
    config = write_config(tmp_path / "c.yaml", {"task": "mine.py:Mine", "model": "echo"})
    done = lmassay("run", config, "--results", tmp_path / "results")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


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


def test_methods_with_names_of_an_earlier_version_are_called_with_a_warning(tmp_path):
    class Careful(Parrot):
        def heed(self, budget):
            self.budget = budget

        def keep_in(self, folder):
            self.folder = folder

    with pytest.warns(OldPluginWarning, match="is deprecated") as caught:
        model = as_model(Careful(), "careful.py:Careful")
    assert [str(warning.message) for warning in caught] == [
        "Careful.heed is deprecated; rename the method to use_budget",
        "Careful.keep_in is deprecated; rename the method to use_folder",
    ]
    budget = Budget(usd=1.0)
    model.use_budget(budget)
    model.use_folder(tmp_path)
    assert (model.budget, model.folder) == (budget, tmp_path)


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
    with pytest.raises(PluginError, match=f"does not define {missing}; see docs/extending/task.md"):
        as_task(type("Mine", (Task,), members)(), "mine")


OLD_FILE = """
from lmassay.stats import *
from tests.plugins.test_compatibility import Lengths

class Mine(Lengths):
    headline = ("length",)

    def aggregate(self, table, settings):
        return mean_results(table, ["length"], settings)
"""


def test_the_command_line_shows_deprecations_once_in_one_line(tmp_path):
    (tmp_path / "mine.py").write_text(OLD_FILE, encoding="utf-8")
    config = write_config(tmp_path / "c.yaml", {"task": "mine.py:Mine", "model": "echo", "seed": [0, 1]})
    sys.modules.pop("lmassay.stats", None)
    done = lmassay("run", config, "--json", "--results", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["runs"]) == 2
    warned = [line for line in done.stderr.splitlines() if "warning" in line.lower()]
    assert warned == [
        "warning: lmassay.stats has moved to lmassay.statistics.intervals; the old path will be removed in 1.0",
        "warning: Mine.headline is deprecated; declare design = Design(clusters=…, headline=…) instead",
    ]
    sys.modules.pop("lmassay.stats", None)


def test_an_old_model_that_cannot_be_completed_is_refused_with_the_page_about_models():
    class Stored:
        __slots__ = ()
        name = "stored"
        can = frozenset({"generate"})

        def identity(self):
            return {"name": self.name}

        def check_ids(self, ids):
            pass

    with pytest.warns(OldPluginWarning), pytest.raises(PluginError, match=r"cannot be used.*docs/extending/model\.md"):
        as_model(Stored(), "stored")
