"""A key is in no file, page, export or message, wherever a plug-in, a server or a configuration puts it."""

from __future__ import annotations

import functools
import html
import json
import logging
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import markupsafe
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmassay as lmassay_package
from lmassay import redaction
from lmassay.api import display
from lmassay.errors import PluginError
from lmassay.evaluations.bias.kobbq.samples import parse_choices
from lmassay.interchange.lm_eval import sample_logs
from lmassay.models.hf import folder_errors
from lmassay.plugins.declarations import describe_value
from lmassay.redaction import excerpt, keys_in_addresses, redact, remember_secret, without_keys, written_keys
from lmassay.storage.old_secrets import blank_secrets
from lmassay.storage.store import STORE_FILE, Store
from lmassay.types import Example, NewRun, Provenance, Row, RowBatch, Score
from tests.helpers import lmassay, write_config, write_lines
from tests.servers import completion, openai_server
from tests.storage.old_schemas import downgrade

KEY = "SENTINEL/0a1b2c3d4e5f6a7b"
LONG_KEY = "SENTINEL0a1b2c3d4e5f6a7b"
PROVIDER_KEY = "sk-proj-SENTINELabcdefgh"
ENVIRONMENT = {"MY_API_KEY": KEY}
SENTENCES = [f"sentence {number} goes round the house" for number in range(4)]
# What marks a key in any spelling: escaped, percent-encoded or cut off.
MARK = "SENTINEL"

PLUGIN = """
import logging, warnings
from lmassay.contracts import Model
from lmassay.types import Response


class Leaky(Model):
    name = "leaky"
    can = frozenset({"generate"})

    def __init__(self, api_key: str = "", nested: dict | None = None, place: str = "", url: str = "", label: str = ""):
        self.key = api_key or (nested or {}).get("api_key", "")
        self.place = place
        self.label = label or "leaky"

    def identity(self):
        return {"key": self.key} if self.place == "identity" else {"model": "leaky"}

    def generate(self, requests):
        if self.place == "exception":
            raise RuntimeError(f"bad auth with {self.key}")
        if self.place == "log":
            logging.getLogger("leaky").warning("using %s", self.key)
            warnings.warn(f"using {self.key}")
        for request in requests:
            if self.place == "error":
                yield Response(error=f"denied for {self.key}")
            elif self.place == "answer":
                yield Response(f"my key is {self.key} indeed")
            else:
                yield Response(request.prompt)
"""


def folder_with(tmp_path: Path, model: dict[str, Any]) -> Path:
    (tmp_path / "plugin.py").write_text(PLUGIN, encoding="utf-8")
    write_lines(tmp_path / "src.txt", SENTENCES)
    write_lines(tmp_path / "ref.txt", [f"my key is {KEY} indeed" for _ in SENTENCES])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    return write_config(tmp_path / "c.yaml", {"task": task, "model": model, "resamples": 100})


def everything_printed_and_written(tmp_path: Path, env: dict[str, str]) -> str:
    """Run every command that shows or writes results; return what they print and all files, as one text."""
    results = tmp_path / "results"
    out = tmp_path / "out"
    out.mkdir()
    commands: list[list[object]] = [
        ["ls"],
        ["ls", "--json"],
        ["show", "latest", "--provenance"],
        ["show", "latest", "--json"],
        ["show", "latest", "--yaml"],
        ["report", "-o", out / "page.html"],
        ["export", "latest"],
        ["export", "latest", "--format", "csv", "-o", out / "rows.csv"],
        ["export", "latest", "--format", "lm-eval", "-o", out / "lm-eval"],
        ["export", "latest", "--format", "every-eval-ever", "-o", out / "every"],
    ]
    texts = []
    for command in commands:
        # Without the key in the environment: what is not in the store cannot be shown.
        done = lmassay(*command, "--results", results, env=env)
        assert "Traceback" not in done.stderr, done.stderr
        texts += [done.stdout, done.stderr]
    for folder in (results, out):
        for path in folder.rglob("*"):
            texts.append(str(path.relative_to(tmp_path)))
            if path.is_file():
                texts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(texts)


