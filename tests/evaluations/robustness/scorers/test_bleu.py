"""BLEU with other tokenizers than 13a, whose scores are sacrebleu's own."""

from __future__ import annotations

import importlib.util

import pytest
import sacrebleu

from lmassay.errors import ConfigError, DataError, UserError
from lmassay.evaluations.robustness.scorers.bleu import BLEU
from lmassay.evaluations.robustness.scorers.chrf import ChrFPlusPlus

HYP, REF = "今天的天气很好。", "今天的天气不错。"


@pytest.mark.parametrize("tokenize", ["zh", "char", "intl", "none"])
def test_scores_are_those_of_sacrebleu(tokenize):
    (score,) = BLEU(tokenize=tokenize).score([HYP], [REF])
    options = {"smooth_method": "floor", "smooth_value": 0.01, "tokenize": tokenize}
    assert score == pytest.approx(sacrebleu.sentence_bleu(HYP, [REF], **options).score / 100)
    assert f"tok:{tokenize}|" in BLEU(tokenize=tokenize).signature


def test_chinese_has_matches_with_its_own_tokenizer_only():
    assert BLEU().score([HYP], [REF]) == [0.0]
    assert BLEU(tokenize="zh").score([HYP], [REF])[0] > 0.4


def test_flores200_reads_a_local_file(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"the cat number {n} sat on the mat" for n in range(200)), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "spm"), vocab_size=40, minloglevel=2
    )
    scorer = BLEU(tokenize="flores200", tokenizer_file=tmp_path / "spm.model")
    scorer.check()
    same, other = scorer.score(["the cat sat on the mat"] * 2, ["the cat sat on the mat", "the mat sat"])
    assert same == pytest.approx(1)
    assert 0 < other < 1
    assert "tok:flores200[sha:" in scorer.signature


def test_mistakes_are_named_before_anything_is_scored(tmp_path):
    with pytest.raises(ConfigError, match="tokenize must be one of 13a, intl, zh"):
        BLEU(tokenize="moses")
    with pytest.raises(ConfigError, match="flores200 needs tokenizer_file"):
        BLEU(tokenize="flores200")
    with pytest.raises(ConfigError, match="is for tokenize: 13a only"):
        BLEU(tokenize="zh", compat="1.x")
    with pytest.raises(DataError, match="does not exist"):
        BLEU(tokenize="flores200", tokenizer_file=tmp_path / "none.model").check()
    broken = tmp_path / "broken.model"
    broken.write_bytes(b"not a model")
    with pytest.raises(UserError, match="is not a SentencePiece model"):
        BLEU(tokenize="flores200", tokenizer_file=broken).score(["a"], ["a"])


@pytest.mark.parametrize(("tokenize", "package"), [("ja-mecab", "MeCab"), ("ko-mecab", "mecab_ko")])
def test_a_tokenizer_that_needs_a_package_says_which(tokenize, package):
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    with pytest.raises(UserError, match=f"needs the package {package}: pip install"):
        BLEU(tokenize=tokenize).check()


def test_chrf_plus_plus_is_that_of_sacrebleu():
    (score,) = ChrFPlusPlus().score(["the cat sat"], ["the cat sits"])
    assert score == pytest.approx(sacrebleu.sentence_chrf("the cat sat", ["the cat sits"], word_order=2).score / 100)
