"""Servers that return probabilities, honest and lying: a right number or a refusal, never a wrong number."""

from __future__ import annotations

import copy

import pytest

from lmassay.contracts import ask
from lmassay.errors import FatalModelError
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.models.hf.model import HuggingFace
from lmassay.types import Continuation, LogProbs
from tests.scoring_servers import LIES, VllmServer, vllm_server
from tests.tiny_models import TEMPLATE, save_model

REQUESTS = [
    LogProbs("The author", " laughs near the pilot."),
    LogProbs("The author ", "laughs"),
    LogProbs("Some dan", "cers swim."),
    LogProbs("", "The authors laugh and the surgeons swim."),
    LogProbs("Ein Café:", " schöner Tag – 나쁨"),
    LogProbs("평가:나", "쁨 좋다"),
]
WAYS = ("echo", "prompt_logprobs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("tiny"), "gpt2", window=256, template=TEMPLATE)


@pytest.fixture(scope="module")
def vllm(folder):
    return VllmServer(folder)


@pytest.fixture(scope="module")
def expected(folder):
    local = dict(ask(HuggingFace(str(folder), threads=1), "logprobs", REQUESTS))
    return [local[index].answer for index in range(len(REQUESTS))]


def server_model(url, **options):
    return OpenAICompatible("m", url, **{"wait": 0.01, "tries": 2, "timeout": 30.0, "probabilities": "auto", **options})


def scores(model, requests=REQUESTS):
    responses = dict(ask(model, "logprobs", requests))
    return [responses[index] for index in range(len(requests))]


@pytest.mark.parametrize("way", WAYS)
def test_an_honest_server_gives_the_numbers_of_the_local_model(vllm, expected, way):
    with vllm_server(vllm) as server:
        model = server_model(server.url, probabilities=way)
        report = model.connect({"logprobs"})
        assert report.signature == f"{way}(prefix=none/<|endoftext|>)"
        assert report.tokens_in > 100
        for response, answer in zip(scores(model), expected, strict=True):
            assert response.answer.tokens == pytest.approx(answer.tokens, abs=1e-4)
            assert response.answer.total == pytest.approx(answer.total, abs=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_decodes_tokens_without_their_space_is_understood(vllm, expected, way):
    like_sentence_piece = copy.copy(vllm)
    like_sentence_piece.removes_spaces = True
    with vllm_server(like_sentence_piece) as server:
        model = server_model(server.url, probabilities=way)
        responses = scores(model)
    assert isinstance(responses[0].answer, Continuation)
    for response, answer in zip(responses, expected, strict=True):
        if isinstance(response.answer, Continuation):
            assert response.answer.total == pytest.approx(answer.total, abs=1e-4)
        else:
            assert "the server's tokens" in response.error


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("reports_usage", [True, False])
def test_a_lying_server_is_refused_or_its_numbers_are_right(vllm, expected, lie, way, reports_usage):
    liar = copy.copy(vllm)
    liar.lie, liar.reports_usage = LIES[lie], reports_usage
    with vllm_server(liar) as server:
        model = server_model(server.url, probabilities=way)
        try:
            model.connect({"logprobs"})
        except FatalModelError as error:
            assert way in str(error)
            assert "\n" not in str(error)
            return
        for response, answer in zip(scores(model), expected, strict=True):
            if isinstance(response.answer, Continuation):
                assert response.answer.total == pytest.approx(answer.total, abs=1e-3)


def test_a_server_that_accepts_echo_and_returns_no_numbers_is_reported(vllm):
    silent = copy.copy(vllm)
    silent.returns_numbers = False
    with vllm_server(silent) as server, pytest.raises(FatalModelError) as caught:
        server_model(server.url).connect({"logprobs"})
    assert "echo: the server accepts `echo` but returns no log-probabilities of the prompt" in str(caught.value)
    assert "prompt_logprobs: the server ignores `prompt_logprobs`" in str(caught.value)
    assert "llama.cpp: /tokenize: there is no such model or address (HTTP 404" in str(caught.value)
