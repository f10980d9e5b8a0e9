"""The checklist of 55 faults: each line has a test, which carries its number in a marker.

``pytest -m fault`` runs them all. The numbers are those of ``CHECKLIST``; a test anywhere in the repository covers a
line if it is marked ``@pytest.mark.fault(NUMBER)``. Lines without a better place have their test here.
"""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
import time
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from lmassay.storage.store import Store
from tests.forked import in_forks
from tests.helpers import EVALUATIONS, ROOT, lmassay, write_config, write_lines
from tests.offline import network_guard
from tests.servers import completion, failure, openai_server, prompt_of

CHECKLIST = {
    1: "kill -9 at each stage; resume gives the scores of an unbroken run",
    2: "SIGINT: status cancelled, exit code 130, nothing lost but what was on its way",
    3: "disk full during a write",
    4: "read-only or missing results folder: an error before the first paid call",
    5: "truncated or damaged store or line of JSON: named, never silently dropped",
    6: "two processes on one store",
    7: "clock jump",
    8: "newer and older schema version",
    9: "429 with Retry-After",
    10: "500 for ever: bounded tries, example with errors, the run continues, exit code not 0",
    11: "timeout in the middle of an answer",
    12: "empty, null, refused, filtered and truncated answers: recorded as such, not cached as answers",
    13: "wrong key: fails at the first call",
    14: "a model that cannot do what the task needs is refused by check",
    15: "more or fewer choices than requested",
    16: "body that is not JSON, HTML page, gzip bomb",
    17: "unknown price: cost unknown, not 0",
    18: "a limit on cost or tokens stops cleanly",
    19: "same cache, other model, revision, prompt, parameters or seed: miss",
    20: "temperature above 0 is not served from the cache across repeats",
    21: "empty file, header only, ragged row, BOM, CRLF, NUL, lone surrogate, NFC and NFD, zero width, RTL, emoji",
    22: "duplicate ids",
    23: "missing column, named with file and line",
    24: "`choices` with code: a parse error, nothing is executed",
    25: "file with another digest",
    26: "files of different lengths, named",
    27: "verb not in the vocabulary or of several tokens; no lemma within the cutoff: counted as unscored",
    28: "label outside the verbaliser",
    29: "text longer than the context: counted, not silently cut",
    30: "group with one item or none: no division by zero",
    31: "all ties, all correct",
    32: "unknown key, wrong type, duplicate key, anchors bomb, Python tag, unset variable",
    33: "false on the command line overrides true in the file",
    34: "two plug-ins with one name: an error that names both",
    35: "a broken plug-in does not break the lists",
    36: "missing extra: one line with the pip command",
    37: "check touches neither network nor GPU",
    38: "same seed, same result: workers, batch sizes, order of completion",
    39: "published numbers of the four papers",
    40: "coverage of intervals, size of paired tests",
    41: "invariances of metrics",
    42: "errors are never counted as zeros; n, errors and unscored are shown",
    43: "markup in prompts, ids and names is inert in a report; content policy",
    44: "ids and names that are not safe as paths",
    45: "keys are in no store, log, report or traceback",
    46: "terminal escapes are stripped",
    47: "formulas in CSV cells and specials of TeX are escaped",
    48: "no pickle, eval, exec, shell, yaml.load or torch.load in the package",
    49: "trust_remote_code needs a yes for each run and is part of the provenance",
    50: "the viewer listens on loopback only",
    51: "the tests pass without a network",
    52: "cp949, ASCII locale, paths with spaces and Hangul",
    53: "core commands work without torch",
    54: "import lmassay takes less than 0.3 s and imports nothing heavy",
    55: "100,000 examples in bounded memory",
}


# --- the checklist itself ---------------------------------------------------------------------------------------------


def marked_tests() -> dict[int, list[str]]:
    """The tests that are marked with each number."""
    tests: dict[int, list[str]] = defaultdict(list)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        source = file.read_text(encoding="utf-8")
        if "mark.fault(" not in source:
            continue
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                for number in _numbers_of(function):
                    tests[number].append(f"{file.relative_to(ROOT)}::{function.name}")
    return tests


def _numbers_of(function: ast.FunctionDef) -> Iterator[int]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.fault":
            for argument in decorator.args:
                assert isinstance(argument, ast.Constant), f"{function.name}: write the number itself"
                yield argument.value


def test_every_line_of_the_checklist_has_a_test():
    assert list(CHECKLIST) == list(range(1, 56))
    tests = marked_tests()
    assert [number for number in CHECKLIST if not tests[number]] == []
    assert set(tests) == set(CHECKLIST), "a marker has a number that the checklist does not have"


