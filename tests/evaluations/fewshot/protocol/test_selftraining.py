"""Self-training: sizes, teachers, draws, soft labels, and what happens when there is too little."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.protocol.selftraining import (
    Recipe,
    Teacher,
    count_new_examples,
    draw,
    generators,
    label_sizes,
    merged_logits,
    soft_labels,
)

ALL = Recipe(share=1.0)


def teacher(*favoured, score=1.0):
    """Logits that favour label 0 or 1 for each example."""
    return Teacher(np.asarray([[2.0, 0.0] if label == 0 else [0.0, 2.0] for label in favoured]), score)


def test_generations_grow_by_the_scale():
    assert [count_new_examples(16, 3**generation) for generation in (1, 2, 3)] == [32, 128, 416]
    with pytest.raises(ConfigError, match="scale above 1"):
        count_new_examples(16, 1)


def test_labels_keep_their_shares():
    assert label_sizes(["a"] * 10 + ["b"] * 6, ["a", "b", "c"], 32) == [20, 12, 0]
    with pytest.raises(DataError, match="no training example"):
        label_sizes([], ["a"], 8)


def test_without_a_teacher_the_message_says_what_to_do():
    with pytest.raises(ConfigError, match=r"no teacher: train several patterns or repetitions"):
        draw([], ["a", "b"], [1, 1], generators())


def test_no_example_is_drawn_twice_while_there_are_enough():
    drawn = draw([teacher(*([0, 1] * 10))], ["a", "b"], [6, 4], generators(), ALL)
    assert Counter(p.label for p in drawn.examples) == {"a": 6, "b": 4}
    assert len({p.index for p in drawn.examples}) == 10
    assert all(p.index % 2 == (p.label == "b") for p in drawn.examples)


def test_too_few_examples_of_a_label_are_repeated_and_reported():
    drawn = draw([teacher(0, 0, 0, 1)], ["a", "b"], [3, 4], generators(), ALL)
    assert Counter(p.label for p in drawn.examples) == {"a": 3, "b": 4}
    assert drawn.notes == ("only 1 unlabeled examples can be labelled 'b', but 4 are needed: they are repeated",)


def test_too_few_examples_are_all_taken_where_none_may_be_repeated():
    drawn = draw([teacher(0, 0, 0, 1)], ["a", "b"], [3, 4], generators(), Recipe(share=1.0, upsample=False))
    assert Counter(p.label for p in drawn.examples) == {"a": 3, "b": 1}
    assert drawn.notes == ("only 1 unlabeled examples can be labelled 'b', but 4 are needed: all are used",)
    likeliest = draw([teacher(0, 0, 0, 1)], ["a", "b"], [3, 4], generators(), Recipe(share=1.0, most_likely=2))
    assert Counter(p.label for p in likeliest.examples) == {"a": 2, "b": 2}
    assert len(likeliest.notes) == 2


def test_a_label_nobody_was_given_is_reported():
    drawn = draw([teacher(0, 0)], ["a", "b"], [1, 4], generators(), ALL)
    assert [p.label for p in drawn.examples] == ["a"]
    assert drawn.notes == ("no unlabeled example was labelled 'b': 4 are missing",)


def test_the_most_likely_examples_are_taken_whatever_is_predicted():
    logits = np.asarray([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [4.0, 0.0]])
    drawn = draw([Teacher(logits)], ["a", "b"], [1, 2], generators(), Recipe(share=1.0, most_likely=2))
    assert {p.index for p in drawn.examples if p.label == "b"} == {1, 2}


def test_teachers_weigh_by_their_scores_if_asked():
    teachers = [teacher(0, score=3.0), teacher(1, score=1.0)]
    assert merged_logits(teachers).tolist() == [[1.0, 1.0]]
    assert merged_logits(teachers, "wmean").tolist() == [[1.5, 0.5]]


def test_soft_labels_are_flatter_at_a_higher_temperature():
    cold, warm = (soft_labels([teacher(0)], temperature=t) for t in (1.0, 2.0))
    assert cold.sum() == pytest.approx(1.0)
    assert cold[0, 0] == pytest.approx(np.exp(2) / (np.exp(2) + 1))
    assert warm[0, 0] == pytest.approx(np.e / (np.e + 1))
    with pytest.raises(ConfigError, match="above 0"):
        soft_labels([teacher(0)], temperature=0)


@pytest.mark.parametrize(
    ("teachers", "reduction", "error", "message"),
    [
        ([], "mean", ConfigError, "no teacher"),
        ([teacher(0), teacher(0, 1)], "mean", DataError, "the same examples"),
        ([teacher(0), Teacher(np.asarray([[np.nan, 0.0]]))], "mean", DataError, "teacher 1 gave logits"),
        ([teacher(0, score=0.0)], "wmean", ConfigError, "cannot be weights"),
    ],
)
def test_teachers_that_cannot_be_averaged_are_refused(teachers, reduction, error, message):
    with pytest.raises(error, match=message):
        merged_logits(teachers, reduction)


def test_more_labels_than_logits_are_refused():
    with pytest.raises(DataError, match="distinguish 2 labels, but there are 3"):
        draw([teacher(0)], ["a", "b", "c"], [1, 1, 1], generators(), ALL)


@pytest.mark.parametrize("options", [{"share": 0.0}, {"share": 1.5}, {"reduction": "median"}])
def test_a_recipe_that_makes_no_sense_is_refused(options):
    with pytest.raises(ConfigError):
        Recipe(**options)
