"""TEAPOT's recorded command lines, what ``lmassay teapot`` makes of them, and the differences that are intended."""

from __future__ import annotations

import functools
import json
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import lmassay
from lmassay.cli import progress
from lmassay.errors import UserError
from lmassay.evaluations.robustness.scorers import meteor
from lmassay.evaluations.robustness.scorers.meteor import JAVA_COMMAND, find_jar
from lmassay.evaluations.robustness.teapot.module import loadtxt
from tests.helpers import lmassay as run_lmassay
from tests.published.reference_files import REFERENCE

FOLDER = REFERENCE / "teapot"
SCORES = FOLDER / "per-sentence.json"
CASES = {"2.x": FOLDER / "cases.jsonl", "1.x": FOLDER / "cases-sacrebleu1.jsonl"}
"""Release of sacrebleu → the file of the command lines that ran with it."""

NOTE = "Note: No reference file provided. Will use the reference-less criterion.\n"
RULE = "-" * 80 + "\n"
TOKENISED = (
    "That's 100 lines that end in a tokenized period ('.')\nIt looks like you forgot to detokenize your data, "
    "which may hurt your score and make your results difficult to replicate."
)

# --- intended differences ---------------------------------------------------------------------------------------------

CAPPED = {
    # BLEU of identical text is 1.0000000000000004 in the original, so that a line without any change counts as a
    # successful attack. Here scores are capped at 1. Case → success percentage of the original, and here.
    ("2.x", "mixed.bleu.both.ref"): ("50.00", "43.33"),
    ("2.x", "edge.bleu.both.ref"): ("50.00", "30.00"),
    ("2.x", "same.bleu.both.ref"): ("100.00", "0.00"),
    ("2.x", "mixed.bleu-chrf.both.ref"): ("21.67", "13.33"),
    ("2.x", "mixed.bleu-zero_one.both.ref"): ("21.67", "13.33"),
    ("1.x", "mixed.bleu.both.ref"): ("53.33", "46.67"),
    ("1.x", "edge.bleu.both.ref"): ("60.00", "40.00"),
    ("1.x", "same.bleu.both.ref"): ("100.00", "0.00"),
    ("1.x", "mixed.bleu-chrf.both.ref"): ("25.00", "16.67"),
    ("1.x", "mixed.bleu-zero_one.both.ref"): ("30.00", "21.67"),
}
DIVISIONS = {
    # Without a reference the original divides by s_tgt and crashes where it is 0. Here the ratio is infinite.
    # Case → success percentage here.
    ("2.x", "mixed.both.noref"): "70.00",
    ("2.x", "edge.both.noref"): "35.00",
    ("2.x", "label.zero_one.noref"): "46.67",
    ("1.x", "mixed.bleu.both.noref"): "58.33",
}
_UNKNOWN_SCORER = (
    "error: there is no scorer {}; available: bertscore, bleu, chrf, chrf++, comet, edit_distance, exact_match, "
    "meteor, semantic, ter, {}zero_one"
)
_GIVE_FILES = (
    "ValueError: You need to specify at least `--src` and `--adv-src` (for source side evaluation) OR `--out` and "
    "`--adv-out`  (for target side evaluation)."
)
_GIVE_FILES_HERE = (
    "error: give --src and --adv-src (source side), or --out and --adv-out (target side), or all four; --ref adds a "
    "reference. See lmassay teapot -h"
)
ERRORS = {
    # A traceback of the original is an error in one line with exit code 2 here, and nothing is printed before it.
    # Case → last line of the traceback, and the error here; {folder} is the folder of the recorded files.
    "err.flag-twice": (
        'ValueError: Scorer "dice" does not exist',
        _UNKNOWN_SCORER.format("'dice'", "words, "),
    ),
    "err.custom-twice": (
        "ValueError: Scorer dice already exists",
        "error: the scorer 'dice' is registered twice: first in {folder}/scorers.py, again in {folder}/scorers.py; "
        "rename one of them",
    ),
    "err.custom-missing": (
        'ValueError: Can\'t find custom scorer source file "no_such_file.py"',
        "error: there is no file {folder}/no_such_file.py; give the path of a Python file with your plug-in",
    ),
    "err.custom-not-loaded": (
        'ValueError: Scorer "dice" does not exist',
        _UNKNOWN_SCORER.format("'dice'", ""),
    ),
    "err.latin1": (
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in position 14: invalid continuation byte",
        "error: inputs/latin1.src, line 1: byte 0xe9 at column 15 is not UTF-8; convert the file, e.g. iconv -f latin1 "
        "-t utf-8",
    ),
    "err.empty": (
        "ZeroDivisionError: division by zero",
        "error: the src file inputs/empty.src is empty; it must have at least one line",
    ),
    "err.lengths.src": (
        "ValueError: Mismatched input lengths 12!=7",
        "error: line 8 of the adv_src file inputs/fr.adv has no counterpart: it has 12 lines, but the src file "
        "inputs/short.src has 7; they must have the same number",
    ),
    "err.lengths.sides": (
        "ValueError: The number of samples in the source (12) doesn't match the number of samples in the target (8)",
        "error: line 9 of the src file inputs/fr.src has no counterpart: it has 12 lines, but the out file "
        "inputs/de.out has 8; they must have the same number",
    ),
    "err.lengths.ref": (
        "ValueError: Mismatched input lengths 12!=8",
        "error: line 9 of the out file inputs/fr.out has no counterpart: it has 12 lines, but the ref file "
        "inputs/de.ref has 8; they must have the same number",
    ),
    "err.missing.src": (
        'ValueError: Specified file for "src" ("inputs/nothing.src") does not exist',
        "error: the src file inputs/nothing.src does not exist; check the path",
    ),
    "err.missing.ref": (
        "FileNotFoundError: [Errno 2] No such file or directory: 'inputs/nothing.ref'",
        "error: the ref file inputs/nothing.ref does not exist; check the path",
    ),
    "err.missing.adv-out": (
        'ValueError: Specified file for "adv_out" ("inputs/nothing") does not exist',
        "error: the adv_out file inputs/nothing does not exist; check the path",
    ),
    "err.nothing": (_GIVE_FILES, _GIVE_FILES_HERE),
    "err.half.src": (_GIVE_FILES, _GIVE_FILES_HERE),
    "err.unknown-scorer": (
        'ValueError: Scorer "rouge" does not exist',
        _UNKNOWN_SCORER.format("'rouge'", ""),
    ),
    "err.directory": (
        'ValueError: Specified file for "src" ("inputs") does not exist',
        "error: the src file inputs is a folder; give a text file",
    ),
    "meteor.err.no-lang": (
        "ValueError: You need to specify a language for METEOR",
        "error: METEOR needs a language: --src-lang / --tgt-lang (src_lang / tgt_lang in a configuration)",
    ),
    "meteor.err.lang": (
        "ValueError: METEOR command `java -Xmx2G -jar {meteor_jar} {hyp_file} {ref_file} -norm -l xx` failed:",
        "error: METEOR's Java program failed for the language 'xx': Error: Pre-process the input files and run Meteor "
        "without the -norm option.; No normalizer for language (other); METEOR supports en, cz, de, es, fr and ru, "
        "and needs data/paraphrase-LANG.gz next to the jar (pycocoevalcap has only the one for en)",
    ),
}
# What the original printed before a traceback is the beginning of what this case prints.
PRINTED_BEFORE_AN_ERROR = {"err.lengths.sides": "fr.both.ref", "err.missing.ref": "fr.both.ref"}
# Standard error is empty in the original; here it has a warning.
WARNINGS = {
    "form.bom.chrf": "warning: inputs/bom.src begins with a byte-order mark, which counts as a character here; "
    "remove it\n",
    "form.bom.bleu": "warning: inputs/bom.src begins with a byte-order mark, which counts as a character here; "
    "remove it\n",
    "half.out-alone": "warning: --out is ignored without --adv-out\n",
    "half.src-alone": "warning: --src is ignored without --adv-src\n",
}
# The original requires --meteor-jar. Here the jar is found without it, and the command prints what this one prints.
JAR_FOUND = {"meteor.err.no-jar": "meteor.forty.tgt.ref"}
# The help text is not the original's.
HELP = ("help", "help.with-custom")


