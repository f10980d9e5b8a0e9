"""Surprisal of words and tokens."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import lmassay
from lmassay.errors import UserError
from lmassay.models.echo import Echo
from lmassay.models.hf.model import HuggingFace
from tests.helpers import lmassay as command
from tests.tiny_models import save_model


def setup_module() -> None:
    """Import transformers when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")


MODELS = Path(__file__).parents[1] / "published/figures/tse/models"
GPT2, BERT = str(MODELS / "gpt2-tiny"), str(MODELS / "bert-tiny")
TEXTS = ["The keys to the cabinet are on the table.", "Uncharacteristically, he left."]
# Printed by minicons 0.3.39: IncrementalLMScorer.word_score_tokenized(TEXTS, str.split, bow_correction=True,
# bos_token=True, surprisal=True, base_two=True), and the same without correction.
CORRECTED = [
    [19.65333, 43.34428, 24.84793, 22.16958, 84.23846, 17.21504, 36.82025, 19.21136, 71.66576],
    [163.86475, 11.53161, 39.61493],
]
PLAIN = [
    [19.42835, 43.12101, 24.64760, 22.24206, 84.64520, 16.96959, 36.34491, 19.42993, 71.83243],
    [163.16849, 11.71513, 39.77447],
]


def values(texts):
    return [[unit.value for unit in text] for text in texts]


@pytest.mark.parametrize(("correction", "expected"), [("space", CORRECTED), ("none", PLAIN)])
def test_words_have_the_surprisal_that_minicons_gives_them(correction, expected):
    scored = lmassay.surprisal(GPT2, TEXTS, correction=correction)
    assert [[word.text for word in text] for text in scored] == [text.split() for text in TEXTS]
    for of_text, expected_of_text in zip(values(scored), expected, strict=True):
        assert of_text == pytest.approx(expected_of_text, abs=1e-3)


def test_tokens_add_up_to_the_log_probability_of_the_text():
    from lmassay.contracts import ask
    from lmassay.types import LogProbs

    (scored,) = lmassay.surprisal(GPT2, TEXTS[:1], per="token", unit="nats")
    ((_, response),) = ask(HuggingFace(GPT2), "logprobs", [LogProbs("", TEXTS[0])])
    assert sum(token.value for token in scored) == pytest.approx(-response.answer.total, abs=1e-3)
    assert "".join(token.text for token in scored).replace(" ", "") == TEXTS[0].replace(" ", "")


def test_corrected_words_differ_from_plain_ones_by_what_moves_between_neighbours():
    corrected = values(lmassay.surprisal(GPT2, TEXTS[:1]))[0]
    plain = values(lmassay.surprisal(GPT2, TEXTS[:1], correction="none"))[0]
    # What one word gains, the next one loses: only the boundary after the last word remains.
    with_end = values(lmassay.surprisal(GPT2, TEXTS[:1], correction="space+end"))[0]
    assert sum(corrected) > sum(plain)
    assert sum(plain) < sum(with_end) < sum(corrected)


def test_bits_are_nats_divided_by_the_logarithm_of_two():
    bits = values(lmassay.surprisal(BERT, TEXTS))[0]
    nats = values(lmassay.surprisal(BERT, TEXTS, unit="nats"))[0]
    assert [value * math.log(2) for value in bits] == pytest.approx(nats)


def test_words_of_a_masked_model_add_up_to_its_pseudo_log_likelihood():
    from lmassay.contracts import ask
    from lmassay.types import LogProbs

    (scored,) = lmassay.surprisal(BERT, TEXTS[:1], unit="nats")
    ((_, response),) = ask(HuggingFace(BERT), "logprobs", [LogProbs("", TEXTS[0])])
    assert sum(word.value for word in scored) == pytest.approx(-response.answer.total, abs=1e-3)


def test_a_first_token_that_nothing_precedes_has_no_value():
    (scored,) = lmassay.surprisal(HuggingFace(GPT2, prefix="none"), TEXTS[:1], per="token")
    assert scored.units[0].value is None
    assert scored.units[1].value is not None
    (single,) = lmassay.surprisal(HuggingFace(GPT2, prefix="none"), ["The"], per="token")
    assert [token.value for token in single] == [None]


def test_spaces_belong_to_the_word_after_them_and_odd_texts_are_read():
    scored = lmassay.surprisal(GPT2, ["The  dog", "", "   ", "고양이가 잔다", "a\u00a0b"])
    assert [[word.text for word in text] for text in scored] == [
        ["The", "dog"],
        [],
        [],
        ["고양이가", "잔다"],
        ["a", "b"],
    ]
    plain = lmassay.surprisal(GPT2, ["The  dog"], per="token")
    assert scored[0].units[1].tokens == len(plain[0]) - 1


