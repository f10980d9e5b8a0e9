"""Checklist 5, 7 and 8: a damaged results folder, a clock that went back, and stores of older schemas."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lmassay.cli.completion import _run_ids
from lmassay.errors import DamageError, StoreError
from lmassay.storage.pages import read_records
from lmassay.storage.repair import find_damage, repair_lock, repair_store
from lmassay.storage.store import STORE_FILE, Store
from tests.compare_kit import add, rates, set_created
from tests.faults.soak import Disk
from tests.forked import command_server
from tests.fuzzing import stores
from tests.fuzzing.stores import PAGE, Truth
from tests.helpers import lmassay, lmassay_process
from tests.storage.old_schemas import downgrade

# Examples; enough that every table has several pages.
SIZE = 600
IN_PROCESS = 24
# Stores that are given to real processes. CI damages 50 large ones.
AS_PROCESSES = int(os.environ.get("DAMAGED_STORES", "2"))
LARGE_SIZE = 10_000 if "DAMAGED_STORES" in os.environ else SIZE
# What the commands import when they are called, so that it is imported once and not by each process.
IMPORTED = """
import encodings.utf_8_sig, httpx2, importlib.readers, numpy, pydantic.main, rich.table, scipy.stats
from lmassay.cli import compare, export, filters, ls, report, show
from lmassay.cli.actions import compare, export, ls, report, show
from lmassay.datasets import catalogue, download, questions
from lmassay.evaluations import fewshot, imported
from lmassay.evaluations.bias import card, sources
from lmassay.evaluations.bias.report import section
from lmassay.evaluations.robustness import attack, card, coverage, report
from lmassay.evaluations.syntax import blimp, card
from lmassay.evaluations.syntax.refining_tse import published
from lmassay.evaluations.syntax.report import minimal_pairs
from lmassay.plugins import data_options, yaml_models
from lmassay.reporting import report_text
from lmassay.reporting.formats import content, latex, markdown
from lmassay.statistics import comparison, run_pairs, table
from lmassay.storage import in_memory
"""


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return stores.build(tmp_path_factory.mktemp("truth"), SIZE)


@pytest.fixture
def folder(truth: Truth, tmp_path: Path) -> Path:
    """A copy of the undamaged results."""
    return shutil.copytree(truth.folder, tmp_path / "results")


def edit(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / STORE_FILE, isolation_level=None)) as database:
        assert database.execute(statement, values).rowcount > 0
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def root_page(folder: Path, name: str) -> int:
    with closing(sqlite3.connect(folder / STORE_FILE)) as database:
        (number,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return int(number) - 1


def zero_page(folder: Path, number: int) -> None:
    with (folder / STORE_FILE).open("r+b") as stream:
        stream.seek(number * PAGE)
        stream.write(bytes(PAGE))


# --- 5: random damage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(IN_PROCESS))
def test_5_no_random_damage_is_shown_as_a_result(truth, folder, seed):
    description = stores.damage(folder / STORE_FILE, random.Random(seed))
    failures = stores.check(folder, truth, thorough=seed % 8 == 0)
    assert not failures, f"{description}: {failures}"


@pytest.fixture(scope="module")
def large_truth(truth: Truth, tmp_path_factory: pytest.TempPathFactory) -> Truth:
    if LARGE_SIZE == SIZE:
        return truth
    return stores.build(tmp_path_factory.mktemp("large"), LARGE_SIZE)


@pytest.fixture(scope="module")
def processes() -> Iterator[stores.Command]:
    """Runs each command in a process of its own, which may be killed by a signal."""
    with command_server(IMPORTED) as server:
        yield lambda *arguments: server.run(arguments)


@pytest.mark.parametrize("seed", range(1000, 1000 + AS_PROCESSES))
def test_5_no_random_damage_is_shown_as_a_result_by_real_processes(large_truth, processes, tmp_path, seed):
    folder = shutil.copytree(large_truth.folder, tmp_path / "results")
    description = stores.damage(folder / STORE_FILE, random.Random(seed))
    failures = stores.check(folder, large_truth, processes, thorough=False)
    assert not failures, f"{description}: {failures}"


def test_5_a_new_process_ends_in_one_line_if_the_file_is_cut_off(folder):
    with (folder / STORE_FILE).open("r+b") as stream:
        stream.truncate(5 * PAGE)
    done = lmassay_process("ls", "--results", folder)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "lmassay doctor --results" in done.stderr


def test_a_store_can_be_damaged_many_times(folder):
    """The fuzzer combines damages, so it must cope with a file that SQLite cannot read any more."""
    file = folder / STORE_FILE
    for table in ("runs", "rows", "digests", "asked"):
        zero_page(folder, root_page(folder, table))
    for seed in range(60):
        assert stores.damage(file, random.Random(seed))
    file.write_bytes(b"")
    assert all(stores.damage(file, random.Random(seed)) for seed in range(60))


# --- 5: chosen damage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET results = '[{' WHERE rowid = 1",
        "UPDATE runs SET config = '{' WHERE rowid = 1",
        "UPDATE runs SET provenance = x'ff' WHERE rowid = 1",
        "UPDATE runs SET label = CAST(x'ff' AS TEXT) WHERE rowid = 1",
        "UPDATE runs SET status = 'dond' WHERE rowid = 1",
        "UPDATE runs SET created = '1999-01-01' WHERE rowid = 1",
        "UPDATE runs SET note = 'all is well' WHERE rowid = 1",
        "UPDATE runs SET planned = 7 WHERE rowid = 1",
        "UPDATE runs SET finished = CAST(x'32ff' AS TEXT) WHERE rowid = 1",
        "DELETE FROM runs WHERE rowid = 1",
    ],
)
def test_5_one_damaged_run_is_named_and_the_others_keep_working(truth, folder, statement):
    edit(folder, statement)
    damaged, *others = truth.runs
    done = lmassay("ls", "--json", "--results", folder)
    assert done.returncode == 0
    assert f"the run {damaged} is damaged" in done.stderr
    statuses = {run["run"]: run["status"] for run in json.loads(done.stdout)["runs"]}
    assert statuses == {damaged: "damaged", **dict.fromkeys(others, "done")}
    for run in others:
        shown = json.loads(lmassay("show", run, "--json", "--provenance", "--results", folder).stdout)["runs"]
        assert shown == [truth.results[run]]
    done = lmassay("report", "--all", "-o", "-", "--format", "md", "--results", folder)
    assert done.returncode == 0
    assert f"{damaged} is damaged" in done.stdout
    assert lmassay("compare", *truth.comparable, "--results", folder).returncode == 0
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0
    assert not find_damage(folder)


def test_5_many_damaged_runs_take_three_lines(truth, folder):
    edit(folder, "UPDATE runs SET note = 'all is well'")
    for command in (
        ("ls",),
        ("report", "--all", "-o", "-", "--format", "md"),
        ("merge", "-o", folder.parent / "merged"),
    ):
        done = lmassay(*command, *([folder] if command[0] == "merge" else ["--results", folder]))
        assert len(done.stderr.splitlines()) <= 3, done.stderr
        assert f"{truth.runs[0]}" in done.stderr
        assert "damaged" in done.stderr
    assert "2 more runs are damaged; `lmassay doctor --results" in lmassay("ls", "--results", folder).stderr


def test_5_a_report_goes_on_without_a_run_whose_examples_are_damaged(truth, folder):
    edit(folder, "UPDATE batches SET scores = x'00' WHERE rowid = 1")
    for form in ("md", "html", "csv"):
        done = lmassay("report", "--all", "-o", "-", "--format", form, "--results", folder)
        assert done.returncode == 0, done.stderr
        assert f"the run {truth.runs[0]} is damaged" in done.stderr
        assert "minimal_pairs" in done.stdout


@pytest.mark.parametrize("table", ["runs", "rows", "batches", "responses", "digests", "asked", "rows_in_order"])
def test_5_a_lost_root_page_is_repaired_from_the_other_pages(truth, folder, table):
    zero_page(folder, root_page(folder, table))
    assert lmassay("doctor", "--results", folder).returncode == 1
    done = lmassay("doctor", "--results", folder, "--fix")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not find_damage(folder)
    assert list(folder.glob(f"{STORE_FILE}.damaged-*"))
    listed = json.loads(lmassay("ls", "--json", "--results", folder).stdout)["runs"]
    for run in listed:
        if run["status"] == "done":
            assert run["results"] == truth.results[run["run"]]["results"]


def test_5_a_file_without_its_first_page_is_salvaged(truth, folder):
    zero_page(folder, 0)
    done = lmassay("ls", "--results", folder)
    assert done.returncode == 2
    assert "lmassay doctor --results" in done.stderr
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0
    with Store(folder) as store:
        assert [record.id for record in store.runs()] == list(truth.runs)


def test_5_doctor_drops_damaged_examples_and_resume_scores_only_these(truth, folder):
    run = truth.runs[2]
    edit(folder, "UPDATE rows SET scores = scores || ' ' WHERE run = ? AND position < 3", run)
    done = lmassay("doctor", "--results", folder)
    assert done.returncode == 1
    assert run in done.stdout
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0
    with Store(folder) as store:
        assert store.run(run).status == "interrupted"
        dropped = store.run(run).planned - store.count(run)["scored"]
    assert 0 < dropped <= 3
    assert lmassay("resume", run, "--results", folder).returncode == 0
    shown = json.loads(lmassay("show", run, "--json", "--results", folder).stdout)["runs"][0]
    assert shown["results"] == truth.results[run]["results"]


def test_5_doctor_computes_damaged_results_again_from_the_examples(truth, folder):
    edit(folder, "UPDATE runs SET results = replace(results, '0.', '0.0')")
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0
    for run in truth.runs:
        shown = json.loads(lmassay("show", run, "--json", "--results", folder).stdout)["runs"][0]
        assert (shown["status"], shown["results"]) == ("done", truth.results[run]["results"])


@pytest.mark.parametrize("column", ["response", "request", "model", "digest"])
def test_5_a_damaged_answer_is_never_used(folder, column):
    with closing(sqlite3.connect(folder / STORE_FILE)) as database:
        key, value = database.execute(f"SELECT key, {column} FROM responses WHERE rowid = 5").fetchone()
    changed = b"x" + value if isinstance(value, bytes) else f"{value} "
    edit(folder, f"UPDATE responses SET {column} = ? WHERE key = ?", changed, key)
    with Store(folder) as store:
        if column in ("response", "digest"):
            assert not store.cached([key])
    damages = [damage.what for damage in find_damage(folder)]
    assert "the cached answers" in damages


def test_5_counts_and_errors_are_verified(truth, folder):
    run = truth.runs[2]
    edit(folder, "UPDATE rows SET state = 'error' WHERE run = ? AND position = 1", run)
    with Store(folder) as store:
        for read in (store.count, store.errors):
            with pytest.raises(Exception, match=f"the run {run} is damaged"):
                read(run)


@pytest.mark.parametrize("position", [16, 18, 20, 56, 60, 63, 68])
def test_5_a_damaged_header_hides_nothing(truth, folder, position):
    with (folder / STORE_FILE).open("r+b") as stream:
        stream.seek(position)
        stream.write(b"\x03")
    assert not stores.check(folder, truth)


RUN_COLUMNS = "id", "sweep", "label", "status", "config", "provenance", "results", "note", "created", "finished"


@pytest.mark.parametrize("column", RUN_COLUMNS)
def test_5_doctor_reads_a_cell_whose_type_was_changed(truth, folder, column):
    """One bit of a cell's header decides between text and bytes; the value stays what it was."""
    edit(folder, f"UPDATE runs SET {column} = CAST({column} AS BLOB) WHERE rowid = 1")
    for options in ((), ("--fix",)):
        done = lmassay("doctor", "--results", folder, *options)
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr
    shown = json.loads(lmassay("show", truth.runs[0], "--json", "--provenance", "--results", folder).stdout)["runs"]
    assert shown[0]["results"] == truth.results[truth.runs[0]]["results"]


