"""Step 2: asking a model, keeping every answer, going on after a crash."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time

import pytest

from lmassay.errors import DataError, StoreError
from lmassay.evaluations.bias.kobbq.steps.infer import (
    InferenceQuestion,
    PredictionsFile,
    model_spec,
    predictions_path,
    read_questions,
)
from tests.helpers import ROOT, lmassay
from tests.servers import completion, failure, message, openai_server, prompt_of

SENTINEL = "sk-sentinel-0123456789abcdef"
QUESTIONS = [
    ["맥락: 하나\n정답:", "손자", "알 수 없음", "할머니", "B", "age-001a-002-amb-bsd-0"],
    ["맥락: 둘\n정답:", "할머니", "손자", "알 수 없음", "C", "age-001a-002-amb-bsd-1"],
    ["맥락: 셋\n정답:", "알 수 없음", "할머니", "손자", "A", "age-001a-002-amb-bsd-2"],
]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "KoBBQ_test_evaluation_1.json"
    document = {"ver": "test", "prefix": "고르시오.\n\n", "data": QUESTIONS}
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return path


def infer(data, server, *more, name="gpt-4", **environment):
    output = data.parent / "raw"
    done = lmassay(
        *("kobbq", "infer", "--data-path", data, "--output-dir", output, "--model-name", name),
        *(() if server is None else ("--base-url", server.url)),
        *more,
        env={"OPENAI_API_KEY": SENTINEL, **environment},
    )
    return done, predictions_path(data, output, name)


def rows(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream, delimiter="\t"))


def test_answers_are_written_as_kobbq_writes_them(data):
    with openai_server(lambda body, _: completion(' \n"B" 그리고\t탭 \n')) as server:
        done, path = infer(data, server)
    assert done.returncode == 0, done.stderr
    assert path.name == "KoBBQ_test_evaluation_1_gpt-4_predictions.tsv"
    raw = path.read_bytes()
    assert raw.startswith(b"time\ttopic\tguid\ttruth\traw\r\n")
    assert raw.endswith('\tA\t"""B"" 그리고\t탭"\r\n'.encode())
    written = rows(path)[1:]
    assert [row[1:4] for row in written] == [["KoBBQ_test_evaluation_1", q[-1], q[-2]] for q in QUESTIONS]
    assert {row[4] for row in written} == {'"B" 그리고\t탭'}
    assert sorted(server.prompts) == sorted("고르시오.\n\n" + q[0] for q in QUESTIONS)
    assert {(body["max_tokens"], body["temperature"]) for body in server.bodies} == {(30, 0)}
    assert done.stdout.splitlines() == ["KoBBQ_test_evaluation_1", "KoBBQ_test_evaluation_1 - gpt-4 done"]


def test_what_is_on_file_is_not_asked_again(data):
    with openai_server(lambda body, _: completion("A")) as server:
        infer(data, server)
        before = len(server.bodies)
        done, path = infer(data, server)
    assert done.returncode == 0
    assert len(server.bodies) == before == 3
    assert f"Continue on {path}" in done.stdout


def test_answers_come_in_the_order_of_the_questions_in_the_end(data):
    def slow_first(body, _):
        time.sleep(0.3 if "하나" in prompt_of(body) else 0)
        return completion("A")

    with openai_server(slow_first) as server:
        _, path = infer(data, server)
    assert [row[2] for row in rows(path)[1:]] == [q[-1] for q in QUESTIONS]


@pytest.mark.parametrize("cut", [1, 2, 5, 30])
def test_a_row_that_a_crash_broke_off_is_asked_again_and_no_other(data, cut):
    with openai_server(lambda body, _: completion("여러\n줄의 답")) as server:
        _, path = infer(data, server)
        path.write_bytes(path.read_bytes()[:-cut])
        server.bodies.clear()
        done, _ = infer(data, server)
        assert done.returncode == 0, done.stderr
        assert "was incomplete; its question is sent again" in done.stderr
        assert len(server.bodies) == 1
    assert [row[2] for row in rows(path)[1:]] == [q[-1] for q in QUESTIONS]


