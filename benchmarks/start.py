"""How many CPU-seconds a help screen and a check take.

    python benchmarks/start.py [--repeat 5]

Every ``--help`` should take less than 0.3 CPU-seconds, and ``lmassay check`` of a local model should import neither
torch nor transformers. The least of several repetitions counts, because other programs can only make it longer. The
script exits with 1 if a target is missed. ``python -c pass`` is printed for comparison.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from lmassay.cli import app

MAX_HELP_SECONDS = 0.3
_PYTHON = [sys.executable, "-c", "pass"]
_LMASSAY = [sys.executable, "-m", "lmassay"]
_CHECK = """
import json, resource, sys
from lmassay.cli import main
try:
    main(["check", "config.yaml"])
except SystemExit as stop:
    assert not stop.code, stop.code
used = resource.getrusage(resource.RUSAGE_SELF)
heavy = sorted({"torch", "transformers"} & set(sys.modules))
print(json.dumps([used.ru_utime + used.ru_stime, heavy]), file=sys.stderr)
"""


def main() -> int:
    """Measure everything, print it, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5, help="repetitions (default: %(default)s)")
    repeat = parser.parse_args().repeat
    print(f"{cpu_seconds(_PYTHON, repeat):.3f}  python -c pass")
    too_slow = []
    for words in help_screens(app, ()):
        seconds = cpu_seconds([*_LMASSAY, *words], repeat)
        print(f"{seconds:.3f}  lmassay {' '.join(words)}")
        if seconds >= MAX_HELP_SECONDS:
            too_slow.append(" ".join(words))
    seconds, heavy = check_of_local_model()
    imports = f"imports {', '.join(heavy)}" if heavy else "imports neither torch nor transformers"
    print(f"{seconds:.3f}  lmassay check of minimal pairs with smollm2: {imports}")
    if too_slow:
        print(f"MISSED: {len(too_slow)} help screens take {MAX_HELP_SECONDS} CPU-seconds or more")
    if heavy:
        print("MISSED: the check loads what only a run needs")
    return 1 if too_slow or heavy else 0


def help_screens(command: click.Command, words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the arguments of every help screen."""
    yield [*words, "--help"]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from help_screens(inner, [*words, name])


def cpu_seconds(command: Sequence[str], repeat: int) -> float:
    """Return the CPU-seconds of a process, the least of several repetitions."""
    seconds = []
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def check_of_local_model() -> tuple[float, list[str]]:
    """Return the CPU-seconds of a check with the embedded model, and the heavy packages that it imports."""
    with tempfile.TemporaryDirectory() as folder:
        lines = ["sentence_good\tsentence_bad", "The cat sleeps.\tThe cat sleep."]
        Path(folder, "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
        config = {"task": {"name": "minimal_pairs", "data": "pairs.tsv"}, "model": "smollm2"}
        Path(folder, "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        command = [sys.executable, "-c", _CHECK]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    seconds, heavy = json.loads(done.stderr.splitlines()[-1])
    return seconds, heavy


if __name__ == "__main__":
    sys.exit(main())