def test_a_text_beyond_the_window_is_left_out_with_the_reason(tmp_path):
    (scored,) = lmassay.surprisal(GPT2, ["dog " * 5000])
    assert not len(scored)
    assert "longer than the model's window" in scored.reason


def test_wrong_arguments_are_named():
    with pytest.raises(UserError, match="unit: must be one of bits, nats"):
        lmassay.surprisal(GPT2, TEXTS, unit="bit")
    with pytest.raises(UserError, match="give a list of texts"):
        lmassay.surprisal(GPT2, "The dog")
    with pytest.raises(UserError, match="needs a local model"):
        lmassay.surprisal(Echo(), TEXTS)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_a_row_for_each_word(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join([*TEXTS, ""]), encoding="utf-8")
    done = command("surprisal", GPT2, "--in", "text.txt", "-o", "scores.tsv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        "12 words with beginning-of-word correction in 2 lines, in bits; causal model gpt2-tiny, prefix" in done.stderr
    )
    header, *rows = (tmp_path / "scores.tsv").read_text(encoding="utf-8").splitlines()
    assert header.split("\t") == ["line", "number", "text", "start", "end", "tokens", "surprisal"]
    assert len(rows) == 12
    assert float(rows[-1].split("\t")[-1]) == pytest.approx(CORRECTED[1][2], abs=1e-3)


def test_csv_is_written_where_the_name_says_so_and_other_names_are_refused(tmp_path):
    (tmp_path / "text.txt").write_text("=1+1 is two\n", encoding="utf-8")
    done = command("surprisal", BERT, "--in", "text.txt", "-o", "scores.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "'=1+1" in (tmp_path / "scores.csv").read_text(encoding="utf-8")
    done = command("surprisal", BERT, "--in", "text.txt", "-o", "scores.md", cwd=tmp_path)
    assert done.returncode == 2
    assert "must end in .tsv or .csv" in done.stderr


@pytest.mark.fault(29)
def test_a_line_that_is_too_long_is_reported_and_the_others_are_written(tmp_path):
    (tmp_path / "text.txt").write_text("The dog.\n" + "dog " * 5000 + "\n", encoding="utf-8")
    done = command("surprisal", GPT2, "--in", "text.txt", "-o", "scores.tsv", cwd=tmp_path)
    assert done.returncode == 1
    assert "text.txt, line 2: the text is longer than the model's window" in done.stderr
    assert len((tmp_path / "scores.tsv").read_text(encoding="utf-8").splitlines()) == 3


def test_a_text_that_begins_with_the_tokenizers_own_first_token_causes_a_warning(tmp_path):
    (tmp_path / "text.txt").write_text("[CLS] The dog.\n", encoding="utf-8")
    done = command("surprisal", BERT, "--in", "text.txt", "-o", "scores.tsv", cwd=tmp_path)
    assert "line 1 begins with [CLS], which the tokenizer puts before every text" in done.stderr
    # A masked model has no option ``prefix``.
    assert "prefix: none" not in done.stderr


def test_the_warning_about_the_first_token_ends_if_its_advice_is_followed(tmp_path):
    save_model(tmp_path / "llama", "llama")
    (tmp_path / "text.txt").write_text("<s> the dog\n", encoding="utf-8")
    done = command("surprisal", "{name: hf, model: llama}", "--in", "text.txt", cwd=tmp_path)
    assert "line 1 begins with <s>" in done.stderr
    assert "set the model's option prefix: none" in done.stderr
    done = command("surprisal", "{name: hf, model: llama, prefix: none}", "--in", "text.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "begins with" not in done.stderr


def test_a_model_behind_an_api_and_a_missing_file_are_refused_in_one_line(tmp_path):
    (tmp_path / "text.txt").write_text("The dog.\n", encoding="utf-8")
    done = command("surprisal", "echo", "--in", "text.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert "surprisal needs a local model" in done.stderr
    done = command("surprisal", GPT2, "--in", "none.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert "none.txt does not exist" in done.stderr


def test_unknown_words_cause_a_warning(tmp_path):
    (tmp_path / "text.txt").write_text("The dog.\nThe 개 barks.\n", encoding="utf-8")
    done = command("surprisal", BERT, "--in", "text.txt", "-o", "scores.tsv", cwd=tmp_path)
    assert done.returncode == 0
    assert "first in line 2; the surprisal of such a word is that of [UNK]" in done.stderr


def test_the_command_says_that_a_masked_model_needs_no_correction(tmp_path):
    (tmp_path / "text.txt").write_text("the dog\n", encoding="utf-8")
    done = command("surprisal", BERT, "--in", "text.txt", "-o", "scores.tsv", cwd=tmp_path)
    assert "2 words in 1 line, in bits; masked model bert-tiny, which needs no correction" in done.stderr
