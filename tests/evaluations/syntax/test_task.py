"""The syntax task: contexts out of rows, verdicts out of answers, tables out of verdicts, and what can be wrong."""

from __future__ import annotations

import json
import math

import pytest

from lmassay.api import compare, evaluate
from lmassay.errors import ConfigError, DataError, UserError
from lmassay.evaluations.syntax.card import headline
from lmassay.evaluations.syntax.pair_files import PairFormat
from lmassay.evaluations.syntax.task import Syntax
from lmassay.running.config import expand
from lmassay.running.runner import plan
from lmassay.storage.store import Store
from tests.helpers import lmassay, write_config, write_lines

MODEL = '''
from lmassay.types import Candidates, Response

PROBABILITY = {"laughs": 0.2, "laugh": 0.1, "is": 0.05, "are": 0.15, "swims": None}

class Fixed:
    """Gives every word the same probability everywhere, but for what follows a plural noun."""
    name = "fixed"
    can = frozenset({"slot"})
    sees_right = SEES_RIGHT

    def __init__(self, turn: bool = False, masses: bool = True):
        self.turn, self.masses = turn, masses

    def identity(self):
        return {"name": self.name}

    def slot(self, requests):
        import math
        for request in requests:
            known = {w: PROBABILITY.get(w, 0.001) for w in request.candidates}
            if self.turn and request.left.rstrip().endswith("s"):
                swap = {"laughs": "laugh", "laugh": "laughs", "is": "are", "are": "is"}
                known = {w: PROBABILITY.get(swap.get(w, w), 0.001) for w in request.candidates}
            logs = [math.log(known[w]) if known[w] else None for w in request.candidates]
            listed = [q for q in PROBABILITY.values() if q]
            above = [sum(q for q in listed if known[w] and q > known[w]) for w in request.candidates]
            yield Candidates(logs, None, above) if self.masses else Candidates(logs)
'''
VERBS = ["idx,sing,plur,freq", "_,laughs,laugh,_", "_,is,are,_", "_,swims,swim,_"]


def row(good, bad, label):
    return json.dumps({"sentence_good": good, "sentence_bad": bad, "label": label})


SIMPLE = [
    row("the author laughs", "the author laugh", -1),
    row("the authors laugh", "the authors laughs", -2),
    row("the author is tall", "the author are tall", -1),
    row("the authors are tall", "the authors is tall", -2),
    row("the author swims", "the author swim", -1),
    row("the author laughs", "the author laugh", -1),
]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "masked.py").write_text(MODEL.replace("SEES_RIGHT", "True"), encoding="utf-8")
    (tmp_path / "causal.py").write_text(MODEL.replace("SEES_RIGHT", "False"), encoding="utf-8")
    write_lines(tmp_path / "verbs.csv", VERBS)
    write_lines(tmp_path / "simple.jsonl", SIMPLE)
    return tmp_path


def run(files, model="masked.py:Fixed", **task):
    task = {"name": "syntax", "data": str(files / "simple.jsonl"), "verbs": str(files / "verbs.csv"), **task}
    model = model if isinstance(model, dict) else {"name": model}
    model = {**model, "name": str(files / model["name"])}
    (finished_run,) = evaluate({"task": task, "model": model}, files / "results")
    return finished_run


def test_contexts_are_distinct_and_rows_are_counted(files):
    masked, causal = run(files), run(files, "causal.py:Fixed")
    assert [r["inputs"]["left"] + "_" + r["inputs"]["right"] for r in masked.rows()] == [
        "The author _.",
        "The authors _.",
        "The author _ tall.",
        "The authors _ tall.",
    ]
    assert [r["inputs"]["left"] for r in causal.rows()] == ["The author ", "The authors "]
    assert (masked["ew"].n, causal["ew"].n) == (4, 2)
    assert masked["tse"].n == causal["tse"].n == 5


def test_rows_whose_form_is_no_single_token_are_dropped_and_counted(files):
    finished_run = run(files)
    assert (finished_run["tse"].n, finished_run["tse"].n_unscored) == (5, 1)
    assert finished_run["tse"].value == pytest.approx(3 / 5)


