"""A real terminal for the command to write to: colours, widths and bars depend on it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Shown:
    """How it ended, what the terminal got, and what went to a file beside it."""

    returncode: int
    screen: str
    stdout: str


def in_terminal(
    *arguments: object,
    columns: int = 80,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdout_aside: bool = False,
    typed: str | None = None,
) -> Shown:
    """Run the command in a terminal of that width; ``stdout_aside`` sends standard output to a file instead."""
    command = [sys.executable, "-m", "lmassay", *map(str, arguments)]
    return program_in_terminal(command, columns=columns, cwd=cwd, env=env, stdout_aside=stdout_aside, typed=typed)


def program_in_terminal(
    command: Sequence[str],
    *,
    columns: int = 80,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdout_aside: bool = False,
    typed: str | None = None,
) -> Shown:
    """Run any program in a terminal, with what is typed there from the start."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**clean, "TERM": "xterm-256color", **(env or {})},
        stdin=its if typed is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE if stdout_aside else its,
        stderr=its,
    )
    os.close(its)
    if typed is not None:
        os.write(ours, typed.encode())
    screen = bytearray()
    while True:
        try:
            block = os.read(ours, 1 << 16)
        except OSError:  # how Linux says that the other side has closed
            break
        if not block:
            break
        screen += block
    aside = process.stdout.read().decode() if process.stdout else ""
    if process.stdout:
        process.stdout.close()
    code = process.wait()
    os.close(ours)
    return Shown(code, screen.decode("utf-8", "replace").replace("\r\n", "\n"), aside)