# --- command lines ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A command line of the original and what it printed."""

    name: str
    cmd: list[str]
    files: list[str]
    returncode: int
    stdout: str
    stderr_kind: str
    stderr_last: str

    @property
    def needs_meteor(self) -> bool:
        return self.name in JAR_FOUND or any("{meteor_jar}" in argument for argument in self.cmd)


@dataclass(frozen=True)
class Outcome:
    """What the same command line prints here."""

    cmd: list[str]
    code: int
    stdout: str
    stderr: str


def read_cases(release: str) -> list[Case]:
    return [Case(**json.loads(line)) for line in CASES[release].read_text(encoding="utf-8").splitlines()]


@functools.cache
def cases(release: str) -> dict[str, Case]:
    return {case.name: case for case in read_cases(release)}


def why_meteor_is_missing() -> str | None:
    """What to install to run the cases with METEOR; None if all is there."""
    if shutil.which("java") is None:
        return "METEOR needs Java: apt-get install default-jre-headless"
    try:
        find_jar()
    except UserError:
        return "METEOR needs the file meteor-1.5.jar: pip install --no-deps pycocoevalcap==1.2"
    return None


@functools.cache
def outcome(release: str, name: str) -> Outcome:
    """Run the command line of a case, once per session."""
    case = cases(release)[name]
    arguments = list(case.cmd)
    if case.needs_meteor:
        arguments = [argument.replace("{meteor_jar}", str(find_jar())) for argument in arguments]
    if release == "1.x" and "bleu" in arguments:
        arguments += ["--bleu-compat", "1.x"]
    # On a busy machine Java takes long to start, and a line of progress would be printed.
    with mock.patch.object(progress, "_SECONDS_BETWEEN_LINES", math.inf), _one_java() as commands:
        done = run_lmassay("teapot", *arguments, cwd=FOLDER, env={"COLUMNS": "80"})
    if case.needs_meteor and case.returncode == 0:
        given = arguments[arguments.index("--java-command") + 1] if "--java-command" in arguments else JAVA_COMMAND
        assert commands == {given}
    return Outcome(list(case.cmd), done.returncode, done.stdout, done.stderr)


