"""METEOR against the jar's own batch mode, against gold scores, and when things go wrong."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import UserError
from lmassay.evaluations.robustness.scorers import meteor
from lmassay.evaluations.robustness.scorers.meteor import METEOR, find_jar
from tests.published.teapot_inputs import write_inputs
from tests.published.teapot_scores import scores_of_meteor
from tests.published_data import FIGURES, published_set

# Slow tests run first and on one worker: the English paraphrase table, which takes long to read, is read once.
english = pytest.mark.slow

WORDS = " ".join(f"word{i}" for i in range(3000))

ODD_PAIRS = [
    ("", ""),
    ("", "a cat"),
    ("a cat", ""),
    ("  ", "\t"),
    ("a cat ||| a dog", "a cat|||a dog"),
    ("|||", "||||"),
    ("a cat |||", "a cat"),
    ("a\tcat\tsat", "a cat sat"),
    ("\ta cat sat\t", "a cat sat"),
    ("a\x00cat", "a cat"),
    ("\x00a cat\x00", "a cat"),
    ("\x00", "\x00"),
    ("\x0ba cat\x0b", "a cat"),
    ("\x1ca cat.\x1f", "a cat."),
    ("a\x0ccat\x0c", "a cat"),
    ("a\u2028cat\u2029sat", "a cat sat"),
    ("a\x85cat", "a cat"),
    ("\ufeffa cat", "a cat"),
    ("\u2003a\u3000cat\xa0", "a cat"),
    ("a 😀 cat 👨‍👩‍👧", "a cat 😀 👨‍👩‍👧"),
    ("Mr. Smith won't go to the U.S. ...", "Mr. Smith will not go to the U.S. !"),
    ("I SIT İ", "i sit ı"),
    (WORDS + " zebra", "zebra"),
    ("zebra " + WORDS + " cat", "a cat " * 40),
    ("the " * 10_000, "the end"),
    (WORDS[:6000], WORDS[:6000].upper()),
]


@pytest.fixture(scope="module")
def jar() -> Path:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    try:
        return find_jar()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def quick_jar(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jar with an empty French paraphrase table: starts in a moment. Its path has a space and an accent."""
    folder = tmp_path_factory.mktemp("mé téor")
    (folder / "data").mkdir()
    (folder / "data" / "paraphrase-fr.gz").write_bytes(gzip.compress(b""))
    return Path(shutil.copy(jar, folder))


@pytest.fixture
def quick(quick_jar: Path) -> Iterator[METEOR]:
    """METEOR with a process of its own, fit to be killed."""
    end(quick_jar)
    yield METEOR(quick_jar)
    end(quick_jar)


def end(jar: Path) -> None:
    """End the processes of this jar only; the English one took long to start."""
    for launch in [launch for launch in meteor._servers if launch.jar == jar]:
        meteor._servers.pop(launch).close()


def batch_scores(jar: Path, pairs: list[tuple[str, str]], folder: Path) -> list[float]:
    files = [folder / "hyp", folder / "ref"]
    for file, texts in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_bytes("".join(f"{text}\n" for text in texts).encode())
    command = ["java", "-Xmx2G", "-jar", str(jar), *map(str, files), "-norm", "-l", "fr"]
    # The jar does not find the table beside it if its path has a space.
    command += ["-a", str(jar.parent / "data" / "paraphrase-fr.gz")]
    # Java reads names of files, and the jar's own place, in the locale's encoding.
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    output = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, env=environment).stdout
    return [float(score) for score in re.findall(r"^Segment \d+ score:\t(.*)$", output, re.MULTILINE)]


def lines(file: Path) -> list[str]:
    return [line.rstrip() for line in file.read_text(encoding="utf-8").split("\n")[:-1]]


def pids(jar: Path) -> list[int]:
    servers = [server for launch, server in meteor._servers.items() if launch.jar == jar]
    return [server._process.popen.pid for server in servers if server._process is not None]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


# --- scores


@english
@pytest.mark.parametrize("hyp", ["adv.charswap.en", "adv.knn.en"])
@pytest.mark.parametrize("ref", ["ref.en", "base.en"])
def test_scores_are_the_gold_scores_to_the_last_bit(jar: Path, hyp: str, ref: str) -> None:
    gold = scores_of_meteor()
    data = published_set("teapot") / "MT"
    assert METEOR(jar).score(lines(data / hyp), lines(data / ref), lang="en") == gold[f"{hyp}|{ref}"]


