"""A command that is printed does what it says when it is copied into a shell, whatever files are called."""

from __future__ import annotations

import html
import json
import re
import shlex

import pytest

from tests.helpers import lmassay, write_config, write_lines

_MODEL = """
from lmassay.types import Response

class Down:
    name, can = "down", frozenset({"generate"})
    identity = dict

    def generate(self, requests):
        return [Response(error="the server is down") for request in requests]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("user")
    (place / "down.py").write_text(_MODEL, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def card(folder):
    """What a card of a model that does not answer tells, its page and its results in places with blanks."""
    options = ["--quick", "--only", "bias", "-o", "my page.html", "--results", "my results"]
    done = lmassay("card", "down.py:Down", *options, cwd=folder)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_a_card_that_is_not_finished_tells_how(folder, card):
    rest, page = re.search(r"to finish the card: lmassay (.*); then write the page: lmassay (.*)", card).groups()
    (folder / "my page.html").unlink()
    assert lmassay(*shlex.split(rest), cwd=folder).returncode == 1, "it was found and tried again"
    assert lmassay(*shlex.split(page), cwd=folder).returncode == 0
    assert (folder / "my page.html").is_file()


def test_a_run_that_left_errors_tells_how_to_try_again(card):
    assert re.search(r"try again with: lmassay resume \S+ --results 'my results'", card)


def test_pages_tell_the_command_and_how_to_reproduce(folder, card):
    page = html.unescape((folder / "my page.html").read_text(encoding="utf-8"))
    assert "-o 'my page.html' --results 'my results'" in page
    assert re.search(r"lmassay show \S+ --results 'my results' --yaml > run\.yaml && lmassay run run\.yaml", page)


def test_a_page_of_a_comparison_tells_the_command(tmp_path):
    write_lines(tmp_path / "src.txt", ["the cat sat on the mat", "we lost the house key again"])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    write_config(tmp_path / "my two.yaml", {"task": task, "model": ["echo", {"name": "echo", "transform": "upper"}]})
    done = lmassay("run", "my two.yaml", "--results", "my results", "--json", cwd=tmp_path)
    runs = [run["run"] for run in json.loads(done.stdout)["runs"]]
    assert lmassay("compare", *runs, "--results", "my results", "-o", "c.html", cwd=tmp_path).returncode == 0
    page = html.unescape((tmp_path / "c.html").read_text(encoding="utf-8"))
    assert "lmassay run 'my two.yaml' --results 'my results'" in page


def test_a_configuration_of_the_card_says_how_to_run_it(folder):
    assert lmassay("card", "down.py:Down", "--only", "bias", "--write", "my parts", cwd=folder).returncode == 0
    first = (folder / "my parts" / "bias.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.endswith("lmassay run 'my parts/bias.yaml'")
