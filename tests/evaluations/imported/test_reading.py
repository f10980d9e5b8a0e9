"""Logs of lm-evaluation-harness become runs of lmassay."""

from __future__ import annotations

import json
import math

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.imported.reading import configuration, grouped
from lmassay.interchange.lm_eval.sample_logs import read_log
from lmassay.running import runner
from lmassay.storage.files import sha256
from lmassay.storage.store import Store
from tests.interchange.kit import PARADIGM, copied_log, log, pairs_run, samples, write_log

PAIRS = f"blimp_{PARADIGM}"


def imported(folder, *paths, **options):
    """The record and the rows of an import."""
    plan = runner.plan(configuration(paths, **options))
    with Store(folder, create=True) as store:
        record = runner.start(plan, store)
        return record, list(store.rows(record.id))


def overall(record):
    return {r.metric: r for r in record.results if r.group == "overall"}


def test_pairs_are_judged_by_our_task_from_the_likelihoods_of_the_log(tmp_path):
    record, rows = imported(tmp_path / "results", log(PAIRS))
    assert (record.task, record.model, record.status) == ("minimal_pairs", "tiny", "done")
    accuracy = overall(record)["accuracy"]
    assert accuracy.value == 0.375
    assert accuracy.low < 0.375 < accuracy.high
    for row, sample in zip(rows, samples(PAIRS), strict=True):
        good, bad = (float(answer[0]) for answer in sample["filtered_resps"])
        assert row.score.values["accuracy"] == sample["acc"]
        assert row.score.values["margin"] == good - bad
        assert row.example.groups["phenomenon"] == "subject_verb_agreement"
        assert "tokens" in row.score.unscored["accuracy_token"]


def test_characters_are_counted_as_in_our_own_runs_without_the_space_that_the_harness_adds(tmp_path):
    _, rows = imported(tmp_path / "results", log(PAIRS))
    for row, sample in zip(rows, samples(PAIRS), strict=True):
        means = [
            float(a[0]) / len(sample["doc"][s])
            for a, s in zip(sample["filtered_resps"], ("sentence_good", "sentence_bad"), strict=True)
        ]
        assert row.score.values["accuracy_char"] == float(means[0] > means[1])


def test_an_imported_run_pairs_by_example_with_ours_on_the_same_data(tmp_path):
    from lmassay.statistics.comparison import compare_runs
    from lmassay.statistics.sides import load_side

    ours = pairs_run(tmp_path)
    imported(ours.folder, log(PAIRS))
    with Store(ours.folder) as store:
        mine, theirs = (load_side(store, record) for record in store.runs())
        assert set(mine.table.ids) == set(theirs.table.ids)
        rows = {row.metric: row for row in compare_runs(mine, [theirs])}
    # Two pairs of ours have errors.
    assert rows["accuracy"].n == 6
    assert rows["accuracy"].low is not None


def test_the_record_says_where_it_was_imported_from(tmp_path):
    record, _ = imported(tmp_path / "results", log(PAIRS))
    notes = "\n".join(record.provenance.notes)
    assert sha256(log(PAIRS)) in notes
    assert log(PAIRS).name in notes
    assert record.depends_on["imported"] == "lm_eval-0.4.13"
    assert "model=tiny" in record.signature


def test_a_good_sentence_that_was_asked_about_second_is_still_the_good_one(tmp_path):
    rows = samples(PAIRS)
    for row in rows:
        first, second = row["arguments"].values()
        row["arguments"] = {"gen_args_0": second, "gen_args_1": first}
        row["filtered_resps"].reverse()
    record, judged = imported(tmp_path / "results", write_log(tmp_path, rows), model="m")
    assert overall(record)["accuracy"].value == 0.375
    assert judged[0].score.details["logprob_good"] == float(samples(PAIRS)[0]["filtered_resps"][0][0])


def test_ties_count_as_wrong_here_and_the_difference_to_the_log_is_reported(tmp_path):
    rows = samples(PAIRS)
    rows[0] |= {"filtered_resps": [["-1.0", "False"], ["-1.0", "False"]], "acc": 1.0}
    record, judged = imported(tmp_path / "results", write_log(tmp_path, rows), model="m")
    assert judged[0].score.values["accuracy"] == 0.0
    assert any("1 of 8 pairs are judged differently than in the log" in note for note in record.provenance.notes)