@contextmanager
def _one_java() -> Iterator[set[str]]:
    """Give all commands the Java process of the default one, and collect the commands that were to start it.

    Reading the English paraphrases takes ten seconds, also if only the memory of Java is another.
    """
    server = meteor._server
    commands: set[str] = set()

    def shared(launch: meteor.Launch) -> Any:
        commands.add(launch.command)
        return server(replace(launch, command=JAVA_COMMAND))

    with mock.patch.object(meteor, "_server", shared):
        yield commands


# --- comparison -------------------------------------------------------------------------------------------------------


def differences(release: str, case: Case) -> Iterator[str]:
    """How the output of lmassay differs from a recorded case, intended differences aside."""
    if case.name not in cases(release):
        yield f"there is no case {case.name}"
        return
    here = outcome(release, case.name)
    if case.cmd != here.cmd:
        yield f"the command line is {here.cmd}"
    arguments = [argument.rpartition("=")[2] for argument in case.cmd]
    if case.files != sorted({word for word in arguments if word.startswith("inputs/") or word.endswith(".py")}):
        yield "the files are not those of the command line"
    if case.returncode == 0:
        yield from _success_differences(release, case, here)
    elif case.name in JAR_FOUND:
        yield from _success_differences(release, cases(release)[JAR_FOUND[case.name]], here)
    elif case.returncode == 2:
        yield from _usage_differences(case, here)
    elif (release, case.name) in DIVISIONS:
        yield from _division_differences(release, case, here)
    else:
        yield from _error_differences(release, case, here)


def _success_differences(release: str, case: Case, here: Outcome) -> Iterator[str]:
    if here.code != 0:
        yield f"exit code {here.code}"
    if case.name in HELP:
        if not set(_flags(case.stdout)) <= set(_flags(here.stdout)):
            yield "the help lacks flags of the original"
        return
    expected = case.stdout
    if (release, case.name) in CAPPED:
        original, capped = CAPPED[release, case.name]
        if not expected.endswith(f"Success percentage: {original} %\n"):
            yield f"the original's success percentage is not {original}"
        expected = expected.replace(f"Success percentage: {original} %", f"Success percentage: {capped} %")
    if here.stdout != expected:
        yield f"standard output: {here.stdout!r} instead of {expected!r}"
    if case.stderr_kind == "warning":
        if case.stderr_last != "\n".join([TOKENISED] * len(case.files)):
            yield "the original did not warn once per file"
        # One line per file here, in the order of the files' roles.
        warned = sorted(line.partition(": 120 lines end in ' .'")[0] for line in here.stderr.splitlines())
        if warned != [f"warning: {file}" for file in case.files]:
            yield f"standard error: {here.stderr!r}"
    elif (case.stderr_kind, case.stderr_last) != ("", "") or here.stderr != WARNINGS.get(case.name, ""):
        yield f"standard error: {here.stderr!r}"


