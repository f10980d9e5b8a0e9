"""The shape of the package: imports flow one way, heavy libraries stay in their rooms, nothing dangerous is called."""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import lmassay
from lmassay.contracts import resolve
from lmassay.plugins.evaluations import evaluations, installed_evaluations
from tests.helpers import ROOT

SOURCE = ROOT / "src" / "lmassay"
# Samples and starters are not part of the package: they are files that `lmassay init` writes for a user.
FILES = sorted(path for path in SOURCE.rglob("*.py") if not {"sample", "starters"} & set(path.parent.parts))

# From the bottom up; a module may import from its own layer and those before it.
LAYERS = [
    ("types", "errors", "redaction", "moved", "budget"),
    ("contracts", "plugins", "statistics", "storage", "answers", "datasets"),
    ("models",),
    ("evaluations",),
    ("running",),
    ("interchange",),
    ("reporting",),
    ("api",),
    ("view",),
    ("cli", "__main__"),
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Parts of an evaluation that show its results, bring its commands, or deal with the formats of others: they stand
# above the core, while everything else of an evaluation stands below the runner.
UPPER_PARTS = re.compile(
    r"(report|texts|card|commands|export|lm_eval_import|doctor|reading|reproduce"
    r"|refining_tse|fewnlu|search_space|kobbq|teapot)\b"
)
# Library → the only places that may import it.
_FEWSHOT = "evaluations/fewshot"
_ROBUSTNESS = "evaluations/robustness"
HOMES = {
    "torch": ("models/hf/", f"{_FEWSHOT}/methods/"),
    "transformers": ("models/hf/", f"{_FEWSHOT}/methods/"),
    "peft": (f"{_FEWSHOT}/methods/adapters.py", f"{_FEWSHOT}/methods/lora.py"),
    "sklearn": (f"{_FEWSHOT}/methods/",),
    "safetensors": ("models/hf/", f"{_FEWSHOT}/methods/"),
    "distributed": ("running/executors.py", "running/worker_process.py"),
    "optuna": (f"{_FEWSHOT}/commands/actions/search.py",),
    "gguf": ("models/hf/",),
    "huggingface_hub": ("models/hf/", "cli/actions/models.py"),
    "typst": ("reporting/typesetting.py",),
    "sentence_transformers": (f"{_ROBUSTNESS}/scorers/semantic.py",),
    "numba": (f"{_ROBUSTNESS}/kernels/",),
    "jinja2": ("reporting/", "view/"),
    "httpx2": ("models/api/", "datasets/download.py"),
    "datasette": ("interchange/viewer.py",),
    "starlette": ("view/",),
    "uvicorn": ("interchange/viewer.py", "view/server.py"),
    "pandas": ("interchange/frames.py", "api/"),
    "polars": ("interchange/frames.py", "api/"),
    "sqlite3": ("storage/", "cli/completion.py", "cli/actions/doctor.py"),
}
EVALUATIONS = sorted(folder.name for folder in (SOURCE / "evaluations").iterdir() if (folder / "__init__.py").is_file())
# The command line's own libraries.
HOMES |= dict.fromkeys(("click", "rich"), ("cli/", *(f"evaluations/{name}/commands" for name in EVALUATIONS)))


@dataclasses.dataclass
class Facts:
    """What the tests want to know of a file."""

    imports: set[str] = dataclasses.field(default_factory=set)
    words: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    """Every text that is one word, with its line."""
    first_imports: list[ast.Import | ast.ImportFrom] = dataclasses.field(default_factory=list)
    """The statements that are executed when the module is imported."""


@cache
def facts(path: Path) -> Facts:
    """Read a file, which takes milliseconds, once for all tests."""
    found = Facts()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found.first_imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.imports |= (
                {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "lmassay" else {node.module}
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            found.words.append((node.lineno, node.value))
    return found


def imports(path: Path) -> set[str]:
    return facts(path).imports


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def level_of(path: Path) -> int:
    parts = path.relative_to(SOURCE).parts
    if parts[0] == "evaluations" and len(parts) > 2 and (parts[1] == "imported" or UPPER_PARTS.match(parts[2])):
        return LEVEL["cli"]
    return LEVEL[layer_of(path)]


def test_imports_flow_one_way():
    problems = []
    for path in FILES:
        if path == SOURCE / "__init__.py":
            continue
        here = path.relative_to(SOURCE).parts
        for name in imports(path):
            parts = name.split(".")
            if parts[0] != "lmassay" or len(parts) < 2 or parts[1] not in LEVEL:
                continue
            if LEVEL[parts[1]] > level_of(path):
                problems.append(f"{'/'.join(here)} imports {name}")
            if here[0] == parts[1] == "evaluations" and len(parts) > 2 and parts[2] != here[1]:
                problems.append(f"{'/'.join(here)} imports {name}: evaluations do not import each other")
    assert not problems


def names_of_evaluations_and_tasks() -> set[str]:
    names: set[str] = set()
    for evaluation in evaluations():
        names |= {evaluation.name, *evaluation.tasks}
    return names


def test_the_core_knows_no_evaluation():
    """Neither by import nor by name; the public re-exports and the table of old paths are excepted."""
    names = names_of_evaluations_and_tasks()
    assert {"robustness", "syntax", "bias", "fewshot", "minimal_pairs"} <= names
    assert not any(" " in name for name in names)
    problems = []
    for path in FILES:
        if layer_of(path) in ("evaluations", "__init__", "moved"):
            continue
        place = path.relative_to(SOURCE)
        problems += [f"{place} imports {name}" for name in imports(path) if name.startswith("lmassay.evaluations")]
        problems += [f"{place}, line {line}, names {word!r}" for line, word in facts(path).words if word in names]
    assert not problems


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(("lmassay", *parts)).removesuffix(".__init__")


def test_no_modules_import_each_other_in_a_circle():
    modules = {module_name(path): path for path in FILES}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        targets: set[str] = set()
        for node in facts(path).first_imports:
            if isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
            elif node.module:
                for alias in node.names:
                    submodule = f"{node.module}.{alias.name}"
                    targets.add(submodule if submodule in modules else node.module)
        graph[module] = {target for target in targets if target in modules and target not in ("lmassay", module)}
    finished: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " → ".join((*trail[trail.index(module) :], module))
        if module not in finished:
            for target in sorted(graph[module]):
                visit(target, (*trail, module))
            finished.add(module)

    for module in sorted(graph):
        visit(module, ())


def test_listing_commands_imports_declarations_only():
    code = (
        "import sys\nfrom lmassay.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "loaded = [m for m in sys.modules if m.startswith('lmassay.evaluations.')]\n"
        "sys.stderr.write('LOADED ' + ' '.join(sorted(m for m in loaded if m.count('.') > 2)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.rpartition("LOADED ")[2].strip() == ""
    assert "kobbq" in done.stdout


@pytest.mark.parametrize("library", HOMES)
def test_a_heavy_library_is_imported_in_its_home_only(library):
    for path in FILES:
        if any(name.split(".")[0] == library for name in imports(path)):
            place = path.relative_to(SOURCE).as_posix()
            assert place.startswith(HOMES[library]), f"{place} imports {library}"


@pytest.mark.fault(48)
def test_nothing_is_executed_or_unpickled():
    forbidden = re.compile(r"(?<![\w.])(eval|exec)\(|pickle|shell=True|yaml\.load\(|torch\.load\(|os\.system")
    for path in FILES:
        assert not forbidden.search(path.read_text(encoding="utf-8")), path


def test_nothing_prints_outside_the_command_line():
    for path in FILES:
        if layer_of(path) not in ("cli", "reporting", "evaluations"):
            assert not re.search(r"(?<![\w.])print\(", path.read_text(encoding="utf-8")), path


def test_the_public_face_is_what_it_says():
    assert sorted(lmassay.__all__) == sorted(lmassay._MODULES)
    for name in lmassay.__all__:
        assert getattr(lmassay, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lmassay.nothing


@pytest.mark.fault(54)
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


def import_paths(value: Any) -> Iterator[str]:
    """All texts of the form ``lmassay.package.module:name`` in an evaluation's declaration."""
    if isinstance(value, str):
        if re.fullmatch(r"lmassay[\w.]*:\w+", value):
            yield value
    elif isinstance(value, Mapping):
        yield from import_paths(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from import_paths(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from import_paths(getattr(value, field.name))


def test_every_import_path_that_an_evaluation_declares_exists():
    paths = set(import_paths(installed_evaluations().evaluations))
    assert len(paths) > 50
    for path in sorted(paths):
        assert callable(resolve(path)), path
