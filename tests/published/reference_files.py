"""The folder ``reference``: outputs of the original programs on inputs that were written for this project."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

REFERENCE = Path(__file__).with_name("reference")
DIGESTS = REFERENCE / "SHA256SUMS"


def content(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is compressed."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def recorded_files() -> list[Path]:
    """All recorded inputs and outputs; the README files are not recorded."""
    own = {DIGESTS.name, "README.md"}
    return sorted(path for path in REFERENCE.rglob("*") if path.is_file() and path.name not in own)


def name_of(path: Path) -> str:
    """The path of a file inside the folder."""
    return path.relative_to(REFERENCE).as_posix()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def recorded_digests() -> dict[str, str]:
    """File → SHA-256 of its unpacked content, from ``SHA256SUMS``."""
    digests: dict[str, str] = {}
    for line in DIGESTS.read_text(encoding="utf-8").splitlines():
        value, name = line.split("  ", 1)
        digests[name] = value
    return digests
