"""Servers that hang, drip, lie, break off and refuse: every question is answered or its error named; no key leaks."""

from __future__ import annotations

import json
import logging
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter

import pytest

from lmassay.contracts import ask
from lmassay.errors import FatalModelError
from lmassay.models.api import concurrency
from lmassay.models.api.claude import Claude
from lmassay.models.api.client import MAX_BODY
from lmassay.models.api.openai_models import Azure, Clova, OpenAICompatible
from lmassay.storage.store import Store
from lmassay.types import Generate
from tests import servers
from tests.batch_servers import Batches
from tests.faults import chaos
from tests.helpers import lmassay, write_config, write_lines
from tests.servers import completion, failure, message, openai_server, prompt_of

KEY = "sentinel-key-0123456789"
TRIES = 4
LONG = b"%x\r\n%s\r\n0\r\n\r\n" % (MAX_BODY + 1, b" " * (MAX_BODY + 1))
BOMB = servers.gzip_bomb(MAX_BODY + 1)

# Every fault with a word of the error that names it if it never ends; None for one that is an answer.
FAULTS = {
    "429 with a wait": (failure(429, f"slow down, {KEY}", Retry_After="0.02"), "HTTP 429"),
    "429 with milliseconds": (failure(429, retry_after_ms="20"), "HTTP 429"),
    "429 with a date": (failure(429, Retry_After="Wed, 21 Oct 2020 07:28:00 GMT"), "HTTP 429"),
    "429 without a wait": (failure(429), "HTTP 429"),
    "500": (failure(500, f"oops {KEY}"), "HTTP 500"),
    "503": (failure(503), "HTTP 503"),
    "a page": (servers.HTML, "not JSON"),
    "nothing": (servers.EMPTY, "not JSON: (empty body)"),
    "half a body": (servers.CLOSE_MID_BODY, "the connection broke"),
    "no word": (servers.CLOSE_AT_ONCE, "the connection broke"),
    "a hang": (servers.HANG, "did not answer in time"),
    "a drip": (servers.DRIP, "did not answer in time"),
    "a length too short": (servers.TOO_SHORT, ""),
    "a length too long": (servers.TOO_LONG, "the connection broke"),
    "a bad packing": ((200, {"Content-Encoding": "gzip"}, b"not gzip"), "could not be decompressed"),
    "a bomb": (BOMB, "larger than 16 MiB"),
    "two lengths": ((200, {"Transfer-Encoding": "chunked", "Content-Length": "9"}, LONG), "larger than 16 MiB"),
    "an odd charset": ((500, {"Content-Type": "text/html; charset=hex"}, b"<p>oops"), "HTTP 500"),
    "an error in an answer": ((200, servers.JSON, b'{"error": {"code": 500}}'), "an error instead of an answer"),
    "a bad request": (failure(400, f"no {KEY}"), "HTTP 400"),
    "no choice": ((200, servers.JSON, b'{"choices": [], "content": 7}'), "the server's answer has no text in its `c"),
}


def provider(name, server):
    """A model of each kind, and how its server answers."""
    policy = {"tries": TRIES, "wait": 0.005, "timeout": 0.6, "concurrency": 8}
    if name == "claude":
        return Claude("m", base_url=server.root, **policy)
    if name == "azure":
        return Azure("m", endpoint=server.root, api_version="v", **policy)
    return (Clova if name == "clova" else OpenAICompatible)(model="m", base_url=server.url, **policy)


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    monkeypatch.setattr(concurrency, "BUSY_PATIENCE", 0.0)
    for variable in ("OPENAI_API_KEY", "CLAUDE", "CLOVA", "API_KEY"):
        monkeypatch.setenv(variable, KEY)


@pytest.mark.parametrize(("name", "count"), [("openai", 240), ("claude", 120), ("azure", 40), ("clova", 40)])
def test_chaos(name, count, caplog):
    rng = random.Random(name)
    whole = message if name == "claude" else completion
    asked: Counter[str] = Counter()

    def answer(body, _):
        asked[prompt_of(body)] += 1
        if asked[prompt_of(body)] > 1 or rng.random() < 0.8:
            return whole(prompt_of(body).upper())
        return rng.choice(list(FAULTS.values()))[0]

    with caplog.at_level(logging.DEBUG), openai_server(answer) as server:
        requests = [Generate(f"question {i}") for i in range(count)]
        answers = dict(ask(provider(name, server), "generate", requests))
    assert sorted(answers) == list(range(count)), "every question has exactly one answer"
    for place, response in answers.items():
        if response.error is None:
            assert response.text == f"QUESTION {place}"
        else:
            assert any(fault_message and fault_message in response.error for _, fault_message in FAULTS.values()), (
                response.error
            )
    assert max(asked.values()) <= TRIES
    assert sum(response.error is None for response in answers.values()) > 0.8 * count
    assert KEY not in caplog.text
    assert KEY not in repr(answers)


@pytest.mark.fault(11, 16)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["openai", "claude"])
def test_a_fault_for_ever_is_bounded_and_named(name, fault):
    reply, fault_message = FAULTS[fault]
    whole = message if name == "claude" else completion
    with openai_server(lambda body, _: reply if prompt_of(body) == "bad" else whole("ok")) as server:
        requests = [Generate(prompt) for prompt in ("good", "bad", "other")]
        good, bad, other = (r for _, r in sorted(ask(provider(name, server), "generate", requests)))
        assert (good.text, other.text) == ("ok", "ok")
        assert fault_message in bad.error
        assert KEY not in bad.error
        assert server.prompts.count("bad") <= TRIES


