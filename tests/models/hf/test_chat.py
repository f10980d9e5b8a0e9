"""Chat turns are written as the model's makers do, and plainly where they do not say how."""

from __future__ import annotations

import doctest
from functools import lru_cache
from pathlib import Path

import pytest

from lmassay.contracts import ask
from lmassay.errors import ConfigError
from lmassay.models.hf import chat
from lmassay.models.hf.model import HuggingFace, SmolLM2
from lmassay.types import Generate, LogProbs
from tests.tiny_models import TEMPLATE, save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    global torch, AutoModelForCausalLM, AutoTokenizer
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer


FORGETFUL = "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}"
ASKED = (("user", "Some dancers are tall"),)
TURNS = (("user", "The author laughs"), ("assistant", "the pilot swims"), ("user", " people "))


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    root = tmp_path_factory.mktemp("chat")

    @lru_cache
    def folder(family: str, template: str | None) -> Path:
        return save_model(root / f"{family}-{len(template or '')}", family, window=256, template=template)

    return folder


def answers(model, verb, requests):
    response_of = dict(ask(model, verb, requests))
    return [response_of[index] for index in range(len(requests))]


def templated_ids(folder: Path, messages) -> list[int]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    turns = [{"role": role, "content": content} for role, content in messages]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def greedy(folder: Path, ids: list[int], tokens: int) -> str:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        prompt = torch.tensor([ids])
        whole = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, do_sample=False, pad_token_id=0
        )[0].tolist()
    return tokenizer.decode(whole[len(ids) :], skip_special_tokens=True)


@pytest.mark.parametrize("messages", [ASKED, TURNS])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_messages_are_written_by_the_template_with_one_mark_at_the_beginning(folder_of, family, messages):
    folder = folder_of(family, TEMPLATE)
    ids = templated_ids(folder, messages)
    bos = AutoTokenizer.from_pretrained(folder).bos_token_id
    assert ids.count(bos) == 1
    (response,) = answers(HuggingFace(str(folder)), "generate", [Generate(messages=messages, max_tokens=6)])
    assert response.tokens_in == len(ids)
    assert response.text == greedy(folder, ids, 6)


@pytest.mark.parametrize("prefix", ["auto", "bos"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_reply_is_scored_right_behind_the_template(folder_of, family, prefix):
    folder = folder_of(family, TEMPLATE)
    reply = "the surgeons swim"
    local = HuggingFace(str(folder), prefix=prefix)
    (response,) = answers(local, "logprobs", [LogProbs("", reply, messages=TURNS)])
    before = templated_ids(folder, TURNS)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    text = chat.Chat(tokenizer, "auto").prompt(TURNS).text
    ids = tokenizer(text + reply, add_special_tokens=False)["input_ids"]
    assert ids[: len(before)] == before
    with torch.no_grad():
        logprobs = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), dim=-1)
    expected = [float(logprobs[at - 1, ids[at]]) for at in range(len(before), len(ids))]
    assert response.answer.tokens == pytest.approx(expected, abs=2e-4)
    assert response.tokens_in == len(ids) - 1


@pytest.mark.parametrize(("template", "policy"), [(None, "auto"), (TEMPLATE, "never")])
def test_without_a_template_a_single_message_is_the_bare_text_and_several_are_a_transcript(folder_of, template, policy):
    local = HuggingFace(str(folder_of("llama", template)), chat=policy)
    transcript = "user: The author laughs\nassistant: the pilot swims\nuser:  people \nassistant:"
    requests = [Generate(messages=ASKED), Generate(ASKED[0][1]), Generate(messages=TURNS), Generate(transcript)]
    one, bare, several, whole = answers(local, "generate", requests)
    assert (one.text, one.tokens_in) == (bare.text, bare.tokens_in)
    assert (several.text, several.tokens_in) == (whole.text, whole.tokens_in)
    asked = [LogProbs("", " is", messages=ASKED), LogProbs(ASKED[0][1], " is")]
    scored, plainly = answers(local, "logprobs", asked)
    assert scored.answer == plainly.answer


def test_a_template_that_refuses_a_role_is_an_error_of_that_request(folder_of):
    local = HuggingFace(str(folder_of("llama", TEMPLATE)))
    message = (("system", "Be brief."), *ASKED)
    requests = [Generate(messages=message), Generate(messages=message, choices=("A", "B")), Generate(messages=ASKED)]
    refused, also, fine = answers(local, "generate", requests)
    for response in (refused, also, *answers(local, "logprobs", [LogProbs("", "A", messages=message)])):
        assert "refuses these messages (system, user): System role not supported" in response.error
        assert "chat: never" in response.error
    assert fine.usable


def test_a_template_that_skips_a_role_does_not_do_so_silently(folder_of):
    local = HuggingFace(str(folder_of("llama", FORGETFUL)))
    lost, fine = answers(
        local, "generate", [Generate(messages=(("system", "Be brief."), *ASKED)), Generate(messages=TURNS)]
    )
    assert "leaves out the system message" in lost.error
    assert fine.usable


def test_a_template_with_a_mistake_in_it_is_reported_in_one_line(folder_of):
    (response,) = answers(
        HuggingFace(str(folder_of("gpt2", "{{ messages[0].content | nonsense }}"))),
        "generate",
        [Generate(messages=ASKED)],
    )
    assert "nonsense" in response.error
    assert "\n" not in response.error


def test_the_policy_and_the_template_are_part_of_what_a_model_is(folder_of):
    one, other = (HuggingFace(str(folder_of("llama", template))).identity() for template in (TEMPLATE, FORGETFUL))
    assert "chat" not in one
    assert one["weights"] != other["weights"]
    never = HuggingFace(str(folder_of("llama", TEMPLATE)), chat="never").identity()
    assert never == {**one, "chat": "never"}
    assert SmolLM2(chat="never")._chat == "never"


def test_a_masked_model_does_not_chat(tmp_path):
    folder = save_model(tmp_path / "bert", "bert")
    with pytest.raises(ConfigError, match=r"model\.chat: a masked model does not chat"):
        HuggingFace(str(folder), chat="never").check()
    (response,) = answers(HuggingFace(str(folder)), "logprobs", [LogProbs("", "are", messages=ASKED)])
    assert "does not chat" in response.error


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(chat).failed == 0
    assert doctest.testmod(chat).attempted == 2