def test_all_logs_of_pairs_make_one_run_and_other_logs_a_run_each(tmp_path):
    other = samples(PAIRS)
    for sample in other:
        sample["doc"]["UID"] = "another"
    second = write_log(tmp_path, other, "blimp_another")
    totals = json.loads(next(log(PAIRS).parent.glob("results_*.json")).read_text(encoding="utf-8"))
    totals["results"]["blimp_another"] = {}
    (tmp_path / "results_2026-01-31T09-30-00.000001.json").write_text(json.dumps(totals), encoding="utf-8")
    groups = grouped([log("my_bbq"), log(PAIRS), second])
    assert groups == [[log(PAIRS), second], [log("my_bbq")]]
    record, rows = imported(tmp_path / "results", *groups[0])
    assert len(rows) == len({row.example.id for row in rows}) == 16
    assert {r.group for r in record.results} == {"overall", f"paradigm={PARADIGM}", "paradigm=another"}


def test_logs_of_two_evaluations_of_the_same_pairs_are_not_one_run(tmp_path):
    earlier = write_log(tmp_path, samples(PAIRS), PAIRS)
    with pytest.raises(DataError, match=r"line 1 and .*line 1 are about the same pair; .* import them one by one"):
        imported(tmp_path / "results", log(PAIRS), earlier, model="tiny")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("task", ["pairs", "sums"])
def test_no_sample_is_lost_to_another_of_the_same_id(tmp_path, task):
    rows = samples(PAIRS)[:3] if task == "pairs" else [r for r in samples("sums") if r["filter"] == "strict-match"]
    assert len(rows) == 3
    # Numbering the third one would give it the id that the first one already has.
    for row, name in zip(rows, ("a-3" if task == "pairs" else "a-2", "a", "a"), strict=True):
        row["lmassay"] = {"id": name}
    _, imported_rows = imported(tmp_path / "results", write_log(tmp_path, rows), model="m")
    assert len({row.example.id for row in imported_rows}) == 3


def test_questions_whose_log_lacks_the_requests_keep_the_metrics_of_the_log(tmp_path):
    rows = samples("my_bbq_generate")
    rows[0]["arguments"] = {}
    record, imported_rows = imported(tmp_path / "results", write_log(tmp_path, rows), model="m")
    assert record.task == "lm_eval"
    assert len(imported_rows) == len(rows)


def with_totals(folder, rows: int, **changes):
    """The real log of pairs with its first rows only, and the results file next to it, with some values changed."""
    path = copied_log(folder, PAIRS)
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:rows]), encoding="utf-8")
    (totals,) = folder.glob("results_*.json")
    document = json.loads(totals.read_text(encoding="utf-8"))
    document["results"][PAIRS] |= changes
    totals.write_text(json.dumps(document), encoding="utf-8")
    return path, totals


def test_a_log_cut_off_between_two_lines_is_refused_with_both_counts(tmp_path):
    path, totals = with_totals(tmp_path / "logs", 5)
    with pytest.raises(DataError) as error:
        imported(tmp_path / "results", path)
    for words in (f"{path} has 5 documents", f"{totals} says that 8 were", "Copy the whole log again"):
        assert words in str(error.value)
    assert not (tmp_path / "results").exists()
    # A results file that is given explicitly is compared with the log, too.
    alone = write_log(tmp_path / "elsewhere", samples(PAIRS)[:5], PAIRS)
    with pytest.raises(DataError, match="has 5 documents"):
        imported(tmp_path / "results", alone, results=totals)


def test_a_log_of_chosen_documents_is_whole(tmp_path):
    path, _ = with_totals(tmp_path / "logs", 5, sample_len=5)
    record, rows = imported(tmp_path / "results", path)
    assert (len(rows), record.status) == (5, "done")


def test_questions_of_bbq_are_judged_by_our_task_and_agree_with_the_harness(tmp_path):
    record, rows = imported(tmp_path / "results", log("my_bbq"))
    result_of = overall(record)
    assert record.task == "bias"
    # The harness has these results for the same log.
    assert result_of["accuracy_amb"].value == 1.0
    assert result_of["accuracy_dis"].value == 0.0
    assert result_of["s_dis"].value == 1.0
    assert rows[0].example.id == "Age-1-0"
    assert rows[0].score.details["role"] == "unknown"


