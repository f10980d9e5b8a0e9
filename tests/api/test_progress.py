"""Progress is shown where somebody looks, and nowhere else."""

from __future__ import annotations

import io
import sys

from lmassay.api import progress
from lmassay.api.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, stream, always=None):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_SECONDS_BEFORE_FIRST", 0.0)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_UPDATES", 0.0)
    line = ProgressLine(always)
    line.start("spelling: a on b")
    line.advance(3.5, 1200)
    line.advance(4, None)
    line.close()
    return stream.getvalue()


def test_a_terminal_shows_one_line_that_disappears(monkeypatch):
    text = shown(monkeypatch, Terminal())
    assert "spelling: a on b: 3 of 1,200 examples" in text
    assert "\n" not in text
    assert text.endswith("\r")


def test_a_file_shows_nothing_unless_it_is_asked_to(monkeypatch):
    assert shown(monkeypatch, io.StringIO()) == ""
    assert "4 examples" in shown(monkeypatch, io.StringIO(), always=True)
    assert shown(monkeypatch, Terminal(), always=False) == ""
