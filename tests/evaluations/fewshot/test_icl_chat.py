"""In-context learning with chat models: real servers on loopback, one unusable answer costs one example."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lmassay import evaluate
from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.icl import InContext
from lmassay.evaluations.fewshot.methods.contract import NoChoiceError, TrainingInputs
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from lmassay.types import Generate, Response
from tests import in_process
from tests.evaluations.fewshot.toys import METHOD, rows, write_data
from tests.servers import Reply, Server, completion, failure, message, openai_server

GOOD_WORDS = ("fine", "sunny", "warm", "nice")
TASK: dict[str, Any] = {
    "name": "fewshot",
    "data": "rte",
    "data_dir": "data",
    "labelled": ["train"],
    "splits": {"k": 2},
    "method": {"name": "icl", "shots": 4},
}
# 8 dev and 12 test examples in each of the two splits.
QUESTIONS = 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_data(tmp_path / "data")
    # Tests that differ from the labelled examples, so that no request is sent twice.
    tests = [{**row, "premise": f"{row['premise']} again"} for row in rows(12)]
    (tmp_path / "data" / "val.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tests), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def right_answer(body: dict[str, Any]) -> str:
    """RTE's words in pattern 0: Yes for a good day."""
    question = body["messages"][-1]["content"]
    return "Yes" if any(word in question for word in GOOD_WORDS) else "No"


def answers_but(odd_replies: dict[int, Reply], wrap: Callable[[str], Reply] = completion) -> Callable[..., Reply]:
    """A server that is right, except that the requests of these numbers get other replies."""
    lock = threading.Lock()
    count = 0

    def answer(body: dict[str, Any], before: int) -> Reply:
        nonlocal count
        with lock:
            count += 1
            number = count
        return odd_replies.get(number) or wrap(right_answer(body))

    return answer


def openai_model(server: Server, **options: Any) -> dict[str, Any]:
    return {"name": "openai", "model": "m", "base_url": server.url, "concurrency": 1, "tries": 2, "wait": 0, **options}


def claude_model(server: Server, **options: Any) -> dict[str, Any]:
    options = {"concurrency": 1, "tries": 2, "wait": 0, **options}
    return {"name": "claude", "model": "m", "base_url": server.root, **options}


# --- what is asked ----------------------------------------------------------------------------------------------------


def chat_messages(task: Any, shots: int = 2, **options: Any) -> list[tuple[str, str]]:
    method = InContext(shots=shots, answer_by="generate", **options)
    inputs = TrainingInputs(task=task, model=None, train=task.examples("train"))
    ((question,),) = method.questions(inputs, task.examples("dev")[:1])
    assert isinstance(question, Generate)
    return list(question.messages)


def test_demonstrations_are_earlier_turns_and_the_instruction_names_the_labels(folder):
    messages = chat_messages(open_task("rte", folder / "data"))
    assert [role for role, _ in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[0][1].startswith('Fill in the blank "____" in the last text. Possible answers: Yes, No. Answer')
    assert sorted(text for role, text in messages if role == "assistant") == ["No", "Yes"]
    assert "____" in messages[-1][1]
    assert "Possible answers" not in messages[-1][1]


def test_without_demonstrations_there_is_one_turn(folder):
    ((role, text),) = chat_messages(open_task("rte", folder / "data"), shots=0)
    assert role == "user"
    assert text.count("____") == 2


OWN_TASK = """
data: {train: reviews.jsonl, dev: reviews.jsonl}
fields: [text]
labels: ["0", "1"]
words: {"0": terrible, "1": great}
patterns: ["It was [mask]. {text}"]
"""
CHAT = """
chat:
  instruction: "Label film reviews. {answers}"
  question: "Review: {text}"
  answers: {"0": negative, "1": positive}
"""


def own_task(folder: Path, chat: str) -> Any:
    reviews = [{"text": f"film {number}", "label": str(number % 2)} for number in range(8)]
    lines = "".join(json.dumps(review) + "\n" for review in reviews)
    (folder / "reviews.jsonl").write_text(lines, encoding="utf-8")
    (folder / "reviews.yaml").write_text(OWN_TASK + chat, encoding="utf-8")
    return open_task("reviews.yaml", base_dir=folder)


def test_a_task_of_ones_own_has_its_own_wording(folder):
    task = own_task(folder, CHAT)
    messages = chat_messages(task)
    assert messages[0][1].startswith("Label film reviews. Possible answers: negative, positive.\n\nReview: film ")
    assert messages[-1][1] == "Review: film 0"
    method = InContext(answer_by="generate")
    assert method.logits(task, task.examples("dev")[0], [Response("**Positive**")]) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("chat", "complaint"),
    [
        ('chat: {instruction: "Label this."}', "put {answers} where the list belongs"),
        ('chat: {question: "{txt}"}', "there is no field 'txt'; did you mean 'text'"),
        ('chat: {answers: {"0": bad}}', "the label '1' has no word"),
        ('chat: {answers: {"0": bad, "1": bad}}', "already belongs to '0'"),
    ],
)
def test_a_wording_that_cannot_work_is_refused(folder, chat, complaint):
    with pytest.raises(ConfigError, match=complaint.replace("{", r"\{").replace("}", r"\}")):
        own_task(folder, chat)


