"""The command line, run inside the test's own process.

Starting Python and importing everything again takes seconds; calling ``main`` takes none. The command is given what a
process of its own would have (streams, working folder, environment, warning filters, no plug-ins loaded), and whatever
it changes is put back when it ends.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import lmassay
from tests import shared_answers
from tests.forked import in_forks

ROOT = Path(__file__).resolve().parents[1]

# Python and its libraries read these when they start or are imported, which has happened already.
_READ_AT_START = ("PYTHON", "HF_", "LC_", "LANG")
# Modules that exist only while one command runs: users' files, and the packages that stand in for the originals'.
_STAND_INS = ("teapot", "src")
# Modules that belong to no single command.
_SEEN_MODULES: set[str] = set()
# Packages can also be in the user's own folder or in one that PYTHONPATH names.
_PACKAGES = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
# Nor need lmassay be that of the repository: a test may run the commands of a changed copy.
_LMASSAY = Path(lmassay.__file__).resolve().parents[1]
_INSTALLED = tuple(map(str, (sys.prefix, sys.base_prefix, _LMASSAY, ROOT / "tests", *_PACKAGES)))


def run(
    arguments: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``lmassay ARGUMENTS``; ``env`` is added to the environment."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = run_into(out, err, arguments, cwd, {**os.environ, **(env or {})})
        printed, complaints = (_text_of(stream) for stream in (out, err))
    return subprocess.CompletedProcess(["lmassay", *arguments], code, printed, complaints)


def run_into(
    out: IO[bytes], err: IO[bytes], arguments: Sequence[str], cwd: Path | None, environment: Mapping[str, str]
) -> int:
    """Run the command with exactly this environment, its output in two files (or twice the same). Returns its code."""
    _refuse_what_comes_too_late(environment)
    with contextlib.ExitStack() as restored:
        restored.enter_context(_environment(environment))
        if cwd is not None:
            restored.enter_context(contextlib.chdir(cwd))
        restored.enter_context(_python_as_in_a_new_process(arguments))
        restored.enter_context(_lmassay_as_in_a_new_process())
        restored.enter_context(shared_answers.shared())
        restored.enter_context(_streams(out, err))
        return _exit_code()


def run_python_into(
    out: IO[bytes], err: IO[bytes], arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]
) -> int:
    """Run ``python FILE …`` or ``python -m MODULE …`` in a fork of this process, which has imported a lot."""
    _refuse_what_comes_too_late(environment)

    def program() -> None:
        with contextlib.ExitStack() as entered:
            entered.enter_context(_environment(environment))
            entered.enter_context(contextlib.chdir(cwd))
            entered.enter_context(_python_as_in_a_new_process(arguments))
            entered.enter_context(_lmassay_as_in_a_new_process())
            entered.enter_context(_streams(out, err))
            code = _code_of(lambda: _run_python(arguments))
        raise SystemExit(code)

    (code,) = in_forks(program)
    return code


def _run_python(arguments: Sequence[str]) -> None:
    sys.path.insert(0, str(Path.cwd()))
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        runpy.run_path(arguments[0], run_name="__main__")


def _refuse_what_comes_too_late(environment: Mapping[str, str]) -> None:
    late = [
        name
        for name in sorted({*environment, *os.environ})
        if name.startswith(_READ_AT_START) and environment.get(name) != os.environ.get(name)
    ]
    if late:
        raise ValueError(f"{', '.join(late)}: read when a process starts; use lmassay_process")


def _text_of(stream: IO[bytes]) -> str:
    stream.seek(0)
    # A pipe that is read as text has its line ends translated, too.
    return stream.read().decode("utf-8").replace("\r\n", "\n")


def _exit_code() -> int:
    from lmassay.cli import main

    return _code_of(main)


def _code_of(program: Callable[[], object]) -> int:
    """Call a program and translate what ends it, as Python does at the end of a process."""
    try:
        # An empty context: a registry that a test has made active is not seen.
        contextvars.Context().run(program)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@contextmanager
def _environment(environment: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    _set_environment(environment)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(wanted: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


@contextmanager
def _streams(out: IO[bytes], err: IO[bytes]) -> Iterator[None]:
    """Send standard output and error into files, including what other processes and C libraries write there."""
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        stream.flush()
    saved = [os.dup(number) for number in range(3)]
    try:
        with Path(os.devnull).open("rb") as nothing:
            for number, file in enumerate((nothing, out, err)):
                os.dup2(file.fileno(), number)
        with (
            os.fdopen(0, encoding="utf-8", closefd=False) as stdin,
            os.fdopen(1, "w", encoding="utf-8", closefd=False) as stdout,
            os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False) as stderr,
        ):
            sys.stdin, sys.stdout, sys.stderr = stdin, stdout, stderr
            yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for number, copy in enumerate(saved):
            os.dup2(copy, number)
            os.close(copy)


@contextmanager
def _python_as_in_a_new_process(arguments: Sequence[str]) -> Iterator[None]:
    argv, path, modules = sys.argv, list(sys.path), dict(sys.modules)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    root = logging.getLogger()
    level, log_handlers, disabled = root.level, list(root.handlers), root.manager.disable
    # Thousands of modules are loaded, most of which were looked at for an earlier command. Asking whether there are new
    # ones takes much less time than making a set of them.
    if not modules.keys() <= _SEEN_MODULES:
        for name in modules.keys() - _SEEN_MODULES:
            if _belongs_to_one_command(name):
                del sys.modules[name]
            else:
                _SEEN_MODULES.add(name)
    # pytest's handlers collect what is logged for a test to look at; a program has none.
    root.handlers[:] = []
    sys.argv = ["lmassay", *arguments]
    try:
        with _warnings_as_in_a_program():
            yield
    finally:
        sys.argv, sys.path[:] = argv, path
        if not sys.modules.keys() <= modules.keys():
            for name in sys.modules.keys() - modules.keys():
                if _belongs_to_one_command(name) or _is_in_a_folder_of_the_user(sys.modules[name]):
                    del sys.modules[name]
        sys.modules.update(modules)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        root.handlers[:] = log_handlers
        # Each of these goes through all loggers.
        if root.level != level:
            root.setLevel(level)
        if root.manager.disable != disabled:
            logging.disable(disabled)


def _belongs_to_one_command(name: str) -> bool:
    """Whether a module is a user's file, or stands in for a package of an original program."""
    return "lmassay_user_" in name or name.partition(".")[0] in _STAND_INS


