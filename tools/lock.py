"""Write requirements-dev.txt: the versions and digests of all packages of the development environment.

    python -m pip install uv
    python tools/lock.py

The versions are those of constraints.txt and, for what it does not list, the newest. The file is for all systems and
for Python 3.11 and later. torch is not in it, because its build is chosen by the machine (see constraints.txt).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-dev.txt"
# torch, and the libraries for accelerators that only some of its builds need.
WITHOUT_DIGEST = re.compile(r"(torch|triton|nvidia-[\w-]+|cuda-[\w-]+)==")
# This package is installed without its own dependencies, see the Makefile.
ALONE = "pycocoevalcap==1.2"
_HEADER = """\
# All packages of the development environment with their digests, except torch. Written by tools/lock.py; use it with
#   pip install --require-hashes --no-deps -r requirements-dev.txt
"""


def entries(compiled: str) -> list[str]:
    """Return the entries of a requirements file, each with its digests."""
    return re.findall(r"^[A-Za-z0-9].*(?:\n[ \t].*)*", compiled, flags=re.MULTILINE)


def locked(compiled: str) -> str:
    """Return the text of requirements-dev.txt, made from the output of uv."""
    kept = [entry for entry in entries(compiled) if not WITHOUT_DIGEST.match(entry)]
    for entry in kept:
        if "--hash=sha256:" not in entry:
            raise SystemExit(f"{entry.splitlines()[0]}: no digest")
    return _HEADER + "\n".join(sorted(kept, key=str.lower)) + "\n"


def _compile(source: str, *options: str, requirements: str = "") -> str:
    command = [sys.executable, "-m", "uv", "pip", "compile", source, "--generate-hashes", "--universal"]
    command += ["--python-version", "3.11", "--no-header", "--no-annotate", "--no-emit-index-url", "--quiet", *options]
    done = subprocess.run(command, input=requirements, capture_output=True, encoding="utf-8", cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SystemExit(f"uv failed: {done.stderr.strip()[-800:]}")
    return done.stdout


def main() -> None:
    """Resolve the dependencies and write the file."""
    environment = _compile("pyproject.toml", "--extra", "dev", "--constraint", "constraints.txt")
    alone = _compile("-", "--no-deps", requirements=ALONE)
    LOCK.write_text(locked(f"{environment}\n{alone}"), encoding="utf-8")


if __name__ == "__main__":
    main()
