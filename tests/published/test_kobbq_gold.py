"""KoBBQ's steps against what the original programs wrote and printed, byte for byte."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json

import pytest

from lmassay.evaluations.bias.kobbq.pandas_output import count_series
from lmassay.evaluations.bias.kobbq.samples import kobbq_items
from lmassay.evaluations.bias.kobbq.steps.collect import collect
from lmassay.evaluations.bias.kobbq.steps.compare import compare
from lmassay.evaluations.bias.kobbq.steps.evaluate import HEADER, METRICS, evaluate, write_results
from lmassay.evaluations.bias.kobbq.steps.expand import RELEASED_BLOB, expand, git_blob_id
from lmassay.evaluations.bias.kobbq.steps.postprocess import postprocess
from lmassay.evaluations.bias.kobbq.steps.preprocess import preprocess
from lmassay.evaluations.bias.reference import lowered, parse_reference

PROMPTS = (1, 2, 3)
MODELS = ("synth-hard", "synth-nan", "biased", "debiased")
RUNS = [(prompt, model) for prompt in PROMPTS for model in MODELS] + [(1, "edge")]
TOPIC = "KoBBQ_test_evaluation"


@pytest.fixture(scope="module")
def gold(shared):
    return shared / "gold" / "kobbq"


@pytest.fixture(scope="module")
def data(shared):
    return shared / "data" / "kobbq"


def unpacked(path):
    return gzip.decompress(path.read_bytes())


@pytest.fixture(scope="module")
def made(tmp_path_factory, gold, data):
    """All files of all steps, in one folder."""
    folder = tmp_path_factory.mktemp("kobbq")
    for prompt in PROMPTS:
        preprocess(
            data / "KoBBQ_test_samples.tsv",
            data / "0_evaluation_prompts.tsv",
            prompt,
            tsv_path=folder / f"{TOPIC}_{prompt}.tsv",
            json_path=folder / f"{TOPIC}_{prompt}.json",
        )
    for prompt, model in RUNS:
        name = f"{TOPIC}_{prompt}_{model}"
        source = gold / ("edge" if model == "edge" else "inputs/raw") / f"{name}_predictions.tsv.gz"
        predictions = folder / f"{name}_predictions.tsv"
        predictions.write_bytes(unpacked(source))
        questions = folder / f"{TOPIC}_{prompt}.tsv"
        done = postprocess(predictions, questions, ooc_path=folder / f"{name}_ooc.tsv")
        assert done.answers == 6840
        collect(predictions, questions, folder / f"{name}.tsv")
    return folder


@pytest.mark.parametrize("prompt", PROMPTS)
def test_step_1(made, gold, prompt):
    for kind in ("tsv", "json"):
        name = f"{TOPIC}_{prompt}.{kind}"
        assert (made / name).read_bytes() == unpacked(gold / "step1" / f"{name}.gz")


def test_step_1_with_a_prompt_of_several_lines(tmp_path, gold, data):
    target = tmp_path / "questions.json"
    prompts = gold / "inputs" / "0_evaluation_prompts_debiased_synthetic.tsv"
    preprocess(data / "KoBBQ_test_samples.tsv", prompts, 1, json_path=target)
    assert target.read_bytes() == unpacked(gold / "step1" / f"{TOPIC}_debiased_1.json.gz")


@pytest.mark.parametrize(("prompt", "model"), RUNS)
def test_step_3(made, gold, prompt, model):
    name = f"{TOPIC}_{prompt}_{model}"
    place = f"edge/{name}_predictions.step3.tsv.gz" if model == "edge" else f"step3/{name}_predictions.tsv.gz"
    assert (made / f"{name}_predictions.tsv").read_bytes() == unpacked(gold / place)
    log = gold / "ooc" / f"{name}.tsv.gz"
    assert log.exists() == (model == "synth-hard")
    if log.exists():
        assert (made / f"{name}_ooc.tsv").read_bytes() == unpacked(log)


@pytest.mark.parametrize(("prompt", "model"), RUNS)
def test_step_4(made, gold, prompt, model):
    name = f"{TOPIC}_{prompt}_{model}.tsv"
    data = (made / name).read_bytes()
    digests = dict(
        reversed(line.split()) for line in (gold / "step4" / "SHA256SUMS_full_files.txt").read_text().splitlines()
    )
    assert hashlib.sha256(data).hexdigest() == digests[name]
    expected = csv.DictReader(io.StringIO(unpacked(gold / "step4" / f"{name}.gz").decode(), newline=""), delimiter="\t")
    found = csv.DictReader(io.StringIO(data.decode(), newline=""), delimiter="\t")
    assert [(row["sample_id"], row["prediction"]) for row in found] == [tuple(row.values()) for row in expected]


@pytest.mark.parametrize("mode", ["test", "all"])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_step_5(made, gold, data, tmp_path, mode, prompt):
    found = list(evaluate(MODELS, made, TOPIC, mode, data / "0_evaluation_prompts.tsv", prompt))
    write_results(tmp_path / "results.tsv", found)
    lines = (gold / f"step5_{mode}" / f"KoBBQ_test_{prompt}.tsv").read_bytes().splitlines(keepends=True)
    # The answers of one model of the gold results are not among the inputs.
    assert (tmp_path / "results.tsv").read_bytes() == b"".join(x for x in lines if not x.startswith(b"random\t"))
    printed = (gold / "step5_test" / f"step5_stdout_{prompt}.txt").read_text(encoding="utf-8")
    for one in found:
        assert f"{TOPIC}_{prompt} {one.model}\nNan exists\n{count_series(one.missing)}\n" in printed


@pytest.mark.parametrize("mode", ["test", "all"])
def test_step_5_with_empty_cells(made, gold, data, tmp_path, mode):
    (found,) = evaluate(["edge"], made, TOPIC, mode, data / "0_evaluation_prompts.tsv", 1)
    write_results(tmp_path / "results.tsv", [found])
    assert (tmp_path / "results.tsv").read_bytes() == (gold / "edge" / f"KoBBQ_test_1_edge_{mode}.tsv").read_bytes()
    assert all("no data (n = 0)" in gap for gap in found.gaps)
    if mode == "all":
        assert "overall on 228 of 269 templates" in found.gaps[0]


def test_step_5_with_ids_of_five_parts(gold, data, tmp_path):
    with (data / "KoBBQ_test_samples.tsv").open(encoding="utf-8", newline="") as stream:
        rows = [{**row, "prediction": row["biased_answer"]} for row in csv.DictReader(stream, delimiter="\t")]
    with (tmp_path / f"{TOPIC}_1_alwaysbiased.tsv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    found = list(evaluate(["alwaysbiased"], tmp_path, TOPIC, "test", data / "0_evaluation_prompts.tsv", 1))
    write_results(tmp_path / "results.tsv", found)
    expected = (gold / "edge" / "alwaysbiased_5part_ids_test.tsv").read_bytes()
    assert (tmp_path / "results.tsv").read_bytes() == expected


@pytest.mark.parametrize("prompts", ["1", "12345"])
def test_step_6(gold, prompts):
    folder = gold / "comparison"
    (found,) = compare(str(folder / "KoBBQ_test"), str(folder / "KoBBQ_test_debiased"), prompts, ["synth-model"])
    assert found.text() + "\n" == (folder / f"stdout_prompts_{prompts}.txt").read_text(encoding="utf-8")


def test_step_6_on_the_figures_of_the_document(shared, tmp_path):
    text = (shared / "seeds" / "kobbq.txt").read_text(encoding="utf-8")
    shown = text[text.index("gpt-35-turbo-0125-v1\nDefault Average") :].rstrip("`\n")
    lines = shown.splitlines()
    for name, start in (("default", 2), ("debiased", 9)):
        values = [line.split()[-1] for line in lines[start : start + len(METRICS)]]
        row = "\t".join(["gpt-35-turbo-0125-v1", "overall", *values])
        (tmp_path / f"{name}_1.tsv").write_text("\t".join(HEADER) + f"\n{row}\n", encoding="utf-8")
    names = [str(tmp_path / name) for name in ("default", "debiased")]
    (found,) = compare(*names, ["1"], ["gpt-35-turbo-0125-v1"])
    assert found.text() == shown
    assert found.text().endswith("\ndiff_bias_diff: -8.19%, accuracy_diff: 15.29%")
    assert "diff-bias, all rows (1 rows): 0.1905 to 0.1086, -8.19 points, -43.0% relative" in found.details()


def test_every_answer_of_the_fuzz_cases_is_read_alike(gold):
    wrong = []
    with gzip.open(gold / "fuzz" / "raw2prediction_fuzz.jsonl.gz", "rt", encoding="utf-8") as stream:
        cases = [json.loads(line) for line in stream]
    for raw, a, b, c, expected in cases:
        found = parse_reference(raw, lowered(a, b, c))
        if found != expected:
            wrong.append((raw, expected, found))
    assert len(cases) == 30_000
    assert wrong == []


def test_all_samples_and_their_questions(data, tmp_path):
    made = expand(data / "KoBBQ_templates.tsv")
    text = made.text().encode()
    assert (len(made.samples), len(text)) == (76_568, 38_816_862)
    assert git_blob_id(text) == RELEASED_BLOB == "31fe1237c1ba4876d51bbcc9c1822f122299ab56"
    told = "\n".join(made.defects())
    for defect in ("130 of 76568", "11206 of 76568", "5 templates", "CEO의 가족, LP 수집가인 사람", "ses-001b"):
        assert defect in told
    (tmp_path / "samples.tsv").write_bytes(text)
    files = {"tsv": tmp_path / "q.tsv", "json": tmp_path / "q.json"}
    prompts = data / "0_evaluation_prompts.tsv"
    done = preprocess(tmp_path / "samples.tsv", prompts, 1, tsv_path=files["tsv"], json_path=files["json"])
    assert done.questions == 229_704
    digests = {kind: hashlib.sha256(path.read_bytes()).hexdigest() for kind, path in files.items()}
    assert digests == {
        "tsv": "5bb97756c608da4c7375ce6d4e369c52cefb2bd583089ff2d2a43f82e14891db",
        "json": "b06e826ac265e0ba1894c7e0a2dd37e50244c1f9ad9145a88255d0bc2a664bdd",
    }


def test_the_test_set_as_items(data):
    found = kobbq_items(data / "KoBBQ_test_samples.tsv")
    assert len(found.items) == 2280
    assert len({item.template for item in found.items}) == 269
    assert {item.unknown for item in found.items} == {2}
    assert found.notes[0].startswith("16 of 2280 samples hold a control character")
    # In a biased context the disambiguated answer is the stereotype's, in the other it is not.
    assert all(
        item.biased_context == (item.groups["version"] in "bd") for item in found.items if item.context_type == "dis"
    )
