"""Signatures are one line, secrets stay out."""

import importlib
import sys

from lmassay.redaction import redact
from lmassay.storage.provenance import signature, snapshot, source_digest, versions


def test_a_signature_is_one_line_without_blanks():
    assert signature({"a": 1.50, "b": "two words\nand more", "c": None}) == "a:1.5|b:two_words_and_more"


def test_versions_name_what_can_change_a_number():
    assert {"lmassay", "python", "numpy", "sacrebleu"} <= set(versions())


def test_values_of_secret_variables_and_keys_by_their_shape_are_blanked_out(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "not-a-usual-shape-1")
    monkeypatch.setenv("HARMLESS", "plain-value-here")
    text = redact("a not-a-usual-shape-1 b sk-abcdefgh12345 c Bearer xyz.abc d plain-value-here")
    assert text == "a [redacted] b [redacted] c Bearer [redacted] d plain-value-here"


def test_the_keys_of_kobbqs_own_programs_are_known_by_their_names(monkeypatch):
    for name in ("CLAUDE", "OPENAI", "CLOVA"):
        monkeypatch.setenv(name, f"value-of-{name}")
    monkeypatch.setenv("OPENAI_ORG", "no-secret-at-all")
    text = redact("value-of-CLAUDE value-of-OPENAI value-of-CLOVA no-secret-at-all")
    assert text == "[redacted] [redacted] [redacted] no-secret-at-all"


def test_a_key_on_the_command_line_is_not_kept(monkeypatch):
    monkeypatch.setattr("sys.argv", ["lmassay", "run", "--set", "model.x=sk-abcdefgh12345"])
    assert "sk-abc" not in str(snapshot())


def test_the_arguments_of_a_python_program_are_not_taken_for_a_command_of_lmassay(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/home/me/kernel_launcher.py", "-f", "kernel.json"])
    assert snapshot().command == ()
    monkeypatch.setattr("sys.argv", ["/usr/lib/lmassay/__main__.py", "run", "a.yaml"])
    assert snapshot().command == ("run", "a.yaml")


def test_the_digest_of_a_source_changes_with_the_source():
    def one():
        return 1

    def two():
        return 2

    assert source_digest(one) != source_digest(two)
    assert source_digest(len) == "src:unknown"


def test_a_key_in_an_address_is_blanked_out_too():
    from lmassay.redaction import redact, remember_secret

    remember_secret("my/secret+key==")
    assert redact("see https://x/?k=my%2Fsecret%2Bkey%3D%3D or my/secret+key==") == (
        "see https://x/?k=[redacted] or [redacted]"
    )


def test_the_digest_of_a_class_follows_its_file(tmp_path, monkeypatch):
    file = tmp_path / "of_a_user.py"
    file.write_text("class Mine:\n    number = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("of_a_user")
    monkeypatch.setitem(sys.modules, "of_a_user", module)
    first = source_digest(module.Mine)
    assert source_digest(module.Mine) == first
    file.write_text("class Mine:\n    number = 1_000\n", encoding="utf-8")
    assert source_digest(module.Mine) != first
    file.unlink()
    assert source_digest(module.Mine) == "src:unknown"
