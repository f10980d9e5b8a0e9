"""Asking by batch: half the price, nothing paid for twice, every request answered or its failure named."""

from __future__ import annotations

import itertools
import json
import math
import threading
from contextlib import suppress

import pytest

from lmassay.budget import Budget, Prices
from lmassay.contracts import ask
from lmassay.errors import BudgetReached, ConfigError, FatalModelError
from lmassay.models.api.batch import Ledger, custom_ids
from lmassay.models.api.batch_services import ClaudeBatches, OpenAIBatches
from lmassay.models.api.claude import Claude
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.types import Generate, Response
from tests.batch_servers import Batches
from tests.servers import CLOSE_MID_BODY, HTML, completion, failure, message, openai_server, prompt_of

PROVIDERS = ["openai", "claude"]
OPTIONS = {"model": "m", "batch": True, "poll": 0.02, "wait": 0.01, "tries": 3}


def model_of(provider, server, folder=None, **options):
    kind, url = (OpenAICompatible, server.url) if provider == "openai" else (Claude, server.root)
    model = kind(base_url=url, **{**OPTIONS, **options})
    model.check()
    if folder is not None:
        model.use_folder(folder)
    return model


def answer_of(provider):
    make = completion if provider == "openai" else message
    return lambda body, _: make(prompt_of(body).upper())


def asked(model, prompts) -> list[Response]:
    response_of = dict(ask(model, "generate", [Generate(prompt, max_tokens=9) for prompt in prompts]))
    return [response_of[index] for index in range(len(prompts))]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_request_of_a_batch_gets_its_own_answer(provider, tmp_path):
    office = Batches(polls=2)
    prompts = [f"p{i}" for i in range(30)]
    with openai_server(answer_of(provider), office=office) as server:
        answers = asked(model_of(provider, server, tmp_path), prompts)
    assert [a.text for a in answers] == [p.upper() for p in prompts]
    assert {(a.tokens_in, a.tokens_out) for a in answers} == {(3, 2)}
    assert [len(batch) for batch in office.created] == [30]
    assert list(tmp_path.iterdir()) == [], "a batch whose answers are safe is forgotten"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_costs_half_and_is_the_same_model(provider):
    with openai_server() as server:
        dear, cheap = (model_of(provider, server, batch=batch, prices=Prices(4.0, 8.0)) for batch in (False, True))
    assert (dear.prices, cheap.prices) == (Prices(4.0, 8.0), Prices(2.0, 4.0))
    assert dear.identity() == cheap.identity()
    assert cheap.chunk > dear.chunk


@pytest.mark.parametrize("provider", PROVIDERS)
def test_more_requests_than_the_provider_takes_go_in_several_batches(provider, tmp_path):
    office = Batches()
    with openai_server(answer_of(provider), office=office) as server:
        answers = asked(model_of(provider, server, tmp_path, batch_size=4), [f"p{i}" for i in range(10)])
    assert [a.text for a in answers] == [f"P{i}" for i in range(10)]
    assert [len(batch) for batch in office.created] == [4, 4, 2]


@pytest.mark.parametrize("service", [OpenAIBatches, ClaudeBatches])
def test_more_bytes_than_the_provider_takes_go_in_several_batches(service, monkeypatch):
    monkeypatch.setattr(service, "max_bytes", 700)
    provider = "openai" if service is OpenAIBatches else "claude"
    office = Batches()
    with openai_server(answer_of(provider), office=office) as server:
        asked(model_of(provider, server), [f"{i}" * 100 for i in range(6)])
    assert len(office.created) > 1
    assert sum(map(len, office.created)) == 6


@pytest.mark.parametrize("provider", PROVIDERS)
def test_after_a_crash_open_batches_are_collected_and_nothing_is_paid_for_twice(provider, tmp_path):
    office = Batches(polls=10**9)
    prompts = [f"secret prompt {i}" for i in range(6)]
    with openai_server(answer_of(provider), office=office) as server:
        model = model_of(provider, server, tmp_path)
        stream = ask(model, "generate", [Generate(prompt, max_tokens=9) for prompt in prompts])
        waiting(stream, office)
        (note,) = tmp_path.iterdir()
        noted = note.read_text()
        assert "batch-0" in noted
        assert "secret prompt" not in noted
        # The next attempt, another process as it were, asks for more than before.
        office.polls = 0
        answers = asked(model_of(provider, server, tmp_path), [*prompts, "new"])
    assert [a.text for a in answers] == [p.upper() for p in [*prompts, "new"]]
    assert [len(batch) for batch in office.created] == [6, 1], "only the new request was paid for"
    assert list(tmp_path.iterdir()) == []


