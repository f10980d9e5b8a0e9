"""Random damage to a results folder, and what every command must still do with it.

``build`` writes a store with four runs of three evaluations and 10,000 examples, ``damage`` changes its file as a
defective disk or a careless editor would, and ``check`` runs the commands on it and compares what they print with what
they printed before the damage.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers import EVALUATIONS, lmassay, write_config, write_lines

STORE_FILE = "lmassay.sqlite"
PAGE = 4096
MAX_ERROR_LINES = 3
Command = Callable[..., "subprocess.CompletedProcess[str]"]

MODEL = """
import hashlib
from lmassay import Model
from lmassay.types import Continuation, Response

def number(*parts):
    return int(hashlib.sha256("|".join(parts).encode()).hexdigest()[:6], 16)

class Made(Model):
    name, can = "made", frozenset({"generate", "choices", "logprobs"})

    def __init__(self, label: str = "made"):
        self.label = label

    def identity(self):
        return {"name": "made", "label": self.label}

    def generate(self, requests):
        for request in requests:
            yield Response("ABC"[number(self.label, request.prompt) % 3])

    def logprobs(self, requests):
        for request in requests:
            total = -(1 + number(self.label, request.context, request.continuation) % 1000) / 10
            yield Continuation(total, (total,))
"""


@dataclass(frozen=True, slots=True)
class Truth:
    """What the commands print before the damage."""

    folder: Path
    """The undamaged results folder."""
    runs: Sequence[str]
    """The ids of all runs in their order."""
    comparable: tuple[str, str]
    """Two runs of the same evaluation."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """Run → what ``show --json`` prints about it."""
    rows: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Run → the lines of its export."""
    stored: Mapping[str, bytes | None] = field(default_factory=dict)
    """Run → the digest of everything that its export reads."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Command → what it prints."""


# --- the store --------------------------------------------------------------------------------------------------------


