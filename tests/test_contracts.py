"""What a task gets from its base class, and what is made of the answers of a model."""

from __future__ import annotations

import pytest

from lmassay import Generate, Metric, Model, Task
from lmassay.contracts import ask
from lmassay.errors import FatalModelError, ModelError, PluginError
from lmassay.redaction import redact
from lmassay.statistics.table import ScoreTable
from lmassay.types import Design, Example, Response, Row, Score, Settings


def table_of(*scores: dict[str, float]) -> ScoreTable:
    return ScoreTable([Row(Example(str(n), {}), "scored", Score(values)) for n, values in enumerate(scores)])


class Rude(Task):
    name = "rude"
    design = Design(weights={"slurs_per_word": "words"})


SCORES = ({"slurs_per_word": 0.5, "words": 2.0}, {"slurs_per_word": 0.0, "words": 8.0})


def test_the_default_mean_uses_the_weights_of_the_design():
    """As comparisons do: one slur in ten words."""
    results = Rude().aggregate(table_of(*SCORES), Settings())
    assert [(result.metric, result.value, result.n) for result in results] == [("slurs_per_word", 0.1, 2)]


def test_values_outside_the_unit_interval_are_weighted_too():
    result, *_ = Rude().aggregate(
        table_of(*({"slurs_per_word": n - 5.0, "words": 1.0 + n % 3} for n in range(12))), Settings()
    )
    weights = [1.0 + n % 3 for n in range(12)]
    assert result.value == pytest.approx(sum((n - 5.0) * w for n, w in enumerate(weights)) / sum(weights))
    assert result.low < result.value < result.high


def test_a_weight_that_no_example_has_is_an_error():
    with pytest.raises(PluginError, match="'words'"):
        Rude().aggregate(table_of({"slurs_per_word": 0.5}), Settings())


def test_metrics_are_reported_in_the_order_in_which_they_are_declared():
    class Declared(Task):
        name = "declared"
        metrics = (Metric("zeal"), Metric("art"))

    results = Declared().aggregate(table_of({"art": 1.0, "zeal": 0.0, "helper": 3.0}), Settings())
    assert [result.metric for result in results] == ["zeal", "art"]


# --- models that answer with something else ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (Response(["a", "b"]), "answer=['a', 'b'] (list); it must be str or Continuation"),
        (Response(error=RuntimeError("no")), "error=RuntimeError('no') (RuntimeError); it must be str"),
        (Response("a", finish=3), "finish=3 (int); it must be str"),
        (Response("a", tokens_in="12"), "tokens_in='12' (str); it must be int"),
        (Response("a", seconds="1"), "seconds='1' (str); it must be int or float"),
        (Response("a", seconds=float("nan")), "seconds=nan; it must be a finite number"),
        (Response("a", seconds=float("inf")), "seconds=inf; it must be a finite number"),
        (Response("a", tokens_in=-1), "tokens_in=-1; it must not be negative"),
        (Response("a", tokens_out=True), "tokens_out=True (bool); it must be int"),
    ],
)
def test_a_response_that_cannot_be_stored_is_refused_in_one_line(response, problem):
    class Wrong(Model):
        name = "wrong"
        can = frozenset({"generate"})

        def generate(self, requests):
            return [response for _ in requests]

    with pytest.raises(PluginError) as caught:
        list(ask(Wrong(), "generate", [Generate("hello")]))
    assert f"the model wrong returned a Response with {problem}" in str(caught.value)


def test_a_reply_of_megabytes_is_not_repeated_whole():
    class Wrong(Model):
        name = "wrong"
        can = frozenset({"generate"})

        def generate(self, requests):
            return [{"text": "x" * 1_000_000} for _ in requests]

    with pytest.raises(PluginError, match="does not answer an open request") as caught:
        list(ask(Wrong(), "generate", [Generate("hello")]))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("raised", [False, True])
def test_a_message_about_a_reply_does_not_repeat_a_key_on_a_line_of_its_own(raised):
    text = "401 for key:\nsk-proj-abcdEFGH1234567890abcd"

    class Wrong(Model):
        name = "wrong"
        can = frozenset({"generate"})

        def generate(self, requests):
            if raised:
                raise RuntimeError(text)
            return [Response([text]) for _ in requests]

    with pytest.raises(PluginError) as caught:
        list(ask(Wrong(), "generate", [Generate("hello")]))
    # Whatever prints or stores a message blanks it.
    assert r"401 for key:\n[redacted]" in redact(str(caught.value))


# --- models that raise ------------------------------------------------------------------------------------------------


class Yielding(Model):
    """Echoes prompts in order, and raises where the prompt is an exception's name."""

    name = "yielding"
    can = frozenset({"generate"})

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def generate(self, requests):
        self.calls.append([request.prompt for request in requests])
        for request in requests:
            if request.prompt == "bad":
                raise ModelError("the server has lost it")
            if request.prompt == "fatal":
                raise FatalModelError("wrong key")
            yield request.prompt.upper()


class Listing(Yielding):
    """Returns a list, so that all answers are lost when it raises."""

    def generate(self, requests):
        return list(super().generate(requests))


class Numbering(Yielding):
    """Answers the last request first."""

    def generate(self, requests):
        for number in reversed(range(len(requests))):
            (answer,) = super().generate(requests[number : number + 1])
            yield number, Response(answer)


def answers(model: Model, *prompts: str) -> list[str | None]:
    requests = [Generate(prompt=prompt) for prompt in prompts]
    responses = dict(ask(model, "generate", requests))
    assert sorted(responses) == list(range(len(prompts)))
    return [responses[n].answer if responses[n].error is None else None for n in range(len(prompts))]


def test_a_model_error_is_the_response_to_one_request_and_the_others_are_answered():
    model = Yielding()
    assert answers(model, "bad", "a", "b", "bad", "c") == [None, "A", "B", None, "C"]
    assert model.calls == [["bad", "a", "b", "bad", "c"], ["a", "b", "bad", "c"], ["c"]]
    (response,) = [response for _, response in ask(model, "generate", [Generate(prompt="bad")])]
    assert response.error == "the server has lost it"


def test_all_requests_without_an_answer_are_errors_if_nobody_knows_which_one_failed():
    listing = Listing()
    assert answers(listing, "a", "bad", "b") == [None, None, None]
    assert len(listing.calls) == 1, "nothing is asked or paid twice"
    assert answers(Numbering(), "a", "bad", "b") == [None, None, "B"]


def test_a_fatal_error_ends_the_run():
    with pytest.raises(FatalModelError, match="wrong key"):
        answers(Yielding(), "a", "fatal", "b")
