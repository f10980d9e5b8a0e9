"""``lmassay.evaluate`` takes names, options, objects, functions and data in memory."""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from queue import SimpleQueue

import pytest

import lmassay
from lmassay.errors import ConfigError, DataError, LmassayError, PluginError
from lmassay.evaluations.robustness.attack import Attack
from lmassay.evaluations.robustness.task import Robustness
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.running.config import RunConfig, read_config
from tests import in_process
from tests.servers import openai_server

TEXTS = ["The cat sat on the mat today.", "It rains again in the city.", "We walk home slowly."]


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def attack(**options):
    return lmassay.task("robustness", **{"src": TEXTS, "attack": "charswap", **options})


def upper(prompts):
    return [prompt.upper() for prompt in prompts]


class Length(lmassay.Task):
    """Scores the length of an answer."""

    name = "length"
    needs = frozenset({"generate"})
    metrics = (lmassay.Metric("characters"),)

    def __init__(self, texts: list[str], suffix: str = ""):
        self.texts = texts
        self.suffix = suffix

    def examples(self):
        for number, text in enumerate(self.texts):
            yield lmassay.Example(str(number), {"text": text}, None)

    def requests(self, example):
        return [lmassay.Generate(example.inputs["text"] + self.suffix)]

    def score(self, examples, responses):
        return [lmassay.Score({"characters": len(answers[0].text)}) for answers in responses]


class Repeat(lmassay.Model):
    """Repeats the prompt."""

    name = "repeat"
    can = frozenset({"generate"})

    def __init__(self, times: int = 1):
        self.times = times
        self.requests = 0

    def identity(self):
        # Forgets an option, as a user may.
        return {"name": self.name}

    def generate(self, requests):
        self.requests += len(requests)
        return [request.prompt * self.times for request in requests]


# --- tasks and models -------------------------------------------------------------------------------------------------


def test_a_function_answers_about_texts_in_memory():
    (run,) = lmassay.evaluate(attack(ref=[text.upper() for text in TEXTS]), upper)
    assert run.status == "done"
    assert (run.model, run.label) == ("upper", "charswap")
    assert run.results["success"].n == 3
    assert [example.prompt for example in run.examples] == TEXTS
    assert run.examples[0].answer == TEXTS[0].upper()


def test_a_scorer_and_a_perturbation_can_be_functions_or_classes():
    def same_length(hypothesis, reference):
        return float(len(hypothesis) == len(reference))

    class Always(lmassay.Scorer):
        def score_sentence(self, hyp, ref, lang=None):
            return 1.0

    def shout(text, rng, rate):
        return text.upper()

    task = lmassay.task(
        "robustness", src=["Hello world.", "We walk home."], attack={"perturb": shout}, s_src=[same_length, Always]
    )
    by_function, by_class = lmassay.evaluate(task, "echo")
    assert by_function.results["s_src"].value == by_class.results["s_src"].value == 1.0
    assert "same_length(" in by_function.signature
    assert by_function.examples[0].inputs["adv_src"] == ["HELLO WORLD."]


def test_functions_as_scorers_can_be_a_tuple():
    def zero(hypothesis, reference):
        return 0.0

    def one(hypothesis, reference):
        return 1.0

    task = lmassay.task("robustness", src=["Hello world."], attack="charswap", s_src=(zero, one))
    assert [run["s_src"].value for run in lmassay.evaluate(task, "echo")] == [0.0, 1.0]


def test_another_function_as_scorer_gives_another_signature():
    def scorer_with(value):
        return lambda hypothesis, reference: value

    task = lmassay.task("robustness", src=["Hello world."], attack="charswap", s_tgt=[scorer_with(0.5), scorer_with(1)])
    first, second = lmassay.evaluate(task, "echo")
    assert first.signature != second.signature


def test_objects_of_own_classes_are_evaluated():
    (run,) = lmassay.evaluate(Length(["a", "bb"]), Repeat(2))
    assert run.results["characters"].value == 3
    assert run.record.config["task"] == "python:Length"
    assert run.record.config["model"] == "python:Repeat"


def test_a_class_takes_options_that_are_checked():
    runs = lmassay.evaluate(lmassay.task(Length, texts=["a"], suffix=["x", "yy"]), lmassay.model(Repeat, times=2))
    assert [run["characters"].value for run in runs] == [4, 6]
    with pytest.raises(ConfigError, match=r"task\.sufix: unknown key; did you mean 'suffix'"):
        lmassay.evaluate(lmassay.task(Length, texts=["a"], sufix="x"), Repeat())