def test_an_open_quote_in_the_middle_is_an_error_and_nothing_is_cut(data):
    with openai_server(lambda body, _: completion("A")) as server:
        _, path = infer(data, server)
        broken = path.read_bytes().replace(b"\tB\tA\r\n", b'\tB\t"A\r\n', 1)
        path.write_bytes(broken)
        done, _ = infer(data, server)
    assert done.returncode == 2
    assert "line 2: a quotation mark is never closed" in done.stderr
    assert path.read_bytes() == broken


def test_failed_questions_are_left_open_and_asked_again(data):
    failing = True

    def answer(body, _):
        return failure(400, "bad luck") if failing and "둘" in prompt_of(body) else completion("B")

    with openai_server(answer) as server:
        done, path = infer(data, server)
        assert done.returncode == 1
        assert "1 of 3 questions have no answer" in done.stderr
        assert "bad luck" in done.stderr
        assert len(rows(path)) == 3
        failing = False
        done, _ = infer(data, server)
        assert done.returncode == 0
        assert len(server.bodies) == 4
    assert [row[2] for row in rows(path)[1:]] == [q[-1] for q in QUESTIONS]


def test_refused_cut_and_empty_answers_are_noted_as_what_they_are(data):
    replies = {"하나": completion(None, refusal="no"), "둘": completion("길게", "length"), "셋": completion("")}

    def answer(body, _):
        return next(reply for word, reply in replies.items() if word in prompt_of(body))

    with openai_server(answer) as server:
        done, path = infer(data, server)
    assert done.returncode == 0
    notes = [json.loads(line) for line in path.with_name(f"{path.stem}.notes.jsonl").read_text().splitlines()]
    ends = {note["guid"][-1]: note["finish"] for note in notes}
    assert ends == {"0": "refusal", "1": "length", "2": "empty"}
    assert [row[4] for row in rows(path)[1:]] == ["", "길게", ""]
    assert "1 empty, 1 length, 1 refusal" in done.stderr


def test_after_the_third_step_new_rows_have_its_columns_and_line_ends(data):
    with openai_server(lambda body, _: completion("C")) as server:
        _, path = infer(data, server)
        kept = [[*row, value] for row, value in zip(rows(path)[:2], ["prediction", "A"], strict=True)]
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, delimiter="\t", lineterminator="\n").writerows(kept)
        done, _ = infer(data, server)
    assert done.returncode == 0, done.stderr
    assert b"\r" not in path.read_bytes()
    assert {len(row) for row in rows(path)} == {6}
    assert rows(path)[1] == kept[1]


def test_two_runs_into_one_file_do_not_mix(data, tmp_path):
    path = predictions_path(data, tmp_path, "m")
    taken = pytest.raises(StoreError, match="another process is working on the predictions")
    with PredictionsFile(path, "t").opened(), taken, PredictionsFile(path, "t").opened():
        pass


def test_a_killed_run_loses_nothing_that_was_answered(data):
    many = [[f"문맥 {i}\n정답:", "a", "b", "c", "A", f"age-001a-{i:03d}-amb-bsd-0"] for i in range(60)]
    document = {"ver": "test", "prefix": "", "data": many}
    data.write_text(json.dumps(document), encoding="utf-8")
    with openai_server(lambda body, _: completion("A"), latency=0.05) as server:
        command = [sys.executable, "-m", "lmassay", "kobbq", "infer", "--data-path", data, "--output-dir"]
        command += [data.parent / "raw", "--model-name", "m", "--base-url", server.url, "--set", "concurrency=4"]
        with subprocess.Popen(map(str, command), stdout=subprocess.DEVNULL, cwd=ROOT) as running:
            while len(server.bodies) < 20 and running.poll() is None:
                time.sleep(0.01)
            running.kill()
        asked_before = len(server.bodies)
        done, path = infer(data, server, name="m")
        assert done.returncode == 0, done.stderr
        # At most what was in flight, and one row that may have been broken off.
        assert len(server.bodies) <= 60 + 4 + 1
        assert asked_before >= 20
    assert sorted(row[2] for row in rows(path)[1:]) == sorted(q[-1] for q in many)


