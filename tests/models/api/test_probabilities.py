"""Tasks that need probabilities, asked through a server with vLLM's wire format and a tiny model behind it."""

from __future__ import annotations

import json

import pytest

from tests.helpers import EVALUATIONS, lmassay, write_config
from tests.scoring_servers import LIES, VllmServer, vllm_server
from tests.servers import failure, openai_server
from tests.tiny_models import TEMPLATE, save_model

PAIRS = [
    ("The author laughs.", "The author laugh."),
    ("The authors swim near the pilot.", "The authors swims near the pilot."),
    ("Some dancers are tall.", "Some dancers is tall."),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("tiny"), "gpt2", window=512, template=TEMPLATE)


@pytest.fixture(scope="module")
def loaded(folder):
    return VllmServer(folder)


@pytest.fixture
def vllm(loaded):
    """The server, honest again and with nothing asked."""
    loaded.lie, loaded.returns_numbers, loaded.rejects = (lambda scored: scored), True, ()
    loaded.max_logprobs = 20
    loaded.requests.clear()
    return loaded


@pytest.fixture
def pairs(tmp_path):
    rows = [json.dumps({"sentence_good": good, "sentence_bad": bad}) for good, bad in PAIRS]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(rows), encoding="utf-8")
    return {"name": "minimal_pairs", "data": str(path)}


def server_model(url, **options):
    return {"name": "openai", "base_url": url, "model": "m", "probabilities": "auto", "wait": 0.01, **options}


def config(tmp_path, task, model, **further):
    return write_config(tmp_path / "c.yaml", {"task": task, "model": model, **further})


def run(tmp_path, file, *options):
    return lmassay("run", file, "--results", tmp_path / "r", "--json", *options)


