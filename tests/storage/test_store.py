"""The store: records, cache, locks, and what happens to a damaged or foreign file."""

import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime

import pytest

from lmassay.errors import StoreError
from lmassay.storage import database as database_module
from lmassay.storage.database import connect
from lmassay.storage.store import STORE_FILE, Store
from lmassay.types import Example, NewRun, Outcome, Provenance, Response, Row, Score
from tests.compare_kit import add, rates
from tests.helpers import lmassay
from tests.storage.old_schemas import downgrade


def new_run(store: Store, label: str = "x") -> str:
    run = store.new_id(label)
    store.add_run(NewRun(run, "s", "n", "t", "m", label, {}, "sig", Provenance(), 1))
    return run


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results", create=True) as opened:
        yield opened


def test_a_row_comes_back_as_it_was(store):
    run = new_run(store)
    row = Row(
        Example("1", {"src": "café \ud800 <b>"}, ["ref"], {"category": "x"}),
        "scored",
        Score({"s": 0.25}, {"t": "why"}, {"out": "y"}),
    )
    store.add_rows(run, [(0, row)])
    assert list(store.rows(run)) == [row]
    assert store.count(run) == {"scored": 1, "unscored": 0, "error": 0}


def test_rows_in_error_are_not_finished(store):
    run = new_run(store)
    store.add_rows(run, [(0, Row(Example("a", {}), "scored")), (1, Row(Example("b", {}), "error", error="no"))])
    assert store.finished_ids(run) == {"a"}


def test_a_copy_for_other_tools_leaves_out_only_the_answers_that_are_damaged(store, tmp_path):
    run = new_run(store)
    for key in ("a", "b", "c"):
        store.add_response(key, run, "m", {"verb": "generate", "prompt": key}, Response(key))
    with closing(sqlite3.connect(store.file)) as database, database:
        database.execute("UPDATE responses SET response = CAST(x'ff' AS TEXT) WHERE key = 'b'")
    store.copy_with_single_rows(tmp_path / "copy", [run], limit=10)
    with closing(sqlite3.connect(tmp_path / "copy" / STORE_FILE)) as database:
        copied = [key for (key,) in database.execute("SELECT key FROM responses ORDER BY key")]
    assert copied == ["a", "c"]


def test_answers_are_found_by_key_alone(store):
    store.add_response("k", "run", "m", {"verb": "generate"}, Response("yes"))
    assert store.cached(["k", "other"]) == {"k": Response("yes")}


def test_a_run_is_found_by_part_of_its_id_and_latest(store):
    first, second = new_run(store, "one"), new_run(store, "two")
    assert store.run(first).id == first
    assert store.run(second[-4:]).id == second
    assert store.run("latest").id == second
    with pytest.raises(StoreError, match=rf"matches 2 runs \({first}, {second}\); write more of the id"):
        store.run(first[:4])
    with pytest.raises(StoreError, match="there is no run"):
        store.run("zzz")


@pytest.mark.fault(7)
def test_latest_is_the_run_recorded_last_though_the_clock_was_set_back(store, monkeypatch):
    class Clock(datetime):
        time = datetime(2035, 1, 1, tzinfo=UTC)

        @classmethod
        def now(cls, tz=None):
            return cls.time

    monkeypatch.setattr("lmassay.storage.store.datetime", Clock)
    first = new_run(store, "in 2035")
    Clock.time = datetime(1999, 1, 1, tzinfo=UTC)
    second = new_run(store, "in 1999")
    assert [record.created[:4] for record in store.runs()] == ["2035", "1999"]
    assert [record.id for record in store.runs()] == [first, second]
    assert store.run("latest").id == second


@pytest.mark.fault(44)
def test_labels_make_safe_ids(store):
    for label in ("../../etc/passwd", "CON:\\x", "ㅎ" * 300, "<script>"):
        run = new_run(store, label)
        assert set(run) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert len(run) < 80


def test_a_run_whose_process_is_gone_is_called_interrupted(store):
    run = new_run(store)
    assert store.run(run).status == "interrupted"
    with store.lock(run), Store(store.folder) as other:
        assert other.run(run).status == "running"


def test_two_processes_cannot_work_on_one_run(store):
    run = new_run(store)
    other = Store(store.folder)
    with store.lock(run), pytest.raises(StoreError, match="another process"), other.lock(run):
        pass
    with other.lock(run):
        pass
    other.close()


