"""What the example browser shows of an example, by evaluation."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lmassay.evaluations.imported.reading import configuration
from lmassay.reporting.browser import browser_rows
from lmassay.reporting.example_texts import prompts_and_answers, texts_of
from lmassay.reporting.page import render
from lmassay.running import runner
from lmassay.storage.store import Store
from lmassay.types import Continuation, Example, NewRun, Provenance, Response, Row, RunRecord, Score
from tests.interchange.kit import samples, write_log
from tests.reporting import small_runs

CHOICES = ["the old man", "the boy", "cannot be known"]


def of_task(task: str) -> RunRecord:
    """A run of that task."""
    return RunRecord("r", "s", "", task, "m", "l", "done", {}, "", Provenance(), [], "", None, "", None)


def shown_texts(
    task: str, inputs: dict[str, Any], details: dict[str, Any] | None = None, reference: Any = None, exchanges: Any = ()
):
    return dict(
        texts_of(of_task(task), Row(Example("1", inputs, reference), "scored", Score({}, {}, details or {})), exchanges)
    )


def test_a_translation_shows_source_perturbed_outputs_and_reference():
    texts = shown_texts(
        "robustness",
        {"src": "le chat", "adv_src": ["le caht"], "line": 1},
        {"adv_src": "le caht", "made_by": "charswap", "out": "the cat", "adv_out": "the caht"},
        "the cat!",
    )
    assert texts == {
        "source": "le chat",
        "perturbed": "le caht",
        "made by": "charswap",
        "output": "the cat",
        "output on perturbed": "the caht",
        "reference": "the cat!",
    }


def test_a_chat_model_that_translates_shows_the_prompt_of_the_version_that_was_chosen():
    exchanges = [({"messages": [["user", f"Translate: {text}"]]}, Response("out")) for text in ("a", "b", "c")]
    texts = shown_texts("robustness", {"src": "a", "adv_src": ["b", "c"]}, {"adv_src": "c"}, exchanges=exchanges)
    assert texts["prompt"] == "Translate: a"
    assert texts["perturbed prompt"] == "Translate: c"


def test_a_question_shows_prompt_answer_how_it_was_read_and_what_is_right():
    read = {"reference": None, "robust": "B", "how": "letter", "letter": "B", "role": "x"}
    details = {"raw": "B.", "finish": "stop", **read}
    exchanges = [({"messages": [["user", "Who?\nA: …"]]}, Response("B."))]
    reference = {"answer": "C", "unknown": "C", "biased": "A"}
    texts = shown_texts("bias", {"context": "c", "question": "q", "choices": CHOICES}, details, reference, exchanges)
    assert texts["prompt"] == "Who?\nA: …"
    assert texts["answer"] == "B."
    assert texts["read as"] == (
        "B: the boy · x · letter · the reference parser reads out of choice, the robust parser reads B"
    )
    assert texts["reference"] == "right: C: cannot be known\nunknown: C: cannot be known\nstereotyped: A: the old man"


def test_a_question_of_a_run_before_prompts_were_kept_shows_its_parts():
    texts = shown_texts("bias", {"context": "c", "question": "q", "choices": CHOICES}, {"raw": "?", "letter": None})
    assert texts["context"] == "c"
    assert texts["choices"].startswith("A: the old man\nB: the boy")
    assert texts["read as"] == "out of choice"


def test_a_cut_answer_is_distinguished_from_a_whole_one():
    assert shown_texts("bias", {"choices": CHOICES}, {"raw": "It is", "finish": "length"})["answer (length)"] == "It is"


def test_log_probabilities_of_choices_are_shown_by_letter():
    texts = shown_texts("bias", {"choices": CHOICES}, {"logprobs": [-1.0, -2.5, -3.0], "letter": "A", "role": "biased"})
    assert texts["log-probability"] == "A -1.00, B -2.50, C -3.00"
    texts = shown_texts("bias", {"choices": CHOICES}, {"logprobs": [-1.0, None, -3.0], "letter": "A", "role": "biased"})
    assert texts["log-probability"] == "A -1.00, C -3.00", "a log of another tool may lack one"


def test_a_page_shows_imported_questions_of_which_a_choice_was_not_asked(tmp_path):
    rows = samples("my_bbq")
    for row in rows:
        del row["arguments"]["gen_args_1"]
        for kept in ("resps", "filtered_resps"):
            del row[kept][1]
        row["resps"][0], row["filtered_resps"][0] = [["-1.0", "False"]], ["-1.0", "False"]
    plan = runner.plan(configuration([write_log(tmp_path, rows)], model="m"))
    with Store(tmp_path / "results", create=True) as store:
        record = runner.start(plan, store)
        logprob_texts = [dict(row.texts)["log-probability"] for row in browser_rows(store, record, "m")]
        page = render(store, [record])
    assert logprob_texts
    assert all(re.fullmatch(r"A -1\.00, C -[0-9.]+", text) for text in logprob_texts), logprob_texts
    assert "A (log-probability A -1.00, C -" in page


def test_a_context_shows_its_blank_and_its_verbs():
    inputs = {"left": "the author ", "right": " here", "rows": [[0, "is", "are"], [1, "laughs", "laugh"]]}
    texts = shown_texts("syntax", inputs, {"tse": [[0, 1], [1, 0]], "lemmas": 7}, "singular")
    assert texts["context"] == "the author ___ here"
    assert texts["right / wrong verb"] == "is / are: right\nlaughs / laugh: wrong"
    assert texts["number of the right verb"] == "singular"


def test_a_minimal_pair_shows_both_sides_and_their_log_probabilities():
    details = {"logprob_good": -10.0, "logprob_bad": -12.5, "tokens_good": 4, "tokens_bad": 5}
    texts = shown_texts(
        "minimal_pairs", {"good": "it is", "bad": "it are", "asked": [["it", " is"], ["it", " are"]]}, details
    )
    assert texts["log-probability"] == "good -10.000 over 4 tokens\nbad -12.500 over 5 tokens"
    assert texts["compared"] == "it [is]\nit [are]"


def test_a_split_shows_its_configuration_and_a_few_of_its_prompts():
    row = Row(
        Example("s1", {"seed": 5, "train": [1, 2], "dev": [3], "unit": "u", "every": None}, None, {"split": "0"}),
        "scored",
        Score({}, {}, {"n_train": 2, "n_dev": 1, "n_test": 10, "curve": [[4, {"acc": 0.5}]]}),
    )
    exchanges = [({"verb": "generate", "prompt": f"review {number}"}, Response("good")) for number in range(12)]
    texts = dict(texts_of(of_task("fewshot"), row, exchanges))
    assert texts["configuration"] == "split 0, seed 5"
    assert texts["examples"] == "2 train, 1 dev, 10 test"
    assert texts["on the dev set"] == "step 4: acc 0.500"
    assert texts["prompt 1 of 12"] == "review 0"
    assert "prompt 4 of 12" not in texts


def test_a_task_of_ones_own_shows_all_there_is():
    exchanges = [({"context": "two and two", "continuation": "four"}, Response(Continuation(-1.5, (-1.5,))))]
    texts = shown_texts("own", {"a": 1, "b": ["x"]}, {"seen": 0.25}, "four", exchanges)
    assert texts["prompt"] == "two and two [four]"
    assert texts["answer"] == "log-probability -1.500 over 1 token"
    assert (texts["a"], texts["b"], texts["seen"], texts["reference"]) == ("1", '["x"]', "0.25", "four")


def test_why_a_row_has_no_score_is_reported():
    row = Row(
        Example("1", {}), "error", Score(unscored={"ew": "no lemma", "ew@top1": "no lemma"}), "the server is gone"
    )
    assert texts_of(of_task("own"), row, []) == [("no ew", "no lemma"), ("error", "the server is gone")]


@pytest.mark.parametrize("task", ["robustness", "syntax", "minimal_pairs", "bias", "fewshot", "own"])
def test_an_example_of_which_nothing_is_known_is_shown_as_nothing(task):
    texts = texts_of(of_task(task), Row(Example("1", {}), "error", error="lost"), [])
    assert texts[-1] == ("error", "lost")


def test_real_runs_are_shown_with_their_scores_in_the_order_of_the_results(tmp_path):
    small_runs.run(tmp_path, small_runs.two_constructions(tmp_path))
    with Store(tmp_path / "results") as store:
        (record,) = store.runs()
        rows = list(browser_rows(store, record, "a title"))
    assert {row.run for row in rows} == {"a title"}
    assert all(row.scores and not any("@" in metric for metric in row.scores) for row in rows)
    assert next(iter(rows[0].scores)) == record.design.headline[0]
    assert dict(rows[0].texts)["context"] == "The author ___ today."


def test_prompts_and_answers_come_out_of_the_store_beside_rows_that_have_none(tmp_path):
    with Store(tmp_path, create=True) as store:
        store.add_run(NewRun("r", "r", "", "own", "model", "own", {}, "s", Provenance(), None))
        store.add_response("key", "r", "model", {"verb": "generate", "prompt": "why?"}, Response("because"))
        store.add_rows("r", enumerate(Row(Example(i, {}), "scored") for i in "abc"), {"b": ["key", "lost"]})
        texts = [row.texts for row in browser_rows(store, store.run("r"), "x")]
    assert texts == [[], [("prompt", "why?"), ("answer", "because")], []]


def test_of_many_prompts_the_first_three_are_shown_and_the_others_counted():
    exchanges = [({"prompt": f"{number}?"}, Response("no")) for number in range(5)]
    texts = prompts_and_answers(exchanges)
    assert texts[4:6] == [("prompt 3 of 5", "2?"), ("answer 3 of 5", "no")]
    assert texts[6:] == [("more", "2 more prompts with answers; lmassay view shows all of them")]
