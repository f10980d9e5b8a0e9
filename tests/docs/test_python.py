"""The page about Python is one program, and it prints what it shows; the notebooks run from top to bottom."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import blocks_of, page_text
from tests.helpers import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def as_pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.strip().split("…"))


def test_the_page_about_python_prints_what_it_shows(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    blocks = blocks_of(page_text("docs/python.md"), "docs/python.md")
    assert len([block for block in blocks if block.language == "python"]) > 5
    for block in blocks:
        if block.language == "python":
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(block.text, block.where, "exec"), namespace)
            printed = stream.getvalue()
        elif block.language == "text":
            shown = block.text.strip().splitlines()
            lines = printed.strip().splitlines()
            assert len(shown) == len(lines), (block.where, printed)
            for expected, line in zip(shown, lines, strict=True):
                assert re.fullmatch(as_pattern(expected), line.strip()), (block.where, printed)


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    return json.loads(notebook.read_text(encoding="utf-8"))["cells"]


def outputs_of(notebook: Path) -> list[str]:
    """Run the code of a notebook while an event loop is running, and return what its cells show as HTML or text."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    shown: list[str] = []

    async def run_cells() -> None:
        for cell in cells_of(notebook):
            if cell["cell_type"] != "code":
                continue
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, notebook.name, "exec"), namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), notebook.name, "eval"), namespace)
                shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))

    asyncio.run(run_cells())
    return shown


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs_and_linked(notebook):
    for cell in cells_of(notebook):
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert f"(notebooks/{notebook.name})" in page_text("docs/python.md")


def test_there_is_a_notebook_for_each_evaluation():
    from lmassay.plugins.evaluations import evaluations

    names = {evaluation.name for evaluation in evaluations() if evaluation.card is not None}
    assert {notebook.stem for notebook in NOTEBOOKS} == names


def test_the_notebook_about_bias_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = outputs_of(ROOT / "docs" / "notebooks" / "bias.ipynb")
    assert any("never_sure" in output and "accuracy_amb" in output and "<img" in output for output in shown)


def test_the_notebook_about_few_shot_learning_runs(tmp_path, monkeypatch):
    import lmassay

    monkeypatch.chdir(tmp_path)
    outputs_of(ROOT / "docs" / "notebooks" / "fewshot.ipynb")
    without, with_examples = lmassay.load()
    assert without["acc"].value == 0.5
    assert with_examples["acc"].value > 0.5


def test_the_notebook_about_syntax_asks_a_local_model_while_an_event_loop_runs(tmp_path, monkeypatch, smollm2):
    import lmassay

    monkeypatch.chdir(tmp_path)
    outputs_of(ROOT / "docs" / "notebooks" / "syntax.ipynb")
    assert lmassay.load().where(task="syntax")[0]["tse"].value == 1


def test_the_notebook_about_robustness_runs_in_a_kernel(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    import nbformat

    notebook = nbformat.read(ROOT / "docs" / "notebooks" / "robustness.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    text = ""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            text += output.get("data", {}).get("text/html", "")
    assert "charswap on word_by_word" in text
    assert text.count("data:image/svg+xml") >= 3
    assert (tmp_path / "robustness.html").is_file()
