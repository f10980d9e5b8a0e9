"""``lmassay fewnlu``: its files, what goes on where it was broken off, and one line for a mistake."""

from __future__ import annotations

import ast
import json
import os
import signal
import statistics
from typing import Any

import pytest

from lmassay.cli import main
from lmassay.evaluations.fewshot.fewnlu.flags import BY_NAME, decisions
from lmassay.running import trainings
from lmassay.storage.store import Store
from tests.evaluations.fewshot.commands.fewnlu_kit import call, files, flags, save_bert, write_data, write_rows
from tests.forked import in_forks


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with the data, in which the command is given."""
    write_data(tmp_path / "RTE")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def trained(monkeypatch):
    """How many trainings were done."""
    jobs = []
    done = trainings.run_training

    def counted(job):
        jobs.append(job)
        return done(job)

    monkeypatch.setattr(trainings, "run_training", counted)
    return jobs


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


# --- files ------------------------------------------------------------------------------------------------------------


def test_every_file_of_a_training_is_there(capsys, here, bert):
    code, out, _ = call(capsys, flags(bert, pattern_ids=[0, 4]))
    assert code == 0
    each = ("dev32_eval_logits.txt", "dev32_predictions.jsonl", "eval_logits.txt", "predictions.jsonl", "results.json")
    each += ("results.txt", "train_eval_config.json", "wrapper_config.json")
    wanted = {f"p{p}/f{f}-i0/{name}" for p in (0, 4) for f in (0, 1) for name in each} | {"result_test.txt"}
    assert set(files(here / "out")) == wanted
    assert out.splitlines() == lines(here / "out" / "result_test.txt")


def test_the_summary_is_made_of_the_trainings_scores(capsys, here, bert):
    call(capsys, flags(bert, pattern_ids=[0, 4]))
    results_of = {
        (p, f): json.loads((here / f"out/p{p}/f{f}-i0/results.json").read_text()) for p in (0, 4) for f in (0, 1)
    }

    def summary_line(name, part, patterns):
        values = [results_of[p, f][part]["acc"] for p in patterns for f in (0, 1)]
        return f"acc-{name}: {statistics.mean(values)} +- {statistics.stdev(values)}"

    test, dev = "test_set_after_training", "dev32_set_after_training"
    assert lines(here / "out/result_test.txt") == [
        summary_line("p0", test, [0]),
        summary_line("p4", test, [4]),
        summary_line("all-p", test, [0, 4]),
        summary_line("dev32-all-p", dev, [0, 4]),
    ]
    name, on_dev, on_test, seconds = lines(here / "final_results/save_default_rte_dev32_split_pet_bert_8.txt")[0].split(
        "\t"
    )
    assert name == "out"
    assert float(on_dev) == statistics.mean(row[dev]["acc"] for row in results_of.values())
    assert float(on_test) == statistics.mean(row[test]["acc"] for row in results_of.values())
    assert seconds == str(int(seconds))


def test_predictions_are_the_largest_logits_of_the_test_examples_in_order(capsys, here, bert):
    call(capsys, flags(bert, few_shot_setting="dev32_setting"))
    place = here / "out/p0/f0-i0"
    for logits, predictions, idx in (("eval", "", range(20, 26)), ("dev32_eval", "dev32_", range(4, 8))):
        rows = [[float(cell) for cell in line.split(" ")] for line in lines(place / f"{logits}_logits.txt")]
        labels = ["entailment", "not_entailment"]
        wanted = [{"idx": i, "label": labels[row.index(max(row))]} for i, row in zip(idx, rows, strict=True)]
        assert [json.loads(line) for line in lines(place / f"{predictions}predictions.jsonl")] == wanted


def test_results_tell_the_chosen_update_and_the_mean_loss(capsys, here, bert):
    call(capsys, flags(bert, few_shot_setting="dev32_setting"))
    results = ast.literal_eval((here / "out/p0/f0-i0/results.txt").read_text())
    assert set(results) == {"global_step", "average_loss"}
    assert results["global_step"] in (1, 2)
    assert 0 < results["average_loss"] < 5
    assert results.items() <= json.loads((here / "out/p0/f0-i0/results.json").read_text()).items()


def test_settings_are_kept_as_plain_json(capsys, here, bert):
    call(capsys, flags(bert, few_shot_setting="dev32_setting", repetitions=2, sampler_seeds=[5, 6]))
    kept = json.loads((here / "out/p0/f0-i1/train_eval_config.json").read_text())
    assert (kept["sampler_seeds"], kept["sampler_seed"], kept["cv_k"], kept["generations"]) == ([5, 6], 6, 1, 1)
    wrapper = json.loads((here / "out/p0/f0-i1/wrapper_config.json").read_text())
    assert (wrapper["pattern_id"], wrapper["wrapper_type"], wrapper["use_cloze"]) == (0, "mlm", True)
    assert wrapper["label_list"] == ["entailment", "not_entailment"]


def test_without_dev_examples_there_are_no_dev_files_and_a_shorter_line(capsys, here, bert):
    code, _, err = call(
        capsys, flags(bert, method="sequence_classifier", few_shot_setting="fix_setting", use_cloze=True)
    )
    assert code == 0
    assert "a classifier uses no pattern" in err
    assert not [name for name in files(here / "out") if "dev32" in name]
    assert [line.partition(":")[0] for line in lines(here / "out/result_test.txt")] == ["acc-p0", "acc-all-p"]
    (row,) = lines(here / "final_results/save_default_rte_fix_setting_sequence_classifier_bert_8.txt")
    assert len(row.split("\t")) == 3


def test_generations_have_their_folders_and_the_examples_they_were_taught(capsys, here, bert):
    write_rows(here / "RTE/unlabeled.jsonl", 10, 40, labels=False)
    code, _, _ = call(
        capsys,
        flags(bert, arch_method="ipet", repetitions=2, generations=2, ipet_scale_factor=2, unlabeled_examples=7),
    )
    assert code == 0
    made = files(here / "out")
    for fold in (0, 1):
        for repetition in (0, 1):
            assert len(made[f"g0/p0/f{fold}-i{repetition}/unlabeled_logits.txt"].splitlines()) == 7
            taught = made[f"g0/next-gen-train-data/p0-f{fold}-i{repetition}-unlabeled-train.jsonl"].splitlines()
            assert 0 < len(taught) <= 4
            assert all(json.loads(row)["guid"].startswith("unlabeled-") for row in taught)
            assert f"g1/p0/f{fold}-i{repetition}/unlabeled_logits.txt" not in made
    assert made["g1/result_test.txt"] == made["result_test.txt"]
    assert "g0/result_test.txt" in made


def test_an_ensemble_writes_its_members_and_what_they_come_to(capsys, here, bert):
    code, _, err = call(capsys, flags(bert, arch_method="ensemble", pattern_ids=[0, 1]))
    assert code == 0
    assert "the folder 'final'" in err
    made = files(here / "out")
    members = [made[f"p{p}/f1-i0/eval_logits.txt"].split() for p in (0, 1)]
    mean = made["final/p0/f1-i0/eval_logits.txt"].split()
    assert [float(a) + float(b) for a, b in zip(*members, strict=True)] == pytest.approx([2 * float(m) for m in mean])


# --- going on ---------------------------------------------------------------------------------------------------------


def test_what_was_trained_can_be_evaluated_later_without_training(capsys, here, bert, trained):
    call(capsys, flags(bert, do_eval=None))
    assert len(trained) == 2
    assert not [name for name in files(here / "out") if "predictions" in name or "result_test" in name]
    for _ in range(2):
        assert call(capsys, flags(bert, do_train=None))[0] == 0
    assert len(trained) == 2
    assert "p0/f1-i0/predictions.jsonl" in files(here / "out")
    # However often it is evaluated, the configuration has one line among the others.
    assert len(lines(here / "final_results/save_default_rte_dev32_split_pet_bert_8.txt")) == 1


def test_evaluating_what_was_never_trained_is_refused(capsys, here, bert):
    code, _, err = call(capsys, flags(bert, do_train=None))
    assert (code, "there are no trainings in" in err) == (2, True)
    call(capsys, flags(bert))
    code, _, err = call(capsys, flags(bert, do_train=None, learning_rate=0.02))
    assert (code, "has no saved trainings of these flags and data" in err) == (2, True)


def test_saved_trainings_are_evaluated_from_disk_with_the_same_numbers(capsys, here, bert, trained):
    call(capsys, flags(bert))
    before = files(here / "out")
    (here / "out" / "p0" / "f0-i0" / "eval_logits.txt").unlink()
    code, _, err = call(capsys, flags(bert, do_train=None))
    assert (code, "evaluated 2 saved trainings in" in err, len(trained)) == (0, True, 2)
    after = files(here / "out")
    # One of FewNLU's files says whether the command trained.
    changed = {name for name in before if before[name] != after[name]}
    assert {name.rpartition("/")[2] for name in changed} == {"train_eval_config.json"}


def test_saved_trainings_are_evaluated_on_other_test_data(capsys, here, bert, trained):
    call(capsys, flags(bert, do_eval=None))
    write_rows(here / "RTE" / "test.jsonl", 5, 60)
    assert call(capsys, flags(bert, do_train=None, eval_set="test"))[0] == 0
    predictions = [json.loads(line) for line in lines(here / "out/p0/f1-i0/predictions.jsonl")]
    assert ([row["idx"] for row in predictions], len(trained)) == ([60, 61, 62, 63, 64], 2)


def test_without_kept_models_only_the_recorded_results_can_be_written_again(capsys, here, bert):
    call(capsys, flags(bert, keep="none"))
    assert not (here / "out/lmassay/models").exists()
    assert call(capsys, flags(bert, keep="none", do_train=None))[0] == 0
    write_rows(here / "RTE" / "test.jsonl", 5, 60)
    code, _, err = call(capsys, flags(bert, do_train=None, eval_set="test"))
    assert (code, "has no saved trainings of these flags and data" in err) == (2, True)


def test_names_of_data_in_a_tasks_own_file_win_over_the_folder(capsys, here, bert):
    write_rows(here / "mine" / "rows.jsonl", 8, 0)
    task = {
        "data": {"train": "mine/rows.jsonl", "dev": "mine/rows.jsonl"},
        "fields": ["premise", "hypothesis"],
        "labels": ["entailment", "not_entailment"],
        "words": {"entailment": "Yes", "not_entailment": "No"},
        "patterns": ["{premise} {hypothesis} [mask]"],
    }
    (here / "own.yaml").write_text(json.dumps(task), encoding="utf-8")
    code, _, err = call(capsys, flags(bert, task_name="own.yaml"))
    assert (code, "note: --data_dir has no effect: own.yaml names its own files under data:" in err) == (0, True)
    assert len(lines(here / "out/p0/f0-i0/predictions.jsonl")) == 8


def test_a_killed_command_goes_on_and_ends_as_if_nothing_had_been(capsys, here, bert, trained):
    keep = Store.add_response

    def keep_and_die(self: Store, *arguments: Any) -> None:
        keep(self, *arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    def killed() -> None:
        Store.add_response = keep_and_die
        main(["fewnlu", *flags(bert)])

    assert in_forks(killed) == [-signal.SIGKILL]
    assert not files(here / "out")
    code, _, err = call(capsys, flags(bert))
    assert (code, "continuing the trainings in" in err, len(trained)) == (0, True, 1)
    kept = [path for path in (here / "out/lmassay/models").iterdir() if path.is_dir()]
    assert len(kept) == 2
    assert all((path / "model.safetensors").is_file() and (path / "lmassay.json").is_file() for path in kept)
    call(capsys, flags(bert, "unbroken"))
    own = ("wrapper_config.json",)  # it names the folder
    assert {n: b for n, b in files(here / "out").items() if not n.endswith(own)} == {
        n: b for n, b in files(here / "unbroken").items() if not n.endswith(own)
    }


def test_a_training_that_fails_is_reported_and_tried_again(capsys, here, bert, trained):
    code, _, err = call(capsys, flags(bert, learning_rate=1e30, adam_epsilon=1e-30, max_steps=4))
    assert code == 1
    assert "2 of 2 trainings are missing" in err
    assert "lower learning_rate" in err
    assert not (here / "final_results").exists()
    before = len(trained)
    assert call(capsys, flags(bert, learning_rate=1e30, adam_epsilon=1e-30, max_steps=4))[0] == 1
    assert len(trained) == 2 * before


# --- the output folder ------------------------------------------------------------------------------------------------


def test_a_folder_with_something_in_it_is_left_alone(capsys, here, bert):
    (here / "out").mkdir()
    (here / "out/thesis.txt").write_text("mine")
    code, _, err = call(capsys, flags(bert))
    assert (code, "already exists and is not empty" in err) == (2, True)
    assert set(files(here / "out")) == {"thesis.txt"}


def test_overwriting_removes_what_the_command_wrote_and_nothing_else(capsys, here, bert):
    call(capsys, flags(bert, pattern_ids=[0, 4], few_shot_setting="dev32_setting"))
    (here / "out/thesis.txt").write_text("mine")
    code, _, err = call(capsys, flags(bert, few_shot_setting="dev32_setting", overwrite_output_dir=True))
    assert (code, "thesis.txt is not a file of FewNLU, so it is kept" in err) == (0, True)
    assert "p0/f0-i0/results.json" in files(here / "out")
    assert not [name for name in files(here / "out") if name.startswith("p4")]


def test_a_finished_command_is_not_repeated_and_another_does_not_mix_in(capsys, bert):
    call(capsys, flags(bert, few_shot_setting="dev32_setting"))
    code, _, err = call(capsys, flags(bert, few_shot_setting="dev32_setting"))
    assert (code, "already has the results of this command" in err) == (2, True)
    code, _, err = call(capsys, flags(bert, few_shot_setting="dev32_setting", learning_rate=0.02))
    assert (code, "other flags (--learning_rate)" in err) == (2, True)


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"verbalizer_file": "words.json"}, "put your own words in a task file"),
        ({"reduction": "wmean"}, "the accuracy before training"),
        ({"dev32_examples": 4}, "--split_ratio and --cv_k"),
        ({"split_examples_evenly": True}, "--stratify"),
        ({"eval_priming": True}, "the method icl"),
        ({"train_priming": True}, "--train_priming is not supported"),
        ({"priming_num": 3}, "--priming_num is not supported"),
        ({"alpha": 0.5}, "--alpha is the weight of --lm_training"),
        ({"alpha": 0.5, "lm_training": True, "reference": True}, "had no effect in FewNLU"),
        ({"temperature": 3}, "--arch_method distillation"),
        ({"lm_training": True, "method": "adapet"}, "part of --method pet"),
        ({"lm_training": True}, "needs unlabeled examples"),
        ({"relabel_aug_data": True}, "needs --aug_data_dir and teachers"),
        ({"arch_method": "ipet"}, "has no teacher"),
        ({"repetitions": 4}, "--sampler_seeds: 4 repetitions need as many"),
        ({"do_train": None, "do_eval": None}, "there is nothing to do"),
        ({"model_type": "albert"}, "is a bert; give --model_type bert"),
        ({"model_name_or_path": "nowhere/at/all"}, "--model_name_or_path"),
        ({"data_dir": "nowhere"}, "--data_dir: the data folder"),
        ({"task_name": "rtee"}, "--task_name: there is no few-shot task"),
        ({"pattern_ids": [0, 77]}, "--pattern_ids: rte has no pattern 77 for pet"),
        ({"method": "sequence_classifier", "pattern_ids": [0, 1]}, "several would be the same"),
        ({"every_eval_ratio": 0.03}, "--every_eval_ratio: 0.03 of 2 updates is less than one"),
        ({"every_eval_ratio": 0}, "--every_eval_ratio: Input should be greater than 0"),
        ({"learning_rate": -1}, "--learning_rate: Input should be greater than 0"),
        ({"cv_k": 0}, "--cv_k: Input should be greater than or equal to 1"),
        ({"cv_k": 9, "few_shot_setting": "cross_validation"}, "k=9 folds"),
        ({"max_steps": -1, "num_train_epochs": 1.5}, "not a whole number of epochs"),
        ({"dev_examples": 0}, "--dev_examples: 0 is not a number of examples"),
        ({"aug_data_dir": "RTE"}, "is not a file"),
        ({"cache_dir": "cache", "model_name_or_path": "bert-base-cased"}, "has no model bert-base-cased"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason_and_nothing_is_written(capsys, here, bert, own, reason):
    code, _, err = call(capsys, flags(bert, **own))
    assert code == 2
    assert reason in " ".join(err.split())
    assert not (here / "out").exists()


def test_all_reasons_are_given_at_once(capsys, bert):
    _, _, err = call(capsys, flags(bert, eval_priming=True, temperature=1.0, dev32_examples=3))
    assert all(name in err for name in ("--eval_priming", "--temperature", "--dev32_examples"))


def test_an_unknown_flag_is_named_with_its_neighbour(capsys, bert):
    code, _, err = call(capsys, [*flags(bert), "--max_step_ratio", "1"])
    assert code == 2
    assert "No such option '--max_step_ratio'" in err
    assert "--warmup_step_ratio" in err


def test_a_flag_may_be_cut_short_where_it_is_plain_which_is_meant(capsys, here, bert):
    words = [*flags(bert, few_shot_setting="dev32_setting", do_eval=None), "--sampler_seed", "7"]
    assert call(capsys, words)[0] == 0
    assert json.loads((here / "out/p0/f0-i0/train_eval_config.json").read_text())["sampler_seeds"] == [7]
    code, _, err = call(capsys, [*flags(bert), "--per_gpu", "1"])
    assert (code, "is ambiguous" in err) == (2, True)


def test_flags_without_use_for_the_method_are_noted(capsys, bert):
    _, _, err = call(
        capsys, flags(bert, few_shot_setting="dev32_setting", fix_deberta=True, max_num_lbl_tok=1, generations=2)
    )
    assert "--fix_deberta has no effect on a model of type bert" in err
    assert "--max_num_lbl_tok has no effect with --method pet" in err
    assert "--generations has no effect with --arch_method default" in err


def test_the_help_lists_every_flag_and_what_became_of_the_vain_ones(capsys):
    code, out, _ = call(capsys, ["--help"])
    assert code == 0
    assert all(f"--{name}" in out for name in BY_NAME)
    text = " ".join(out.split())
    assert all(f"{state}: {why[:30]}" in text for _, state, why in decisions())
