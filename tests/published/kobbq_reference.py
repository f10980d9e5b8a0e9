"""KoBBQ's recorded runs, what ``lmassay kobbq`` makes of them, and the differences that are intended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmassay.evaluations.bias.reference_parser import lowered, parse_reference
from tests.helpers import lmassay
from tests.published.reference_files import REFERENCE, content

FOLDER = REFERENCE / "kobbq"
RUNS = FOLDER / "runs.jsonl"
ANSWERS = FOLDER / "fuzz.jsonl"
STEPS = {
    "1_preprocess.py": "preprocess",
    "3_postprocess_predictions.py": "postprocess",
    "4_predictions_to_evaluation.py": "collect",
    "5_evaluation.py": "evaluate",
    "6_score_comparison.py": "compare",
}
OUTPUTS = ("step1", "step3", "step4", "ooc", "step5_test", "step5_all")
"""The folders that the steps write into."""
_TIDY = "step3/Own_test_evaluation_1_tidy_predictions.tsv"

# --- intended differences ---------------------------------------------------------------------------------------------

_NO_UPPER = "AttributeError: '{}' object has no attribute 'upper'"
_NO_TQDM = "NameError: name 'tqdm' is not defined"
RESULTS = {
    # Runs that crash in the original and have a result here.
    # Run → last line of the traceback, and the run whose output is the same; an adapted original has most of them.
    "step3_1_silent": (_NO_UPPER.format("float"), "step3_1_silent.adapted"),
    "step3_2_silent": (_NO_UPPER.format("float"), "step3_2_silent.adapted"),
    "step3_3_silent": (_NO_UPPER.format("float"), "step3_3_silent.adapted"),
    "1.all.released": (_NO_TQDM, "1"),
    "2.all.released": (_NO_TQDM, "2"),
    "3.all.released": (_NO_TQDM, "3"),
    # Answers that are numbers only are out of choice here.
    "step3_1_digits": (_NO_UPPER.format("int"), None),
    # Ids of five parts work in both modes here.
    "1_five_all": ("ValueError: not enough values to unpack (expected 6, got 5)", None),
}
PRINTED = {"step3_1_digits": "out-of-choice count 504\n"}
ERRORS = {
    # A traceback of the original is an error in one line with exit code 2 here, and nothing is printed before it.
    # Run → last line of the traceback, and the error here.
    "step4_missing_rows": (
        "ValueError: pet_owner-001d-001-dis-bsd-1 Not Found",
        "error: 305 of 504 questions have no answer in cut.tsv, first pet_owner-001d-001-dis-bsd-1, "
        "pet_owner-001d-001-dis-bsd-2, pet_owner-001d-001-dis-cnt-0 and 302 more (step1/Own_test_evaluation_1.tsv, "
        "line 201); run `lmassay kobbq infer` again, which completes the file",
    ),
    "step4_row_twice": (
        "ValueError: 2 hobby_club-001a-001-amb-cnt-1 Found",
        "error: twice.tsv: guid hobby_club-001a-001-amb-cnt-1 appears twice, on lines 6 and 506; keep one",
    ),
    "step1_unknown_prompt": (
        "ValueError: can only convert an array of size 1 to a Python scalar",
        "error: there is no prompt 9 in inputs/0_own_prompts.tsv; it has 1, 2, 3",
    ),
    "step5_unknown_mode": (
        "ValueError",
        "error: Invalid value for '--test-or-all': 'some' is not one of 'test', 'all' (help: lmassay kobbq evaluate "
        "-h)",
    ),
}
# What the original prints before its error is what this run prints.
PRINTED_BEFORE_AN_ERROR = {"step5_unknown_mode": "step5_abbreviated"}
# Files that the original does not write, because it crashes; each is equal to another file, or has no counterpart.
ONLY_HERE = {
    "step3/Own_test_evaluation_1_digits_predictions.tsv": None,
    "step5_all/Own_test_1.all.released.tsv": "step5_all/Own_test_1.tsv",
    "step5_all/Own_test_2.all.released.tsv": "step5_all/Own_test_2.tsv",
    "step5_all/Own_test_3.all.released.tsv": "step5_all/Own_test_3.tsv",
    "step5_all/Own_test_1_five_all.tsv": None,
}


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A run of one of the original programs and what it printed."""

    name: str
    args: list[str]
    program: str
    adapted: bool
    returncode: int
    stdout: str
    error: str


@dataclass(frozen=True)
class Outcome:
    """What the same run prints here, and what became of the file that step 3 rewrites."""

    run: Run
    code: int
    stdout: str
    stderr: str
    rewritten: bytes | None


@dataclass(frozen=True)
class Chain:
    """All runs, one after the other in one folder, and the files they leave there."""

    outcomes: list[Outcome]
    files: Mapping[str, bytes]

    def printed_by(self, name: str) -> str:
        """Standard output of a run; where two modes have the same name, both print the same."""
        return next(outcome.stdout for outcome in self.outcomes if outcome.run.name == name)


