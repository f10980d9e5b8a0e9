"""The shell completes verbs, options, runs and names: tried in a real bash, zsh and fish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import lmassay, write_config, write_lines
from tests.terminal import program_in_terminal

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    place = tmp_path_factory.mktemp("script")
    done = lmassay("completion", "bash")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "it can be evaluated at the start of every shell"
    (place / "completion.bash").write_text(done.stdout, encoding="utf-8")
    return place / "completion.bash"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("user")
    write_lines(place / "src.txt", ["the cat sat on the mat"])
    task = {"name": "robustness", "side": "source", "src": "src.txt", "attack": ["case", "worddrop"]}
    write_config(place / "two.yaml", {"task": task, "resamples": 200})
    assert lmassay("run", "two.yaml", "--results", "results", cwd=place).returncode == 0
    return place


def completed(script, folder, *words):
    """What bash offers for the last word."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    code = '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lmassay_completion lmassay; '
    code += "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        [bash, "--norc", "-c", code, "bash", script, "lmassay", *words],
        cwd=folder,
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_verbs(script, folder):
    assert completed(script, folder, "re") == ["resume", "reproduce", "report"]
    assert {"card", "init", "run", "completion"} <= set(completed(script, folder, ""))


def test_options_and_their_values(script, folder):
    assert completed(script, folder, "run", "--li") == ["--limit"]
    assert completed(script, folder, "search", "--sampler", "t") == ["tpe"]


def test_runs_of_the_results_folder(script, folder):
    offered = completed(script, folder, "show", "")
    assert offered[0] == "latest"
    assert len(offered) == 3
    assert completed(script, folder, "show", "--results", "nowhere", "") == ["latest"]
    end = offered[1].rpartition("-")[2]
    assert completed(script, folder, "compare", offered[2], end[:4]) == [end]


def test_evaluations_perturbations_grammars_and_models(script, folder):
    assert completed(script, folder, "init", "r") == ["robustness", "refining-tse"]
    assert completed(script, folder, "perturb", "chars") == ["charswap"]
    assert completed(script, folder, "grammar", "show", "kor") == ["korean"]
    assert completed(script, folder, "models", "get", "smol") == ["smollm2"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_says_how_to_install_it_and_is_well_formed(shell, tmp_path):
    done = lmassay("completion", shell)
    assert done.returncode == 0
    assert f"lmassay completion {shell} > " in done.stdout.splitlines()[1]
    assert f"_LMASSAY_COMPLETE={shell}_complete" in done.stdout
    program = shutil.which(shell)
    if program is not None:
        (tmp_path / "script").write_text(done.stdout, encoding="utf-8")
        subprocess.run([program, "-n", tmp_path / "script"], check=True)


def test_another_shell_is_refused_with_those_that_there_are():
    done = lmassay("completion", "bsh")
    assert done.returncode == 2
    assert "did you mean 'bash'" in done.stderr


def shell(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    return program


def script_for(name: str, folder: Path) -> Path:
    path = folder / f"completion.{name}"
    path.write_text(lmassay("completion", name).stdout, encoding="utf-8")
    return path


def test_fish_offers_verbs_with_their_whole_description(tmp_path):
    code = f"source '{script_for('fish', tmp_path)}'; complete -C 'lmassay re'; complete -C 'lmassay init r'"
    done = subprocess.run(
        [shell("fish"), "--no-config", "-c", code],
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "report\tWrite a report: HTML, Markdown, LaTeX, CSV or figures." in done.stdout.splitlines()
    assert "robustness" in done.stdout.splitlines()


def test_zsh_completes_what_is_typed_even_where_nothing_was_set_up(tmp_path):
    """Typed at a real prompt: zsh completes nowhere else."""
    typed = f". '{script_for('zsh', tmp_path)}'\nlmassay init ro\t --force\nexit\n"
    env = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb"}
    shown = program_in_terminal([shell("zsh"), "-f", "-i"], cwd=tmp_path, env=env, typed=typed)
    assert (tmp_path / "robustness.yaml").is_file(), shown.screen
