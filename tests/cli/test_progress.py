"""One display for all runs of a card."""

from __future__ import annotations

import re
from pathlib import Path

from lmassay.cli import progress
from tests.helpers import lmassay
from tests.terminal import in_terminal

MODELS = Path(__file__).parents[1] / "reporting" / "card" / "models.py"
CARD = ("card", f"{MODELS}:Talker", "--quick", "--only", "robustness", "--only", "bias")


def lines_of(screen: str) -> list[str]:
    """What stands on the screen in the end, roughly: text without control sequences."""
    return [line.strip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).splitlines()]


def test_a_terminal_shows_every_run_on_one_board_and_marks_what_is_done(tmp_path):
    shown = in_terminal(*CARD, columns=120, cwd=tmp_path)
    assert shown.returncode == 0
    lines = lines_of(shown.screen)
    for name, runs in (("robustness on talker", "3 runs"), ("bias on talker", "1 run")):
        assert any(line.startswith(f"✓ {name}") and runs in line for line in lines), name
    assert not any("charswap on" in line for line in lines), "a run that is begun has a line already"
    assert any("attacks that succeed" in line for line in lines)


def test_without_a_terminal_there_are_plain_lines(tmp_path):
    done = lmassay(*CARD, cwd=tmp_path)
    assert "[1/4] robustness: charswap on talker" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_downloads_are_counted_in_megabytes(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    with progress.progress_bar("blimp", counts_bytes=True) as advance:
        advance(12_345_678, 29_600_000)
    line = capsys.readouterr().err
    assert "blimp: 12.3 of 29.6 MB after 0 s, " in line
    assert " MB/s, " in line
