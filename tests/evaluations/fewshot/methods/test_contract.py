"""The contract of few-shot methods: misspelt members are refused, earlier classes keep working."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.errors import OldPluginWarning, PluginError
from lmassay.evaluations.fewshot.methods import contract
from lmassay.evaluations.fewshot.methods.contract import (
    Method,
    PromptMethod,
    TrainedClassifier,
    TrainingInputs,
    as_classifier,
    as_method,
)
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from tests.evaluations.fewshot.toys import write_data


class Zeros(TrainedClassifier):
    def logits(self, examples):
        return np.zeros((len(examples), 2))


class Learner(Method):
    def fit(self, inputs):
        return Zeros()


def test_a_method_has_defaults_for_everything_but_fit():
    method = as_method(Learner())
    assert method.needs == {"train"}
    assert (method.uses_unlabeled, method.continue_draws, method.pattern) == (False, False, None)
    assert method.identity() is None


@pytest.mark.parametrize(
    ("member", "meant"),
    [("use_unlabeled", "uses_unlabeled"), ("chek_task", "check_task"), ("patern", "pattern"), ("need", "needs")],
)
def test_a_misspelt_member_of_a_method_is_refused(member, meant):
    cls = type("Mine", (Learner,), {member: None})
    with pytest.raises(PluginError, match=rf"Mine\.{member} is not a member of Method; did you mean '{meant}'\?"):
        as_method(cls())


def test_a_misspelt_member_of_a_classifier_is_refused():
    cls = type("Mine", (Zeros,), {"choice": ()})
    with pytest.raises(PluginError, match=r"Mine\.choice is not a member of TrainedClassifier; did you mean 'choices'"):
        as_classifier(cls())


def test_a_misspelt_member_of_a_prompt_method_is_refused():
    cls = type("Mine", (PromptMethod,), {"question": None})
    with pytest.raises(PluginError, match="did you mean 'questions'"):
        as_method(cls())


def test_private_members_and_a_class_that_defines_both_names_are_left_alone():
    both = type("Both", (Learner,), {"pattern": 1, "patterns": (1, 2), "_need": 3})
    assert as_method(both()).pattern == 1


def test_a_method_without_fit_is_refused():
    with pytest.raises(PluginError, match="Empty has no fit"):
        as_method(type("Empty", (Method,), {})())
    with pytest.raises(PluginError, match="Empty has no fit"):
        as_method(type("Empty", (), {})())


@pytest.mark.parametrize("missing", ["questions", "logits"])
def test_a_prompt_method_without_a_required_member_is_refused(missing):
    members = {"questions": lambda self, inputs, examples: [], "logits": lambda self, task, example, responses: []}
    del members[missing]
    with pytest.raises(PluginError, match=f"Mine has no {missing}; see docs/extending/method.md"):
        as_method(type("Mine", (PromptMethod,), members)())


def test_a_class_without_the_base_class_keeps_working_with_a_warning():
    class Plain:
        needs: frozenset[str] = frozenset()

        def fit(self, inputs):
            return self

        def logits(self, examples):
            return np.zeros((len(examples), 2))

    with pytest.warns(OldPluginWarning, match=r"Plain should inherit from .*contract\.Method"):
        method = as_method(Plain())
    assert method.needs == frozenset()
    assert method.spatial_dropout is None
    with pytest.warns(OldPluginWarning, match=r"contract\.TrainedClassifier"):
        classifier = as_classifier(method.fit(None))
    assert classifier.choices == ()


def test_the_earlier_names_keep_working_with_a_warning(tmp_path):
    with pytest.warns(OldPluginWarning, match="Lesson is now called TrainingInputs"):
        assert contract.Lesson is TrainingInputs
    shares: list[float] = []
    task = open_task("rte", write_data(tmp_path), tmp_path)
    inputs = TrainingInputs(task, None, [], report_progress=shares.append)
    with pytest.warns(OldPluginWarning, match="told is now called report_progress"):
        inputs.told(0.5)
    assert shares == [0.5]