def test_5_a_file_whose_columns_have_damaged_names_is_salvaged(truth, folder):
    file = folder / STORE_FILE
    content = file.read_bytes()
    assert content.count(b" scores TEXT") == 1
    file.write_bytes(content.replace(b" scores TEXT", b" s\xb1ores TEXT"))
    assert not stores.check(folder, truth)


@pytest.mark.parametrize("statement", [b"CREATE INDEX", b"CREATE TABLE rows", b"CREATE TABLE digests"])
def test_5_a_table_of_tables_that_is_not_text_is_salvaged(truth, folder, statement):
    """SQLite repeats the statement in its message, and Python cannot decode it."""
    file = folder / STORE_FILE
    content = file.read_bytes()
    assert content.count(statement) == 1
    file.write_bytes(content.replace(statement, statement[:-3] + b"\xae\xaa\xff"))
    assert not stores.check(folder, truth)
    with pytest.raises(DamageError, match="is damaged or not an lmassay store"):
        Store(folder)
    # The shell asks for ids while somebody is typing.
    assert _run_ids(folder) == []


def test_5_a_run_whose_id_is_stored_as_bytes_can_be_removed(truth, folder):
    edit(folder, "UPDATE runs SET id = CAST(id AS BLOB) WHERE rowid = 1")
    assert lmassay("rm", truth.runs[0], "--yes", "--results", folder).returncode == 0
    done = lmassay("ls", "--json", "--results", folder)
    assert [run["run"] for run in json.loads(done.stdout)["runs"]] == list(truth.runs[1:])