def build(folder: Path, examples: int = 10_000) -> Truth:
    """Write the store into ``folder``/results, and record what the commands print about it."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    bias_examples = 192
    pairs = (examples - bias_examples) // 10
    lines = examples - bias_examples - 2 * pairs
    (folder / "made.py").write_text(MODEL, encoding="utf-8")
    configs = [_robustness(folder, rng, lines), _bias()]
    _write_pairs(folder, pairs)
    for label in ("first", "second"):
        configs.append(
            {
                "task": {"name": "minimal_pairs", "data": "pairs.jsonl"},
                "model": {"name": "made.py:Made", "label": label},
            }
        )
    for number, config in enumerate(configs):
        file = write_config(folder / f"c{number}.yaml", {**config, "resamples": 100})
        done = lmassay("run", file.name, "--results", "results", cwd=folder)
        assert done.returncode == 0, done.stderr
    _write_out_the_log(folder / "results")
    return truth_of(folder / "results")


def truth_of(folder: Path) -> Truth:
    """Record what the commands print about an undamaged results folder."""
    listed = json.loads(lmassay("ls", "--json", "--results", folder).stdout)["runs"]
    runs = [run["run"] for run in listed]
    truth = Truth(folder, runs, (runs[-2], runs[-1]))
    results = {}
    rows = {}
    outputs = {}
    for run in runs:
        shown = lmassay("show", run, "--json", "--provenance", "--results", folder)
        results[run] = json.loads(shown.stdout)["runs"][0]
        exported = lmassay("export", run, "--format", "jsonl", "--results", folder)
        rows[run] = frozenset(exported.stdout.splitlines())
    stored = {run: _stored_examples(folder, run) for run in runs}
    for name, arguments in _commands(truth, folder).items():
        done = lmassay(*arguments)
        assert done.returncode == 0, (name, done.stderr)
        outputs[name] = _normal(done.stdout, folder)
    _write_out_the_log(folder)
    return Truth(folder, runs, truth.comparable, results, rows, stored, outputs)


def _robustness(folder: Path, rng: random.Random, lines: int) -> dict[str, Any]:
    """Outputs from files, which are stored in batches."""
    words = ["chat", "wonderful", "le", "été", "강아지", "bird", ".", "12,5"]
    files = {}
    for role in ("src", "adv", "out", "adv_out", "ref"):
        texts = [" ".join(rng.choices(words, k=rng.choice([1, 2, 5, 9]))) for _ in range(lines)]
        files[role] = write_lines(folder / role, texts).name
    task = {"name": "robustness", "src": files["src"], "ref": files["ref"], "attack": {"file": files["adv"]}}
    model = {"name": "outputs", "files": {"out": files["out"], "adv_out": files["adv_out"]}}
    return {"task": task, "model": model}


def _bias() -> dict[str, Any]:
    data = str(EVALUATIONS / "bias/sample/questions.yaml")
    task = {"name": "bias", "data": data, "prompt_id": 1, "answer_by": "letters"}
    return {"task": task, "model": {"name": "made.py:Made", "label": "biased"}}


def _write_pairs(folder: Path, count: int) -> None:
    lines = []
    for number in range(count):
        kind = ("agreement", "negation")[number % 2]
        pair = {
            "sentence_good": f"the dog number {number} is {kind}.",
            "sentence_bad": f"the dog number {number} are {kind}.",
            "UID": kind,
            "field": "syntax",
            "linguistics_term": kind,
        }
        lines.append(json.dumps(pair))
    write_lines(folder / "pairs.jsonl", lines)


def _write_out_the_log(folder: Path) -> None:
    """Let SQLite copy its log into the file, so that a damage of the file is a damage of the store."""
    with closing(sqlite3.connect(folder / STORE_FILE)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


# --- damage -----------------------------------------------------------------------------------------------------------


def damage(store_path: Path, rng: random.Random) -> str:
    """Damage the SQLite file in one random way, and say how."""
    kinds = (
        (_flip_byte, 30),
        (_overwrite_bytes, 10),
        (_zero_page, 12),
        (_fill_page, 5),
        (_swap_pages, 10),
        (_copy_page, 5),
        (_truncate, 5),
        (_damage_header, 5),
        (_damage_schema_page, 5),
        (_damage_log, 4),
        (_change_cell, 25),
        (_delete_row, 5),
    )
    functions = [function for function, _ in kinds]
    (chosen,) = rng.choices(functions, weights=[weight for _, weight in kinds])
    try:
        return chosen(store_path, rng)
    except (sqlite3.Error, ValueError, LookupError, TypeError) as error:
        # After an earlier damage, SQLite cannot change the file, or nothing of it is left.
        return f"nothing: {error}"


def _write_at(file: Path, position: int, data: bytes) -> None:
    with file.open("r+b") as stream:
        stream.seek(position)
        stream.write(data)


def _pages(file: Path) -> int:
    return file.stat().st_size // PAGE


def _page(file: Path, number: int) -> bytes:
    with file.open("rb") as stream:
        stream.seek(number * PAGE)
        return stream.read(PAGE)


def _flip_byte(file: Path, rng: random.Random) -> str:
    position = rng.randrange(file.stat().st_size)
    with file.open("rb") as stream:
        stream.seek(position)
        (before,) = stream.read(1)
    after = before ^ (1 << rng.randrange(8)) if rng.random() < 0.5 else rng.choice([0, 0xFF, rng.randrange(256)])
    if after == before:
        after = before ^ 1
    _write_at(file, position, bytes([after]))
    return f"byte {position} from {before} to {after}"


def _overwrite_bytes(file: Path, rng: random.Random) -> str:
    length = rng.choice([2, 8, 64, 512])
    position = rng.randrange(max(file.stat().st_size - length, 1))
    _write_at(file, position, rng.randbytes(length))
    return f"{length} random bytes at {position}"


def _zero_page(file: Path, rng: random.Random) -> str:
    number = rng.randrange(_pages(file))
    _write_at(file, number * PAGE, bytes(PAGE))
    return f"page {number} zeroed"


def _fill_page(file: Path, rng: random.Random) -> str:
    number = rng.randrange(_pages(file))
    _write_at(file, number * PAGE, rng.randbytes(PAGE))
    return f"page {number} with random bytes"


def _swap_pages(file: Path, rng: random.Random) -> str:
    first, second = rng.sample(range(_pages(file)), 2)
    pages = _page(file, first), _page(file, second)
    _write_at(file, first * PAGE, pages[1])
    _write_at(file, second * PAGE, pages[0])
    return f"pages {first} and {second} swapped"


def _copy_page(file: Path, rng: random.Random) -> str:
    source, target = rng.sample(range(_pages(file)), 2)
    _write_at(file, target * PAGE, _page(file, source))
    return f"page {source} copied over page {target}"


def _truncate(file: Path, rng: random.Random) -> str:
    size = rng.randrange(file.stat().st_size)
    if rng.random() < 0.5:
        size = size // PAGE * PAGE
    with file.open("r+b") as stream:
        stream.truncate(size)
    return f"truncated to {size} bytes"


def _damage_header(file: Path, rng: random.Random) -> str:
    position = rng.randrange(100)
    value = rng.randrange(256)
    _write_at(file, position, bytes([value]))
    return f"byte {position} of the header to {value}"


def _damage_schema_page(file: Path, rng: random.Random) -> str:
    position = rng.randrange(100, PAGE)
    length = rng.choice([1, 4, 40])
    _write_at(file, position, rng.randbytes(length))
    return f"{length} random bytes at {position}, in the table of tables"


def _damage_log(file: Path, rng: random.Random) -> str:
    """Leave a log next to the file that SQLite has not copied into it, and damage the log."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        database.execute("UPDATE runs SET note = note")
        database.execute("UPDATE rows SET state = state WHERE rowid % 7 = 0")
        log = file.with_name(f"{file.name}-wal")
        content = log.read_bytes()
    # Closing the connection has removed the log.
    size = len(content)
    position = rng.randrange(max(size, 1))
    damaged = bytearray(content)
    kind = rng.choice(["byte", "truncated", "zeroed"])
    if kind == "byte" and damaged:
        damaged[position] ^= 1 << rng.randrange(8)
    elif kind == "truncated":
        del damaged[position:]
    else:
        damaged[position : position + PAGE] = bytes(len(damaged[position : position + PAGE]))
    log.write_bytes(damaged)
    return f"log of {size} bytes: {kind} at {position}"


