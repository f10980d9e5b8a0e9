"""Reading sample logs: mistakes are reported with file and line, and nothing is misread silently."""

from __future__ import annotations

import gzip
import json

import pytest

from lmassay.errors import DataError
from lmassay.interchange.lm_eval.sample_logs import find_totals, read_log, read_totals, task_of
from tests.interchange.kit import PARADIGM, copied_log, log, samples, write_log

PAIRS = f"blimp_{PARADIGM}"


def changed(folder, line: int, **fields):
    """The real log of pairs with one line changed; a field that is None is left out."""
    rows = samples(PAIRS)
    rows[line - 1] = {k: v for k, v in {**rows[line - 1], **fields}.items() if v is not None}
    return write_log(folder, rows)


def test_a_real_log_is_read_whole_and_in_order():
    sample_log = read_log(log(PAIRS))
    assert (sample_log.task, sample_log.filter, len(sample_log.samples)) == (PAIRS, "none", 8)
    assert [sample.doc_id for sample in sample_log.samples] == list(range(8))
    first = sample_log.samples[0]
    assert first.requests[0] == ["", " The author laughs."]
    assert first.log_likelihoods() == [float(pair[0]) for pair in samples(PAIRS)[0]["filtered_resps"]]
    assert first.texts() is None
    assert first.metrics == {"acc": samples(PAIRS)[0]["acc"]}


def test_totals_lie_beside_the_log_and_tell_who_was_asked():
    path = find_totals(log(PAIRS))
    assert path is not None
    totals = read_totals(path, PAIRS, "none")
    assert (totals.model, totals.source, totals.harness, totals.task_version) == ("tiny", "hf", "0.4.13", "1.0")
    assert totals.means["acc"] == 0.375
    assert totals.identity == {"model_revision": "main", "model_dtype": "float32"}


def test_arguments_as_lists_and_samples_without_a_list_of_metrics_are_read_too(tmp_path):
    rows = samples(PAIRS)
    for row in rows:
        row["arguments"] = [list(request.values()) for request in row["arguments"].values()]
        del row["metrics"], row["filter"]
    sample_log = read_log(write_log(tmp_path, rows))
    assert sample_log.samples[0].requests == read_log(log(PAIRS)).samples[0].requests
    assert list(sample_log.samples[0].metrics) == ["acc"]


def test_documents_come_in_the_order_of_their_numbers(tmp_path):
    sample_log = read_log(write_log(tmp_path, list(reversed(samples(PAIRS)))))
    assert [sample.doc_id for sample in sample_log.samples] == list(range(8))


@pytest.mark.parametrize("name", ["doc_id", "doc", "target", "arguments", "filtered_resps"])
def test_a_missing_field_is_named_with_its_line(tmp_path, name):
    with pytest.raises(DataError, match=f"line 3: the field '{name}' is missing"):
        read_log(changed(tmp_path, 3, **{name: None}))


def test_a_line_that_is_cut_off_is_named(tmp_path):
    rows = [json.dumps(row) for row in samples(PAIRS)]
    with pytest.raises(DataError, match=r"line 8: this is not JSON .* was the log cut off"):
        read_log(write_log(tmp_path, [*rows[:-1], rows[-1][:200]]))


@pytest.mark.parametrize("value", ["nan", "-inf", "maybe", None, [], pytest.param(10**400, id="huge")])
def test_a_log_likelihood_that_is_no_finite_number_is_refused(tmp_path, value):
    sample_log = read_log(changed(tmp_path, 2, filtered_resps=[[value, "False"], ["-1.0", "False"]]))
    with pytest.raises(DataError, match=r"line 2: .*log-likelihood"):
        sample_log.samples[1].log_likelihoods()


def test_a_document_given_twice_is_refused_with_both_lines(tmp_path):
    with pytest.raises(DataError, match="line 5: doc_id 0 appears twice, first in line 1"):
        read_log(changed(tmp_path, 5, doc_id=0))


def test_several_filters_must_be_chosen_from():
    with pytest.raises(DataError, match=r"2 filters \(strict-match, flexible-extract\); choose one with --filter"):
        read_log(log("sums"))
    assert len(read_log(log("sums"), "strict-match").samples) == 3
    with pytest.raises(DataError, match="no filter 'loose'; it has strict-match, flexible-extract"):
        read_log(log("sums"), "loose")


