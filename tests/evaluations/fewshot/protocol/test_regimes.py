"""Who learns from whom: ensembles, distillation, and generations of teachers and pupils."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.protocol.regimes import PREVIOUS, Regime, TrainingKey, teachers_of, training_groups
from lmassay.types import Train


def ask(key: TrainingKey, special: Any, after: Any) -> Train:
    spec = {"split": key.split, "pattern": key.pattern, "repetition": key.repetition, **special}
    return Train("toy", spec, tuple(after))


def groups_of(regime: Regime, splits: int = 2) -> list[Any]:
    return training_groups(regime, splits, 0, ask)


def keys(trainings: Any) -> list[tuple[int, int, int]]:
    return [(t.spec["split"], t.spec["pattern"], t.spec["repetition"]) for t in trainings]


def test_by_default_each_training_stands_for_itself():
    groups = groups_of(Regime(patterns=[0, 3], repetitions=2))
    assert [unit.id for unit in groups][:4] == ["split-0-p0", "split-0-p0-r1", "split-0-p3", "split-0-p3-r1"]
    assert all(len(unit.members) == 1 and not unit.members[0].after for unit in groups)


def chain(last: Train) -> list[Train]:
    """The trainings that go on with each other's draws, up to the last one."""
    trainings = [last]
    while trainings[0].spec.get(PREVIOUS):
        trainings.insert(0, trainings[0].after[-1])
    return trainings


def test_chained_trainings_follow_each_other_by_pattern_split_and_repetition():
    groups = training_groups(Regime(patterns=[3, 0], repetitions=2), 2, None, ask, chained=True)
    last = next(unit for unit in groups if unit.id == "split-1-p0-r1")
    in_order = [(0, 3, 0), (0, 3, 1), (1, 3, 0), (1, 3, 1), (0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    assert keys(chain(last.members[0])) == in_order
    assert [unit.id for unit in groups] == [unit.id for unit in groups_of(Regime(patterns=[3, 0], repetitions=2))]


def test_a_chain_begins_again_with_each_generation_and_teaches_nobody():
    regime = Regime(name="ipet", repetitions=2, generations=2)
    chained_groups, alone = training_groups(regime, 2, 0, ask, chained=True), groups_of(regime)
    pupils = chain(chained_groups[-1].members[0])
    assert keys(pupils) == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    assert all("pseudo" in pupil.spec for pupil in pupils)
    assert [keys(teachers_of(pupil)) for pupil in pupils] == [keys(unit.members[0].after) for unit in alone]
    assert keys(chain(pupils[2].after[0])) == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]


@pytest.mark.parametrize("name", ["default", "ensemble", "distillation", "self_training", "ipet", "noisy_student"])
def test_the_number_of_trainings_per_score_includes_those_of_teachers(name):
    regime = Regime(name=name, patterns=[0, 3], repetitions=2, generations=3)
    groups = groups_of(regime)
    trainings: dict[str, Train] = {}
    remaining = [member for group in groups for member in group.members]
    while remaining:
        training = remaining.pop()
        trainings[training.key] = training
        remaining += training.after
    assert len(trainings) == regime.trainings_per_score * len(groups)


def test_an_ensemble_answers_as_one_a_split():
    groups = groups_of(Regime(name="ensemble", patterns=[0, 1, 2]))
    assert [(unit.id, len(unit.members)) for unit in groups] == [("split-0", 3), ("split-1", 3)]


def test_a_student_learns_from_all_of_its_split():
    (first, _) = groups_of(Regime(name="distillation", patterns=[0, 1], student="sequence_classifier"))
    (student,) = first.members
    assert student.spec["method"] == "sequence_classifier"
    assert student.spec["soft"] == {"temperature": 2.0}
    assert keys(student.after) == [(0, 0, 0), (0, 1, 0)]
    assert all(teacher.spec["label_unlabeled"] for teacher in student.after)


def test_in_ipet_the_others_of_a_split_teach():
    groups = groups_of(Regime(name="ipet", repetitions=3, generations=2))
    (pupil,) = groups[0].members
    assert keys(pupil.after) == [(0, 0, 1), (0, 0, 2)]
    assert "label_unlabeled" not in pupil.spec, "the last generation teaches nobody"
    assert pupil.spec["pseudo"]["scale"] == 5


def test_across_splits_all_others_teach():
    groups = groups_of(Regime(name="ipet", cross=True, generations=2), splits=3)
    assert keys(groups[1].members[0].after) == [(0, 0, 0), (2, 0, 0)]


def test_each_generation_builds_upon_the_one_before_and_grows():
    (last,) = groups_of(Regime(name="ipet", repetitions=2, generations=3, scale_factor=3), splits=1)[0].members
    assert last.spec["pseudo"]["scale"] == 9
    (teacher,) = last.after
    assert teacher.spec["pseudo"]["scale"] == 3
    (grandparent,) = teacher.after
    assert "pseudo" not in grandparent.spec


def test_the_likeliest_are_taken_in_the_first_generation_only():
    (last,) = groups_of(Regime(name="ipet", repetitions=2, generations=3, n_most_likely=7), splits=1)[0].members
    assert last.spec["pseudo"]["n_most_likely"] == -1
    assert last.after[0].spec["pseudo"]["n_most_likely"] == 7


def test_a_noisy_student_has_noise_from_its_second_generation_on():
    (last,) = groups_of(Regime(name="noisy_student", repetitions=2, generations=2), splits=1)[0].members
    assert last.spec["noise"] == 0.05
    assert "noise" not in last.after[0].spec


def test_in_self_training_one_learner_is_enough():
    (last,) = groups_of(Regime(name="self_training", generations=2), splits=1)[0].members
    assert keys(last.after) == [(0, 0, 0)]
    assert last.spec["pseudo"]["logits_percentage"] == 1.0


def test_teachers_other_than_the_learner_are_required():
    with pytest.raises(ConfigError, match="several patterns or repetitions, or cross: true"):
        groups_of(Regime(name="ipet"))
    with pytest.raises(ConfigError, match="only one split"):
        groups_of(Regime(name="ipet", cross=True), splits=1)


def test_a_pattern_given_twice_is_refused():
    with pytest.raises(ConfigError, match="twice"):
        groups_of(Regime(patterns=[1, 1]))


def test_nonsense_is_refused_by_name():
    with pytest.raises(ValidationError):
        Regime(name="ipett")  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        Regime(scale_factor=1)