def _change_cell(file: Path, rng: random.Random) -> str:
    """Change one cell, as somebody with an editor for SQLite might do."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.text_factory = bytes
        tables = ["runs", "runs", "rows", "rows", "batches", "responses", "digests", "asked", "spending"]
        table = rng.choice(tables)
        columns = [name.decode() for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
        column = rng.choice(columns)
        (count,) = database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
        if not count:
            return f"nothing: {table} is empty"
        keys = {"digests": "run, part", "asked": "run, id", "spending": "run"}.get(table, "rowid")
        offset = rng.randrange(count)
        query = f"SELECT {keys}, {column} FROM {table} ORDER BY {keys} LIMIT 1 OFFSET {offset}"
        *key, value = database.execute(query).fetchone()
        key = [part.decode() if isinstance(part, bytes) else part for part in key]
        new, how = _changed_value(value, rng)
        condition = " AND ".join(f"{name} = ?" for name in keys.split(", "))
        placeholder = "CAST(? AS TEXT)" if isinstance(new, bytes) and how == "text" else "?"
        try:
            database.execute(f"UPDATE {table} SET {column} = {placeholder} WHERE {condition}", (new, *key))
        except sqlite3.IntegrityError:
            return f"nothing: {table}.{column} must be unique or may not be empty"
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return f"{table}.{column} of {key}: {str(value)[:60]} to {str(new)[:60]}"


def _changed_value(value: Any, rng: random.Random) -> tuple[Any, str]:
    kind = rng.choice(["byte", "byte", "byte", "cut", "empty", "type", "utf-8", "digit", "digit"])
    if isinstance(value, int | float):
        return rng.choice([value + 1, -value, 0, "many", None, 2**62, b"\xff"]), "value"
    if value is None:
        return rng.choice(["x", 7, b"\xff\x00"]), "value"
    data = bytearray(value)
    digits = [number for number, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if kind == "empty" or not data:
        return b"", "text"
    if kind == "type":
        return rng.choice([7, 0.5, None, b"\x00\x01"]), "value"
    if kind == "cut":
        return bytes(data[: rng.randrange(len(data))]), "text"
    if kind == "digit" and digits:
        position = rng.choice(digits)
        data[position] = 0x30 + (data[position] - 0x30 + rng.randrange(1, 10)) % 10
    elif kind == "utf-8":
        data.insert(rng.randrange(len(data)), 0xFF)
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(7)
    return bytes(data), "text"


def _delete_row(file: Path, rng: random.Random) -> str:
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        table = rng.choice(["runs", "rows", "batches", "digests", "responses", "asked"])
        (count,) = database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
        keys = {"digests": "run, part", "asked": "run, id"}.get(table, "rowid")
        offset = rng.randrange(max(count, 1))
        key = database.execute(f"SELECT {keys} FROM {table} ORDER BY {keys} LIMIT 1 OFFSET {offset}").fetchone()
        if key is None:
            return f"nothing: {table} is empty"
        condition = " AND ".join(f"{name} = ?" for name in keys.split(", "))
        database.execute(f"DELETE FROM {table} WHERE {condition}", key)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return f"{table}: {key} deleted"


# --- what the commands do with it -------------------------------------------------------------------------------------


def check(store_folder: Path, truth: Truth, call: Command = lmassay, *, thorough: bool = True) -> list[str]:
    """Run the commands on a damaged folder and return what they did wrong, one sentence each.

    ``thorough`` also merges and repairs the folder, which takes most of the time.
    """
    failures: list[str] = []
    failures += _check_listing(store_folder, truth, call)
    for run in truth.runs:
        failures += _check_show(store_folder, truth, run, call)
        failures += _check_export(store_folder, truth, run, call)
    for name, arguments in _commands(truth, store_folder).items():
        done = call(*arguments)
        failures += _problems(name, done)
        if not reports_damage(done) and _normal(done.stdout, store_folder) != truth.outputs[name]:
            failures.append(f"{name}: the output differs, and no damage is reported")
    if not thorough:
        return failures
    failures += _check_merge(store_folder, truth, call)
    failures += _check_repair(store_folder, truth, call)
    return failures


def reports_damage(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether a command says that something is damaged or refuses the file."""
    return done.returncode == 2 or "damaged" in done.stderr + done.stdout


