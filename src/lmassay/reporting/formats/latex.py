"""A report as LaTeX: a document to compile, or its tables alone to put into one's own. Tables are booktabs'."""

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
from lmassay.reporting.formats.content import Chapter, Pictures

EAST_ASIAN, OTHER = "eastasian", "otherscript"
"""The commands around text that needs a font."""

_PREAMBLE = r"""\documentclass[10pt,a4paper]{article}
\usepackage[margin=18mm]{geometry}
\usepackage{array,booktabs,graphicx,iftex}
\newsavebox{\fittedbox}
% As large as it is, or smaller where the page is.
\newcommand{\fitted}[1]{\sbox{\fittedbox}{#1}%
  \ifdim\wd\fittedbox>\linewidth\sbox{\fittedbox}{\resizebox{\linewidth}{!}{\usebox{\fittedbox}}}\fi
  \ifdim\dimexpr\ht\fittedbox+\dp\fittedbox\relax>0.9\textheight
    \sbox{\fittedbox}{\resizebox*{!}{0.9\textheight}{\usebox{\fittedbox}}}\fi
  \par\noindent\usebox{\fittedbox}\par\medskip}
\setlength{\parindent}{0pt}\setlength{\parskip}{4pt}\raggedright
"""
_FONTS = rf"""\ifPDFTeX
  \errmessage{{This report has text in it that needs a font of your system: compile it with lualatex or xelatex}}
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
_ENGINES = {
    False: "Compile with pdflatex, lualatex or xelatex.",
    True: "Compile with lualatex or xelatex: there is text in it that needs a font of your system.",
}
_OWN_FONTS = f"\\providecommand{{\\{EAST_ASIAN}}}[1]{{#1}}\\providecommand{{\\{OTHER}}}[1]{{#1}}"
MIDRULE = r"\midrule"
_MOST_ROWS = 46
_LONG, _VERY_LONG = 36, 90
_NO_PATH = frozenset("%#{}~^\\$&")


def document(chapters: Sequence[Chapter], pictures: Pictures | None = None) -> str:
    """A document of its own, which says what it must be compiled with."""
    parts = [r"\section*{lmassay report}", rf"Written by lmassay {escape(lmassay.__version__)}."]
    for chapter in chapters:
        parts.append(rf"\section*{{{escape(chapter.title)}}}")
        parts += [text for block in chapter.blocks for text in _block(block, pictures or {})]
    body = "\n\n".join(parts)
    fonts = needs_fonts(body)
    head = f"% {_ENGINES[fonts]}\n{_PREAMBLE}{_FONTS if fonts else ''}"
    return f"{head}\\begin{{document}}\n{body}\n\\end{{document}}\n"


def fragment(chapters: Sequence[Chapter]) -> str:
    """The tables alone, each whole, with what is said of it in comments."""
    return fragment_of([text for chapter in chapters for text in _fragments(chapter.title, chapter.blocks)])


def fragment_of(parts: Sequence[str]) -> str:
    """Tables and comments for a document of one's own, headed by what that document needs."""
    body = "\n".join(parts)
    head = ["% Needs \\usepackage{array,booktabs}. Below each number its interval."]
    if needs_fonts(body):
        head += [f"% {_ENGINES[True]} Redefine the two commands to choose it.", _OWN_FONTS]
    return "\n".join([*head, body]) + "\n"


def _fragments(title: str, blocks: Sequence[Block]) -> Iterator[str]:
    under = title
    for block in blocks:
        if isinstance(block, Heading):
            under = f"{title}: {block.text}"
        elif isinstance(block, Folded):
            yield from _fragments(f"{title}: {block.summary}", block.blocks)
        elif isinstance(block, Table):
            yield comment(under)
            yield from ([comment(block.caption)] if block.caption else [])
            yield tabular(block)


def _block(block: Block, pictures: Pictures) -> Iterator[str]:
    match block:
        case Table():
            for lines in _pages(block):
                yield rf"\fitted{{\small {_tabular(block, lines)}}}"
            if block.caption:
                yield rf"{{\footnotesize {escape(block.caption)}\par}}"
        case Figures():
            yield from (text for figure in block.figures for text in _figure(figure, pictures))
        case Note():
            yield rf"{escape(breakable(block.text))}\par"
        case Heading():
            yield rf"\subsection*{{{escape(block.text)}}}"
        case Folded():
            inner = [text for part in block.blocks for text in _block(part, pictures)]
            if inner:
                yield rf"\subsubsection*{{{escape(block.summary)}}}"
                yield from inner
        case Examples() | Tiles():
            # Texts to read are on the page, and all of them come by `lmassay export`; a table stands for tiles.
            return


def _figure(figure: Figure, pictures: Pictures) -> Iterator[str]:
    if picture := pictures.get(figure.drawing):
        yield rf"\fitted{{\includegraphics[scale=0.8]{{{_readable(picture.path)}}}}}"
        if figure.caption:
            yield rf"{{\footnotesize {escape(figure.caption)}\par}}"