def make_device(path: Path) -> None:
    path.symlink_to(os.devnull)


@pytest.mark.parametrize(
    ("make", "what"),
    [(Path.mkdir, "a folder"), (os.mkfifo, "a pipe"), (make_device, "a device")],
    ids=["folder", "pipe", "device"],
)
@pytest.mark.parametrize("command", ["run", "ls", "doctor"])
def test_4_what_is_not_a_file_in_the_place_of_the_file_is_named(truth, folder, make, what, command):
    (folder / STORE_FILE).unlink()
    make(folder / STORE_FILE)
    file = [truth.folder.parent / "c2.yaml"] if command == "run" else []
    done = lmassay(command, *file, "--results", folder)
    assert done.returncode == 2
    assert f"{STORE_FILE} is {what}, not a file; remove it, or choose another --results folder" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("place", ["folder", "file"])
def test_4_a_link_that_leads_to_itself_is_named(truth, tmp_path, place):
    loop = tmp_path / "loop" if place == "folder" else tmp_path / STORE_FILE
    loop.symlink_to(loop)
    results = loop if place == "folder" else tmp_path
    config = truth.folder.parent / "c2.yaml"
    commands = [
        ("ls",),
        ("show",),
        ("report", "-o", "-"),
        ("resume",),
        ("run", config),
        ("merge", "-o", tmp_path / "m"),
    ]
    for command in commands:
        folder = [results] if command[0] == "merge" else ["--results", results]
        done = lmassay(*command, *folder)
        assert done.returncode == 2, (command, done.stderr)
        assert len(done.stderr.splitlines()) == 1, (command, done.stderr)
        assert "levels of symbolic links" in done.stderr or "Symlink loop" in done.stderr, (command, done.stderr)