def _commands(truth: Truth, folder: Path) -> dict[str, list[object]]:
    """The commands whose whole output is compared."""
    base, new = truth.comparable
    return {
        "ls": ["ls", "--results", folder],
        "compare": ["compare", base, new, "--results", folder],
        "report --all": ["report", "--all", "-o", "-", "--format", "md", "--results", folder],
        "report csv": ["report", "--all", "-o", "-", "--format", "csv", "--results", folder],
    }


def _problems(name: str, done: subprocess.CompletedProcess[str]) -> list[str]:
    """What no command may do, whatever the folder is like."""
    problems = []
    if done.returncode not in (0, 1, 2):
        problems.append(f"{name}: exit code {done.returncode}")
    if "Traceback" in done.stderr + done.stdout:
        problems.append(f"{name}: a traceback: {done.stderr.strip()[-600:]}")
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    messages = [line for line in lines if line.startswith(("error: ", "warning: "))]
    if max(len(messages), len(lines) if done.returncode == 2 else 0) > MAX_ERROR_LINES:
        problems.append(f"{name}: {len(lines)} lines of error")
    return problems


def _normal(text: str, folder: Path) -> str:
    """Without the name of the folder, and without white space, because the name changes the width of tables."""
    return re.sub(r"\s+", " ", text.replace(str(folder), "FOLDER"))


def _check_listing(folder: Path, truth: Truth, call: Command) -> list[str]:
    done = call("ls", "--json", "--results", folder)
    failures = _problems("ls --json", done)
    if done.returncode == 2 or failures:
        return failures
    listed = _printed_runs(done)
    for run in truth.runs:
        if run not in listed:
            if not reports_damage(done):
                failures.append(f"ls --json: {run} is missing, and no damage is reported")
            continue
        failures += _differences("ls --json", listed[run], truth.results[run])
    return failures