@pytest.mark.fault(45)
@pytest.mark.parametrize("place", ["error", "answer", "exception", "identity", "log"])
@pytest.mark.parametrize("options", [{"api_key": "${MY_API_KEY}"}, {"nested": {"api_key": "${MY_API_KEY}"}}])
def test_a_plug_in_that_repeats_its_key_leaks_it_nowhere(tmp_path, place, options):
    file = folder_with(tmp_path, {"name": "plugin.py:Leaky", "place": place, **options})
    done = lmassay("run", file, "--results", tmp_path / "results", env=ENVIRONMENT)
    assert "Traceback" not in done.stderr
    assert MARK not in done.stdout + done.stderr
    text = everything_printed_and_written(tmp_path, {})
    assert MARK not in text
    if place in ("error", "answer"):
        assert "[redacted]" in text


def test_an_answer_with_a_key_is_scored_as_the_model_gave_it_and_asked_again_by_the_next_run(tmp_path):
    file = folder_with(tmp_path, {"name": "plugin.py:Leaky", "place": "answer", "api_key": "${MY_API_KEY}"})
    scores = []
    for _ in range(2):
        done = lmassay(
            "run", file, "--set", "task.ref=ref.txt", "--results", tmp_path / "results", "--json", env=ENVIRONMENT
        )
        assert done.returncode == 0, done.stderr
        (run,) = json.loads(done.stdout)["runs"]
        scores.append({result["metric"]: result["value"] for result in run["results"]})
    assert scores[0] == scores[1]
    with Store(tmp_path / "results") as store:
        assert {row.state for row in store.rows(store.run("latest").id)} == {"scored"}
        exchanges = [pairs for _, pairs in store.requests_and_responses(store.run("latest").id)]
    assert all(response.answer == "my key is [redacted] indeed" for pairs in exchanges for _, response in pairs)
    assert all(exchanges)


def test_an_answer_that_merely_looks_like_a_key_is_stored_as_it_is(tmp_path):
    with openai_server(lambda *_: completion("try sk-abcdefgh0123456789")) as server:
        file = folder_with(tmp_path, {"name": "openai", "base_url": server.url, "model": "m"})
        assert lmassay("run", file, "--results", tmp_path / "results").returncode == 0
    exported = lmassay("export", "latest", "--results", tmp_path / "results").stdout
    assert "try sk-abcdefgh0123456789" in exported


@pytest.mark.parametrize("key", [PROVIDER_KEY, LONG_KEY, LONG_KEY.upper(), KEY, "SENTINEL-key"])
def test_a_key_in_place_of_a_variables_name_is_refused_and_not_repeated(tmp_path, key):
    for url in ("http://127.0.0.1:9/v1", ""):
        model = {"name": "openai", "base_url": url, "model": "m", "api_key_env": key}
        file = folder_with(tmp_path, model)
        for command in (["check", file], ["run", file, "--results", tmp_path / "results"]):
            done = lmassay(*command)
            assert done.returncode == 2
            assert "api_key_env: this is not the name of an environment variable" in done.stdout + done.stderr
            assert MARK not in done.stdout + done.stderr
    assert not (tmp_path / "results" / STORE_FILE).exists()


API = {"name": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}