@pytest.mark.parametrize(
    ("answer", "logits"),
    [
        ("Yes", [1.0, 0.0]),
        ("The answer is: no.", [0.0, 1.0]),
        ("No, the text does not say so.", [0.0, 1.0]),
        ('{"answer": "Yes"}', [1.0, 0.0]),
    ],
)
def test_the_label_is_read_from_the_text(folder, answer, logits):
    task = open_task("rte", folder / "data")
    method = InContext(answer_by="generate")
    assert method.logits(task, task.examples("dev")[0], [Response(answer)]) == logits


@pytest.mark.parametrize("answer", ["I cannot say.", "Yes or no", "A", "banana"])
def test_an_answer_that_names_no_label_or_two_is_not_guessed(folder, answer):
    task = open_task("rte", folder / "data")
    with pytest.raises(NoChoiceError):
        InContext(answer_by="generate").logits(task, task.examples("dev")[0], [Response(answer)])


# --- whole runs -------------------------------------------------------------------------------------------------------


def test_one_odd_answer_costs_one_example(folder):
    # The requests of a split are dev, then test: the last one is a test.
    with openai_server(answers_but({QUESTIONS: completion("I cannot say.")})) as server:
        (run,) = evaluate({"task": TASK, "model": openai_model(server)})
    assert len(server.bodies) == QUESTIONS
    assert run["acc"].value == 1.0
    assert run["acc"].n == 2
    assert run["acc"].low is not None
    assert run["ooc"].value == pytest.approx(1 / 24)
    assert run["ooc"].low < 1 / 24 < run["ooc"].high
    unusable = [row["details"]["unusable"] for row in run.rows()]
    assert unusable == [{"n": 20}, {"n": 20, "out of choice": 1}]


def test_unusable_answers_are_counted_by_their_reason(folder):
    odd_replies = {
        36: completion(None, refusal="I must not"),
        37: completion("", "content_filter"),
        38: completion("", "length"),
        39: completion("Well, the text says", "length"),
        40: completion(""),
    }
    with openai_server(answers_but(odd_replies)) as server:
        (run,) = evaluate({"task": TASK, "model": openai_model(server)})
    assert run["acc"].value == 1.0
    assert run["ooc"].value == pytest.approx(5 / 24)
    _, second = run.rows()
    assert second["details"]["unusable"] == {"n": 20, "refused": 1, "filtered": 1, "cut off": 2, "empty": 1}


def test_claude_is_asked_in_its_own_protocol(folder):
    refusal = message(None, "refusal")
    with openai_server(answers_but({QUESTIONS: refusal}, message)) as server:
        (run,) = evaluate({"task": TASK, "model": claude_model(server)})
    assert run["acc"].value == 1.0
    assert run["ooc"].value == pytest.approx(1 / 24)
    assert {path.split()[1] for path in server.paths} == {"/v1/messages"}
    assert [turn["role"] for turn in server.bodies[0]["messages"][-3:]] == ["user", "assistant", "user"]


