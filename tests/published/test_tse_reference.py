"""``lmassay tse`` gives what refining-tse gave on the pairs and models of ``reference/tse``: all 78 configurations."""

from __future__ import annotations

import functools
import json

import pytest

from tests.helpers import lmassay
from tests.published import tse_reference as tse
from tests.published.documents import differences, with_a_number_changed

RUNS = [
    (model, name, path.stem)
    for model in tse.MODELS
    for name in tse.sets(model)
    for path in tse.configurations(model, name)
]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """``released(model)``: the results of all configurations of a model, computed as the released program does."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")

    # One command per model, so that tests in several processes need not all run all of them.
    @functools.cache
    def run(model):
        folder = tmp_path_factory.mktemp("released")
        return tse.document(tse.run_all(folder, "--compat", "released", "--whitelist", f"/{model}/"), model)

    return run


@pytest.fixture(scope="module")
def corrected(tmp_path_factory):
    """The results of lmassay's own counting, of the sets that one of the original's two faults touches."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    only = "roberta-own/odd_sentences,roberta-own/all_pooled,roberta-own/in_object_relative,simple_one_index"
    return tse.run_all(tmp_path_factory.mktemp("corrected"), "--whitelist", only)


def of_run(document, name, configuration):
    """What one configuration computes, in its place in the document."""
    all_numbers = document["results"][name]
    wanted = ("EW", "TSE", "n_lemmas") if configuration == "tse_ew" else ("MW",)
    return {"results": {name: {key: all_numbers[key] for key in wanted}}}


def test_all_configurations_were_found():
    assert len(RUNS) == 78
    assert [len(tse.sets(model)) for model in tse.MODELS] == [16, 16, 7]
    for model in tse.MODELS:
        assert sorted(tse.recorded(model)["results"]) == tse.sets(model)


@pytest.mark.fault(39)
@pytest.mark.parametrize(("model", "name", "configuration"), RUNS)
def test_a_configuration_gives_the_original_s_numbers(released, model, name, configuration):
    old, new = (of_run(document, name, configuration) for document in (tse.recorded(model), released(model)))
    assert list(differences(old, new, tse.tolerance)) == []


@pytest.mark.parametrize("model", tse.MODELS)
def test_the_whole_recorded_file_is_compared(released, model):
    assert list(differences(tse.recorded(model), released(model), tse.tolerance)) == []


@pytest.mark.parametrize("model", tse.MODELS)
def test_a_changed_number_in_a_recorded_file_is_noticed(released, model):
    for changed in with_a_number_changed(tse.recorded_text(model), most=60):
        assert any(differences(json.loads(changed), released(model), tse.tolerance))


# --- known differences ------------------------------------------------------------------------------------------------

MISREAD_ROWS = [1, 2, 3, 6, 8, 11, 12, 13, 16, 18]
"""Of odd_sentences: what stands before the verb has another number of tokens without the space in front of it."""


def different_rows(recorded, here, metric, side):
    """The rows of contexts whose values at the cut-offs of one side differ."""
    rows = recorded[metric]["context_rows"]
    assert here[metric]["context_rows"] == rows
    contexts = zip(rows, recorded[metric][f"contexts_{side}"], here[metric][f"contexts_{side}"], strict=True)
    return [row for row, old, new in contexts if any(differences(old, new, lambda path, value: tse.CONTEXT))]


def test_the_original_misreads_the_blank_of_roberta_on_ten_odd_sentences(corrected):
    recorded = tse.recorded("roberta-own")["results"]["odd_sentences"]
    here = tse.set_document(corrected, "roberta-own", "odd_sentences")
    for metric in ("EW", "MW"):
        for side in ("top", "bottom"):
            assert different_rows(recorded, here, metric, side) == MISREAD_ROWS


def test_the_misread_rows_begin_with_a_word_that_needs_its_space():
    transformers = pytest.importorskip("transformers", reason="the hf extra is not installed")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tse.FOLDER / "models" / "roberta-own")
    assert [
        row
        for row, left in enumerate(tse.left_contexts("odd_sentences"))
        if len(tokenizer.tokenize(left)) != len(tokenizer.tokenize(f" {left}"))
    ] == MISREAD_ROWS


def test_the_pooled_sets_of_roberta_differ_by_those_rows_and_the_others_do_not(corrected):
    recorded = tse.recorded("roberta-own")["results"]
    pooled = tse.set_document(corrected, "roberta-own", "all_pooled")
    assert any(differences(recorded["all_pooled"]["MW"]["overall_top"], pooled["MW"]["overall_top"], lambda *_: 1e-4))
    untouched = {"results": {"in_object_relative": tse.set_document(corrected, "roberta-own", "in_object_relative")}}
    expected = {"results": {"in_object_relative": recorded["in_object_relative"]}}
    assert list(differences(expected, untouched, tse.tolerance)) == []


@pytest.mark.parametrize("model", ["bert-own", "gpt2-own"])
def test_the_original_keeps_one_lemma_of_a_list_with_one_index_and_lmassay_keeps_all(corrected, model):
    recorded = tse.recorded(model)["results"]
    here = tse.set_document(corrected, model, "simple_one_index")
    assert recorded["simple_one_index"]["n_lemmas"] == 1
    assert here["n_lemmas"] == recorded["simple"]["n_lemmas"] == 51
    # Then the list with one index gives what the list with row numbers gives.
    computed, expected = ({"results": {"simple": document}} for document in (here, recorded["simple"]))
    assert list(differences(expected, computed, tse.tolerance)) == []


# --- the command ------------------------------------------------------------------------------------------------------


def test_run_all_takes_the_original_s_flags_cut_short(tmp_path):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    results = tse.run_all(tmp_path, "--white", "gpt2-own/simple/,bert-own/simple/", "--bl=mw", "--compat", "released")
    assert [path.relative_to(results).as_posix() for path in sorted(results.glob("*-own/*/*"))] == [
        "bert-own/simple/tse_ew",
        "gpt2-own/simple/tse_ew",
    ]


def test_an_option_of_lmassay_itself_is_written_in_full(tmp_path):
    done = lmassay("tse", "run-all", tmp_path, "--comp", "released")
    assert done.returncode == 2
    assert "No such option" in done.stderr
