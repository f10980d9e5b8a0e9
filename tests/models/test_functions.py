"""A model made of functions answers batch by batch, and its identity is that of the functions."""

from __future__ import annotations

import asyncio

import pytest

from lmassay.contracts import ask
from lmassay.errors import PluginError
from lmassay.models.functions import FunctionModel
from lmassay.types import Continuation, Generate, LogProbs, Response


def answers(model, *requests):
    return [response for _, response in sorted(ask(model, requests[0].verb, requests), key=lambda pair: pair[0])]


def test_prompts_come_in_batches_and_a_chat_is_one_text():
    batches = []

    def echo(prompts):
        batches.append(list(prompts))
        return prompts

    chat = Generate(messages=(("system", "Be brief."), ("user", "Hello")))
    found = answers(FunctionModel(echo, batch_size=2), Generate("a"), Generate("b"), chat)
    assert batches == [["a", "b"], ["Be brief.\n\nHello"]]
    assert [response.text for response in found] == ["a", "b", "Be brief.\n\nHello"]


def test_an_answer_may_be_a_response_or_come_from_a_generator():
    refusal = Response("", finish="refusal")

    def lazily(prompts):
        for prompt in prompts:
            yield refusal if prompt == "a" else prompt

    assert answers(FunctionModel(lazily), Generate("a"), Generate("b")) == [refusal, Response("b")]


def test_all_calls_of_an_asynchronous_function_share_one_event_loop():
    loops = set()

    async def echo(prompts):
        loops.add(asyncio.get_running_loop())
        return prompts

    model = FunctionModel(echo, batch_size=1)
    answers(model, Generate("a"), Generate("b"))
    assert len(loops) == 1
    model.close()
    assert next(iter(loops)).is_closed()
    assert answers(model, Generate("c")) == [Response("c")]
    model.close()


def test_log_probabilities_are_numbers_or_continuations():
    whole = Continuation(-3.0, (-1.0, -2.0))
    model = FunctionModel(logprobs=lambda pairs: [whole if text == "b" else -1 for _, text in pairs])
    first, second = answers(model, LogProbs("x", "a"), LogProbs("x", "b"))
    assert first.answer == Continuation(-1.0, (-1.0,))
    assert second.answer == whole
    assert model.can == {"logprobs"}


@pytest.mark.parametrize("value", ["x", None, float("nan"), 0.1])
def test_what_is_not_a_log_probability_is_reported(value):
    model = FunctionModel(logprobs=lambda pairs: [value for _ in pairs], name="odd")
    with pytest.raises(PluginError, match="the function odd returned"):
        answers(model, LogProbs("x", "a"))


def test_the_name_is_that_of_the_function():
    def shout(prompts):
        return prompts

    assert FunctionModel(shout).name == "shout"
    assert FunctionModel(lambda prompts: prompts).name == "function"
    assert FunctionModel(shout, name="mine").name == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "needs a function"), ({"generate": "x"}, "must be a function"), ({"generate": print, "batch_size": 0}, "1")],
)
def test_wrong_arguments_are_reported(arguments, message):
    with pytest.raises(PluginError, match=message):
        FunctionModel(**arguments)