def test_looking_at_runs_does_not_disturb_one_that_starts(store):
    stop = threading.Event()

    def look() -> None:
        with Store(store.folder) as reader:
            while not stop.is_set():
                reader.runs()

    new_run(store)
    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for number in range(60):
            run = store.new_id(str(number))
            with store.lock(run):
                store.add_run(NewRun(run, "s", "n", "t", "m", "l", {}, "sig", Provenance(), 1))
                store.forget_lock(run)
    finally:
        stop.set()
        for watcher in watchers:
            watcher.join()


def test_a_folder_that_is_read_only_can_be_read(store, monkeypatch):
    run = new_run(store)
    store.close()
    monkeypatch.setattr("lmassay.storage.database.os.access", lambda *_: False)
    with Store(store.folder) as reader:
        assert reader.run(run).id == run


def test_a_closed_folder_that_is_still_written_to_is_reported(store, monkeypatch):
    new_run(store)
    monkeypatch.setattr("lmassay.storage.database.os.access", lambda *_: False)
    with pytest.raises(StoreError, match="still being written"):
        Store(store.folder)


def test_the_most_frequent_errors_are_counted(store):
    run = new_run(store)
    errors = ["HTTP 500", "late", "HTTP 500"]
    store.add_rows(run, [(n, Row(Example(str(n), {}), "error", error=e)) for n, e in enumerate(errors)])
    assert store.errors(run) == [("HTTP 500", 2), ("late", 1)]