def waiting(stream, office) -> None:
    """Let the batch be created, then end like a killed process: nothing is put in order."""

    def read():
        with suppress(FatalModelError):
            next(stream, None)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    while not office.asked:
        thread.join(0.01)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_answers_not_yet_taken_are_collected_again(provider, tmp_path):
    office = Batches(polls=0)
    prompts = [f"p{i}" for i in range(6)]
    requests = [Generate(prompt, max_tokens=9) for prompt in prompts]
    with openai_server(answer_of(provider), office=office) as server:
        stream = ask(model_of(provider, server, tmp_path), "generate", requests)
        taken = [index for index, _ in itertools.islice(stream, 3)]
        stream.close()
        (note,) = tmp_path.iterdir()
        # The last one was handed out, but whoever had it did not come back to say that it is safe.
        assert len(json.loads(note.read_text())["requests"]) == 4
        rest = [request for index, request in enumerate(requests) if index not in taken[:2]]
        again = dict(ask(model_of(provider, server, tmp_path), "generate", rest))
    assert {a.text for a in again.values()} == {r.prompt.upper() for r in rest}
    assert len(office.created) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_that_the_provider_no_longer_knows_is_asked_again(provider, tmp_path):
    office = Batches(polls=0)
    requests = [Generate("a", max_tokens=9)]
    with openai_server(answer_of(provider), office=office) as server:
        model = model_of(provider, server, tmp_path)
        ids = list(custom_ids(requests, model.identity()))
        (tmp_path / "batch-0000.json").write_text(json.dumps({"batch": "gone", "requests": ids, "noted": 9e9}))
        (tmp_path / "batch-0001.json").write_text("{cut in the mid")
        assert [a.text for _, a in ask(model, "generate", requests)] == ["A"]
    assert [len(batch) for batch in office.created] == [1]


def test_requests_that_expired_or_failed_are_named_and_filtered_ones_are_no_failure():
    fates = {"a": "expired", "b": "errored", "c": "filtered"}
    with openai_server(answer_of("openai"), office=Batches(fates=fates)) as server:
        expired, errored, filtered, good = asked(model_of("openai", server), "abcd")
    assert "batch_expired" in expired.error
    assert "no such thing" in errored.error
    assert (filtered.finish, filtered.error) == ("content_filter", None)
    assert good.text == "D"


def test_requests_that_expired_were_cancelled_or_failed_at_anthropic_are_named():
    fates = {"a": "expired", "b": "errored", "c": "canceled"}
    with openai_server(answer_of("claude"), office=Batches(fates=fates)) as server:
        expired, errored, cancelled, good = asked(model_of("claude", server), "abcd")
    assert "expired" in expired.error
    assert "no such thing" in errored.error
    assert "canceled" in cancelled.error
    assert good.text == "D"


def test_a_batch_that_fails_as_a_whole_names_the_reason_for_each_request(tmp_path):
    with openai_server(answer_of("openai"), office=Batches(status="failed")) as server:
        answers = asked(model_of("openai", server, tmp_path), "ab")
    assert [a.error for a in answers] == ["the batch failed: token_limit_exceeded: too many tokens"] * 2
    assert list(tmp_path.iterdir()) == []


def test_a_request_without_a_response_or_an_error_is_described():
    ((_, failure_without_reason),) = OpenAIBatches("/chat/completions").results(b'{"custom_id": "a"}')
    assert failure_without_reason.message == "in the batch: an error without a reason"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_wait_survives_faults_of_the_server(provider):
    faults = [failure(503), failure(429, Retry_After="0.01")]
    office = Batches(polls=1, faults=faults)
    with openai_server(answer_of(provider), office=office) as server:
        assert [a.text for a in asked(model_of(provider, server), "ab")] == ["A", "B"]
    assert len(office.created) == 1


