"""One display for all runs of a card."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from lmassay.cli import progress
from tests.helpers import lmassay, write_config, write_lines
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
    assert re.search(r"blimp: 12\.3 of 29\.6 MB · [\d.]+ MB/s · 0:00 elapsed\n", line)


SLOW = """
import time
from lmassay.models.echo import Echo

class Slow(Echo):
    def generate(self, requests):
        for number, response in enumerate(super().generate(requests)):
            time.sleep(0.7)  # The bar of a run appears after a second.
            yield number, response
"""


def sweep(folder, model="slow.py:Slow"):
    (folder / "slow.py").write_text(SLOW, encoding="utf-8")
    write_lines(folder / "src.txt", ["one two three four", "five six seven", "eight nine ten"])
    task = {"name": "robustness", "src": "src.txt", "attack": ["wordswap", "worddrop"]}
    write_config(folder / "c.yaml", {"task": task, "model": model})


def test_a_sweep_has_one_bar_with_labelled_times_and_the_name_of_the_run_above_it(tmp_path):
    sweep(tmp_path)
    shown = in_terminal("run", "c.yaml", columns=80, cwd=tmp_path)
    assert shown.returncode == 0, shown.screen
    lines = [line for line in lines_of(shown.screen) if line]
    for number in (1, 2):
        assert re.search(rf"run {number} of 2 · \d/3 examples · 0:\d\d elapsed", "\n".join(lines)), lines
    named = [number for number, line in enumerate(lines) if line.startswith("[1/2] robustness: wordswap on echo")]
    assert named
    assert all(re.search(r"━ run 1 of 2 · \d/3 examples · 0:\d\d elapsed", lines[number + 1]) for number in named)


def test_a_log_file_has_a_line_for_each_run_and_progress_of_the_sweep(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    display = progress.SweepDisplay({"a": 2, "b": 1000})
    with display.work("a", "[1/2] first") as advance:
        advance(2, 2)
    with display.work("b", "[2/2] second") as advance:
        advance(340, 1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "[1/2] first",
        "run 1 of 2 · 2/2 examples · 0:00 elapsed",
        "[2/2] second",
        "run 2 of 2 · 340/1,000 examples · 0:00 elapsed",
    ]


def test_a_log_file_has_a_line_although_no_example_has_advanced(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_CHECKS", 0.01)
    with progress.SweepDisplay({"a": 40}).work("a", "only"):
        time.sleep(0.3)
    assert capsys.readouterr().err.splitlines()[:2] == ["only", "0/40 examples · 0:00 elapsed"]


def test_the_remaining_time_is_that_of_all_runs(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    display = progress.SweepDisplay({"a": 100, "b": 300})
    display._started -= 60
    with display.work("a", "first") as advance:
        advance(100, 100)
    assert "1:00 elapsed · about 3:00 left" in capsys.readouterr().err


def test_a_single_run_is_not_numbered(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    with progress.SweepDisplay({"a": 1}).work("a", "only") as advance:
        advance(1, 1)
    assert capsys.readouterr().err.splitlines()[1] == "1/1 example · 0:00 elapsed"


def test_a_run_of_unknown_size_gives_no_estimate(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    display = progress.SweepDisplay({"a": 10, "b": None})
    display._started -= 60
    with display.work("a", "first") as advance:
        advance(5, 10)
    assert "left" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("elapsed", "done", "total"), [(68, 0, 40), (68, 2, 40), (4, 20, 40), (600, 5, 1000), (60, 40, 40), (60, 9, None)]
)
def test_there_is_no_estimate_before_enough_is_known(elapsed, done, total):
    assert "left" not in progress.times_text(elapsed, done, total)


def test_a_run_that_fails_on_a_terminal_is_named_with_its_error(tmp_path):
    sweep(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW.replace("time.sleep(0.7)", "1 / 0"), encoding="utf-8")
    shown = "\n".join(lines_of(in_terminal("run", "c.yaml", columns=120, cwd=tmp_path).screen))
    assert re.search(r"\[1/2\] robustness: wordswap on echo\nerror: ", shown)
