"""Options and help of ``lmassay data`` and its commands ``get``, ``show``, ``path``, ``verify`` and ``rm``."""

from __future__ import annotations

import click

from lmassay.cli.completion import offer
from lmassay.cli.options import calls, json_option

_CATALOGUE = "lmassay.cli.actions.data:catalogue_names"
_names = click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=offer(_CATALOGUE))
_required_names = click.argument("names", metavar="NAME...", nargs=-1, shell_complete=offer(_CATALOGUE))
_name = click.argument("name", shell_complete=offer(_CATALOGUE))


@click.group(
    invoke_without_command=True,
    epilog="Example: lmassay data get blimp",
    short_help="List, fetch and verify published data sets.",
)
@json_option
@click.pass_context
def data(context: click.Context, as_json: bool) -> None:
    """List the data sets that configurations can use by name.

    Data sets are downloaded from their public repositories at a pinned commit and verified. To use a mirror instead,
    set LMASSAY_DATA_MIRROR to a folder or an address.
    """
    if context.invoked_subcommand is None:
        # Imported here, so that the help of the commands is fast.
        from lmassay.cli.actions.data import list_data_sets

        list_data_sets(as_json)


@data.command(epilog="Example: lmassay data get blimp bbq", short_help="Download data sets and verify them.")
@_names
@click.option("--all", "everything", is_flag=True, help="Download every data set of the catalogue.")
@click.option("--partial", is_flag=True, help="Exit with 0 even if the source does not have all files.")
@calls("lmassay.cli.actions.data:get")
def get() -> None:
    """Download data sets and verify every file.

    Files that are already here are not downloaded again. An interrupted download continues where it stopped. If a
    file cannot be fetched, the others are kept, the missing ones are listed, and the exit code is 1.
    """


@data.command(epilog="Example: lmassay data show bbq", short_help="Show what a data set contains.")
@_name
@json_option
@calls("lmassay.cli.actions.data:show")
def show() -> None:
    """Show a data set: source, licence, citation, parts, files and number of examples."""


@data.command(epilog="Example: lmassay data path blimp", short_help="Print where a data set is on this machine.")
@_name
@calls("lmassay.cli.actions.data:path")
def path() -> None:
    """Print the folders that contain a data set. If nothing of it has been downloaded, this is an error."""


@data.command(epilog="Example: lmassay data verify", short_help="Verify the files on this machine.")
@_names
@calls("lmassay.cli.actions.data:verify")
def verify() -> None:
    """Compare every file with its pinned digest; without NAME, check all data sets that were fetched."""


@data.command(epilog="Example: lmassay data rm blimp", short_help="Delete data sets from this machine.")
@_required_names
@calls("lmassay.cli.actions.data:rm")
def rm() -> None:
    """Delete the copies of data sets on this machine."""
