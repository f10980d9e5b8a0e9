"""What a mean is over: one value an example, or one for each label that examples share."""

from __future__ import annotations

import pytest

from lmassay.errors import PluginError
from lmassay.statistics.caveats import caveats
from lmassay.statistics.comparison import compare_runs
from lmassay.statistics.intervals import mean_result, mean_results
from lmassay.statistics.observations import counted_labels, observations
from lmassay.statistics.table import ScoreTable
from lmassay.types import Example, Outcome, Row, Score
from tests.compare_kit import side

DESIGN = {"clusters": ["noun"], "headline": ["tse"], "weights": {"tse": "tse_rows"}, "crossed": {"tse": "verb_pair"}}


def context(noun: str, outcomes: dict[str, tuple[float, int]], *, keep_outcomes: bool = True, **groups: str) -> Row:
    """A context of a noun with the value and the number of rows of each verb."""
    rows = sum(count for _, count in outcomes.values())
    value = sum(value * count for value, count in outcomes.values()) / rows
    listed = [Outcome(verb, value, float(count)) for verb, (value, count) in outcomes.items()]
    score = Score({"tse": value, "tse_rows": float(rows)}, outcomes={"tse": listed} if keep_outcomes else {})
    return Row(Example(noun, {}, None, {"noun": noun, **groups}), "scored", score)


def easy_and_hard_verb(**more: bool) -> list[Row]:
    """Ten nouns with the same scores, and two verbs with different ones."""
    return [context(f"noun {i}", {"be": (1.0, 8), "smile": (0.5, 2)}, **more) for i in range(10)]


def tse(rows: list[Row], **more: object):
    keywords = {"cluster": ("noun",), "weight": "tse_rows", "crossed": "verb_pair", **more}
    return mean_result(ScoreTable(rows), "tse", **keywords)


def test_an_interval_allows_for_other_verbs():
    by_noun = tse(easy_and_hard_verb(), crossed=None)
    both = tse(easy_and_hard_verb())
    assert by_noun.high - by_noun.low < 0.35
    assert both.high - both.low > 0.8
    assert both.method == "wilson/noun/verb_pair"
    assert both.clusters == {"noun": 10, "verb_pair": 2}


def test_the_value_is_the_same_to_the_last_digit():
    rows = [context(f"noun {i}", {"be": (1.0, 7), "see": (i / 10, 10), "do": (1 / 3, 3)}) for i in range(10)]
    assert tse(rows).value == tse(rows, crossed=None).value


def test_without_outcomes_the_method_says_what_it_could_not_take_into_account():
    old = tse(easy_and_hard_verb(keep_outcomes=False))
    by_noun = tse(easy_and_hard_verb(), crossed=None)
    assert (old.low, old.high) == (by_noun.low, by_noun.high)
    assert old.method == "wilson/noun (not by verb_pair: not in the run)"
    assert old.clusters == {"noun": 10}


def test_a_run_of_which_an_earlier_version_made_a_part_counts_as_one_without_outcomes():
    rows = [*easy_and_hard_verb()[:5], *easy_and_hard_verb(keep_outcomes=False)[5:]]
    assert tse(rows).clusters == {"noun": 10}


def test_one_verb_leaves_no_interval():
    result = tse([context(f"noun {i}", {"be": (1.0, 4)}) for i in range(10)])
    assert (result.value, result.low, result.high) == (1.0, None, None)
    assert result.method == "none: all examples belong to one cluster"
    assert result.clusters == {"noun": 10, "verb_pair": 1}


def test_together_the_outcomes_of_an_example_count_as_much_as_the_example():
    table = ScoreTable([context("a", {"be": (1.0, 9), "do": (0.0, 1)}), context("b", {"be": (0.0, 1)})])
    by_rows = observations(table, "tse", clusters=["noun"], weight="tse_rows", crossed="verb_pair")
    by_examples = observations(table, "tse", clusters=["noun"], crossed="verb_pair")
    assert by_rows.weights.tolist() == [9, 1, 1]
    assert by_rows.mean == pytest.approx(9 / 11)
    assert by_examples.weights.tolist() == pytest.approx([0.9, 0.1, 1])
    assert by_examples.mean == pytest.approx(0.45)


def test_tasks_that_only_declare_what_is_crossed_get_the_interval_too():
    (result, *_) = mean_results(
        ScoreTable(easy_and_hard_verb()),
        ["tse"],
        cluster="noun",
        weights={"tse": "tse_rows"},
        crossed={"tse": "verb_pair"},
    )
    assert result.method == "wilson/noun/verb_pair"


def test_a_weight_that_no_example_has_is_an_error():
    with pytest.raises(PluginError, match="'tokens'"):
        tse(easy_and_hard_verb(), weight="tokens")


def test_labels_are_counted_in_words():
    assert counted_labels(1, "verb_pair") == "1 verb pair"
    assert counted_labels(12, "phenomenon") == "12 phenomena"


# --- comparisons ------------------------------------------------------------------------------------------------------


def compared(before: list[Row], after: list[Row]):
    base, new = side("base", before, **DESIGN), side("new", after, **DESIGN)
    (row,) = compare_runs(base, [new])
    return row, caveats(base, [new])


def test_a_difference_allows_for_other_verbs_and_its_units_are_the_fewer_ones():
    after = [context(f"noun {i}", {"be": (1.0, 8), "smile": (0.0, 2)}) for i in range(10)]
    row, notes = compared(easy_and_hard_verb(), after)
    assert row.difference == pytest.approx(-0.1)
    assert row.low < -0.5
    assert row.high > 0.3
    assert row.estimate.clustered_by == ("noun", "verb_pair")
    # One of two verbs changed, ten contexts were compared.
    assert (row.n, row.units, row.changed) == (10, 2, 1)
    assert notes == []


def test_models_that_lack_different_verbs_are_compared_on_those_that_both_have():
    before = [context(f"noun {i}", {"be": (1.0, 2), "do": (0.0, 2)}) for i in range(6)]
    after = [context(f"noun {i}", {"be": (0.5, 2), "go": (1.0, 2)}) for i in range(6)]
    row, notes = compared(before, after)
    # By context, both have four rows, and the means would be those of different verbs.
    assert (row.base_mean, row.new_mean) == (1.0, 0.5)
    assert (row.n, row.only_base, row.only_new) == (6, 0, 0)
    assert notes == ["tse is compared on 1 verb pair that both runs have, of 2 (base) and 2 (new)"]


def test_a_run_without_outcomes_is_compared_by_noun_and_that_is_said():
    row, notes = compared(easy_and_hard_verb(), easy_and_hard_verb(keep_outcomes=False))
    assert row.estimate.clustered_by == ("noun",)
    assert row.n == 10
    assert notes == [
        "new was made by an earlier version, which did not record tse by verb pair: "
        "the interval of the difference in tse holds only for these verb pairs, not for others"
    ]