def test_reading_a_folder_without_results_says_what_to_do(tmp_path):
    with pytest.raises(StoreError, match="run something first"):
        Store(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write to the results folder"):
        Store(tmp_path / "file" / "results", create=True)


@pytest.mark.fault(5)
@pytest.mark.parametrize(
    "content", [b"not a database, not at all, really" * 100, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_a_damaged_store_is_named(tmp_path, content):
    (tmp_path / STORE_FILE).write_bytes(content)
    with pytest.raises(StoreError, match="damaged or not an lmassay store"):
        Store(tmp_path).runs()


def test_a_database_of_something_else_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / STORE_FILE) as other:
        other.execute("CREATE TABLE things (x)")
    other.close()
    with pytest.raises(StoreError, match="another program"):
        Store(tmp_path, create=True)


@pytest.mark.fault(8)
def test_the_header_of_a_store_of_an_earlier_schema_is_not_damaged(store, monkeypatch):
    monkeypatch.setattr(database_module, "SCHEMA", database_module.SCHEMA + 1)
    with Store(store.folder) as opened:
        assert not opened.database.has_damaged_header()


def test_a_newer_schema_asks_for_an_upgrade(store):
    store.database.execute("PRAGMA user_version = 99")
    store.database.set_digest("", "schema", "99")
    with pytest.raises(StoreError, match="newer lmassay"):
        Store(store.folder)


@pytest.mark.fault(3)
def test_a_full_disk_is_reported_in_words(store):
    store.database.execute("PRAGMA max_page_count = 1")
    run_rows = [(i, Row(Example(str(i), {"text": "x" * 10_000}), "scored")) for i in range(100)]
    with pytest.raises(StoreError, match="disk is full"):
        store.add_rows("r", run_rows)
    assert list(store.rows("r")) == []


def test_two_stores_can_write_to_one_file(tmp_path):
    with Store(tmp_path, create=True) as one, Store(tmp_path, create=True) as two:
        for number in range(50):
            one.add_response(f"a{number}", "r", "m", {}, Response("x"))
            two.add_response(f"b{number}", "r", "m", {}, Response("x"))
        assert len(one.cached([f"{k}{n}" for k in "ab" for n in range(50)])) == 100


def test_what_was_asked_of_an_example_is_found_with_its_answers(store):
    run = new_run(store)
    store.add_response("k", run, "m", {"verb": "generate", "prompt": "1 + 1 ="}, Response("2"))
    rows = [(place, Row(Example(i, {}), "scored")) for place, i in enumerate("ba")]
    store.add_rows(run, rows, {"a": ["k", "gone"], "b": []})
    assert list(store.requests_and_responses(run)) == [
        ("b", []),
        ("a", [({"verb": "generate", "prompt": "1 + 1 ="}, Response("2"))]),
    ]


def test_a_store_of_an_earlier_version_has_no_record_of_what_was_asked(store):
    run = new_run(store)
    store.add_rows(run, [(0, Row(Example("a", {}), "scored"))])
    downgrade(store.file, 2)
    with Store(store.folder) as reopened:
        assert list(reopened.requests_and_responses(run)) == [("a", [])]
    with Store(store.folder, create=True) as upgraded:
        upgraded.add_rows(run, [(0, Row(Example("a", {}), "scored"))], {"a": ["k"]})
        assert list(upgraded.requests_and_responses(run)) == [("a", [])]


def test_outcomes_come_back_with_their_scores(store):
    run = new_run(store)
    outcomes = {"tse": [Outcome("are/is", 1.0, 4.0), Outcome("laugh/laughs", 0.5, 2.0)]}
    store.add_rows(run, [(0, Row(Example("a", {}), "scored", Score({"tse": 5 / 6}, outcomes=outcomes)))])
    for rows in (store.rows(run), store.score_rows(run)):
        assert [row.score.outcomes for row in rows] == [outcomes]


def test_a_store_of_an_earlier_version_has_no_outcomes(store):
    run = new_run(store)
    store.add_rows(run, [(0, Row(Example("a", {}), "scored", Score({"tse": 1.0})))])
    downgrade(store.file, 4)
    with Store(store.folder) as reopened:
        for rows in (reopened.rows(run), reopened.score_rows(run)):
            assert [row.score.outcomes for row in rows] == [{}]
    with Store(store.folder, create=True) as upgraded:
        assert [row.score.outcomes for row in upgraded.rows(run)] == [{}]


def test_a_configuration_keeps_the_order_of_its_keys(store):
    run = store.new_id("x")
    config = {"task": {"data": {"Simple": "b", "Across": "a"}}}
    store.add_run(NewRun(run, "s", "n", "t", "m", "x", config, "sig", Provenance(), 1))
    assert list(store.run(run).config["task"]["data"]) == ["Simple", "Across"]


def test_an_error_or_id_that_has_no_utf_8_is_spelled_out(store):
    run = new_run(store)
    store.add_rows(run, [(0, Row(Example("a\ud800", {}), "error", error="said \udfff"))], {"a\ud800": ["k"]})
    (row,) = store.rows(run)
    assert (row.example.id, row.error) == ("a\\ud800", "said \\udfff")
    assert list(store.requests_and_responses(run)) == [("a\\ud800", [])]


@pytest.mark.parametrize("table", ["runs", "rows", "responses", "digests"])
def test_a_view_in_place_of_a_table_is_not_run(tmp_path, table):
    """It is a program of whoever made the file: it may never end."""
    add(tmp_path, "one", rates([1, 0]))
    with closing(sqlite3.connect(tmp_path / STORE_FILE)) as database, database:
        columns = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
        database.execute(f"ALTER TABLE {table} RENAME TO hidden")
        database.execute(f"CREATE VIEW {table} AS SELECT {', '.join(columns)} FROM hidden")
    for arguments in (("doctor", "--results", tmp_path), ("merge", tmp_path, "-o", tmp_path / "copy")):
        assert lmassay(*arguments).returncode in (1, 2)
    with (
        closing(connect(tmp_path / STORE_FILE)) as database,
        pytest.raises(sqlite3.DatabaseError, match="prohibited"),
    ):
        database.execute(f"SELECT {columns[0]} FROM {table}")


PROGRAMS = {
    "a view": ["ALTER TABLE runs RENAME TO hidden", "CREATE VIEW runs AS SELECT * FROM hidden"],
    "an endless view": [
        "ALTER TABLE runs RENAME TO hidden",
        "CREATE VIEW runs AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x AS id FROM n",
    ],
    "a virtual table": [
        "ALTER TABLE runs RENAME TO hidden",
        "CREATE VIRTUAL TABLE runs USING fts5 (id, sweep, name, task, model, label, status, config, signature,"
        " provenance, results, note, planned, created, finished)",
    ],
    "a computed column": [
        "ALTER TABLE runs RENAME TO hidden",
        "CREATE TABLE runs (id TEXT, label TEXT GENERATED ALWAYS AS (hex(zeroblob(1000000))))",
    ],
    "an index of an expression": ["CREATE INDEX computed ON runs (hex(id))"],
    "an index with a computed condition": ["CREATE INDEX computed ON runs (id) WHERE hex(id) > ''"],
    "an index with a pattern": ["CREATE INDEX computed ON runs (id) WHERE id LIKE '%a%a%a%a'"],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_in_place_of_a_table_is_refused_in_one_line_and_nothing_is_changed(tmp_path, program):
    add(tmp_path, "one", rates([1, 0]))
    with closing(sqlite3.connect(tmp_path / STORE_FILE, isolation_level=None)) as database:
        for statement in PROGRAMS[program]:
            database.execute(statement)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = (tmp_path / STORE_FILE).read_bytes()
    commands = [["ls"], ["report"], ["doctor"], ["doctor", "--fix"], ["rm", "one", "--yes"], ["resume"]]
    for command in commands:
        done = lmassay(*command, "--results", tmp_path, cwd=tmp_path)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert "ask for another copy" in done.stderr
    assert (tmp_path / STORE_FILE).read_bytes() == before
    assert not list(tmp_path.glob(f"{STORE_FILE}.*"))


ADDITIONS = [
    "CREATE VIEW finished_runs AS SELECT id FROM runs WHERE status = 'done'",
    "CREATE VIEW counts (rows) AS SELECT count(*) FROM rows",
    "CREATE INDEX errors ON rows (state) WHERE state = 'error'",
    "CREATE TABLE my_notes (a TEXT CHECK (a <> ''), b TEXT DEFAULT (datetime('now')), \"where\" TEXT)",
    "CREATE INDEX my_notes_in_capitals ON my_notes (upper(a))",
    'CREATE TABLE "as" (a)',
    "CREATE VIRTUAL TABLE texts USING fts5 (text)",
]


def test_what_a_user_added_to_the_file_is_no_obstacle(tmp_path):
    add(tmp_path, "one", rates([1, 0]))
    with closing(sqlite3.connect(tmp_path / STORE_FILE)) as database, database:
        for statement in ADDITIONS:
            database.execute(statement)
    for command in (["ls"], ["doctor"], ["tag", "one", "paper"], ["rm", "one", "--yes"]):
        done = lmassay(*command, "--results", tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_message_about_an_index_that_computes_values_says_how_to_remove_it(tmp_path):
    add(tmp_path, "one", rates([1, 0]))
    with closing(sqlite3.connect(tmp_path / STORE_FILE, isolation_level=None)) as database:
        database.execute("CREATE INDEX mine ON rows (lower(state))")
        assert 'DROP INDEX "mine"' in lmassay("ls", "--results", tmp_path).stderr
        database.execute('DROP INDEX "mine"')
    assert lmassay("ls", "--results", tmp_path).returncode == 0


def test_a_trigger_is_not_run(tmp_path):
    for run in ("one", "two"):
        add(tmp_path, run, rates([1, 0]))
    with closing(sqlite3.connect(tmp_path / STORE_FILE)) as database, database:
        database.execute("CREATE TRIGGER t AFTER DELETE ON runs BEGIN DELETE FROM rows; END")
    done = lmassay("rm", "one", "--yes", "--results", tmp_path)
    assert done.returncode == 2
    assert "views or triggers, which lmassay neither writes nor runs" in done.stderr
    with Store(tmp_path) as store:
        assert [len(list(store.rows(run))) for run in ("one", "two")] == [2, 2]


def test_a_trigger_on_a_table_of_the_user_is_no_damage(tmp_path):
    add(tmp_path, "one", rates([1, 0]))
    with closing(sqlite3.connect(tmp_path / STORE_FILE)) as database, database:
        database.execute("CREATE TABLE log (text)")
        database.execute("CREATE TRIGGER t AFTER INSERT ON log BEGIN SELECT 1; END")
    assert lmassay("doctor", "--results", tmp_path, "--fix").returncode == 0
    with closing(sqlite3.connect(tmp_path / STORE_FILE)) as database:
        assert database.execute("SELECT COUNT(*) FROM log").fetchone() == (0,)


def test_the_advice_for_a_file_with_a_trigger_helps(tmp_path):
    for run in ("one", "two"):
        add(tmp_path, run, rates([1, 0]))
    with closing(sqlite3.connect(tmp_path / STORE_FILE)) as database, database:
        database.execute("CREATE TRIGGER t AFTER DELETE ON runs BEGIN DELETE FROM rows; END")
    assert "doctor" in lmassay("rm", "one", "--yes", "--results", tmp_path).stderr
    assert "it has triggers" in lmassay("doctor", "--results", tmp_path).stdout
    lmassay("doctor", "--results", tmp_path, "--fix")
    assert lmassay("rm", "one", "--yes", "--results", tmp_path).returncode == 0
    with Store(tmp_path) as store:
        assert len(list(store.rows("two"))) == 2
