"""A report as LaTeX: a complete document, or only its tables for the user's own document. Tables use booktabs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby

import lmassay
from lmassay.errors import UserError
from lmassay.reporting.blocks import (
    Block,
    Cell,
    Examples,
    Figure,
    Figures,
    Folded,
    Heading,
    Note,
    Table,
    TableRow,
    Tiles,
)
from lmassay.reporting.formats.content import Chapter, Pictures, without_missing_figures
from lmassay.reporting.numbers import minus

EAST_ASIAN, OTHER = "eastasian", "otherscript"
"""The LaTeX commands around text that needs a font of the system on which the document is compiled."""

_PREAMBLE = r"""\documentclass[10pt,a4paper]{article}
\usepackage[margin=18mm]{geometry}
\usepackage{array,booktabs,graphicx,iftex}
\newsavebox{\fittedbox}
% At its natural size, or scaled down to fit the page.
\newcommand{\fitted}[1]{\sbox{\fittedbox}{#1}%
  \ifdim\wd\fittedbox>\linewidth\sbox{\fittedbox}{\resizebox{\linewidth}{!}{\usebox{\fittedbox}}}\fi
  \ifdim\dimexpr\ht\fittedbox+\dp\fittedbox\relax>0.9\textheight
    \sbox{\fittedbox}{\resizebox*{!}{0.9\textheight}{\usebox{\fittedbox}}}\fi
  \par\noindent\usebox{\fittedbox}\par\medskip}
\setlength{\parindent}{0pt}\setlength{\parskip}{4pt}\raggedright
"""
# \firstfont defines the command in its first argument with the first of several fonts that is installed. If none is,
# the command changes nothing, and the text keeps the font of the document.
_FONTS = rf"""\ifPDFTeX
  \errmessage{{This report has text that needs a font of your system: compile it with lualatex or xelatex}}
  \newcommand{{\{EAST_ASIAN}}}[1]{{?}}\newcommand{{\{OTHER}}}[1]{{?}}
\else
  \usepackage{{fontspec}}
  \newcommand{{\firstfont}}[2]{{\ifdefined#1\else\IfFontExistsTF{{#2}}{{\newfontfamily#1{{#2}}}}{{}}\fi}}
  \firstfont\eastasianfont{{Noto Sans CJK KR}}\firstfont\eastasianfont{{Noto Sans KR}}
  \firstfont\eastasianfont{{Malgun Gothic}}\firstfont\eastasianfont{{Apple SD Gothic Neo}}
  \firstfont\eastasianfont{{NanumGothic}}\firstfont\otherfont{{DejaVu Sans}}\firstfont\otherfont{{Noto Sans}}
  \firstfont\otherfont{{Arial Unicode MS}}\firstfont\otherfont{{Arial}}
  \ifdefined\eastasianfont\else\let\eastasianfont\relax\fi\ifdefined\otherfont\else\let\otherfont\relax\fi
  \newcommand{{\{EAST_ASIAN}}}[1]{{{{\eastasianfont #1}}}}\newcommand{{\{OTHER}}}[1]{{{{\otherfont #1}}}}
\fi
"""
# Whether some text needs a font of the system → the programs that compile the document.
_ENGINES = {
    False: "Compile with pdflatex, lualatex or xelatex.",
    True: "Compile with lualatex or xelatex: some text needs a font of your system.",
}
_CHOOSE_FONT = "To choose the font, redefine these two commands:"
_OWN_FONTS = f"\\providecommand{{\\{EAST_ASIAN}}}[1]{{#1}}\\providecommand{{\\{OTHER}}}[1]{{#1}}"
MIDRULE = r"\midrule"
# About this many lines of a table fit on a page. A part that is still too high is scaled down by \fitted.
_MAX_LINES_PER_PAGE = 46
# A column with texts longer than this many characters becomes a column of paragraphs, 4 cm or 7 cm wide.
_LONG, _VERY_LONG = 36, 90
# LaTeX cannot read a path that contains any of these characters.
_NOT_IN_PATHS = frozenset("%#{}~^\\$&")


def document(chapters: Sequence[Chapter], pictures: Pictures | None = None) -> str:
    """Return a complete document; its first line says which program compiles it."""
    parts = [r"\section*{lmassay report}", rf"Written by lmassay {escape(lmassay.__version__)}."]
    for chapter in chapters:
        parts.append(rf"\section*{{{escape(chapter.title)}}}")
        for block in without_missing_figures(chapter.blocks, pictures or {}):
            parts += _block(block, pictures or {})
    body = "\n\n".join(parts)
    head = f"% {_ENGINES[needs_fonts(body)]}\n{_PREAMBLE}"
    if needs_fonts(body):
        head += _FONTS
    return f"{head}\\begin{{document}}\n{body}\n\\end{{document}}\n"


def fragment(chapters: Sequence[Chapter]) -> str:
    """Return only the tables, for the user's own document, with titles and captions as comments."""
    parts: list[str] = []
    for chapter in chapters:
        # The overview answers questions in sentences; it is too wide for a paper's column and repeats other tables.
        if not chapter.is_overview:
            parts += _fragments(chapter.title, chapter.blocks)
    return fragment_of(parts)


def fragment_of(parts: Sequence[str]) -> str:
    """Return tables and comments for the user's own document, after a comment that names the packages they need."""
    body = "\n".join(parts)
    head = ["% Needs \\usepackage{array,booktabs}. The interval is below each number."]
    if needs_fonts(body):
        head += [f"% {_ENGINES[True]} {_CHOOSE_FONT}", _OWN_FONTS]
    return "\n".join([*head, body]) + "\n"


def _fragments(title: str, blocks: Sequence[Block]) -> Iterator[str]:
    heading = title
    for block in blocks:
        if isinstance(block, Heading):
            heading = f"{title}: {block.text}"
        elif isinstance(block, Folded):
            yield from _fragments(f"{title}: {block.summary}", block.blocks)
        elif isinstance(block, Table):
            yield comment(heading)
            if block.caption:
                yield comment(block.caption)
            yield tabular(block)


def _block(block: Block, pictures: Pictures) -> Iterator[str]:
    match block:
        case Table():
            for rows in _pages(block):
                yield rf"\fitted{{\small {_tabular(block, rows)}}}"
            if block.caption:
                yield rf"{{\footnotesize {escape(block.caption)}\par}}"
        case Figures():
            for figure in block.figures:
                yield from _figure(figure, pictures)
        case Note():
            yield rf"{escape(breakable(block.text))}\par"
        case Heading():
            yield rf"\subsection*{{{escape(block.text)}}}"
        case Folded():
            inner: list[str] = []
            for part in block.blocks:
                inner += _block(part, pictures)
            if inner:
                yield rf"\subsubsection*{{{escape(block.summary)}}}"
                yield from inner
        case Examples() | Tiles():
            # Examples are on the page and in `lmassay export`; a table takes the place of tiles.
            return


def _figure(figure: Figure, pictures: Pictures) -> Iterator[str]:
    picture = pictures.get(figure.drawing)
    if picture is None:
        return
    yield rf"\fitted{{\includegraphics[scale=0.8]{{{_checked_path(picture.path)}}}}}"
    if figure.caption:
        yield rf"{{\footnotesize {escape(figure.caption)}\par}}"


def _checked_path(path: str) -> str:
    """Return the path; a UserError if LaTeX cannot read it."""
    unreadable = _NOT_IN_PATHS & set(path)
    if unreadable:
        characters = " ".join(sorted(unreadable))
        raise UserError(f"LaTeX cannot read a path that contains {characters}: {path}; choose another folder")
    return path


# --- tables -----------------------------------------------------------------------------------------------------------


def _pages(table: Table) -> Iterator[list[TableRow]]:
    """Yield the rows of a table in parts, each of which fits on a page."""
    page: list[TableRow] = []
    page_height = 0
    for row in _rows_of(table):
        if page and page_height + _height(row) > _MAX_LINES_PER_PAGE:
            yield page
            page = []
            page_height = 0
        page.append(row)
        page_height += _height(row)
    if page:
        yield page


def _rows_of(table: Table) -> list[TableRow]:
    rows: list[TableRow] = []
    for table_body in table.bodies:
        rows += table_body.rows
    return rows


def _height(row: TableRow) -> int:
    """Return the number of printed lines: one for the text, and one for each line of small print."""
    return 1 + max((len(cell.small) for cell in row.cells), default=0)


def tabular(table: Table) -> str:
    """Return a whole table, without its caption."""
    return _tabular(table, _rows_of(table))


def floating_table(table: Table, label: str = "") -> str:
    """Return a table as a float with its caption above, for the user's own document; ``label`` is for references."""
    lines = [r"\begin{table}[t]", r"\centering", rf"\caption{{{escape(table.caption)}}}"]
    if label:
        lines.append(rf"\label{{{_checked_label(label)}}}")
    text = "\n".join([*lines, tabular(table), r"\end{table}"])
    head = ["% Needs \\usepackage{array,booktabs}."]
    if needs_fonts(text):
        head += [f"% {_ENGINES[True]} {_CHOOSE_FONT}", _OWN_FONTS]
    return "\n".join([*head, text]) + "\n"


def _checked_label(label: str) -> str:
    if not re.fullmatch(r"[\w:./+-]+", label, flags=re.ASCII):
        raise UserError(f"--label {label}: use letters, digits and the characters : . / + - _")
    return label


def booktabs_table(columns: str, headers: Sequence[str], rows: Sequence[str]) -> str:
    """Put a booktabs table around header rows and other rows that are already LaTeX."""
    begin = rf"\begin{{tabular}}{{{columns}}}"
    end = r"\end{tabular}"
    return "\n".join([begin, r"\toprule", *headers, MIDRULE, *rows, r"\bottomrule", end])


def _tabular(table: Table, rows: Sequence[TableRow]) -> str:
    columns = _columns(table)
    headers = []
    for number, cells in enumerate(table.headers):
        headers.append(row_text(_header_cells(cells, len(columns))))
        is_last = number == len(table.headers) - 1
        # A negative span tells `rules` to draw no line: there is none under a cell without text.
        under = rules([cell.span if cell.text else -cell.span for cell in cells])
        if under and not is_last:
            headers.append(under)
    first_rows_apart: list[TableRow] = []
    for table_body in table.bodies:
        if table_body.apart and table_body.rows:
            first_rows_apart.append(table_body.rows[0])
    lines = []
    previous: TableRow | None = None
    for row in rows:
        if previous is not None:
            # Compared by identity, because two rows may have the same content.
            is_apart = any(row is first for first in first_rows_apart)
            borders_total = row.kind != previous.kind and "total" in (row.kind, previous.kind)
            if is_apart or borders_total:
                lines.append(MIDRULE)
            elif row.kind == "head":
                lines.append(r"\addlinespace")
        lines += _printed_lines(row, len(columns))
        previous = row
    return booktabs_table(" ".join(columns), headers, lines)


def _columns(table: Table) -> list[str]:
    """Return the LaTeX type of each column: numbers right-aligned, texts left-aligned, long texts as paragraphs."""
    kinds: list[str] = []
    if table.headers:
        for cell in table.headers[-1]:
            kinds += [cell.kind] * cell.span
    longest = [0] * len(kinds)
    for row in _rows_of(table):
        for column, cell in enumerate(_spread(row.cells, len(kinds))):
            for text in (cell.text, *cell.small):
                longest[column] = max(longest[column], len(text))
    columns = []
    for kind, length in zip(kinds, longest, strict=True):
        if kind == "num":
            columns.append("r")
        elif length <= _LONG:
            columns.append("l")
        else:
            width = 7 if length > _VERY_LONG else 4
            columns.append(rf">{{\raggedright\arraybackslash}}p{{{width}cm}}")
    return columns


def _header_cells(cells: Sequence[Cell], column_count: int) -> list[str]:
    texts = []
    for cell in cells:
        text = escape(cell.text)
        texts.append(spanning(text, cell.span) if cell.span > 1 else text)
    missing = column_count - sum(cell.span for cell in cells)
    return texts + [""] * missing


def spanning(text: str, columns: int) -> str:
    """Return a header cell above several columns; ``text`` is already LaTeX."""
    return rf"\multicolumn{{{columns}}}{{c}}{{{text}}}"


def rules(spans: Sequence[int]) -> str:
    """Return the rules under header cells that span several columns; a cell with a negative span has none.

    >>> print(rules([-1, 2, 2]))
    \\cmidrule(lr){2-3} \\cmidrule(lr){4-5}
    """
    commands = []
    first = 1
    for span in spans:
        if span > 1:
            commands.append(rf"\cmidrule(lr){{{first}-{first + span - 1}}}")
        first += abs(span)
    return " ".join(commands)


def _printed_lines(row: TableRow, column_count: int) -> list[str]:
    """Return a row as printed lines: the texts of its cells, followed by their small print."""
    cells = _spread(row.cells, column_count)
    texts = []
    for column, cell in enumerate(cells):
        text = _cell_text(cell.text, cell)
        if cell.bold:
            text = rf"\textbf{{{text}}}"
        if column == 0:
            text = _styled(text, row)
        texts.append(text)
    lines = [row_text(texts)]
    for number in range(_height(row) - 1):
        small_texts = []
        for cell in cells:
            small_text = ""
            if number < len(cell.small):
                small_text = _cell_text(cell.small[number], cell)
            if small_text:
                small_text = rf"{{\scriptsize {small_text}}}"
            small_texts.append(small_text)
        lines.append(row_text(small_texts))
    return lines


def _cell_text(text: str, cell: Cell) -> str:
    if cell.kind == "num":
        return escape(minus(text))
    return escape(breakable(text))


def _styled(text: str, row: TableRow) -> str:
    """Return the first cell of a row in the style of the row: a part is indented, a total or head is bold."""
    if row.kind == "part":
        return rf"\quad {text}"
    if text and row.kind in ("total", "head"):
        return rf"\textbf{{{text}}}"
    return text


def _spread(cells: Sequence[Cell], column_count: int) -> list[Cell]:
    """Return a cell for every column; a cell that spans several columns has its text in the first of them."""
    spread: list[Cell] = []
    for cell in cells:
        spread += [cell, *[Cell("")] * (cell.span - 1)]
    spread += [Cell("")] * (column_count - len(spread))
    return spread[:column_count]


def row_text(cells: Sequence[str]) -> str:
    """Return a row of cells that are already LaTeX."""
    first, *others = cells
    if first.startswith(("[", "*")):
        # LaTeX would read a bracket or a star as an option of the line break before it.
        first = f"{{}}{first}"
    return " & ".join([first, *others]) + r" \\"


# --- text: special characters are escaped, accented letters and symbols become commands -------------------------------

# With commands, accents, ρ, ± and – need no font encoding and no package. Other scripts need a font that pdfTeX does
# not have. They are put into one of two commands, so that the document can choose their font.

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
# The names of the letters from U+03B1 on. A point stands for omicron, which has no command.
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi . pi rho varsigma sigma tau upsilon phi "
    "chi psi omega"
)
_CAPITALS = {"Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma"}
_CAPITALS |= {"Φ": "Phi", "Ψ": "Psi", "Ω": "Omega"}
_MATHS = {chr(0x3B1 + position): name for position, name in enumerate(_GREEK.split()) if name != "."} | _CAPITALS
_MATHS |= {"±": "pm", "×": "times", "÷": "div", "≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx", "∞": "infty"}
_MATHS |= {"→": "rightarrow", "←": "leftarrow", "↑": "uparrow", "↓": "downarrow", "↔": "leftrightarrow", "○": "circ"}
_MATHS |= {
    "∈": "in",
    "∉": "notin",
    "∑": "sum",
    "√": "surd",
    "∅": "emptyset",
    "¬": "neg",
    "µ": "mu",
    "●": "bullet",
    "•": "bullet",
}
_SYMBOLS = {sign: rf"\ensuremath{{\{name}}}" for sign, name in _MATHS.items()}
_SYMBOLS |= {"−": r"\ensuremath{-}", "′": r"\ensuremath{{}^{\prime}}", "″": r"\ensuremath{{}^{\prime\prime}}"}
_SYMBOLS |= {"–": "--", "—": "---", "‐": "-", "‑": "-", "…": r"\ldots{}", "·": r"\ensuremath{\cdot}"}
_SYMBOLS |= {"“": "``", "”": "''", "‘": "`", "’": "'", "„": ",,", '"': "''"}
_SYMBOLS |= {"°": r"\ensuremath{^{\circ}}", "§": r"\S{}", "¶": r"\P{}", "©": r"\copyright{}", "£": r"\pounds{}"}
_SYMBOLS |= {
    "¿": "?`",
    "¡": "!`",
    "\N{NO-BREAK SPACE}": "~",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
    "␣": r"\textvisiblespace{}",
}
_SYMBOLS |= {"ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}"}
_SYMBOLS |= {"å": r"\aa{}", "Å": r"\AA{}", "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}"}
_SYMBOLS["□"] = r"\fbox{\rule{0pt}{1ex}\rule{1ex}{0pt}}"
_SYMBOLS["†"] = r"\ensuremath{^{\dagger}}"
_RAISED = dict(zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_SYMBOLS |= {sign: rf"\ensuremath{{^{{{plain}}}}}" for sign, plain in _RAISED.items()}
_SYMBOLS |= {sign: rf"\ensuremath{{_{{{plain}}}}}" for sign, plain in _LOWERED.items()}
_ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"', "\u0304": "=", "\u0307": "."}
_ACCENTS |= {"\u0306": "u", "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c", "\u0323": "d", "\u0331": "b"}
# Letters that have no dot under an accent, and the commands for their dotless forms.
_DOTLESS = {"i": r"\i", "j": r"\j"}
_LIGATURES = re.compile(r"-(?=-)|(?<=[?!])`|,(?=,)|'(?=')|`(?=`)|<(?=<)|>(?=>)")
_BREAK = "\N{ZERO WIDTH SPACE}"
_SYMBOLS[_BREAK] = r"\allowbreak{}"
_LONG_WORD = re.compile(r"\S{20,}")
_EAST_ASIAN = re.compile(r"HANGUL|CJK|HIRAGANA|KATAKANA|BOPOMOFO|IDEOGRAPHIC|FULLWIDTH|HALFWIDTH")


def escape_signs(text: str) -> str:
    """Escape LaTeX's special characters, and change nothing else."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def escape(text: str) -> str:
    """Return LaTeX that prints this text, in one line.

    >>> print(escape("50 % ± 2, naïve ρ, --all, 한국어"))
    50 \\% \\ensuremath{\\pm} 2, na\\"{\\i}ve \\ensuremath{\\rho}, -{}-all, \\eastasian{한국어}
    """
    printable = []
    for character in text:
        is_control = unicodedata.category(character) in ("Cc", "Zl", "Zp")
        printable.append(" " if is_control else character)
    one_line = " ".join(unicodedata.normalize("NFC", "".join(printable)).split())
    # A NUL stands for an empty group, which keeps two characters from becoming a ligature.
    separated = _LIGATURES.sub(r"\g<0>\0", one_line)
    pieces = []
    for command, characters in groupby(separated, _font_command):
        run = "".join(characters)
        if command:
            pieces.append(rf"\{command}{{{run}}}")
        else:
            pieces += [_character(character) for character in run]
    return "".join(pieces)


def breakable(text: str) -> str:
    """Allow line breaks after the punctuation inside long words.

    >>> breakable("a/b some/very/long/file/name.txt").count(_BREAK)
    5
    """
    return _LONG_WORD.sub(_with_breaks, text)


def _with_breaks(word: re.Match[str]) -> str:
    return re.sub(r"[^\w\s](?=.)", rf"\g<0>{_BREAK}", word[0])


def needs_fonts(text: str) -> bool:
    """Return True if LaTeX text contains characters that pdfTeX cannot print."""
    return f"\\{EAST_ASIAN}{{" in text or f"\\{OTHER}{{" in text


def comment(text: str) -> str:
    """Return a text as a comment in one line, because LaTeX would typeset what follows a line break."""
    characters = []
    for character in text:
        is_control = unicodedata.category(character)[0] == "C"
        characters.append(" " if is_control else character)
    return f"% {' '.join(''.join(characters).split())}"


def _font_command(character: str) -> str:
    """Return the command that a character needs around it: EAST_ASIAN, OTHER, or "" for none."""
    category = unicodedata.category(character)
    if character.isascii() or character in _SYMBOLS or category in ("Cf", "Cs", "Cn", "Co", "Zs"):
        return ""
    if _accented(character) is not None:
        return ""
    is_east_asian = _EAST_ASIAN.search(unicodedata.name(character, ""))
    return EAST_ASIAN if is_east_asian else OTHER


def _character(character: str) -> str:
    """Return a character as LaTeX: escaped, as a command, or a question mark if it cannot be printed."""
    if character == "\0":
        return "{}"
    if character in _SYMBOLS:
        return _SYMBOLS[character]
    if character.isascii():
        return escape_signs(character)
    category = unicodedata.category(character)
    if category == "Zs":
        return " "
    if category == "Cf":
        # Invisible characters are left out; some of them change the writing direction.
        return ""
    return _accented(character) or "?"


def _accented(character: str) -> str | None:
    """Return the accent command for a letter with one accent; None for any other character."""
    base, *accents = list(unicodedata.normalize("NFD", character))
    if not base.isascii() or len(accents) != 1 or accents[0] not in _ACCENTS:
        return None
    return rf"\{_ACCENTS[accents[0]]}{{{_DOTLESS.get(base, base)}}}"