def test_a_wrong_key_fails_at_the_first_call(data):
    with openai_server(lambda body, _: failure(401, f"wrong key {SENTINEL}")) as server:
        done, _ = infer(data, server)
    assert done.returncode == 2
    assert len(server.bodies) == 1
    assert "the key was refused" in done.stderr


def test_no_key_is_left_in_any_file_or_message(data):
    def answer(body, _):
        return failure(400, f"your key {SENTINEL} is odd") if "둘" in prompt_of(body) else completion(f"A {SENTINEL}")

    with openai_server(answer) as server:
        done, path = infer(data, server, OPENAI=SENTINEL, CLAUDE=SENTINEL, CLOVA=SENTINEL, API_KEY=SENTINEL)
    assert SENTINEL not in done.stdout + done.stderr
    for file in path.parent.rglob("*"):
        assert not file.is_file() or SENTINEL.encode() not in file.read_bytes()


def test_a_budget_stops_cleanly_and_the_same_command_goes_on(data):
    with openai_server(lambda body, _: completion("A")) as server:
        done, path = infer(data, server, "--budget-tokens", "10", "--set", "concurrency=1")
        assert done.returncode == 1
        assert "2 of 3 questions have no answer" not in done.stderr or len(rows(path)) == 2
        assert "tokens" in done.stderr
        done, _ = infer(data, server)
        assert done.returncode == 0
        assert len(server.bodies) == 3


def test_prints_of_your_own_model_are_not_on_standard_output(data):
    (data.parent / "mine.py").write_text(
        "from lmassay import Model\n"
        "print('imported')\n"
        "class Mine(Model):\n"
        "    name = 'mine'\n"
        "    can = frozenset({'generate'})\n"
        "    def identity(self):\n"
        "        return {'name': 'mine'}\n"
        "    def generate(self, requests):\n"
        "        print('asked')\n"
        "        return ['A' for _ in requests]\n",
        encoding="utf-8",
    )
    config = data.parent / "model.yaml"
    config.write_text("name: mine.py:Mine\n", encoding="utf-8")
    done, path = infer(data, None, "--model-config", config, name="mine")
    assert done.returncode == 0, done.stderr
    assert len(rows(path)) == 4
    assert "imported" in done.stderr
    assert "asked" in done.stderr
    assert "imported" not in done.stdout
    assert "asked" not in done.stdout


def test_model_names_with_slashes_stay_inside_the_folder(data):
    with openai_server(lambda body, _: completion("A")) as server:
        done, path = infer(data, server, name="../org/model")
    assert done.returncode == 0
    assert path.parent == data.parent / "raw"
    assert path.is_file()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "is not a file of"),
        (b"[]", "is not a file of"),
        (b'{"prefix": "x", "data": []}', "has no questions"),
        (b'{"prefix": "x", "data": [["q", "A", "id"], ["q", "A", "id"]]}', "occurs twice"),
        (b'{"prefix": 1, "data": [["q", "A", "id"]]}', "is not a file of"),
        (b"\xff\xfe", "is not a file of"),
    ],
)
def test_a_file_that_is_not_of_the_first_step_is_refused(tmp_path, content, why):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=why):
        read_questions(path)


