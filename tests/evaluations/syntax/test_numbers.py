"""Whether a verb is singular or plural, where the data do not say it."""

from __future__ import annotations

from lmassay.evaluations.syntax.numbers import InferredNumbers, Observation

PLACE = ("simple", "simple.txt")


def seen(left, good, bad, number=None):
    return Observation(PLACE, tuple(left.split()), good, bad, number)


def number(observations, left):
    return InferredNumbers(observations).number(PLACE, tuple(left.split()))


def test_a_verb_that_is_not_in_the_list_has_the_number_of_one_that_is():
    rows = [seen("авторы", "говорят", "говорит", "plural"), seen("авторы", "старые", "старый")]
    rows += [seen("врач", "старый", "старые")]
    assert number(rows, "авторы") == "plural"
    assert number(rows, "врач") == "singular"


def test_without_any_known_verb_the_sides_are_known_but_not_the_numbers():
    rows = [
        seen("der Arzt", "lacht", "lachen"),
        seen("die Ärzte", "lachen", "lacht"),
        seen("der Koch", "lacht", "lachen"),
    ]
    inferred = InferredNumbers(rows)
    sides = [inferred.side(PLACE, row.left) for row in rows]
    assert number(rows, "der Arzt") is None
    assert sides[0] == sides[2] != sides[1]


def test_nothing_follows_from_sentences_that_contradict_each_other():
    rows = [seen("die", "lacht", "lachen", "singular"), seen("die", "lachen", "lacht", "plural")]
    assert number(rows, "die") is None
    assert InferredNumbers(rows).side(PLACE, ("die",)) is None


def test_a_verb_at_the_beginning_says_nothing_about_others():
    rows = [
        seen("", "Lacht", "Lachen", "singular"),
        seen("", "Lachen", "Lacht", "plural"),
        seen("er", "lacht", "lachen"),
    ]
    assert number(rows, "er") is None


def test_files_are_not_mixed():
    rows = [
        seen("sie", "geht", "gehen", "singular"),
        Observation(("other", "other.txt"), ("sie",), "geht", "gehen", None),
    ]
    assert InferredNumbers(rows).number(("other", "other.txt"), ("sie",)) is None
