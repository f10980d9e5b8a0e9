"""The verbs as a user types them."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pytest

from tests.helpers import ROOT, lmassay, lmassay_process, write_config, write_lines
from tests.terminal import in_terminal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one configuration of two runs, already run."""
    place = tmp_path_factory.mktemp("user")
    write_lines(place / "src.txt", ["the cat sat on the mat", "=a dog barked loudly", "we lost the house key again"])
    task = {"name": "robustness", "src": "src.txt", "attack": ["charswap", {"name": "worddrop", "rate": 1.0}]}
    model = {"name": "echo", "transform": "upper", "label": "upper <b>"}
    write_config(place / "two.yaml", {"task": task, "model": model, "resamples": 200})
    done = lmassay("run", "two.yaml", cwd=place)
    assert done.returncode == 0, done.stderr
    return place


def test_run_prints_a_row_for_every_run_with_interval_and_n(folder):
    done = lmassay("run", "two.yaml", cwd=folder)
    assert "charswap" in done.stdout
    assert "worddrop" in done.stdout
    assert "[" in done.stdout
    assert "unscored" in done.stdout


def test_json_is_one_document_of_the_promised_shape_and_nothing_else(folder):
    done = lmassay("run", "two.yaml", "--set", "task.attack=delete", "--limit", 2, "--json", cwd=folder)
    (document,) = json.loads(done.stdout)["runs"]
    assert set(document) >= {"run", "task", "model", "signature", "results"}
    assert document["task"] == "robustness"
    for result in document["results"]:
        assert set(result) == {"metric", "group", "value", "low", "high", "n", "n_error", "n_unscored", "method"}
        assert result["n"] == 2
    shown = lmassay("show", document["run"], "--json", cwd=folder)
    assert json.loads(shown.stdout) == {"runs": [document]}


def test_a_sweep_in_json_is_a_list_of_such_documents(folder):
    document = json.loads(lmassay("run", "two.yaml", "--json", cwd=folder).stdout)
    assert [run["label"] for run in document["runs"]] == ["charswap", "worddrop"]


def test_ls_show_and_provenance(folder):
    listed = lmassay("ls", cwd=folder)
    assert "done" in listed.stdout
    shown = lmassay("show", "latest", "--provenance", cwd=folder)
    assert "signature" in shown.stdout
    assert "versions" in shown.stdout
    assert json.loads(lmassay("ls", "--json", cwd=folder).stdout)["runs"]


def test_compare_pairs_two_runs(folder):
    runs = [run["run"] for run in json.loads(lmassay("ls", "--json", cwd=folder).stdout)["runs"]][:2]
    done = lmassay("compare", *runs, cwd=folder)
    assert "difference" in done.stdout
    assert "worddrop" in done.stdout
    document = json.loads(lmassay("compare", *runs, "--json", cwd=folder).stdout)
    assert {"metric", "difference", "low", "high", "p", "n"} <= set(document["comparisons"][0])
    alone = lmassay("compare", runs[0], cwd=folder)
    assert alone.returncode == 2
    assert "at least two runs" in alone.stderr


def test_export_as_json_lines_and_csv(folder):
    lines = lmassay("export", "latest", cwd=folder).stdout.splitlines()
    assert len(lines) == 3
    assert json.loads(lines[0])["state"] == "scored"
    done = lmassay("export", "latest", "--format", "csv", "-o", "rows.csv", cwd=folder)
    assert "3 rows" in done.stderr
    rows = list(csv.DictReader(io.StringIO((folder / "rows.csv").read_text(encoding="utf-8"))))
    assert len(rows) == 3
    assert rows[1]["src"].startswith("'="), "a cell that a spreadsheet would run is quoted"
    assert float(rows[0]["s_src"]) <= 1


def test_report_takes_the_last_command_by_default(folder):
    lmassay("run", "two.yaml", cwd=folder)
    done = lmassay("report", "-o", "page.html", cwd=folder)
    assert str(folder / "page.html") in done.stderr.replace("\n", "")
    assert "<p>2 runs, " in (folder / "page.html").read_text(encoding="utf-8")