def test_each_number_has_its_own_line(files):
    groups = {(r.metric, r.group): r.value for r in run(files).results}
    assert groups["tse", "number=singular"] == pytest.approx(2 / 3)
    assert groups["tse", "number=plural"] == pytest.approx(1 / 2)
    assert groups["mw", "number=singular"] == pytest.approx(0.25 / 0.5)
    assert groups["mass", "overall"] == pytest.approx(0.5)


def test_the_verb_list_is_asked_whole_and_lemmas_are_counted(files):
    rows = list(run(files).rows())
    assert {r["details"]["lemmas"] for r in rows} == {2}
    assert rows[0]["scores"]["ew"] == 0.5


def test_the_released_variant_knows_one_lemma(files):
    rows = list(run(files, compat="released").rows())
    assert {r["details"]["lemmas"] for r in rows} == {1}
    assert [r["scores"]["ew"] for r in rows] == [0.0, 1.0, 0.0, 1.0]


def test_the_released_variant_knows_one_lemma_for_each_index(files):
    write_lines(files / "verbs.csv", [VERBS[0], "0,laughs,laugh,_", "1,is,are,_", "1,swims,swim,_"])
    assert {r["details"]["lemmas"] for r in run(files, compat="released").rows()} == {2}


def test_where_no_verb_differs_only_tse_is_asked(files):
    lines = [json.dumps({**json.loads(line), "contrast": "noun"}) for line in SIMPLE]
    write_lines(files / "simple.jsonl", lines)
    finished_run = run(files)
    assert finished_run["tse"].n == 5
    assert (finished_run["ew"].n, finished_run["ew"].n_unscored) == (0, 4)
    assert next(iter(finished_run.rows()))["unscored"]["ew"] == "the pair differs in a word that is not a verb"


def test_curves_need_masses_and_their_absence_is_no_failure(files):
    metrics = {
        r.metric for r in run(files, {"name": "masked.py:Fixed", "masses": False}).results if r.value is not None
    }
    assert "ew" in metrics
    assert not any("@" in metric for metric in metrics)


def test_cutoffs_are_free(files):
    finished_run = run(files, cutoffs_top=[0.37], cutoffs_bottom=[])
    assert {r.metric.partition("@")[2] for r in finished_run.results} == {"", "top0.37"}


def test_two_models_are_compared_on_the_same_contexts(files):
    worse, better = run(files), run(files, {"name": "masked.py:Fixed", "turn": True})
    rows = {c.metric: c for c in compare(worse, better)}
    assert list(rows) == ["tse", "ew", "mw"]
    assert rows["tse"].n == 4
    # TSE is over rows: a context counts as often as it has rows.
    assert rows["tse"].base_mean == pytest.approx(worse["tse"].value)
    assert rows["tse"].new_mean == pytest.approx(better["tse"].value)
    assert rows["ew"].difference == pytest.approx(better["ew"].value - worse["ew"].value)


def test_a_masked_and_a_causal_model_are_compared_by_what_stands_before_the_verb(files):
    masked, causal = run(files), run(files, {"name": "causal.py:Fixed", "turn": True})
    rows = {c.metric: c for c in compare(masked, causal)}
    assert rows["tse"].n == rows["ew"].n == 2
    assert rows["tse"].base_mean == pytest.approx(masked["tse"].value)
    assert rows["tse"].new_mean == pytest.approx(causal["tse"].value)


def test_names_of_constructions_may_hold_anything(files):
    path = str(files / "simple.jsonl")
    finished_run = run(files, data={"A": path, "B, with a comma": path, "number=plural": path})
    rows = {(r.metric, r.group): r for r in finished_run.results}
    assert rows["tse", "mean of constructions"].n == 15
    assert ("ew@top0.5", "construction=number=plural") in rows


def test_nouns_are_found_in_the_whole_file_though_only_its_first_rows_are_asked(files):
    plural = [
        row(f"the {n}s near the {o} are x", f"the {n}s near the {o} is x", -2) for n in "abcdef" for o in "uvwxyz"
    ]
    singular = [
        row(f"the {n} near the {o} is x", f"the {n} near the {o} are x", -1) for n in "abcdef" for o in "uvwxyz"
    ]
    write_lines(files / "simple.jsonl", [*plural, *singular])
    assert {r["groups"]["noun"] for r in run(files, max_per_file=12).rows()} == {"a", "b"}