def test_4_a_link_that_leads_to_itself_is_no_output_or_input(truth, tmp_path):
    loop = tmp_path / "loop.txt"
    loop.symlink_to(loop)
    for command in (
        ("export", "latest", "--results", truth.folder, "--format", "jsonl", "-o", loop),
        ("report", "--results", truth.folder, "--format", "md", "-o", loop),
        ("perturb", "charswap", "--in", loop, "--out", "-"),
        ("perturb", "charswap", "--in", truth.folder.parent / "src", "--out", loop),
        ("run", loop, "--results", tmp_path / "results"),
        ("check", loop),
    ):
        done = lmassay(*command)
        assert done.returncode == 2, (command, done.stderr)
        assert "Traceback" not in done.stderr, (command, done.stderr)
        assert "loop.txt" in done.stderr, (command, done.stderr)


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_4_what_is_not_a_file_in_the_place_of_a_log_is_named(folder, suffix):
    os.mkfifo(folder / f"{STORE_FILE}{suffix}")
    done = lmassay("ls", "--results", folder)
    assert done.returncode == 2
    assert f"{STORE_FILE}{suffix} is a pipe, not a file; remove it" in done.stderr


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("is_linked", [False, True], ids=["store", "linked store"])
def test_4_a_link_in_the_place_of_a_log_is_named_and_not_followed(folder, tmp_path, suffix, is_linked):
    file = folder / STORE_FILE
    if is_linked:
        file = file.rename(tmp_path / "elsewhere.sqlite")
        (folder / STORE_FILE).symlink_to(file)
    private = tmp_path / "private.txt"
    private.write_text("precious", encoding="utf-8")
    log = Path(f"{file}{suffix}")
    log.symlink_to(private)
    for command in (["ls"], ["doctor"], ["doctor", "--fix"], ["resume"]):
        done = lmassay(*command, "--results", folder)
        assert done.returncode == 2
        assert f"{log} is a link; delete the link, or choose another --results folder" in done.stderr
    assert private.read_text(encoding="utf-8") == "precious"
    log.unlink()
    assert lmassay("ls", "--results", folder).returncode == 0