def test_perturb_writes_the_same_number_of_lines(folder):
    done = lmassay(
        "perturb", "keyboard", "--in", "src.txt", "--out", "adv.txt", "--rate", 1, "--set", "layout=azerty", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert "3 of 3 lines changed" in done.stderr
    assert len((folder / "adv.txt").read_text().splitlines()) == 3
    again = lmassay(
        "perturb", "keyboard", "--in", "src.txt", "--out", "adv2.txt", "--rate", 1, "--set", "layout=azerty", cwd=folder
    )
    assert again.returncode == 0
    assert (folder / "adv.txt").read_bytes() == (folder / "adv2.txt").read_bytes()


def test_perturb_compresses_a_file_that_ends_in_gz(folder):
    for name in ("adv.txt", "adv.txt.gz", "again.GZ"):
        done = lmassay("perturb", "keyboard", "--in", "src.txt", "--out", name, "--rate", 1, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert gzip.decompress((folder / "adv.txt.gz").read_bytes()) == (folder / "adv.txt").read_bytes()
    assert (folder / "again.GZ").read_bytes() == (folder / "adv.txt.gz").read_bytes()
    # What was written can be read.
    assert lmassay("perturb", "keyboard", "--in", "adv.txt.gz", "--out", "twice.txt", cwd=folder).returncode == 0


@pytest.mark.parametrize("verb", ["tasks", "models", "scorers", "perturbations", "methods"])
def test_listings_name_what_there_is(verb):
    document = json.loads(lmassay(verb, "--json").stdout)
    assert document[verb]
    assert all(row["summary"] and not row["problem"] for row in document[verb])
    assert document[verb][0]["name"] in lmassay(verb).stdout


def test_doctor_tells_what_is_there_and_how_to_get_the_rest(folder):
    done = lmassay("doctor", cwd=folder)
    assert done.returncode == 0
    assert "numpy" in done.stdout
    without_java = lmassay("doctor", cwd=folder, env={"PATH": "/nonexistent"})
    assert "default-jre-headless" in without_java.stdout


@pytest.mark.parametrize(
    "verb", ["run", "check", "resume", "ls", "show", "compare", "export", "report", "perturb", "doctor", "scorers"]
)
def test_every_verb_has_help_with_an_example(verb):
    done = lmassay(verb, "--help")
    assert done.returncode == 0
    assert f"Example: lmassay {verb}" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nothing"], "there is no run 'nothing'"),
        (["run", "none.yaml"], "cannot read the configuration none.yaml"),
        (["ls", "--results", "empty"], "run something first"),
        (["perturb", "chrswap", "--in", "src.txt", "--out", "x"], "did you mean 'charswap'"),
        (["perturb", "charswap", "--in", "src.txt", "--out", "x", "--rate", "2"], "rate"),
        (["perturb", "charswap", "--in", "none", "--out", "x"], "does not exist"),
        (["nonsense"], "No such command"),
        (["run", "two.yaml", "--set", "task.atack=x"], "did you mean 'attack'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(folder, arguments, message):
    done = lmassay(*arguments, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_sweep_goes_on_when_one_run_fails_and_says_which(tmp_path):
    write_lines(tmp_path / "src.txt", ["one two three four"])
    dead = {"name": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "dead", "tries": 1}
    task = {"name": "robustness", "src": "src.txt", "attack": "wordswap"}
    write_config(tmp_path / "c.yaml", {"task": task, "model": ["echo", dead, {"name": "echo", "transform": "upper"}]})
    done = lmassay("run", "c.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert [run["status"] for run in json.loads(done.stdout)["runs"]] == ["done", "failed", "done"]
    assert "no server answers" in done.stderr
    assert "lmassay resume" in done.stderr


def test_what_a_plug_in_prints_is_kept_out_of_the_json(tmp_path):
    write_lines(tmp_path / "src.txt", ["one two three four"])
    (tmp_path / "noisy.py").write_text(
        "from lmassay.models.echo import Echo\nprint('loading')\n"
        "class Noisy(Echo):\n    def generate(self, requests):\n        print('noise')\n"
        "        return super().generate(requests)\n"
    )
    task = {"name": "robustness", "src": "src.txt", "attack": "wordswap"}
    write_config(tmp_path / "c.yaml", {"task": task, "model": "noisy.py:Noisy"})
    done = lmassay("run", "c.yaml", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["runs"][0]["status"] == "done"
    assert "noise" in done.stderr


def test_an_input_called_like_a_score_does_not_take_its_place(tmp_path):
    (tmp_path / "odd.py").write_text(
        "from lmassay.types import Example, Score\nfrom lmassay.statistics.intervals import mean_results\n"
        "class Odd:\n    name, version, needs = 'odd', 1, frozenset()\n"
        "    def examples(self):\n        yield Example('1', {'id': 'mine', 'good': 'INPUT'})\n"
        "    def requests(self, example):\n        return []\n"
        "    def score(self, examples, responses):\n        return [Score({'good': 0.5})]\n"
        "    def aggregate(self, table, settings):\n        return mean_results(table, ['good'], settings)\n"
        "    def signature(self):\n        return {}\n"
    )
    write_config(tmp_path / "c.yaml", {"task": "odd.py:Odd"})
    assert lmassay("run", "c.yaml", cwd=tmp_path).returncode == 0
    (row,) = csv.DictReader(io.StringIO(lmassay("export", "latest", "--format", "csv", cwd=tmp_path).stdout))
    assert (row["id"], row["good"], row["text.id"], row["text.good"]) == ("1", "0.5", "mine", "INPUT")


def test_mistakes_found_while_planning_have_file_and_line(folder):
    done = lmassay("check", "two.yaml", "--set", "task.src=none.txt", cwd=folder)
    assert done.returncode == 2
    assert "two.yaml" in done.stderr
    assert "none.txt does not exist" in done.stderr
    task = {"name": "robustness", "src": "src.txt", "attack": "chrswap"}
    write_config(folder / "bad.yaml", {"task": task, "model": "echo"})
    done = lmassay("check", "bad.yaml", cwd=folder)
    assert "bad.yaml" in done.stderr
    assert "did you mean 'charswap'" in done.stderr


def test_results_go_to_standard_output_even_with_a_progress_bar(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\nfrom lmassay.models.echo import Echo\n"
        "class Slow(Echo):\n    def generate(self, requests):\n        time.sleep(1.6)\n"
        "        return super().generate(requests)\n"
    )
    write_lines(tmp_path / "src.txt", ["one two three four"])
    task = {"name": "robustness", "src": "src.txt", "attack": {"name": "a [/x] b", "perturb": "wordswap"}}
    write_config(tmp_path / "c.yaml", {"task": task, "model": "slow.py:Slow"})
    done = in_terminal("run", "c.yaml", "--json", cwd=tmp_path, stdout_aside=True)
    assert json.loads(done.stdout)["runs"][0]["status"] == "done"
    assert "━" in done.screen, "the bar was shown"
    assert "Traceback" not in done.screen


def test_a_change_anywhere_in_the_file_of_an_own_model_asks_it_again(tmp_path):
    source = (
        "SUFFIX = 'one'\ndef helper(text):\n    return text + SUFFIX\n"
        "class Mine:\n    name, can = 'mine', frozenset({'generate'})\n"
        "    def identity(self):\n        return {'name': 'mine'}\n"
        "    def generate(self, requests):\n        return [helper(r.prompt) for r in requests]\n"
    )
    write_lines(tmp_path / "src.txt", ["one two three four"])
    task = {"name": "robustness", "src": "src.txt", "attack": "wordswap"}
    write_config(tmp_path / "c.yaml", {"task": task, "model": "mine.py:Mine"})
    for suffix in ("one", "another"):
        (tmp_path / "mine.py").write_text(source.replace("'one'", repr(suffix)))
        assert lmassay("run", "c.yaml", cwd=tmp_path).returncode == 0
        row = json.loads(lmassay("export", "latest", cwd=tmp_path).stdout)
        assert row["details"]["out"].endswith(suffix)


@pytest.mark.fault(46)
def test_terminal_escapes_in_data_do_not_reach_the_terminal(tmp_path):
    write_lines(tmp_path / "src.txt", ["one two three"])
    task = {
        "name": "robustness",
        "src": "src.txt",
        "attack": {"name": "\x1b[31mred\x1b]0;t\x07", "perturb": "delete", "rate": 1.0},
    }
    write_config(tmp_path / "c.yaml", {"task": task, "model": "echo"})
    done = lmassay("run", "c.yaml", cwd=tmp_path)
    shown = lmassay("show", "latest", cwd=tmp_path)
    assert done.returncode == 0
    for text in (done.stdout, done.stderr, shown.stdout):
        assert "\x1b" not in text
        assert "\x07" not in text


ASCII = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}


def skip_if_python_cannot_start(environment):
    """In an ASCII locale, Python itself cannot read the .pth file of an editable package in a folder like 한글."""
    if environment is ASCII and not str(ROOT).isascii():
        pytest.skip("with an ASCII locale, Python does not start from a folder whose name is not ASCII")


@pytest.mark.fault(52)
@pytest.mark.parametrize(("name", "environment"), [("a b", ASCII), ("폴더 with spaces", {"PYTHONIOENCODING": "cp949"})])
def test_a_console_that_is_not_utf8_does_not_crash(tmp_path, name, environment):
    skip_if_python_cannot_start(environment)
    place = tmp_path / name
    place.mkdir()
    write_lines(place / "src.txt", ["안녕하세요 세계 여러분 모두", "l'été dernier était très chaud"])
    task = {"name": "robustness", "src": "src.txt", "attack": {"name": "déjà 🙂", "perturb": "charswap", "rate": 1.0}}
    (place / "c.yaml").write_text(json.dumps({"task": task, "model": "echo"}, ensure_ascii=False), encoding="utf-8")
    done = lmassay_process("run", place / "c.yaml", "--results", place / "r", env=environment)
    assert done.returncode == 0, done.stderr
    exported = lmassay_process("export", "latest", "--results", place / "r", env=environment)
    assert [json.loads(line)["state"] for line in exported.stdout.splitlines()] == ["scored", "scored"]
    assert lmassay_process("run", place / "c.yaml", "--results", place / "r", "--json", env=environment).returncode == 0


def test_the_version_is_printed():
    import lmassay as package

    assert package.__version__ in lmassay("--version").stdout
    assert (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").count(f"[{package.__version__}]") >= 1
