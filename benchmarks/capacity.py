"""The tables of ``docs/capacity.md``: measured costs, extended to 10^9 requests and 1,000 workers.

    python benchmarks/capacity.py

Reads ``writer.tsv`` and ``writer_quick.tsv`` (written by ``writer.py -o``) and ``core_100k.txt``, ``core_400k.txt`` and
``core_1m.txt`` (the output of ``core.py``) in ``benchmarks/measured`` and prints the tables as Markdown. A test
compares the page with them. What the tables need but was not measured is a constant below, and the page calls it an
assumption.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Also as a script, which has only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.writer import REQUESTS_PER_BATCH, costs_from, read_values, shards_table, simulation_table

MEASURED = Path(__file__).parent / "measured"
REQUESTS = 10**9
WORKERS = 1000
SEED = 1
SECONDS_PER_HOUR = 3600
SECONDS_PER_DAY = 24 * SECONDS_PER_HOUR

# --- assumptions ------------------------------------------------------------------------------------------------------

REQUESTS_PER_MINUTE = 10_000
TOKENS_IN, TOKENS_OUT = 100, 30
USD_PER_MILLION_IN, USD_PER_MILLION_OUT = 1.0, 2.0
MODEL_GB = 10
FILE_SYSTEM_GB_PER_SECOND = 10
# What Dask's documentation says.
SCHEDULER_SECONDS_PER_TASK = 0.001
# The share of their time that workers may wait for the process.
TARGET_IDLE = 0.1
BATCH_SIZES = (8, 32, 256)


# --- what was measured ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CoreOutput:
    """What ``core.py`` printed for a number of lines."""

    lines: int
    text_bytes: float
    run_us: float
    memory_mb: float
    bytes_beyond_texts: float
    report_seconds: float
    compare_seconds: float
    report_mb: float
    compare_mb: float


def read_core(file: Path) -> CoreOutput:
    text = file.read_text(encoding="utf-8")

    def numbers(pattern: str) -> list[float]:
        match = re.search(pattern, text)
        if match is None:
            raise SystemExit(f"{file}: no line like '{pattern}'; run benchmarks/core.py again")
        return [float(number.replace(",", "")) for number in match.groups()]

    lines, text_bytes = numbers(r"([\d,]+) lines, (\d+) bytes of text")
    (run_us,) = numbers(r"lmassay run +([\d.]+) µs")
    (memory_mb,) = numbers(r"peak memory of the run +([\d.]+) MB")
    (beyond,) = numbers(r"store beyond the texts, per example +([\d.]+) bytes")
    (report,) = numbers(r"CPU of the report +([\d.]+) s")
    (compare,) = numbers(r"CPU of the comparison +([\d.]+) s")
    report_mb, compare_mb = numbers(r"peak memory of report and comparison: (\d+) and (\d+) MB")
    return CoreOutput(int(lines), text_bytes, run_us, memory_mb, beyond, report, compare, report_mb, compare_mb)


def per_line(small: float, large: float, lines: tuple[int, int]) -> float:
    """Return what one line more costs, from the costs of two sizes; what does not depend on the lines cancels out."""
    return (large - small) / (lines[1] - lines[0])


# --- the tables -------------------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    for row in rows:
        lines.append(f"| {' | '.join(row)} |")
    return lines


def duration(seconds: float) -> str:
    """Return a duration in the unit in which it is easiest to read."""
    if seconds >= 2 * SECONDS_PER_DAY:
        return f"{seconds / SECONDS_PER_DAY:,.1f} days"
    if seconds >= 2 * SECONDS_PER_HOUR:
        return f"{seconds / SECONDS_PER_HOUR:,.1f} hours"
    return f"{seconds / 60:,.0f} minutes"


def size(count: float) -> str:
    """Return a number of bytes in a decimal unit."""
    if count >= 1e12:
        return f"{count / 1e12:,.1f} TB"
    return f"{count / 1e9:,.0f} GB"


Cells = tuple[str, str, str]
_HALF = "0.5 · 10^9"
_FULL = "10^9"


def time_row(name: str, microseconds: float, count: int) -> Cells:
    factor = _FULL if count == REQUESTS else _HALF
    return name, f"{microseconds:,.1f} µs · {factor}", duration(1e-6 * microseconds * count)


def size_row(name: str, bytes_each: float, count: int) -> Cells:
    factor = _FULL if count == REQUESTS else _HALF
    return name, f"{bytes_each:,.0f} bytes · {factor}", size(bytes_each * count)


def store_table(values: Mapping[str, float]) -> list[str]:
    """Return the table of what one process writes per second."""
    rows = []
    for name, time_name, bytes_name in (
        ("answers, one by one", "answer_us", "answer_bytes"),
        ("examples as single rows", "row_us", "row_bytes"),
        ("examples in batches of columns", "batch_row_us", "batch_row_bytes"),
        ("a whole run, per request", "run_us", "run_bytes"),
    ):
        microseconds = values[time_name]
        per_second = 1e6 / microseconds
        rows.append((name, f"{microseconds:.1f} µs", f"{per_second:,.0f}", f"{values[bytes_name]:.0f} bytes"))
    return table(("", "CPU time of one", "how many per CPU second", "size of one in the file"), rows)


def model_table(values: Mapping[str, float]) -> list[str]:
    """Return the table for 10^9 requests to a model in one run of one process; an example has two requests."""
    examples = REQUESTS // 2
    rows = [
        time_row("the process that runs the evaluation", values["run_us"], REQUESTS),
        time_row("of this: storing the answers", values["answer_us"], REQUESTS),
        size_row("results folder", values["run_bytes"], REQUESTS),
        size_row("written to the disk for the answers, at least", values["answer_written_last"], REQUESTS),
        size_row("network, both directions", values["network_bytes"], REQUESTS),
        size_row("memory for the ids of the examples", values["id_memory_bytes"], examples),
        time_row("`lmassay export`", values["export_us"], examples),
        time_row("`lmassay merge`, if several processes ran it", values["merge_us"], REQUESTS),
    ]
    return table(("", "arithmetic", "result"), rows)


def files_table(small: CoreOutput, large: CoreOutput) -> list[str]:
    """Return the table for 10^9 examples whose outputs come from files."""
    lines = (small.lines, large.lines)
    run_us = per_line(small.run_us * small.lines, large.run_us * large.lines, lines)
    run_bytes = per_line(1e6 * small.memory_mb, 1e6 * large.memory_mb, lines)
    report_us = per_line(1e6 * small.report_seconds, 1e6 * large.report_seconds, lines)
    report_bytes = per_line(1e6 * small.report_mb, 1e6 * large.report_mb, lines)
    compare_us = per_line(1e6 * small.compare_seconds, 1e6 * large.compare_seconds, lines)
    compare_bytes = per_line(1e6 * small.compare_mb, 1e6 * large.compare_mb, lines)
    rows = [
        time_row("`lmassay run`", run_us, REQUESTS),
        size_row("memory of the run", run_bytes, REQUESTS),
        size_row("results folder", large.text_bytes + large.bytes_beyond_texts, REQUESTS),
        time_row("`lmassay report`", report_us, REQUESTS),
        size_row("memory of the report", report_bytes, REQUESTS),
        time_row("`lmassay compare` of two such runs", compare_us, REQUESTS),
        size_row("memory of the comparison", compare_bytes, REQUESTS),
    ]
    return table(("", "arithmetic", "result"), rows)


def scheduler_table(values: Mapping[str, float]) -> list[str]:
    """Return the table of the time that the Dask scheduler needs; it handles one task per batch."""
    rows = []
    for batch in BATCH_SIZES:
        tasks = REQUESTS / batch
        documented = tasks * SCHEDULER_SECONDS_PER_TASK
        measured = 1e-6 * tasks * values["scheduler_batch_us"]
        rows.append((f"{batch}", f"{tasks / 1e6:,.1f} million", duration(documented), duration(measured)))
    return table(("requests per batch", "tasks", "at 1 ms per task", "as measured"), rows)


def api_table() -> list[str]:
    """Return the table for 10^9 requests to a model behind an API."""
    per_second = REQUESTS_PER_MINUTE / 60
    tokens = f"{TOKENS_IN} tokens in, {TOKENS_OUT} out"
    usd_per_request = (TOKENS_IN * USD_PER_MILLION_IN + TOKENS_OUT * USD_PER_MILLION_OUT) / 1e6
    rows = [
        ("time", f"10^9 requests / {REQUESTS_PER_MINUTE:,} per minute", duration(REQUESTS / per_second)),
        ("tokens", f"{tokens}, times 10^9", f"{(TOKENS_IN + TOKENS_OUT) * REQUESTS / 1e9:,.0f} billion"),
        ("cost", f"{usd_per_request * 1e6:,.0f} USD per million requests", f"{usd_per_request * REQUESTS:,.0f} USD"),
        ("requests in flight", f"{per_second:,.0f} per second · 1 s", f"{per_second:,.0f}"),
    ]
    return table(("", "arithmetic", "result"), rows)


def loading_table() -> list[str]:
    """Return the table of the time that all workers need to load the model once each."""
    total = MODEL_GB * WORKERS
    rows = [
        ("read by all workers", f"{MODEL_GB} GB · {WORKERS:,}", size(1e9 * total)),
        (
            "from one shared file system",
            f"{total:,} GB / {FILE_SYSTEM_GB_PER_SECOND} GB per second",
            duration(total / FILE_SYSTEM_GB_PER_SECOND),
        ),
    ]
    return table(("", "arithmetic", "result"), rows)


def tables() -> dict[str, list[str]]:
    """Return all tables of the page by name."""
    values = read_values(MEASURED / "writer.tsv")
    costs = costs_from(values)
    small = read_core(MEASURED / "core_100k.txt")
    large = read_core(MEASURED / "core_1m.txt")
    return {
        "one process": store_table(values),
        "requests to a model": model_table(values),
        "workers": simulation_table(costs, SEED),
        "several processes": shards_table(costs, SEED),
        "scheduler": scheduler_table(values),
        "outputs from files": files_table(small, large),
        "model loading": loading_table(),
        "model behind an API": api_table(),
    }


def statements() -> list[str]:
    """Return the phrases of the page that have measured or calculated numbers."""
    values = read_values(MEASURED / "writer.tsv")
    costs = costs_from(values)
    answers = f"{values['answers']:,.0f}"
    busy_workers = TARGET_IDLE / (1 - TARGET_IDLE) / costs.around
    seconds = costs.per_request(REQUESTS_PER_BATCH)
    smallest = min(BATCH_SIZES)
    quick = read_values(MEASURED / "writer_quick.tsv")
    small = read_core(MEASURED / "core_100k.txt")
    medium = read_core(MEASURED / "core_400k.txt")
    lines = (small.lines, medium.lines)
    run_us = per_line(small.run_us * small.lines, medium.run_us * medium.lines, lines)
    report_us = per_line(1e6 * small.report_seconds, 1e6 * medium.report_seconds, lines)
    compare_us = per_line(1e6 * small.compare_seconds, 1e6 * medium.compare_seconds, lines)
    of_smallest = 1000 * smallest * costs.per_request(smallest)
    return [
        f"about {round(1 / seconds, -2):,.0f} requests per second",
        f"costs this process {1e6 * seconds:.0f} µs: {values['run_us']:.0f} µs for the work of lmassay",
        f"storing answers takes {100 * costs.storing / seconds:.0f} % of it",
        f"The {values['answer_written_last']:,.0f} bytes were measured after {answers} answers",
        f"`w` = {1e6 * costs.storing:.0f} µs, `a` = {1e6 * costs.around:.0f} µs and `d` = {1e3 * costs.batch:.1f} ms",
        f"{values['answer_written_first']:,.0f} bytes per answer at the beginning",
        f"{values['answer_written_last']:,.0f} after {answers} answers",
        f"from {values['answer_read_first']:,.0f} to {values['answer_read_last']:,.0f} bytes per answer",
        f"{values['scheduler_batch_us'] / 1000:.1f} ms per batch",
        f"{values['client_batch_us'] / 1000:.1f} ms per batch for sending it and receiving the answers",
        f"`N = {busy_workers:,.0f} · t`",
        f"{quick['run_us']:.0f} µs per request instead of {values['run_us']:.0f}",
        f"{run_us:.1f} µs for the run, {report_us:.1f} for the report and {compare_us:.1f} for the comparison",
        f"the report took {medium.report_seconds:.1f} CPU seconds",
        f"{smallest} · {values['run_us'] / 1000:.2f} + {values['client_batch_us'] / 1000:.1f} = {of_smallest:.1f} ms",
    ]


def main() -> int:
    print("phrases:", *statements(), "", sep="\n")
    for name, lines in tables().items():
        print(f"{name}:", *lines, "", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