def test_4_what_is_in_the_log_of_a_linked_store_is_saved_by_a_repair(tmp_path):
    """The log is next to the file, not next to the link."""
    folder = tmp_path / "results"
    add(folder, "one", rates([1, 0]))
    file = (folder / STORE_FILE).rename(tmp_path / "elsewhere.sqlite")
    (folder / STORE_FILE).symlink_to(file)
    with closing(sqlite3.connect(file)) as reader:
        # While somebody reads, the log is not copied into the file.
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM runs").fetchone()
        add(folder, "two", rates([1, 1]))
        repair_store(folder)
    with Store(folder) as store:
        assert [record.id for record in store.runs()] == ["one", "two"]


def test_5_results_without_any_digest_are_computed_again(truth, folder):
    edit(folder, "DELETE FROM digests")
    edit(folder, "UPDATE runs SET results = replace(results, '0.', '0.9')")
    assert lmassay("doctor", "--results", folder).returncode == 1
    done = lmassay("doctor", "--results", folder, "--fix")
    assert done.returncode == 0, done.stdout + done.stderr
    lmassay("resume", "--results", folder)
    listed = json.loads(lmassay("ls", "--json", "--results", folder).stdout)["runs"]
    assert [run["run"] for run in listed] == list(truth.runs)
    for run in listed:
        assert run["results"] in ([], truth.results[run["run"]]["results"])


@pytest.mark.parametrize(("schema", "of_rows"), [(0, False), (3, True), (6, False)])
def test_5_a_store_without_any_digest_is_not_taken_for_an_old_one(truth, folder, schema, of_rows):
    """The columns for the digests of schema 7 are still there, whatever the numbers say."""
    edit(folder, "DELETE FROM digests")
    edit(folder, "UPDATE runs SET results = replace(results, '0.', '0.9')")
    for table in ("rows", "responses", "asked") if of_rows else ():
        edit(folder, f"UPDATE {table} SET digest = NULL")
    with closing(sqlite3.connect(folder / STORE_FILE, isolation_level=None)) as database:
        database.execute(f"PRAGMA user_version = {schema}")
    listed = json.loads(lmassay("ls", "--json", "--results", folder).stdout)["runs"]
    assert [(run["status"], run["results"]) for run in listed] == [("damaged", [])] * len(truth.runs)
    assert lmassay("doctor", "--results", folder).returncode == 1
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0
    for run in json.loads(lmassay("ls", "--json", "--results", folder).stdout)["runs"]:
        lmassay("resume", run["run"], "--results", folder)
    for run in json.loads(lmassay("ls", "--json", "--results", folder).stdout)["runs"]:
        assert run["results"] == truth.results[run["run"]]["results"]


@pytest.mark.parametrize("schema", ["3", "6", "9"])
def test_5_a_damaged_number_of_the_schema_hides_nothing(truth, folder, schema):
    edit(folder, "UPDATE digests SET value = ? WHERE part = 'schema'", schema)
    edit(folder, "UPDATE runs SET results = replace(results, '0.', '0.9') WHERE rowid = 1")
    done = lmassay("ls", "--results", folder)
    assert done.returncode == 0, done.stderr
    assert f"the run {truth.runs[0]} is damaged" in done.stderr
    assert "its header is damaged" in lmassay("doctor", "--results", folder).stdout
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0
    assert not find_damage(folder)


def test_5_spent_money_that_was_changed_is_not_shown(truth, folder):
    from lmassay.types import Response

    run = truth.runs[2]
    with Store(folder, create=True) as store:
        store.add_spending(run, Response("yes", tokens_in=5, tokens_out=1), 0.5)
        assert store.spending(run=run).usd == 0.5
    edit(folder, "UPDATE spending SET usd = 0.05")
    done = lmassay("show", run, "--results", folder)
    assert done.returncode == 2
    assert "what it spent is not what lmassay wrote" in done.stderr
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0
    assert lmassay("show", run, "--results", folder).returncode == 0