def test_an_object_of_a_shipped_class_is_evaluated(tmp_path):
    (tmp_path / "src.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    (run,) = lmassay.evaluate(Robustness(src=tmp_path / "src.txt", attack=Attack(name="charswap")), upper)
    (same,) = lmassay.evaluate(attack(), upper)
    assert run["s_src"] == same["s_src"]


def test_a_subclass_of_a_shipped_task_takes_data_in_memory():
    class Gentle(Robustness):
        name = "gentle"

    (run,) = lmassay.evaluate(lmassay.task(Gentle, src=TEXTS, attack="charswap"), upper)
    assert (run.task, run["s_src"].n) == ("gentle", 3)


def test_several_tasks_and_models_give_one_run_per_combination():
    runs = lmassay.evaluate(
        [attack(), attack(attack="homoglyph")], [upper, lambda prompts: list(prompts), lambda prompts: upper(prompts)]
    )
    assert [(run.label, run.model) for run in runs] == [
        (label, model) for label in ("charswap", "homoglyph") for model in ("upper", "function 1", "function 2")
    ]


def test_a_model_keeps_its_name_after_a_comparison_with_one_of_the_same_name():
    first = lmassay.model(upper, name="same")
    second = lmassay.model(lambda prompts: list(prompts), name="same")
    assert [run.model for run in lmassay.evaluate(attack(), [first, second])] == ["same 1", "same 2"]
    (alone,) = lmassay.evaluate(attack(), second)
    assert alone.model == "same"


@pytest.mark.parametrize("kind", ["mapping", "file", "path", "config file", "run config"])
def test_a_configuration_can_have_any_form(kind, tmp_path):
    (tmp_path / "src.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    data = {"task": {"name": "robustness", "src": "src.txt", "attack": "charswap"}, "model": "echo"}
    path = tmp_path / "c.yaml"
    path.write_text(json.dumps(data), encoding="utf-8")
    config = {
        "mapping": data,
        "file": "c.yaml",
        "path": path,
        "config file": read_config(path),
        "run config": RunConfig(**data, base_dir=tmp_path),
    }[kind]
    (run,) = lmassay.evaluate(config, results="elsewhere", limit=2)
    assert run.results["success"].n == 2
    assert (tmp_path / "elsewhere").is_dir()


def test_a_configuration_may_get_another_model_or_the_folder_as_second_argument(tmp_path):
    data = {"task": {"name": "robustness", "src": lmassay.rows(TEXTS), "attack": "charswap"}, "model": "echo"}
    assert lmassay.evaluate(data, upper)[0].model == "upper"
    (run,) = lmassay.evaluate(data, tmp_path / "mine")
    assert run.folder == tmp_path / "mine"


def test_a_misspelt_model_is_not_taken_for_the_folder_if_the_folder_is_given(tmp_path):
    data = {"task": {"name": "robustness", "src": lmassay.rows(TEXTS), "attack": "charswap"}, "model": "echo"}
    with pytest.raises(lmassay.UserError, match="did you mean 'echo'"):
        lmassay.evaluate(data, "ecko", "mine")
    assert not (tmp_path / "ecko").exists()


def test_the_results_folder_is_that_of_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("LMASSAY_RESULTS", str(tmp_path / "mine"))
    (run,) = lmassay.evaluate(attack(), upper)
    assert run.folder == tmp_path / "mine"
    assert lmassay.load()["latest"].id == lmassay.load_run("latest").id == run.id
    assert lmassay.compare(run.id, "latest")["s_src"].difference == 0


def test_options_are_keys_of_the_configuration():
    (run,) = lmassay.evaluate(attack(), "echo", limit=2, seed=7, confidence=0.9, name="mine")
    assert {key: run.record.config[key] for key in ("limit", "seed", "confidence", "name")} == {
        "limit": 2,
        "seed": 7,
        "confidence": 0.9,
        "name": "mine",
    }
    with pytest.raises(ConfigError, match="limit"):
        lmassay.evaluate(attack(), "echo", limit=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None,), "give a task or a configuration"),
        (([], "echo"), "task: the list is empty"),
        (("robustnes", "echo"), "did you mean 'robustness'"),
        ((lmassay.FunctionModel(upper), Length(["a"])), "this is a model; write lmassay.evaluate"),
        ((7, "echo"), "task: give a name"),
    ],
)
def test_a_wrong_argument_is_an_exception_with_advice(arguments, message):
    with pytest.raises(lmassay.UserError, match=message):
        lmassay.evaluate(*arguments)