def _readable(path: str) -> str:
    """A path that LaTeX can read."""
    if found := _NO_PATH & set(path):
        raise UserError(f"LaTeX cannot read a path with {' '.join(sorted(found))} in it: {path}; choose another folder")
    return path


# --- tables -----------------------------------------------------------------------------------------------------------


def _pages(table: Table) -> Iterator[list[TableRow]]:
    """The lines of a table in as many parts as have room on a page each."""
    page: list[TableRow] = []
    rows = 0
    for line in (line for body in table.bodies for line in body.lines):
        if page and rows + _rows(line) > _MOST_ROWS:
            yield page
            page, rows = [], 0
        page.append(line)
        rows += _rows(line)
    if page:
        yield page


def _rows(line: TableRow) -> int:
    return 1 + max((len(cell.small) for cell in line.cells), default=0)


def tabular(table: Table) -> str:
    """A whole table, without its caption."""
    return _tabular(table, [line for body in table.bodies for line in body.lines])


def frame(columns: str, heads: Sequence[str], rows: Sequence[str]) -> str:
    """booktabs' frame around rows that are LaTeX already."""
    begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([begin, r"\toprule", *heads, MIDRULE, *rows, r"\bottomrule", end])


def _tabular(table: Table, lines: Sequence[TableRow]) -> str:
    columns = _columns(table)
    heads = []
    for number, cells in enumerate(table.heads):
        heads.append(row(_head_cells(cells, len(columns))))
        under = rules([cell.span if cell.text else -cell.span for cell in cells])
        heads += [under] if under and number < len(table.heads) - 1 else []
    below_a_rule = [body.lines[0] for body in table.bodies if body.apart and body.lines]
    rows = []
    before = None
    for line in lines:
        is_apart = any(line is first for first in below_a_rule)
        if before is not None and (is_apart or (line.kind != before.kind and "total" in (line.kind, before.kind))):
            rows.append(MIDRULE)
        elif before is not None and line.kind == "head":
            rows.append(r"\addlinespace")
        rows += _line(line, len(columns))
        before = line
    return frame(" ".join(columns), heads, rows)


def _columns(table: Table) -> list[str]:
    """To the left, to the right, or a paragraph where texts are long."""
    last = table.heads[-1] if table.heads else []
    kinds = ["r" if cell.kind == "num" else "l" for cell in last for _ in range(cell.span)]
    longest = [0] * len(kinds)
    for line in (line for body in table.bodies for line in body.lines):
        for place, cell in enumerate(_spread(line.cells, len(kinds))):
            longest[place] = max([longest[place], *map(len, [cell.text, *cell.small])])
    return [
        kind
        if kind == "r" or long <= _LONG
        else rf">{{\raggedright\arraybackslash}}p{{{7 if long > _VERY_LONG else 4}cm}}"
        for kind, long in zip(kinds, longest, strict=True)
    ]


def _head_cells(row: Sequence[Cell], columns: int) -> list[str]:
    cells = []
    for cell in row:
        text = escape(cell.text)
        cells.append(spanning(text, cell.span) if cell.span > 1 else text)
    return [*cells, *[""] * (columns - sum(cell.span for cell in row))]


def spanning(text: str, columns: int) -> str:
    """A cell above several columns."""
    return rf"\multicolumn{{{columns}}}{{c}}{{{text}}}"


def rules(spans: Sequence[int]) -> str:
    """Lines under cells that stand above several columns; a negative span has none.

    >>> print(rules([-1, 2, 2]))
    \\cmidrule(lr){2-3} \\cmidrule(lr){4-5}
    """
    found, first = [], 1
    for span in spans:
        if span > 1:
            found.append(rf"\cmidrule(lr){{{first}-{first + span - 1}}}")
        first += abs(span)
    return " ".join(found)


def _line(line: TableRow, columns: int) -> list[str]:
    """A row of texts, and one of small print for each line of it."""
    cells = _spread(line.cells, columns)
    texts = [_set(escape(_written(cell.text, cell)), line, place) for place, cell in enumerate(cells)]
    rows = [row(texts)]
    for number in range(_rows(line) - 1):
        small = [escape(_written(cell.small[number], cell)) if number < len(cell.small) else "" for cell in cells]
        rows.append(row([rf"{{\scriptsize {text}}}" if text else "" for text in small]))
    return rows


def _written(text: str, cell: Cell) -> str:
    return minus(text) if cell.kind == "num" else breakable(text)


def _set(text: str, line: TableRow, place: int) -> str:
    if place == 0 and line.kind == "part":
        return rf"\quad {text}"
    return rf"\textbf{{{text}}}" if text and place == 0 and line.kind in ("total", "head") else text


def _spread(row: Sequence[Cell], columns: int) -> list[Cell]:
    """A cell for every column; one that spans several has its text in the first."""
    cells = [cell if n == 0 else Cell("") for cell in row for n in range(cell.span)]
    return [*cells, *[Cell("")] * (columns - len(cells))][:columns]


def row(cells: Sequence[str]) -> str:
    """A row of cells that are LaTeX already."""
    # A bracket at the beginning of a row would be read as an option of the line break before it.
    first, *rest = cells
    return " & ".join([f"{{}}{first}" if first.startswith(("[", "*")) else first, *rest]) + r" \\"


