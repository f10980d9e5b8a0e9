"""``lmassay report``: one content, four formats, and the figures beside it."""

from __future__ import annotations

import csv
import io

import pytest
from click.testing import CliRunner

from lmassay.cli import app
from lmassay.errors import UserError
from lmassay.storage.store import Store
from tests.evaluations.fewshot.report.small_fewshot import GRID, fewshot_run, fill, sweep, task
from tests.helpers import lmassay, lmassay_process


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("user") / "results", sweep(GRID, splits={"k": 2}))


@pytest.fixture
def written(results, tmp_path, monkeypatch):
    """Run the command in a folder of its own; returns what is in it afterwards."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> list[str]:
        done = CliRunner().invoke(
            app, ["report", *map(str, arguments), "--results", str(results)], standalone_mode=False
        )
        if done.exception is not None:
            raise done.exception
        return sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file())

    return run


@pytest.mark.parametrize(
    ("arguments", "name", "beginning"),
    [
        ((), "report.html", "<!doctype html>"),
        (("--format", "md"), "report.md", "# lmassay report"),
        (("--format", "tex"), "report.tex", "% Compile with"),
        (("--format", "tex", "--fragment"), "report.tex", "% Needs \\usepackage{array,booktabs}"),
        (("--format", "csv"), "report.csv", "run,task,model,label,status,metric,group,value,low,high,n,n_error"),
        (("-o", "a.md"), "a.md", "# lmassay report"),
        (("-o", "deep/a.TEX"), "deep/a.TEX", "% Compile with"),
        (("-o", "a.csv"), "a.csv", "run,"),
        (("-o", "a.txt", "--format", "md"), "a.txt", "# lmassay report"),
        (("-o", "page"), "page", "<!doctype html>"),
    ],
)
def test_the_format_is_the_one_asked_for_or_the_ending_of_the_file(written, tmp_path, arguments, name, beginning):
    assert written(*arguments) == [name]
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(beginning)


def test_a_folder_gets_a_file_with_the_usual_name(written, tmp_path):
    (tmp_path / "out").mkdir()
    assert written("-o", "out", "--format", "csv") == ["out/report.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "a.pdf"), "or give --format html, md, tex or csv"),
        (("--fragment",), "--fragment requires --format tex"),
        (("--figure-format", "png"), "--figure-format requires --figures"),
        (("--all", "latest"), "leave out either"),
    ],
)
def test_what_cannot_be_is_reported_before_anything_is_written(written, tmp_path, arguments, message):
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        written(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_figures_alone_write_nothing_else(written):
    names = written("--figures", "drawn")
    assert len(names) > 2
    assert all(name.startswith("drawn/fewshot-0") and name.endswith(".svg") for name in names)


def test_figures_come_in_every_format_asked_for(written):
    names = written("--figures", "drawn", "--figure-format", "png", "--figure-format", "pdf")
    assert {name.rpartition(".")[2] for name in names} == {"png", "pdf"}
    assert len(names) == 2 * len({name.rpartition(".")[0] for name in names})


def test_markdown_shows_the_figures_beside_it(written, tmp_path):
    names = written("-o", "out/report.md", "--figures", "drawn")
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    for name in names[:-1]:
        assert f"](../{name})" in text


def test_latex_takes_figures_as_pdf_unless_told_otherwise(written, tmp_path):
    names = written("-o", "report.tex", "--figures", "drawn")
    assert {name.rpartition(".")[2] for name in names} == {"pdf", "tex"}
    assert r"\includegraphics[scale=0.8]{drawn/" in (tmp_path / "report.tex").read_text(encoding="utf-8")


def test_csv_has_every_result_with_what_it_rests_on(written, results, tmp_path):
    written("-o", "a.csv", "--all")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text(encoding="utf-8"))))
    with Store(results) as store:
        wanted = [(r.id, x.metric, x.value, x.n) for r in store.runs() for x in r.results]
    assert [(r["run"], r["metric"], float(r["value"]), int(r["n"])) for r in rows] == wanted
    assert {(r["low"], r["high"], r["signature"]) for r in rows} == {("0.4", "0.6", "s")}


def test_csv_says_so_where_a_run_has_no_result_and_quotes_what_a_spreadsheet_would_run(tmp_path):
    fill(tmp_path / "results", [fewshot_run("=HYPERLINK(1)", task(), [])])
    assert lmassay("report", "--format", "csv", cwd=tmp_path).returncode == 0
    (row,) = csv.DictReader(io.StringIO((tmp_path / "report.csv").read_text(encoding="utf-8")))
    assert (row["label"], row["metric"], row["value"]) == ("'=HYPERLINK(1)", "", "")


def test_a_dash_is_standard_output(results):
    done = lmassay("report", "--format", "csv", "-o", "-", "--results", results)
    assert done.returncode == 0
    assert done.stdout.startswith("run,task,")


def test_a_missing_part_is_one_line(results, tmp_path):
    (tmp_path / "typst.py").write_text("raise ImportError('no typst')\n", encoding="utf-8")
    options = ["--figures", "drawn", "--figure-format", "png", "--results", results]
    done = lmassay_process("report", *options, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: a figure as PNG or PDF needs an optional dependency: pip install 'lmassay[figures]'\n"
    assert not (tmp_path / "drawn").exists()


@pytest.mark.parametrize("name", ["a.html", "a.md", "a.tex"])
def test_a_table_of_the_users_choice_comes_first(written, tmp_path, name):
    written("-o", name, "--rows", "label", "--metric", "acc", "--caption", "Chosen numbers", "--n")
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert "Chosen numbers." in text
    assert "n = 2" in text
    # Before the table of the page, and before the first chapter of the other formats.
    assert text.index("Chosen numbers.") < text.index("accuracy")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rows", "label", "--format", "csv"), "for HTML, Markdown and LaTeX"),
        (("--rows", "label", "--figures", "f"), "for HTML, Markdown and LaTeX"),
        (("--interval",), "give --rows, --columns or --metric"),
        (("--digits", "1"), "give --rows, --columns or --metric"),
        (("--rows", "lable"), "did you mean 'label'"),
    ],
)
def test_options_of_the_table_that_cannot_apply_are_refused(written, arguments, message):
    with pytest.raises(UserError, match=message):
        written(*arguments)