def test_python_objects_run_in_this_process_even_if_workers_are_wanted():
    with pytest.warns(UserWarning, match="cannot be sent to other processes"):
        (run,) = lmassay.evaluate(attack(), upper, workers=2)
    assert run.status == "done"


class Adapts(Length):
    """Remembers the model, as tasks do that ask masked and causal models differently."""

    def check_model(self, model):
        self.suffix = model.label


class Named(Repeat):
    """Has a label, and cannot be used after it was closed."""

    def __init__(self, label: str):
        super().__init__()
        self.label = label
        self.is_closed = False

    def identity(self):
        return {"name": self.label}

    def generate(self, requests):
        assert not self.is_closed
        return super().generate(requests)

    def close(self):
        self.is_closed = True


def test_a_task_object_is_not_shared_between_models():
    task = Adapts(["a"])
    runs = lmassay.evaluate(task, [Named("x"), Named("yyy")])
    assert [run["characters"].value for run in runs] == [2, 4]
    assert task.suffix == ""


def test_a_model_object_is_not_shared_between_tasks():
    runs = lmassay.evaluate([Length(["a"]), Length(["bb"])], Named("x"))
    assert [run.status for run in runs] == ["done", "done"]


def test_an_object_of_a_shipped_model_can_be_used_again():
    with openai_server() as server:
        model = OpenAICompatible(base_url=server.url, model="tiny")
        for texts in (["a"], ["b"]):
            (run,) = lmassay.evaluate(Length(texts), model)
            assert run.status == "done"


# --- functions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda prompts: prompts[:1], "returned 1 answer to"),
        (lambda prompts: "one text", "it must return a list with one answer per request"),
        (lambda prompts: None, "returned None for a list"),
        (lambda prompts: [None for _ in prompts], "returned None as answer 1; every answer must be a text"),
        (lambda prompts: [1 for _ in prompts], "a value of type int as answer 1"),
        (lambda prompts: [1 / 0], "ZeroDivisionError"),
        (lambda prompts: sys.exit(3), "SystemExit"),
    ],
)
def test_a_function_that_does_not_answer_is_reported(function, message):
    with pytest.raises(PluginError, match=message):
        lmassay.evaluate(attack(), function)
    assert lmassay.load()["latest"].status == "failed"


def test_a_function_of_one_prompt_is_reported_with_what_it_gets():
    with pytest.raises(lmassay.UserError, match="it is called with a list of requests, not with a single one"):
        lmassay.evaluate(attack(), lambda prompt: prompt.upper())


def test_an_asynchronous_function_answers_with_and_without_an_event_loop():
    async def answer(prompts):
        await asyncio.sleep(0)
        return upper(prompts)

    async def main():
        return lmassay.evaluate(attack(), answer, "inside")

    (outside,) = lmassay.evaluate(attack(), answer)
    (inside,) = asyncio.run(main())
    assert inside["s_tgt"] == outside["s_tgt"]


class Calls:
    """Counts calls where a fingerprint does not see it: a counter that a function changes would make it another one."""

    def __init__(self):
        self.sizes = SimpleQueue()

    def all(self):
        return [self.sizes.get() for _ in range(self.sizes.qsize())]


def test_answers_before_a_failure_are_not_requested_again():
    calls = Calls()

    def flaky(prompts):
        calls.sizes.put(len(prompts))
        if calls.sizes.qsize() == 2:
            raise RuntimeError("no connection")
        return upper(prompts)

    model = lmassay.model(flaky, batch_size=2)
    with pytest.raises(PluginError, match="no connection"):
        lmassay.evaluate(attack(), model)
    (run,) = lmassay.evaluate(attack(), model)
    assert run.status == "done"
    # Five different texts in all; the first two answers came from the store.
    assert calls.all() == [2, 2, 2, 1]


def test_another_function_never_gets_cached_answers():
    def made(suffix):
        return lambda prompts: [prompt + suffix for prompt in prompts]

    first = lmassay.evaluate(attack(), made("!"))[0].examples[0].answer
    second = lmassay.evaluate(attack(), made("?"))[0].examples[0].answer
    assert (first[-1], second[-1]) == ("!", "?")


