"""The overhead of the core: a run on outputs from files, compared with ``lmassay teapot`` on the same lines.

    python benchmarks/core.py [--lines 1000000] [--chromium] [--folder FOLDER]

Measures CPU seconds and peak memory of whole processes:

- ``lmassay teapot``, and the same evaluation as a run: at most twice the CPU time, less than 400 MB of memory, and at
  most 300 bytes per example in the store beyond the texts;
- the run again, killed three times (SIGKILL) and resumed: the stored rows and results must be the same, byte for byte;
- ``lmassay report`` in less than 30 CPU seconds; the page shows at most 50,000 examples and says so. With
  ``--chromium``, the page is opened in a real browser (needs chromium, chromedriver and selenium);
- ``lmassay compare`` with the run of a second system in less than 20 CPU seconds.

Exits with 1 if a target is missed. The targets of the last two are for 1,000,000 lines and scale with the number of
lines, but never below one half. A million lines take about 8 minutes of CPU time and 3 GB of disk; 100,000 lines less
than a minute. The lines are made up and repeat with variations, so that all of them differ.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

# Also as a script, which has only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.page import driver
from benchmarks.robustness import made_up_pairs, variation

from lmassay.storage.store import STORE_FILE, Store

FULL_SIZE = 1_000_000
MAX_CPU_RATIO = 2.0
MAX_MEMORY_MB = 400
MAX_BYTES_PER_EXAMPLE = 300
MAX_REPORT_SECONDS = 30
MAX_COMPARE_SECONDS = 20
MAX_EXAMPLES_ON_PAGE = 50_000
DISTINCT_LINES = 2000
KILLS = 3
ROLES = ("src", "adv_src", "ref", "out", "adv_out", "second_adv_out")
# Every seventh output of the second system is the output without attack, as if the attack had no effect.
UNBROKEN_STEP = 7


@dataclass(frozen=True)
class ProcessCost:
    cpu: float
    memory_mb: float
    output: str


@dataclass
class Targets:
    """Prints each measured value next to its target and remembers whether one was missed."""

    missed: list[str] = field(default_factory=list)

    def check(self, name: str, value: float, most: float, unit: str) -> None:
        verdict = "ok" if value <= most else "MISSED"
        print(f"{name:<44}{value:>10.2f} {unit:<12} at most {most:g} {unit}: {verdict}", flush=True)
        if value > most:
            self.missed.append(name)

    def require(self, name: str, is_true: bool) -> None:
        print(f"{name:<44}{'yes' if is_true else 'NO':>10}", flush=True)
        if not is_true:
            self.missed.append(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=FULL_SIZE, help="number of lines (default: %(default)s)")
    parser.add_argument("--chromium", action="store_true", help="open the report page in a browser")
    parser.add_argument("--folder", type=Path, help="keep data and results here (default: a temporary folder)")
    arguments = parser.parse_args()
    if arguments.folder is not None:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        return measure(arguments.folder, arguments.lines, in_browser=arguments.chromium)
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder), arguments.lines, in_browser=arguments.chromium)


def measure(folder: Path, lines: int, *, in_browser: bool) -> int:
    targets = Targets()
    write_data(folder, lines)
    # Without the line breaks, which are not stored.
    text_bytes = sum((folder / role).stat().st_size - lines for role in ROLES[:5])
    print(f"{lines:,} lines, {text_bytes / lines:.0f} bytes of text per example", flush=True)
    warm_up(folder)

    teapot = lmassay(folder, "teapot", *teapot_options())
    print(f"{'lmassay teapot':<44}{microseconds(teapot, lines):>10.1f} µs per example, {teapot.memory_mb:.0f} MB")
    native = lmassay(folder, "run", "first.yaml", "--results", "results")
    print(f"{'lmassay run':<44}{microseconds(native, lines):>10.1f} µs per example")
    targets.check("CPU of the run against teapot", native.cpu / teapot.cpu, MAX_CPU_RATIO, "times")
    targets.check("peak memory of the run", native.memory_mb, MAX_MEMORY_MB, "MB")
    beyond_texts = ((folder / "results" / STORE_FILE).stat().st_size - text_bytes) / lines
    targets.check("store beyond the texts, per example", beyond_texts, MAX_BYTES_PER_EXAMPLE, "bytes")

    killed = run_with_kills(folder, lines)
    print(f"{'killed at':<44}{', '.join(f'{count:,}' for count in killed):>10} examples", flush=True)
    targets.require("killed and resumed: same rows and results", stored(folder, "killed") == stored(folder, "results"))

    lmassay(folder, "run", "second.yaml", "--results", "results")
    first, second = run_ids(folder)
    # Up to half of the time does not depend on the number of lines.
    share = max(0.5, lines / FULL_SIZE)
    report = lmassay(folder, "report", first, "-o", "page.html", "--results", "results")
    targets.check("CPU of the report", report.cpu, MAX_REPORT_SECONDS * share, "s")
    check_page(targets, folder / "page.html", lines)
    compared = lmassay(folder, "compare", first, second, "--results", "results")
    targets.check("CPU of the comparison", compared.cpu, MAX_COMPARE_SECONDS * share, "s")
    print(f"peak memory of report and comparison: {report.memory_mb:.0f} and {compared.memory_mb:.0f} MB")
    if in_browser:
        targets.require("the page works in chromium", opens_in_chromium(folder / "page.html", lines))
    if targets.missed:
        print(f"missed: {', '.join(targets.missed)}", file=sys.stderr)
        return 1
    return 0


# --- the data ---------------------------------------------------------------------------------------------------------


def write_data(folder: Path, lines: int) -> None:
    """Write parallel files; every attacked line differs from the original by a few swapped letters."""
    sources = made_up_pairs(DISTINCT_LINES)
    outputs = made_up_pairs(2 * DISTINCT_LINES)[DISTINCT_LINES:]
    files = {role: (folder / role).open("w", encoding="utf-8") for role in ROLES}
    for number in range(lines):
        kind, cycle = number % DISTINCT_LINES, number // DISTINCT_LINES
        attacked, source = variation(*sources[kind], cycle)
        adversarial_output, reference = variation(*outputs[kind], cycle)
        # The output without attack lacks the last word of the reference.
        output = reference.rpartition(" ")[0]
        is_unbroken = number % UNBROKEN_STEP == 0
        second_output = output if is_unbroken else adversarial_output
        for role, text in zip(
            ROLES, (source, attacked, reference, output, adversarial_output, second_output), strict=True
        ):
            files[role].write(f"{text}\n")
    for file in files.values():
        file.close()
    task = "task: {name: robustness, src: src, attack: {file: adv_src}, ref: ref}"
    for name, adversarial in (("first", "adv_out"), ("second", "second_adv_out")):
        model = f"model: {{name: outputs, label: {name}, files: {{out: out, adv_out: {adversarial}}}}}"
        (folder / f"{name}.yaml").write_text(f"{task}\n{model}\n", encoding="utf-8")


def teapot_options() -> Iterator[str]:
    for role in ROLES[:5]:
        yield f"--{role.replace('_', '-')}"
        yield role


# --- the commands -----------------------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lmassay", *arguments]


def lmassay(folder: Path, *arguments: str) -> ProcessCost:
    """Run a command in a process and return what it took."""
    # One thread, so that CPU time does not depend on the number of cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            command(*arguments), cwd=folder, env=environment, stdout=output, stderr=subprocess.PIPE
        ) as process,
    ):
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"lmassay {' '.join(arguments)} failed:\n{errors.decode()}")
        output.seek(0)
        text = output.read().decode()
    # Linux counts memory in kilobytes.
    return ProcessCost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def warm_up(folder: Path) -> None:
    """Let numba compile, or load what it compiled, outside the measurement."""
    small = folder / "warm-up"
    small.mkdir(exist_ok=True)
    for role in ROLES[:5]:
        (small / role).write_text("a b c\n" * 2000, encoding="utf-8")
    lmassay(small, "teapot", *teapot_options())


def microseconds(cost: ProcessCost, lines: int) -> float:
    return 1e6 * cost.cpu / lines


def run_with_kills(folder: Path, lines: int) -> list[int]:
    """Start a run, kill it three times, resume it; return how many examples were stored at each kill."""
    killed_at = []
    arguments: Sequence[str] = ("run", "first.yaml", "--results", "killed")
    for kill in range(1, KILLS + 1):
        process = subprocess.Popen(
            command(*arguments), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while stored_examples(folder / "killed" / STORE_FILE) < kill * lines // (KILLS + 1):
            if process.poll() is not None:
                raise SystemExit("the run that was to be killed ended by itself; give more lines")
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed_at.append(stored_examples(folder / "killed" / STORE_FILE))
        arguments = ("resume", "--results", "killed")
    lmassay(folder, *arguments)
    return killed_at


def stored_examples(file: Path) -> int:
    if not file.is_file():
        return 0
    try:
        with closing(sqlite3.connect(file)) as database:
            (count,) = database.execute("SELECT TOTAL(examples) FROM batches").fetchone()
    except sqlite3.OperationalError:
        # The tables are not there yet.
        return 0
    return int(count)


def stored(folder: Path, results: str) -> list[object]:
    """Return everything that is stored of the first run, apart from its id and times."""
    with Store(folder / results) as store:
        record = store.runs()[0]
    with closing(sqlite3.connect(folder / results / STORE_FILE)) as database:
        query = "SELECT first, examples, scores, texts FROM batches WHERE run = ? ORDER BY first"
        # The hashes of all batches fit into memory, the batches themselves may not.
        batches = [hash(batch) for batch in database.execute(query, (record.id,))]
    return [record.status, record.signature, [result.as_dict() for result in record.results], batches]


def run_ids(folder: Path) -> list[str]:
    with Store(folder / "results") as store:
        return [record.id for record in store.runs()]


# --- the page ---------------------------------------------------------------------------------------------------------


def check_page(targets: Targets, page: Path, lines: int) -> None:
    text = page.read_text(encoding="utf-8")
    print(f"{'size of the page':<44}{len(text) / 1e6:>10.1f} MB")
    if lines <= MAX_EXAMPLES_ON_PAGE:
        return
    stated = re.search(r"([\d,]+) of ([\d,]+) examples", text)
    targets.require("the page says how many examples it shows", stated is not None)
    if stated is not None:
        on_page, total = (int(number.replace(",", "")) for number in stated.groups())
        targets.check("examples on the page", on_page, MAX_EXAMPLES_ON_PAGE, "examples")
        targets.require("of all examples of the run", total == lines)


def opens_in_chromium(page: Path, lines: int) -> bool:
    """Return whether the page shows its examples in a real browser, without an error on the browser's console."""
    with tempfile.TemporaryDirectory() as profile:
        chrome = driver(profile)
        try:
            started = time.perf_counter()
            chrome.get(page.as_uri())
            # The page reads the examples only when their section is opened.
            chrome.find_element("css selector", "#examples summary").click()
            while chrome.execute_script("return document.querySelector('#examples').dataset.ready") != "true":
                if time.perf_counter() - started > 120:
                    return False
                time.sleep(0.05)
            count = chrome.execute_script("return document.querySelector('#examples .count').textContent")
            rows = chrome.execute_script("return document.querySelectorAll('#examples tbody tr').length")
            errors = [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"]
        finally:
            chrome.quit()
    print(f"{'chromium shows':<44}{count} after {time.perf_counter() - started:.1f} s")
    return f"{min(lines, MAX_EXAMPLES_ON_PAGE):,}" in count and rows > 0 and not errors


if __name__ == "__main__":
    sys.exit(main())