# --- 7: clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.fault(7)
def test_a_clock_that_jumps_during_a_run_changes_no_result(tmp_path, monkeypatch):
    write_lines(tmp_path / "src.txt", [f"sentence number {number}" for number in range(12)])
    task = {"name": "robustness", "src": "src.txt", "ref": "src.txt", "attack": "charswap"}
    rng = random.Random(1)

    def answer(body: dict[str, Any], before: int):
        # A date as a wait depends on the clock.
        if before == 0 and "number 3" in prompt_of(body):
            return failure(429, Retry_After=formatdate(0, usegmt=True))
        return completion(prompt_of(body))

    results = []
    for jumps in (False, True):
        if jumps:
            monkeypatch.setattr(time, "time", lambda: rng.uniform(0.8e9, 2.8e9))
        with openai_server(answer) as server:
            model = {"name": "openai", "model": "m", "base_url": server.url, "wait": 0.01}
            file = write_config(tmp_path / "config.yaml", {"task": task, "model": model})
            done = lmassay("run", file, "--results", tmp_path / f"results-{jumps}")
        assert done.returncode == 0, done.stderr
        with Store(tmp_path / f"results-{jumps}") as store:
            run = store.run("latest")
            results.append((run.status, run.results, list(store.rows(run.id))))
    assert results[0] == results[1]


# --- 21: odd texts ----------------------------------------------------------------------------------------------------

KOREAN = "대한민국사람들은 아침식사를\n도서관에서는 조용히합시다\n"
ODD_LINES = {
    "byte order mark": "\ufeffone small line\nanother line\n".encode(),
    "CRLF": b"one small line\r\nanother line\r\n",
    "NUL": b"one small line\nanother\x00 line\n",
    "lone surrogate": b"one small line\nanother \xed\xa0\x80 line\n",
    "NFC": unicodedata.normalize("NFC", KOREAN).encode(),
    "NFD": unicodedata.normalize("NFD", KOREAN).encode(),
    "zero width": "one\u200b small line\nanother\u200d \u2060line\n".encode(),
    "right to left": "שורה ראשונה כאן\nسطر آخر هنا\n".encode(),
    "emoji": "one 😀 small line\nanother 👩‍👩‍👧 line 🇰🇷\n".encode(),
    "no end of line": b"one small line\nanother line",
    "empty line": b"one small line\n\nanother line\n",
    "one line": b"one small line\n",
    "separators": "one small\u2028line\nanother\x0bline\x0c here\n".encode(),
}


@pytest.mark.fault(21)
@pytest.mark.parametrize("kind", ODD_LINES)
def test_odd_texts_are_scored_as_they_are_or_refused_with_their_line(tmp_path, kind):
    content = ODD_LINES[kind]
    (tmp_path / "src.txt").write_bytes(content)
    task = {"name": "robustness", "src": "src.txt", "attack": {"name": "charswap", "rate": 1.0}}
    file = write_config(tmp_path / "config.yaml", {"task": task, "model": "echo"})
    done = lmassay("run", file, "--results", tmp_path / "results")
    assert "Traceback" not in done.stderr
    if done.returncode == 2:
        assert kind in ("NUL", "lone surrogate")
        assert "src.txt, line 2" in done.stderr
        assert len(done.stderr.splitlines()) <= 3
        return
    assert done.returncode == 0, done.stderr
    with Store(tmp_path / "results") as store:
        sources = [row.example.inputs["src"] for row in store.rows(store.run("latest").id)]
    # Lines end where an editor says so, and nowhere else; nothing else about a text is changed.
    text = content.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    assert sources == text.removesuffix("\n").split("\n")


@pytest.mark.fault(21)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"text,label\n", "train.csv"),
        (b"text,label\na,0,1\nb,1\n", "train.csv, line 2"),
        (b"text,label\na\nb,1\n", "train.csv, line 2"),
    ],
)
def test_empty_files_files_with_a_header_only_and_ragged_rows_are_refused(tmp_path, content, message):
    (tmp_path / "train.csv").write_bytes(content)
    description = {
        "data": {"train": "train.csv", "dev": "train.csv"},
        "fields": ["text"],
        "label": "label",
        "labels": ["0", "1"],
        "patterns": ["{text} It was [mask]"],
        "words": {"0": "bad", "1": "good"},
    }
    write_config(tmp_path / "texts.yaml", description)
    task = {"name": "fewshot", "data": "texts.yaml", "labelled": ["train"], "method": "majority", "splits": {"k": 2}}
    file = write_config(tmp_path / "config.yaml", {"task": task})
    done = lmassay("run", file, "--results", tmp_path / "results")
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 3


