"""``lmassay data``"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.helpers import lmassay
from tests.published_data import published_set
from tests.terminal import in_terminal


@pytest.fixture
def environment(data_mirror: str, tmp_path: Path) -> dict[str, str]:
    """An empty cache, and the published data as a mirror."""
    return {"LMASSAY_CACHE": str(tmp_path / "cache"), "LMASSAY_DATA_MIRROR": data_mirror}


def test_the_list_says_what_is_here(environment):
    before = lmassay("data", env=environment)
    assert before.returncode == 0
    row = next(line for line in before.stdout.splitlines() if line.startswith("jblimp"))
    assert row.split()[:4] == ["jblimp", "no", "ja", "331"]
    lmassay("data", "get", "jblimp", env=environment)
    after = lmassay("data", "--json", env=environment)
    documents = {entry["name"]: entry for entry in json.loads(after.stdout)["datasets"]}
    assert documents["jblimp"]["here"] == "yes"
    assert documents["blimp"]["here"] == "no"


def test_licence_and_citation_are_shown_on_the_first_fetch_only(environment):
    first = lmassay("data", "get", "jblimp", env=environment)
    assert first.returncode == 0
    assert "Someya and Oseki (2023)" in first.stderr
    assert "research use" in first.stderr
    again = lmassay("data", "get", "jblimp", env=environment)
    assert "Someya" not in again.stderr
    assert again.stdout.startswith("jblimp: 2 files in ")


def test_files_that_the_source_lacks_are_listed_and_the_exit_code_says_so(environment, tmp_path):
    mirror = tmp_path / "mirror"
    shutil.copytree(published_set("kobbq"), mirror / "kobbq")
    (mirror / "kobbq" / "KoBBQ_templates.tsv").unlink()
    environment = {**environment, "LMASSAY_DATA_MIRROR": str(mirror)}
    done = lmassay("data", "get", "kobbq", env=environment)
    assert done.returncode == 1
    assert "kobbq: 1 of 3 files could not be fetched" in done.stderr
    assert "KoBBQ_templates.tsv does not exist in the mirror" in done.stderr
    again = lmassay("data", "get", "kobbq", "--partial", env=environment)
    assert again.returncode == 0
    assert "warning: kobbq: 1 of 3 files could not be fetched" in again.stderr
    assert "error" not in again.stderr
    assert "Licence" not in again.stderr, "nothing new was fetched"
    shown = lmassay("data", "show", "kobbq", env=environment).stdout
    assert "2 of 3 files" in shown


def test_every_file_that_the_source_lacks_is_listed(environment, tmp_path):
    (tmp_path / "mirror").mkdir()
    done = lmassay("data", "get", "fewglue", env={**environment, "LMASSAY_DATA_MIRROR": str(tmp_path / "mirror")})
    assert done.returncode == 1
    assert "fewglue: 27 of 27 files could not be fetched" in done.stderr
    assert done.stderr.count("does not exist in the mirror") == 27


def test_a_server_that_cannot_be_reached_is_named_once(environment):
    done = lmassay("data", "get", "kobbq", env={**environment, "LMASSAY_DATA_MIRROR": "http://127.0.0.1:9"})
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert "cannot reach 127.0.0.1" in lines[1]
    assert lines[2] == "  the other 2 were not tried"


def test_the_list_has_licence_and_citation_and_marks_unknown_numbers(environment):
    listed = lmassay("data", env=environment).stdout.splitlines()
    assert listed[0].split()[-4:] == ["task", "licence", "citation", "summary"]
    row = next(line for line in listed if line.startswith("bbq"))
    assert "> 11,956" in row
    assert "> 22.9 MB" in row
    assert "CC-BY-4.0" in row
    assert "Parrish et al. (2022) " in row


@pytest.mark.parametrize("columns", [80, 120])
def test_the_list_breaks_no_word_on_a_terminal(environment, columns):
    screen = in_terminal("data", columns=columns, env=environment).screen
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).splitlines()
    assert sum("minimal_pairs" in line for line in lines) == 4
    assert ("citation" in lines[0]) == (columns == 120)
    assert all(len(line) <= columns for line in lines)
    if columns == 80:
        # A heading, a row for each of the ten data sets, and a sentence on one or two lines.
        assert len(lines) <= 13


def test_two_folders_of_a_repository_are_one_source(environment):
    shown = lmassay("data", "show", "blimp", env=environment).stdout
    assert shown.count("https://github.com/alexwarstadt/blimp at ") == 1


def test_the_counts_are_those_of_the_files(environment):
    assert lmassay("data", "get", "kobbq", "jblimp", env=environment).returncode == 0
    shown = json.loads(lmassay("data", "show", "jblimp", "--json", env=environment).stdout)
    pairs = next(file for file in shown["files"] if file["role"] == "examples")
    lines = Path(pairs["path"]).read_text(encoding="utf-8").splitlines()
    assert shown["examples"] == pairs["examples"] == len(lines)


def test_the_path_is_printed_for_scripts(environment, tmp_path):
    missing = lmassay("data", "path", "jblimp", env=environment)
    assert missing.returncode == 2
    assert "run lmassay data get jblimp" in missing.stderr
    lmassay("data", "get", "jblimp", env=environment)
    printed = lmassay("data", "path", "jblimp", env=environment).stdout.strip()
    assert Path(printed) == tmp_path / "cache" / "data" / "jblimp"


def test_verify_finds_a_changed_file(environment, tmp_path):
    lmassay("data", "get", "jblimp", env=environment)
    assert lmassay("data", "verify", env=environment).stdout == "jblimp: 2 files as published\n"
    file = next((tmp_path / "cache" / "data" / "jblimp").rglob("*.jsonl"))
    file.write_text("changed\n", encoding="utf-8")
    done = lmassay("data", "verify", "jblimp", env=environment)
    assert done.returncode == 1
    assert "its content is not the published one" in done.stderr


def test_verify_says_how_to_fetch_missing_files(tmp_path):
    done = lmassay("data", "verify", "jblimp", env={"LMASSAY_CACHE": str(tmp_path)})
    assert done.returncode == 1
    assert "2 of 2 files are missing or changed; run lmassay data get jblimp" in done.stderr


def test_removing_frees_the_space(environment, tmp_path):
    lmassay("data", "get", "jblimp", env=environment)
    assert "0.2 MB freed" in lmassay("data", "rm", "jblimp", env=environment).stdout
    assert not (tmp_path / "cache" / "data" / "jblimp").exists()
    again = lmassay("data", "rm", "jblimp", env=environment)
    assert again.stdout == "jblimp: not on this machine, nothing to remove\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("get",), "name a data set"),
        (("rm",), "name a data set"),
        (("get", "blimpp"), "there is no data set 'blimpp'; did you mean 'blimp'?"),
        (("show", "nothing"), "there is no data set 'nothing'"),
    ],
)
def test_a_wrong_name_is_one_line(environment, arguments, message):
    done = lmassay("data", *arguments, env=environment)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a data set, or give --all"),
        (("blimpp", "--all"), "leave out either --all or the names"),
    ],
)
def test_either_names_or_all_data_sets_are_fetched(tmp_path, arguments, message):
    env = {"LMASSAY_CACHE": str(tmp_path), "LMASSAY_DATA_MIRROR": "http://127.0.0.1:9"}
    done = lmassay("data", "get", *arguments, env=env)
    assert done.returncode == 2
    assert message in done.stderr


def test_without_a_network_the_reason_is_given(tmp_path):
    env = {"LMASSAY_CACHE": str(tmp_path), "LMASSAY_DATA_MIRROR": "http://127.0.0.1:9"}
    done = lmassay("data", "get", "jblimp", env=env)
    assert done.returncode == 1
    assert "cannot reach 127.0.0.1" in done.stderr


def test_an_empty_cache_is_not_an_error(tmp_path):
    done = lmassay("data", "verify", env={"LMASSAY_CACHE": str(tmp_path)})
    assert done.returncode == 0
    assert "no data set was fetched yet" in done.stderr


def test_a_mirror_that_does_not_exist_is_one_line(environment):
    done = lmassay("data", "get", "jblimp", env={**environment, "LMASSAY_DATA_MIRROR": "/nowhere"})
    assert done.returncode == 2
    assert done.stderr == (
        "error: LMASSAY_DATA_MIRROR: there is no folder /nowhere; give a folder or an https address\n"
    )


def test_a_cache_that_cannot_be_written_is_one_line_with_advice(environment, tmp_path):
    (tmp_path / "file").touch()
    done = lmassay("data", "get", "jblimp", env={**environment, "LMASSAY_CACHE": str(tmp_path / "file")})
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot lock the data set jblimp in ")
    assert done.stderr.endswith("; make room or set LMASSAY_CACHE to another folder\n")
