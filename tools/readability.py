"""Measure how easy code is to read, and print the figures next to those of well-kept projects.

The script informs; it never blocks. A clear line that misses a goal stays.

    python tools/readability.py                            # src/lmassay
    python tools/readability.py src/lmassay/statistics     # one package
    python tools/readability.py --worst 10                 # and the ten densest functions
    python tools/readability.py --reformat ../httpx/httpx  # another project, formatted to our line length first

Docstrings and blank lines do not count as code. Projects wrap their lines at different lengths, and a shorter line has
fewer tokens. Other projects are therefore formatted to our line length before they are measured, and tokens are also
counted per logical statement, which does not depend on line breaks at all.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LINE_LENGTH = 120
"""The line length of this project (see ``[tool.ruff]`` in pyproject.toml)."""

GOALS = {"tokens per line": 7.0, "inline per 100 lines": 5.0, "comment lines, %": 6.0, "duplicate classes": 0.0}
"""The values that we aim for. The share of comments is a lower bound, the others are upper bounds."""

INLINE_EXPRESSIONS = (
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.IfExp,
    ast.Lambda,
    ast.NamedExpr,
)

COLUMNS = (
    "code lines",
    "tokens per line",
    "tokens per statement",
    "inline per 100 lines",
    "comment lines, %",
    "duplicate classes",
)

FIELD = {
    "httpx ae1b9f66": (5167, 6.9, 10.6, 2.7, 8.7, 0),
    "sacrebleu f615c72": (4094, 6.4, 11.9, 2.6, 14.3, 0),
    "llm f3f4f29": (10250, 6.6, 9.8, 3.0, 7.9, 2),
    "inspect_ai 499e6152": (102612, 6.9, 9.5, 3.2, 16.0, 16),
    "lm-eval 4e7e0d47": (56533, 6.0, 10.1, 3.7, 8.0, 60),
}
"""What this script printed with --reformat for the packages of other projects, by project and commit."""

_LAYOUT = {
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.COMMENT,
}


@dataclass
class Function:
    """One function and how many inline expressions its lines contain."""

    location: str
    lines: int
    inline_expressions: int

    @property
    def density(self) -> float:
        """Inline expressions per line."""
        return self.inline_expressions / self.lines


@dataclass
class Measurement:
    """Counts over a set of files."""

    files: int = 0
    code_lines: int = 0
    statements: int = 0
    tokens: int = 0
    comment_lines: int = 0
    inline_expressions: int = 0
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    functions: list[Function] = field(default_factory=list)

    @property
    def duplicate_classes(self) -> dict[str, list[str]]:
        """Names that more than one class has, with the places where these are defined."""
        duplicates: dict[str, list[str]] = {}
        for name, locations in sorted(self.classes.items()):
            if len(locations) > 1:
                duplicates[name] = locations
        return duplicates

    def figures(self) -> dict[str, float]:
        """Return the figures of the printed table by the name of their column."""
        lines = max(self.code_lines, 1)
        values = (
            self.code_lines,
            round(self.tokens / lines, 1),
            round(self.tokens / max(self.statements, 1), 1),
            round(100 * self.inline_expressions / lines, 1),
            round(100 * self.comment_lines / lines, 1),
            len(self.duplicate_classes),
        )
        return dict(zip(COLUMNS, values, strict=True))


def measure(paths: Sequence[Path]) -> Measurement:
    """Measure all Python files at or below these paths."""
    measurement = Measurement()
    for file in _python_files(paths):
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source, filename=str(file))
        measurement.files += 1
        _count_tokens(source, _docstring_lines(tree), measurement)
        _count_syntax(tree, str(file), measurement)
    return measurement


def _python_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_file():
            yield path
        else:
            yield from sorted(path.rglob("*.py"))


def _docstring_lines(tree: ast.AST) -> set[int]:
    """Return the numbers of the lines of docstrings, that is, of strings that are statements."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _count_tokens(source: str, docstring_lines: set[int], measurement: Measurement) -> None:
    lines_with_code: set[int] = set()
    lines_with_comment: set[int] = set()
    statement_has_tokens = False
    # Since Python 3.12 an f-string is several tokens. It counts as one, so that all versions give the same figure.
    fstring_depth = 0
    fstring_start = getattr(tokenize, "FSTRING_START", None)
    fstring_end = getattr(tokenize, "FSTRING_END", None)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE and statement_has_tokens:
            measurement.statements += 1
            statement_has_tokens = False
        if token.type == tokenize.COMMENT:
            lines_with_comment.add(token.start[0])
        if token.type in _LAYOUT or token.start[0] in docstring_lines:
            continue
        lines_with_code.update(range(token.start[0], token.end[0] + 1))
        statement_has_tokens = True
        if token.type == fstring_end:
            fstring_depth -= 1
            continue
        if fstring_depth == 0:
            measurement.tokens += 1
        if token.type == fstring_start:
            fstring_depth += 1
    measurement.code_lines += len(lines_with_code)
    measurement.comment_lines += len(lines_with_comment)