def test_a_compressed_log_is_reported_as_such(tmp_path):
    path = tmp_path / "samples_a_2026.jsonl"
    path.write_bytes(gzip.compress(log(PAIRS).read_bytes()))
    with pytest.raises(DataError, match="is compressed; unpack it first"):
        read_log(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no samples"),
        (b"\n\n", "has no samples"),
        (b"[1, 2]\n", "line 1: a sample must be a JSON object"),
        (b'{"doc_id": "\xff"}\n', "line 1: byte 0xff is not UTF-8"),
        (b'\xef\xbb\xbf{"doc_id": "\xff"}\n', "line 1: byte 0xff is not UTF-8"),
        (b"[" * 100_000 + b"\n", "line 1: this is not JSON"),
    ],
    ids=["empty", "blank", "list", "latin", "latin after a byte order mark", "deep"],
)
def test_what_is_no_log_is_refused(tmp_path, content, message):
    path = tmp_path / "samples_a_2026.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_log(path)


@pytest.mark.parametrize("value", ["zero", True, 1.5])
def test_a_document_number_must_be_whole(tmp_path, value):
    with pytest.raises(DataError, match="line 1: doc_id is"):
        read_log(changed(tmp_path, 1, doc_id=value))


@pytest.mark.parametrize(
    "fields",
    [
        {"arguments": 3},
        {"arguments": {"gen_args_0": 3}},
        {"filtered_resps": {}},
        {"metrics": ["f1"]},
        {"metrics": [["acc"]]},
    ],
)
def test_fields_of_another_shape_are_refused(tmp_path, fields):
    with pytest.raises(DataError, match="line 4: "):
        read_log(changed(tmp_path, 4, **fields))


def test_a_file_that_is_called_otherwise_needs_the_task_named(tmp_path):
    path = copied_log(tmp_path, PAIRS).rename(tmp_path / "mine.jsonl")
    with pytest.raises(DataError, match=r"does not contain the task .*; give --task NAME"):
        task_of(path)
    assert read_log(path, task="blimp_x").task == "blimp_x"
    with pytest.raises(DataError, match="does not exist"):
        read_log(tmp_path / "samples_a_2026.jsonl")


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "this is not JSON"), ("[]", "the key 'results' is missing"), ('{"results": {"a": {}}}', "it has a")],
)
def test_totals_that_are_none_are_refused(tmp_path, content, message):
    path = tmp_path / "results_1.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_totals(path, "b", "none")


def test_numbers_that_json_does_not_know_become_their_names(tmp_path):
    rows = [row for row in samples("sums") if row["filter"] == "strict-match"]
    rows[0]["doc"]["difficulty"] = float("nan")
    assert read_log(write_log(tmp_path, rows)).samples[0].doc["difficulty"] == "nan"


def test_totals_with_numbers_beyond_all_bounds_are_taken_without_them(tmp_path):
    path = tmp_path / "results_1.json"
    text = json.dumps({"results": {"a": {"acc,none": 10**400, "f1,none": 0.5}}, "n-samples": {"a": {"effective": 0}}})
    path.write_text(text.replace('"effective": 0', '"effective": 1e999'), encoding="utf-8")
    totals = read_totals(path, "a", "none")
    assert totals.means == {"f1": 0.5}
    assert totals.documents is None


def test_totals_are_those_of_the_filter_and_not_of_one_with_a_longer_name(tmp_path):
    path = tmp_path / "results_1.json"
    means = {"exact_match,strict": 0.5, "exact_match,strict-match": 0.25}
    path.write_text(json.dumps({"results": {"a": means}}), encoding="utf-8")
    assert read_totals(path, "a", "strict").means == {"exact_match": 0.5}


def test_a_name_that_has_no_utf_8_is_escaped(tmp_path):
    path = tmp_path / "results_1.json"
    path.write_text('{"results": {"a": {}}, "model_name": "m\\ud800"}', encoding="utf-8")
    assert read_totals(path, "a", "none").model == "m\\ud800"


def test_answers_of_another_number_than_the_requests_are_no_log_likelihoods(tmp_path):
    sample_log = read_log(changed(tmp_path, 2, arguments={}))
    assert sample_log.samples[1].log_likelihoods() is None