@english
def test_relative_decrease_has_the_published_mean(jar: Path) -> None:
    data = published_set("teapot") / "MT"
    hyp, base, ref = (lines(data / name) for name in ("adv.charswap.en", "base.en", "ref.en"))
    decreases = METEOR(jar).rd_score(hyp, base, ref, lang="en")
    assert f"{100 * sum(decreases) / len(decreases):.3f}" == "24.972"


def gold_means() -> Iterator[tuple[str, list[str], str]]:
    """Name, arguments and printed mean of the gold runs with METEOR on the target side alone, without reference."""
    for line in (FIGURES / "teapot" / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if re.search(r"meteor.*\.en\.noref$", case["name"]):
            yield case["name"], case["args"], re.search(r"Mean:\t(.*)", case["stdout"])[1]  # type: ignore[index]


@english
def test_means_are_those_of_the_gold_runs(jar: Path, tmp_path: Path) -> None:
    data = published_set("teapot")
    write_inputs(data, tmp_path)
    paths = {"data": data, "inputs": tmp_path, "meteor_jar": jar}
    means = {}
    for name, args, _ in gold_means():
        out, adv_out = (lines(Path(args[args.index(o) + 1].format(**paths))) for o in ("--out", "--adv-out"))
        scores = METEOR(jar).score(adv_out, out, lang="en")
        means[name] = f"{100 * sum(scores) / len(scores):.3f}"
    assert len(means) >= 5
    assert means == {name: mean for name, _, mean in gold_means()}


def test_odd_lines_score_as_in_batch_mode(quick_jar: Path, tmp_path: Path) -> None:
    hyps, refs = zip(*ODD_PAIRS, strict=True)
    scores = METEOR(quick_jar).score_corpus(hyps, refs, lang="fr")
    assert scores == batch_scores(quick_jar, ODD_PAIRS, tmp_path)
    assert any(0 < score < 1e-3 for score in scores), "none was printed with an exponent"


@english
def test_line_breaks_inside_a_text_are_white_space(jar: Path) -> None:
    texts = ["a\rcat", "a\ncat", "a\r\ncat", "a cat\n", "\ra cat"]
    assert METEOR(jar).score(texts, ["a cat"] * 5, lang="en") == [1.0] * 5


@english
def test_a_lone_surrogate_is_scored(jar: Path) -> None:
    assert METEOR(jar).score_sentence("a \ud800 cat", "a \ufffd cat", lang="en") == 1.0


@english
def test_one_sentence_gives_one_float(jar: Path) -> None:
    assert METEOR(jar).score_sentence("the cat", "the cat", lang="en") == 1.0


def test_no_pairs_give_no_scores_and_start_nothing(quick: METEOR) -> None:
    assert quick.score([], [], lang="fr") == []
    assert pids(quick.jar) == []


def test_more_lines_than_a_pipe_holds_go_through(quick: METEOR) -> None:
    hyps = [f"un chat noir {i % 7}" for i in range(6_000)]
    scores = quick.score(hyps, ["un chat noir 3"] * 6_000, lang="fr")
    assert [i for i, score in enumerate(scores) if score == 1.0] == list(range(3, 6_000, 7))


@given(st.text(alphabet=st.characters() | st.sampled_from("|\r\n\t\x00 ")))
def test_a_text_is_made_one_line_without_separator(text: str) -> None:
    line = meteor.one_line(text)
    assert not {"\n", "\r"} & set(line)
    assert "|||" not in line
    line.encode()


# --- the process


def test_all_objects_share_one_process_per_language(quick_jar: Path, quick: METEOR) -> None:
    quick.score_sentence("un chat", "un chat", lang="fr")
    first = pids(quick_jar)
    METEOR(str(quick_jar)).score_sentence("un chien", "un chat", lang="fr")
    assert len(first) == 1
    assert pids(quick_jar) == first


def test_close_all_ends_the_process_and_the_next_score_starts_another(quick: METEOR) -> None:
    quick.score_sentence("un chat", "un chat", lang="fr")
    first = pids(quick.jar)
    meteor.close_all()
    assert gone(first[0])
    assert quick.score_sentence("un chat", "un chat", lang="fr") == 1.0


def test_a_path_with_a_space_finds_its_paraphrases_in_an_ascii_locale(
    quick: METEOR, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert quick.score_sentence("élan", "élan", lang="fr") == 1.0


def test_a_machine_with_decimal_commas_gives_the_same_scores(quick: METEOR, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = quick.score_sentence("le chat noir", "le chat", lang="fr")
    end(quick.jar)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=de -Duser.country=DE -Dfile.encoding=ISO-8859-1")
    assert quick.score_sentence("le chat noir", "le chat", lang="fr") == expected


def test_the_user_may_choose_a_garbage_collector(quick_jar: Path) -> None:
    scorer = METEOR(quick_jar, "java -XX:+UseParallelGC -Xmx1G -jar")
    assert scorer.score_sentence("un chat", "un chat", lang="fr") == 1.0


def test_a_wrapper_with_a_space_in_its_path_may_start_java(quick_jar: Path, tmp_path: Path) -> None:
    wrapper = tmp_path / "my java"
    wrapper.write_text('#!/bin/sh\nexec java -Xmx1G -jar "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    assert METEOR(quick_jar, f"'{wrapper}'").score_sentence("un chat", "un chat", lang="fr") == 1.0


def test_a_process_killed_while_idle_is_replaced(quick: METEOR) -> None:
    before = quick.score_sentence("un chat noir", "un chat", lang="fr")
    os.kill(pids(quick.jar)[0], signal.SIGKILL)
    assert quick.score_sentence("un chat noir", "un chat", lang="fr") == before


def kill_at_write(monkeypatch: pytest.MonkeyPatch, when: Callable[[int], bool]) -> None:
    """Kill the process in the middle of a conversation: right after we wrote to it."""
    written = 0
    write = meteor._Process._write

    def write_and_kill(process: meteor._Process, to_write: list[str]) -> None:
        nonlocal written
        written += 1
        write(process, to_write)
        if when(written):
            process.popen.kill()

    monkeypatch.setattr(meteor._Process, "_write", write_and_kill)


def test_a_process_killed_while_scoring_is_started_again_once(quick: METEOR, monkeypatch: pytest.MonkeyPatch) -> None:
    hyps, refs = [f"un chat {i % 3}" for i in range(300)], ["un chat 1"] * 300
    expected = quick.score(hyps, refs, lang="fr")
    kill_at_write(monkeypatch, lambda written: written == 5)
    assert quick.score(hyps, refs, lang="fr") == expected


def test_a_process_killed_again_is_an_error(quick: METEOR, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_at_write(monkeypatch, lambda written: written >= 3)
    with pytest.raises(UserError, match=r"failed after \d+ pairs: it left no message \(exit code -9\)"):
        quick.score(["un chat"] * 300, ["un chat"] * 300, lang="fr")


def test_too_little_memory_is_an_error_that_says_so(quick_jar: Path) -> None:
    scorer = METEOR(quick_jar, "java -Xmx12M -jar")
    hyps = ["un chat", " ".join(f"mot{i}" for i in range(40_000))]
    with pytest.raises(
        UserError, match=r"failed after 1 pairs: .*OutOfMemoryError: Java heap space; give Java more memory"
    ):
        scorer.score(hyps, hyps, lang="fr")


SCRIPT = """
import os, sys
from lmassay.evaluations.robustness.scorers import meteor
from lmassay.evaluations.robustness.scorers.meteor import METEOR
scorer = METEOR(sys.argv[1])
scorer.score_sentence("un chat", "un chat", lang="fr")
print(*(s._process.popen.pid for s in meteor._servers.values()), flush=True)
"""


def run_script(quick_jar: Path, more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", SCRIPT + more, str(quick_jar)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_no_java_is_left_when_python_ends(quick_jar: Path) -> None:
    output, errors = run_script(quick_jar, "").communicate()
    assert errors == ""
    assert gone(int(output))


def test_no_java_is_left_after_ctrl_c(quick_jar: Path) -> None:
    with run_script(quick_jar, "while True: scorer.score(['un chat'] * 999, ['un chien'] * 999, lang='fr')") as python:
        assert python.stdout is not None
        pid = int(python.stdout.readline())
        python.send_signal(signal.SIGINT)
        _, errors = python.communicate()
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert gone(pid)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_a_java_of_its_own(quick_jar: Path) -> None:
    more = """
child = os.fork()
scores = scorer.score([f"un chat {i}" for i in range(500)], ["un chat 7"] * 500, lang="fr")
assert [i for i, score in enumerate(scores) if score == 1] == [7], scores
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    python = run_script(quick_jar, more)
    _, errors = python.communicate()
    assert (python.returncode, errors) == (0, "")


# --- what goes wrong


def test_no_language_is_an_error(jar: Path) -> None:
    for call in (METEOR(jar).check, lambda: METEOR(jar).score(["a"], ["a"])):
        with pytest.raises(UserError, match=r"^METEOR needs a language: --src-lang / --tgt-lang \(src_lang"):
            call()


def test_java_that_is_not_there_is_an_error(jar: Path) -> None:
    with pytest.raises(UserError, match=r"^java was not found: .*'nojava'.*default-jre-headless.*--java-command"):
        METEOR(jar, "nojava -jar").check("en")


@pytest.mark.parametrize("command", ["", "'java"])
def test_a_java_command_that_names_no_program_is_an_error(jar: Path, command: str) -> None:
    with pytest.raises(UserError, match="java"):
        METEOR(jar, command).check("en")


def test_a_jar_that_is_not_there_is_named(jar: Path) -> None:
    with pytest.raises(UserError, match=r"/nope/meteor\.jar"):
        METEOR("/nope/meteor.jar").check("en")


def test_without_any_jar_the_error_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METEOR_JAR", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install --no-deps pycocoevalcap, or use --meteor-jar"):
        find_jar()


def test_the_variable_meteor_jar_names_the_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my.jar").write_bytes(b"")
    monkeypatch.setenv("METEOR_JAR", str(tmp_path / "my.jar"))
    assert METEOR().jar == tmp_path / "my.jar"


@pytest.mark.parametrize(
    ("lang", "message"),
    [
        ("fr", "file not found .*paraphrase-fr.gz"),
        ("da", r"-norm option.*No normalizer for language \(danish\)"),
        ("xx", r"No normalizer for language \(other\)"),
        ("ar", r"Unknown language \(ar\)"),
    ],
)
def test_a_language_the_jar_cannot_do_shows_the_jars_own_words(jar: Path, lang: str, message: str) -> None:
    if (jar.parent / "data" / f"paraphrase-{lang}.gz").exists():
        pytest.skip(f"this jar has a paraphrase table for {lang}")
    with pytest.raises(UserError, match=f"for the language '{lang}': .*{message}.*supports en, cz, de") as caught:
        METEOR(jar).score(["a"], ["a"], lang=lang)
    assert "\n" not in str(caught.value)


def test_what_java_says_about_a_wrong_option_is_shown(quick_jar: Path) -> None:
    with pytest.raises(UserError, match="Invalid maximum heap size: -Xmx1Z"):
        METEOR(quick_jar, "java -Xmx1Z -jar").score(["a"], ["a"], lang="fr")


# --- the command line


def test_the_signature_names_the_jar_by_its_hash(jar: Path) -> None:
    assert re.fullmatch(r"METEOR\(1\.5\|norm:yes\|jar:[0-9a-f]{8}\)", METEOR(jar).signature)


def test_options_make_the_scorer(jar: Path) -> None:
    parser = argparse.ArgumentParser()
    METEOR.add_args(parser)
    scorer = METEOR.from_args(parser.parse_args(["--meteor-jar", str(jar), "--java-command", "nojava -jar"]))
    assert scorer.jar == jar
    with pytest.raises(UserError, match="nojava"):
        scorer.check("en")


def test_the_compatibility_command_finds_the_jar_without_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "meteor-1.5.jar"
    jar.touch()
    monkeypatch.setenv("METEOR_JAR", str(jar))
    parser = argparse.ArgumentParser(prog="TEAPOT")
    METEOR.add_args(parser)
    assert METEOR.from_args(parser.parse_args([])).jar == jar
