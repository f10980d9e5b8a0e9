"""Show the progress of :func:`lmassay.evaluate` in one line, which is updated, in a terminal or in a notebook."""

from __future__ import annotations

import importlib
import sys
import time
from html import escape
from typing import Any

from lmassay.types.wording import counted

_SECONDS_BETWEEN_UPDATES = 0.25
_SECONDS_BEFORE_FIRST = 1.0


class ProgressLine:
    """Shows the progress of runs in one line. If ``is_shown`` is None, only in a terminal or notebook."""

    def __init__(self, is_shown: bool | None) -> None:
        if is_shown is None:
            is_shown = _notebook_display() is not None or sys.stderr.isatty()
        self._is_shown = is_shown
        self._display = _notebook_display() if self._is_shown else None
        self._handle: Any = None
        self._description = ""
        self._unit = "example"
        self._last_length = 0
        self._next_update = 0.0

    def start(self, description: str, unit: str = "example") -> None:
        """Begin a run. Its progress is counted in ``unit``, and shown if the run takes longer than a second."""
        self._unit = unit
        self._description = description
        self._next_update = time.monotonic() + _SECONDS_BEFORE_FIRST

    def advance(self, done: float, total: int | None) -> None:
        """Show how much is done, at most four times a second."""
        if not self._is_shown or time.monotonic() < self._next_update:
            return
        self._next_update = time.monotonic() + _SECONDS_BETWEEN_UPDATES
        count = f"{int(done):,} of {counted(total, self._unit)}" if total else counted(int(done), self._unit)
        self._show(f"{self._description}: {count}")

    def close(self) -> None:
        """Remove the line."""
        if self._handle is not None or self._last_length:
            self._show("")

    def _show(self, text: str) -> None:
        """Replace the shown text by another one; an empty text removes it."""
        if self._display is None:
            # Spaces overwrite what is left of a longer text.
            sys.stderr.write(f"\r{text.ljust(self._last_length)}\r{text}")
            sys.stderr.flush()
            self._last_length = len(text)
            return
        content = self._display.HTML(f"<small>{escape(text)}</small>" if text else "")
        if self._handle is None:
            self._handle = self._display.display(content, display_id=True)
        else:
            self._handle.update(content)


def _notebook_display() -> Any:
    """Return the module ``IPython.display`` if this process is the kernel of a notebook, else None."""
    if "IPython" not in sys.modules or "ipykernel" not in sys.modules:
        return None
    shell = importlib.import_module("IPython").get_ipython()
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    return importlib.import_module("IPython.display")
