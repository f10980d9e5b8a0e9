"""What the terminal shows of a run: what a reader wants first, and the way to the rest."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from lmassay.types import Example, Row, Score
from tests.compare_kit import add, scored, unscored
from tests.helpers import lmassay, write_config, write_lines
from tests.reporting.small_runs import config, two_constructions, write_pairs

TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm"}


def on_a_terminal(*arguments: object, cwd) -> list[str]:
    """The lines that a terminal of 80 columns shows."""
    done = lmassay(*arguments, cwd=cwd, env=TERMINAL)
    assert done.returncode == 0, done.stderr
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two runs of the syntax evaluation and one of whole sentences."""
    place = tmp_path_factory.mktemp("user")
    task = two_constructions(place, first="In a sentential complement of some length")
    write_config(place / "syntax.yaml", config(place, task, {"label": "one"}, {"label": "two"}))
    assert lmassay("run", "syntax.yaml", cwd=place).returncode == 0
    for i in range(45):
        write_pairs(place / f"set_{i}.jsonl", 2, UID=f"set_{i}", field=f"f{i % 2}")
    write_config(place / "pairs.yaml", config(place, {"name": "minimal_pairs", "data": "set_*.jsonl"}))
    return place


@pytest.fixture(scope="module")
def runs(folder):
    return [run["run"] for run in json.loads(lmassay("ls", "--json", cwd=folder).stdout)["runs"]][:2]


def test_a_run_with_hundreds_of_results_shows_its_headline_by_group(folder, runs):
    shown = lmassay("show", runs[0], cwd=folder).stdout
    assert "@" not in shown.partition("signature")[0]
    head = next(line.split() for line in shown.splitlines() if line.startswith("group"))
    assert head == ["group", "tse", "ew", "mw", "n", "tse", "n", "ew", "verb", "pairs"]
    firsts = [line.split("  ")[0] or line.split("  ")[1] for line in shown.splitlines()[2:]]
    groups = ["overall", "mean of constructions", "number", "plural", "singular", "construction"]
    assert firsts[:8] == [*groups, "In a sentential complement of some length", "Across"]
    assert re.search(r"^left out +errors: 0; unscored: 0$", shown, flags=re.MULTILINE)
    assert re.search(r"^mass +0\.800", shown, flags=re.MULTILINE)


def test_a_table_of_runs_names_a_command_that_works_on_their_folder(folder):
    done = lmassay("run", "syntax.yaml", "--results", "elsewhere", cwd=folder)
    assert "2 runs; full results of a run: lmassay show RUN --results elsewhere\n" in done.stdout


def test_the_line_about_the_rest_names_a_command_that_shows_it(folder, runs):
    shown = lmassay("show", runs[0], cwd=folder).stdout
    match = re.search(r"^more +(\d+) further results: lmassay (.+)$", shown, flags=re.MULTILINE)
    everything = lmassay(*match[2].split(), cwd=folder).stdout
    results = json.loads(lmassay("show", runs[0], "--json", cwd=folder).stdout)["runs"][0]["results"]
    assert everything.count("\n") == len(results) + 3, "title, heading, signature"
    assert "mw@bottom1e-06" in everything
    # Three metrics for six groups, and the mass.
    assert int(match[1]) == len(results) - 3 * 6 - 1


def test_the_command_names_the_results_folder_unless_it_is_the_usual_one(folder, runs):
    shown = lmassay("show", runs[0], "--results", folder / "results", cwd=folder.parent).stdout
    assert f"--all --results {shlex.quote(str(folder / 'results'))}" in shown


def test_json_holds_every_result_with_and_without_all(folder, runs):
    plain, everything = (lmassay("show", runs[0], "--json", *more, cwd=folder).stdout for more in ((), ("--all",)))
    assert plain == everything
    assert any("@" in result["metric"] for result in json.loads(plain)["runs"][0]["results"])