@pytest.mark.parametrize(
    "model",
    [
        {**API, "parameters": {"extra_headers": {"Authorization": f"Bearer {KEY}"}}},
        {**API, "parameters": {"x": {"api_key": KEY}}},
        {**API, "parameters": {"x": [{"y": {"api_key": "SENTINEL"}}]}},
        {**API, "base_url": f"http://127.0.0.1:9/{LONG_KEY}/v1"},
        {**API, "base_url": f"http://127.0.0.1:9/v1#{LONG_KEY}"},
        {**API, "base_url": f"http://127.0.0.1:9/v1?code={LONG_KEY}"},
        {**API, "base_url": f"http://{LONG_KEY}@127.0.0.1:9/v1"},
        {**API, "label": PROVIDER_KEY},
        {"name": "plugin.py:Leaky", "nested": {"api_key": "SENTINEL"}},
        {"name": "plugin.py:Leaky", "nested": {"deeper": {"access_token": "SENTINEL"}}},
        {"name": "plugin.py:Leaky", "nested": {"password": KEY}},
        {"name": "plugin.py:Leaky", "url": f"http://host/{LONG_KEY}/v1"},
        {"name": "plugin.py:Leaky", "url": f"http://host/v1?token={KEY}"},
        {"name": "plugin.py:Leaky", "api_key": [KEY]},
        {"nam": "plugin.py:Leaky", "api_key": KEY},
    ],
)
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(tmp_path, model):
    file = folder_with(tmp_path, model)
    for command in (["check", file], ["run", file, "--results", tmp_path / "results"]):
        done = lmassay(*command)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert MARK not in done.stdout + done.stderr
    assert not (tmp_path / "results" / STORE_FILE).exists()


@pytest.mark.parametrize(
    "override",
    [
        "model.label=${OPENAI_API_KEY}",
        "model.model=${OPENAI_API_KEY}",
        f"model.label={KEY}",
        f"model.model=my {KEY}",
        f"name={KEY}",
    ],
)
def test_a_key_as_a_label_or_name_is_refused(tmp_path, override):
    file = folder_with(tmp_path, API)
    done = lmassay("run", file, "--set", override, "--results", tmp_path / "results", env={"OPENAI_API_KEY": KEY})
    assert done.returncode == 2
    assert MARK not in done.stdout + done.stderr
    assert not (tmp_path / "results" / STORE_FILE).exists()


def test_the_advice_for_a_key_in_an_address_works(tmp_path):
    with openai_server() as server:
        url = server.url.removesuffix("/v1")
        file = folder_with(tmp_path, {**API, "base_url": f"{url}/${{MY_API_KEY}}/v1"})
        done = lmassay("run", file, "--results", tmp_path / "results", env={"MY_API_KEY": LONG_KEY})
    # The server does not know the path; what counts is that the address is used and not shown.
    assert MARK not in done.stdout + done.stderr
    assert MARK not in everything_printed_and_written(tmp_path, {})
    shown = lmassay("show", "latest", "--yaml", "--results", tmp_path / "results")
    assert "/${MY_API_KEY}/v1" in shown.stdout


def test_ordinary_values_from_the_environment_are_shown(tmp_path):
    file = folder_with(tmp_path, {"name": "plugin.py:Leaky", "label": "${MY_LABEL}"})
    done = lmassay("run", file, "--results", tmp_path / "results", env={"MY_LABEL": "release-2026-11"})
    assert done.returncode == 0
    assert "release-2026-11" in lmassay("ls", "--results", tmp_path / "results").stdout


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/openai/deployments/gpt-4o-mini-2024-07-18",
        "https://host/models/meta-llama-3.1-70b-instruct/v1",
        f"https://host/resolve/{'0a' * 20}/model.gguf",
    ],
)
def test_addresses_without_keys_are_accepted(tmp_path, url):
    file = folder_with(tmp_path, {"name": "plugin.py:Leaky", "url": url})
    assert lmassay("check", file).returncode == 0


def test_the_traceback_of_a_bug_has_no_key(tmp_path):
    file = folder_with(tmp_path, {"name": "plugin.py:Leaky", "api_key": "${MY_API_KEY}", "place": "exit"})
    source = f"{PLUGIN}\n    def close(self):\n        raise LookupError(self.key)\n"
    (tmp_path / "plugin.py").write_text(source, encoding="utf-8")
    done = lmassay("run", file, "--results", tmp_path / "results", env=ENVIRONMENT)
    assert "LookupError" in done.stderr
    assert MARK not in done.stdout + done.stderr


@pytest.fixture
def key_in_use(monkeypatch):
    monkeypatch.setattr("lmassay.redaction._in_use", set())
    remember_secret(KEY)


