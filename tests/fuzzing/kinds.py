"""All kinds of input that are damaged, by name."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzzing import command_lines, configurations, data_files, logs, model_folders, stores
from tests.fuzzing.harness import HANG, Finding, Kind, bug_in, run_commands, time_limit
from tests.helpers import lmassay


@dataclass(frozen=True)
class CommandKind:
    """Input that commands read; nothing is known about what they should print."""

    prepare: Callable[[Path], None]
    damage: Callable[[Path, random.Random], str]
    commands: Callable[[Path, random.Random], list[list[str]]]

    def check(self, folder: Path, rng: random.Random, changes: int) -> Finding | None:
        return run_commands(self.commands(folder, rng), folder, changes=changes)


class StoreKind:
    """Results folders. What commands print is also compared with the truth."""

    EXAMPLES = 300
    # For a stored case, whose truth is not known any more.
    REPLAYED = (["ls"], ["show", "latest"], ["export", "latest"], ["report", "--all", "-o", "x.html"], ["doctor"])

    def __init__(self, examples: int = EXAMPLES) -> None:
        self._examples = examples
        self._truth: stores.Truth | None = None
        self._built: Path | None = None

    def prepare(self, folder: Path) -> None:
        """Building takes seconds, so it is done once."""
        if self._built is None or not self._built.is_dir():
            self._truth = stores.build(folder, self._examples)
            self._built = folder
        else:
            shutil.copytree(self._built, folder, dirs_exist_ok=True)

    def damage(self, path: Path, rng: random.Random) -> str:
        return stores.damage(path / "results" / stores.STORE_FILE, rng)

    def check(self, folder: Path, rng: random.Random, changes: int) -> Finding | None:
        assert self._truth is not None
        problems = stores.check(folder / "results", self._truth, _in_time)
        if not problems:
            return None
        commands = [[*command, "--results", "results"] for command in self.REPLAYED]
        return Finding(commands, _summary(problems[0]), "\n".join(problems))


class ModelFolderKind:
    """Folders of local models, of every kind of model."""

    def __init__(self) -> None:
        self._truth: model_folders.Truth | None = None
        self._built: Path | None = None

    def prepare(self, folder: Path) -> None:
        """Building takes seconds, so it is done once."""
        if self._built is None or not self._built.is_dir():
            self._truth = model_folders.build(folder)
            self._built = folder
        else:
            shutil.copytree(self._built, folder, dirs_exist_ok=True)

    def damage(self, path: Path, rng: random.Random) -> str:
        """Damage the folder of one kind; all changes of a case are to the same one."""
        marker = path / ".chosen"
        if not marker.exists():
            marker.write_text(rng.choice(model_folders.KINDS), encoding="utf-8")
        kind = marker.read_text(encoding="utf-8")
        try:
            return f"{kind}: {model_folders.damage(path / kind, rng)}"
        except (OSError, ValueError, LookupError, RecursionError):
            return f"{kind}: no further change, because an earlier one has left nothing to change"

    def check(self, folder: Path, rng: random.Random, changes: int) -> Finding | None:
        assert self._truth is not None
        marker = folder / ".chosen"
        kinds = [marker.read_text(encoding="utf-8")] if marker.exists() else list(model_folders.KINDS)
        for kind in kinds:
            problems = model_folders.check(folder / kind, self._truth, _in_time)
            if problems:
                command = ["run", f"{kind}/c.yaml"]
                return Finding([["check", f"{kind}/c.yaml"], command], _summary(problems[0]), "\n".join(problems))
        return None


def _summary(problem: str) -> str:
    """The same for the same bug, without names of folders of this machine."""
    command = problem.partition(":")[0]
    if "traceback" in problem:
        return f"{command}: traceback: {bug_in(problem)}"
    return problem.splitlines()[0][:200]


def _in_time(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    with time_limit(HANG):
        return lmassay(*arguments, **options)


KINDS: Mapping[str, Kind] = {
    "command_lines": CommandKind(command_lines.prepare, command_lines.damage, command_lines.commands),
    "configurations": CommandKind(configurations.prepare, configurations.damage, configurations.commands),
    "data_files": CommandKind(data_files.prepare, data_files.damage, data_files.commands),
    "logs": CommandKind(logs.prepare, logs.damage, logs.commands),
    "model_folders": ModelFolderKind(),
    "stores": StoreKind(),
}