def test_a_terminal_of_80_columns_shows_whole_cells(folder, runs):
    lines = on_a_terminal("show", runs[0], cwd=folder)
    table = lines[1 : next(i for i, line in enumerate(lines) if line.startswith("left out"))]
    assert all(len(line) <= 80 for line in table)
    intervals = [line for line in table if "[" in line]
    assert len(intervals) == 6
    assert all(len(re.findall(r"\[[01]\.\d{3}, [01]\.\d{3}\]", line)) == 3 for line in intervals)
    assert sum(" complement" in line for line in table) == 1, "a long name goes on below its beginning"


def test_a_sweep_has_a_column_for_each_headline_metric(folder):
    shown = lmassay("run", "syntax.yaml", cwd=folder).stdout
    head = next(line.split() for line in shown.splitlines() if line.startswith("label"))
    assert head == ["label", "model", "tse", "ew", "mw", "n", "errors", "unscored", "run"]


def test_a_sweep_on_a_terminal_of_80_columns_shows_whole_cells(folder):
    lines = on_a_terminal("run", "syntax.yaml", cwd=folder)
    assert all(len(line) <= 80 for line in lines)
    assert sum(len(re.findall(r"\[[01]\.\d{3}, [01]\.\d{3}\]", line)) for line in lines) == 6
    assert sum("2 constructions" in line for line in lines) == 2


@pytest.mark.parametrize(("columns", "has_one_line"), [("80", False), ("120", True)])
def test_a_table_has_one_line_per_run_if_the_terminal_has_room(tmp_path, columns, has_one_line):
    results = tmp_path / "results"
    for number in range(3):
        result = {"metric": "accuracy", "group": "overall", "value": 0.5, "low": 0.25, "high": 0.75, "n": 2}
        run = f"20260101-000000-quiz-00000{number}"
        add(results, run, [scored(0, accuracy=1.0)], results=[result], model="a model with a longer name", sweep="s")
    done = lmassay("ls", cwd=tmp_path, env={**TERMINAL, "COLUMNS": columns})
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert ("model" in lines[0].split()) == has_one_line
    assert len(lines) == (4 if has_one_line else 7)


def test_groups_too_many_for_a_screen_are_left_to_all(folder):
    shown = lmassay("run", "pairs.yaml", cwd=folder).stdout
    assert "  f0 " in shown
    assert "set_1" not in shown
    more = re.search(r"^more +(\d+) further", shown, flags=re.MULTILINE)
    assert int(more[1]) == 45 * 3
    assert "paradigm=set_1" in lmassay("show", "latest", "--all", cwd=folder).stdout


def test_errors_are_counted_and_reported_in_the_overview(tmp_path):
    write_config(tmp_path / "c.yaml", config(tmp_path, two_constructions(tmp_path), {"fails_on": "pilot"}))
    done = lmassay("run", "c.yaml", cwd=tmp_path)
    assert done.returncode == 1
    left_out = r"^left out +errors: tse \d+ rows, ew 4 examples, mw 4 examples; unscored: 0$"
    assert re.search(left_out, done.stdout, flags=re.MULTILINE)
    assert re.search(r"^error +4 × the <b>server</b> is on fire$", done.stdout, flags=re.MULTILINE)


def test_unscored_rows_are_reported_metric_by_metric_where_they_differ(tmp_path):
    write_config(tmp_path / "c.yaml", config(tmp_path, two_constructions(tmp_path), {"unknown": ["swim"]}))
    shown = lmassay("run", "c.yaml", cwd=tmp_path).stdout
    assert re.search(
        r"^left out +errors: 0; unscored: tse 10 rows, ew 0 examples, mw 0 examples$", shown, flags=re.MULTILINE
    )


def test_a_table_of_runs_says_that_its_counts_are_of_rows_and_the_reasons_of_examples(tmp_path):
    # A model that knows none of the verbs at some blanks: each of these contexts has three rows.
    models = [{"label": name, "unknown": ["laugh", "is", "swim"]} for name in ("one", "two")]
    write_config(tmp_path / "c.yaml", config(tmp_path, two_constructions(tmp_path), *models))
    shown = lmassay("run", "c.yaml", cwd=tmp_path).stdout
    assert shown.count("n, errors and unscored are those of tse and count rows; an example may have several.") == 1
    assert len(re.findall(r"unscored: 10 examples \(10 × a form of the pair is not a single token", shown)) == 2


