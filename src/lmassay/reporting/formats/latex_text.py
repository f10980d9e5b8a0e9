"""Text as every LaTeX prints it: signs of its own are escaped, letters and symbols become commands.

So accents, ρ, ± and – need no font encoding and no package. Other scripts need a font, which pdfTeX has not: they are
set apart by two commands, so that a document can give them one.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

EAST_ASIAN, OTHER = "eastasian", "otherscript"
"""The commands around text that needs a font."""

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
    """Text for a line that begins with a percent sign."""
    return " ".join("".join(" " if unicodedata.category(sign)[0] == "C" else sign for sign in text).split())


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