# --- 29: long texts ---------------------------------------------------------------------------------------------------


@pytest.mark.fault(29)
def test_a_text_that_is_longer_than_the_context_is_unscored_and_counted(tmp_path):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from tests.tiny_models import save_model

    folder = save_model(tmp_path / "model", "gpt2")
    pairs = []
    for words in ("", "the old author " * 2000):
        pairs.append(
            json.dumps({"sentence_good": f"{words}The author laughs.", "sentence_bad": f"{words}The author laugh."})
        )
    write_lines(tmp_path / "pairs.jsonl", pairs)
    config = {
        "task": {"name": "minimal_pairs", "data": "pairs.jsonl"},
        "model": {"name": "hf", "model": str(folder), "kind": "causal"},
    }
    file = write_config(tmp_path / "config.yaml", config)
    done = lmassay("run", file, "--results", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    with Store(tmp_path / "results") as store:
        run = store.run("latest")
        rows = list(store.rows(run.id))
    assert [row.state for row in rows] == ["scored", "unscored"]
    assert "too_long" in json.dumps(rows[1].score.unscored)
    assert (run.results[0].n, run.results[0].n_unscored, run.results[0].n_error) == (1, 1, 0)


# --- 41: invariances --------------------------------------------------------------------------------------------------

WORDS = ["lamp", "river", "copper", "window", "seven", "garden"]


def robustness_texts(folder: Path, order: list[int]) -> dict[str, Any]:
    rng = random.Random(3)
    columns: dict[str, list[str]] = {name: [] for name in ("src", "adv", "out", "adv_out", "ref")}
    for _ in range(40):
        for texts in columns.values():
            texts.append(" ".join(rng.choices(WORDS, k=rng.randrange(2, 6))))
    for name, texts in columns.items():
        write_lines(folder / name, [texts[number] for number in order])
    return {
        "task": {"name": "robustness", "src": "src", "ref": "ref", "attack": {"name": "given", "file": "adv"}},
        "model": {"name": "outputs", "files": {"out": "out", "adv_out": "adv_out"}},
    }


def minimal_pairs(folder: Path, order: list[int]) -> dict[str, Any]:
    pairs = []
    for number in range(40):
        # No context occurs twice: which of two equal ones is the first one would depend on the order.
        words = f"the {WORDS[number % 6]} {number} {WORDS[number % 5]}"
        pairs.append(json.dumps({"sentence_good": f"{words} shines.", "sentence_bad": f"{words} shine."}))
    write_lines(folder / "pairs.jsonl", [pairs[number] for number in order])
    model = {"name": str(EVALUATIONS / "syntax/sample/my_language_model.py") + ":Bigrams"}
    corpus = EVALUATIONS / "syntax/sample/corpus.txt"
    return {"task": {"name": "minimal_pairs", "data": "pairs.jsonl"}, "model": {**model, "text": str(corpus)}}


def bias_questions(folder: Path, order: list[int]) -> dict[str, Any]:
    source = EVALUATIONS / "bias/sample/questions.jsonl"
    lines = source.read_text(encoding="utf-8").splitlines()[:40]
    shuffled = [lines[number] for number in order if number < len(lines)]
    write_lines(folder / "questions.jsonl", shuffled)
    write_config(folder / "questions.yaml", {"name": "q", "language": "en", "files": "questions.jsonl"})
    return {"task": {"name": "bias", "data": "questions.yaml", "prompt_id": 1}, "model": "echo"}


def values_of(folder: Path, config: dict[str, Any]) -> dict[tuple[str, str], Any]:
    file = write_config(folder / "config.yaml", config)
    done = lmassay("run", file, "--results", folder / "results")
    assert done.returncode == 0, done.stderr
    with Store(folder / "results") as store:
        results = store.run("latest").results
    return {(result.metric, result.group): (result.value, result.n, result.low, result.high) for result in results}


@pytest.mark.fault(41)
@pytest.mark.parametrize("make", [robustness_texts, minimal_pairs, bias_questions])
def test_the_order_of_examples_changes_no_metric_and_no_interval(tmp_path, make):
    in_order = list(range(40))
    shuffled = random.Random(9).sample(in_order, 40)
    values = []
    for name, order in (("first", in_order), ("second", shuffled)):
        (tmp_path / name).mkdir()
        values.append(values_of(tmp_path / name, make(tmp_path / name, order)))
    assert values[0].keys() == values[1].keys()
    assert len(values[0]) > 1
    for key, numbers in values[0].items():
        assert values[1][key] == pytest.approx(numbers, nan_ok=True), key


@pytest.mark.fault(41)
def test_a_comparison_is_antisymmetric(tmp_path):
    runs = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        config = robustness_texts(folder, list(range(40)))
        rng = random.Random(seed)
        outputs = [" ".join(rng.choices(WORDS, k=4)) for _ in range(40)]
        write_lines(folder / "adv_out", outputs)
        file = write_config(folder / "config.yaml", config)
        done = lmassay("run", file, "--results", tmp_path / "results")
        assert done.returncode == 0, done.stderr
    with Store(tmp_path / "results") as store:
        runs = [run.id for run in store.runs()]
    tables = []
    for base, new in (runs, reversed(runs)):
        done = lmassay("compare", base, new, "--json", "--results", tmp_path / "results")
        assert done.returncode == 0, done.stderr
        tables.append(json.loads(done.stdout))
    differences = [_differences(table) for table in tables]
    assert differences[0]
    assert differences[0].keys() == differences[1].keys()
    for key, (difference, low, high, p) in differences[0].items():
        assert differences[1][key] == pytest.approx((-difference, -high, -low, p)), key


def _differences(document: Any) -> dict[str, tuple[float, float, float, float]]:
    differences = {}
    for row in document["comparisons"]:
        if row["p"] is not None:
            differences[row["metric"]] = (row["difference"], row["low"], row["high"], row["p"])
    return differences


# --- 49: code that comes with a model ---------------------------------------------------------------------------------

MODEL_CODE = """
from pathlib import Path

from transformers import GPT2Config, GPT2LMHeadModel

Path({sentinel!r}).touch()


class Config(GPT2Config):
    model_type = "my-own"


class Mine(GPT2LMHeadModel):
    config_class = Config
"""


@pytest.mark.fault(49)
def test_code_of_a_model_runs_only_after_a_yes_that_the_run_records(tmp_path):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from transformers import dynamic_module_utils

    from tests.tiny_models import save_model

    folder = save_model(tmp_path / "model", "gpt2")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    auto_map = {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Mine"}
    config |= {"model_type": "my-own", "auto_map": auto_map, "architectures": ["Mine"]}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    sentinel = tmp_path / "code has run"
    (folder / "mine.py").write_text(MODEL_CODE.format(sentinel=str(sentinel)), encoding="utf-8")
    write_lines(
        tmp_path / "pairs.jsonl", ['{"sentence_good": "The author laughs.", "sentence_bad": "The author laugh."}']
    )
    task = {"name": "minimal_pairs", "data": "pairs.jsonl"}
    model = {"name": "hf", "model": str(folder), "kind": "causal"}
    file = write_config(tmp_path / "config.yaml", {"task": task, "model": model})
    results = tmp_path / "results"
    for arguments in (["check", file], ["run", file, "--results", results]):
        refused = lmassay(*arguments)
        assert refused.returncode == 2, refused.stdout
        assert "trust_remote_code: true" in refused.stderr
        assert not sentinel.exists()
    write_config(file, {"task": task, "model": {**model, "trust_remote_code": True}})

    def run_with_its_code() -> None:
        # transformers has read $HF_MODULES_CACHE when it was imported.
        dynamic_module_utils.HF_MODULES_CACHE = str(tmp_path / "modules")
        allowed = lmassay("run", file, "--results", results)
        assert allowed.returncode == 0, allowed.stderr

    # Another process: this one does not have to live with the model's code.
    assert in_forks(run_with_its_code) == [0]
    assert (tmp_path / "modules").is_dir()
    assert sentinel.exists()
    with Store(results) as store:
        record = store.run("latest")
    assert "trust_remote_code" in record.signature
    assert record.config["model"]["trust_remote_code"] is True


# --- 51: no network ---------------------------------------------------------------------------------------------------

CONNECT = "import socket; socket.create_connection(({host!r}, {port}), timeout=5).close()"
ELSEWHERE = "192.0.2.1"
"""An address that belongs to nobody."""


@pytest.fixture
def _needs_the_guard(request):
    if request.config.getoption("--network"):
        pytest.skip("--network allows connections")


@pytest.mark.fault(51)
@pytest.mark.usefixtures("_needs_the_guard")
def test_a_test_cannot_reach_another_machine():
    with pytest.raises(OSError, match="tests may not use the network"):
        network_guard.socket.create_connection((ELSEWHERE, 80))
    with pytest.raises(OSError, match="Name or service not known"):
        network_guard.socket.create_connection(("example.org", 80))


@pytest.mark.fault(51)
@pytest.mark.usefixtures("_needs_the_guard")
def test_a_process_that_a_test_starts_cannot_reach_another_machine_either():
    code = CONNECT.format(host=ELSEWHERE, port=80)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "tests may not use the network" in done.stderr


@pytest.mark.fault(51)
def test_this_machine_can_be_reached():
    with openai_server() as server:
        port = int(server.root.rpartition(":")[2])
        for host in ("127.0.0.1", "localhost"):
            network_guard.socket.create_connection((host, port)).close()
            subprocess.run([sys.executable, "-c", CONNECT.format(host=host, port=port)], check=True)


@pytest.mark.usefixtures("_needs_the_guard")
def test_a_step_that_fetches_something_for_all_tests_may_use_the_network():
    code = "import socket; print(socket.getaddrinfo.__name__)"
    command = [sys.executable, "-c", code]
    with network_guard.lifted():
        assert not network_guard.is_blocking()
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "getaddrinfo\n"
    assert network_guard.is_blocking()
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "_guarded_getaddrinfo\n"


# --- 52: names --------------------------------------------------------------------------------------------------------


@pytest.mark.fault(52)
def test_a_folder_with_spaces_and_hangul_works_with_other_encodings(tmp_path):
    folder = tmp_path / "한글 폴더" / "둘 째"
    folder.mkdir(parents=True)
    write_lines(folder / "자료.txt", ["아침식사를 합시다 여러분", "another small line"])
    task = {"name": "robustness", "src": "자료.txt", "attack": {"name": "charswap", "rate": 1.0}}
    text = json.dumps({"task": task, "model": "echo"}, ensure_ascii=False)
    (folder / "설정.yaml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "lmassay", "run", "설정.yaml", "--results", "결과"]
    environments = [{"PYTHONIOENCODING": "cp949"}]
    if str(ROOT).isascii():
        # In an ASCII locale, Python itself cannot read the .pth file of an editable package in a folder like 한글.
        environments.append({"PYTHONUTF8": "1", "LC_ALL": "C"})
    for environment in environments:
        variables = {**os.environ, **environment}
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
    with Store(folder / "결과") as store:
        assert len(store.runs()) == len(environments)


# --- 54: the import ---------------------------------------------------------------------------------------------------


@pytest.mark.fault(54)
def test_the_import_takes_less_than_a_third_of_a_second_of_cpu_time():
    code = "import time; start = time.process_time(); import lmassay; print(time.process_time() - start)"
    times = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        times.append(float(done.stdout))
    assert min(times) < 0.3


# --- 55: memory -------------------------------------------------------------------------------------------------------

MEASURE = """
import resource, sys
from lmassay.cli import main
try:
    main(sys.argv[1:])
finally:
    # Kilobytes on Linux, bytes on macOS.
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    sys.stderr.write(f"PEAK {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit}")
"""
MOST_GROWTH = 30.0
"""MB for 40,000 more examples. Their texts alone would take more than that as Python objects."""


@pytest.mark.fault(55)
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no resource module")
def test_45000_examples_take_hardly_more_memory_than_5000(tmp_path):
    """Both with numpy, because compiled code takes more memory than the examples."""
    peaks = []
    for count in (5_000, 45_000):
        folder = tmp_path / str(count)
        folder.mkdir()
        rng = random.Random(1)
        for name in ("src", "adv", "out", "adv_out", "ref"):
            write_lines(folder / name, [f"{number} " + " ".join(rng.choices(WORDS, k=8)) for number in range(count)])
        config = {
            "task": {"name": "robustness", "src": "src", "ref": "ref", "attack": {"name": "given", "file": "adv"}},
            "model": {"name": "outputs", "files": {"out": "out", "adv_out": "adv_out"}},
            "resamples": 100,
        }
        file = write_config(folder / "config.yaml", config)
        command = [sys.executable, "-c", MEASURE, "run", str(file), "--results", str(folder / "results")]
        environment = {**os.environ, "LMASSAY_ENGINE": "numpy"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        peaks.append(float(done.stderr.rpartition("PEAK ")[2]))
    assert peaks[1] - peaks[0] < MOST_GROWTH, peaks