@pytest.mark.fault(27)
def test_dropped_rows_and_contexts_are_counted_in_rows(files):
    write_lines(files / "simple.jsonl", [*SIMPLE, row("a b", "a b", -1)])
    finished_run = run(files, bad_rows="count")
    assert (finished_run["tse"].n, finished_run["tse"].n_unscored) == (5, 2)
    assert (finished_run["ew"].n, finished_run["ew"].n_unscored) == (4, 1)


def test_a_run_in_which_nothing_can_be_scored_is_not_done(files):
    write_lines(files / "simple.jsonl", ['{"sentence_good": "it swims", "sentence_bad": "it swam"}'])
    finished_run = run(files)
    assert finished_run.record.status == "incomplete"
    assert "none of 1 example could be scored" in finished_run.record.note
    (example,) = finished_run.rows()
    reason = "a form of the pair is not a single token; with multi_token: true it is scored"
    assert example["unscored"]["tse"] == reason


def test_a_verb_list_without_a_word_of_the_vocabulary_has_a_reason_of_its_own(files):
    write_lines(files / "verbs.csv", [VERBS[0], "_,swims,swim,_"])
    reasons = {r["unscored"]["ew"] for r in run(files).rows()}
    assert reasons == {"no verb of the list has both forms as single tokens"}


def test_cutoffs_that_print_alike_are_one(files):
    finished_run = run(files, cutoffs_top=[0.5, 0.50000000001], cutoffs_bottom=[])
    assert [r.metric for r in finished_run.results].count("ew@top0.5") == 1


def test_files_of_one_name_in_two_folders_are_two_constructions(files):
    for folder in ("d1", "d2"):
        (files / folder).mkdir()
        write_lines(files / folder / "a.jsonl", SIMPLE)
    groups = {r.group for r in run(files, data=str(files / "d?" / "a.jsonl")).results}
    assert {"construction=d1/a", "construction=d2/a"} <= groups


def test_the_mean_of_constructions_covers_though_they_share_their_nouns():
    import numpy as np

    from lmassay.evaluations.syntax.metrics import results
    from lmassay.statistics.intervals import Settings
    from lmassay.statistics.table import ScoreTable
    from lmassay.types import Example, Row, Score

    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(150):
        nouns = rng.normal(0.6, 0.12, 10).clip(0, 1)
        rows = []
        for construction in range(5):
            for noun, mean in enumerate(nouns):
                value = float(np.clip(mean + rng.normal(0, 0.05), 0, 1))
                groups = {"construction": str(construction), "number": "plural", "noun": str(noun), "rows": "1"}
                rows.append(Row(Example(f"{construction}-{noun}", {}, None, groups), "scored", Score({"ew": value})))
        result_of = {(r.metric, r.group): r for r in results(ScoreTable(rows), [], Settings(resamples=100))}
        macro = result_of["ew", "mean of constructions"]
        covered += macro.low <= 0.6 <= macro.high
    # 95 % of 150 is 142; three standard errors are 8.
    assert covered >= 134


def test_constructions_are_named_pooled_and_averaged(files):
    write_lines(files / "other.jsonl", SIMPLE[:2])
    finished_run = run(
        files,
        data={"One": str(files / "simple.jsonl"), "Two": [str(files / "simple.jsonl"), str(files / "other.jsonl")]},
    )
    groups = {r.group for r in finished_run.results}
    assert {"construction=One", "construction=Two", "mean of constructions"} <= groups
    rows = {(r.metric, r.group): r for r in finished_run.results}
    assert rows["tse", "construction=Two"].n == 7
    assert rows["ew", "construction=Two"].n == 4


def test_the_first_rows_of_each_file_or_of_all_can_be_taken(files):
    assert run(files, max_per_file=2)["tse"].n == 2
    assert run(files, max_rows=3)["tse"].n == 3