def test_rows_batches_notes_and_results_have_no_key_and_are_not_called_damaged(tmp_path, key_in_use):
    import numpy as np

    with Store(tmp_path, create=True) as store:
        run = store.new_id(f"label {KEY}")
        config = {"task": "t", "text": KEY}
        store.add_run(NewRun(run, "s", KEY, "t", KEY, KEY, config, KEY, Provenance(command=(KEY,)), 2))
        example = Example("0", {"text": KEY}, [KEY], {"group": KEY})
        score = Score({"m": 12345678.0}, unscored={"n": KEY}, details={"answer": {KEY: [KEY]}})
        store.add_rows(run, [(0, Row(example, "error", score, f"denied for {KEY}"))])
        store.add_batch(
            run,
            RowBatch(
                1,
                ["1"],
                {"m": np.array([1.0])},
                {"group": [KEY]},
                {"text": [KEY]},
                references=[{"a": KEY}],
                details={"answer": [KEY], "n": [12345678]},
            ),
        )
        store.set_status(run, "failed", f"denied for {KEY}")
        store.set_signature(run, KEY, {"model": KEY})
        rows = list(store.rows(run))
        assert store.run(run).status == "failed"
        assert store.rows_are_whole(run)
    assert rows[0].score.details == {"answer": {"[redacted]": ["[redacted]"]}}
    assert rows[1].example.inputs == {"text": "[redacted]"}
    assert rows[1].score.details["n"] == 12345678
    with sqlite3.connect(tmp_path / STORE_FILE) as database:
        assert MARK not in "\n".join(database.iterdump())


def test_a_key_of_digits_does_not_break_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("lmassay.redaction._in_use", set())
    remember_secret("12345678")
    with Store(tmp_path, create=True) as store:
        run = store.new_id("x")
        store.add_run(NewRun(run, "s", "", "t", "m", "l", {}, "", Provenance(), 1))
        score = Score({"m": 0.12345678}, details={"n": 12345678})
        row = Row(Example("0", {"text": "12345678"}, None, {}), "scored", score)
        store.add_rows(run, [(0, row)])
        (stored,) = store.rows(run)
    assert stored.score.values == {"m": 0.12345678}
    assert stored.score.details == {"n": 12345678}
    assert stored.example.inputs == {"text": "[redacted]"}


def test_every_spelling_of_a_key_is_blanked(key_in_use):
    key = 'quoted"SENTINEL\\é1'
    remember_secret(key)
    spellings = [key, json.dumps(key), json.dumps(key, ensure_ascii=False), repr(key), quote(KEY), quote(KEY, safe="")]
    for text in spellings:
        assert MARK not in redact(text)
        assert MARK not in without_keys(text)


def test_a_key_is_blanked_out_of_pages_and_forms(key_in_use):
    key = "SENTINEL&<1> '\"한글"
    remember_secret(key)
    for text in (key, json.dumps(key), json.dumps(key, ensure_ascii=False)):
        for written in (str(markupsafe.escape(text)), html.escape(text)):
            assert MARK not in without_keys(f"<td>{written}</td>")
    assert MARK not in without_keys(urlencode({"q": key}))


@pytest.mark.parametrize(
    "text",
    [
        "hf_abcdefghijklmnopqrst",
        "ghp_abcdefghijklmnopqrstuvwxyz012345",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "xoxb-0123456789-abcdef",
    ],
)
def test_keys_of_other_providers_are_blanked_in_messages(text):
    assert redact(f"denied for {text}!") == "denied for [redacted]!"


@pytest.mark.parametrize("around", ["{}\n", "{}\r\n", " {} "])
def test_a_variable_that_ends_in_a_line_break_is_a_key_without_it(monkeypatch, around):
    monkeypatch.setattr(redaction, "_in_use", set())
    monkeypatch.setenv("MY_API_KEY", around.format(KEY))
    assert redact(f"denied for {KEY}!") == "denied for [redacted]!"
    assert written_keys(f"key {KEY}!") == [KEY]
    redaction.remember_environment()
    assert without_keys(f"my key is {KEY}!") == "my key is [redacted]!"