def test_pages_are_read_as_sqlite_reads_them(folder):
    with closing(sqlite3.connect(folder / STORE_FILE)) as database:
        expected = set(database.execute("SELECT rowid, * FROM responses"))
        expected |= set(database.execute("SELECT rowid, * FROM runs"))
        expected |= set(database.execute("SELECT rowid, * FROM batches"))
    found = {(record.number, *record.values) for record in read_records(folder / STORE_FILE)}
    assert expected <= found


# --- 3 and 6: a full disk, several processes --------------------------------------------------------------------------


def full_disk(folder: Path) -> Disk:
    """A disk without room for another byte, with a results folder; skips where none can be mounted."""
    disk = Disk(folder)
    if not disk.is_mounted:
        disk.close()
        pytest.skip("needs the right to mount a file system")
    return disk


def test_3_results_on_a_full_disk_can_still_be_read(truth, tmp_path):
    disk = full_disk(tmp_path / "disk")
    try:
        results = shutil.copytree(truth.folder, disk.folder / "results")
        disk.fill(0)
        assert not stores.check(results, truth, thorough=False)
        done = lmassay("note", "latest", "text", "--results", results)
        assert done.returncode == 2
        assert "No space left" in done.stderr
        assert not list(results.glob(".write-test-*"))
    finally:
        disk.close()


def test_3_a_repair_on_a_full_disk_leaves_the_file_as_it_was(truth, tmp_path):
    disk = full_disk(tmp_path / "disk")
    try:
        results = shutil.copytree(truth.folder, disk.folder / "results")
        zero_page(results, root_page(results, "rows"))
        before = (results / STORE_FILE).read_bytes()
        # Enough for the lock and a part of the copy.
        disk.fill(30 * PAGE)
        done = lmassay("doctor", "--results", results, "--fix")
        assert done.returncode == 2, done.stdout
        assert "the damaged file is unchanged" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert (results / STORE_FILE).read_bytes() == before
        assert not list(results.glob(f"{STORE_FILE}.damaged-*"))
        disk.free()
        assert lmassay("doctor", "--results", results, "--fix").returncode == 0
        assert not find_damage(results)
    finally:
        disk.close()


def test_3_a_rebuilt_file_that_cannot_be_put_in_place_leaves_the_file_and_its_log_as_they_were(folder, monkeypatch):
    zero_page(folder, root_page(folder, "rows"))
    log = folder / f"{STORE_FILE}-wal"
    log.write_bytes(b"not applied yet")
    before = {file: file.read_bytes() for file in (folder / STORE_FILE, log)}
    replace = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target == folder / STORE_FILE:
            raise OSError(errno.EACCES, "Permission denied")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(StoreError, match=r"Permission denied; the damaged file is unchanged, and .* is a copy of it"):
        repair_store(folder)
    assert {file: file.read_bytes() for file in before} == before
    assert not list(folder.glob(".repair-*"))


def test_6_a_folder_is_repaired_by_one_process_at_a_time(truth, folder):
    zero_page(folder, root_page(folder, "rows"))
    with repair_lock(folder):
        done = lmassay("doctor", "--results", folder, "--fix")
        assert done.returncode == 2
        assert "another process is working on the repair of" in done.stderr
        done = lmassay("run", truth.folder.parent / "c2.yaml", "--results", folder)
        assert done.returncode == 2
        assert "another process is repairing" in done.stderr
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0


def test_6_a_folder_is_not_repaired_while_a_run_is_in_progress(folder):
    with Store(folder) as store, store.lock_sweep("abc"):
        zero_page(folder, root_page(folder, "rows"))
        done = lmassay("doctor", "--results", folder, "--fix")
        assert done.returncode == 2
        assert "sweep-abc is in progress; try again when it has finished" in done.stderr