def test_generated_answers_to_questions_are_read_by_our_parsers(tmp_path):
    rows = samples("my_bbq_generate")
    for row in rows:
        row["resps"], row["filtered_resps"] = [["It was the grandson."]], ["It was the grandson."]
    path = write_log(tmp_path, rows)
    record, judged = imported(tmp_path / "results", path, model="m")
    assert record.task == "bias"
    grandson = [row for row in judged if "The grandson" in row.example.inputs["choices"]]
    assert {row.score.details["letter"] for row in grandson} == {"B"}


def test_a_task_that_lmassay_does_not_have_keeps_the_metrics_of_its_log_and_says_so(tmp_path):
    record, rows = imported(tmp_path / "results", log("sums"), filter_name="flexible-extract")
    assert (record.task, record.label) == ("lm_eval", "sums")
    assert overall(record)["exact_match"].value == 0.0
    assert overall(record)["exact_match"].high > 0.3
    assert record.provenance.notes[0].startswith("lmassay has no task for sums")
    assert rows[0].example.inputs["prompt"] == "Q: What is 1 + 1?\nA:"
    assert rows[0].example.reference == "2"
    assert isinstance(rows[0].score.details["answer"], str)


def test_runs_of_two_models_on_a_foreign_task_pair_and_those_of_two_tasks_do_not(tmp_path):
    first = read_log(log("sums"), "strict-match")
    ids = []
    for task in ("sums", "sums", "others"):
        plan = runner.plan(
            configuration(
                [log("sums")], filter_name="strict-match", task=task, model="m", results=_totals(tmp_path, task)
            )
        )
        ids.append({example.id for example in plan.task.examples()})
    assert ids[0] == ids[1]
    assert ids[0].isdisjoint(ids[2])
    assert len(ids[0]) == len(first.samples)


def _totals(folder, task):
    path = folder / f"totals_{task}.json"
    path.write_text(json.dumps({"results": {task: {}}}), encoding="utf-8")
    return path


def test_metrics_that_are_not_one_number_per_example_are_left_out_and_named(tmp_path):
    rows = [row for row in samples("sums") if row["filter"] == "strict-match"]
    for row in rows:
        row |= {"metrics": ["exact_match", "perplexity"], "perplexity": [-3.0, 7]}
    record, _ = imported(tmp_path / "results", write_log(tmp_path, rows), model="m")
    assert list(overall(record)) == ["exact_match"]
    expected = "left out, because they are not one number per example: perplexity"
    assert any(expected in note for note in record.provenance.notes)
    for row in rows:
        row["metrics"] = ["perplexity"]
    with pytest.raises(DataError, match="no metric with one number per example"):
        imported(tmp_path / "none", write_log(tmp_path, rows, "b"), model="m")
    assert not (tmp_path / "none").exists()


def test_a_total_that_is_not_the_mean_is_reported(tmp_path):
    rows = [row for row in samples("sums") if row["filter"] == "strict-match"]
    path = write_log(tmp_path, rows)
    totals = tmp_path / "results_x.json"
    totals.write_text(json.dumps({"results": {"mytask": {"exact_match,strict-match": 0.4}}}), encoding="utf-8")
    record, _ = imported(tmp_path / "results", path, model="m", results=totals)
    assert any("the harness's own exact_match is 0.4" in note for note in record.provenance.notes)


@pytest.mark.parametrize("value", [math.nan, math.inf, pytest.param(10**400, id="huge")])
def test_a_score_that_is_no_finite_number_is_refused_before_anything_is_written(tmp_path, value):
    rows = [row for row in samples("sums") if row["filter"] == "strict-match"]
    rows[1]["exact_match"] = value
    with pytest.raises(DataError, match="line 2: exact_match is"):
        imported(tmp_path / "results", write_log(tmp_path, rows), model="m")
    assert not (tmp_path / "results").exists()