@pytest.mark.parametrize("place", ["error", "answer"])
def test_a_variable_that_ends_in_a_line_break_leaks_nothing_either(tmp_path, monkeypatch, place):
    """Such a variable comes from a file; a plug-in strips it before it uses it."""
    monkeypatch.setattr(redaction, "_in_use", set())
    file = folder_with(tmp_path, {"name": "plugin.py:Leaky", "place": place})
    plugin = tmp_path / "plugin.py"
    own_key = "self.key = __import__('os').environ['MY_API_KEY'].strip()\n        self.place = place"
    plugin.write_text(plugin.read_text(encoding="utf-8").replace("self.place = place", own_key), encoding="utf-8")
    env = {"MY_API_KEY": f"{KEY}\r\n"}
    done = lmassay("run", file, "--results", tmp_path / "results", env=env)
    assert MARK not in done.stdout + done.stderr
    assert MARK not in everything_printed_and_written(tmp_path, {})


@pytest.mark.parametrize("beginning", ["sk-", "hf_", "ghp_", "github_pat_", "glpat-", "xoxb-", "AIza", "AKIA", "eyJ"])
def test_a_key_of_any_provider_is_found_in_a_text_of_a_configuration(beginning):
    key = beginning + {"AKIA": "0" * 16, "eyJ": "00000000.eyJ00000000.0"}.get(beginning, "0" * 30)
    assert redaction.written_keys(f"{'long' * 5000} {key}") == [key]
    assert redaction.written_keys(f"x{key}") == []


def test_logs_of_libraries_have_no_key(key_in_use, capsys):
    from lmassay.cli.console import redact_logs

    redact_logs()
    assert logging.lastResort is not None
    record = logging.LogRecord("library", logging.WARNING, "x.py", 1, "GET http://h/%s", (KEY,), None)
    assert logging.lastResort.format(record) == "GET http://h/[redacted]"


def test_a_server_that_repeats_the_key_in_its_answers_leaks_it_nowhere(tmp_path):
    with openai_server(lambda *_: completion(f"your key is {KEY}")) as server:
        file = folder_with(tmp_path, {**API, "base_url": server.url, "api_key_env": "MY_API_KEY"})
        done = lmassay("run", file, "--results", tmp_path / "results", env=ENVIRONMENT)
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert done.returncode == 0
    assert MARK not in done.stdout + done.stderr
    assert MARK not in everything_printed_and_written(tmp_path, {})


@pytest.fixture
def old_store(tmp_path, monkeypatch):
    """A results folder of a version that stored secrets wherever they were."""
    file = folder_with(tmp_path, {"name": "plugin.py:Leaky", "place": "answer", "api_key": "${MY_API_KEY}"})
    with monkeypatch.context() as earlier:
        for name in ("redact", "redacted_value", "value_without_keys"):
            earlier.setattr(f"lmassay.storage.store.{name}", lambda value: value)
        earlier.setattr("lmassay.storage.single_rows.redact", lambda value: value)
        for name in ("value_without_keys", "without_keys"):
            earlier.setattr(f"lmassay.storage.blanking.{name}", lambda value: value)
        assert lmassay("run", file, "--results", tmp_path / "results", env=ENVIRONMENT).returncode == 0
        failed = ["--set", "model.place=error"]
        assert lmassay("run", file, *failed, "--results", tmp_path / "results", env=ENVIRONMENT).returncode == 1
    assert KEY.encode() in (tmp_path / "results" / STORE_FILE).read_bytes()
    return tmp_path / "results"


