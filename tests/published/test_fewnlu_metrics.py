"""Metrics of the running FewNLU on fixed arrays."""

from __future__ import annotations

import pytest

from lmassay.evaluations.fewshot.metrics import scores
from tests.published import fewnlu_gold


@pytest.fixture(scope="module")
def gold():
    return fewnlu_gold.gold("metrics")


def test_accuracy_and_macro_f1_over_three_labels(gold):
    computed = scores(("acc", "f1-macro"), gold["labels3"], gold["pred3"])
    assert computed == pytest.approx({"acc": gold["acc3"], "f1-macro": gold["f1_macro3"]}, abs=1e-15)


def test_accuracy_f1_and_exact_match_over_answers_to_questions(gold):
    computed = scores(("acc", "f1", "em"), gold["labels2"], gold["pred2"], gold["qid"])
    assert computed == pytest.approx({"acc": gold["acc2"], "f1": gold["f1"], "em": gold["em"]}, abs=1e-15)


def test_macro_f1_without_one_of_the_classes(gold):
    missing = gold["f1_macro_missing_class"]
    assert scores(("f1-macro",), missing["labels"], missing["pred"])["f1-macro"] == pytest.approx(missing["value"])