def _is_in_a_folder_of_the_user(module: ModuleType) -> bool:
    """Whether a user's file has imported it from beside itself."""
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and not file.startswith(_INSTALLED)


@contextmanager
def _warnings_as_in_a_program() -> Iterator[None]:
    """In tests a warning is an error. A user sees some of them on standard error and not the others."""

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))

    with warnings.catch_warnings():
        warnings.resetwarnings()
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        yield


@contextmanager
def _lmassay_as_in_a_new_process() -> Iterator[None]:
    """No plug-in is loaded, no key is in use, no file has been read."""
    from lmassay import redaction
    from lmassay.cli import console
    from lmassay.plugins import registry

    tables: list[Any] = [registry._root._own, registry._root._files, registry._root._folders, redaction._in_use]
    tse = sys.modules.get("lmassay.evaluations.syntax.refining_tse.modules")
    if tse is not None:
        tables += [tse.MODELS, tse.METRICS]
    kernels = sys.modules.get("lmassay.evaluations.robustness.kernels.backend")
    if kernels is not None:
        # Loading the compiler pays for a process that scores many pairs, not for many commands that score a few.
        tables.append(kernels._pairs_seen)
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch is not None else None
    contents = [table.copy() for table in tables]
    for table in tables:
        table.clear()
    _forget_files()
    try:
        yield
    finally:
        for table, content in zip(tables, contents, strict=True):
            table.clear()
            table.update(content)
        console.use_shared_console(None)
        _forget_files()
        if torch is not None:
            torch.set_num_threads(threads)


def _forget_files() -> None:
    """Empty the caches that are keyed by the name of a file, which a test may write again under another content."""
    for module, names in {
        "lmassay.interchange.lm_eval.sample_logs": ["_read_log"],
    }.items():
        loaded = sys.modules.get(module)
        for name in names if loaded is not None else []:
            getattr(loaded, name).cache_clear()
    worker_model = sys.modules.get("lmassay.running.worker_model")
    if worker_model is not None:
        worker_model.forget_model()
