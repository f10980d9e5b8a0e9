"""Answers that no sane server sends: deep, huge, compressed twice, with odd numbers, half characters and escapes."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.contracts import ask
from lmassay.errors import ModelError
from lmassay.models.api.blanks import CompletionsBlanks
from lmassay.models.api.claude import Claude
from lmassay.models.api.client import MAX_BODY
from lmassay.models.api.dialects import ClaudeDialect, OpenAIDialect
from lmassay.models.api.failures import read_json
from lmassay.models.api.llama_cpp import LlamaCppPrefix, LlamaCppScorer
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.models.api.scoring import ServerSettings, TextPrefix, read_echo, read_prompt_logprobs
from lmassay.types import Generate, LogProbs, Slot
from tests.helpers import lmassay, write_config, write_lines
from tests.servers import JSON, completion, message, openai_server, prompt_of

DEPTHS = [99, 101, 500, 900, *range(970, 1000), 5_000, 100_000]
HUGE = b"9" * 5_000
LONE = "\ud800"
POLICY = {"tries": 2, "wait": 0.005, "timeout": 5.0}


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def answers_of(model, replies, whole):
    """The responses to one question per reply, after a good one; the last question has a good answer, too."""
    by_prompt = {f"bad {number}": reply for number, reply in enumerate(replies)}
    prompts = ["good", *by_prompt, "last"]
    with openai_server(lambda body, _: by_prompt.get(prompt_of(body), whole("ok"))) as server:
        responses = dict(ask(model(server), "generate", [Generate(prompt) for prompt in prompts]))
    assert (responses[0].text, responses[len(prompts) - 1].text) == ("ok", "ok")
    return [responses[number + 1] for number in range(len(replies))]


def openai(server, **options):
    return OpenAICompatible("m", base_url=server.url, **POLICY, **options)


def openai_completions(server):
    return openai(server, api="completions")


def claude(server):
    return Claude("m", base_url=server.root, **POLICY)


def text_completion(text):
    return 200, JSON, json.dumps({"choices": [{"text": text, "finish_reason": "stop"}]}).encode()


DIALECTS = pytest.mark.parametrize(
    ("model", "whole"), [(openai, completion), (openai_completions, text_completion), (claude, message)]
)


# --- depth, size, numbers ---------------------------------------------------------------------------------------------


@DIALECTS
@pytest.mark.parametrize(
    "body",
    [b'{"error":{"message":%s}}', b'{"choices":%s,"content":%s}', b'{"choices":[{"message":{"content":%s}}]}', b"%s"],
)
def test_json_of_any_depth_costs_one_answer_and_not_the_run(model, whole, body):
    replies = [(200, JSON, body.replace(b"%s", nested(depth))) for depth in DEPTHS]
    for response in answers_of(model, replies, whole):
        assert response.error is not None
        assert "the server's answer" in response.error


@DIALECTS
@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"NaN", b"-0", HUGE, b"-" + HUGE, b"1" + b"0" * 4_000 + b".5"])
def test_odd_numbers_as_counts_of_tokens_are_ignored(model, whole, number):
    usage = b'"usage":{"prompt_tokens":%s,"completion_tokens":%s,"input_tokens":%s,"output_tokens":%s}'
    reply = whole("fine")[2][:-1] + b"," + usage.replace(b"%s", number) + b"}"
    (response,) = answers_of(model, [(200, JSON, reply)], whole)
    assert response.text == "fine"
    assert response.tokens_in in (None, 0)


def test_the_last_of_two_equal_keys_counts():
    body = b'{"choices":[{"message":{"content":"first","content":"second"},"finish_reason":"stop"}]}'
    (response,) = answers_of(openai, [(200, JSON, body)], completion)
    assert response.text == "second"


def test_a_constrained_answer_of_any_depth_is_a_text():
    text = '{"answer":' + "[" * 100_000
    reply = completion(text)
    with openai_server(lambda *_: reply) as server:
        model = openai(server, constrain="json_schema")
        ((_, response),) = ask(model, "generate", [Generate("x", choices=("A", "B"))])
    assert response.text == text


def test_an_answer_of_100_mb_takes_bounded_memory():
    reply = (200, JSON, b" " * (100 << 20))
    tracemalloc.start()
    try:
        (response,) = answers_of(openai, [reply], completion)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "larger than 16 MiB" in response.error
    assert peak < 4 * MAX_BODY


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_body_that_is_compressed_several_times_takes_bounded_memory(times):
    content = b" " * (200 << 20)
    for _ in range(times):
        content = gzip.compress(content, compresslevel=9 if times > 1 else 1)
    encoding = ", ".join(["gzip"] * times)
    tracemalloc.start()
    try:
        (response,) = answers_of(openai, [(200, {"Content-Encoding": encoding}, content)], completion)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "larger than 16 MiB" in response.error or "which was not requested" in response.error
    assert peak < 4 * MAX_BODY


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "compress", "x\x1b[2J"])
def test_a_compression_that_was_not_requested_is_refused(encoding):
    (response,) = answers_of(openai, [(200, {"Content-Encoding": encoding}, b"x" * 100)], completion)
    assert response.error is not None


def test_a_compressed_answer_is_read():
    content = gzip.compress(completion("한글")[2])
    (response,) = answers_of(openai, [(200, {"Content-Encoding": "gzip"}, content)], completion)
    assert response.text == "한글"


# --- every reader takes any JSON --------------------------------------------------------------------------------------

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**299, -(10**299), 1 << 63, float("inf"), float("-inf"), float("nan"), -0.0, 1e308, 10**12]),
    st.text(max_size=3),
    st.sampled_from([LONE, "\x1b[2J", "token_id:" + "9" * 5_000]),
    st.sampled_from([[], {}, [[]], [None], {"a": 1}]),
)


def with_one_change(document, path, value, is_removed):
    """A copy of a document in which one value is replaced or removed."""
    copied = json.loads(json.dumps(document))
    places = list(_places(copied))
    container, key = places[path % len(places)]
    if is_removed:
        del container[key]
    else:
        container[key] = value
    return copied


def _places(value):
    items = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, inner in items:
        yield value, key
        yield from _places(inner)


CHAT = json.loads(completion("a")[2])
MESSAGE = json.loads(message("a")[2])
ECHO = {
    "choices": [{"logprobs": {"tokens": ["a", "b"], "token_logprobs": [None, -1.0], "top_logprobs": [{"b": -1.0}]}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}
PROMPT_LOGPROBS = {
    "choices": [{"prompt_logprobs": [None, {"7": {"logprob": -1.0, "decoded_token": "b"}}]}],
    "usage": {"prompt_tokens": 2, "completion_tokens": 1},
}
CHANGES = {"path": st.integers(0, 30), "value": ODD, "is_removed": st.booleans()}


@given(**CHANGES)
def test_answers_with_a_wrong_value_are_read_or_refused(path, value, is_removed):
    request = Generate("x", stop=("\n",))
    readers = (
        (CHAT, lambda data: OpenAIDialect("m").read(request, data, None)),
        (CHAT, lambda data: OpenAIDialect("m", "completions").read(request, data, None)),
        (MESSAGE, lambda data: ClaudeDialect("m").read(request, data, None)),
        (ECHO, lambda data: read_echo("a", data)),
        (PROMPT_LOGPROBS, lambda data: read_prompt_logprobs("ab", data)),
    )
    for document, read in readers:
        try:
            read(with_one_change(document, path, value, is_removed))
        except ModelError as error:
            assert len(str(error)) < 500


TOKENS = {"tokens": [{"id": 1, "piece": " the"}], "prompt": "x"}
LLAMA = {
    "completion_probabilities": [
        {"id": 1, "logprob": -0.5, "top_logprobs": [{"id": 1, "bytes": [32, 116, 104, 101], "logprob": 0.0}]}
    ],
    "tokens_evaluated": 1,
}
VLLM_NEXT = {
    "choices": [{"logprobs": {"top_logprobs": [{"token_id:1": 0.0}]}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}


@given(in_tokens=st.booleans(), **CHANGES)
def test_probabilities_with_a_wrong_value_are_read_or_refused(in_tokens, path, value, is_removed):
    async def post(url, body):
        if url == "/tokenize":
            document = TOKENS if "content" in body else {"tokens": [1]}
        else:
            document = LLAMA if url == "/completion" else VLLM_NEXT
        if (url == "/tokenize") == in_tokens:
            return with_one_change(document, path, value, is_removed)
        return document

    settings = ServerSettings("m")
    llama = LlamaCppScorer(post, settings, LlamaCppPrefix((1,), (1,), "own"))
    blanks = CompletionsBlanks(post, post, settings, "echo", TextPrefix(), vocabulary_size=1)
    for scorer in (llama, blanks):
        for request, score in (
            (LogProbs(" the", ""), scorer.logprobs),
            (Slot("", " x", candidates=("the",), ranked=True), scorer.slot),
        ):
            try:
                asyncio.run(score(request))
            except ModelError as error:
                assert len(str(error)) < 500


@given(st.binary(max_size=40))
def test_any_bytes_are_json_or_refused(raw):
    for body in (raw, b"[" + raw + b"]", b'{"a":' + raw + b"}", b'"' + raw + b'"'):
        try:
            json.dumps(read_json(body))
        except ModelError as error:
            assert len(str(error)) < 500


# --- through every command --------------------------------------------------------------------------------------------

HOSTILE = [
    LONE,
    f"half {LONE} a pair",
    "\x1b[2J\x1b]0;title\x07gone",
    "\x9b31mred\x85",
    "\u202eright to left",
    "=1+1",
    "NUL\x00here",
    "a\r\nb\tc\vd\x1ce\u2028f",
    "</script><script>alert(1)</script>",
    "| cell | `code` \\",
]
TERMINAL_CONTROLS = set(map(chr, [*range(9), *range(0xB, 0x20), *range(0x7F, 0xA0)])) | set("\u202a\u202e\u2066")


def printable(text: str) -> bool:
    return not TERMINAL_CONTROLS & set(text)


@pytest.fixture(scope="module")
def hostile_results(tmp_path_factory):
    """A results folder whose answers, inputs and labels have escapes and half characters."""
    folder = tmp_path_factory.mktemp("hostile")
    write_lines(folder / "src.txt", [f"sentence {number} \x1b[31m" for number in range(len(HOSTILE))])
    write_lines(folder / "ref.txt", ["reference"] * len(HOSTILE))
    answers = {f"sentence {number} \x1b[31m": text for number, text in enumerate(HOSTILE)}

    def answer(body, _):
        return completion(answers.get(prompt_of(body), LONE + prompt_of(body)))

    task = {"name": "robustness", "src": "src.txt", "ref": "ref.txt", "attack": "charswap"}
    with openai_server(answer) as server:
        for name in ("a", "b"):
            model = {"name": "openai", "base_url": server.url, "model": f"m\x1b[5m{name}", "label": f"l\x1b[5m{name}"}
            config = {"task": task, "model": model, "resamples": 100, "name": "=run\x9b2J"}
            path = write_config(folder / f"{name}.yaml", config)
            done = lmassay("run", path, "--results", folder / "results")
            assert done.returncode == 0, done.stderr
            assert printable(done.stdout), done.stdout
            assert printable(done.stderr), done.stderr
    return folder / "results"


COMMANDS = [
    ("ls",),
    ("show", "latest"),
    ("show", "latest", "--yaml"),
    ("show", "latest", "--json"),
    ("report", "--format", "csv"),
    ("report", "--format", "md"),
    ("report", "--format", "tex"),
    ("export", "latest", "--format", "csv"),
    ("doctor",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_commands_print_has_no_terminal_controls(hostile_results, tmp_path, command):
    # Reports are written into the working folder.
    done = lmassay(*command, "--results", hostile_results, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert printable(done.stdout), [c for c in TERMINAL_CONTROLS if c in done.stdout]
    assert printable(done.stderr)


@pytest.mark.parametrize("name", ["report.html", "report.md", "report.tex", "report.csv"])
def test_reports_of_half_characters_are_utf_8_without_controls(hostile_results, tmp_path, name):
    file = tmp_path / name
    done = lmassay("report", "-o", file, "--results", hostile_results)
    assert done.returncode == 0, done.stderr
    assert printable(file.read_text(encoding="utf-8"))


@pytest.mark.fault(47)
def test_cells_of_a_csv_export_have_no_controls_and_no_formulas(hostile_results, tmp_path):
    file = tmp_path / "rows.csv"
    done = lmassay("export", "latest", "--format", "csv", "-o", file, "--results", hostile_results)
    assert done.returncode == 0, done.stderr
    text = file.read_bytes().decode("utf-8")
    assert printable(text)
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(HOSTILE)
    for row in rows:
        assert not [cell for cell in row.values() if cell and cell.startswith(("=", "@", "\t", "\r"))]


def test_an_export_as_json_lines_has_the_answers_as_they_were(hostile_results, tmp_path):
    file = tmp_path / "rows.jsonl"
    done = lmassay("export", "latest", "-o", file, "--results", hostile_results)
    assert done.returncode == 0, done.stderr
    text = file.read_text(encoding="utf-8")
    assert printable(text)
    rows = [json.loads(line) for line in text.split("\n") if line]
    assert [row["details"]["out"] for row in rows] == HOSTILE


def test_a_comparison_of_hostile_answers_is_a_page_without_controls(hostile_results, tmp_path):
    done = lmassay("ls", "--json", "--results", hostile_results)
    ids = [run["run"] for run in json.loads(done.stdout)["runs"]]
    page = tmp_path / "compare.html"
    done = lmassay("compare", *ids, "-o", page, "--results", hostile_results)
    assert done.returncode == 0, done.stderr
    assert printable(done.stdout + done.stderr + page.read_text(encoding="utf-8"))


# --- half characters in what a model is asked -------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gpt2", "bert", "t5"])
def test_a_local_model_is_not_asked_about_half_a_surrogate_pair(family, tmp_path):
    pytest.importorskip("torch", reason="the hf extra is not installed")
    from lmassay.models.hf.model import HuggingFace
    from tests.models.hf import translators
    from tests.tiny_models import save_model

    folder = translators.save(family, tmp_path / "m") if family == "t5" else save_model(tmp_path / "m", family)
    model = HuggingFace(str(folder))
    requests = {
        "generate": [Generate(LONE, max_tokens=2), Generate("the cat", max_tokens=2)],
        "logprobs": [LogProbs("the", LONE), LogProbs(LONE, " cat"), LogProbs("the", " cat")],
        "slot": [Slot("the ", " sat", (LONE, "cat")), Slot(LONE, " sat", ("cat",)), Slot("the ", " sat", ("cat",))],
    }
    asked = [verb for verb in requests if verb in model.can]
    assert asked
    for verb in asked:
        *halves, last = (response for _, response in sorted(ask(model, verb, requests[verb])))
        assert {(half.finish, half.answer, half.error) for half in halves} == {("not_text", None, None)}
        assert last.error is None