def test_a_file_of_requests_is_left_again_if_it_did_not_arrive():
    office = Batches(upload_faults=[HTML, CLOSE_MID_BODY])
    with openai_server(answer_of("openai"), office=office) as server:
        assert [a.text for a in asked(model_of("openai", server), "ab")] == ["A", "B"]
    assert len(office.created) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("fault", [CLOSE_MID_BODY, failure(500)])
def test_a_batch_that_may_have_been_created_is_not_created_again(provider, fault):
    office = Batches(faults=[fault])
    with openai_server(answer_of(provider), office=office) as server:
        with pytest.raises(FatalModelError, match="unknown whether"):
            asked(model_of(provider, server), "ab")
        creations = [path for path in server.paths if path.startswith("POST") and "batches" in path]
        assert len(creations) == 1


@pytest.mark.parametrize("fault", [CLOSE_MID_BODY, failure(500), HTML, (200, {}, b"{}")])
def test_a_batch_that_was_created_unheard_is_found_again_at_openai(fault, tmp_path):
    office = Deaf(fault)
    with openai_server(answer_of("openai"), office=office) as server:
        with pytest.raises(FatalModelError, match=r"unknown whether.*delete .*intent-"):
            asked(model_of("openai", server, tmp_path), "ab")
        assert [a.text for a in asked(model_of("openai", server, tmp_path), "ab")] == ["A", "B"]
    assert len(office.created) == 1
    assert list(tmp_path.iterdir()) == []


