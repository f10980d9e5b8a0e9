"""A real llama.cpp server with the embedded model, next to the same model inside lmassay.

llama.cpp multiplies quantised weights with quantised activations, and the local model uses float32. So the numbers
differ slightly; the tokens do not. benchmarks/server_probabilities.py measures the difference.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from lmassay.contracts import ask
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.models.hf.model import SmolLM2
from lmassay.types import LogProbs, Slot
from tests.helpers import lmassay, write_config

pytestmark = pytest.mark.slow

WORDS = ("is", "are", "was", "were", "has", "have", "likes", "like", "plays", "play", "xylophones")
# The largest difference that was measured for words that are not very improbable is 0.70.
LARGEST_DIFFERENCE = 1.5
# In 12 of 150 blanks the best words differ. For the local model they are 0.003 to 0.151 apart.
NEAR_TIE = 0.2


@pytest.fixture(scope="module")
def model(llama_url):
    return OpenAICompatible("smollm2", llama_url, probabilities="auto", concurrency=2)


@pytest.fixture(scope="module")
def local(smollm2):
    return SmolLM2(threads=1)


def answers(model, verb, requests):
    responses = dict(ask(model, verb, requests))
    return [responses[index].answer for index in range(len(requests))]


def test_the_missing_log_probabilities_of_prompts_are_detected_and_the_native_endpoints_used(model):
    report = model.connect({"logprobs", "slot"})
    assert report.signature == "llama.cpp(prefix=none/<|endoftext|>,vocabulary=49152)"
    assert report.findings[0] == "echo: the server accepts `echo` but returns no log-probabilities of the prompt"
    assert report.findings[1] == "prompt_logprobs: the server ignores `prompt_logprobs`"


def test_texts_have_the_tokens_and_nearly_the_numbers_of_the_local_model(model, local):
    requests = [
        LogProbs("", "The keys are on the table."),
        LogProbs("The keys to the cabinet", " are"),
        LogProbs("The keys to the cabinet ", "is"),
        LogProbs("abc", "def"),
        LogProbs("", "A", messages=(("user", "Which letter comes first, A or B?"),)),
        # Both end inside a character, so the server has to be asked for its whole distribution.
        LogProbs("평가:", " 나"),
    ]
    for ours, theirs in zip(answers(model, "logprobs", requests), answers(local, "logprobs", requests), strict=True):
        assert len(ours.tokens) == len(theirs.tokens)
        assert ours.tokens == pytest.approx(theirs.tokens, abs=LARGEST_DIFFERENCE)
        assert ours.total == pytest.approx(sum(ours.tokens))


def test_blanks_have_the_same_best_word_as_the_local_model_or_a_near_tie(model, local):
    lefts = ["The keys to the cabinet ", "The man who the dogs like ", "The children ", ""]
    requests = [Slot(left, " here.", WORDS) for left in lefts]
    for ours, theirs in zip(answers(model, "slot", requests), answers(local, "slot", requests), strict=True):
        server, own = np.array(ours.logprobs, float), np.array(theirs.logprobs, float)
        assert np.array_equal(np.isnan(server), np.isnan(own)), "the same words are one token"
        assert np.nanmax(np.abs(server - own)) < LARGEST_DIFFERENCE
        assert np.nanmax(own) - own[np.nanargmax(server)] < NEAR_TIE
        top = int(np.nanargmax(server))
        assert ours[top].mass_above == pytest.approx(theirs[top].mass_above, abs=0.1)


def test_words_of_several_tokens_are_scored_by_the_chain_rule(model, local):
    requests = [Slot("The man ", " here.", ("sings", "xylophones"), ranked=False, multi_token=True)]
    (server,), (own,) = answers(model, "slot", requests), answers(local, "slot", requests)
    assert list(server.logprobs) == pytest.approx(list(own.logprobs), abs=LARGEST_DIFFERENCE)


def test_agreement_is_evaluated_through_the_server(llama_url, tmp_path):
    task = {"name": "syntax", "data": "english:simple", "max_per_file": 1}
    model = {"name": "openai", "base_url": llama_url, "model": "smollm2", "probabilities": "llama.cpp"}
    file = write_config(tmp_path / "c.yaml", {"task": task, "model": model})
    done = lmassay("run", file, "--results", tmp_path / "r", "--json")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert {result["metric"] for result in run["results"]} >= {"tse", "ew", "mw"}
    assert "server:llama.cpp(" in run["signature"]