def test_answers_that_are_all_odd_leave_no_accuracy(folder):
    with openai_server(lambda body, before: completion("banana")) as server:
        (run,) = evaluate({"task": TASK, "model": openai_model(server)})
    assert run["ooc"].value == 1.0
    assert (run["acc"].value, run["acc"].n, run["acc"].n_unscored) == (None, 0, 2)


def test_the_table_says_why_there_is_no_accuracy(folder):
    with openai_server(lambda body, before: completion("banana")) as server:
        config = {"task": TASK, "model": openai_model(server)}
        (folder / "icl.yaml").write_text(json.dumps(config), encoding="utf-8")
        done = in_process.run(["run", "icl.yaml"])
    assert "no data (n = 0)" in done.stdout
    assert "[no data] No acc, dev: no answer can be read as a label." in done.stdout
    notes = in_process.run(["protocol"]).stdout
    assert "no dev answer can be read as a label" in " ".join(notes.split())


def test_an_error_is_not_an_answer_and_resuming_asks_only_for_it(folder):
    """A request that failed leaves an error in its split; the others and their answers are kept."""
    with openai_server(answers_but({5: failure(400, "bad request")})) as server:
        config = {"task": TASK, "model": openai_model(server)}
        (folder / "icl.yaml").write_text(json.dumps(config), encoding="utf-8")
        first = in_process.run(["run", "icl.yaml"])
        assert "1 example with errors" in first.stdout + first.stderr
        asked = len(server.bodies)
        second = in_process.run(["resume"])
        assert second.returncode == 0, second.stderr
        assert len(server.bodies) == asked + 1
    (shown,) = json.loads(in_process.run(["show", "latest", "--json"]).stdout)["runs"]
    values = {result["metric"]: result["value"] for result in shown["results"] if result["group"] == "overall"}
    assert values["acc"] == 1.0
    assert values["ooc"] == 0.0


def test_a_busy_server_is_asked_again(folder):
    with openai_server(answers_but({7: failure(429, "slow down", Retry_After="0")})) as server:
        (run,) = evaluate({"task": TASK, "model": openai_model(server)})
    assert run["acc"].value == 1.0
    assert run["ooc"].value == 0.0


def test_a_wrong_key_stops_the_run_in_one_line(folder):
    with openai_server(lambda body, before: failure(401, "invalid api key")) as server:
        config = {"task": TASK, "model": openai_model(server)}
        (folder / "icl.yaml").write_text(json.dumps(config), encoding="utf-8")
        stopped = in_process.run(["run", "icl.yaml"])
    assert stopped.returncode != 0
    assert "401" in stopped.stderr
    assert len(server.bodies) < QUESTIONS


def test_check_says_how_the_model_is_asked_and_counts_the_requests(folder):
    config = {"task": TASK, "model": {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}}
    (folder / "icl.yaml").write_text(json.dumps(config), encoding="utf-8")
    checked = in_process.run(["check", "icl.yaml", "--json"])
    (run,) = json.loads(checked.stdout)["runs"]
    assert run["requests"] == QUESTIONS
    assert any("answer_by: generate" in note for note in run["notes"])
    assert "answer_by:generate." in run["signature"]


