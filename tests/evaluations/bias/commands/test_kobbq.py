"""``lmassay kobbq``: the originals' flags, what they print, and one line for a mistake."""

from __future__ import annotations

import gzip
import subprocess
import sys

import pytest

from lmassay.cli import main
from lmassay.evaluations.bias.kobbq.steps.evaluate import HEADER
from tests.helpers import lmassay
from tests.published_data import FIGURES, published_set

TOPIC = "KoBBQ_test_evaluation"


def kobbq(capsys, *arguments):
    """Run a step in this process; gives exit code, standard output and standard error."""
    with pytest.raises(SystemExit) as stop:
        main(["kobbq", *map(str, arguments)])
    shown = capsys.readouterr()
    return stop.value.code, shown.out, shown.err


@pytest.fixture(scope="module")
def data():
    return published_set("kobbq")


@pytest.fixture(scope="module")
def gold(shared):
    return shared / "gold" / "kobbq"


def evaluate_flags(folder, data, mode="test"):
    return (
        *("--evaluation-result-path", folder / "results" / "KoBBQ_test_1.tsv"),
        *("--model-result-tsv-dir", folder / "processed"),
        *("--topic", TOPIC, "--test-or-all", mode),
        *("--prompt-tsv-path", data / "0_evaluation_prompts.tsv", "--prompt-id", 1),
    )


def test_the_steps_one_after_the_other(capsys, tmp_path, data, gold):
    questions, answers = tmp_path / "data" / f"{TOPIC}_1.tsv", tmp_path / "predictions.tsv"
    code, out, err = kobbq(
        *(capsys, "preprocess", "--samples-tsv-path", data / "KoBBQ_test_samples.tsv"),
        *("--evaluation-tsv-path", questions, "--evaluation-json-path", tmp_path / "data" / f"{TOPIC}_1.json"),
        *("--prompt-tsv-path", data / "0_evaluation_prompts.tsv", "--prompt-id", "1"),
    )
    assert (code, out) == (0, "")
    assert "16 of 2280 samples have a control character" in err
    assert questions.read_bytes() == gzip.decompress((gold / "step1" / f"{TOPIC}_1.tsv.gz").read_bytes())
    for model in ("biased", "synth-hard"):
        answers.write_bytes(
            gzip.decompress((gold / "inputs/raw" / f"{TOPIC}_1_{model}_predictions.tsv.gz").read_bytes())
        )
        flags = ("--predictions-tsv-path", answers, "--preprocessed-tsv-path", questions)
        code, out, err = kobbq(capsys, "postprocess", *flags, "--ooc-path", tmp_path / "ooc.tsv")
        assert code == 0
        assert out == f"out-of-choice count {256 if model == 'biased' else 2225}\n"
        target = tmp_path / "processed" / f"{TOPIC}_1_{model}.tsv"
        assert kobbq(capsys, "collect", *flags, "--output-path", target)[:2] == (0, "")
    code, out, err = kobbq(
        capsys, "evaluate", *evaluate_flags(tmp_path, data), "--models", "synth-hard", "biased", "no"
    )
    assert code == 0
    printed = (gold / "step5_test" / "step5_stdout_1.txt").read_text(encoding="utf-8")
    parts = printed.split(f"{TOPIC}_1 ")
    wanted = [part for part in parts if part.startswith(("synth-hard", "biased"))]
    skipped = f"no\n{tmp_path / 'processed' / f'{TOPIC}_1_no.tsv'} Not Exists - Skip\n"
    assert out == "".join(f"{TOPIC}_1 {part}" for part in [*wanted, skipped])
    assert f"no is left out: there is no file {tmp_path / 'processed'}" in err
    lines = (tmp_path / "results" / "KoBBQ_test_1.tsv").read_bytes().split(b"\r\n")
    expected = (gold / "step5_test" / "KoBBQ_test_1.tsv").read_bytes().split(b"\r\n")
    assert lines == [x for x in expected if x.startswith((b"model\t", b"synth-hard\t", b"biased\t")) or not x]


def test_robust_parsing_tells_both_rates(capsys, tmp_path, data, gold):
    questions, answers = tmp_path / "q.tsv", tmp_path / "predictions.tsv"
    questions.write_bytes(gzip.decompress((gold / "step1" / f"{TOPIC}_1.tsv.gz").read_bytes()))
    answers.write_bytes(
        gzip.decompress((gold / "inputs/raw" / f"{TOPIC}_1_synth-hard_predictions.tsv.gz").read_bytes())
    )
    flags = ("--predictions-tsv-path", answers, "--preprocessed-tsv-path", questions)
    code, out, err = kobbq(capsys, "postprocess", *flags, "--parsing", "robust")
    assert code == 0
    count = int(out.removeprefix("out-of-choice count "))
    assert count < 2225
    assert "out of choice: 2225 of 6840 (32.53%) with the reference parser, " in err
    assert "answers differently" in err