def document(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["runs"][0]


def values(done):
    return {(result["metric"], result["group"]): result["value"] for result in document(done)["results"]}


def test_minimal_pairs_get_the_results_of_the_local_model(vllm, folder, pairs, tmp_path):
    local = run(tmp_path, config(tmp_path, pairs, {"name": "hf", "model": str(folder)}))
    with vllm_server(vllm) as server:
        remote = run(tmp_path, config(tmp_path, pairs, server_model(server.url)))
    assert values(remote) == pytest.approx(values(local))
    assert "server:echo(prefix=none/<|endoftext|>)" in document(remote)["signature"]


def test_in_context_learning_by_log_probabilities_gets_the_results_of_the_local_model(vllm, folder, tmp_path):

    task = {
        "name": "fewshot",
        "data": str(EVALUATIONS / "fewshot/sample/reviews.yaml"),
        "labelled": ["train"],
        "test_examples": 4,
        "splits": {"strategy": "multi_splits", "k": 2},
        "method": {"name": "icl", "shots": 0, "pattern": 0, "answer_by": "logprobs"},
    }
    local = run(tmp_path, config(tmp_path, task, {"name": "hf", "model": str(folder)}))
    with vllm_server(vllm) as server:
        remote = run(tmp_path, config(tmp_path, task, server_model(server.url)))
    assert values(remote) == pytest.approx(values(local))


def test_chat_messages_are_written_with_the_servers_template(vllm, folder):
    from lmassay.contracts import ask
    from lmassay.models.api.openai_models import OpenAICompatible
    from lmassay.models.hf.model import HuggingFace
    from lmassay.types import LogProbs

    requests = [LogProbs("", "The pilot", messages=(("user", "Who laughs"),))]
    local = dict(ask(HuggingFace(str(folder), threads=1), "logprobs", requests))
    with vllm_server(vllm) as server:
        model = OpenAICompatible("m", server.url, probabilities="auto")
        remote = dict(ask(model, "logprobs", requests))
        plain = dict(
            ask(OpenAICompatible("m", server.url, probabilities="echo", api="completions"), "logprobs", requests)
        )
    assert remote[0].answer.tokens == pytest.approx(local[0].answer.tokens, abs=1e-4)
    assert plain[0].answer.total != pytest.approx(local[0].answer.total, abs=1e-2)


def test_a_second_run_is_answered_from_the_cache_and_has_the_same_signature(vllm, pairs, tmp_path):
    with vllm_server(vllm) as server:
        file = config(tmp_path, pairs, server_model(server.url))
        first = document(run(tmp_path, file))
    # The server is gone.
    vllm.requests.clear()
    second = document(run(tmp_path, file))
    assert second["results"] == first["results"]
    assert second["signature"] == first["signature"]
    assert vllm.requests == []


def test_check_contacts_the_server_only_with_online(vllm, pairs, tmp_path):
    with vllm_server(vllm) as server:
        file = config(tmp_path, pairs, server_model(server.url))
        assert lmassay("check", file).returncode == 0
        assert vllm.requests == []
        shown = lmassay("check", file, "--online")
        as_json = lmassay("check", file, "--online", "--json")
    assert shown.returncode == 0, shown.stderr
    assert "server of m: echo(prefix=none/<|endoftext|>)" in shown.stdout
    (test,) = json.loads(as_json.stdout)["servers"]
    assert test["findings"][0].startswith("echo: log-probabilities of prompts")


def test_a_server_without_numbers_is_refused_before_the_first_example_and_the_run_can_be_resumed(vllm, pairs, tmp_path):
    with vllm_server(vllm) as server:
        vllm.returns_numbers = False
        file = config(tmp_path, pairs, server_model(server.url))
        checked = lmassay("check", file, "--online")
        assert checked.returncode == 2
        assert "echo: the server accepts `echo` but returns no log-probabilities of the prompt" in checked.stderr
        refused = run(tmp_path, file)
        assert refused.returncode == 2
        assert "prompt_logprobs: the server ignores `prompt_logprobs`" in refused.stderr
        assert "llama.cpp:" in refused.stderr
        sent = [request["prompt"] for request in vllm.requests if "prompt" in request]
        assert not any(good in sent for good, _ in PAIRS)
        vllm.returns_numbers = True
        assert lmassay("resume", "--results", tmp_path / "r").returncode == 0
        assert document(run(tmp_path, file))["status"] == "done"


def test_a_run_is_not_resumed_on_a_server_that_answers_in_another_way(vllm, pairs, tmp_path):
    with vllm_server(vllm) as server:
        vllm.lie = lambda scored: LIES["one_too_few"](scored) if "author" in "".join(scored.texts) else scored
        first = run(tmp_path, config(tmp_path, pairs, server_model(server.url)))
        assert first.returncode == 1, first.stderr
        vllm.lie, vllm.rejects = (lambda scored: scored), ("echo",)
        resumed = lmassay("resume", "--results", tmp_path / "r")
    assert resumed.returncode == 2
    assert "then: echo(" in resumed.stderr
    assert "now: prompt_logprobs(" in resumed.stderr


def test_the_tokens_of_the_probe_count_towards_the_budget(vllm, pairs, tmp_path):
    with vllm_server(vllm) as server:
        file = config(tmp_path, pairs, server_model(server.url), budget={"tokens": 100})
        stopped = run(tmp_path, file)
    assert stopped.returncode == 1
    assert "the budget is used up" in stopped.stderr
    sent = [request["prompt"] for request in vllm.requests]
    assert not any(good in prompt for good, _ in PAIRS for prompt in sent)


def test_a_server_that_lies_only_after_the_probe_makes_errors_not_scores(vllm, pairs, tmp_path):
    with vllm_server(vllm) as server:
        vllm.lie = lambda scored: LIES["one_too_few"](scored) if "author" in "".join(scored.texts) else scored
        done = run(tmp_path, config(tmp_path, pairs, server_model(server.url)))
    assert done.returncode == 1
    (result,) = [r for r in json.loads(done.stdout)["runs"][0]["results"] if r["metric"] == "accuracy"][:1]
    assert (result["n"], result["n_error"]) == (1, 2)
    assert "log-probabilities for" in done.stderr


def test_a_model_without_the_option_is_refused_offline_with_advice(pairs, tmp_path):
    refused = lmassay(
        "check", config(tmp_path, pairs, {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9"})
    )
    assert refused.returncode == 2
    assert "openai cannot compute log-probabilities" in refused.stderr
    assert "set model.probabilities to auto" in refused.stderr


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_bias_by_log_probability_has_the_results_of_the_local_model(vllm, folder, tmp_path, api):
    """In chat form, the server writes the turns with its own template, which is that of the local model."""
    data = str(EVALUATIONS / "bias/sample/questions.yaml")
    task = {"name": "bias", "data": data, "per_category": 1, "answer_by": "choices"}
    with vllm_server(vllm) as server:
        remote = run(tmp_path, config(tmp_path, task, server_model(server.url, api=api), limit=6))
    assert "server:echo(" in document(remote)["signature"]
    if api == "chat":
        local = run(tmp_path, config(tmp_path, task, {"name": "hf", "model": str(folder)}, limit=6))
        assert values(remote) == pytest.approx(values(local), abs=1e-4)


@pytest.fixture
def blanks(tmp_path):
    """Words that are single tokens of the tiny model stand for verbs."""
    subjects = ("The surgeon", "Some dancers", "A customer who is old")
    rows = [{"sentence_good": f"{subject} laugh.", "sentence_bad": f"{subject} author."} for subject in subjects]
    path = tmp_path / "blanks.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    verbs = tmp_path / "verbs.csv"
    verbs.write_text("sing,plur\nauthor,laugh\nhe,the\n", encoding="utf-8")
    return {"name": "syntax", "data": str(path), "verbs": str(verbs)}


def test_cut_offs_need_a_whole_vocabulary(vllm, blanks, tmp_path):
    with vllm_server(vllm) as server:
        file = config(tmp_path, blanks, server_model(server.url))
        online = lmassay("check", file, "--online")
        refused = run(tmp_path, file)
    assert "each word is scored by itself and not ranked" in " ".join(online.stdout.split())
    assert refused.returncode == 2
    assert "start vLLM with --max-logprobs -1" in refused.stderr


@pytest.mark.parametrize("cutoffs", [{}, {"cutoffs_top": [], "cutoffs_bottom": []}], ids=["ranked", "one by one"])
def test_a_syntax_run_against_a_server_has_the_results_of_the_local_model(vllm, folder, blanks, tmp_path, cutoffs):
    vllm.max_logprobs = 20 if cutoffs else -1
    task = {**blanks, **cutoffs}
    local = run(tmp_path, config(tmp_path, task, {"name": "hf", "model": str(folder)}))
    with vllm_server(vllm) as server:
        remote = run(tmp_path, config(tmp_path, task, server_model(server.url)))
    assert values(remote) == pytest.approx(values(local), abs=1e-4)
    assert ("vocabulary=" in document(remote)["signature"]) is not bool(cutoffs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix": ""}, "model.prefix: write auto, none"),
        ({"batch": True}, "model.batch: batches cannot return probabilities"),
        ({"probabilities": "vllm"}, "model.probabilities"),
    ],
)
def test_options_that_cannot_work_are_refused_offline(pairs, tmp_path, options, message):
    refused = lmassay("check", config(tmp_path, pairs, server_model("http://127.0.0.1:9/v1", **options)))
    assert refused.returncode == 2
    assert message in refused.stderr


def test_a_prefix_that_is_not_a_token_is_refused(vllm, pairs, tmp_path):
    with vllm_server(vllm) as server:
        file = config(tmp_path, pairs, server_model(server.url, probabilities="echo", prefix="no such token"))
        refused = lmassay("check", file, "--online")
    assert refused.returncode == 2
    assert "model.prefix: 'no such token' is not a token of this model" in refused.stderr


def test_a_server_that_is_down_or_forbids_is_reported_in_one_line(pairs, tmp_path):
    down = lmassay("check", config(tmp_path, pairs, server_model("http://127.0.0.1:9/v1")), "--online")
    assert down.returncode == 2
    assert "no server answers at http://127.0.0.1:9/v1" in down.stderr
    with openai_server(lambda *_: failure(401, "bad key")) as server:
        forbidden = lmassay("check", config(tmp_path, pairs, server_model(server.url)), "--online")
    assert forbidden.returncode == 2
    assert "HTTP 401" in forbidden.stderr
    assert len(forbidden.stderr.splitlines()) == 1


def test_a_busy_server_is_asked_again_by_the_probe(vllm, pairs, tmp_path):
    busy = iter([503, 429])
    serve = vllm.serve

    def sometimes_busy(*arguments):
        status = next(busy, None)
        return failure(status) if status else serve(*arguments)

    vllm.serve = sometimes_busy
    try:
        with vllm_server(vllm) as server:
            done = run(tmp_path, config(tmp_path, pairs, server_model(server.url)))
    finally:
        del vllm.serve
    assert document(done)["status"] == "done"
