"""lmassay gives what FewNLU gave on the examples of ``reference/fewnlu``: encodings, logits, splits, whole commands."""

from __future__ import annotations

import functools
import json

import pytest

from tests.helpers import lmassay
from tests.published import fewnlu_reference as fewnlu
from tests.published.documents import differences, with_a_number_changed

RUNS = fewnlu.recorded("runs.jsonl")


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """``documents(file, key)``: what lmassay gives for one part of a recorded file; for a run, the command is run."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    folder = fewnlu.make_room(tmp_path_factory.mktemp("fewnlu"))
    values = {
        "encodings_bert.json": fewnlu.encoding,
        "pet_cls_logits.json": fewnlu.logits,
        "splits.json": fewnlu.split,
        "runs.jsonl": lambda name: fewnlu.run_command(folder, RUNS[name]),
    }

    @functools.cache
    def document(file, key):
        return values[file](key)

    return document


def compared(documents, file, key):
    """How one part of a recorded file differs from lmassay's."""
    old, new = fewnlu.recorded(file)[key], documents(file, key)
    return list(differences({key: old}, {key: new}, fewnlu.tolerance(file)))


def test_the_recorded_files_have_all_their_parts():
    assert [len(fewnlu.recorded(file)) for file in fewnlu.FILES] == [148, 18, 60, 11]
    assert sum(len(run["trainings"]) for run in RUNS.values()) == 30


@pytest.mark.parametrize("key", fewnlu.recorded("encodings_bert.json"))
def test_examples_are_encoded_as_by_the_original(documents, key):
    assert compared(documents, "encodings_bert.json", key) == []


@pytest.mark.parametrize("key", fewnlu.recorded("pet_cls_logits.json"))
def test_logits_and_loss_are_the_original_s(documents, key):
    assert compared(documents, "pet_cls_logits.json", key) == []


@pytest.mark.parametrize("key", fewnlu.recorded("splits.json"))
def test_splits_are_the_original_s(documents, key):
    assert compared(documents, "splits.json", key) == []


@pytest.mark.fault(39)
@pytest.mark.parametrize("key", RUNS)
def test_a_command_writes_what_the_original_wrote(documents, key):
    assert compared(documents, "runs.jsonl", key) == []


@pytest.mark.parametrize("file", fewnlu.FILES)
def test_a_changed_number_in_a_recorded_file_is_noticed(documents, file):
    here = {key: documents(file, key) for key in fewnlu.recorded(file)}
    for changed in with_a_number_changed(fewnlu.recorded_text(file), most=120):
        assert any(differences(fewnlu.parsed(file, changed), here, fewnlu.tolerance(file)))


@pytest.mark.parametrize(("head", "name"), [("lm", "mlm"), ("classifier", "cls2")])
def test_the_names_of_the_weights_which_decide_their_values_are_the_original_s(documents, head, name):
    recorded = json.loads(fewnlu.recorded_text("tiny_bert/params.json"))
    assert fewnlu.parameters(head) == recorded[name]


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(documents, tmp_path):
    return fewnlu.make_room(tmp_path)


def test_adapet_goes_on_with_its_draws_when_an_interrupted_command_is_run_again(folder, monkeypatch):
    from lmassay.errors import ModelError
    from lmassay.evaluations.fewshot.methods.adapet import Adapet

    run = RUNS["adapet_wic"]
    args = [word for word in run["args"] if word != "--overwrite_output_dir"]
    fit, fitted = Adapet.fit, []

    def only_the_first(method, inputs):
        if fitted:
            raise ModelError("interrupted")
        fitted.append(inputs)
        return fit(method, inputs)

    with monkeypatch.context() as patch:
        patch.setattr(Adapet, "fit", only_the_first)
        broken = lmassay(*fewnlu.command({**run, "args": args}), cwd=folder)
    assert broken.returncode != 0
    again = lmassay(*fewnlu.command({**run, "args": args}), cwd=folder)
    assert again.returncode == 0, again.stderr
    outcome = fewnlu.outcome(folder, "adapet_wic", run["args"], again.stdout)
    assert list(differences({"adapet_wic": run}, {"adapet_wic": outcome}, fewnlu.tolerance("runs.jsonl"))) == []


def short(words):
    """The flags of a command line, cut to what is unique among the original's."""
    brief = {
        "--gradient_accumulation_steps": "--gr",
        "--pattern_ids": "--pa",
        "--few_shot_setting": "--few",
        "--sampler_seeds": "--sam",
        "--max_steps": "--max_st",
        "--learning_rate": "--learning",
        "--do_train": "--do_t",
        "--no_cuda": "--no",
    }
    return [brief.get(word, word) for word in words]


def test_flags_may_be_cut_short_and_given_twice(folder):
    run = RUNS["pet_wic_flags_twice"]
    done = lmassay(*short(fewnlu.command(run)), cwd=folder)
    assert done.returncode == 0, done.stderr
    outcome = fewnlu.outcome(folder, run["name"], run["args"], done.stdout)
    assert list(differences({run["name"]: run}, {run["name"]: outcome}, fewnlu.tolerance("runs.jsonl"))) == []


@pytest.mark.parametrize("flag", ["--fi", "--gr", "--work", "--ref"])
def test_flags_of_lmassay_itself_do_not_make_an_abbreviation_ambiguous(flag):
    done = lmassay("fewnlu", flag)
    # An abbreviation of the original's gets as far as the flags that are required.
    known = flag in ("--fi", "--gr")
    assert done.returncode == 2
    assert ("No such option" in done.stderr) is not known