def _count_syntax(tree: ast.AST, file: str, measurement: Measurement) -> None:
    for node in ast.walk(tree):
        if isinstance(node, INLINE_EXPRESSIONS):
            measurement.inline_expressions += 1
        elif isinstance(node, ast.ClassDef):
            measurement.classes[node.name].append(f"{file}:{node.lineno}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inline = 0
            for inner in ast.walk(node):
                inline += isinstance(inner, INLINE_EXPRESSIONS)
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            measurement.functions.append(Function(f"{file}:{node.lineno} {node.name}", lines, inline))


def measure_reformatted(paths: Sequence[Path]) -> Measurement:
    """Measure copies of these paths that ruff has formatted to our line length."""
    with tempfile.TemporaryDirectory() as folder:
        copies: list[Path] = []
        for number, path in enumerate(paths):
            copy = Path(folder) / str(number) / path.name
            copy.parent.mkdir()
            if path.is_dir():
                shutil.copytree(path, copy)
            else:
                shutil.copy(path, copy)
            copies.append(copy)
        # "magic trailing commas" would keep calls exploded that fit on a line.
        options = ["--isolated", f"--line-length={LINE_LENGTH}", "--config=format.skip-magic-trailing-comma=true"]
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", *options, folder], check=True)
        return measure(copies)


def print_table(ours: dict[str, float]) -> None:
    """Print our figures, the goals and the figures of other projects."""
    rows: dict[str, dict[str, float]] = {"this code": ours, "goal": GOALS}
    for name, values in FIELD.items():
        rows[name] = dict(zip(COLUMNS, values, strict=True))
    header = ["project".ljust(20)]
    for column in COLUMNS:
        header.append(column.rjust(len(column) + 1))
    print(" ".join(header))
    for name, figures in rows.items():
        cells = [name.ljust(20)]
        for column in COLUMNS:
            text = f"{figures[column]:,.6g}" if column in figures else ""
            cells.append(text.rjust(len(column) + 1))
        print(" ".join(cells))


def print_worst(measurement: Measurement, limit: int) -> None:
    """Print the functions with the most inline expressions per line."""
    candidates = [function for function in measurement.functions if function.inline_expressions >= 4]
    candidates.sort(key=lambda function: function.density, reverse=True)
    print(f"\nDensest functions (inline expressions in lines), {min(limit, len(candidates))} of {len(candidates)}:")
    for function in candidates[:limit]:
        print(f"  {function.inline_expressions:3} in {function.lines:3}  {function.location}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(description="Measure how easy Python code is to read.")
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("src/lmassay")], help="files or folders")
    parser.add_argument("--reformat", action="store_true", help="format a copy to our line length first")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="also list the N densest functions")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    for path in options.paths:
        if not path.exists():
            parser.error(f"{path} does not exist")
    measurement = measure_reformatted(options.paths) if options.reformat else measure(options.paths)
    if options.json:
        print(json.dumps(measurement.figures()))
        return
    print_table(measurement.figures())
    for name, locations in measurement.duplicate_classes.items():
        print(f"duplicate class {name}: {', '.join(locations)}")
    if options.worst:
        print_worst(measurement, options.worst)


if __name__ == "__main__":
    main()
