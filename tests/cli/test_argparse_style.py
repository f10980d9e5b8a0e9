"""Options as argparse reads them: unique beginnings of names, lists behind one flag, the last list counts."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from lmassay.cli.argparse_style import AbbreviatedCommand, AddedOption, ListOptionsCommand


@click.command(cls=ListOptionsCommand)
@click.option("--models", multiple=True)
@click.option("--prompt_ids", "--prompt-ids", multiple=True)
@click.option("--prefix", default="")
@click.option("--prompt-details", cls=AddedOption, is_flag=True)
def lists(models, prompt_ids, prefix, prompt_details):
    click.echo(f"{models} {prompt_ids} {prefix} {prompt_details}")


@click.command(cls=AbbreviatedCommand)
@click.option("--data-path", default="")
@click.option("--set", "overrides", cls=AddedOption, multiple=True)
@click.argument("words", nargs=-1)
def plain(data_path, overrides, words):
    click.echo(f"{data_path} {overrides} {words}")


def run(command, *words):
    return CliRunner().invoke(command, list(words))


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--models", "a", "b", "--prefix", "x"], "('a', 'b') () x False"),
        (["--models=a", "b"], "('a', 'b') ()  False"),
        (["--models", "a", "--models", "b", "c"], "('b', 'c') ()  False"),
        (["--models", "a", "--prefix", "x", "--models=b"], "('b',) () x False"),
        (["--prompt-ids", "1", "2", "--prompt_ids", "3"], "() ('3',)  False"),
        (["--m", "a", "--mod", "b"], "('b',) ()  False"),
        (["--prompt", "1", "--prompt-details"], "() ('1',)  True"),
        (["--pre=x"], "() () x False"),
    ],
)
def test_lists_are_read_as_argparse_reads_them(words, printed):
    done = run(lists, *words)
    assert (done.exit_code, done.output) == (0, f"{printed}\n")


def test_a_beginning_of_two_options_is_an_error_that_names_them():
    done = run(lists, "--pr", "1")
    assert done.exit_code == 2
    assert "Option '--pr' is ambiguous (--prefix, --prompt_ids); write the whole name." in done.output


def test_an_added_option_must_be_written_in_full():
    assert run(plain, "--set", "a=1").output == " ('a=1',) ()\n"
    assert run(plain, "--se", "a=1").exit_code == 2


def test_a_list_without_values_is_an_error():
    assert "Option '--models' requires at least one argument." in run(lists, "--models").output


def test_help_may_be_abbreviated():
    assert run(plain, "--he").output.startswith("Usage: ")


def test_nothing_is_completed_behind_two_dashes():
    assert run(plain, "--data", "x", "--", "--dat").output == "x () ('--dat',)\n"