def test_empty_cells_are_distinguished_from_the_results(capsys, tmp_path, data, gold):
    predictions, questions = tmp_path / "p.tsv", tmp_path / "q.tsv"
    predictions.write_bytes(gzip.decompress((gold / "edge" / f"{TOPIC}_1_edge_predictions.step3.tsv.gz").read_bytes()))
    questions.write_bytes(gzip.decompress((gold / "step1" / f"{TOPIC}_1.tsv.gz").read_bytes()))
    target = tmp_path / "processed" / f"{TOPIC}_1_edge.tsv"
    flags = ("--predictions-tsv-path", predictions, "--preprocessed-tsv-path", questions, "--output-path", target)
    assert kobbq(capsys, "collect", *flags)[0] == 0
    code, out, err = kobbq(capsys, "evaluate", *evaluate_flags(tmp_path, data, "all"), "--models=edge")
    assert code == 0
    assert "n = 0" not in out
    assert "edge: accuracy in ambiguous contexts: no data (n = 0) in 41 templates (age-001, " in err
    result = (tmp_path / "results" / "KoBBQ_test_1.tsv").read_bytes()
    assert result == (gold / "edge" / "KoBBQ_test_1_edge_all.tsv").read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        ["--prompt_ids", "1", "2", "3", "4", "5", "--models", "synth-model"],
        ["--models", "synth-model", "--prompt_ids", "1", "2", "3", "4", "5"],
        ["--prompt_ids=1", "2", "3", "4", "5", "--models=synth-model"],
        ["--prompt", "1", "2", "3", "4", "5", "--mod", "synth-model"],
        ["--prompt-ids", "7", "--prompt_ids", "1", "2", "3", "4", "5", "--models", "synth-model"],
    ],
)
def test_lists_may_be_given_in_every_way(capsys, words):
    folder = FIGURES / "kobbq" / "comparison"
    flags = ("--evaluation-result-name", folder / "KoBBQ_test")
    more = ("--evaluation-debiased-result-name", folder / "KoBBQ_test_debiased")
    code, out, _ = kobbq(capsys, "compare", *flags, *words, *more)
    assert (code, out) == (0, (folder / "stdout_prompts_12345.txt").read_text(encoding="utf-8"))


def results(folder, name, *rows):
    lines = ["\t".join(HEADER), *("\t".join(map(str, row)) for row in rows)]
    (folder / f"{name}_1.tsv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return folder / name


def test_details_are_printed_only_when_asked_for(capsys, tmp_path):
    before = results(tmp_path, "a", ("m", "overall", 0, 0.25, 0.75, 0.5, 0.1), ("m", "NC", 0, 0.5, 0.5, 0.5, 0.1))
    after = results(tmp_path, "b", ("m", "overall", 0, 0.5, 0.75, 0.25, 0.1), ("m", "NC", 0, 0.5, 0.5, 0.5, 0.1))
    flags = ("--evaluation-result-name", before, "--evaluation-debiased-result-name", after)
    flags = (*flags, "--prompt_ids", 1, "--models", "m", "x")
    code, plain, err = kobbq(capsys, "compare", *flags)
    assert code == 0
    assert "diff_bias_diff: -6.25%, accuracy_diff: 6.25%\nx\n" in plain
    assert "x has no rows in" in err
    _, out, _ = kobbq(capsys, "compare", *flags, "--details")
    assert "diff-bias, overall rows (1 rows): 0.3000 to 0.1750, -12.50 points, -41.7% relative" in out
    assert "accuracy, all rows (2 rows): 0.5000 to 0.5625, +6.25 points, +12.5% relative" in out


def test_expansion_tells_whether_it_is_the_released_file(capsys, tmp_path, data):
    lines = (data / "KoBBQ_templates.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "t.tsv").write_text("".join(lines[:3]), encoding="utf-8")
    flags = ("--templates-tsv-path", tmp_path / "t.tsv", "--output-path", tmp_path / "s.tsv")
    code, out, _ = kobbq(capsys, "expand", *flags, "--check")
    assert code == 1
    assert "rows      32\n" in out
    assert "released  no, the released file is 31fe1237c1ba4876d51bbcc9c1822f122299ab56\n" in out
    assert (tmp_path / "s.tsv").read_text(encoding="utf-8").count("\n") == 33
    assert kobbq(capsys, "expand", *flags)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["preprocess", "--samples-tsv-path", "s", "--prompt-tsv-path", "p", "--prompt-id", "1"],
            "give --evaluation-tsv",
        ),
        (["evaluate", "--models", "--topic", "t"], "Option '--models' requires at least one argument"),
        (["evaluate", "--models"], "Option '--models' requires at least one argument"),
        (["compare", "--models", "m"], "Missing option"),
        (
            ["postprocess", "--predictions-tsv-path", "none.tsv", "--preprocessed-tsv-path", "q"],
            "none.tsv does not exist",
        ),
        (["expand", "--templates-tsv-path", "."], "is a directory"),
    ],
)
def test_mistakes_end_with_a_message_and_exit_code_two(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = kobbq(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_a_mistake_in_a_file_is_one_line(tmp_path):
    (tmp_path / "p.tsv").write_bytes(b"time\ttopic\tguid\ttruth\traw\r\n1\t2\t3\r\n")
    (tmp_path / "q.tsv").write_text("sample_id\tA\tB\tC\nx\ta\tb\tc\n", encoding="utf-8")
    flags = ("--predictions-tsv-path", tmp_path / "p.tsv", "--preprocessed-tsv-path", tmp_path / "q.tsv")
    done = lmassay("kobbq", "postprocess", *flags)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "p.tsv, line 2: the row has 3 cells, the header 5: it was cut off; run `lmassay kobbq infer`" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["kobbq", "--help"], ["kobbq", "evaluate", "--help"], ["kobbq", "infer", "--help"]]
)
def test_help_is_light(arguments):
    code = (
        "import sys\nfrom lmassay.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print('LOADED', sorted({'numpy', 'scipy', 'torch', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rpartition("LOADED ")[2].strip() == "[]"
    assert "Example: " in done.stdout
