"""Numbers on the page about models behind an API, by the constants of the code."""

from __future__ import annotations

import inspect
import re

from lmassay.models.api import client, concurrency, failures
from lmassay.models.api.openai_models import OpenAICompatible
from tests.docs.blocks import page_text
from tests.helpers import ROOT

PAGE = " ".join(page_text("docs/api-models.md").split())


def test_the_page_states_when_a_request_is_given_up():
    options = inspect.signature(OpenAICompatible).parameters
    assert f"up to `tries` ({options['tries'].default}) times" in PAGE
    assert f"**`timeout`** ({options['timeout'].default:g} s)" in PAGE
    assert concurrency.BUSY_PATIENCE == 90
    assert "after a 429 for at least a minute and a half" in PAGE


def test_the_page_states_when_a_run_stops():
    assert failures.MAX_WAIT == 120
    assert "asks to wait for more than two minutes" in PAGE
    assert f"{concurrency.MAX_CONSECUTIVE_FAILURES} failures in a row" in PAGE
    assert f"refuses all connections for {concurrency.REFUSED_PATIENCE:g} seconds" in PAGE


def test_the_page_states_how_large_an_answer_may_be():
    assert f"up to {client.MAX_BODY >> 20} MiB after decompression ({client.MAX_SCORES_BODY >> 20} MiB with" in PAGE
    assert f"and {failures._DEEPEST} levels of JSON" in PAGE


def test_the_page_states_when_two_computations_of_a_model_count_as_equal():
    source = (ROOT / "benchmarks" / "server_probabilities.py").read_text(encoding="utf-8")
    near_tie = float(re.search(r"^_NEAR_TIE = ([\d.]+)$", source, re.MULTILINE)[1])
    agreement = float(re.search(r"^_REQUIRED_AGREEMENT = ([\d.]+)$", source, re.MULTILINE)[1])
    assert f"differs at more than {100 * (1 - agreement):.0f} % of the blanks" in PAGE
    assert f"a log-probability {near_tie:g} nats or more below" in PAGE
