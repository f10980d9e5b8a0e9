"""Words in a blank through a server with vLLM's wire format: the numbers of the local model, or a refusal."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from lmassay.contracts import ask
from lmassay.errors import FatalModelError
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.models.hf.model import HuggingFace
from lmassay.types import Candidates, Slot
from tests.helpers import lmassay, write_config
from tests.scoring_servers import LIES, VllmServer, vllm_server
from tests.tiny_models import save_model

WORDS = ("laughs", "laugh", "author", "pilot", "zzz", "he")
BLANKS = [
    Slot("The author ", " near the pilot.", WORDS, ranked=False),
    Slot("", " authors laugh.", ("The", "Some"), ranked=False),
    Slot("The surgeon near the pilot ", ".", WORDS, ranked=False, multi_token=True),
]
# "the" is the word that separates others when the server is asked how it spells them.
RANKED = [Slot("The author ", ".", WORDS), Slot("Some dancers ", ".", (*WORDS, "the", "them"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("tiny"), "gpt2", window=256)


@pytest.fixture(scope="module")
def loaded(folder):
    return VllmServer(folder)


@pytest.fixture
def vllm(loaded):
    return copy.copy(loaded)


@pytest.fixture(scope="module")
def local(folder):
    return HuggingFace(str(folder), threads=1)


def server_model(url, **options):
    return OpenAICompatible("m", url, **{"wait": 0.01, "tries": 2, "timeout": 30.0, "probabilities": "auto", **options})


def answers(model, requests):
    responses = dict(ask(model, "slot", requests))
    return [responses[index].answer for index in range(len(requests))]


def assert_equal(remote, expected):
    assert isinstance(remote, Candidates)
    for name in ("logprobs", "ranks", "masses_above", "masses_below"):
        ours, theirs = getattr(remote, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(np.array(ours, float), np.array(theirs, float), atol=1e-4)


@pytest.mark.parametrize("way", ["echo", "prompt_logprobs"])
def test_words_that_are_scored_one_by_one_have_the_numbers_of_the_local_model(vllm, local, way):
    with vllm_server(vllm) as server:
        remote = answers(server_model(server.url, probabilities=way), BLANKS)
    for ours, theirs in zip(remote, answers(local, BLANKS), strict=True):
        assert_equal(ours, theirs)


def test_a_server_that_returns_its_whole_vocabulary_ranks_words_as_the_local_model_does(vllm, local):
    vllm.max_logprobs = -1
    with vllm_server(vllm) as server:
        model = server_model(server.url)
        report = model.connect({"slot"})
        asked_before = len(vllm.requests)
        remote = answers(model, RANKED)
        completions = [request for request in vllm.requests[asked_before:] if request["path"] == "/v1/completions"]
    assert report.signature == f"echo(prefix=none/<|endoftext|>,vocabulary={vllm.model.config.vocab_size})"
    assert len(completions) == len(RANKED)
    for ours, theirs in zip(remote, answers(local, RANKED), strict=True):
        assert_equal(ours, theirs)


def test_ranks_without_a_whole_vocabulary_stop_the_run(vllm):
    with vllm_server(vllm) as server:
        model = server_model(server.url)
        report = model.connect({"slot"})
        with pytest.raises(FatalModelError, match="start vLLM with --max-logprobs -1"):
            answers(model, RANKED)
    assert "20 tokens add up to" in report.findings[-1]


def test_ids_that_are_not_those_of_the_tokenizer_are_not_used(vllm):
    vllm.max_logprobs, vllm.shifts_ids = -1, True
    with vllm_server(vllm) as server:
        report = server_model(server.url).connect({"slot"})
    assert "vocabulary" not in report.signature
    assert "has two log-probabilities" in report.findings[-1]


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_server_is_refused_or_its_numbers_are_right(vllm, local, lie):
    vllm.lie = LIES[lie]
    with vllm_server(vllm) as server:
        try:
            remote = answers(server_model(server.url), BLANKS)
        except FatalModelError:
            return
    for ours, theirs in zip(remote, answers(local, BLANKS), strict=True):
        if ours is not None:
            assert_equal(ours, theirs)


def test_check_counts_one_request_per_word_unless_one_request_per_blank_is_enough(vllm, tmp_path):
    pair = {"sentence_good": "The author laughs.", "sentence_bad": "The author laugh."}
    write_config(tmp_path / "pairs.jsonl", pair)
    write_config(
        tmp_path / "c.yaml",
        {
            "task": {"name": "syntax", "data": "pairs.jsonl", "verbs": "none"},
            "model": {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "probabilities": "echo"},
        },
    )

    def requests_of(*more):
        done = lmassay("check", "c.yaml", "--json", *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        (run,) = json.loads(done.stdout)["runs"]
        return run["requests"]

    # The two forms of the verb are the words of the blank.
    assert requests_of() == 2
    vllm.max_logprobs = -1
    with vllm_server(vllm) as server:
        assert requests_of("--online", "--set", f"model.base_url={server.url}") == 1
