"""Bad input to TEAPOT's command: a clear error that names file and line, exit code 2, and not one line of output."""

from __future__ import annotations

import pytest

from tests.helpers import lmassay, write_lines

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


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], ["--src and --adv-src"]),
        (["--src", "src"], ["--src and --adv-src"]),
        (["--src", "src", "--adv-src", "short"], ["line 2 of the src file src", "short has 1"]),
        ([*SIDES, "--out", "short", "--adv-out", "short"], ["line 2", "has no partner"]),
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
        ([*SIDES, "--scale", "x"], ["invalid float value"]),
        ([*SIDES, "--s-src", "meteor"], ["--meteor-jar"]),
        ([*SIDES, "--s-src", "meteor", "--meteor-jar", "no.jar", "--src-lang", "en"], ["no.jar"]),
        ([*SIDES, "--s-src", "bleu", "--bleu-compat", "3.x"], ["3.x"]),
    ],
)
def test_the_mistake_is_named_and_nothing_is_printed(folder, arguments, told):
    done = lmassay("teapot", *arguments, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for words in told:
        assert words in " ".join(done.stderr.split()), done.stderr


def test_a_half_given_side_is_ignored_with_a_warning(folder):
    done = lmassay("teapot", *SIDES, "--out", "src", cwd=folder)
    assert done.returncode == 0
    assert "--out is ignored without --adv-out" in done.stderr


def test_a_byte_order_mark_and_tokenised_text_are_warned_of(folder):
    (folder / "bom").write_text("\ufeffa .\n" + "b .\n" * 120, encoding="utf-8")
    done = lmassay("teapot", "--src", "bom", "--adv-src", "bom", cwd=folder)
    assert done.returncode == 0
    assert "byte-order mark" in done.stderr
    assert "looks tokenised" in done.stderr
    assert "warning" not in done.stdout
