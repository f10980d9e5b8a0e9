"""Checklist 49 and item 3 of the faults: damaged or newer model folders are one line, in ``check`` and in ``run``."""

from __future__ import annotations

import ast
import json
import random
from pathlib import Path
from typing import Any

import pytest

import lmassay as lmassay_package
from tests.fuzzing import model_folders
from tests.fuzzing.model_folders import Truth
from tests.helpers import lmassay, write_lines


def setup_module() -> None:
    """Import transformers when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("transformers", reason="needs lmassay[hf]")


IN_PROCESS = 25


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return model_folders.build(tmp_path_factory.mktemp("models"))


def command(folder: Path, *arguments: str) -> Any:
    done = lmassay(*arguments, cwd=folder, env={"LMASSAY_CACHE": str(folder / "cache")})
    assert "Traceback" not in done.stderr, done.stderr
    return done


def change(file: Path, **values: Any) -> None:
    document = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**document, **values}), encoding="utf-8")


@pytest.mark.parametrize("seed", range(IN_PROCESS))
def test_no_random_damage_ends_in_a_traceback(truth, tmp_path, seed):
    rng = random.Random(seed)
    folder = model_folders.copy_of(rng.choice(model_folders.KINDS), truth, tmp_path / "copy")
    description = model_folders.damage(folder, rng)
    failures = model_folders.check(folder, truth)
    assert not failures, f"{description}: {failures}"


def test_a_newer_tokenizer_is_named_with_the_command_that_helps(truth, tmp_path):
    folder = model_folders.copy_of("causal", truth, tmp_path / "copy")
    change(folder / "model" / "tokenizer.json", post_processor={"type": "FromTheFuture"})
    done = command(folder, "check", "c.yaml")
    assert done.returncode == 2
    assert "tokenizer.json was probably written by a newer version of tokenizers" in done.stderr
    assert "pip install -U tokenizers" in done.stderr


def test_a_model_of_a_newer_transformers_is_named_with_the_command_that_helps(truth, tmp_path):
    folder = model_folders.copy_of("causal", truth, tmp_path / "copy")
    change(folder / "model" / "config.json", transformers_version="99.0.0", num_attention_heads="four")
    done = command(folder, "run", "c.yaml", "--results", "results")
    assert done.returncode == 2
    assert "saved by transformers 99.0.0" in done.stderr
    assert "pip install -U transformers" in done.stderr


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "generation_config.json"])
def test_a_file_that_is_not_json_is_named(truth, tmp_path, name):
    folder = model_folders.copy_of("causal", truth, tmp_path / "copy")
    (folder / "model" / name).write_bytes(b"{\xff")
    done = command(folder, "check", "c.yaml")
    assert done.returncode == 2
    assert f"{name} is not UTF-8" in done.stderr


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "did not end after"),
        ("{% for i in range(10**12) %}x{% endfor %}", "huge number"),
        (
            "{% set x = namespace(s='a' * 9999) %}{% for i in range(60) %}{% set x.s = x.s ~ x.s %}{% endfor %}",
            "needs more than 1,024 MB of memory",
        ),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    ],
)
def test_a_chat_template_that_never_ends_is_stopped(truth, tmp_path, monkeypatch, template, reason):
    # Copying a gigabyte takes seconds on a slow machine, so only the endless loop is stopped by the clock.
    seconds = 0.3 if reason == "did not end after" else 120.0
    monkeypatch.setattr("lmassay.models.hf.chat._MAX_SECONDS", seconds)
    folder = model_folders.copy_of("causal", truth, tmp_path / "copy")
    assert (folder / "model" / "chat_template.jinja").is_file()
    (folder / "model" / "chat_template.jinja").write_text(template, encoding="utf-8")
    done = command(folder, "run", "c.yaml", "--results", "results")
    assert done.returncode in (1, 2)
    assert "chat template" in done.stderr + done.stdout
    assert reason in done.stderr + done.stdout


def test_check_refuses_a_window_that_is_too_small_for_every_example(truth, tmp_path):
    folder = model_folders.copy_of("masked", truth, tmp_path / "copy")
    long = "The author laughs near the pilot and " * 40
    pairs = [{"sentence_good": f"{long} {n} is", "sentence_bad": f"{long} {n} are", "UID": "x"} for n in range(3)]
    write_lines(folder / "pairs.jsonl", [json.dumps(pair) for pair in pairs])
    done = command(folder, "check", "c.yaml")
    assert done.returncode == 2
    assert "no example of pairs can be scored: model reads at most 64 tokens" in done.stderr
    pairs[2] = {"sentence_good": "The author laughs.", "sentence_bad": "The author laugh.", "UID": "x"}
    write_lines(folder / "pairs.jsonl", [json.dumps(pair) for pair in pairs])
    assert command(folder, "check", "c.yaml").returncode == 0


def test_check_refuses_weights_without_a_language_model_head(truth, tmp_path):
    from transformers import AutoModel

    folder = model_folders.copy_of("masked", truth, tmp_path / "copy")
    AutoModel.from_pretrained(folder / "model").save_pretrained(folder / "model")
    done = command(folder, "check", "c.yaml")
    assert done.returncode == 2
    assert "use a checkpoint with its language-model head" in done.stderr


def test_49_check_refuses_remote_code(truth, tmp_path):
    folder = model_folders.copy_of("causal", truth, tmp_path / "copy")
    change(folder / "model" / "config.json", model_type="own", auto_map={"AutoConfig": "code.Config"})
    (folder / "model" / "code.py").write_text("raise SystemExit('ran')", encoding="utf-8")
    done = command(folder, "check", "c.yaml")
    assert done.returncode == 2
    assert "trust_remote_code: true" in done.stderr


@pytest.mark.parametrize("kind", ["causal", "masked"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json"])
def test_json_that_is_nested_too_deeply_is_not_a_traceback(truth, tmp_path, kind, name):
    folder = model_folders.copy_of(kind, truth, tmp_path / "copy")
    (folder / "model" / name).write_text("[" * 100_000, encoding="utf-8")
    done = command(folder, "check", "c.yaml")
    assert done.returncode == 2
    assert name in done.stderr


def test_every_reader_of_json_expects_deep_nesting():
    """``json.loads`` raises a RecursionError for it, which is not a ValueError."""
    forgotten = []
    for file in sorted(Path(lmassay_package.__file__).parent.rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.Try) or "json.loads(" not in "".join(map(ast.unparse, function.body)):
                continue
            caught = " ".join(ast.unparse(handler.type) for handler in function.handlers if handler.type is not None)
            # One function leaves it to its caller.
            if file.name != "failures.py" and "ValueError" in caught and "RecursionError" not in caught:
                forgotten.append(f"{file.name}, line {function.lineno}: {caught}")
    assert forgotten == []
