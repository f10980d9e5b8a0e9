"""The pages that the command line is described on say what it says."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys

import pytest

from lmassay.cli import exit as process_exit
from tests.helpers import ROOT
from tests.source_texts import source_texts, texts_in

FAQ = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
GAP = "…"


def _quoted() -> list[str]:
    """The messages in the headings of the FAQ. A heading may have several."""
    messages = []
    for heading in re.findall(r"^### `(.*)`$", FAQ, flags=re.MULTILINE):
        messages += heading.split("`, `")
    return messages


QUOTED = _quoted()


@pytest.fixture(scope="module")
def texts():
    """Every text that the source can say, with a gap for what is filled in."""
    return [text.filled(GAP) for texts_of_file in source_texts().values() for text in texts_of_file]


def test_what_only_a_docstring_says_is_no_message():
    source = '"""of a module"""\ndef f(x):\n    """of a function"""\n    raise ValueError(f"the {x} is " "gone")\n'
    said = [text.filled(GAP) for text in texts_in(source)]
    assert "the … is gone" in said
    assert not [text for text in said if text.startswith("of a")]


def test_there_are_many_messages():
    assert len(QUOTED) > 30


@pytest.mark.parametrize("message", QUOTED)
def test_every_message_in_the_faq_is_one_of_the_source(message, texts):
    pattern = re.compile(".*".join(map(re.escape, message.split(GAP))), flags=re.DOTALL)
    words = re.sub(r"[^a-z]", "", message.lower())
    assert len(words) > 8, "a message must be recognisable"
    assert any(pattern.search(text) or _begins(message, text) for text in texts), message


def _begins(message: str, text: str) -> bool:
    """Whether a message begins with this text of the source, if the gaps of the text are filled in.

    A part of a message may come from another text, and a command may follow.
    """
    parts = text.split(GAP)
    if message.endswith(GAP):
        # What follows the last gap is left out in the message.
        parts = parts[:-1] or parts
    if not message.startswith(parts[0]) or not all(part in message for part in parts):
        # Most texts are ruled out here; compiling a pattern takes a hundred times longer.
        return False
    if max(len(re.sub(r"[^a-z]", "", part.lower())) for part in parts) <= 20:
        # Without a recognisable part, a text fits any message.
        return False
    return re.match(".+?".join(map(re.escape, parts)), message) is not None


def test_a_message_may_have_parts_from_several_texts():
    text = "the cup has …, so the work is waiting; start: … (or stop)"
    assert _begins("the cup has no tea left, so the work is waiting; start: …", text)
    assert not _begins("the cup has no tea left, so we wait", text)
    assert not _begins("the cup has no tea left", "the … has …")


def test_the_exit_codes_of_the_faq_are_those_of_the_help():
    codes_of_faq = {int(code) for code in re.findall(r"^\| (\d+) \|", FAQ, flags=re.MULTILINE)}
    assert codes_of_faq == {
        process_exit.DONE,
        process_exit.INCOMPLETE,
        process_exit.USER_ERROR,
        process_exit.INTERRUPTED,
        process_exit.TERMINATED,
    }


def test_a_gate_that_cannot_be_decided_is_among_the_exit_codes():
    """It has done its comparison, so nobody may say that nothing was done."""
    (row,) = re.findall(r"^\| 2 \| (.*) \|$", FAQ, flags=re.MULTILINE)
    for text in (row, process_exit.EXIT_CODES_HELP):
        assert "cannot be decided" in " ".join(text.split())
        assert "nothing was done" not in text


def test_the_page_of_commands_is_what_help_prints():
    """In a process of its own: what other tests did to the commands has no say in it, nor has the terminal's width."""
    # Releases of click word the usage of a group differently; the page shows it as the pinned one does.
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if f"click=={importlib.metadata.version('click')}" not in pins:
        pytest.skip("docs/commands.md shows the help of the click in constraints.txt; another one is installed")
    script = [sys.executable, ROOT / "docs" / "generate_commands.py", "--check"]
    done = subprocess.run(script, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    current = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for verb in ("card", "init", "import", "view", "completion", "kobbq expand", "models get"):
        assert f"# lmassay {verb}\n" in current
