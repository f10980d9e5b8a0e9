"""Bad input to TEAPOT's command: a clear error that names file and line, exit code 2, and not one line of output."""

from __future__ import annotations

import json

import pytest

from tests.helpers import lmassay, write_config, write_lines

SCORERS = """
import lmassay
from lmassay import scorer, register_scorer, Scorer

@scorer("too_high")
def too_high(hyp, ref):
    return 1.5 if "two" in ref else 1.0

@scorer("not_a_number")
def not_a_number(hyp, ref):
    return float("nan")

@scorer("crashes")
def crashes(hyp, ref):
    return 1 / ref.count("o")

@register_scorer("too_few", "Too Few")
class TooFew(Scorer):
    def score_corpus(self, hyps, refs, lang=None):
        return [1.0]

@register_scorer("no_method", "No Method")
class NoMethod(Scorer):
    pass
"""


@pytest.fixture
def folder(tmp_path):
    write_lines(tmp_path / "src", ["line one", "line two", "line three"])
    write_lines(tmp_path / "adv", ["lien one", "lien two", "lien three"])
    write_lines(tmp_path / "short", ["line one"])
    (tmp_path / "empty").touch()
    (tmp_path / "latin").write_bytes("ok\ncafé\nok\n".encode("latin-1"))
    (tmp_path / "scorers.py").write_text(SCORERS)
    (tmp_path / "broken.py").write_text("import lmassay\n\nraise RuntimeError('broken on purpose')\n")
    (tmp_path / "syntax.py").write_text("def f(:\n")
    (tmp_path / "takes_chrf.py").write_text(
        "from lmassay import scorer\n@scorer('chrf')\ndef f(h, r):\n    return 1.0\n"
    )
    return tmp_path


SIDES = ["--src", "src", "--adv-src", "adv"]
CUSTOM = [*SIDES, "--custom-scores-source", "scorers.py", "--s-src"]