def test_the_name_of_the_model_is_required(tmp_path):
    path = write_log(tmp_path, samples(PAIRS))
    with pytest.raises(DataError, match="give --model NAME or --totals FILE"):
        imported(tmp_path / "results", path)
    record, _ = imported(tmp_path / "results", path, model="acme/one")
    assert record.model == "acme/one"
    assert record.depends_on["imported"] == "lm_eval-unknown"


def test_an_imported_run_can_be_planned_again_from_its_configuration(tmp_path):
    record, _ = imported(tmp_path / "results", log(PAIRS))
    assert runner.replan(record, tmp_path).signature == record.signature


def test_a_key_in_a_model_name_is_blanked_out(tmp_path):
    record, _ = imported(tmp_path / "results", write_log(tmp_path, samples(PAIRS)), model="sk-abcdefgh12345678")
    assert "abcdefgh" not in json.dumps([record.model, record.signature])


def _sums(folder, model, *, shots=0, answers=(1.0, 0.0, 1.0), first="2"):
    """The log of a foreign task as some model answered it."""
    rows = [row for row in samples("sums") if row["filter"] == "strict-match"]
    for row, answer in zip(rows, answers, strict=True):
        row |= {"exact_match": answer, "filtered_resps": [f"{model} says {answer}"]}
        prompt = row["arguments"]["gen_args_0"]
        prompt["arg_0"] = "Q: What is 0 + 1?\nA: 1\n\n" * shots + prompt["arg_0"]
    rows[0]["target"] = first
    path = write_log(folder, rows, "sums")
    totals = {"results": {"sums": {}}, "n-shot": {"sums": shots}, "model_name": model}
    path.with_name(path.name.replace("samples_sums", "results").replace("jsonl", "json")).write_text(
        json.dumps(totals), encoding="utf-8"
    )
    return path


def _caveats(folder, *paths):
    """The warnings of a comparison of the first log with the second."""
    from lmassay.statistics.caveats import caveats
    from lmassay.statistics.sides import load_side

    records = [imported(folder, path)[0] for path in paths]
    with Store(folder) as store:
        base, new = (load_side(store, record) for record in records)
    return caveats(base, [new])


def test_two_models_on_the_same_documents_and_questions_differ_in_the_model_alone(tmp_path):
    logs = [_sums(tmp_path / "a", "one"), _sums(tmp_path / "b", "two", answers=(0.0, 0.0, 1.0))]
    assert _caveats(tmp_path / "results", *logs) == []


def test_other_shots_and_other_documents_are_distinguished(tmp_path):
    base = _sums(tmp_path / "a", "one")
    (warning,) = _caveats(tmp_path / "shots", base, _sums(tmp_path / "b", "one", shots=5))
    assert "also differ in shots; compare with care" in warning
    (warning,) = _caveats(tmp_path / "data", base, _sums(tmp_path / "c", "one", first="3"))
    assert "also differ in data; compare with care" in warning


def test_the_signature_names_the_shots_and_changes_with_requests_and_answers(tmp_path):
    signatures = [
        imported(tmp_path / "results", path)[0].depends_on
        for path in (
            _sums(tmp_path / "a", "m"),
            _sums(tmp_path / "b", "m", shots=2),
            _sums(tmp_path / "c", "m", answers=(0.0, 0.0, 0.0)),
        )
    ]
    assert [signature["shots"] for signature in signatures] == ["0", "2", "0"]
    assert signatures[0]["prompt"] == signatures[2]["prompt"] != signatures[1]["prompt"]
    # The requests are the same and the answers are not, which a resumed run must notice.
    assert signatures[0]["model"] != signatures[2]["model"]


@pytest.mark.parametrize("name", [PAIRS, "my_bbq"])
def test_pairs_and_questions_of_two_models_differ_in_the_model_alone(tmp_path, name):
    rows = samples(name)
    for row in rows:
        row["filtered_resps"] = [[str(2 * float(number)), greedy] for number, greedy in row["filtered_resps"]]
    first, second = (write_log(tmp_path / side, log_, name) for side, log_ in (("a", samples(name)), ("b", rows)))
    with Store(tmp_path / "results", create=True) as store:
        parts = [
            runner.start(runner.plan(configuration([path], model=model)), store).depends_on
            for path, model in ((first, "one"), (second, "two"))
        ]
    assert {key for key in parts[0] if parts[0][key] != parts[1][key]} == {"model"}