def test_a_file_with_other_columns_is_not_touched(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_bytes(b"a\tb\r\n1\t2\r\n")
    with pytest.raises(DataError, match="line 1: the columns are a, b"), PredictionsFile(path, "t").opened():
        pass
    assert path.read_bytes() == b"a\tb\r\n1\t2\r\n"


@pytest.mark.parametrize(
    "content", [b"a line of mine\nand half a line", "time\ttopic".encode("utf-16"), b"\xef\xbb\xbftime"]
)
def test_a_file_that_is_not_ours_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "p.tsv"
    path.write_bytes(content)
    with pytest.raises(DataError), PredictionsFile(path, "t").opened():
        pass
    assert path.read_bytes() == content


@pytest.mark.parametrize("model", ["[a, b]", "", "5", "{model: x}"])
def test_a_configuration_without_one_model_is_a_clear_mistake(data, model):
    file = data.with_name("m.yaml")
    file.write_text(f"model: {model}\n", encoding="utf-8")
    done, _ = infer(data, None, "--model-config", file)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "give a name or one mapping" in done.stderr


def test_a_base_url_beside_a_configuration_is_heeded(data):
    file = data.with_name("m.yaml")
    file.write_text("model: {name: openai, model: m, base_url: 'http://127.0.0.1:9/v1'}\n", encoding="utf-8")
    with openai_server(lambda body, _: completion("A")) as server:
        done, _ = infer(data, server, "--model-config", file, "--set", "parameters.seed=7")
    assert done.returncode == 0, done.stderr
    assert {body["seed"] for body in server.bodies} == {7}


def test_a_claude_name_at_an_address_is_asked_in_anthropics_protocol_and_with_its_key(data):
    with openai_server(lambda body, _: message("A")) as server:
        done, _ = infer(data, server, name="claude-2.0", CLAUDE="claude-key-0123456789")
    assert done.returncode == 0, done.stderr
    assert set(server.paths) == {"POST /v1/messages"}
    assert {headers["X-Api-Key"] for headers in server.headers} == {"claude-key-0123456789"}
    assert SENTINEL not in str(server.headers)


def test_an_alias_shows_the_model_that_is_asked(data):
    with openai_server(lambda body, _: completion("A")) as server:
        done, path = infer(data, server, name="clova-x", CLOVA="clova-key-0123456789")
    assert done.returncode == 0, done.stderr
    assert "clova-x is the model HCX-005" in done.stderr
    assert done.stdout.splitlines()[-1].endswith("clova-x (HCX-005) done")
    notes = path.with_name(f"{path.stem}.notes.jsonl").read_text().splitlines()
    assert {json.loads(line)["model"] for line in notes} == {"HCX-005"}
    assert {body["model"] for body in server.bodies} == {"HCX-005"}


def test_notes_stay_readable_after_a_crash(data):
    with openai_server(lambda body, _: completion("A")) as server:
        _, path = infer(data, server)
        notes = path.with_name(f"{path.stem}.notes.jsonl")
        notes.write_bytes(notes.read_bytes()[:-9])
        path.write_bytes(path.read_bytes()[:-1])
        infer(data, server)
    lines = notes.read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["finish"] == "stop"
    assert len(lines) == 4


def test_a_lone_surrogate_or_a_nul_in_an_answer_breaks_no_file(tmp_path):
    with PredictionsFile(tmp_path / "p.tsv", "t").opened() as predictions:
        predictions.add(InferenceQuestion("g", "A", "p"), "x\ud800\0")
    assert rows(tmp_path / "p.tsv")[1][4] == "x\\ud800\ufffd"


@pytest.mark.parametrize(
    ("name", "environment", "spec"),
    [
        ("gpt-4-0613", {"OPENAI": "k"}, {"name": "openai", "model": "gpt-4-0613"}),
        (
            "gpt-35-turbo-0125-v1",
            {"AZURE_ENDPOINT": "e", "API_KEY": "k"},
            {"name": "azure", "model": "gpt-35-turbo-0125-v1"},
        ),
        ("gpt-4", {"AZURE_ENDPOINT": "e", "OPENAI": "k"}, {"name": "openai", "model": "gpt-4"}),
        ("cluade-instant-1.2", {}, {"name": "claude", "model": "claude-instant-1.2"}),
        ("gpt-4", {"AZURE_OPENAI_ENDPOINT": "e"}, {"name": "azure", "model": "gpt-4"}),
        ("clova-x", {}, {"name": "clova"}),
        ("HCX-007", {}, {"name": "clova", "model": "HCX-007"}),
        ("KoAlpaca-Polyglot-12.8B", {}, {"name": "hf", "model": "beomi/KoAlpaca-Polyglot-12.8B"}),
        ("org/model", {}, {"name": "hf", "model": "org/model"}),
        ("smollm2", {}, {"name": "smollm2"}),
    ],
)
def test_names_of_the_originals_find_their_model(name, environment, spec):
    assert model_spec(name, environment) == spec