def _printed_runs(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return what a command printed about each run as JSON."""
    return {run["run"]: run for run in json.loads(done.stdout)["runs"]}


def _differences(name: str, document: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Compare the results that are printed about one run; a damaged run has none."""
    if document["status"] == "damaged":
        if document["results"]:
            return [f"{name}: {document['run']} is damaged and has results"]
        return []
    differences = []
    for key, value in document.items():
        if key in expected and value != expected[key]:
            differences.append(f"{name}: {key} of {document['run']} is {str(value)[:80]}")
    return differences


def _check_show(folder: Path, truth: Truth, run: str, call: Command) -> list[str]:
    done = call("show", run, "--json", "--provenance", "--results", folder)
    failures = _problems("show", done)
    if done.returncode == 2 or failures:
        return failures
    (document,) = json.loads(done.stdout)["runs"]
    failures += _differences("show", document, truth.results[run])
    if not reports_damage(done) and document != truth.results[run]:
        failures.append(f"show: {run} differs, and no damage is reported")
    return failures


def _check_export(folder: Path, truth: Truth, run: str, call: Command) -> list[str]:
    done = call("export", run, "--format", "jsonl", "--results", folder)
    failures = _problems("export", done)
    lines = done.stdout.splitlines()
    altered = [line for line in lines if line not in truth.rows[run]]
    if altered:
        failures.append(f"export: {len(altered)} altered rows of {run}, such as {altered[0][:200]}")
    if not reports_damage(done) and len(lines) != len(truth.rows[run]):
        failures.append(f"export: {len(lines)} rows of {run}, and no damage is reported")
    return failures


def _check_copied_export(folder: Path, truth: Truth, run: str, call: Command) -> list[str]:
    """Check the export from a merged or repaired folder, unless it reads the same bytes as before the damage."""
    stored = _stored_examples(folder, run)
    if stored is not None and stored == truth.stored[run]:
        return []
    return _check_export(folder, truth, run, call)


def _stored_examples(folder: Path, run: str) -> bytes | None:
    """Return the digest of everything that the export of a run reads; None if SQLite cannot read it."""
    state = hashlib.blake2b()
    try:
        with closing(sqlite3.connect(folder / STORE_FILE)) as database:
            database.text_factory = bytes
            state.update(repr(database.execute("PRAGMA user_version").fetchone()).encode())
            for table, key, order in (
                ("runs", "id", "id"),
                ("rows", "run", "position"),
                ("batches", "run", "first"),
                ("digests", "run", "part"),
            ):
                for values in database.execute(f"SELECT * FROM {table} WHERE {key} = ? ORDER BY {order}", (run,)):
                    state.update(repr(values).encode())
    except sqlite3.Error:
        return None
    return state.digest()


def _check_merge(folder: Path, truth: Truth, call: Command) -> list[str]:
    """Merge the folder into a new one: what arrives there is true."""
    target = folder.with_name(f"{folder.name}-merged")
    try:
        done = call("merge", folder, "-o", target)
        failures = _problems("merge", done)
        if done.returncode == 2 or failures:
            return failures
        listing = call("ls", "--json", "--results", target)
        failures += _problems("ls after merge", listing)
        if failures:
            return failures
        listed = _printed_runs(listing)
        for run in truth.runs:
            if run in listed:
                failures += _differences("merge", listed[run], truth.results[run])
                failures += [f"after merge: {failure}" for failure in _check_copied_export(target, truth, run, call)]
            elif not reports_damage(done):
                failures.append(f"merge: {run} is missing, and no damage is reported")
        return failures
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _check_repair(folder: Path, truth: Truth, call: Command) -> list[str]:
    """Check and repair a copy of the folder; afterwards nothing is damaged, and what is there is true."""
    copy = folder.with_name(f"{folder.name}-repaired")
    shutil.copytree(folder, copy)
    try:
        checked = call("doctor", "--results", copy)
        failures = _problems("doctor", checked)
        repaired = call("doctor", "--results", copy, "--fix")
        failures += _problems("doctor --fix", repaired)
        if repaired.returncode == 2:
            failures.append(f"doctor --fix: {repaired.stderr.strip()[:300]}")
            return failures
        again = call("doctor", "--results", copy)
        failures += _problems("doctor after --fix", again)
        if again.returncode != 0:
            failures.append(f"doctor after --fix: {again.stdout.strip()[-400:]}{again.stderr.strip()[-200:]}")
        done = call("ls", "--json", "--results", copy)
        failures += _problems("ls after --fix", done)
        if done.returncode == 2 or failures:
            return failures
        for run, document in _printed_runs(done).items():
            if document["status"] != "done":
                resumed = call("resume", run, "--results", copy)
                failures += [f"after --fix: {problem}" for problem in _problems("resume", resumed)]
            failures += [f"after --fix: {failure}" for failure in _check_show(copy, truth, run, call)]
            failures += [f"after --fix: {failure}" for failure in _check_copied_export(copy, truth, run, call)]
        return failures
    finally:
        shutil.rmtree(copy, ignore_errors=True)
