"""An answer among choices is the most probable one, exactly, without a word being generated."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import pytest

from lmassay.contracts import ask
from lmassay.errors import ModelError
from lmassay.models.hf.model import HuggingFace
from lmassay.types import Generate
from tests.models.hf.test_prefix_tree import PROMPTS, distinct, tokens_read
from tests.tiny_models import SENTENCES, TEMPLATE, save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    global torch, AutoModelForCausalLM, AutoTokenizer, _choice_logprobs
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from lmassay.models.hf.choices import _choice_logprobs


LETTERS = ("A", "S", "T")
MANY = (*LETTERS, "l", "p", "t", "u", "s")


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    root = tmp_path_factory.mktemp("choices")

    @lru_cache
    def folder(family: str, seed: int = 0) -> Path:
        reach = 16 if family == "mistral" else None
        return save_model(root / f"{family}-{seed}", family, seed=seed, window=256, reach=reach, template=TEMPLATE)

    return folder


def answers(model, requests):
    response_of = dict(ask(model, "generate", requests))
    return [response_of[index] for index in range(len(requests))]


def spelled(tokenizer, text: str, ends: tuple[str, ...]):
    """The tokens of a prompt, and the tokens that each end adds to it."""
    before = tokenizer(text, add_special_tokens=False)["input_ids"]
    wholes = [tokenizer(text + end, add_special_tokens=False)["input_ids"] for end in ends]
    assert all(whole[: len(before)] == before for whole in wholes)
    return before, [whole[len(before) :] for whole in wholes]


def probability(model, before, tokens) -> float:
    with torch.no_grad():
        logprobs = torch.log_softmax(model(torch.tensor([[*before, *tokens]])).logits[0].double(), dim=-1)
    return math.exp(sum(float(logprobs[len(before) + i - 1, token]) for i, token in enumerate(tokens)))


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "gpt_neox", "mistral", "mamba"])
def test_the_most_probable_choice_is_answered_with_or_without_a_blank_before_it(folder_of, family):
    folder = folder_of(family, 2)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    prompts = [f"{sentence} {end}" for sentence in SENTENCES for end in ("the author:", "The pilot swims near")]
    responses = answers(HuggingFace(str(folder)), [Generate(prompt, choices=MANY) for prompt in prompts])
    own = tokenizer("x")["input_ids"][: -len(tokenizer("x", add_special_tokens=False)["input_ids"])]
    for prompt, response in zip(prompts, responses, strict=True):
        weights = {}
        for letter in MANY:
            before, spellings = spelled(tokenizer, prompt, (letter, f" {letter}"))
            weights[letter] = sum(probability(model, [*own, *before], way) for way in {*map(tuple, spellings)})
        assert response.text == max(weights, key=weights.get)
        assert (response.finish, response.tokens_in) == ("stop", len(own) + len(before))
        assert response.tokens_out in map(len, spellings)
    assert len({response.text for response in responses}) > 1


def test_behind_white_space_only_the_bare_choice_counts(folder_of):
    words = HuggingFace(str(folder_of("gpt2")))._engine._choice_selector
    for prompt in ("The author: ", "The author:\n"):
        assert all(len(spellings) == 1 for spellings in words._question(Generate(prompt, choices=LETTERS)).spellings)
    assert all(len(spellings) == 2 for spellings in words._question(Generate("The author:", choices=LETTERS)).spellings)
    # A template that ends in a line break; its own special tokens are not doubled.
    question = words._question(Generate(messages=(("user", "The author"),), choices=LETTERS))
    assert all(len(spellings) == 1 for spellings in question.spellings)
    assert question.prompt.count(words._word_tokenizer.tokenizer.bos_token_id) == 1


def test_a_prompt_keeps_its_tokens_where_a_choice_could_melt_into_them(folder_of):
    words = HuggingFace(str(folder_of("gpt2")))._word_tokenizer
    before = words._ids("The surge")
    assert words._ids("The surgeons")[: len(before)] != before
    assert words.tokenizer.decode(words.tokens_after("The surge", ["ons"])[0]) == "ons"


def test_where_one_choice_begins_another_the_longer_one_is_not_counted_twice():
    spellings = [((1,),), ((1, 2),), ((1, 2, 3), (4,))]
    logprobs = {(1,): math.log(0.5), (1, 2): math.log(0.4), (1, 2, 3): math.log(0.1), (4,): math.log(0.05)}
    assert [math.exp(weight) for weight in _choice_logprobs(spellings, logprobs)] == pytest.approx([0.1, 0.3, 0.15])
    certain = _choice_logprobs([((1,),), ((1, 2),)], {(1,): -3.0, (1, 2): -3.0})
    assert certain[1] == pytest.approx(-3.0)
    assert certain[0] < -1e6


def test_draws_follow_the_probabilities_of_the_choices_and_depend_on_nothing_else(folder_of):
    local = HuggingFace(str(folder_of("gpt2", 3)))
    chooser = local._engine._choice_selector
    question = chooser._question(Generate("The author:", choices=LETTERS))
    texts = [((*question.prompt, *way), len(question.prompt)) for way in question.distinct_spellings]
    logprobs = {question.distinct_spellings[i]: float(v.sum()) for i, v in local._engine._causal.score(texts)}
    weights = torch.tensor(_choice_logprobs(question.spellings, logprobs))
    for temperature in (1.0, 2.5):
        drawn = [Generate("The author:", choices=LETTERS, temperature=temperature, draw=str(i)) for i in range(600)]
        drawn_texts = [response.text for response in answers(local, drawn)]
        for letter, p in zip(LETTERS, torch.softmax(weights / temperature, dim=0).tolist(), strict=True):
            assert drawn_texts.count(letter) / len(drawn_texts) == pytest.approx(p, abs=0.08)
        assert [response.text for response in answers(local, drawn[:20])] == drawn_texts[:20]


def test_many_prompts_with_three_letters_cost_one_pass_over_their_distinct_tokens(folder_of):
    local = HuggingFace(str(folder_of("llama")), batch_tokens=60)
    requests = [Generate(prompt, choices=LETTERS) for prompt in PROMPTS]
    # The end of a prompt, whose successor is asked for, may be read again.
    assert tokens_read(local, "generate", requests) <= distinct(local, PROMPTS) + len(PROMPTS)


@pytest.mark.parametrize("batch_tokens", [1, 60, 10_000])
def test_the_size_of_a_batch_changes_no_choice(folder_of, batch_tokens):
    requests = [Generate(prompt, choices=("the author", "people", "A", "A customer")) for prompt in PROMPTS]
    one, other = (HuggingFace(str(folder_of("qwen2")), batch_tokens=n) for n in (batch_tokens, None))
    assert [r.text for r in answers(one, requests)] == [r.text for r in answers(other, requests)]


def test_choices_and_free_answers_may_be_mixed(folder_of):
    local = HuggingFace(str(folder_of("llama")))
    free, chosen, drawn = (
        Generate("The author", max_tokens=4),
        Generate("The author", choices=LETTERS),
        Generate("The author", choices=("people",), temperature=1.0),
    )
    together = answers(local, [chosen, free, drawn])
    assert together[0].text in LETTERS
    assert together[1].text == answers(local, [free])[0].text
    assert together[2].text == "people"


def test_what_cannot_be_chosen_is_reported(folder_of):
    local = HuggingFace(str(folder_of("llama")))
    odd, empty, long, fine = answers(
        local,
        [
            Generate("The author", choices=("A", "Ω")),
            Generate("The author", choices=("A", "")),
            Generate("The author near the pilot " * 60, choices=LETTERS),
            Generate("The author", choices=LETTERS),
        ],
    )
    assert "cannot spell the choice 'Ω'" in odd.error
    assert "cannot spell the choice ''" in empty.error
    assert (long.finish, long.usable) == ("too_long", False)
    assert fine.usable


def test_an_error_in_one_spelling_is_an_error_of_that_request_only(folder_of, monkeypatch):
    local = HuggingFace(str(folder_of("llama")))
    requests = [Generate("The author", choices=LETTERS), Generate("The authors near", choices=LETTERS)]
    expected = answers(local, requests)
    chooser = local._engine._choice_selector
    honest = chooser._score

    def forgetful(texts):
        for entry, values in honest(texts):
            yield entry, ModelError("out of memory on this text alone") if entry == 1 else values

    monkeypatch.setattr(chooser, "_score", forgetful)
    failed, fine = answers(local, requests)
    assert "out of memory" in failed.error
    assert fine.text == expected[1].text


def test_a_real_model_chooses_what_is_true(smollm2):
    local = HuggingFace(str(smollm2), threads=1)
    asked = "The capital of France is"
    cities, letters = ("London", "Paris", "Rome"), ("A", "B", "C")
    question = "Which city is the capital of France?\nA: London\nB: Paris\nC: Rome\nAnswer:"
    responses = answers(
        local, [Generate(asked, choices=cities), Generate(messages=(("user", question),), choices=letters)]
    )
    assert responses[0].text == "Paris"
    assert (responses[0].tokens_in, responses[0].tokens_out) == (5, 1)
    assert responses[1].text in letters