def test_labels_may_be_missing_where_the_verbs_tell_the_number(files):
    lines = [json.dumps({k: v for k, v in json.loads(line).items() if k != "label"}) for line in SIMPLE]
    write_lines(files / "simple.jsonl", lines)
    finished_run = run(files)
    assert finished_run["ew"].n == 4
    write_lines(files / "simple.jsonl", ['{"sentence_good": "the author ran", "sentence_bad": "the author runned"}'])
    rows = list(run(files).rows())
    assert "unknown whether the right verb is singular or plural" in rows[0]["unscored"]["ew"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (row("the author laughs", "the author laughs", -1), "identical"),
        (row("the author laughs", "an author laugh", -1), "differ in 2 words"),
        (row("the author laughs", "the author", -1), "3 and 2 words"),
    ],
)
def test_a_pair_without_a_blank_stops_the_run_or_is_counted(files, line, words):
    write_lines(files / "simple.jsonl", [*SIMPLE, line])
    with pytest.raises(DataError, match=rf"line 7: .*{words}.*minimal_pairs"):
        run(files)
    finished_run = run(files, bad_rows="count")
    assert finished_run["tse"].n == 5
    (bad,) = [r for r in finished_run.rows() if r["state"] == "unscored"]
    assert words in bad["unscored"]["tse"]


def test_a_verb_at_the_beginning_and_one_at_the_end_are_asked_about(files):
    lines = [row("is the author tall", "are the author tall", -1), row("tall the author is", "tall the author are", -1)]
    write_lines(files / "simple.jsonl", lines)
    rows = list(run(files, period=False).rows())
    assert [(r["inputs"]["left"], r["inputs"]["right"]) for r in rows] == [
        ("", " the author tall"),
        ("Tall the author ", ""),
    ]


def test_a_verb_at_the_beginning_is_asked_about_with_a_capital_letter(files):
    write_lines(files / "simple.jsonl", [row("is the author tall", "are the author tall", -1)])
    task = Syntax(str(files / "simple.jsonl"), verbs=files / "verbs.csv")
    (example,) = task.examples()
    (request,) = task.requests(example)
    assert {"Is", "Are", "Laughs"} <= set(request.candidates)
    assert task.signature()["first_word"] == "capitalized"
    assert "is" in Syntax(str(files / "simple.jsonl"), capitalize=False).requests(example)[0].candidates


def test_without_a_verb_list_there_is_tse_only(files):
    finished_run = run(files, verbs="none")
    assert finished_run["tse"].value is not None
    assert finished_run["ew"].value is None
    (reason,) = {row["unscored"]["ew"] for row in finished_run.rows()}
    assert "lmassay verbs builds one" in reason
    with Store(files / "results") as store:
        shown = headline(store, store.runs())
    assert shown is not None
    assert (shown.metric, shown.result.value) == ("tse", finished_run["tse"].value)


def test_a_verb_list_that_has_none_of_the_verbs_is_reported(files):
    write_lines(files / "simple.jsonl", [row("der Autor lacht", "der Autor lachen", -1)])
    (note,) = [note for note in Syntax(str(files / "simple.jsonl")).notes() if "verb list" in note]
    assert "none of the verbs of the data is in the verb list english.csv" in note


def test_columns_of_other_names_can_be_given(files):
    write_lines(files / "pairs.csv", ["good,bad", "the author is tall,the author are tall"])
    task = Syntax(str(files / "pairs.csv"), columns=PairFormat(right="good", wrong="bad"))
    assert [example.inputs["left"] for example in task.examples()] == ["The author "]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"data": "nowhere.jsonl"}, "there is no file or folder"),
        ({"data": "englich"}, "there is no file or folder"),
        ({"data": "english:simpel"}, "did you mean 'simple'"),
        ({"data": {}}, "no construction is named"),
        ({"verbs": "nowhere.csv"}, "does not exist"),
        ({"clusters": "colour"}, "no row has the field 'colour'"),
        ({"cutoffs_top": [0.0]}, "cutoffs_top"),
        ({"cutoffs_top": [1.5]}, "cutoffs_top"),
        ({"max_per_file": 0}, "max_per_file"),
    ],
)
def test_wrong_options_are_reported(files, options, words):
    with pytest.raises(UserError, match=words):
        run(files, **options)


def test_a_model_that_cannot_fill_blanks_is_refused_before_anything_is_asked(files):
    (config,) = expand({"task": {"name": "syntax", "data": "english:simple"}, "model": "echo"}, files)
    with pytest.raises(ConfigError, match="cannot rank words at a blank"):
        plan(config)


def test_a_field_of_the_data_can_be_the_cluster(files):
    lines = [json.dumps({**json.loads(line), "topic": f"t{i % 2}"}) for i, line in enumerate(SIMPLE)]
    write_lines(files / "simple.jsonl", lines)
    assert {r["groups"]["noun"] for r in run(files, clusters="topic").rows()} == {"t0", "t1"}