def test_an_object_with_another_state_never_gets_cached_answers():
    once, twice = Repeat(1), Repeat(2)
    lmassay.evaluate(Length(["a"]), once)
    (run,) = lmassay.evaluate(Length(["a"]), twice)
    assert (run["characters"].value, twice.requests) == (2, 1)


def test_a_function_with_an_object_that_cannot_be_compared_is_cached_in_this_process_only():
    calls = Calls()

    def counted(prompts):
        calls.sizes.put(len(prompts))
        return upper(prompts)

    (run,) = lmassay.evaluate(attack(), counted)
    assert "reused in this Python process only, because it uses calls.sizes (SimpleQueue)" in run.notes[0]
    lmassay.evaluate(attack(), counted)
    assert calls.all() == [5]


def test_a_changed_variable_makes_a_function_another_one():
    settings = {"suffix": "!"}
    model = lmassay.model(lambda prompts: [prompt + settings["suffix"] for prompt in prompts])
    assert lmassay.evaluate(attack(), model)[0].examples[0].answer.endswith("!")
    settings["suffix"] = "?"
    assert lmassay.evaluate(attack(), model)[0].examples[0].answer.endswith("?")


def test_a_function_gives_log_probabilities():
    model = lmassay.model(logprobs=lambda pairs: [-float(len(text)) for _, text in pairs], name="short")
    pairs = [("Cats sleep.", "Cats sleeps."), ("Dogs barks.", "Dogs bark.")]
    (run,) = lmassay.evaluate(lmassay.task("minimal_pairs", data=pairs), model)
    assert run["accuracy"].value == 0.5
    wrong = lmassay.model(logprobs=lambda pairs: [0.5 for _ in pairs])
    with pytest.raises(PluginError, match="a log-probability is at most 0"):
        lmassay.evaluate(lmassay.task("minimal_pairs", data=pairs), wrong)


def test_an_answer_ends_at_a_stop_text():
    (run,) = lmassay.evaluate(attack(stop=["cat"]), lambda prompts: list(prompts))
    assert run.examples[0].answer == "The "


# --- data -------------------------------------------------------------------------------------------------------------


def test_data_in_memory_are_kept_with_the_results(tmp_path):
    (run,) = lmassay.evaluate(attack(), "echo")
    path = run.record.config["task"]["src"]
    assert path.startswith(str(tmp_path / "results" / "inputs"))
    # A run with data in memory and a named model is an ordinary run.
    assert in_process.run(["resume", run.id]).returncode == 0


def test_the_names_of_data_distinguish_runs():
    tasks = [attack(src=lmassay.rows(TEXTS, name="first")), attack(src=lmassay.rows(TEXTS[:1], name="second"))]
    runs = lmassay.evaluate(tasks, upper)
    assert [run.label for run in runs] == ["charswap, src=first.txt", "charswap, src=second.txt"]
    assert runs[0].record.config["model"] == "python:upper"


def test_a_column_and_a_table_of_a_data_frame_are_data():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS, "good": ["Cats sleep."] * 3, "bad": ["Cats sleeps."] * 3})
    assert lmassay.evaluate(attack(src=table["text"]), "echo")[0]["s_src"].n == 3
    short = lmassay.model(logprobs=lambda pairs: [-float(len(text)) for _, text in pairs])
    pairs = lmassay.task("minimal_pairs", data=table, columns={"right": "good", "wrong": "bad"})
    assert lmassay.evaluate(pairs, short)[0]["accuracy"].value == 1
    with pytest.raises(DataError, match=r"task\.src: this is a table with the columns text, good, bad"):
        lmassay.evaluate(attack(src=table), "echo")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], r"task\.src: the list is empty"),
        (["a", None], r"task\.src\[1\]: it is missing"),
        (["a", float("nan")], r"task\.src\[1\]: it is missing"),
        (["a", 3], r"task\.src\[1\]: it is a value of type int"),
        (["a\nb"], r"task\.src\[0\]: the text contains a line break"),
        (["\ud800"], "surrogate"),
        ([{"text": "a"}], "this is a table with the columns text"),
    ],
)
def test_texts_that_cannot_be_used_are_reported(texts, message):
    with pytest.raises(DataError, match=message):
        lmassay.evaluate(attack(src=texts), "echo")