def test_6_a_folder_is_not_repaired_while_another_process_writes(folder):
    edit(folder, "UPDATE runs SET results = '[]' WHERE rowid = 1")
    with closing(sqlite3.connect(folder / STORE_FILE, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        done = lmassay("doctor", "--results", folder, "--fix")
    assert done.returncode == 2
    assert "another process is using the file" in done.stderr
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0


def test_5_a_damaged_lock_file_is_named(truth, folder):
    for name in ("repair", truth.runs[0]):
        (folder / ".locks" / name).write_bytes(b"no database " * 100)
    edit(folder, "UPDATE rows SET state = 'x' WHERE run = ?", truth.runs[1])
    done = lmassay("doctor", "--results", folder, "--fix")
    assert done.returncode == 2
    assert "cannot lock the repair of" in done.stderr
    assert "Traceback" not in lmassay("ls", "--results", folder).stderr


# --- 7: clocks --------------------------------------------------------------------------------------------------------


def test_7_latest_is_the_run_recorded_last_after_the_clock_went_back(truth, folder):
    with closing(sqlite3.connect(folder / STORE_FILE)) as database:
        assert database.execute("SELECT COUNT(*) FROM runs").fetchone() == (len(truth.runs),)
    set_created(folder, truth.runs[-1], "1999-01-01T00:00:00+00:00")
    shown = json.loads(lmassay("show", "latest", "--json", "--results", folder).stdout)["runs"][0]
    assert (shown["run"], shown["status"]) == (truth.runs[-1], "done")


def test_5_a_damaged_time_is_not_confirmed_by_the_next_status(truth, folder):
    """``resume`` and ``doctor --fix`` set a status; the damaged time must not get a valid digest."""
    run = truth.runs[-1]
    with Store(folder) as store:
        created = store.run(run).created
    edit(folder, "UPDATE runs SET created = '1999-01-01T00:00:00+00:00' WHERE id = ?", run)
    with Store(folder, create=True) as store:
        store.set_status(run, "done")
        assert store.run(run).created == created


# --- 8: older schemas -------------------------------------------------------------------------------------------------


def without_batches(folder: Path, truth: Truth) -> None:
    for table, key in (("runs", "id"), ("digests", "run"), ("batches", "run")):
        edit(folder, f"DELETE FROM {table} WHERE {key} = ?", truth.runs[0])


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_8_doctor_checks_stores_of_older_schemas_and_a_copy_precedes_the_update(truth, folder, version):
    without_batches(folder, truth)
    downgrade(folder / STORE_FILE, version)
    before = (folder / STORE_FILE).read_bytes()
    done = lmassay("doctor", "--results", folder)
    assert done.returncode == 0, done.stdout
    assert (folder / STORE_FILE).read_bytes() == before
    with Store(folder, create=True) as store:
        assert all(store.rows_are_whole(run) for run in truth.runs[1:])
    with closing(sqlite3.connect(folder / f"{STORE_FILE}.schema-{version}")) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (version,)
        assert copy.execute("SELECT COUNT(*) FROM runs").fetchone() == (len(truth.runs) - 1,)
    assert not find_damage(folder)


@pytest.mark.parametrize("version", [3, 6])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE asked SET id = CAST(x'ff41' AS TEXT) WHERE id = (SELECT id FROM asked LIMIT 1)",
        "UPDATE runs SET id = CAST(x'ff41' AS TEXT) WHERE rowid = 3",
        "UPDATE runs SET planned = x'ff41' WHERE rowid = 3",
    ],
)
def test_8_a_damaged_value_does_not_stop_the_update_of_an_older_schema_and_is_named(truth, folder, version, statement):
    without_batches(folder, truth)
    downgrade(folder / STORE_FILE, version)
    edit(folder, statement)
    with Store(folder, create=True) as store:
        assert store.database.has_all_digests
    assert find_damage(folder)
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0
    assert not find_damage(folder)


@pytest.mark.parametrize("version", [3, 6])
def test_8_damage_in_an_older_schema_is_repaired(truth, folder, version):
    without_batches(folder, truth)
    downgrade(folder / STORE_FILE, version)
    edit(folder, "UPDATE rows SET scores = '{' WHERE run = ? AND position = 4", truth.runs[2])
    assert lmassay("doctor", "--results", folder).returncode == 1
    assert lmassay("doctor", "--results", folder, "--fix").returncode == 0
    with Store(folder) as store:
        statuses = {record.id: record.status for record in store.runs()}
    assert statuses == {truth.runs[1]: "done", truth.runs[2]: "interrupted", truth.runs[3]: "done"}
