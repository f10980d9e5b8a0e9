"""Whole sentences: accuracy by sum, token and character, BLiMP's groups, prefixes, pairs that cannot be judged."""

from __future__ import annotations

import json

import pytest

from lmassay.api import evaluate
from lmassay.errors import DataError, UserError
from lmassay.evaluations.syntax.commands.actions.run_notes import ties_note
from lmassay.evaluations.syntax.sentences import MinimalPairs
from tests.helpers import write_lines
from tests.published_data import published_set

MODEL = '''
from lmassay.types import Continuation

class Short:
    """A token is a word and costs its length."""
    name = "short"
    can = frozenset({"logprobs"})

    def identity(self):
        return {"name": self.name}

    def logprobs(self, requests):
        for request in requests:
            costs = tuple(-float(len(word)) for word in request.continuation.split())
            yield Continuation(sum(costs), costs)
'''
BLIMP = {"field": "syntax/semantics", "linguistics_term": "npi_licensing", "UID": "npi_present_1"}
PREFIX = {
    "one_prefix_method": True,
    "one_prefix_prefix": "the dog",
    "one_prefix_word_good": "is",
    "one_prefix_word_bad": "were",
}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


def run(files, rows, **task):
    write_lines(files / "p.jsonl", [json.dumps({"sentence_good": g, "sentence_bad": b, **more}) for g, b, more in rows])
    config = {
        "task": {"name": "minimal_pairs", "data": str(files / "p.jsonl"), **task},
        "model": str(files / "model.py:Short"),
    }
    (finished_run,) = evaluate(config, files / "results")
    return finished_run


def test_the_more_probable_sentence_wins_by_sum_token_and_character(files):
    finished_run = run(files, [("aa bb cc", "aaaaa b", {}), ("a", "bb", {})])
    assert finished_run["accuracy"].value == 1.0 / 2
    assert finished_run["accuracy_token"].value == 1.0
    scores = [r["scores"] for r in finished_run.rows()]
    assert [s["margin"] for s in scores] == [0.0, 1.0]
    assert [s["accuracy"] for s in scores] == [0.0, 1.0]


def test_identical_and_empty_sentences_are_unscored_and_counted(files):
    finished_run = run(files, [("a", "a", {}), ("a", "bb", {}), ("", "b", {})])
    assert (finished_run["accuracy"].n, finished_run["accuracy"].n_unscored) == (1, 2)
    reasons = [r["unscored"].get("accuracy") for r in finished_run.rows()]
    assert reasons == ["the two sentences are identical", None, "a sentence is empty"]


def test_pairs_that_cannot_be_scored_are_named_before_the_run(files):
    write_lines(
        files / "p.jsonl", [json.dumps({"sentence_good": good, "sentence_bad": "b"}) for good in ("", "b", "b")]
    )
    notes = MinimalPairs("p.jsonl", base_dir=files).notes()
    assert notes == [
        f"1 pair cannot be scored: a sentence is empty ({files / 'p.jsonl'}, line 1)",
        f"2 pairs cannot be scored: the two sentences are identical ({files / 'p.jsonl'}, line 2 and 1 more)",
    ]


def test_equally_probable_sentences_are_counted_if_there_are_any(files):
    tied = run(files, [("aa", "bb", {}), ("a", "bb", {}), ("a", "bb c", {}), ("a", "a", {})])
    assert (tied["ties"].value, tied["ties"].n) == (1 / 3, 3)
    assert tied["ties"].low < 1 / 3 < tied["ties"].high
    assert "in 1 of 3 pairs, both sentences are equally probable" in ties_note(tied.record)
    decided = run(files, [("a", "bb", {})])
    assert ties_note(decided.record) == ""
    assert "ties" not in {result.metric for result in decided.results}


def test_the_two_spellings_of_a_field_are_one(files):
    other = {**BLIMP, "field": "syntax_semantics", "UID": "npi_present_2", "linguistics_term": "island_effects"}
    finished_run = run(files, [("a", "bb", BLIMP), ("aaa", "bb", other), ("a", "cc", {**BLIMP, "field": "syntax"})])
    groups = {r.group for r in finished_run.results}
    assert {"field=syntax_semantics", "field=syntax", "phenomenon=npi_licensing", "paradigm=npi_present_2"} <= groups
    assert not any("syntax/semantics" in group for group in groups)


def test_one_prefix_compares_two_words_after_one_beginning(files):
    finished_run = run(files, [("x", "y", PREFIX), ("x", "z", {})], method="one_prefix")
    rows = list(finished_run.rows())
    assert rows[0]["inputs"]["asked"] == [["the dog", " is"], ["the dog", " were"]]
    assert finished_run["accuracy"].value == 1.0
    assert rows[1]["unscored"]["accuracy"] == "the pair has no one_prefix"


def test_two_prefix_compares_one_word_after_two_beginnings(files):
    fields = {
        "two_prefix_method": True,
        "two_prefix_prefix_good": "a",
        "two_prefix_prefix_bad": "b",
        "two_prefix_word": "c",
    }
    finished_run = run(files, [("x", "y", fields)], method="two_prefix")
    assert next(iter(finished_run.rows()))["inputs"]["asked"] == [["a", " c"], ["b", " c"]]


def test_the_same_pair_twice_is_two_examples(files):
    assert run(files, [("a", "bb", {}), ("a", "bb", {})])["accuracy"].n == 2


