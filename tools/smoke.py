"""Use a built wheel as a newcomer would: an empty environment, an empty folder, the core without extras.

    python tools/smoke.py dist/lmassay-0.2.0-py3-none-any.whl [--tests dist/lmassay-0.2.0.tar.gz tests/statistics …]

Checks that the wheel has every file of the folder ``src``, installs it into a fresh virtual environment and runs the
commands of the first steps there. With ``--tests``, it also unpacks the source distribution, installs the test tools,
and runs these tests against the wheel. Exits with 1 at the first command that fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
# The commands that are run, in this order, in one folder. None of them needs the network or an extra.
COMMANDS = (
    ("--version",),
    ("doctor",),
    ("init", "robustness"),
    ("init", "evaluation"),
    ("check", "robustness.yaml"),
    ("run", "robustness.yaml"),
    ("ls",),
    ("show",),
    ("report", "-o", "report.html"),
    ("report", "-o", "report.tex"),
    ("figures", "--width", "two-column"),
    ("export", "latest", "-o", "rows.csv"),
    ("tasks",),
    ("models",),
    ("data",),
)
# Packages of extras, which the core must not install.
EXTRAS = ("torch", "transformers", "pandas", "numba", "typst", "datasette", "distributed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Install and use the wheel, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--tests", nargs="+", metavar=("SDIST", "TEST"), help="a source distribution, and tests to run")
    options = parser.parse_args(arguments)
    require_all_files(options.wheel, SOURCE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = empty_environment(folder / "environment")
        install(python, [str(options.wheel.resolve())])
        use_commands(python, folder / "user")
        if options.tests:
            sdist, *tests = options.tests
            install(python, [f"lmassay[test] @ {options.wheel.resolve().as_uri()}"])
            run_tests(python, Path(sdist), tests, folder / "source")
    _say("the wheel works")
    return 0


def require_all_files(wheel: Path, source: Path) -> None:
    """Check that the wheel has every file of the package."""
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    files = (path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    missing = sorted({path.relative_to(source).as_posix() for path in files} - packed)
    if missing:
        raise SystemExit(f"{wheel.name} lacks files of {source}: {', '.join(missing)}")
    _say(f"ok  {wheel.name} has all files of the folder src")


def empty_environment(folder: Path) -> Path:
    """Make a virtual environment that has only pip, and return its Python."""
    venv.EnvBuilder(with_pip=True).create(folder)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def install(python: Path, requirements: Sequence[str]) -> None:
    """Install packages with pip."""
    _run([str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *requirements], Path.cwd())


def use_commands(python: Path, folder: Path) -> None:
    """Run the first steps in an empty folder, and check that no package of an extra was installed."""
    folder.mkdir()
    for words in COMMANDS:
        _run([str(python), "-m", "lmassay", *words], folder)
    for name in ("report.html", "report.tex", "rows.csv"):
        if not (folder / name).stat().st_size:
            raise SystemExit(f"{name} is empty")
    if not list((folder / "figures").glob("*.svg")):
        raise SystemExit("there are no figures")
    find = "import importlib.util, sys; sys.exit(any(importlib.util.find_spec(name) for name in sys.argv[1:]))"
    _run([str(python), "-c", find, *EXTRAS], folder)


def run_tests(python: Path, sdist: Path, tests: Sequence[str], folder: Path) -> None:
    """Unpack a source distribution and run some of its tests against the installed wheel."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    # The tests must import the package from the wheel, not from the folder `src`.
    is_installed = "import lmassay, sys; sys.exit('site-packages' not in lmassay.__file__)"
    _run([str(python), "-c", is_installed], source)
    _run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], source)


def _run(command: Sequence[str], folder: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, encoding="utf-8")
    command_text = " ".join(command[1:])
    if done.returncode:
        raise SystemExit(f"{command_text} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    last_line = done.stdout.strip().rpartition("\n")[2]
    _say(f"ok  {command_text[:100]}" + (f"  ({last_line[:60]})" if last_line else ""))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