def test_metrics_that_count_the_same_need_no_units(tmp_path):
    write_pairs(tmp_path / "pairs.jsonl", 3)
    write_config(
        tmp_path / "c.yaml", config(tmp_path, {"name": "minimal_pairs", "data": "pairs.jsonl"}, {}, {"label": "b"})
    )
    assert "count rows" not in lmassay("run", "c.yaml", cwd=tmp_path).stdout


def test_a_label_is_broken_between_words_even_without_room_for_its_indent(tmp_path):
    task = two_constructions(tmp_path, first="Across constructional phrase")
    write_config(tmp_path / "c.yaml", config(tmp_path, task))
    lines = on_a_terminal("run", "c.yaml", cwd=tmp_path)
    assert all(len(line) <= 80 for line in lines if "[" in line)
    assert any(line.startswith("  constructional ") for line in lines)


def test_a_table_is_split_rather_than_a_long_word_of_a_label(tmp_path):
    task = two_constructions(tmp_path, first="Across conceptualisation phrases")
    write_config(tmp_path / "c.yaml", config(tmp_path, task))
    lines = on_a_terminal("run", "c.yaml", cwd=tmp_path)
    assert sum(line.startswith("group") for line in lines) == 2
    assert any("conceptualisation" in line for line in lines)


def test_a_long_name_without_spaces_is_broken_after_a_separator(tmp_path):
    task = two_constructions(tmp_path, first="irregular_plural_subject_agreement")
    write_config(tmp_path / "c.yaml", config(tmp_path, task))
    labels = [line.split()[0] for line in on_a_terminal("run", "c.yaml", cwd=tmp_path) if "_" in line]
    assert all(label.endswith("_") for label in labels)
    assert "".join(labels) + "agreement" == "irregular_plural_subject_agreement"


def test_a_task_without_a_headline_shows_all_it_has(tmp_path):
    write_lines(tmp_path / "src.txt", ["the cat sat on the mat", "we lost the house key again"])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    write_config(tmp_path / "c.yaml", {"task": task, "model": {"name": "echo", "transform": "upper"}})
    shown = lmassay("run", "c.yaml", cwd=tmp_path).stdout
    assert shown.splitlines()[1].split()[:3] == ["metric", "group", "value"]
    assert "more " not in shown
    everything = lmassay("show", "latest", "--all", cwd=tmp_path).stdout
    assert everything.partition("signature")[0] == shown


def test_the_signature_is_shown_on_request_and_the_latest_run_without_an_argument(folder):
    short = lmassay("show", cwd=folder).stdout
    assert short == lmassay("show", "latest", cwd=folder).stdout
    assert "signature" not in short
    assert lmassay("show", "--signature", cwd=folder).stdout.startswith(f"{short}signature  lmassay:")


def test_the_latest_run_is_shown_as_one_of_several_of_its_command(tmp_path):
    write_lines(tmp_path / "src.txt", ["the cat sees the white house"])
    task = {"name": "robustness", "src": "src.txt", "attack": ["charswap", "case"]}
    write_config(tmp_path / "sweep.yaml", {"task": task, "model": "echo"})
    write_config(tmp_path / "single.yaml", {"task": {**task, "attack": "case"}, "model": "echo"})
    assert lmassay("run", "sweep.yaml", cwd=tmp_path).returncode == 0
    shown = lmassay("show", cwd=tmp_path)
    assert shown.stderr == "this is the last of 2 runs of one command; to list them: lmassay ls\n"
    assert lmassay("run", "single.yaml", cwd=tmp_path).returncode == 0
    assert lmassay("show", cwd=tmp_path).stderr == ""


