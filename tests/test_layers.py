"""The shape of the package: imports flow one way, heavy libraries stay in their rooms, nothing dangerous is called."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lmassay
from tests.helpers import ROOT

SOURCE = ROOT / "src" / "lmassay"
FILES = sorted(SOURCE.rglob("*.py"))

# From the bottom up; a module may import from its own layer and those before it.
LAYERS = [
    ("types", "errors", "builtins"),
    (
        "registry",
        "options",
        "table",
        "data",
        "yamlfile",
        "stats",
        "combination",
        "budget",
        "caching",
        "locks",
        "provenance",
        "contracts",
    ),
    ("models",),
    ("robustness", "syntax", "bias", "fewshot"),
    ("store", "schema", "records", "config", "executors"),
    (
        "planning",
        "runner",
        "sweep",
        "comparison",
        "condition",
        "doubts",
        "flips",
        "gate",
        "moves",
        "pooling",
        "sweep_pairs",
    ),
    ("card",),
    ("report", "interchange"),
    ("api",),
    ("cli", "__main__"),
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
ROOMS = {"robustness", "syntax", "bias", "fewshot"}
# Library → the only places that may import it.
HOMES = {
    "torch": ("models/hf/", "fewshot/methods/"),
    "transformers": ("models/hf/", "fewshot/methods/"),
    "peft": ("fewshot/methods/lora.py",),
    "sklearn": ("fewshot/methods/",),
    "safetensors": ("models/hf/", "fewshot/methods/"),
    "distributed": ("executors.py",),
    "optuna": ("cli/search.py",),
    "gguf": ("models/hf/",),
    "huggingface_hub": ("models/hf/", "cli/models.py"),
    "matplotlib": ("report/",),
    "typst": ("report/figure_images.py",),
    "sentence_transformers": ("robustness/scorers/semantic.py",),
    "numba": ("robustness/kernels/",),
    "jinja2": ("report/",),
    "click": ("cli/",),
    "rich": ("cli/",),
    "httpx2": ("models/api/",),
    "openai": ("models/api/openai_sdk.py",),
    "anthropic": ("models/api/anthropic_sdk.py",),
    "datasette": ("interchange/viewer.py",),
    "uvicorn": ("interchange/viewer.py",),
    "pandas": ("interchange/frames.py", "api.py"),
    "polars": ("interchange/frames.py", "api.py"),
    "sqlite3": ("store.py", "locks.py", "cli/completion.py", "cli/doctor.py"),
}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= (
                {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "lmassay" else {node.module}
            )
    return found


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    "path", [p for p in FILES if p != SOURCE / "__init__.py"], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_imports_flow_one_way(path):
    here = layer_of(path)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "lmassay" and len(parts) > 1 and parts[1] in LEVEL:
            assert LEVEL[parts[1]] <= LEVEL[here], f"{here} imports {name}"
            assert not ({here, parts[1]} <= ROOMS and here != parts[1]), "evaluation rooms do not import each other"


@pytest.mark.parametrize("library", HOMES)
def test_a_heavy_library_is_imported_in_its_home_only(library):
    for path in FILES:
        if any(name.split(".")[0] == library for name in imports(path)):
            place = path.relative_to(SOURCE).as_posix()
            assert place.startswith(HOMES[library]), f"{place} imports {library}"


def test_nothing_is_executed_or_unpickled():
    forbidden = re.compile(r"(?<![\w.])(eval|exec)\(|pickle|shell=True|yaml\.load\(|torch\.load\(|os\.system")
    for path in FILES:
        assert not forbidden.search(path.read_text(encoding="utf-8")), path


def test_no_file_is_too_long_to_read_in_one_sitting():
    for path in FILES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path


def test_nothing_prints_outside_the_command_line():
    for path in FILES:
        if layer_of(path) not in ("cli", "report"):
            assert not re.search(r"(?<![\w.])print\(", path.read_text(encoding="utf-8")), path


def test_the_public_face_is_what_it_says():
    assert sorted(lmassay.__all__) == sorted(lmassay._HOMES)
    for name in lmassay.__all__:
        assert getattr(lmassay, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lmassay.nothing


def test_importing_lmassay_loads_nothing_heavy():
    heavy = {"torch", "scipy", "numpy", "pydantic", "sacrebleu", "numba", "click", "rich", "httpx2"}
    code = f"import sys, lmassay; print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("arguments", [["--help"], ["ls", "--help"], ["scorers"], ["teapot", "-h"], ["doctor"]])
def test_light_commands_do_not_load_torch_or_scipy(arguments):
    code = (
        "import sys\nfrom lmassay.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('LOADED ' + ' '.join(sorted({'torch', 'scipy', 'numba'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.rpartition("LOADED ")[2].strip() == ""