def test_check_counts_splits_and_does_not_call_them_examples(folder):
    model = {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    (folder / "icl.yaml").write_text(json.dumps({"task": TASK, "model": model}), encoding="utf-8")
    checked = in_process.run(["check", "icl.yaml"])
    assert re.search(r"^task +label +model +splits +requests", checked.stdout, re.MULTILINE), checked.stdout
    (folder / "src.txt").write_text("first sentence\nsecond sentence\n", encoding="utf-8")
    attack = {"task": {"name": "robustness", "src": "src.txt", "attack": "charswap"}, "model": "echo"}
    (folder / "attack.yaml").write_text(json.dumps(attack), encoding="utf-8")
    checked = in_process.run(["check", "icl.yaml", "attack.yaml"])
    assert re.search(r"^task +label +model +scores +requests", checked.stdout, re.MULTILINE), checked.stdout
    assert "2 splits" in checked.stdout
    assert "2 examples" in checked.stdout


def test_two_runs_are_compared_on_the_tests_that_both_answered(folder):
    from lmassay.statistics.comparison import compare_runs
    from lmassay.statistics.sides import load_side
    from lmassay.storage.store import Store

    with openai_server(answers_but({QUESTIONS: completion("I cannot say.")})) as server:
        evaluate({"task": TASK, "model": openai_model(server)}, results=folder / "results")
    with openai_server(lambda body, before: completion("Yes")) as server:
        evaluate({"task": TASK, "model": openai_model(server)}, results=folder / "results")
    with Store(folder / "results") as store:
        base, other = (load_side(store, record) for record in store.runs())
        (row,) = compare_runs(base, [other], ["acc"])
    # The last test is a bad day, which the second model gets wrong; it is paired in the first split only.
    assert row.difference == pytest.approx(-(6 / 12 + 5 / 11) / 2, abs=0.02)
    assert row.low is not None


# --- next to trained models -------------------------------------------------------------------------------------------


def test_prompted_and_trained_methods_share_one_table_with_their_cost(folder):
    (folder / "counting.py").write_text(METHOD, encoding="utf-8")
    trained = {**TASK, "method": {"name": "counting.py:Counting", "log": "log"}}
    with openai_server(answers_but({QUESTIONS: completion("I cannot say.")})) as server:
        model = openai_model(server, prices={"input": 1.0, "output": 5.0})
        for number, config in enumerate(({"task": TASK, "model": model}, {"task": trained})):
            (folder / f"{number}.yaml").write_text(json.dumps(config), encoding="utf-8")
        assert in_process.run(["run", "0.yaml", "1.yaml"]).returncode == 0
    document = json.loads(in_process.run(["protocol", "--all", "--json"]).stdout)
    selected = {}
    for study in document["studies"]:
        (judged,) = study["strategies"][0]["tasks"].values()
        selected[study["method"]] = judged["selected"]
    prompted = selected["icl"]
    # The server counts 3 tokens in and 2 out for each of the 20 answers of a split.
    assert prompted["cost"] == {"seconds": None, "tokens_in": 60, "tokens_out": 40, "usd": pytest.approx(0.00026)}
    assert prompted["ooc"]["value"] == pytest.approx(1 / 24)
    by_counting = selected["counting.py:Counting"]
    assert by_counting["cost"]["seconds"] >= 0
    assert by_counting["cost"]["usd"] is None
    assert by_counting["ooc"]["value"] is None
    printed = in_process.run(["protocol", "--all", "--format", "md"]).stdout
    assert "Scores and cost" in printed
    assert "60 / 40" in printed
    assert "n=2" in printed.partition("Scores and cost")[2]
    csv_lines = in_process.run(["protocol", "--all", "--format", "csv"]).stdout.splitlines()
    assert sum("cost of a split" in line for line in csv_lines) == 4
    assert "tokens in / out" in in_process.run(["protocol", "--all"]).stdout


def test_samples_are_repetitions_within_their_split(folder):
    def answer(body: dict[str, Any], before: int) -> Reply:
        # The third time a question is asked, the answer is wrong.
        right = right_answer(body)
        wrong = "No" if right == "Yes" else "Yes"
        return completion(wrong if before % 3 == 2 else right)

    with openai_server(answer) as server:
        (run,) = evaluate({"task": TASK, "model": openai_model(server), "samples": 3, "temperature": 0.7})
    assert len(server.bodies) == 3 * QUESTIONS
    assert {body["temperature"] for body in server.bodies} == {0.7}
    assert run["acc"].value == pytest.approx(2 / 3)
    assert run["acc"].n == 6
    # Of three answers to every question two are right: the variance is 1/3, and questions do not differ.
    assert run["acc.within"].value == pytest.approx(1 / 3)
    assert run["acc.between"].value == 0.0
    assert run["acc.within"].n == 24
