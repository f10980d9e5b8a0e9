"""The tests of the pages can fail: each kind of mistake in a page is found."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from tests.docs.blocks import blocks_of
from tests.docs.running import Reader, left_out

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


def read(text: str, folder) -> Reader:
    reader = Reader(folder)
    for block in blocks_of(text):
        reader.does(block)
    return reader


def test_a_page_is_read_in_one_folder_from_top_to_bottom(tmp_path):
    text = (
        "<!-- file: a/words.txt -->\n```text\none\n```\n\n```sh\ncat a/words.txt \\\n  a/words.txt > two\n```\n\n"
        "```console\n$ cat two\none\none\n$ ls a\nword…\n```\n"
    )
    assert read(text, tmp_path).transcript == "one\none\nwords.txt\n"


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nfalse\ntrue\n```",
        "```sh\nfalse | true\n```",
        "```sh\necho $NOT_SET\n```",
        "```console\n$ echo one\ntwo\n```",
        "```sh\necho one\n```\n<!-- prints -->\n```text\none\ntwo …\n```",
        "```console\n$ echo one two\none\n```",
        "```console\n$ echo one two\ntwo\n```",
        "```console\n$ echo one two\n… one\n```",
        "```console\n$ echo one.two\none two\n```",
        "<!-- exits: 2 -->\n```sh\ntrue\n```",
        "<!-- exits: 1 -->\n```sh\nfalse\nfalse\n```",
        "<!-- run -->\n```python\nraise ValueError\n```",
        "```python\n>>> 1 + 1\n3\n```",
        "<!-- file: ../outside -->\n```text\n```",
        "<!-- until: never -->\n```sh\ntrue\n```",
        "<!-- needs: smollm2 -->\nno block below",
    ],
)
def test_a_mistake_in_a_page_is_found(text, tmp_path):
    with pytest.raises(AssertionError):
        read(text, tmp_path)


def test_a_line_may_be_shown_in_part_where_the_page_says_so(tmp_path):
    read("```console\n$ printf 'one  two three   \\n'\none …\n…three\none  two three\n… two …\n```", tmp_path)


def test_an_exit_code_that_a_page_announces_is_right(tmp_path):
    read("<!-- exits: 3 -->\n```sh\nexit 3\n```", tmp_path)


def test_what_installs_is_not_run(tmp_path):
    read("```sh\npip install nothing-of-this-name\nmake nothing\necho done\n```", tmp_path)


def test_what_a_block_leaves_in_the_background_ends_with_it(tmp_path):
    reader = read("```sh\nsleep 60 &\necho $!\n```", tmp_path)
    process = int(reader.printed)
    latest = time.monotonic() + 60
    while time.monotonic() < latest:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("it is still there")


def test_a_server_is_stopped_when_it_has_said_that_it_is_there(tmp_path):
    read("<!-- until: ready -->\n```sh\necho ready && sleep 60\n```", tmp_path)


@pytest.mark.parametrize(
    "text", ["```bash\nls\n```", "```\nlmassay run c.yaml\n```", "```text\n$ lmassay ls\n```", "```sh\n# nothing\n```"]
)
def test_a_command_that_no_test_would_run_is_found(text):
    assert left_out(blocks_of(text))
