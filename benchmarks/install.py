"""Size and effort of installing lmassay, next to inspect_ai and lm-evaluation-harness.

    python benchmarks/install.py [--folder DIR] [--only lmassay 'lmassay[hf]' …] [-o benchmarks/measured/install.tsv]

Every installation goes into a fresh virtual environment, one after the other, in one run. All use the same Python, the
same pip and the same index, as pip is configured on the machine. Torch is pinned to the version in constraints.txt with
``--build`` (default: ``cpu``), because the default build brings several gigabytes of CUDA libraries.

- MB: what the environment takes on disk (blocks, as ``du`` counts them) beyond an empty one, as pip leaves it, with
  compiled Python files
- packages: how many pip lists, beyond pip and setuptools
- CPU-seconds: of pip and its children. Seconds on the clock depend on the network and on what else runs; they are shown
  for orientation only.

The largest installations are made once before, to fill pip's cache, so that downloads do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BYTES_PER_BLOCK = 512
"""The unit of ``st_blocks``, whatever the file system's own blocks are."""
_LARGEST = ("lmassay[all]", "inspect_ai + hf", "lm_eval[hf]")
# All extras for users except ``api``, which brings nothing.
_LIGHT_EXTRAS = ("fast", "figures", "segment", "search", "tables", "view", "dask", "datasette")
_EXTRAS_WITH_TORCH = ("hf", "fewshot", "semantic", "all")
_HEADER = ("installation", "MB", "packages", "CPU-seconds", "clock-seconds", "version")


@dataclass(frozen=True, slots=True)
class Installation:
    """What is passed to ``pip install``, and the package whose version is reported."""

    name: str
    requirements: Sequence[str]
    package: str
    needs_torch: bool = False

    @property
    def folder_name(self) -> str:
        """The name of its environment."""
        return re.sub(r"[^a-z_]+", "-", self.name).strip("-")


@dataclass(frozen=True, slots=True)
class Measurement:
    """What an installation took."""

    megabytes: float
    packages: int
    cpu_seconds: float
    clock_seconds: float
    version: str


def main() -> int:
    """Measure all installations, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder", type=Path, help="where to make the environments, which are kept (default: temporary)"
    )
    parser.add_argument("--only", nargs="+", help="names of installations to measure (default: all)")
    parser.add_argument("--cached", action="store_true", help="pip's cache is filled already, by an earlier run")
    parser.add_argument("--build", default="cpu", help="the build of torch (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, help="also write the table to this file, tab-separated")
    arguments = parser.parse_args()
    if arguments.folder is None:
        with tempfile.TemporaryDirectory() as folder:
            rows = measure_all(Path(folder), arguments.only, arguments.build, fills_cache=not arguments.cached)
    else:
        rows = measure_all(arguments.folder, arguments.only, arguments.build, fills_cache=not arguments.cached)
    if arguments.output is not None:
        lines = ["\t".join(row) for row in [_HEADER, *rows]]
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


def measure_all(folder: Path, only: Sequence[str] | None, build: str, *, fills_cache: bool) -> list[tuple[str, ...]]:
    """Measure the installations one after the other, and return the rows of the table."""
    wheel = build_wheel(folder / "wheel")
    torch = f"torch=={pinned_torch()}+{build}"
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {torch}")
    print("".join(f"{title:>16}" for title in _HEADER))
    chosen = [installation for installation in installations(wheel) if not only or installation.name in only]
    for installation in chosen:
        if fills_cache and installation.name in _LARGEST:
            # Fills pip's cache.
            install(folder / "cache", installation, torch)
    rows: list[tuple[str, ...]] = []
    for installation in chosen:
        result = install(folder / installation.folder_name, installation, torch)
        row = (
            installation.name,
            f"{result.megabytes:.1f}",
            str(result.packages),
            f"{result.cpu_seconds:.1f}",
            f"{result.clock_seconds:.1f}",
            result.version,
        )
        print("".join(f"{cell:>16}" for cell in row), flush=True)
        rows.append(row)
    return rows


def installations(wheel: Path) -> list[Installation]:
    """Return what is measured: lmassay alone, with each extra that brings something, and the other tools."""
    listed = [Installation("lmassay", [str(wheel)], "lmassay")]
    for extra in (*_LIGHT_EXTRAS, *_EXTRAS_WITH_TORCH):
        requirement = f"lmassay[{extra}] @ {wheel.as_uri()}"
        listed.append(Installation(f"lmassay[{extra}]", [requirement], "lmassay", extra in _EXTRAS_WITH_TORCH))
    listed.append(Installation("inspect_ai", ["inspect_ai"], "inspect-ai"))
    listed.append(
        Installation("inspect_ai + hf", ["inspect_ai", "torch", "transformers", "accelerate"], "inspect-ai", True)
    )
    listed.append(Installation("lm_eval", ["lm_eval"], "lm_eval"))
    listed.append(Installation("lm_eval[hf]", ["lm_eval[hf]"], "lm_eval", needs_torch=True))
    return listed


def install(folder: Path, installation: Installation, torch: str) -> Measurement:
    """Make a fresh environment, install into it, and measure."""
    requirements = list(installation.requirements)
    if installation.needs_torch:
        requirements.append(torch)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    empty = disk_usage(folder)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run([*pip, "install", "--quiet", "--quiet", *requirements], check=True, env=environment())
    clock_seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    listing = subprocess.run([*pip, "list", "--format", "json"], check=True, capture_output=True, text=True)
    versions = {package["name"].lower().replace("_", "-"): package["version"] for package in json.loads(listing.stdout)}
    return Measurement(
        megabytes=(disk_usage(folder) - empty) / 1e6,
        packages=len(versions.keys() - {"pip", "setuptools"}),
        cpu_seconds=cpu_seconds,
        clock_seconds=clock_seconds,
        version=versions[installation.package.lower().replace("_", "-")],
    )


def environment() -> Mapping[str, str]:
    """Return the variables of the process without those that would let pip see other packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def disk_usage(folder: Path) -> int:
    """Return the bytes that the files of a folder occupy."""
    total = 0
    for directory, _, files in os.walk(folder):
        for name in files:
            total += (Path(directory) / name).lstat().st_blocks * _BYTES_PER_BLOCK
    return total


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("lmassay-*.whl")
    return wheel


def pinned_torch() -> str:
    """Return the version of torch in constraints.txt."""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("torch=="):
            return line.removeprefix("torch==")
    raise SystemExit("constraints.txt does not pin torch")


if __name__ == "__main__":
    sys.exit(main())