def _flags(text: str) -> list[str]:
    return [word.strip("[],") for word in text.split() if word.strip("[]").startswith("--")]


def _usage_differences(case: Case, here: Outcome) -> Iterator[str]:
    if (here.code, here.stdout) != (2, case.stdout) or case.stderr_kind != "usage":
        yield f"exit code {here.code}, standard output {here.stdout!r}"
    # The lines before it show the usage, laid out as this Python's argparse does.
    if not here.stderr.endswith(f"\n{case.stderr_last}\n"):
        yield f"usage error: {here.stderr!r}"


def _division_differences(release: str, case: Case, here: Outcome) -> Iterator[str]:
    if (case.returncode, case.stderr_kind) != (1, "ZeroDivisionError"):
        yield "the original did not end with ZeroDivisionError"
    if case.stderr_last != "ZeroDivisionError: float division by zero":
        yield "the original ended with another error"
    expected = f"{case.stdout}{RULE}Success percentage: {DIVISIONS[release, case.name]} %\n"
    if (here.code, here.stdout, here.stderr) != (0, expected, ""):
        yield f"exit code {here.code}, standard output {here.stdout!r} instead of {expected!r}"


def _error_differences(release: str, case: Case, here: Outcome) -> Iterator[str]:
    if case.name not in ERRORS:
        yield f"exit code {case.returncode}, which is not among the known errors"
        return
    original, error = ERRORS[case.name]
    if (case.returncode, case.stderr_last) != (1, original) or case.stderr_kind != original.partition(":")[0]:
        yield f"the original's error is not {original!r}"
    expected = error.replace("{folder}", str(FOLDER)) + "\n"
    if (here.code, here.stdout, here.stderr) != (2, "", expected):
        yield f"exit code {here.code}, standard error {here.stderr!r} instead of {expected!r}"
    similar = PRINTED_BEFORE_AN_ERROR.get(case.name)
    before = outcome(release, similar).stdout.split(RULE)[0] if similar else case.stdout
    if case.stdout != before or (similar is None and case.stdout not in ("", NOTE)):
        yield "the original printed something else before its error"


# --- scores of single sentences ---------------------------------------------------------------------------------------


@functools.cache
def score_lines() -> list[str]:
    """The file of scores as lmassay would write it, line by line."""
    recorded = json.loads(SCORES.read_text(encoding="utf-8"))
    sets: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, pairs in recorded["sets"].items():
        sets[name] = {}
        for pair in pairs:
            # "adv|src" compares NAME.adv with NAME.src, "fr.adv|src" compares fr.adv with NAME.src.
            hypothesis, reference = pair.split("|")
            hypotheses = _sentences(hypothesis if "." in hypothesis else f"{name}.{hypothesis}")
            references = _sentences(f"{name}.{reference}")
            sets[name][pair] = {
                "chrf": [float(score) for score in lmassay.ChrF().score(hypotheses, references)],
                "bleu": [float(score) for score in lmassay.BLEU().score(hypotheses, references)],
            }
    versions = {"teapot": "0c252a8", "sacrebleu": "2.6.0"}
    return json.dumps({"versions": versions, "sets": sets}, indent=0).splitlines()


def _sentences(name: str) -> list[str]:
    return loadtxt(str(FOLDER / "inputs" / name))


def recorded_score_lines() -> list[str]:
    return SCORES.read_text(encoding="utf-8").splitlines()


def is_same_score(recorded: str, here: str) -> bool:
    """Whether two lines are equal to the last digit, except that BLEU of identical text is capped at 1."""
    return recorded in (here, here.replace("1.0", "1.0000000000000004")) if _is_one(here) else recorded == here


def _is_one(line: str) -> bool:
    return line.rstrip(",") == "1.0"
