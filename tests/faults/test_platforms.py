"""Other locales and systems: ASCII locales, consoles that are not UTF-8, CRLF, decomposed names, no fork."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import yaml

from lmassay.cli.actions.init import samples
from lmassay.interchange.lm_eval.log_export import TaskNames
from lmassay.running.config import load_runs
from lmassay.storage.file_names import same_file_key
from tests.helpers import ROOT, lmassay, lmassay_process, write_config, write_lines

SOURCE = ROOT / "src" / "lmassay"
ASCII = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
MODEL = """
import 도움말

class M:
    name, can = "m", frozenset({"generate"})
    identity = dict

    def generate(self, requests):
        return [도움말.f(request.prompt) for request in requests]
"""
posix_only = pytest.mark.skipif(os.name != "posix", reason="file names are always Unicode here")


def hangul_folder(parent: Path) -> Path:
    folder = parent / "한글 둘"
    folder.mkdir()
    write_lines(folder / "원문.txt", ["안녕하세요 세계 여러분", "l'été était chaud"])
    (folder / "모형.py").write_text(MODEL, encoding="utf-8")
    (folder / "도움말.py").write_text("def f(text):\n    return text.upper()\n", encoding="utf-8")
    config = {
        "task": {"name": "robustness", "src": "원문.txt", "attack": "charswap"},
        "model": "모형.py:M",
        "resamples": 100,
    }
    (folder / "설정.yaml").write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    return folder


# --- locales and consoles ---------------------------------------------------------------------------------------------


@posix_only
@pytest.mark.skipif(not str(ROOT).isascii(), reason="Python itself does not start from such a folder in this locale")
def test_hangul_names_work_in_an_ascii_locale(tmp_path):
    folder = hangul_folder(tmp_path)
    results = tmp_path / "결과"
    commands = [
        ("check", folder / "설정.yaml"),
        ("run", folder / "설정.yaml", "--results", results),
        ("report", "-o", tmp_path / "보고.html", "--results", results),
        ("export", "latest", "-o", tmp_path / "행.csv", "--results", results),
    ]
    for command in commands:
        done = lmassay_process(*command, env=ASCII, cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        assert "Traceback" not in done.stderr
    assert (tmp_path / "보고.html").is_file()
    assert "안녕하세요" in (tmp_path / "행.csv").read_text(encoding="utf-8")


@posix_only
def test_a_name_that_is_not_text_is_refused_in_one_line(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.yaml"
    Path(os.fsdecode(name)).write_text("task: {name: robustness}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "lmassay", "run", name], capture_output=True, check=False, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "rename the file or folder" in done.stderr


@posix_only
def test_help_is_printed_in_a_folder_that_was_deleted(tmp_path):
    program = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, '-m', 'lmassay', '-h'])"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("encoding", ["cp949", "cp1252", "ascii"])
def test_no_command_fails_on_a_console_that_cannot_show_the_text(tmp_path, encoding):
    folder = hangul_folder(tmp_path)
    commands = [
        ["run", "설정.yaml"],
        ["check", "설정.yaml"],
        ["ls"],
        ["show", "latest"],
        ["show", "latest", "--yaml"],
        ["show", "latest", "--json"],
        ["report", "-o", "-", "--format", "md"],
        ["report", "-o", "보고.html"],
        ["export", "latest"],
        ["export", "latest", "--format", "csv"],
        ["tasks"],
        ["models"],
        ["scorers"],
        ["perturbations"],
        ["data"],
        ["doctor"],
        ["-h"],
    ]
    # One process for all commands: starting Python takes longer than they do.
    program = (
        "import sys, json, lmassay.cli\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    try:\n"
        "        lmassay.cli.main(command)\n"
        "    except SystemExit as ending:\n"
        "        if ending.code not in (0, None, 1):\n"
        "            raise\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(commands)],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(encoding, "replace")[-2000:]
    assert b"Traceback" not in done.stderr


# --- line ends and names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", list(samples()))
def test_input_files_with_crlf_have_the_same_examples(tmp_path, task):
    examples = {}
    for name in ("lf", "crlf"):
        folder = tmp_path / name
        folder.mkdir()
        done = lmassay("init", task, "-o", folder / "c.yaml")
        assert done.returncode == 0, done.stderr
        if name == "crlf":
            for file in folder.rglob("*"):
                if file.is_file():
                    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
        examples[name] = []
        for config in load_runs(folder / "c.yaml"):
            built = config.build_task()
            examples[name].append([(example.id, example.inputs, example.reference) for example in built.examples()])
    assert examples["crlf"] == examples["lf"]
    assert examples["lf"][0]


@pytest.mark.parametrize(("written", "on_disk"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_configuration_finds_files_in_another_normalisation(tmp_path, written, on_disk):
    folder = hangul_folder(tmp_path)
    for file in [*folder.iterdir(), folder]:
        file.rename(file.with_name(unicodedata.normalize(on_disk, file.name)))
    folder = tmp_path / unicodedata.normalize(on_disk, folder.name)
    # The configuration was written elsewhere; the plug-in's imports are names of modules, not of files.
    (folder / unicodedata.normalize(on_disk, "모형.py")).write_text(
        MODEL.replace("import 도움말", "").replace("도움말.f(request.prompt)", "request.prompt"), encoding="utf-8"
    )
    config = folder / unicodedata.normalize(on_disk, "설정.yaml")
    config.write_text(unicodedata.normalize(written, config.read_text(encoding="utf-8")), encoding="utf-8")
    typed = tmp_path / unicodedata.normalize(written, "한글 둘") / unicodedata.normalize(written, "설정.yaml")
    for command in ("check", "run"):
        done = lmassay(command, typed, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_labels_that_differ_only_in_case_do_not_overwrite_each_other(tmp_path):
    write_lines(tmp_path / "src.txt", ["one two three", "four five six"])
    for label in ("Model", "MODEL", "CON", "nul.", "a:b"):
        model = {"name": "echo", "label": label}
        task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
        config = write_config(tmp_path / "c.yaml", {"task": task, "model": model, "resamples": 100})
        done = lmassay("run", config, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    runs = [run["run"] for run in json.loads(lmassay("ls", "--json", cwd=tmp_path).stdout)["runs"]]
    for form in ("lm-eval", "every-eval-ever"):
        for run in runs:
            done = lmassay("export", run, "--format", form, "-o", f"out-{form}", cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        files = [file.relative_to(tmp_path) for file in (tmp_path / f"out-{form}").rglob("*") if file.is_file()]
        assert len({same_file_key(str(file)) for file in files}) == len(files)
        assert len(files) >= 2 * len(runs)
        for file in files:
            for part in file.parts:
                assert part == part.strip(". ")
                assert part.partition(".")[0].upper() not in ("CON", "NUL")
                assert ":" not in part


def test_names_of_tasks_that_differ_only_in_case_are_different_files():
    names = TaskNames()
    assert same_file_key(names.of("Task")) != same_file_key(names.of("TASK"))


# --- systems without fork, signals and modules of Unix ----------------------------------------------------------------

UNIX_MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "posix"}
UNIX_NAMES = {"fork", "forkpty", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGKILL", "setitimer", "alarm", "getuid", "geteuid"}


# Imported inside a function that is only called on Linux.
GUARDED = {("models/hf/template_limits.py", "resource")}


def test_no_module_needs_fork_or_modules_of_unix():
    problems = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name in UNIX_MODULES]
            elif isinstance(node, ast.ImportFrom) and node.module in UNIX_MODULES:
                names = [node.module]
            elif isinstance(node, ast.Attribute) and node.attr in UNIX_NAMES:
                names = [node.attr]
            elif isinstance(node, ast.Constant) and node.value == "fork":
                names = ["fork"]
            for name in names:
                if (file.relative_to(SOURCE).as_posix(), name) not in GUARDED:
                    problems.append(f"{file.relative_to(ROOT)}, line {node.lineno}: {name}")
    assert not problems


def test_worker_processes_are_spawned():
    text = (SOURCE / "running" / "executors.py").read_text(encoding="utf-8")
    assert 'multiprocessing.get_context("spawn")' in text


# --- the workflow -----------------------------------------------------------------------------------------------------


def test_the_workflow_runs_these_tests_on_windows_and_macos():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["platforms"]
    assert set(job["strategy"]["matrix"]["os"]) == {"windows-latest", "macos-latest"}
    (command,) = [step["run"] for step in job["steps"] if "pytest" in step.get("run", "")]
    paths = [word for word in command.split() if word.startswith("tests/")]
    assert "tests/faults/test_platforms.py" in paths
    for path in paths:
        assert (ROOT / path).exists(), path
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            for word in step.get("run", "").replace('"', " ").split():
                if word.startswith(("tests/", "tools/", "docs/")):
                    assert (ROOT / word).exists(), word
            for file in str(step.get("with", {}).get("cache-dependency-path", "")).split():
                assert (ROOT / file).is_file(), file