@pytest.mark.fault(26)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], ["--src and --adv-src"]),
        (["--src", "src"], ["--src and --adv-src"]),
        (["--src", "src", "--adv-src", "short"], ["line 2 of the src file src", "short has 1"]),
        ([*SIDES, "--out", "short", "--adv-out", "short"], ["line 2", "has no counterpart"]),
        (["--out", "src", "--adv-out", "adv", "--ref", "short"], ["ref file short has 1"]),
        (["--src", "nowhere", "--adv-src", "adv"], ["src file nowhere does not exist"]),
        ([*SIDES, "--ref", "nowhere"], ["ref file nowhere does not exist"]),
        (["--src", ".", "--adv-src", "adv"], ["is a folder"]),
        (["--src", "empty", "--adv-src", "empty"], ["src file empty is empty"]),
        (["--src", "latin", "--adv-src", "adv"], ["latin, line 2", "0xe9", "iconv"]),
        ([*SIDES, "--s-src", "chfr"], ["there is no scorer 'chfr'", "did you mean 'chrf'"]),
        ([*CUSTOM, "too_high"], ["adv, line 2", "1.5", "[0, 1]"]),
        ([*CUSTOM, "not_a_number"], ["adv, line 1", "nan"]),
        ([*CUSTOM, "crashes"], ["adv, line 3", "ZeroDivisionError"]),
        ([*CUSTOM, "too_few"], ["gave 1 scores for 3 pairs"]),
        ([*CUSTOM, "no_method"], ["neither score_sentence nor score_corpus"]),
        ([*SIDES, "--custom-scores-source", "nowhere.py"], ["there is no file", "nowhere.py"]),
        ([*SIDES, "--custom-scores-source", "broken.py"], ["broken.py, line 3", "broken on purpose"]),
        ([*SIDES, "--custom-scores-source", "syntax.py"], ["syntax.py, line 1", "SyntaxError"]),
        ([*SIDES, "--custom-scores-source", "takes_chrf.py"], ["'chrf' is registered twice", "takes_chrf.py"]),
        ([*SIDES, "--out", "nowhere"], ["out file nowhere does not exist"]),
        ([*SIDES, "--scale", "x"], ["invalid float value"]),
        ([*SIDES, "--s-src", "meteor"], ["METEOR needs a language: --src-lang"]),
        ([*SIDES, "--s-src", "meteor", "--meteor-jar", "no.jar", "--src-lang", "en"], ["no.jar"]),
        ([*SIDES, "--s-src", "bleu", "--bleu-compat", "3.x"], ["3.x"]),
    ],
)
def test_the_mistake_is_named_and_nothing_is_printed(folder, arguments, message):
    done = lmassay("teapot", *arguments, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for words in message:
        assert words in " ".join(done.stderr.split()), done.stderr


TEAPOT_STYLE = """
import teapot
from teapot import ChrF, Scorer, register_scorer
from teapot.scorers import scorers
from teapot.utils import relative_decrease

print("a file may print")
assert "chrf" in scorers

@register_scorer(["lower", "lower2"], "Lower")
class Lower(teapot.ChrF):
    def score_sentence(self, hyp, ref, lang=None):
        return super().score_sentence(hyp.lower(), ref.lower(), lang=lang)

@register_scorer("half", "Half")
class Half(Scorer):
    def __init__(self, value):
        self.value = value
    def score_sentence(self, hyp, ref, lang=None):
        return self.value
    @classmethod
    def add_args(cls, parser):
        parser.add_argument_group("Half").add_argument("--value", type=float, default=0.5)
    @classmethod
    def from_args(cls, args):
        return cls(args.value)

@register_scorer("third", "Third")
class Third(Half):
    pass

@register_scorer("own", "Own")
class Own(Scorer):
    def score_sentence(self, hyp, ref, lang=None):
        return 1.0
    def rd_score(self, hyps, bases, refs, lang=None, check_tok=True):
        return [0.9 for _ in hyps]

@register_scorer("quits", "Quits")
class Quits(Scorer):
    def score_sentence(self, hyp, ref, lang=None):
        raise SystemExit(0)
"""


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--s-src", "lower2"], ["100.000"]),
        (["--s-src", "half", "--s-tgt", "third", "--value", "0.25"], ["25.000"]),
        (["--s-tgt", "own", "--out", "src", "--adv-out", "adv", "--ref", "src"], ["90.000"]),
    ],
)
def test_scorers_in_teapots_style_work_as_they_did_there(folder, arguments, lines):
    (folder / "styles.py").write_text(TEAPOT_STYLE)
    write_lines(folder / "adv", ["LINE one", "line TWO", "Line Three"])
    done = lmassay("teapot", *SIDES, "--custom-scores-source", "styles.py", "--terse", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    for line in lines:
        assert line in done.stdout.splitlines()
    assert "may print" in done.stderr
    assert "may print" not in done.stdout


def test_a_scorer_that_ends_the_program_is_an_error(folder):
    (folder / "styles.py").write_text(TEAPOT_STYLE)
    done = lmassay("teapot", *SIDES, "--custom-scores-source", "styles.py", "--s-src", "quits", cwd=folder)
    assert done.returncode == 2
    assert "adv, line 1: the scorer Quits failed on 'lien one' against 'line one': SystemExit(0)" in done.stderr


def test_teapot_style_scorers_work_in_a_configuration(folder):
    (folder / "styles.py").write_text(TEAPOT_STYLE)
    task = {"name": "robustness", "side": "source", "src": "src", "attack": {"name": "a", "file": "adv"}}
    signatures = []
    for value in (0.25, 0.75):
        task["s_src"] = {"name": "styles.py:half", "value": value}
        write_config(folder / "c.yaml", {"task": task})
        done = lmassay("run", "c.yaml", "--json", cwd=folder)
        assert done.returncode == 0, done.stderr
        (document,) = json.loads(done.stdout)["runs"]
        assert document["results"][0]["value"] == value
        signatures.append(document["signature"])
    assert signatures[0] != signatures[1]


def test_a_half_given_side_is_ignored_with_a_warning(folder):
    done = lmassay("teapot", *SIDES, "--out", "src", cwd=folder)
    assert done.returncode == 0
    assert "--out is ignored without --adv-out" in done.stderr


def test_a_byte_order_mark_and_tokenized_text_are_warned_of(folder):
    (folder / "bom").write_text("\ufeffa .\n" + "b .\n" * 120, encoding="utf-8")
    done = lmassay("teapot", "--src", "bom", "--adv-src", "bom", cwd=folder)
    assert done.returncode == 0
    assert "byte-order mark" in done.stderr
    assert "looks tokenized" in done.stderr
    assert "warning" not in done.stdout