class Deaf(Batches):
    """Takes the first batch and does not say so."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def serve(self, method, path, raw, answer):
        reply = super().serve(method, path, raw, answer)
        if method == "POST" and path.endswith("/batches") and self.fault is not None:
            reply, self.fault = self.fault, None
        return reply


def test_a_batch_that_openai_does_not_list_is_created(tmp_path):
    office = Batches(faults=[failure(500)])
    with openai_server(answer_of("openai"), office=office) as server:
        with pytest.raises(FatalModelError, match="unknown whether"):
            asked(model_of("openai", server, tmp_path), "ab")
        assert [a.text for a in asked(model_of("openai", server, tmp_path), "ab")] == ["A", "B"]
    assert len(office.created) == 1
    assert list(tmp_path.iterdir()) == []


def test_where_no_list_tells_it_is_the_user_who_decides(tmp_path):
    office = Deaf(failure(500))
    with openai_server(answer_of("claude"), office=office) as server:
        for _ in range(2):
            with pytest.raises(FatalModelError, match=r"unknown whether.*delete .*intent-"):
                asked(model_of("claude", server, tmp_path), "ab")
            assert len(office.created) == 1
        (intent,) = tmp_path.iterdir()
        intent.unlink()
        assert [a.text for a in asked(model_of("claude", server, tmp_path), "ab")] == ["A", "B"]


def test_a_list_that_fails_is_no_proof_that_there_is_no_batch(tmp_path):
    office = Deaf(failure(500))
    with openai_server(answer_of("openai"), office=office) as server:
        for _ in range(2):
            with pytest.raises(FatalModelError, match="unknown whether"):
                asked(model_of("openai", server, tmp_path), "ab")
            office.faults = [failure(500)] * OPTIONS["tries"]
    assert len(office.created) == 1
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("fault", [failure(400), failure(401), failure(429, Retry_After="3600")])
def test_a_batch_that_was_refused_leaves_no_doubt(provider, fault, tmp_path):
    office = Batches(faults=[fault])
    with openai_server(answer_of(provider), office=office) as server:
        with pytest.raises(FatalModelError, match="HTTP 4"):
            asked(model_of(provider, server, tmp_path), "ab")
        assert list(tmp_path.iterdir()) == []
        assert [a.text for a in asked(model_of(provider, server, tmp_path), "ab")] == ["A", "B"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_results_that_the_provider_no_longer_has_are_errors_and_the_batch_is_settled(provider, tmp_path):
    with openai_server(answer_of(provider), office=Batches(gone=True)) as server:
        answers = asked(model_of(provider, server, tmp_path), "ab")
    assert [a.error for a in answers] == ["the provider no longer has the results of this batch"] * 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_line_that_cannot_be_read_costs_its_own_request_only(provider, tmp_path):
    with openai_server(answer_of(provider), office=Batches(spoiled=True)) as server:
        first, second, last = asked(model_of(provider, server, tmp_path), "abc")
    assert (first.text, second.text) == ("A", "B")
    assert "gave no answer" in last.error


def test_a_note_is_removed_only_if_it_was_read_and_is_old(tmp_path):
    old, cut = tmp_path / "batch-0.json", tmp_path / "batch-1.json"
    old.write_text(json.dumps({"batch": "b", "requests": ["r"], "noted": 1.0}))
    cut.write_text("{cut")
    assert Ledger(tmp_path).open_batches_with(["r"]) == []
    assert list(tmp_path.iterdir()) == [cut]
    closed = tmp_path / "batch-2.json"
    closed.mkdir()  # cannot be read as a file, not even by root
    with pytest.raises(FatalModelError, match=r"cannot read .*batch-2\.json"):
        Ledger(tmp_path).open_batches_with(["r"])
    assert closed.exists()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_wrong_key_fails_at_the_first_call(provider):
    office = Batches(faults=[failure(401)])
    with openai_server(office=office) as server, pytest.raises(FatalModelError, match="the key was refused"):
        asked(model_of(provider, server), "ab")


def test_a_folder_that_cannot_be_written_is_reported_before_anything_is_paid_for(tmp_path):
    (tmp_path / "file").touch()
    office = Batches()
    with openai_server(office=office) as server, pytest.raises(Exception, match="cannot write"):
        asked(model_of("openai", server, tmp_path / "file" / "open"), "ab")
    assert office.created == []


def test_a_batch_holds_no_more_than_the_budget_can_pay_for():
    budget = Budget(tokens=600)
    office = Batches()
    got = []
    with openai_server(answer_of("openai"), office=office) as server:
        model = model_of("openai", server)
        model.use_budget(budget)
        with pytest.raises(BudgetReached, match="tokens"):
            got.extend(ask(model, "generate", [Generate(f"p{i}", max_tokens=50) for i in range(40)]))
    assert 0 < len(got) < 12
    assert [len(batch) for batch in office.created] == [len(got)], "what was sent is yielded before the end"


def test_a_batch_that_an_earlier_attempt_left_open_counts_towards_the_budget(tmp_path):
    office = Batches(polls=10**9)
    requests = [Generate(f"p{i}", max_tokens=50) for i in range(40)]
    with openai_server(answer_of("openai"), office=office) as server:
        first = model_of("openai", server, tmp_path)
        first.use_budget(Budget(tokens=600))
        waiting(ask(first, "generate", requests), office)
        office.polls = 0
        second = model_of("openai", server, tmp_path)
        second.use_budget(Budget(tokens=600))
        got = []
        with pytest.raises(BudgetReached, match="tokens"):
            got.extend(ask(second, "generate", requests))
    assert [len(batch) for batch in office.created] == [len(got)], "its answers may use the whole budget"


def test_sampled_requests_are_different_draws_and_the_same_ones_in_the_next_attempt():
    requests = [Generate("a", temperature=1.0, draw="x"), Generate("a", temperature=1.0, draw="y"), Generate("a")]
    ids = custom_ids(requests, {"name": "m"})
    assert list(ids.values()) == [0, 1, 2]
    assert custom_ids(requests[1:], {"name": "m"}).keys() < ids.keys()
    assert custom_ids(requests, {"name": "n"}).keys().isdisjoint(ids)
    assert len(custom_ids([Generate("a", temperature=1.0)] * 3, {})) == 3
    assert all(len(custom_id) <= 64 for custom_id in ids)


@pytest.mark.parametrize(
    "options",
    [{"poll": 0.0}, {"poll": math.inf}, {"poll": math.nan}, {"batch_size": -1}, {"prices": Prices(-1.0, 0.0)}],
)
def test_odd_options_are_refused(options):
    with pytest.raises(ConfigError):
        OpenAICompatible(**{**OPTIONS, "base_url": "http://127.0.0.1:1/v1", **options}).check()