def test_pairs_that_share_nouns_are_noted_unless_the_intervals_account_for_it(files):
    nouns = ("cook", "cook", "guest")
    rows = [
        {"sentence_good": f"The {noun} sings {number}.", "sentence_bad": f"The {noun} sing {number}.", "noun": noun}
        for number, noun in enumerate(nouns)
    ]
    data = write_lines(files / "nouns.jsonl", [json.dumps(row) for row in rows])
    (note,) = MinimalPairs(str(data)).notes()
    assert "3 pairs share 2 nouns" in note
    assert MinimalPairs(str(data), clusters="noun").notes() == []


def test_a_method_that_no_pair_allows_is_reported_with_the_columns_that_it_needs(files):
    row = {"sentence_good": "The cook sings.", "sentence_bad": "The cook sing."}
    data = write_lines(files / "plain.jsonl", [json.dumps(row)])
    with pytest.raises(DataError, match="which needs the columns one_prefix_method, one_prefix_prefix, "):
        MinimalPairs(str(data), method="one_prefix").check()


def test_clusters_are_a_field_of_the_data(files):
    finished_run = run(files, [("a", "bb", {"t": i % 3}) for i in range(9)], clusters="t")
    assert finished_run["accuracy"].n == 9
    with pytest.raises(UserError, match=r"line 2 .* lacks the field 't'"):
        run(files, [("a", "bb", {"t": 1}), ("a", "cc", {})], clusters="t")


def blimp_rows(paradigms: int = 8, pairs: int = 10):
    """Every second paradigm is always right, the others always wrong; two make a phenomenon."""
    rows = []
    for paradigm in range(paradigms):
        fields = {"field": "syntax", "linguistics_term": f"phenomenon_{paradigm // 2}", "UID": f"paradigm_{paradigm}"}
        for number in range(pairs):
            texts = (f"a {number}", f"bb {number}") if paradigm % 2 else (f"bb {number}", f"a {number}")
            rows.append((*texts, fields))
    return rows


@pytest.mark.parametrize(("units", "number"), [("paradigm", 8), ("phenomenon", 4)])
def test_paradigms_or_phenomena_can_be_the_units(files, units, number):
    single, grouped = (run(files, blimp_rows(), clusters=clusters) for clusters in ("none", units))
    before, after = single["accuracy"], grouped["accuracy"]
    assert (before.value, before.n) == (after.value, after.n) == (0.5, 80)
    assert before.method == "wilson"
    assert after.method == f"wilson/{units}"
    assert after.clusters == {units: number}
    if units == "paradigm":
        # Eight paradigms that are wholly right or wrong are eight coin tosses, not eighty.
        assert after.high - after.low > 2 * (before.high - before.low)


def test_within_a_paradigm_its_pairs_are_the_units(files):
    finished_run = run(files, blimp_rows(), clusters="paradigm")
    by_group = {result.group: result for result in finished_run.results if result.metric == "accuracy"}
    assert by_group["paradigm=paradigm_1"].method == "wilson"
    assert by_group["paradigm=paradigm_1"].low > 0.6
    assert by_group["phenomenon=phenomenon_0"].method == "wilson/paradigm"


def test_a_phenomenon_that_the_data_do_not_name_cannot_be_a_unit(files):
    with pytest.raises(UserError, match="lacks the field 'linguistics_term'"):
        run(files, [("a", "bb", {}), ("a", "cc", {})], clusters="phenomenon")


def test_the_korean_grammar_runs_whole(files):
    config = {
        "task": {"name": "minimal_pairs", "data": "korean", "max_per_file": 6},
        "model": str(files / "model.py:Short"),
    }
    (finished_run,) = evaluate(config, files / "results")
    assert finished_run["accuracy"].n > 50
    assert sum(r.group.startswith("paradigm=") for r in finished_run.results) > 20


def test_all_paradigms_of_blimp_run(files):
    folder = files / "blimp"
    folder.mkdir()
    for file in published_set("blimp").glob("*.jsonl"):
        if file.stem != "models_summary":
            (folder / file.name).symlink_to(file)
    config = {
        "task": {"name": "minimal_pairs", "data": str(folder), "max_per_file": 10},
        "model": str(files / "model.py:Short"),
    }
    (finished_run,) = evaluate(config, files / "results")
    paradigms = {r.group for r in finished_run.results if r.group.startswith("paradigm=")}
    phenomena = {r.group for r in finished_run.results if r.group.startswith("phenomenon=")}
    assert (len(paradigms), len(phenomena)) == (67, 12)
    assert finished_run["accuracy"].n == 670


def test_a_seed_draws_a_sample_of_each_file_that_is_the_same_every_time(tmp_path):
    rows = [{"sentence_good": f"Dogs {number} bark.", "sentence_bad": f"Dogs {number} barks."} for number in range(40)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def drawn(**options):
        task = MinimalPairs(str(tmp_path / "pairs.jsonl"), max_per_file=5, **options)
        return [example.inputs["good"] for example in task.examples()], task.signature()

    first, _ = drawn()
    sample, signature = drawn(sample_seed=0)
    assert first == [row["sentence_good"] for row in rows[:5]]
    assert len(sample) == 5
    assert sample != first
    assert drawn(sample_seed=0) == (sample, signature)
    assert drawn(sample_seed=1)[0] != sample
    assert signature["sample"] == "seed0"
