"""Links lead to existing pages and headings; files and commands that are named exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import click
import pytest

from tests.docs.blocks import PAGES, page_text, prose_of
from tests.helpers import ROOT

_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_NAMED_FILE = re.compile(r"`((?:examples|tests|benchmarks|docs)/[\w./*-]+)`")
_COMMAND = re.compile(r"`(lmassay [a-z][^`]*)`")


def slug(heading: str) -> str:
    """The anchor of a heading on GitHub and on the site: lower case, no punctuation, a hyphen for each space."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    text = page.read_text(encoding="utf-8")
    seen: dict[str, int] = {}
    names = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)) | set(re.findall(r"\{ ?#([\w-]+) ?\}", text))
    for heading in re.findall(r"^#+ +(.+?)(?: *\{.*\})?$", prose_of(text), re.MULTILINE):
        name = slug(heading)
        names.add(f"{name}-{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return names


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in _LINK.findall(prose_of(page_text(page))):
        if re.match(r"(https?|mailto):", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in anchors(file.resolve()), f"{page}: {target}; there is {sorted(anchors(file.resolve()))}"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_are_there(page):
    for name in _NAMED_FILE.findall(page_text(page)):
        # A word in capitals is a placeholder, such as METHOD in search_METHOD_albert.yaml.
        pattern = re.sub(r"(?<=_)[A-Z]{2,}(?=[_.])|(?<=/)[A-Z]{2,}(?=/|$)", "*", name).rstrip("/")
        assert list(ROOT.glob(pattern)), name


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_name_verbs_and_options_that_exist(page):
    for command in _COMMAND.findall(prose_of(page_text(page))):
        _check_command(command.split()[1:], f"{page}: `{command}`")


def _check_command(words: list[str], where: str) -> None:
    from lmassay.cli import app

    command: click.Command = app
    # click keeps the help option it makes first: a context without the app's settings would take away its -h.
    context = click.Context(app, **app.context_settings)
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z_-]*", words[0]):
        subcommand = command.get_command(context, words[0])
        assert subcommand is not None, f"{where}: there is no {words[0]!r}"
        command, words = subcommand, words[1:]
    if command.context_settings.get("ignore_unknown_options") or command.context_settings.get("allow_extra_args"):
        return
    options: set[str] = set()
    for parameter in command.get_params(context):
        options.update(parameter.opts, parameter.secondary_opts)
    for word in words:
        if re.match(r"--[a-z]", word):
            assert word.partition("=")[0].rstrip(",;.:") in options, f"{where}: there is no option {word}"


def test_a_link_to_a_heading_that_is_not_there_would_be_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Reading `lmassay run`'s *output*\n\n```sh\n# no heading\n```\n\n## A\n\n## A\n", encoding="utf-8"
    )
    assert anchors(page) == {"reading-lmassay-runs-output", "a", "a-1"}
