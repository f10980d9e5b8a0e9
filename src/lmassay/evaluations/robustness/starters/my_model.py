"""Your own model that generates text: any program that reads lines and prints one line for each.

model: {name: "my_model.py:Program", command: [python, translate.py]}
lmassay run my_model.yaml
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lmassay import Generate, Model, Response, UserError


class Program(Model):
    """Starts ``command`` once for a batch of prompts and reads its answers line by line.

    ``files`` are files that the command uses without naming them: if one of them changes, stored answers are not used.
    """

    name = "program"
    can = frozenset({"generate"})

    def __init__(self, command: list[str], files: Sequence[Path] = (), label: str = "") -> None:
        self.command, self.files = command, files
        self.label = label or " ".join(command)

    def identity(self) -> Mapping[str, object]:
        # lmassay adds a digest of all options. The command is here so that the signature shows it.
        return {"name": self.name, "command": self.command}

    def check(self) -> None:
        """Find problems before the first request."""
        if not self.command or shutil.which(self.command[0]) is None:
            raise UserError(f"model.command: there is no program {self.command[:1]}; install it or write its path")

    def generate(self, requests: Sequence[Generate]) -> Iterator[Response]:
        # A program may take any line break, such as U+2028, for the end of a prompt.
        prompts = "".join(" ".join(request.prompt.splitlines()) + "\n" for request in requests)
        done = subprocess.run(self.command, input=prompts, capture_output=True, encoding="utf-8", check=False)
        # Not splitlines(), which would also split an answer at its U+2028 or U+0085.
        lines = done.stdout.removesuffix("\n").split("\n") if done.stdout else []
        for index in range(len(requests)):
            if index < len(lines):
                yield Response(lines[index])
            else:  # counted as an error, never as a wrong answer; `lmassay resume` tries again
                yield Response(error=f"exit code {done.returncode}, no line {index + 1}: {done.stderr[-200:]}")
