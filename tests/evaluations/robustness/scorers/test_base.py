"""What all scorers have in common: their scores are checked, and their failures say where they happened."""

from __future__ import annotations

import sys

import pytest

from lmassay.evaluations.robustness.scorers.base import (
    Scorer,
    ScorerError,
    function_scorer,
    interface_problem,
    own_decrease,
    works_by_chunks,
)
from lmassay.evaluations.robustness.scorers.bleu import BLEU
from lmassay.evaluations.robustness.scorers.exact import ZeroOne


class Failing(Scorer):
    """Fails on every text; it defines its own decrease, which fails as well."""

    _name = "failing"

    def score_sentence(self, hyp, ref, lang=None):
        raise ValueError("no score")

    def rd_score(self, hyps, bases, refs, lang=None, check_tok=True):
        raise ValueError("no decrease")


def test_a_scorer_that_fails_names_the_file_and_line():
    with pytest.raises(ScorerError, match=r"pair 1: .*'b': ValueError\('no score'\) \(.*test_base\.py, line \d+\)"):
        Failing().score(["a"], ["b"])


def test_a_decrease_that_fails_names_the_file_and_line():
    with pytest.raises(ScorerError, match=r"failing failed: ValueError\('no decrease'\) \(.*test_base\.py, line \d+\)"):
        own_decrease(Failing(), ["a"], ["b"], ["c"], None)


def test_a_scorer_that_exits_does_not_end_the_program():
    def leaves(hypothesis, reference):
        sys.exit(3)

    class Leaves(Scorer):
        def score_corpus(self, hyps, refs, lang=None):
            sys.exit(3)

    for leaving in (function_scorer("leaves", leaves)(), Leaves()):
        with pytest.raises(ScorerError, match=r"failed.*: SystemExit\(3\) \(.*test_base\.py, line \d+\)"):
            leaving.score(["a"], ["b"])


@pytest.mark.parametrize("method", ["score", "score_with_sources", "checked_scores"])
def test_a_scorer_may_override_any_scoring_method(method):
    own = type("Own", (Scorer,), {method: lambda self, hyps, *others, **options: [1.0 for _ in hyps]})()
    assert interface_problem(own) == ""
    assert own.score_with_sources(["a"], ["b"], ["c"]) == [1.0]


def test_a_scorer_may_set_its_scoring_method_when_it_is_created():
    class Sentences(Scorer):
        def __init__(self):
            self.score_sentence = lambda hyp, ref, lang=None: 1.0

    class Corpora(Scorer):
        def __init__(self):
            self.score_corpus = lambda hyps, refs, lang=None: [1.0 for _ in hyps]

    for own in (Sentences(), Corpora()):
        assert interface_problem(own) == ""
        assert own.score(["a"], ["b"]) == [1.0]
    assert works_by_chunks(Sentences())
    assert not works_by_chunks(Corpora())


def test_a_method_that_a_scorer_sets_when_it_is_created_replaces_those_of_its_parent():
    class Parent(Scorer):
        def score_corpus(self, hyps, refs, lang=None):
            return [1.0 for _ in hyps]

    class Child(Parent):
        def __init__(self):
            self.score_sentence = lambda hyp, ref, lang=None: 0.25

    assert Child().score(["a", "b"], ["c", "d"]) == [0.25, 0.25]


@pytest.mark.parametrize("parent", [Scorer, BLEU, ZeroOne])
def test_a_scorer_that_overrides_score_sees_the_whole_corpus(parent):
    class Relative(parent):
        def score(self, hyps, refs, lang=None, check_tok=True):
            longest = max(map(len, hyps))
            return [len(hyp) / longest for hyp in hyps]

    assert not works_by_chunks(Relative())
    assert not Relative.is_binary


def test_a_scorer_of_translations_is_checked_before_the_run():
    class Without(Scorer):
        needs_source = True

    class WithoutSources(Scorer):
        needs_source = True

        def score_translations(self, hyps, refs):
            return [1.0 for _ in hyps]

    class Complete(Scorer):
        needs_source = True

        def score_translations(self, hyps, refs, sources):
            return [1.0 for _ in hyps]

    assert interface_problem(Without()) == "has needs_source, but no score_translations; write it"
    problem = "has score_translations(hyps, refs); it must take (hyps, refs, sources)"
    assert interface_problem(WithoutSources()) == problem
    assert interface_problem(Complete()) == ""