def test_clusters_make_the_interval_honest(files):
    """Forty rows of two nouns are not forty independent observations."""
    nouns = (("author", -1), ("authors", -2), ("pilot", -1), ("pilots", -2))
    verbs = {-1: ("is", "are"), -2: ("are", "is")}
    lines = [
        row(f"the {noun} {verbs[n][0]} x{i}", f"the {noun} {verbs[n][1]} x{i}", n)
        for i in range(20)
        for noun, n in nouns
    ]
    write_lines(files / "simple.jsonl", lines)
    by_noun, by_row = run(files), run(files, clusters="none")
    widths = [r["ew"].high - r["ew"].low if r["ew"].low is not None else math.inf for r in (by_noun, by_row)]
    assert widths[0] >= widths[1]
    assert {r["groups"]["noun"] for r in by_noun.rows()} == {"author", "pilot"}


def test_the_sample_of_a_file_that_was_changed_is_drawn_again(files):
    def nouns():
        sample = run(files, max_per_file=3, sample_seed=1)
        return {row["inputs"]["left"].split()[-1].rstrip("s") for row in sample.rows()}

    assert nouns() == {"author"}
    write_lines(files / "simple.jsonl", [line.replace("author", "pilot") for line in SIMPLE])
    assert nouns() == {"pilot"}