# --- text: signs of LaTeX's own are escaped, letters and symbols become commands --------------------------------------

# So accents, ρ, ± and – need no font encoding and no package. Other scripts need a font, which pdfTeX has not: they are
# set apart by two commands, so that a document can give them one.

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
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi . pi rho varsigma sigma tau upsilon phi "
    "chi psi omega"
)
_CAPITALS = {"Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma"}
_CAPITALS |= {"Φ": "Phi", "Ψ": "Psi", "Ω": "Omega"}
_MATHS = {chr(0x3B1 + place): name for place, name in enumerate(_GREEK.split()) if name != "."} | _CAPITALS
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
_RAISED = dict(zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_SYMBOLS |= {sign: rf"\ensuremath{{^{{{plain}}}}}" for sign, plain in _RAISED.items()}
_SYMBOLS |= {sign: rf"\ensuremath{{_{{{plain}}}}}" for sign, plain in _LOWERED.items()}
_ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"', "\u0304": "=", "\u0307": "."}
_ACCENTS |= {"\u0306": "u", "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c", "\u0323": "d", "\u0331": "b"}
# Letters that lose their dot under an accent.
_DOTLESS = {"i": r"\i", "j": r"\j"}
_LIGATURES = re.compile(r"-(?=-)|(?<=[?!])`|,(?=,)|'(?=')|`(?=`)|<(?=<)|>(?=>)")
_BREAK = "\N{ZERO WIDTH SPACE}"
_SYMBOLS[_BREAK] = r"\allowbreak{}"
_LONG_WORD = re.compile(r"\S{20,}")
_EAST_ASIAN = re.compile(r"HANGUL|CJK|HIRAGANA|KATAKANA|BOPOMOFO|IDEOGRAPHIC|FULLWIDTH|HALFWIDTH")


def escape_signs(text: str) -> str:
    """Text with the characters that LaTeX gives a meaning escaped, and nothing else changed."""
    return "".join(_SPECIAL.get(sign, sign) for sign in text)


def escape(text: str) -> str:
    """Text as LaTeX prints it, in one line.

    >>> print(escape("50 % ± 2, naïve ρ, --all, 한국어"))
    50 \\% \\ensuremath{\\pm} 2, na\\"{\\i}ve \\ensuremath{\\rho}, -{}-all, \\eastasian{한국어}
    """
    shown = "".join(" " if unicodedata.category(sign) in ("Cc", "Zl", "Zp") else sign for sign in text)
    held = _LIGATURES.sub(r"\g<0>\0", " ".join(unicodedata.normalize("NFC", shown).split()))
    pieces = []
    for kind, signs in groupby(held, _kind):
        run = "".join(signs)
        pieces.append("".join(map(_sign, run)) if kind == "" else rf"\{kind}{{{run}}}")
    return "".join(pieces)


def breakable(text: str) -> str:
    """Text whose long words may be broken behind their signs.

    >>> breakable("a/b some/very/long/file/name.txt").count(_BREAK)
    5
    """
    return _LONG_WORD.sub(lambda word: re.sub(r"[^\w\s](?=.)", rf"\g<0>{_BREAK}", word[0]), text)


def minus(text: str) -> str:
    """A number with a true minus sign."""
    return re.sub(r"(?<![\w.-])-(?=\d)", "−", text)


def needs_fonts(text: str) -> bool:
    """True if LaTeX text has signs in it that pdfTeX cannot print."""
    return f"\\{EAST_ASIAN}{{" in text or f"\\{OTHER}{{" in text


def comment(text: str) -> str:
    """A comment on one line, whatever the text contains: what follows a line break would be typeset."""
    words = "".join(" " if unicodedata.category(sign)[0] == "C" else sign for sign in text).split()
    return f"% {' '.join(words)}"


def _kind(sign: str) -> str:
    """Which command a sign needs around it: none, that of East Asian text, that of all other."""
    if sign.isascii() or sign in _SYMBOLS or unicodedata.category(sign) in ("Cf", "Cs", "Cn", "Co"):
        return ""
    if _accented(sign) is not None or unicodedata.category(sign) == "Zs":
        return ""
    return EAST_ASIAN if _EAST_ASIAN.search(unicodedata.name(sign, "")) else OTHER


def _sign(sign: str) -> str:
    if sign == "\0":
        return "{}"
    if sign in _SYMBOLS:
        return _SYMBOLS[sign]
    if sign.isascii():
        return escape_signs(sign)
    category = unicodedata.category(sign)
    if category == "Zs":
        return " "
    # Signs without a shape, which may turn the direction of writing, are left out; what is no character is a question.
    return _accented(sign) or ("" if category == "Cf" else "?")


def _accented(sign: str) -> str | None:
    base, *accents = list(unicodedata.normalize("NFD", sign))
    if not base.isascii() or len(accents) != 1 or accents[0] not in _ACCENTS:
        return None
    return rf"\{_ACCENTS[accents[0]]}{{{_DOTLESS.get(base, base)}}}"
