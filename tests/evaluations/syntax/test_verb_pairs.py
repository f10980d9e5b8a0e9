"""TSE rests on verbs as well as on nouns: its interval, its counts and the warnings where there are few."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lmassay.api import compare, evaluate
from lmassay.evaluations.syntax.card import headline
from lmassay.evaluations.syntax.contexts import verb_pair
from lmassay.reporting.numbers import few_label_notes
from lmassay.storage.store import Store
from tests.helpers import lmassay, write_config, write_lines
from tests.reporting.small_runs import page

NOUNS = ["author", "pilot", "chef", "guard", "poet", "clerk"]
VERBS = ["laugh", "smile", "swim", "sing", "dance", "jump", "walk", "talk", "run"]
MODEL = '''
import math
from lmassay import Candidates, Model


class Knows(Model):
    """Knows the right form of some verbs, and of no others."""

    name = "knows"
    can = frozenset({"slot"})
    sees_right = False

    def __init__(self, verbs: list[str], unknown: list[str] = [], label: str = "knows"):
        self.verbs, self.unknown, self.label = verbs, unknown, label

    def identity(self):
        return {"name": self.name, "verbs": self.verbs, "unknown": self.unknown}

    def slot(self, requests):
        for request in requests:
            is_plural = request.left.rstrip().endswith("s")
            yield Candidates([self._logprob(word, is_plural) for word in request.candidates])

    def _logprob(self, word, is_plural):
        lemma = word.removesuffix("s")
        if lemma in self.unknown:
            return None
        agrees = word.endswith("s") is not is_plural
        return math.log(0.02 if agrees is (lemma in self.verbs) else 0.01)
'''


def write_pairs(path: Path, verbs: list[str]) -> str:
    rows = []
    for noun in NOUNS:
        for verb in verbs:
            for plural in (False, True):
                forms = (verb, f"{verb}s") if plural else (f"{verb}s", verb)
                subject = f"the {noun}s" if plural else f"the {noun}"
                good, bad = (f"{subject} {form}" for form in forms)
                rows.append({"sentence_good": good, "sentence_bad": bad, "label": -2 if plural else -1, "noun": noun})
    write_lines(path, [json.dumps(row) for row in rows])
    return str(path)


def config(folder: Path, data: object, **model: object) -> dict[str, object]:
    (folder / "knows.py").write_text(MODEL, encoding="utf-8")
    write_lines(folder / "verbs.csv", ["sing,plur", *(f"{verb}s,{verb}" for verb in VERBS)])
    task = {"name": "syntax", "data": data, "verbs": str(folder / "verbs.csv"), "cutoffs_top": [], "cutoffs_bottom": []}
    return {"task": task, "model": {"name": str(folder / "knows.py:Knows"), **model}}


def run(folder: Path, data: object, **model: object):
    (finished_run,) = evaluate(config(folder, data, **model), folder / "results")
    return finished_run


def test_a_pair_has_one_name_whichever_form_is_right():
    assert verb_pair("laughs", "laugh") == verb_pair("Laugh", "laughs") == "laugh/laughs"


def test_the_interval_of_tse_allows_for_other_verbs(tmp_path):
    """Two verbs, one always right and one always wrong: nothing is known about a third."""
    finished_run = run(tmp_path, write_pairs(tmp_path / "a.jsonl", VERBS[:2]), verbs=["laugh"])
    tse = finished_run["tse"]
    assert (tse.value, tse.n) == (0.5, 24)
    assert tse.clusters == {"noun": 6, "verb_pair": 2}
    assert tse.method == "wilson/noun/verb_pair"
    assert tse.low < 0.05
    assert tse.high > 0.95


def test_verbs_that_are_no_single_tokens_are_not_counted_as_verb_pairs(tmp_path):
    data = write_pairs(tmp_path / "a.jsonl", VERBS)
    finished_run = run(tmp_path, data, verbs=VERBS, unknown=VERBS[3:])
    assert finished_run["tse"].clusters["verb_pair"] == 3


def test_the_mean_of_constructions_is_clustered_both_ways(tmp_path):
    data = {name: write_pairs(tmp_path / f"{name}.jsonl", VERBS[:4]) for name in ("One", "Two")}
    finished_run = run(tmp_path, data, verbs=VERBS[:3])
    mean = finished_run.record.result("tse", "mean of constructions")
    assert mean.value == 0.75
    assert mean.method == "wilson-rescaled/noun/verb_pair"
    assert mean.high - mean.low > 0.5


def test_few_verb_pairs_are_a_warning_of_check_and_run_and_a_note_on_the_page(tmp_path):
    data = {"Few": write_pairs(tmp_path / "few.jsonl", VERBS[:3]), "Many": write_pairs(tmp_path / "many.jsonl", VERBS)}
    path = write_config(tmp_path / "few.yaml", config(tmp_path, data["Few"], verbs=VERBS))
    checked = lmassay("check", path)
    assert "the data contain only 3 verb pairs; with fewer than 8, TSE says little" in checked.stderr
    done = lmassay("run", path, "--results", tmp_path / "results")
    assert "tse rests on 3 verb pairs only: fewer than 8 say little about other verb pairs" in done.stderr
    assert "verb pairs" in done.stdout.splitlines()[1]
    assert "TSE rests on 3 verb pairs only" in page(tmp_path)

    path = write_config(tmp_path / "both.yaml", config(tmp_path, data, verbs=VERBS))
    assert "verb pairs only" not in lmassay("check", path).stderr
    done = lmassay("run", path, "--results", tmp_path / "both")
    assert "tse rests on few verb pairs (Few 3): fewer than 8" in done.stderr


def test_enough_verb_pairs_are_no_warning(tmp_path):
    finished_run = run(tmp_path, write_pairs(tmp_path / "many.jsonl", VERBS), verbs=VERBS)
    assert few_label_notes(finished_run.record) == []


def test_a_run_of_an_earlier_version_is_not_warned_of(tmp_path):
    """It does not say how many verbs it rests on."""
    finished_run = run(tmp_path, write_pairs(tmp_path / "few.jsonl", VERBS[:3]), verbs=VERBS)
    results = [replace(result, clusters={}) for result in finished_run.record.results]
    assert few_label_notes(replace(finished_run.record, results=results)) == []


def test_models_are_compared_by_noun_and_verb(tmp_path):
    data = write_pairs(tmp_path / "a.jsonl", VERBS)
    before = run(tmp_path, data, verbs=VERBS)
    after = run(tmp_path, data, verbs=VERBS[1:], unknown=VERBS[-1:], label="new")
    row = {comparison.metric: comparison for comparison in compare(before, after)}["tse"]
    # Eight verbs that both models can be asked about; one of them turns wrong.
    assert row.difference == pytest.approx(-1 / 8)
    assert row.estimate.clusters == (6, 8)
    assert row.low < -1 / 8 < 0 < row.high


def test_the_cards_number_is_the_mean_of_constructions_with_their_range(tmp_path):
    """Overall, a construction with more contexts would count for more."""
    half = write_pairs(tmp_path / "half.jsonl", VERBS)
    lines = Path(half).read_text(encoding="utf-8").replace("the ", "surely the ")
    (tmp_path / "more.jsonl").write_text(lines, encoding="utf-8")
    finished_run = run(tmp_path, {"One": half, "Two": [half, str(tmp_path / "more.jsonl")]}, verbs=VERBS[:5])
    with Store(tmp_path / "results") as store:
        shown = headline(store, [finished_run.record])
    assert shown.result == finished_run.record.result("mw", "mean of constructions")
    assert shown.scope == "36 contexts, mean of 2 constructions"
    assert "constructions range from 0.52 to 0.52; the interval is for other nouns" in shown.details[0]
    assert "(TSE, 9 verb pairs)" in shown.details[2]


def test_the_number_of_a_single_construction_is_its_own(tmp_path):
    finished_run = run(tmp_path, write_pairs(tmp_path / "a.jsonl", VERBS), verbs=VERBS)
    with Store(tmp_path / "results") as store:
        shown = headline(store, [finished_run.record])
    assert shown.result == finished_run["mw"]
    assert not any("range" in text for text in shown.details)