def test_doctor_finds_stored_secrets_and_blanks_them_after_a_copy(old_store):
    before = lmassay("ls", "--json", "--results", old_store).stdout
    first_check = lmassay("doctor", "--results", old_store, env=ENVIRONMENT)
    assert first_check.returncode == 1
    assert "contain a secret" in first_check.stdout
    assert "--fix` blanks out the secrets; the original file is kept under another name" in first_check.stderr
    assert KEY.encode() in (old_store / STORE_FILE).read_bytes()

    fixed = lmassay("doctor", "--results", old_store, "--fix", env=ENVIRONMENT)
    assert fixed.returncode == 0, fixed.stdout
    (backup,) = old_store.glob(f"{STORE_FILE}.with-secrets-*")
    assert KEY.encode() in backup.read_bytes()
    backup.unlink()
    for path in old_store.rglob("*"):
        assert not path.is_file() or MARK.encode() not in path.read_bytes(), path
    again = lmassay("doctor", "--results", old_store, env=ENVIRONMENT)
    assert again.returncode == 0
    # Nothing is called damaged, and no number has changed.
    assert lmassay("ls", "--json", "--results", old_store).stdout == before
    with Store(old_store) as store:
        for record in store.runs():
            assert store.rows_are_whole(record.id)
            assert list(store.rows(record.id))


def test_doctor_finds_secrets_that_a_configuration_contains(old_store):
    downgrade(old_store / STORE_FILE, 3)
    with sqlite3.connect(old_store / STORE_FILE) as database:
        config = {
            "task": "t",
            "model": {"name": "x", "nested": {"api_key": "SENTINEL-word"}, "api_key_env": "SENTINEL-2"},
        }
        database.execute("UPDATE runs SET config = ?", (json.dumps(config),))
    assert lmassay("doctor", "--results", old_store, "--fix", env=ENVIRONMENT).returncode == 0
    assert MARK.encode() not in (old_store / STORE_FILE).read_bytes()


def test_blanking_secrets_does_not_hide_damage(old_store):
    with sqlite3.connect(old_store / STORE_FILE) as database:
        database.execute("UPDATE rows SET scores = '{}' WHERE position = 0")
        database.execute("UPDATE runs SET results = replace(results, '0.', '0.1')")
    remember_secret(KEY)
    with Store(old_store) as store:
        blank_secrets(store)
        damaged, _ = store.runs()
        assert damaged.status == "damaged"
        assert not store.rows_are_whole(damaged.id)


def test_doctor_fix_needs_a_folder():
    done = lmassay("doctor", "--fix")
    assert done.returncode == 2
    assert "--results FOLDER --fix" in done.stderr


# --- keys of Python functions -----------------------------------------------------------------------------------------


class Client:
    def __init__(self, api_key: str) -> None:
        self.api_key = api_key

    def __call__(self, prompts: list[str]) -> list[str]:
        return [f"{prompt} {self.api_key}" for prompt in prompts]


def captured(key: str) -> Any:
    def answer(prompts: list[str]) -> list[str]:
        return [f"{prompt} {key}" for prompt in prompts]

    return answer


def failing(token: str) -> Any:
    def answer(prompts: list[str]) -> list[str]:
        raise RuntimeError(f"denied for {token}")

    return answer


def with_default(prompts: list[str], api_key: str = LONG_KEY) -> list[str]:
    return [f"{prompt} {api_key}" for prompt in prompts]


def from_environment(prompts: list[str]) -> list[str]:
    return [f"{prompt} {os.environ['MY_API_KEY']}" for prompt in prompts]


FUNCTIONS = {
    "attribute": Client(LONG_KEY),
    "captured": captured(LONG_KEY),
    "failing": failing(LONG_KEY),
    "default": with_default,
    "partial": functools.partial(with_default, api_key=LONG_KEY),
    "environment": from_environment,
}


@pytest.mark.parametrize("place", FUNCTIONS)
def test_a_key_that_a_function_uses_is_not_stored(tmp_path, monkeypatch, place):
    monkeypatch.setattr(redaction, "_in_use", set())
    monkeypatch.setenv("MY_API_KEY", LONG_KEY if place == "environment" else "")
    task = lmassay_package.task("robustness", src=SENTENCES, attack="charswap")
    try:
        shown = repr(lmassay_package.evaluate(task, FUNCTIONS[place], results=tmp_path / "results"))
    except PluginError as error:
        shown = str(error)
    assert MARK not in shown
    stored = [file.read_bytes() for file in (tmp_path / "results").rglob("*") if file.is_file()]
    assert stored
    assert not [content for content in stored if MARK.encode() in content]


