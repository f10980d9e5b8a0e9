"""Runs in the schema of Every Eval Ever, version 0.2.2: its rules, written down here, hold for what we write."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from lmassay.errors import UserError
from lmassay.evaluations.imported.reading import configuration
from lmassay.interchange.every_eval_ever import Evaluator, write_evaluation
from lmassay.running import runner
from lmassay.storage.store import Store
from tests.interchange.kit import generated_run, log, pairs_run

TEXT, NUMBER, WHOLE, TRUTH = (str,), (int, float), (int,), (bool,)
# eval.schema.json and instance_level_eval.schema.json: key → (required, types or the rules of what is inside).
DETAILS = {"*": (False, TEXT)}
MODEL = {
    "name": (True, TEXT),
    "id": (True, TEXT),
    "developer": (False, TEXT),
    "inference_platform": (False, TEXT),
    "inference_engine": (False, {"name": (False, TEXT), "version": (False, TEXT)}),
    "additional_details": (False, DETAILS),
}
SOURCE = {
    "source_name": (False, TEXT),
    "source_type": (True, ("documentation", "evaluation_run")),
    "source_organization_name": (True, TEXT),
    "evaluator_relationship": (True, ("first_party", "third_party", "collaborative", "other")),
}
LIBRARY = {"name": (True, TEXT), "version": (True, TEXT), "additional_details": (False, DETAILS)}
DATA = {
    "dataset_name": (True, TEXT),
    "source_type": (True, ("other",)),
    "source_id": (False, TEXT),
    "source_version": (False, TEXT),
    "additional_details": (False, DETAILS),
}
METRIC = {
    "evaluation_description": (False, TEXT),
    "metric_id": (False, TEXT),
    "metric_name": (False, TEXT),
    "lower_is_better": (True, TRUTH),
    "score_type": (False, ("binary", "continuous", "levels")),
    "min_score": (False, NUMBER),
    "max_score": (False, NUMBER),
    "additional_details": (False, DETAILS),
}
INTERVAL = {
    "lower": (True, NUMBER),
    "upper": (True, NUMBER),
    "confidence_level": (False, NUMBER),
    "method": (False, TEXT),
}
SCORE = {
    "score": (True, NUMBER),
    "details": (False, DETAILS),
    "uncertainty": (False, {"num_samples": (False, WHOLE), "confidence_interval": (False, INTERVAL)}),
}
ARGUMENTS = {"temperature": (False, NUMBER), "max_tokens": (False, WHOLE), "execution_command": (False, TEXT)}
GENERATION = {"generation_args": (False, ARGUMENTS), "additional_details": (False, DETAILS)}
RESULT = {
    "evaluation_result_id": (False, TEXT),
    "evaluation_name": (True, TEXT),
    "source_data": (True, DATA),
    "evaluation_timestamp": (False, TEXT),
    "metric_config": (True, METRIC),
    "score_details": (True, SCORE),
    "generation_config": (False, GENERATION),
}
COMPANION = {
    "format": (True, ("jsonl",)),
    "file_path": (True, TEXT),
    "hash_algorithm": (False, ("sha256", "md5")),
    "checksum": (False, TEXT),
    "total_rows": (False, WHOLE),
}
EVALUATION = {
    "schema_version": (True, ("0.2.2",)),
    "evaluation_id": (True, TEXT),
    "evaluation_timestamp": (False, TEXT),
    "retrieved_timestamp": (True, TEXT),
    "source_metadata": (True, SOURCE),
    "eval_library": (True, LIBRARY),
    "model_info": (True, MODEL),
    "evaluation_results": (True, [RESULT]),
    "detailed_evaluation_results": (False, COMPANION),
}
ATTRIBUTION = {
    "turn_idx": (True, WHOLE),
    "source": (True, TEXT),
    "extracted_value": (True, TEXT),
    "extraction_method": (True, TEXT),
    "is_terminal": (True, TRUTH),
}
INSTANCE = {
    "schema_version": (True, ("0.2.2",)),
    "evaluation_id": (True, TEXT),
    "model_id": (True, TEXT),
    "evaluation_name": (True, TEXT),
    "evaluation_result_id": (False, TEXT),
    "sample_id": (True, TEXT),
    "sample_hash": (False, TEXT),
    "interaction_type": (True, ("single_turn",)),
    "input": (True, {"raw": (True, TEXT), "reference": (True, [TEXT]), "choices": (False, [TEXT])}),
    "output": (True, {"raw": (True, [TEXT])}),
    "answer_attribution": (True, [ATTRIBUTION]),
    "evaluation": (True, {"score": (True, NUMBER), "is_correct": (True, TRUTH)}),
    "metadata": (False, DETAILS),
}


def check(value: Any, rules: Any, path: str = "") -> None:
    """Raise unless a value keeps to its rules; what the schema does not know is refused as well."""
    if isinstance(rules, list):
        assert isinstance(value, list), path
        for place, item in enumerate(value):
            check(item, rules[0], f"{path}[{place}]")
    elif isinstance(rules, dict):
        assert isinstance(value, dict), path
        missing = [key for key, (required, _) in rules.items() if required and key not in value]
        assert not missing, (path, missing)
        for key, item in value.items():
            known = rules.get(key) or rules.get("*")
            assert known is not None, f"{path}.{key} is not in the schema"
            check(item, known[1], f"{path}.{key}")
    elif isinstance(rules[0], str):
        assert value in rules, (path, value)
    else:
        assert type(value) in rules, (path, value)


def exported(run, target, **who):
    with Store(run.folder) as store:
        written = write_evaluation(store, run.record, target, Evaluator(**who))
    document = json.loads(written.file.read_text(encoding="utf-8"))
    lines = written.samples.read_text(encoding="utf-8").splitlines() if written.samples else []
    return written, document, [json.loads(line) for line in lines]


@pytest.fixture(params=[pairs_run, generated_run], ids=["pairs", "generated"])
def run(request, tmp_path):
    return request.param(tmp_path)


def test_the_document_and_its_instances_keep_to_the_schema(run, tmp_path):
    _, document, instances = exported(run, tmp_path / "eval.json")
    check(document, EVALUATION)
    assert instances
    for instance in instances:
        check(instance, INSTANCE)


def test_scores_lie_within_their_bounds_and_have_interval_and_counts(run, tmp_path):
    _, document, _ = exported(run, tmp_path / "eval.json")
    result_of = {r["evaluation_result_id"]: r for r in document["evaluation_results"]}
    assert len(result_of) == len(document["evaluation_results"])
    for result in run.results:
        if result.value is None:
            continue
        entry = result_of[f"{result.metric}|{result.group}"]
        config, details = entry["metric_config"], entry["score_details"]
        assert details["score"] == result.value
        counts = {"n": str(result.n), "n_error": str(result.n_error), "n_unscored": "0"}
        assert counts.items() <= details["details"].items()
        if config.get("score_type") == "continuous":
            assert config["min_score"] <= result.value <= config["max_score"]
        if result.low is not None:
            interval = details["uncertainty"]["confidence_interval"]
            assert (interval["lower"], interval["upper"]) == (result.low, result.high)


def test_the_companion_is_what_the_document_says(run, tmp_path):
    written, document, instances = exported(run, tmp_path / "eval.json")
    companion = document["detailed_evaluation_results"]
    assert companion["file_path"] == written.samples.name == "eval_samples.jsonl"
    assert companion["checksum"] == hashlib.sha256(written.samples.read_bytes()).hexdigest()
    assert companion["total_rows"] == len(instances) == written.instances
    results = {r["evaluation_result_id"] for r in document["evaluation_results"]}
    for instance in instances:
        assert instance["evaluation_id"] == document["evaluation_id"]
        assert instance["model_id"] == document["model_info"]["id"]
        assert instance["evaluation_result_id"] in results


def test_right_is_what_is_good_for_the_model(tmp_path):
    _, document, instances = exported(generated_run(tmp_path), tmp_path / "eval.json")
    (success,) = (r for r in document["evaluation_results"] if r["evaluation_result_id"] == "success|overall")
    assert success["metric_config"]["lower_is_better"] is True
    attacked = [i for i in instances if i["evaluation_result_id"] == "success|overall"]
    assert {i["evaluation"]["is_correct"] for i in attacked if i["evaluation"]["score"] == 1.0} == {False}


def test_a_metric_of_degrees_has_no_lines_even_where_all_its_values_are_0_or_1(tmp_path):
    run = generated_run(tmp_path)
    with Store(run.folder, create=True) as store:
        rows = [
            replace(row, score=replace(row.score, values={**row.score.values, "d_tgt": 0.0}))
            for row in store.rows(run.id)
        ]
        store.add_rows(run.id, list(enumerate(rows)))
        assert {row.score.values["d_tgt"] for row in store.score_rows(run.id)} == {0.0}
    _, _, instances = exported(run, tmp_path / "eval.json")
    assert {instance["evaluation_result_id"] for instance in instances} == {"success|overall"}


def test_a_document_of_a_run_with_errors_says_so_where_a_number_is_read(tmp_path):
    _, document, _ = exported(pairs_run(tmp_path), tmp_path / "eval.json")
    status = {"run_status": "incomplete", "run_status_note": "2 examples with errors"}
    assert status.items() <= document["eval_library"]["additional_details"].items()
    for result in document["evaluation_results"]:
        assert status.items() <= result["score_details"]["details"].items()
    _, whole, _ = exported(generated_run(tmp_path), tmp_path / "whole.json")
    assert "run_status" not in json.dumps(whole)


def test_a_folder_is_laid_out_as_their_data_store_and_the_same_run_has_the_same_name(tmp_path):
    run = pairs_run(tmp_path)
    first, document, _ = exported(run, tmp_path / "store")
    place = first.file.relative_to(tmp_path / "store").as_posix()
    uuid4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(rf"data/minimal_pairs/acme/lengths-1b/{uuid4}\.json", place)
    assert document["detailed_evaluation_results"]["file_path"] == place.removesuffix(".json") + "_samples.jsonl"
    assert exported(run, tmp_path / "store")[0].file == first.file


def test_who_ran_it_is_said_or_unknown(tmp_path):
    run = pairs_run(tmp_path)
    assert exported(run, tmp_path / "a.json")[1]["source_metadata"]["source_organization_name"] == "unknown"
    _, document, _ = exported(run, tmp_path / "a.json", organization="Acme", relationship="first_party")
    assert document["source_metadata"]["evaluator_relationship"] == "first_party"


def test_an_imported_run_names_the_harness_that_ran_it(tmp_path):
    from lmassay.api import Run

    with Store(tmp_path / "results", create=True) as store:
        record = runner.start(runner.plan(configuration([log("my_bbq")])), store)
    _, document, instances = exported(Run(tmp_path / "results", record), tmp_path / "eval.json")
    check(document, EVALUATION)
    assert document["eval_library"]["name"] == "lm_eval"
    assert document["eval_library"]["version"] == "0.4.13"
    assert "sha-256" in document["eval_library"]["additional_details"]["note_1"]
    (s_dis,) = (r for r in document["evaluation_results"] if r["evaluation_result_id"] == "s_dis|overall")
    assert s_dis["metric_config"]["min_score"] == -1.0
    for instance in instances:
        check(instance, INSTANCE)


def test_a_run_without_results_is_refused(tmp_path):
    run = pairs_run(tmp_path)
    with Store(run.folder, create=True) as store:
        store.set_results(run.id, [])
        with pytest.raises(UserError, match="has no results to export"):
            write_evaluation(store, store.run(run.id), tmp_path / "a.json", Evaluator())
    assert not (tmp_path / "a.json").exists()
