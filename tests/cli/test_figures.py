"""``lmassay figures``: the figures of a report as files for a paper."""

from __future__ import annotations

import shutil
import sys
import xml.etree.ElementTree as ET

import pytest

from lmassay.reporting.figure_style import SVG
from tests.helpers import lmassay
from tests.reporting.four_evaluations import fill


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("four"))


def figures(results, tmp_path, *arguments: str, code: int = 0):
    done = lmassay("figures", "--results", str(results), *arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    return done


def test_figures_are_written_in_all_formats_at_the_width_and_twice_the_same(results, tmp_path):
    options = ("--all", "--only", "rank-correlation", "--format", "svg,pdf,png", "--width", "77mm")
    done = figures(results, tmp_path, *options, "-o", "first")
    assert "written to" in done.stderr + done.stdout
    figures(results, tmp_path, *options, "-o", "second")
    names = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert {name.rpartition(".")[2] for name in names} == {"svg", "pdf", "png"}
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    (drawing,) = (tmp_path / "first").glob("*.svg")
    assert ET.parse(drawing).getroot().get("width") == "77.00mm"


def test_grey_figures_have_no_colour_and_texts_can_be_kept(results, tmp_path):
    figures(results, tmp_path, "--all", "--style", "grey", "--text", "text", "-o", "grey")
    files = list((tmp_path / "grey").iterdir())
    assert len(files) > 20
    for file in files:
        root = ET.parse(file).getroot()
        assert list(root.iter(f"{{{SVG}}}text"))
        for element in root.iter():
            for paint in (element.get("fill", ""), element.get("stroke", "")):
                if paint.startswith("#"):
                    assert paint[1:3] == paint[3:5] == paint[5:7], (file.name, ET.tostring(element))


def test_names_are_listed_without_writing_anything(results, tmp_path):
    done = figures(results, tmp_path, "--all", "--list")
    names = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert "syntax-01-mw-constructions-by-model" in names
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_svg_files_keep_their_texts_and_say_so(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    done = figures(results, tmp_path, "--all", "--only", "rank-correlation")
    assert "pip install 'lmassay[figures]'" in done.stderr
    (drawing,) = (tmp_path / "figures").iterdir()
    assert "<text" in drawing.read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "figures")
    refused = figures(results, tmp_path, "--all", "--format", "pdf", code=2)
    assert "pip install 'lmassay[figures]'" in refused.stderr
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "jpg"), "'jpg' is not a format"),
        (("--width", "wide"), "'wide' is not a width; write one-column, two-column or a length"),
        (("--only", "pie"), "no figure has 'pie' in its name; lmassay figures --list"),
        (("--all", "some-run"), "leave out either --all or the names of runs"),
    ],
)
def test_mistakes_are_reported_in_one_line(results, tmp_path, arguments, message):
    arguments = arguments if "--all" in arguments else ("--all", *arguments)
    done = figures(results, tmp_path, *arguments, code=2)
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
