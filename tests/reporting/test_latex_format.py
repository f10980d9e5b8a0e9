"""A report in LaTeX: it compiles, prints texts as they are, and says what other scripts need."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import UserError
from lmassay.reporting.blocks import Body, Cell, Figure, Figures, Heading, Note, Table, TableRow, name
from lmassay.reporting.formats import latex
from lmassay.reporting.formats.content import Chapter, Picture, chapters
from lmassay.reporting.formats.latex import _SYMBOLS, breakable, escape, needs_fonts
from lmassay.storage.store import Store
from tests.helpers import lmassay
from tests.reporting.four_evaluations import KOREAN

NASTY = "\\input{/etc/passwd} $x_1^2$ 50 % & #1 {a} ~ ^ _ < > | \" ' -- --- ?` !` `` '' [x] *"


def compiled(text: str, folder: Path, program: str = "pdflatex") -> subprocess.CompletedProcess[str]:
    executable = shutil.which(program)
    if executable is None:
        pytest.skip(f"{program} is not installed")
    (folder / "report.tex").write_text(text, encoding="utf-8")
    options = ["-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
    return subprocess.run(
        [executable, *options, "report.tex"], cwd=folder, capture_output=True, text=True, errors="replace"
    )


def pages(text: str, folder: Path) -> Path:
    done = compiled(text, folder)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Missing character" not in (folder / "report.log").read_text(encoding="utf-8", errors="replace")
    return folder / "report.pdf"


@pytest.fixture(scope="module")
def latin(four):
    """All but the runs with a Korean name."""
    with Store(four) as store:
        return chapters(store, [record for record in store.runs() if record.model != KOREAN])


def test_a_real_latex_compiles_the_report(latin, tmp_path):
    text = latex.document(latin)
    assert text.startswith("% Compile with pdflatex, lualatex or xelatex.\n")
    assert pages(text, tmp_path).read_bytes().startswith(b"%PDF")


def test_a_real_latex_compiles_every_symbol_and_sign(tmp_path):
    accents = "àéîõüÿñçžěőůĀăṡḍ Åßøłœæ"
    text = " ".join([NASTY, *_SYMBOLS, accents, "".join(map(chr, range(32, 127)))])
    table = Table(
        text, [[Cell(text, kind="text")]], [Body([TableRow([name(text, text)]), TableRow([name(f"[{text}")], "part")])]
    )
    made = latex.document([Chapter(text, [Heading(text), Note(text), table])])
    assert not needs_fonts(made)
    assert "passwd" in made
    pages(made, tmp_path)


def test_a_real_latex_compiles_the_tables_alone_in_a_document_of_ones_own(latin, tmp_path):
    tables = latex.fragment(latin)
    assert r"\documentclass" not in tables
    assert all(re.match(r"[%\\{}\w ]", line) for line in tables.splitlines())
    head = r"\documentclass{article}\usepackage{array,booktabs}\begin{document}\tiny "
    pages(f"{head}\n{tables}\n\\end{{document}}\n", tmp_path)


def test_text_in_other_scripts_is_set_apart_and_pdflatex_says_what_to_take(tmp_path):
    text = latex.document([Chapter("t", [Note(f"model {KOREAN}, привет")])])
    assert text.startswith("% Compile with lualatex or xelatex: some text needs a font")
    assert r"\eastasian{한국어} \eastasian{모델}, \otherscript{привет}" in text
    done = compiled(text, tmp_path)
    assert done.returncode != 0
    assert "compile it with lualatex or xelatex" in " ".join(done.stdout.split())


@pytest.mark.parametrize("program", ["lualatex", "xelatex"])
def test_an_engine_with_fonts_prints_other_scripts(program, tmp_path):
    done = compiled(latex.document([Chapter("t", [Note(f"model {KOREAN}, привет")])]), tmp_path, program)
    if done.returncode != 0:
        plain = r"\documentclass{article}\usepackage{fontspec}\begin{document}a\end{document}"
        if compiled(plain, tmp_path, program).returncode != 0:
            pytest.skip(f"{program} here has no fontspec that works")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "report.log").read_text(encoding="utf-8", errors="replace")


def test_other_scripts_in_the_tables_alone_are_reported():
    table = Table("", [[Cell("x", kind="text")]], [Body([TableRow([name(KOREAN)])])])
    text = latex.fragment([Chapter("t", [table])])
    assert r"\providecommand{\eastasian}[1]{#1}" in text
    assert "% Compile with lualatex or xelatex" in text


@pytest.mark.fault(47)
@given(st.text(max_size=40))
def test_no_text_leaves_an_open_brace_or_a_line_break(text):
    made = escape(text)
    assert "\n" not in made
    bare = re.sub(r"\\[\\{}$&#%_]", "", made.replace(r"\textbackslash", ""))
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"(?<!\\)[%#&$]", made)


def test_long_words_may_be_broken_and_short_ones_stay():
    assert escape(breakable("a/b")) == "a/b"
    assert escape(breakable("task:robustness.1|src:6e83367d")).count(r"\allowbreak{}") == 4


def test_a_table_is_booktabs_with_rules_under_what_spans_columns():
    heads = [[Cell("", kind="text"), Cell("model_1", span=2)], [Cell("what", kind="text"), Cell("MW"), Cell("EW")]]
    lines = [
        TableRow([name("one"), Cell("-0.5", ("[-0.6, -0.4]",)), Cell("1")]),
        TableRow([name("all"), Cell("1")], "total"),
    ]
    assert latex.fragment([Chapter("t", [Table("Said.", heads, [Body(lines)])])]).splitlines()[1:] == [
        "% t",
        "% Said.",
        r"\begin{tabular}{l r r}",
        r"\toprule",
        r" & \multicolumn{2}{c}{model\_1} \\",
        r"\cmidrule(lr){2-3}",
        r"what & MW & EW \\",
        r"\midrule",
        r"one & \ensuremath{-}0.5 & 1 \\",
        r" & {\scriptsize [\ensuremath{-}0.6, \ensuremath{-}0.4]} &  \\",
        r"\midrule",
        r"\textbf{all} & 1 &  \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_table_longer_than_a_page_is_parted():
    lines = [TableRow([name(f"row {n}")]) for n in range(100)]
    text = latex.document([Chapter("t", [Table("", [[Cell("x", kind="text")]], [Body(lines)])])])
    assert text.count(r"\begin{tabular}") == 3
    assert text.count("row ") == 100


def test_a_folder_that_latex_cannot_read_is_reported():
    figures = [Chapter("t", [Figures([Figure("<svg/>", "")])])]
    with pytest.raises(UserError, match="LaTeX cannot read a path that contains %"):
        latex.document(figures, {"<svg/>": Picture("50%/a.pdf", "")})


def test_a_real_latex_compiles_a_report_with_its_figures(four, tmp_path):
    options = ["--figures", "figures", "--results", four, "-o", "report.tex"]
    with Store(four) as store:
        runs = [record.id for record in store.runs() if record.task == "robustness"]
    done = lmassay("report", *runs, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.tex").read_text(encoding="utf-8")
    assert text.count(r"\includegraphics") == len(list((tmp_path / "figures").glob("*.pdf"))) == 1
    pages(text, tmp_path)


def test_a_real_latex_compiles_what_protocol_writes(four, tmp_path):
    done = lmassay("protocol", "--all", "--format", "tex", "--results", four)
    assert done.returncode == 0, done.stderr
    head = r"\documentclass{article}\usepackage{array,booktabs}\begin{document}\tiny "
    pages(f"{head}\n{done.stdout}\n\\end{{document}}\n", tmp_path)