def test_what_follows_a_blanked_key_is_still_shown():
    assert redact('{"message": "Bearer abc.def-0123"}; check it') == '{"message": "Bearer [redacted]"}; check it'


def test_tokens_are_blanked_after_a_hyphen_and_whatever_their_length():
    token = f"eyJ{'a' * 3000}.eyJ{'b' * 3000}.signature"
    assert redact(f"denied: {token}!") == "denied: [redacted]!"
    assert redact("id-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl") == "id-[redacted]"


@pytest.mark.parametrize(
    "key", ["sk-proj-abcdefgh", "AKIAIOSFODNN7EXAMPLE", "hf_abcdefghijklmnopq012", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln0"]
)
def test_keys_are_blanked_between_letters_of_other_scripts(key):
    """In Korean, Japanese and Chinese, words follow each other, and particles follow words, without a space."""
    assert redact(f"열쇠{key}는 틀렸다") == "열쇠[redacted]는 틀렸다"
    assert written_keys(f"鍵{key}は") == [key]


@pytest.mark.parametrize(
    "key", ["sk-proj-abcdefgh", "AKIAIOSFODNN7EXAMPLE", "hf_abcdefghijklmnopq012", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln0"]
)
@pytest.mark.parametrize("before", ["\n", "\t", "\r\n", "\x07", "\u2028", "\U000e0001"])
@pytest.mark.parametrize("written", [repr, ascii, json.dumps, quote])
def test_a_key_is_blanked_after_a_character_that_is_written_as_an_escape_sequence(key, before, written):
    """Messages show values as Python or JSON writes them: then the line break before a key ends in the letter n."""
    assert redact(written(f"see{before}{key}.")) == written(f"see{before}KEY.").replace("KEY", "[redacted]")


@pytest.mark.parametrize("colour", ["\x1b[31m", "\x1b[0m", "\x1b[1;31m", "\x1b[38;5;196m", r"\u001b[31m"])
def test_a_key_is_blanked_after_a_colour_of_the_terminal(colour):
    assert redact(f"{colour}{PROVIDER_KEY}") == f"{colour}[redacted]"


def test_a_key_after_an_escaped_quotation_mark_is_blanked():
    assert redact(rf"\u0022{PROVIDER_KEY}\u0022 and %22{PROVIDER_KEY}%22") == (
        r"\u0022[redacted]\u0022 and %22[redacted]%22"
    )


def test_a_key_on_a_line_of_its_own_is_not_shown_by_check(tmp_path):
    file = folder_with(tmp_path, {"name": "echo"})
    done = lmassay("check", file, "--set", f'task.max_tokens="see\\n{PROVIDER_KEY}"')
    assert done.returncode == 2
    assert MARK not in done.stdout + done.stderr


@given(st.lists(st.sampled_from(["eyJ", "eyJaaaaaaaa", ".eyJbbbbbbbb", ".", "-", "_", "1", " "])).map("".join))
def test_web_tokens_are_found_as_by_a_search_from_each_letter(text):
    slow = re.compile(r"\beyJ[\w\-]{8,}\.eyJ[\w\-]{8,}\.[\w\-]+")
    assert redact(text) == slow.sub("[redacted]", text)
    assert written_keys(text) == slow.findall(text)


def test_a_long_word_in_a_configuration_does_not_stop_the_search_for_keys():
    """Hours, if the rest of the word were searched at each of its letters; the limit is only there to end the test."""
    program = (
        "from lmassay.redaction import remember_variable, written_keys\n"
        "for word in ('a' * 1_000_000, 'A' * 1_000_000, '%41' * 300_000, 'a-' * 500_000, '-eyJaaaaaaaa' * 100_000,\n"
        "             'sk-' * 300_000, 'a-eyJ.' * 200_000):\n"
        "    assert written_keys(f'http://host/{word}?q={word}') == []\n"
        "    remember_variable('label', 'LABEL', word)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=120, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("part", "is_key"),
    [
        ("0a1b2c3d4e5f6a7b", True),
        ("abcdefghijklmnopqrstuvwxyz", False),
        ("1234567890", True),
        ("123456789", False),
        ("a-name-with-2024-and-words", False),
        ("da39a3ee5e6b4b0d3255bfef95601890afd80709", False),
    ],
)
def test_a_part_of_an_address_is_a_key_if_letters_and_digits_are_mixed(part, is_key):
    assert bool(keys_in_addresses(f"http://host/{part}/v1")) == is_key


# 10 characters of the key come before the cut.
@pytest.mark.parametrize("length", [40, 60, 80, 200])
def test_half_of_a_key_is_not_shown_at_the_end_of_an_excerpt(key_in_use, length):
    assert MARK not in excerpt("x" * (length - 10) + KEY, length)
    assert excerpt("x" * 1000, length) == "x" * length


def test_half_of_a_key_is_not_shown_after_many_long_keys(monkeypatch):
    """Blanked keys make a text shorter, so its end comes into view."""
    monkeypatch.setattr(redaction, "_in_use", {MARK * 800})
    for length in (40, 300, 10_000):
        assert MARK not in excerpt(f"{MARK * 800} " * 200, length)


def test_half_of_a_key_is_not_shown_at_the_end_of_a_plug_ins_value(key_in_use):
    assert MARK not in describe_value("x" * 65 + KEY)


# 10 characters of the key come before the cut of each.
CUT_TEXTS: dict[str, tuple[int, Callable[[str], object]]] = {
    "a cell in a notebook": (400, lambda text: display.table(["column"], [[text]], "t")),
    "a list of choices": (77, lambda text: caught_message(parse_choices, text)),
    "an error of a model folder": (300, lambda text: folder_errors.first_line(ValueError(text))),
    "a value in a log": (10, sample_logs.shortened),
    "a nested value in a log": (10, lambda text: sample_logs.shortened({"a": [text]})),
}


def caught_message(function: Callable[[str], object], text: str) -> str:
    with pytest.raises(ValueError, match="not a list") as caught:
        function(text)
    return str(caught.value)


@pytest.mark.parametrize("place", CUT_TEXTS)
def test_half_of_a_key_is_not_shown_where_a_text_is_cut(key_in_use, place):
    length, shown = CUT_TEXTS[place]
    assert MARK not in str(shown("x" * (length - 10) + KEY + "x" * 30))
    assert "xx" in str(shown("x" * 1000))


def test_no_message_cuts_a_text_before_keys_are_blanked_out_of_it():
    """``{text[:40]}`` in a message would show half of a key, which nobody recognises later."""
    source = Path(lmassay_package.__file__).parent
    # A part of a digest is no secret, and a list is cut between its texts.
    cut_in_message = re.compile(
        r"\{(?![^{}]*(?:digest|sha256|revision|redact|join\(\w+\[))[^{}]*\[: ?(?:\w+\] ?!r|[1-9]\d+\])\}"
    )
    found = []
    for file in source.rglob("*.py"):
        found += [f"{file.name}: {cut}" for cut in cut_in_message.findall(file.read_text(encoding="utf-8"))]
    assert found == []


def test_what_a_function_returned_is_shown_without_half_of_a_key(tmp_path, monkeypatch):
    monkeypatch.setattr(redaction, "_in_use", set())
    monkeypatch.setenv("MY_API_KEY", KEY)

    def repeats_its_key(requests: list[Any]) -> str:
        return f"{'x' * 50}{KEY}"

    task = lmassay_package.task("robustness", src=SENTENCES, attack={"name": "charswap", "rate": 1})
    with pytest.raises(PluginError) as caught:
        lmassay_package.evaluate(task, repeats_its_key, tmp_path)
    assert MARK not in str(caught.value)
    assert MARK not in (tmp_path / STORE_FILE).read_bytes().decode("utf-8", "replace")