def read_runs() -> list[Run]:
    return [Run(**json.loads(line)) for line in RUNS.read_text(encoding="utf-8").splitlines()]


def run_all(folder: Path) -> Chain:
    """Run every recorded command in an empty folder."""
    shutil.copytree(FOLDER / "inputs", folder / "inputs")
    for name in OUTPUTS:
        (folder / name).mkdir()
    shutil.copy(FOLDER / "inputs" / "Own_test_evaluation_1_five.tsv", folder / "step4")
    outcomes = [_run(run, folder) for run in read_runs()]
    files: dict[str, bytes] = {}
    for name in OUTPUTS:
        for path in (folder / name).iterdir():
            files[path.relative_to(folder).as_posix()] = path.read_bytes()
    return Chain(outcomes, files)


def _run(run: Run, folder: Path) -> Outcome:
    rewritten: Path | None = None
    if run.program == "3_postprocess_predictions.py":
        # Step 3 rewrites the answers in place, so it gets a copy of them.
        rewritten = folder / run.args[1]
        rewritten.write_bytes(content(FOLDER / "inputs" / "raw" / f"{rewritten.name}.gz"))
    if run.name == "step4_missing_rows":
        lines = (folder / _TIDY).read_bytes().splitlines(keepends=True)
        (folder / "cut.tsv").write_bytes(b"".join(lines[:200]))
        (folder / "twice.tsv").write_bytes(b"".join([*lines, lines[5]]))
    done = lmassay("kobbq", STEPS[run.program], *run.args, cwd=folder)
    return Outcome(run, done.returncode, done.stdout, done.stderr, rewritten and rewritten.read_bytes())


# --- comparison -------------------------------------------------------------------------------------------------------


def differences(run: Run, chain: Chain, position: int) -> Iterator[str]:
    """How the output of lmassay differs from a recorded run, intended differences aside."""
    here = chain.outcomes[position]
    known = here.run
    if (run.name, run.args, run.program, run.adapted) != (known.name, known.args, known.program, known.adapted):
        yield f"the run is {known}"
    if run.name in RESULTS:
        yield from _result_differences(run, here, chain)
    elif run.name in ERRORS:
        original, error = ERRORS[run.name]
        if (run.returncode, run.error) != (1, original):
            yield f"the original's error is not {original!r}"
        if (here.code, here.stdout, here.stderr) != (2, "", f"{error}\n"):
            yield f"exit code {here.code}, standard error {here.stderr!r} instead of {error!r}"
        similar = PRINTED_BEFORE_AN_ERROR.get(run.name)
        if run.stdout != (chain.printed_by(similar) if similar else ""):
            yield "the original printed something else before its error"
    else:
        if (run.returncode, run.error, here.code) != (0, "", 0):
            yield f"exit code {here.code}, standard error {here.stderr!r}"
        if run.stdout != here.stdout:
            yield f"standard output: {here.stdout!r} instead of {run.stdout!r}"


def _result_differences(run: Run, here: Outcome, chain: Chain) -> Iterator[str]:
    original, similar = RESULTS[run.name]
    if (run.returncode, run.error) != (1, original):
        yield f"the original's error is not {original!r}"
    expected = chain.printed_by(similar) if similar else PRINTED.get(run.name, run.stdout)
    if (here.code, here.stdout) != (0, expected):
        yield f"exit code {here.code}, standard output {here.stdout!r} instead of {expected!r}"
    if run.program == "5_evaluation.py":
        # The original prints this much of it before it crashes on the first model.
        first_model = here.stdout.partition("dtype: int64\n")
        if run.stdout != "".join(first_model[:2]):
            yield "the original printed something else before its error"
    elif run.stdout:
        yield "the original printed something before its error"


def recorded_outputs() -> dict[str, Path]:
    """File as the steps name it → the recorded file, which may be compressed."""
    outputs: dict[str, Path] = {}
    for name in OUTPUTS:
        for path in sorted((FOLDER / name).iterdir()):
            outputs[f"{name}/{path.name.removesuffix('.gz')}"] = path
    return outputs


def is_same_file(name: str, recorded: bytes, chain: Chain) -> bool:
    """Whether the steps have written these bytes."""
    return chain.files.get(name) == recorded


# --- the answer parser ------------------------------------------------------------------------------------------------


def read_answers() -> list[list[str]]:
    """Lists of raw answer, choices A, B and C in lower case, and how the original read the answer."""
    # Some answers contain U+0085 or U+2028, which str.splitlines takes for line ends.
    return [json.loads(line) for line in ANSWERS.read_bytes().splitlines()]


def parsed(raw: str, a: str, b: str, c: str) -> str:
    return parse_reference(raw, lowered(a, b, c))
