"""Every scorer goes through the same checks: range, identity, order, empty text, agreement of batch and single."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lmassay
from lmassay.errors import DataError, PluginError, UserError
from lmassay.evaluations.robustness.scorers.base import (
    FunctionScorer,
    Scorer,
    ScorerError,
    full_signature,
    own_decrease,
    register_scorer,
    scorer,
    works_by_chunks,
)
from lmassay.evaluations.robustness.teapot import module
from lmassay.plugins.registry import Registry, current_registry
from tests.helpers import EVALUATIONS, ROOT

TEXTS = [
    "the cat sat on the mat",
    "a dog barked at the moon all night",
    "x",
    "",
    "Привет, мир",
    "안녕하세요 세계",
    "🙂 ok",
]


# Scorers that cannot be made without options.
OPTIONS = {"bertscore": {"model": ROOT / "tests/published/figures/tse/models/bert-tiny"}}


def fresh(name: str) -> Scorer:
    made = current_registry().get("scorer", name)(**OPTIONS.get(name, {}))
    try:
        made.check("en")
    except UserError as error:
        pytest.skip(str(error))
    return made


# Slow tests run first and on one worker, which has started Java, for ten seconds, for other tests of METEOR.
SLOW = {"meteor"}
NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in current_registry().names("scorer")
]


@pytest.fixture(params=NAMES)
def each(request):
    return fresh(request.param)


def test_scores_lie_in_the_unit_interval_and_come_one_a_pair(each):
    pairs = [(a, b) for a in TEXTS for b in TEXTS]
    scores = each.score([a for a, _ in pairs], [b for _, b in pairs], lang="en")
    assert len(scores) == len(pairs)
    assert all(isinstance(score, float) and 0 <= score <= 1 for score in scores)


@pytest.mark.fault(41)
def test_a_text_is_most_like_itself(each):
    same = each.score(TEXTS[:2], TEXTS[:2], lang="en")
    other = each.score(TEXTS[:2], TEXTS[1::-1], lang="en")
    assert all(score == pytest.approx(1, abs=1e-5) for score in same)
    assert all(a > b for a, b in zip(same, other, strict=True))


@pytest.mark.fault(41)
def test_the_order_and_company_of_pairs_do_not_matter(each):
    hyps, refs = TEXTS, TEXTS[1:] + TEXTS[:1]
    together = each.score(hyps, refs, lang="en")
    assert each.score(hyps[::-1], refs[::-1], lang="en")[::-1] == pytest.approx(together, abs=1e-6)
    alone = [each.score([h], [r], lang="en")[0] for h, r in zip(hyps, refs, strict=True)]
    assert alone == pytest.approx(together, abs=1e-6)


def test_no_pairs_no_scores_and_unequal_lists_are_refused(each):
    assert each.score([], [], lang="en") == []
    with pytest.raises(DataError, match="must pair up"):
        each.score(["a"], [], lang="en")


def test_the_signature_is_one_short_line_and_stable(each, request):
    name = request.node.callspec.params["each"]
    assert each.signature == fresh(name).signature
    assert "\n" not in each.signature
    assert len(each.signature) < 120


def test_rd_score_is_the_relative_decrease(each):
    hyps, bases, refs = ["the dog sat"], ["the cat sat on a mat"], ["the cat sat on the mat"]
    (base,), (adv,) = each.score(bases, refs, lang="en"), each.score(hyps, refs, lang="en")
    assert each.rd_score(hyps, bases, refs, lang="en") == [max(0.0, base - adv) / base if base else 0.0]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=6))
@pytest.mark.parametrize("name", ["zero_one", "chrf", "bleu"])
def test_any_text_can_be_scored(name, pairs):
    scores = fresh(name).score([a for a, _ in pairs], [b for _, b in pairs])
    assert all(0 <= score <= 1 for score in scores)


def test_the_python_api_of_the_document_works():
    hyps, bases, refs = ["the cat", "a dgo"], ["the cat", "a dog"], ["the cat", "a dog"]
    assert lmassay.ChrF().score(hyps, refs)[0] == 1.0
    assert lmassay.ChrF().rd_score(hyps, bases, refs)[0] == 0.0
    assert lmassay.BLEU().score(["a b c d"], ["a b c d"]) == [1.0]
    assert "meteor_jar" in inspect.signature(lmassay.METEOR).parameters


@pytest.mark.parametrize(
    ("value", "message"), [(1.5, "1.5"), (-0.1, "-0.1"), (float("nan"), "nan"), ("x", "'x'"), (None, "None")]
)
def test_a_score_outside_the_unit_interval_is_refused_with_its_pair(value, message):
    class Odd(Scorer):
        def score_sentence(self, hyp, ref, lang=None):
            return value if hyp == "bad" else 0.5

    with pytest.raises(ScorerError, match=f"pair 2: .*{message}.*must be in"):
        Odd().score(["good", "bad"], ["x", "x"])


def test_rounding_above_one_is_forgiven_and_capped():
    class Rounded(Scorer):
        def score_sentence(self, hyp, ref, lang=None):
            return 1.0000000000000004

    assert Rounded().score(["a"], ["a"]) == [1.0]


def test_a_scorer_that_miscounts_is_refused():
    class Short(Scorer):
        def score_corpus(self, hyps, refs, lang=None):
            return [1.0]

    with pytest.raises(ScorerError, match="gave 1 scores for 2 pairs"):
        Short().score(["a", "b"], ["a", "b"])


def test_a_scorer_that_crashes_is_reported_with_its_pair():
    class Crash(Scorer):
        def score_sentence(self, hyp, ref, lang=None):
            return 1 / len(hyp)

    with pytest.raises(ScorerError, match=r"pair 2: .*ZeroDivisionError"):
        Crash().score(["a", ""], ["a", "b"])


def test_a_scorer_without_a_method_says_what_to_write():
    with pytest.raises(PluginError, match="write one of them"):
        Scorer().score(["a"], ["a"])


def test_a_function_becomes_a_scorer_and_may_ask_for_the_language():
    with Registry(current_registry()).active() as registry:

        @scorer("in-language")
        def in_language(hypothesis, reference, lang=None):
            return 1.0 if lang == "fr" else 0.0

        made = registry.get("scorer", "in-language")()
    assert isinstance(made, FunctionScorer)
    assert made.name == "in-language"
    assert made.score(["a"], ["a"], lang="fr") == [1.0]
    assert made.signature.startswith("in-language(src:")


@pytest.mark.parametrize("name", ["zero_one", "chrf", "bleu"])
def test_a_subclass_that_overrides_score_sentence_is_used(name):
    class Folded(current_registry().get("scorer", name)):
        def score_sentence(self, hyp, ref, lang=None):
            return super().score_sentence(hyp.lower(), ref.lower(), lang=lang)

    hyps, refs = ["The Cat Sat Here", "a DOG barked now"], ["the cat sat here", "a dog barked now"]
    assert Folded().score(hyps, refs) == [1.0, 1.0]
    assert current_registry().get("scorer", name)().score(hyps, refs) != [1.0, 1.0]


def test_a_subclass_that_overrides_score_corpus_sees_the_whole_corpus():
    class Whole(lmassay.ChrF):
        def score_corpus(self, hyps, refs, lang=None):
            return [1 / len(hyps)] * len(hyps)

    assert not works_by_chunks(Whole())
    assert works_by_chunks(lmassay.ChrF())


def test_signatures_tell_apart_what_scores_apart():
    class Mine(lmassay.ChrF):
        def score_sentence(self, hyp, ref, lang=None):
            return 1.0

    builtin = lmassay.ChrF()
    assert full_signature(builtin, {}) == builtin.signature
    assert full_signature(Mine(), {}) != builtin.signature
    assert full_signature(Mine(), {"value": 1}) != full_signature(Mine(), {"value": 2})


def test_teapots_own_arguments_are_taken():
    assert lmassay.ChrF().score(["a"], ["a"], check_tok=False) == [1.0]
    assert lmassay.ChrF().rd_score(["a"], ["a"], ["a"], check_tok=False) == [0.0]


@pytest.mark.parametrize("returned", [[0.5], [7.0, 0.1], [float("nan"), 0.1], None])
def test_a_decrease_of_the_users_own_is_checked_like_a_score(returned):
    class Own(lmassay.ChrF):
        def rd_score(self, hyps, bases, refs, lang=None, check_tok=True):
            if returned is None:
                raise ValueError("no")
            return returned

    with pytest.raises(ScorerError):
        own_decrease(Own(), ["a", "b"], ["a", "b"], ["a", "b"], None)


def test_unequal_lists_are_refused_by_rd_score():
    with pytest.raises(DataError, match="must pair up"):
        lmassay.ChrF().rd_score(["a"], ["a", "b"], ["a", "b"])


def test_teapots_decorator_wants_a_scorer():
    with pytest.raises(PluginError, match="subclass of Scorer"):
        register_scorer("x", "X")(dict)


def test_the_examples_scorers_load():
    module.install()
    registry = Registry(current_registry())
    registry.load_file(EVALUATIONS / "robustness/starters/custom_scorers.py")
    made = registry.get("scorer", "f1")()
    assert made.score(["a b", ""], ["a c", "x"]) == [0.5, 0.0]
    assert made.name == "F-1"
    assert registry.get("scorer", f"{EVALUATIONS / 'robustness/starters/my_scorer.py'}:letters")().score(
        ["ab"], ["ab"]
    ) == [1.0]
