"""The inputs of ``figures/teapot/cases.jsonl``: beginnings and forms of TEAPOT's published examples."""

from __future__ import annotations

from pathlib import Path

_FILES = {
    "src": "src.fr",
    "adv": "adv.charswap.fr",
    "out": "base.en",
    "aout": "adv.charswap.en",
    "ref": "ref.en",
}
_LENGTHS = (1, 2, 3, 19, 20, 21, 100, 999)
# Lines that are empty, counted from 0.
_BLANKS = {
    "blank.src": (0, 1),
    "blank.adv": (1, 2),
    "blank.out": (3, 4),
    "blank.aout": (4, 5),
    "blank.ref": (4, 6),
    "blankout.out": (4,),
    "blankaout.aout": (4,),
}
# Texts that were written for the cases.
_OWN = {
    "allblank.src": "\n" * 10,
    "empty.src": "",
    "case.src": "The black cat sat on the mat\n" * 3,
    "case.adv": "THE BLACK CAT SAT ON THE MAT\n" * 3,
    "spaces.src": "the black cat sat on the mat\n" * 3,
    "spaces.adv": "th e bl ackc atsa ton th ema t\n" * 3,
    "short.src": "a\nab\nabc\nabcdef\nx\n\né\n日本語\nabc\n",
    "short.adv": "a\nab\nabd\nabcdeg\ny\n\ne\n日本人\n\n",
    "nfc.src": "\N{LATIN SMALL LETTER E WITH ACUTE}" * 10 + "\n",
    "nfd.src": "e\N{COMBINING ACUTE ACCENT}" * 10 + "\n",
}


def write_inputs(examples: Path, folder: Path) -> None:
    """Write all inputs, made from ``examples/MT``."""
    lines: dict[str, list[str]] = {}
    for role, name in _FILES.items():
        text = (examples / "MT" / name).read_text(encoding="utf-8")
        lines[role] = text.split("\n")
    contents: dict[str, bytes] = {name: text.encode() for name, text in _OWN.items()}
    for role in _FILES:
        contents[f"ten.{role}"] = _text(lines[role][:10])
        for count in _LENGTHS:
            contents[f"n{count}.{role}"] = _text(lines[role][:count])
    for name, blanks in _BLANKS.items():
        ten = lines[name.partition(".")[2]][:10]
        contents[name] = _text(["" if number in blanks else line for number, line in enumerate(ten)])
    contents |= _forms(lines["src"][:10])
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _forms(ten: list[str]) -> dict[str, bytes]:
    """Ten lines in other encodings, with other line ends and with more white space."""
    plain = _text(ten)
    # The first blank of the fourth line.
    broken = [line.replace(" ", "\r", 1) if number == 3 else line for number, line in enumerate(ten)]
    separated = [line.replace(" ", "\u2028", 1) if number == 3 else line for number, line in enumerate(ten)]
    return {
        "bom.src": b"\xef\xbb\xbf" + plain,
        "crlf.src": plain.replace(b"\n", b"\r\n"),
        "cr.src": plain.replace(b"\n", b"\r"),
        "nonl.src": plain.removesuffix(b"\n"),
        "latin1.src": plain.decode().encode("latin-1", "replace"),
        "lead.src": _text([f"  {line}" for line in ten]),
        "trail.src": _text([f"{line} \t\u00a0\u3000" for line in ten]),
        "lonecr.src": _text(broken),
        "u2028.src": _text(separated),
    }
