"""Check the files of a commit: text files must end with exactly one line break, and no file may be large.

A hook in .pre-commit-config.yaml calls it with the names of the files. It corrects line breaks at the end of files, and
exits with 1 if it corrected or refused a file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

LARGEST = 500_000
"""The limit in bytes. Larger data belong in a package or a download, not in the repository."""


def problem_with(path: Path) -> str | None:
    """Return what is wrong with a file, or None; a missing line break at the end is added, further ones are removed."""
    content = path.read_bytes()
    if len(content) > LARGEST:
        return f"{path}: {len(content):,} bytes; the limit is {LARGEST:,}"
    if not content or b"\0" in content:
        return None
    corrected = content.rstrip(b"\r\n") + b"\n"
    if content == corrected or content == corrected[:-1] + b"\r\n":
        return None
    path.write_bytes(corrected)
    return f"{path}: corrected the line breaks at the end of the file"


def main(names: Sequence[str]) -> int:
    exit_code = 0
    for name in names:
        problem = problem_with(Path(name))
        if problem is not None:
            sys.stdout.write(f"{problem}\n")
            exit_code = 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