def test_unscored_examples_are_counted_by_reason(tmp_path):
    results = tmp_path / "results"
    rows = [scored(0, accuracy=1.0), unscored(1), unscored(2)]
    rows.append(Row(Example("3", {}), "unscored", Score(unscored={"answer": "no answer: too_long"})))
    result = {"metric": "accuracy", "group": "overall", "value": 1.0, "n": 1, "n_unscored": 3}
    add(results, "one", rows, results=[result])
    assert "unscored   3 examples (2 × refused, 1 × no answer: too_long)" in lmassay("show", cwd=tmp_path).stdout
    (document,) = json.loads(lmassay("show", "--json", cwd=tmp_path).stdout)["runs"]
    assert document["unscored"] == {"refused": 2, "no answer: too_long": 1}
    for form in ("html", "md"):
        lmassay("report", "-o", f"r.{form}", cwd=tmp_path)
        text = (tmp_path / f"r.{form}").read_text(encoding="utf-8")
        assert "Unscored examples of label on model one: 3 (2 × refused, 1 × no answer: too_long)." in text


def test_a_metric_that_a_scored_example_lacks_counts_if_it_is_a_headline(tmp_path):
    row = Row(Example("0", {}), "scored", Score({"ew": 1.0}, {"tse": "several tokens", "ew@top0.5": "no lemma"}))
    result = {"metric": "tse", "group": "overall", "value": None, "n": 0, "n_unscored": 1}
    add(tmp_path / "results", "one", [row], results=[result], headline=["tse", "ew"])
    assert "unscored   1 example (1 × several tokens)\n" in lmassay("show", "--all", cwd=tmp_path).stdout


def test_a_run_in_which_nothing_can_be_scored_says_why(tmp_path):
    write_config(tmp_path / "c.yaml", config(tmp_path, two_constructions(tmp_path), {"fails_on": ""}))
    source = (tmp_path / "made.py").read_text(encoding="utf-8")
    head = "        for request in requests:\n"
    too_long = "            yield Response(finish='too_long')\n            continue\n"
    (tmp_path / "made.py").write_text(source.replace(head, f"{head}{too_long}"), encoding="utf-8")
    done = lmassay("run", "c.yaml", cwd=tmp_path)
    assert "examples could be scored; the reasons are below" in done.stderr
    assert " × no answer: too_long\n" in done.stderr
    assert re.search(r"incomplete \(none of \d+ examples could be scored\)", done.stdout)


def test_a_run_without_results_shows_what_became_of_it(tmp_path):
    write_config(tmp_path / "c.yaml", config(tmp_path, two_constructions(tmp_path)))
    head = "def slot(self, requests):"
    source = (tmp_path / "made.py").read_text(encoding="utf-8")
    (tmp_path / "made.py").write_text(source.replace(head, f"{head}\n        1 / 0"), encoding="utf-8")
    assert lmassay("run", "c.yaml", cwd=tmp_path).returncode == 2
    shown = lmassay("show", "latest", cwd=tmp_path)
    assert shown.returncode == 0
    assert "failed (the model made failed: ZeroDivisionError" in shown.stdout


def test_the_configuration_of_a_run_can_be_run_again_from_anywhere(tmp_path):
    """Relative paths, keys in their order and a model of the user's own: the signature stays the same."""
    lmassay("init", "robustness", cwd=tmp_path)
    first = lmassay("run", "robustness.yaml", "--limit", 3, "--json", cwd=tmp_path)
    before = {run["signature"]: run["results"] for run in json.loads(first.stdout)["runs"]}
    text = lmassay("show", "latest", "--yaml", cwd=tmp_path).stdout
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "again.yaml").write_text(text, encoding="utf-8")
    (again,) = json.loads(lmassay("run", "again.yaml", "--json", cwd=tmp_path / "elsewhere").stdout)["runs"]
    assert before[again["signature"]] == again["results"]


def test_a_base_folder_that_is_not_there_is_reported(tmp_path):
    (tmp_path / "c.yaml").write_text("task: robustness\nbase_dir: nowhere\n", encoding="utf-8")
    done = lmassay("check", "c.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "c.yaml, line 2: base_dir: there is no folder 'nowhere'" in done.stderr
