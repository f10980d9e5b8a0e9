"""Nothing outside an evaluation knows its names: in a copy of the package one is renamed, and everything still works.

The copy's evaluation has another name, its task has another name, and so have its metrics. What is printed and written
must be the same but for these names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from tests.helpers import ROOT, write_config

MODELS = ROOT / "tests" / "reporting" / "card" / "models.py"
# Old name → new name, of the evaluation and its task, and of its metrics as they are put together from parts.
EVALUATION = {"bias": "fairness"}
METRICS = {
    "accuracy": "hits",
    "diff_bias": "tilt",
    "ooc": "offlist",
    "consistency": "steadiness",
    "parsers_agree": "readers_agree",
    "coverage": "extent",
}
# A name that is not part of a longer word or of a file name; metrics are also named by their first part, as in
# f"accuracy_{context}".
NAME = re.compile(rf"(?<![a-z])({'|'.join([*EVALUATION, *METRICS])})(?=[_\"'=])")
# Prose stays as it is: a name stands in a string without spaces.
STRING = re.compile(r"""(["'])[\w.{}\[\]@=-]*\1""")


def renamed(source: str) -> str:
    """The source of a module with the names in its string literals replaced."""

    def replaced(literal: re.Match[str]) -> str:
        return NAME.sub(lambda match: (EVALUATION | METRICS)[match[1]], literal[0])

    return STRING.sub(replaced, source)


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A folder with the renamed package and what makes its entry points known."""
    folder = tmp_path_factory.mktemp("copy")
    # With the compiled modules, which stay valid except for those that are changed below.
    shutil.copytree(ROOT / "src" / "lmassay", folder / "lmassay")
    package = folder / "lmassay" / "evaluations" / "bias"
    for path in package.rglob("*.py"):
        if "kobbq" not in path.parts:
            path.write_text(renamed(path.read_text(encoding="utf-8")), encoding="utf-8")
    info = folder / "lmassay-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lmassay\nVersion: 0.1.0\n", encoding="utf-8")
    points = [
        f"{name} = lmassay.evaluations.{module}:evaluation"
        for name, module in {
            "robustness": "robustness",
            "fairness": "bias",
            "syntax": "syntax",
            "fewshot": "fewshot",
        }.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(["[lmassay.evaluations]", *points]), encoding="utf-8")
    return folder


# Runs one command after the other, as tests/in_process.py does: starting Python for each takes longer than the command.
SERVER = """
import json, sys
from tests import in_process

for line in sys.stdin:
    request = json.loads(line)
    done = in_process.run(request["arguments"], request["folder"])
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""


class Commands:
    """Commands of the package in ``package``, run in one process that has imported no other copy of it."""

    def __init__(self, package: Path) -> None:
        path = os.pathsep.join([str(package), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, folder: Path, *arguments: object) -> str:
        """What the command prints; it must succeed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"arguments": [str(argument) for argument in arguments], "folder": str(folder)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code, printed, complaints = json.loads(self._process.stdout.readline())
        assert code == 0, complaints
        assert "Traceback" not in complaints
        return printed


def outputs(folder: Path, package: Path, task: str, accuracy: str) -> dict[str, str]:
    """What every command prints and writes about two prompts of one model."""
    folder.mkdir()
    with Commands(package) as commands:
        text_of = _outputs(commands, folder, package, task, accuracy)
    return {
        name: text.replace(str(folder), "FOLDER").replace(str(package), "PACKAGE") for name, text in text_of.items()
    }


def _outputs(commands: Commands, folder: Path, package: Path, task: str, accuracy: str) -> dict[str, str]:
    run = commands.run
    data = package / "lmassay" / "evaluations" / "bias" / "card_data" / "bias.yaml"
    spec = {"name": task, "data": str(data), "prompt_id": [1, 2], "per_category": 1, "answer_by": "letters"}
    config = write_config(folder / "config.yaml", {"task": spec, "model": f"{MODELS}:Talker", "resamples": 100})
    text_of = {"run": run(folder, "run", config)}
    listed = json.loads(run(folder, "ls", "--json"))["runs"]
    first, second = (record["run"] for record in listed)
    text_of["show"] = run(folder, "show", first, "--all")
    text_of["compare"] = run(folder, "compare", first, second, "--flips", "-o", "compared.html")
    text_of["gate"] = run(folder, "compare", first, second, "--fail-if", f"{accuracy} worse by 0.5")
    for form in ("md", "tex", "csv", "html"):
        run(folder, "report", "-o", f"report.{form}")
        text_of[form] = (folder / f"report.{form}").read_text(encoding="utf-8")
    run(folder, "report", "--figures", "figures")
    for number, path in enumerate(sorted((folder / "figures").iterdir())):
        text_of[f"figure {number}"] = path.read_text(encoding="utf-8")
    text_of["compared.html"] = (folder / "compared.html").read_text(encoding="utf-8")
    for form in ("lm-eval", "every-eval-ever", "jsonl"):
        target = folder / f"export-{form}"
        run(folder, "export", first, "--format", form, "-o", target)
        files = [target] if target.is_file() else sorted(path for path in target.rglob("*") if path.is_file())
        for number, path in enumerate(files):
            text_of[f"{form} {number}"] = path.read_text(encoding="utf-8")
    options = ("--quick", "--only", task, "--json", "--results", "card", "-o", "c.html")
    card = run(folder, "card", f"{MODELS}:Talker", *options)
    document = json.loads(card)
    text_of["card"] = json.dumps([document["headlines"], document["not_applicable"]], indent=1)
    text_of["card page"] = (folder / "c.html").read_text(encoding="utf-8")
    return text_of


def plain(text: str) -> str:
    """Without names of the renamed evaluation, and without what differs between any two runs."""
    # Places where LaTeX and pages may break long names depend on the names.
    text = text.replace("\\allowbreak{}", "").replace("<wbr>", "")
    # Pages keep dates and times on one line; here, they must look like all others.
    text = re.sub(r'<span class="whole">(.*?)</span>', r"\1", text)
    for old, new in (METRICS | EVALUATION).items():
        text = re.sub(rf"(?<![a-z]){new}(?![a-z])", old, text)
    # The examples of the page are compressed, ids and times are those of the run, sizes follow from the names.
    text = re.sub(r"<script[^>]*>.*?</script>", "", text, flags=re.DOTALL)
    text = re.sub(r"\d{8}-\d{6}-[\w-]+?-[0-9a-f]{6}", "RUN", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.+-]+(?: ?UTC)?|\"\d{10}\.\d+\"|\b\d{10}(?:\.\d+)?\b", "TIME", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{6}\b|\b[0-9a-f]{8}\b|\b[0-9a-f]{40,64}\b", "HEX", text)
    text = re.sub(r"/\S*?/(?=report|results|export|c\.html|config|card|lmassay/|tests/)", "", text)
    return re.sub(r"[ \t-]{2,}", " ", text)


def words(text: str) -> list[str]:
    """All words of a text, sorted: metrics are stored in the order of their names."""
    return sorted(re.split(r"[\s,{}\[\]]+", plain(text)))


def test_everything_works_under_other_names(copy, tmp_path):
    ours = outputs(tmp_path / "ours", ROOT / "src", "bias", "accuracy_amb")
    theirs = outputs(tmp_path / "theirs", copy, "fairness", "hits_amb")
    assert "hits_amb" in theirs["show"]
    assert "accuracy_amb" not in theirs["show"]
    assert theirs.keys() == ours.keys()
    for name, text in ours.items():
        assert words(theirs[name]) == words(text), name