@pytest.mark.fault(9, 15)
@pytest.mark.parametrize("kind", chaos.FAULTS)
def test_every_fault_of_the_chaos_server_ends_as_it_says(kind):
    fault = chaos.FAULTS[kind]
    # The first attempt at the second prompt meets the fault.
    behaviour = chaos.Behaviour(odd_rate=0.0)
    behaviour.fault = lambda prompt, attempt: kind if (prompt, attempt) == ("b", 0) else None
    with chaos.chaos_server(behaviour) as server:
        model = OpenAICompatible(model="m", base_url=server.url, tries=2, wait=0.005, timeout=0.6)
        answers = dict(ask(model, "generate", [Generate(prompt) for prompt in "abc"]))
    assert (answers[0].text, answers[2].text) == ("A", "C")
    assert server.faults == {kind: 1}
    if fault.outcome == "error":
        assert answers[1].error
    else:
        assert answers[1].text == "B"
    assert server.requests == (4 if fault.outcome == "retried" else 3)


@pytest.mark.fault(12)
@pytest.mark.parametrize("kind", chaos.ODD_ANSWERS)
def test_every_odd_answer_is_recorded_as_it_is(kind):
    behaviour = chaos.Behaviour(rate=0.0)
    behaviour.odd_answer = lambda prompt: kind if prompt == "b" else None
    with chaos.chaos_server(behaviour) as server:
        model = OpenAICompatible(model="m", base_url=server.url, tries=2)
        answers = dict(ask(model, "generate", [Generate(prompt) for prompt in "abc"]))
    assert (answers[0].text, answers[2].text) == ("A", "C")
    assert answers[1].error is None
    if kind in ("content filter", "refusal"):
        assert answers[1].finish == kind.replace(" ", "_")
    if kind in ("null", "empty text"):
        assert not answers[1].answer
    assert server.requests == 3


@pytest.mark.fault(45)
@pytest.mark.parametrize("name", ["openai", "azure", "clova", "claude"])
@pytest.mark.parametrize("reply", [failure(401, f"bad key {KEY}"), failure(302, Location=f"http://h/?key={KEY}")])
def test_no_key_in_a_traceback(name, reply):
    with openai_server(lambda *_: reply) as server, pytest.raises(FatalModelError) as caught:
        list(ask(provider(name, server), "generate", [Generate("x")]))
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown
    assert KEY not in repr(caught.value)


# --- the same through the command ------------------------------------------------------------------------------------

SENTENCES = [f"sentence number {i} goes round the house" for i in range(24)]


def config(folder, url, **options):
    write_lines(folder / "src.txt", SENTENCES)
    write_lines(folder / "ref.txt", [s.upper() for s in SENTENCES])
    task = {"name": "robustness", "src": "src.txt", "ref": "ref.txt", "attack": "charswap"}
    model = {"name": "openai", "base_url": url, "model": "m", "wait": 0.005, "tries": 2, "timeout": 2.0, **options}
    return write_config(folder / "config.yaml", {"task": task, "model": model, "resamples": 100})


def test_a_run_over_a_server_that_breaks_down_keeps_what_was_paid_for_and_is_resumed(tmp_path):
    faults = [FAULTS[name] for name in ("a hang", "a page", "half a body", "500")]
    broken = {sentence: faults[place % 4] for place, sentence in enumerate(SENTENCES[12:])}
    down = True

    def answer(body, _):
        return broken[prompt_of(body)][0] if down and prompt_of(body) in broken else completion("x")

    results, environment = tmp_path / "results", {"OPENAI_API_KEY": KEY}
    with openai_server(answer) as server:
        done = lmassay("run", config(tmp_path, server.url), "--results", results, env=environment)
        assert done.returncode == 1, done.stderr
        assert "12 examples with errors" in done.stderr
        assert "Traceback" not in done.stderr
        with Store(results) as store:
            error_of_sentence = {
                row.example.inputs["src"]: row.error for row in store.rows(store.run("latest").id) if row.error
            }
        assert error_of_sentence.keys() == broken.keys()
        assert all(broken[sentence][1] in error for sentence, error in error_of_sentence.items())
        paid = Counter(server.prompts)
        down = False
        resumed = lmassay("resume", "latest", "--results", results, env=environment)
        assert resumed.returncode == 0, resumed.stderr
        assert (Counter(server.prompts) - paid).keys() == broken.keys(), "only what had failed was asked again"
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def test_a_run_by_batch_that_is_killed_while_it_waits_pays_nothing_twice(tmp_path):
    office = Batches(polls=10**9)
    results = tmp_path / "results"
    with openai_server(office=office) as server:
        file = config(tmp_path, server.url, batch=True, poll=0.05)
        command = [sys.executable, "-m", "lmassay", "run", str(file), "--results", str(results)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 300
        while not office.asked:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=300)
        (note,) = results.rglob("batch-*.json")
        noted = note.read_text()
        assert len(json.loads(noted)["requests"]) == len(office.created[0])
        assert KEY not in noted
        assert "sentence number" not in noted
        office.polls = 0
        done = lmassay("resume", "latest", "--results", results)
        assert done.returncode == 0, done.stderr
    assert len(office.created) == 1
    assert not list(results.rglob("batch-*.json"))
    with Store(results) as store:
        assert store.run("latest").status == "done"