def test_a_sample_of_a_grammar_that_is_too_large_to_be_written_out_is_data_too(files):
    nouns = ", ".join(f"cook{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
    names = [f"Noun{number}" for number in range(4)]
    lexicon = [f"  {name}: {{inflects: english noun, words: [{nouns}]}}" for name in names]
    people = " and the ".join(f"{{{name}}}" for name in names[1:])
    write_lines(
        files / "large.yaml",
        [
            "features: {number: {sg: -1, pl: -2}}",
            "lexicon:",
            *lexicon,
            "  Verb: {inflects: english verb, words: [laugh]}",
            "constructions:",
            f"  many: near the {people} the {{Noun0}} {{Verb agrees Noun0, contrast number}}",
        ],
    )
    assert run(files, data=str(files / "large.yaml:many"), max_per_file=20)["tse"].n == 20


def test_the_shipped_grammar_is_data_too(files):
    finished_run = run(files, data="english:simple", max_per_file=20)
    assert finished_run["tse"].n + finished_run["tse"].n_unscored == 20


def test_the_command_prints_the_headline_and_keeps_every_number(files):
    config = write_config(
        files / "c.yaml",
        {"task": {"name": "syntax", "data": "simple.jsonl", "verbs": "verbs.csv"}, "model": "masked.py:Fixed"},
    )
    shown = lmassay("run", config, "--results", files / "r")
    assert shown.returncode == 0, shown.stderr
    assert "tse" in shown.stdout
    whole = lmassay("show", "latest", "--results", files / "r", "--json")
    assert any(r["metric"] == "mw@bottom0.001" for r in json.loads(whole.stdout)["runs"][0]["results"])


def test_a_column_of_the_data_groups_the_results(files):
    rows = ["right\twrong\tkind", "the author laughs\tthe author laugh\tnear", "the man is tall\tthe man are tall\tfar"]
    write_lines(files / "own.tsv", rows)
    columns = {"right": "right", "wrong": "wrong", "group": "kind"}
    finished_run = run(files, data=str(files / "own.tsv"), columns=columns)
    groups = {result.group for result in finished_run.results if result.metric == "tse"}
    assert {"construction=near", "construction=far"} <= groups


def test_what_was_left_out_is_said_before_the_run(files):
    write_lines(files / "verbs.csv", [*VERBS, "_,is,are,_"])
    lines = [*SIMPLE, row("a b", "a b", -1), row("the author laugh", "the author laughs", -2)]
    write_lines(files / "simple.jsonl", [*lines, '{"sentence_good": "it ran", "sentence_bad": "it runned"}'])
    task = {"name": "syntax", "data": "simple.jsonl", "verbs": "verbs.csv", "bad_rows": "count"}
    config = write_config(files / "c.yaml", {"task": task, "model": "masked.py:Fixed"})
    done = lmassay("run", config, "--results", files / "r")
    assert "1 duplicate row is not counted again" in done.stderr
    assert "1 pair unscored: the sentences do not differ in exactly one word" in done.stderr
    assert "in 1 context, neither a label nor the verbs show" in done.stderr
    assert "1 context occurs with both labels" in done.stderr
    assert "the verb list verbs.csv has only" in done.stderr
    assert "no agreement noun is repeated" in done.stderr


def test_the_warning_about_few_verbs_counts_those_that_are_single_tokens(files):
    # The list is long enough, but only two of its verbs are single tokens of the model.
    rare = [f"_,verb{number}s,verb{number},_" for number in range(10)]
    write_lines(files / "verbs.csv", [*VERBS, *rare])
    model = (files / "masked.py").read_text(encoding="utf-8").replace("PROBABILITY.get(w, 0.001)", "PROBABILITY.get(w)")
    (files / "masked.py").write_text(model, encoding="utf-8")
    task = {"name": "syntax", "data": "simple.jsonl", "verbs": "verbs.csv"}
    config = write_config(files / "c.yaml", {"task": task, "model": "masked.py:Fixed"})
    done = lmassay("run", config, "--results", files / "r")
    assert "the verb list verbs.csv has only" not in done.stderr
    assert "EW and MW rest on 2 verbs only: fewer than 8 say little about other verbs" in done.stderr
    page = lmassay("report", "-o", files / "page.html", "--results", files / "r")
    assert page.returncode == 0, page.stderr
    assert "EW and MW rest on 2 verbs only" in (files / "page.html").read_text(encoding="utf-8")


def test_a_row_tells_which_verb_is_no_single_token(files):
    assert next(r["details"]["not_single_token"] for r in run(files).rows()) == ["swims"]


def plural_first(folder, name, count=2):
    """Write a file that begins with plural subjects, as published files often do."""
    plural = [row(f"the {noun}s laugh", f"the {noun}s laughs", -2) for noun in ("author", "chef")]
    singular = [row(f"the {noun} laughs", f"the {noun} laugh", -1) for noun in ("author", "chef")]
    write_lines(folder / name, [*plural, *singular][:count])
    return str(folder / name)


def notes(files, **task):
    data = {"name": "syntax", "verbs": str(files / "verbs.csv"), **task}
    return plan(expand({"task": data, "model": {"name": str(files / "masked.py:Fixed")}}, files)[0]).notes


def test_constructions_with_one_number_are_one_note_with_the_remedy(files):
    data = {name: plural_first(files, f"{name}.jsonl", 4) for name in ("one", "two", "three", "four", "five")}
    (note,) = [note for note in notes(files, data=data, max_per_file=2) if "in all contexts" in note]
    assert note.startswith("the right verb is plural in all contexts of one, two, three and 2 more; max_per_file uses")
    assert "with sample_seed: 0 it draws them at random" in note
    assert not [note for note in notes(files, data=data, max_per_file=2, sample_seed=2) if "max_per_file" in note]


def test_constructions_with_one_number_need_no_other_sample_if_all_rows_are_used(files):
    (note,) = [note for note in notes(files, data=plural_first(files, "a.jsonl")) if "in all contexts" in note]
    assert note == "the right verb is plural in all contexts of a"


def test_constructions_without_the_field_of_the_clusters_are_named(files):
    write_lines(files / "a.jsonl", ['{"sentence_good": "it is", "sentence_bad": "it are", "topic": "t"}'])
    write_lines(files / "b.jsonl", ['{"sentence_good": "it is", "sentence_bad": "it are"}'])
    data = {name: str(files / f"{name}.jsonl") for name in ("a", "b")}
    assert "no row of b has the field 'topic'; its contexts count as independent" in notes(
        files, data=data, clusters="topic"
    )


def test_the_same_note_is_printed_once_per_sweep(files):
    task = {"name": "syntax", "data": plural_first(files, "a.jsonl"), "verbs": "verbs.csv"}
    model = {"name": "masked.py:Fixed", "turn": [False, True]}
    config = write_config(files / "c.yaml", {"task": task, "model": model})
    done = lmassay("run", config, "--results", files / "r")
    assert done.returncode == 0, done.stderr
    assert "[2/2]" in done.stderr
    assert done.stderr.count("the right verb is plural in all contexts of a") == 1