def test_outputs_of_a_system_may_be_in_memory():
    outputs = {"out": TEXTS, "adv_out": [text[1:] for text in TEXTS]}
    task = attack(attack={"name": "typos", "file": [text.lower() for text in TEXTS]}, ref=TEXTS)
    (run,) = lmassay.evaluate(task, lmassay.model("outputs", files=outputs, label="mine"))
    assert (run.label, run.model, run["success"].n) == ("typos", "mine", 3)
    assert run.examples[0].answers == (TEXTS[0], TEXTS[0][1:])


def test_names_of_files_are_not_taken_for_texts(tmp_path):
    (tmp_path / "a.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="these are names of files"):
        lmassay.evaluate(attack(src=["a.txt"]), "echo")


def test_wrong_columns_are_reported_with_the_row():
    short = lmassay.model(logprobs=lambda pairs: [-1.0 for _ in pairs])
    with pytest.raises(LmassayError, match="sentence_bad"):
        lmassay.evaluate(lmassay.task("minimal_pairs", data=[{"sentence_good": "a", "bad": "b"}]), short)


def test_a_description_of_data_may_contain_the_data():
    rows = []
    for number in range(8):
        rows.append({"idx": number, "text": f"It is {'good' if number % 2 else 'bad'}.", "label": str(number % 2)})
    description = {
        "name": "mood",
        "data": {"train": rows, "dev": rows},
        "fields": ["text"],
        "labels": ["0", "1"],
        "words": {"0": "bad", "1": "good"},
        "patterns": ["{text} It was [mask]."],
    }
    task = lmassay.task(
        "fewshot", data=description, method="icl", labelled=["train"], splits={"k": 1, "strategy": "multi_splits"}
    )

    def guess(prompts):
        return ["good" if "good" in prompt.rpartition("It is")[2] else "bad" for prompt in prompts]

    (run,) = lmassay.evaluate(task, guess)
    assert run["acc"].value == 1


def test_questions_about_bias_may_be_in_memory():
    question = {
        "example_id": 1,
        "question_index": "1",
        "question_polarity": "neg",
        "context_condition": "ambig",
        "category": "Age",
        "answer_info": {"ans0": ["A", "old"], "ans1": ["B", "nonOld"], "ans2": ["Unknown", "unknown"]},
        "additional_metadata": {"subcategory": "None", "stereotyped_groups": ["old"]},
        "context": "A and B met.",
        "question": "Who forgot?",
        "ans0": "A",
        "ans1": "B",
        "ans2": "Unknown",
        "label": 2,
    }
    (run,) = lmassay.evaluate(lmassay.task("bias", data=[question]), lambda prompts: ["C" for _ in prompts])
    assert run["accuracy_amb"].value == 1
    with pytest.raises(LmassayError, match="ids must differ"):
        lmassay.evaluate(lmassay.task("bias", data=[question, question]), upper)


# --- notebooks and the command line -----------------------------------------------------------------------------------


def test_a_model_behind_an_api_answers_inside_an_event_loop():
    async def main(server):
        model = lmassay.model("openai", base_url=server.url, model="tiny")
        return lmassay.evaluate(attack(), model)

    with openai_server() as server:
        (run,) = asyncio.run(main(server))
    assert run.status == "done"


def test_the_command_line_says_that_a_run_belongs_to_a_python_program():
    with pytest.raises(PluginError):
        lmassay.evaluate(attack(), lambda prompts: [])
    resumed = in_process.run(["resume"])
    assert resumed.returncode == 2
    assert "was passed to lmassay.evaluate in Python" in resumed.stderr
    assert "call lmassay.evaluate again" in resumed.stderr


def test_advice_about_a_run_of_a_python_program_is_about_python(tmp_path):
    with pytest.raises(PluginError) as failed:
        lmassay.evaluate(attack(), lambda prompts: [])
    (note,) = failed.value.__notes__
    assert note.startswith("all answers so far are stored")
    assert note.endswith("continue by calling lmassay.evaluate again with the same objects")
    (run,) = lmassay.evaluate(attack(), upper)
    page = run.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "lmassay.evaluate(…) in Python, with the same objects" in page
    assert "lmassay run run.yaml" not in page


def test_nothing_is_printed(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lmassay.evaluate(attack(), upper)
    assert capsys.readouterr() == ("", "")
