"""The robustness part of the card: attacks that keep the meaning, and a number over inputs that were attacked."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from lmassay.api import evaluate
from lmassay.evaluations.robustness.attack import Attack, CandidateMaker
from lmassay.evaluations.robustness.card import variants
from lmassay.reporting.headline import differences_to_first_model, headlines
from lmassay.statistics.intervals import mean_estimate
from lmassay.storage.store import Store
from tests.helpers import write_lines

SIZES = ("quick", "standard", "full")
WHOLE_WORDS = {"wordswap", "worddrop"}


def attacked_sentences(size: str) -> dict[str, list[tuple[str, str]]]:
    """Of each attack on the card, the sentences with what becomes of them."""
    [variant] = variants(size)
    sentences = (variant.folder / variant.config["task"]["src"]).read_text(encoding="utf-8").splitlines()
    pairs_of_attack = {}
    for options in variant.config["task"]["attack"]:
        attack = Attack.model_validate(options)
        maker = CandidateMaker(attack, Path())
        pairs_of_attack[attack.label] = [(text, maker.candidates(text, n)[0].text) for n, text in enumerate(sentences)]
    return pairs_of_attack


@pytest.mark.parametrize("size", SIZES)
def test_no_attack_on_the_card_drops_or_moves_a_word(size):
    [variant] = variants(size)
    assert not WHOLE_WORDS & {attack["perturb"] for attack in variant.config["task"]["attack"]}
    for pairs in attacked_sentences(size).values():
        for sentence, attacked in pairs:
            before, after = sentence.split(), attacked.split()
            assert len(after) == len(before)
            assert sum(a != b for a, b in zip(before, after, strict=True)) <= 3


@pytest.mark.parametrize("size", SIZES)
def test_every_attack_on_the_card_changes_every_sentence(size):
    for label, pairs in attacked_sentences(size).items():
        assert [sentence for sentence, attacked in pairs if sentence == attacked] == [], label


def test_the_attacked_sentences_are_those_that_were_read():
    """They were read one by one, and each can be completed. If they change, read them before you change the digest."""
    lines = [attacked for pairs in attacked_sentences("full").values() for _, attacked in pairs]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] == "e1951c276eb96671"


@pytest.mark.parametrize("size", SIZES)
def test_target_score_and_threshold_fit_each_other(size):
    """The answers are words, right or wrong: TEAPOT's authors take 1.8 for such scores."""
    [variant] = variants(size)
    task = variant.config["task"]
    assert (task["s_tgt"], task["success_threshold"]) == ({"name": "exact_match", "quasi": True}, 1.8)


SOURCES = ["a long sentence about a cat", "a long sentence about a dog", "a long sentence about a cow", "123", ""]
ANSWERS = ["cat", "dog", "cow", "123", ""]
MODEL = '''
from lmassay import Model
class Last(Model):
    """The last word, whatever is wrong with it; a careful one ignores what comes before."""
    name = "last"
    can = frozenset({"generate"})
    def __init__(self, label: str = "last", careful: bool = False):
        self.label, self.careful = label, careful
    def identity(self):
        return {"name": self.name, "careful": self.careful}
    def generate(self, requests):
        return [self._answer(request.prompt) for request in requests]
    def _answer(self, text):
        words = text.split() or [""]
        is_good = self.careful or len(words) == 1 or words[:4] == "a long sentence about".split()
        return words[-1] if is_good else "what?"
'''


@pytest.fixture
def store(tmp_path):
    """Five inputs under two attacks, which change one and three of them; of these four answers, three turn wrong."""
    spoiled = ["a lnog sentence about a cat", *SOURCES[1:3], *SOURCES[3:]]
    other = ["a long setnence about a cat", "a long  sentence about a dog", "a olng sentence about a cow", *SOURCES[3:]]
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    task = {
        "name": "robustness",
        "src": str(write_lines(tmp_path / "src", SOURCES)),
        "ref": str(write_lines(tmp_path / "ref", ANSWERS)),
        "attack": [
            {"name": "one", "file": str(write_lines(tmp_path / "one", spoiled))},
            {"name": "two", "file": str(write_lines(tmp_path / "two", other))},
        ],
        "s_tgt": "zero_one",
        "success_threshold": 1.5,
    }
    models = [f"{tmp_path / 'model.py'}:Last", {"name": f"{tmp_path / 'model.py'}:Last", "label": "b", "careful": True}]
    evaluate({"task": task, "model": models}, tmp_path / "results")
    with Store(tmp_path / "results") as opened:
        yield opened


def test_the_headline_leaves_out_unchanged_inputs_and_counts_them(store):
    headline, _ = headlines(store, store.runs())
    # Of attack one a single input is changed, of attack two three.
    assert (headline.result.value, headline.result.n) == (0.75, 4)
    assert headline.scope == "4 attacked inputs (6 unchanged left out), 2 attacks"


def test_a_model_without_right_answers_is_not_praised(tmp_path):
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    task = {
        "name": "robustness",
        "src": str(write_lines(tmp_path / "src", SOURCES)),
        "ref": str(write_lines(tmp_path / "ref", ["something", "else", "than", "the", "answers"])),
        "attack": {"name": "one", "file": str(write_lines(tmp_path / "one", [f"{source}x" for source in SOURCES]))},
        "s_tgt": "zero_one",
        "success_threshold": 1.5,
    }
    evaluate({"task": task, "model": f"{tmp_path / 'model.py'}:Last"}, tmp_path / "results")
    with Store(tmp_path / "results") as opened:
        (headline,) = headlines(opened, opened.runs())
    assert headline.scope.endswith("; only 0.00 of the answers without attack are right, so few can break")
    assert "compare the right answers first" in headline.comparison_note


def test_the_headline_mentions_unchanged_inputs_only_if_there_are_some(store, monkeypatch):
    monkeypatch.setattr("lmassay.evaluations.robustness.card.UNCHANGED", "a label that no input has")
    headline, _ = headlines(store, store.runs())
    assert "unchanged" not in headline.scope


def test_the_headline_is_clustered_by_sentence(store):
    import numpy as np

    headline, _ = headlines(store, store.runs())
    values = np.asarray([1.0, 1.0, 0.0, 1.0])
    clustered = mean_estimate(values, [["cat", "cat", "dog", "cow"]]).interval()
    assert (headline.result.low, headline.result.high) == pytest.approx(clustered)
    assert clustered != pytest.approx(mean_estimate(values).interval())


def test_right_answers_that_turn_wrong_stand_next_to_success(store):
    headline, careful = headlines(store, store.runs())
    assert headline.details[0].startswith("right answers that turn wrong: 0.75 [")
    assert headline.details[0].endswith("] of 4")
    assert careful.details[0].startswith("right answers that turn wrong: 0.00 [")
    assert headline.details[1].startswith("right answers without attack: 1.00 [")


def test_models_are_compared_over_the_inputs_that_the_headline_counts(store):
    [pair] = differences_to_first_model(store, headlines(store, store.runs()))
    assert (pair.comparison.n, pair.comparison.base_mean, pair.comparison.new_mean) == (4, 0.75, 0.0)


def test_the_meaning_says_what_a_success_is(store):
    headline, _ = headlines(store, store.runs())
    assert "a right answer turns wrong" in headline.meaning
    assert "(similarity above 0.5)" in headline.meaning
