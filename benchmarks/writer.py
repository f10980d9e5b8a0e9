"""How many answers one process can store, and how many workers it takes to keep that process busy.

    python benchmarks/writer.py [--seed 1] [--quick] [-o FILE]
    python benchmarks/writer.py --simulate FILE [--seed 1]     only the simulation, with costs that were measured before

The first part measures the process that runs an evaluation, in CPU seconds and bytes: the store alone (answers one by
one, rows in transactions, batches of columns), a whole run with a model that takes no time, an export, and the
scheduler of a Dask cluster per batch of requests (if Dask is installed).

The second part simulates workers that answer batches of requests for this process, with the measured costs: when it is
saturated, how long finished batches wait for it, and how busy the workers are. It draws the times of the workers with
``--seed``; the same seed and costs give the same table.

Exits with 1 if a target is missed, or if the simulation contradicts the formulas for its two limits: few workers, and
too many. ``docs/capacity.md`` uses the result, which is in ``benchmarks/measured/writer.tsv`` (written by ``-o``).
"""

from __future__ import annotations

import argparse
import heapq
import importlib.util
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Also as a script, which has only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.core import lmassay
from benchmarks.robustness import made_up_pairs, variation

from lmassay.running.batches import BatchOutcome
from lmassay.running.jobs import RunningJobs
from lmassay.storage.merging import merge
from lmassay.storage.store import STORE_FILE, Store
from lmassay.types import Example, Generate, Response, Row, RowBatch, Score, digest, request_as_dict

# Requests that a run sends for an example: one with the source, one with the attacked source.
REQUESTS_PER_EXAMPLE = 2
DISTINCT_LINES = 2000
# The number of examples that a task scores and stores at a time.
CHUNK = 1024
REQUESTS_PER_BATCH = 32
BATCHES_ON_THEIR_WAY = 64
# As in lmassay.running.runner: with more workers than this, a chunk does not get larger.
MAX_CHUNK_FACTOR = 32
SECONDS_PER_REQUEST = (0.01, 0.1, 1.0)
WORKERS = (1, 10, 100, 1000)
SIMULATED_CHUNKS = 3
# Several processes share the workers; each request takes a worker this long.
PROCESSES = (1, 5, 20, 50)
SECONDS_OF_SHARDS = 0.1
SECONDS_PER_DAY = 86_400
MIN_ANSWERS_PER_SECOND = 2000
MIN_GAIN_OF_BATCHES = 5
# How far the simulation may be from the formulas.
TOLERANCE = 0.05
Values = dict[str, float]


# --- what is measured -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How much is written and run."""

    answers: int
    rows: int
    examples: int
    batches: int


FULL = Size(answers=100_000, rows=40 * CHUNK, examples=12_000, batches=1000)
QUICK = Size(answers=5000, rows=5 * CHUNK, examples=4000, batches=200)


class Meter:
    """The CPU time of this process and the bytes it has written and read since the meter was made."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._written, self._read = _bytes_of_process()

    def per(self, count: int) -> tuple[float, float, float]:
        """Return microseconds, bytes written and bytes read for each of ``count`` things."""
        written, read = _bytes_of_process()
        seconds = time.process_time() - self._cpu
        return 1e6 * seconds / count, (written - self._written) / count, (read - self._read) / count


def _bytes_of_process() -> tuple[int, int]:
    """Return how many bytes this process has passed to write and got from read, as Linux counts them."""
    counts: dict[str, int] = {}
    for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        counts[name] = int(value)
    return counts["wchar"], counts["rchar"]


def measure(size: Size) -> Values:
    """Return all measured values by name."""
    values: Values = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values |= measure_answers(folder / "answers", size.answers)
        values |= measure_rows(folder / "rows", size.rows)
        values |= measure_batches(folder / "batches", size.rows)
        values |= measure_run(folder, size.examples)
        if importlib.util.find_spec("distributed") is not None:
            values |= measure_scheduler(folder, size.batches)
    return values


def texts(count: int, first: int = 0) -> Iterator[tuple[str, str]]:
    """Yield made-up prompts and answers that all differ, from a position on."""
    pairs = made_up_pairs(DISTINCT_LINES)
    for number in range(first, first + count):
        yield variation(*pairs[number % DISTINCT_LINES], number // DISTINCT_LINES)


def requests_and_responses(count: int) -> Iterator[tuple[Generate, Response]]:
    for prompt, answer in texts(count):
        yield Generate(prompt, max_tokens=32), Response(answer, tokens_in=30, tokens_out=30, seconds=0.5)


def file_bytes(folder: Path, count: int) -> float:
    """Return the size of a store that is closed, for each of ``count`` things."""
    return (folder / STORE_FILE).stat().st_size / count


def measure_answers(folder: Path, count: int) -> Values:
    """Measure storing answers one by one, each in a transaction, because they may have been paid for.

    The time is that of the last tenth, when the store is largest; bytes are returned for the first and the last tenth.
    """
    tenth = count // 10
    with Store(folder, create=True) as store:
        exchanges = list(requests_and_responses(tenth))
        for part in range(10):
            meter = Meter()
            for number, (request, response) in enumerate(exchanges):
                key = digest("model", part, number)
                store.add_response(key, "run", "model", request_as_dict(request), response)
            microseconds, written, read = meter.per(tenth)
            if part == 0:
                first_written, first_read = written, read
    return {
        "answer_us": microseconds,
        "answer_bytes": file_bytes(folder, count),
        "answer_written_first": first_written,
        "answer_written_last": written,
        "answer_read_first": first_read,
        "answer_read_last": read,
        "answers": count,
    }


def measure_rows(folder: Path, count: int) -> Values:
    """Measure storing rows of examples that a model has answered: a transaction per chunk, with the answers' keys."""
    rows: list[tuple[int, Row]] = []
    keys: dict[str, list[str]] = {}
    for number, (prompt, answer) in enumerate(texts(count)):
        example = Example(digest(number)[:16], {"src": prompt}, answer, {"attack": "swap"})
        score = Score({"s_src": 0.5, "s_tgt": 0.25}, details={"out": answer})
        rows.append((number, Row(example, "scored", score)))
        keys[example.id] = [digest("key", number)]
    with Store(folder, create=True) as store:
        meter = Meter()
        for start in range(0, count, CHUNK):
            chunk = rows[start : start + CHUNK]
            store.add_rows("run", chunk, {row.example.id: keys[row.example.id] for _, row in chunk})
        microseconds, _, _ = meter.per(count)
    return {"row_us": microseconds, "row_bytes": file_bytes(folder, count)}


def measure_batches(folder: Path, count: int) -> Values:
    """Measure storing outputs from files as columns, one batch per chunk."""
    batches = []
    prompts_and_answers = list(texts(count))
    for start in range(0, count, CHUNK):
        prompts, answers = zip(*prompts_and_answers[start : start + CHUNK], strict=True)
        batches.append(
            RowBatch(
                first=start,
                ids=[digest(start + number)[:16] for number in range(len(prompts))],
                values={"s_src": np.full(len(prompts), 0.5), "s_tgt": np.full(len(prompts), 0.25)},
                groups={"attack": ["swap"] * len(prompts)},
                inputs={"src": prompts},
                references=answers,
                details={"out": answers},
            )
        )
    with Store(folder, create=True) as store:
        meter = Meter()
        for batch in batches:
            store.add_batch("run", batch)
        microseconds, _, _ = meter.per(count)
    return {"batch_row_us": microseconds, "batch_row_bytes": file_bytes(folder, count)}


def measure_run(folder: Path, examples: int) -> Values:
    """Measure a whole run with a model that takes no time. The difference of two sizes excludes the time to start."""
    sizes = (examples // 4, examples)
    runs = []
    exports = []
    folders = []
    first = 0
    for lines in sizes:
        results = f"results-{lines}"
        source = folder / f"src-{lines}"
        # No text is in both files, so that merging has to copy all answers.
        source.write_text("".join(f"{prompt}\n" for prompt, _ in texts(lines, first)), encoding="utf-8")
        first += lines
        config = folder / f"{lines}.yaml"
        task = f"task: {{name: robustness, src: {source.name}, attack: charswap}}"
        config.write_text(f"{task}\nmodel: {{name: echo}}\n", encoding="utf-8")
        runs.append(lmassay(folder, "run", config.name, "--results", results))
        exports.append(lmassay(folder, "export", "latest", "-o", f"{lines}.jsonl", "--results", results))
        folders.append(folder / results)
    with Store(folders[1]) as store:
        # The ids of finished examples are in memory during a run.
        tracemalloc.start()
        ids = store.finished_ids(store.run("latest").id)
        memory, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    small_store, large_store = ((results_folder / STORE_FILE).stat().st_size for results_folder in folders)
    meter = Meter()
    merge(folders, folder / "merged")
    merge_us, _, _ = meter.per(REQUESTS_PER_EXAMPLE * sum(sizes))
    more_examples = sizes[1] - sizes[0]
    more_requests = REQUESTS_PER_EXAMPLE * more_examples
    return {
        "merge_us": merge_us,
        "id_memory_bytes": memory / len(ids),
        "run_us": 1e6 * (runs[1].cpu - runs[0].cpu) / more_requests,
        "run_bytes": (large_store - small_store) / more_requests,
        "export_us": 1e6 * (exports[1].cpu - exports[0].cpu) / more_examples,
    }


# --- the scheduler of a cluster ---------------------------------------------------------------------------------------


def answer_at_once(payload: Mapping[str, Any]) -> BatchOutcome:
    """Answer a batch as a worker does, without a model."""
    responses = []
    for number, request in enumerate(payload["requests"]):
        responses.append((number, Response(request.prompt)))
    return BatchOutcome(responses)


def measure_scheduler(folder: Path, batches: int) -> Values:
    """Measure what a Dask scheduler and the client's connection to it cost for each batch of requests."""
    # The folder of a script is on the path; there, distributed.py would hide the package of this name.
    own_folder = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != own_folder]
    from benchmarks.distributed import scheduler_on, wait_for_workers, worker_of
    from distributed.protocol import serialize

    from distributed import Client
    from lmassay.running.executors import DaskExecutor

    requests = [request for request, _ in requests_and_responses(REQUESTS_PER_BATCH)]
    payload = {"version": "0.1.0", "model": {}, "identity": "", "verb": "generate", "requests": requests}
    network_bytes = 0
    for message in (payload, answer_at_once(payload)):
        _, frames = serialize(message)
        network_bytes += sum(len(frame) for frame in frames)
    with scheduler_on("127.0.0.1", folder) as address, worker_of(address, folder):
        wait_for_workers(address, 1)
        executor = DaskExecutor(address)
        with Client(address) as client:
            running: RunningJobs[int] = RunningJobs(executor, answer_at_once)
            run_batches(running, payload, batches // 10)
            scheduler_before = client.run_on_scheduler(time.process_time)
            meter = Meter()
            run_batches(running, payload, batches)
            client_us, _, _ = meter.per(batches)
            scheduler_seconds = client.run_on_scheduler(time.process_time) - scheduler_before
        executor.close()
    return {
        "scheduler_batch_us": 1e6 * scheduler_seconds / batches,
        "client_batch_us": client_us,
        "network_bytes": network_bytes / len(requests),
    }


def run_batches(running: RunningJobs[int], payload: dict[str, Any], batches: int) -> None:
    """Let the cluster answer the same batch again and again; as many are on their way as if it had many workers."""
    submitted = 0
    while submitted < batches or len(running):
        while submitted < batches and len(running) < BATCHES_ON_THEIR_WAY:
            running.submit(submitted, payload, {})
            submitted += 1
        for _ in running.wait():
            pass


# --- the simulation ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """What the process that runs an evaluation spends, in seconds."""

    storing: float
    """For each request, while workers compute: storing its answer."""
    around: float
    """For each request, while workers wait, before the first and after the last batch of a chunk: keys, looking up
    stored answers, scoring, rows."""
    batch: float = 0.0
    """For each batch, while workers compute: sending it and receiving its answers."""

    def per_request(self, batch_size: float) -> float:
        """Return the seconds for each request; no number of workers can make a run faster than this."""
        return self.storing + self.around + self.batch / batch_size


@dataclass(frozen=True)
class Cluster:
    """Workers, and how the work is cut."""

    workers: int
    seconds: float
    """The mean time a worker takes for a request."""
    chunk: int
    """Requests that are sorted and cut into batches together."""
    smallest: int
    largest: int
    """Requests in a batch."""


@dataclass(frozen=True)
class Simulated:
    """What a simulated run was like."""

    requests_per_second: float
    process_busy: float
    """The share of the time in which the process that stores the answers is busy."""
    workers_busy: float
    """The share of the workers' time in which they compute."""
    waiting: float
    """The mean number of finished batches that wait to be stored."""


def batch_sizes(cluster: Cluster) -> list[int]:
    """Return the sizes of a chunk's batches as ``lmassay.running.batches`` cuts them: smaller towards the end."""
    sizes = []
    remaining = cluster.chunk
    smallest = max(cluster.smallest, cluster.chunk // (16 * cluster.workers))
    while remaining > 0:
        target = min(max(smallest, remaining // (2 * cluster.workers)), cluster.largest)
        size = min(target, remaining)
        sizes.append(size)
        remaining -= size
    return sizes


def mean_batch(cluster: Cluster) -> float:
    """Return how many requests a batch has on average."""
    return cluster.chunk / len(batch_sizes(cluster))


def simulate(cluster: Cluster, costs: Costs, chunks: int, seed: int) -> Simulated:
    """Simulate a run event by event.

    A worker has one batch at a time. When the process gets to a finished batch, it first gives the worker the next one,
    then stores the answers; meanwhile, other finished batches wait, and so do their workers. The time of a request is
    exponentially distributed.
    """
    chance = random.Random(seed)
    clock = 0.0
    computing = 0.0
    waited = 0.0
    for _ in range(chunks):
        clock += costs.around * cluster.chunk
        sizes = batch_sizes(cluster)
        # When each running batch will be finished, and its size.
        running: list[tuple[float, int]] = []

        def start(size: int, at: float, running: list[tuple[float, int]] = running) -> float:
            seconds = chance.gammavariate(size, cluster.seconds)
            heapq.heappush(running, (at + seconds, size))
            return seconds

        sizes.reverse()
        while sizes and len(running) < cluster.workers:
            computing += start(sizes.pop(), clock)
        while running:
            finished, size = heapq.heappop(running)
            begins = max(clock, finished)
            waited += begins - finished
            if sizes:
                computing += start(sizes.pop(), begins)
            clock = begins + costs.batch + costs.storing * size
    requests = chunks * cluster.chunk
    return Simulated(
        requests_per_second=requests / clock,
        process_busy=costs.per_request(mean_batch(cluster)) * requests / clock,
        workers_busy=computing / (cluster.workers * clock),
        waiting=waited / clock,
    )


def costs_from(values: Mapping[str, float]) -> Costs:
    """Return the costs of the simulation from the measured values."""
    storing = 1e-6 * values["answer_us"]
    around = 1e-6 * values["run_us"] - storing
    # Without Dask, the benchmark does not measure what a batch costs.
    return Costs(storing, around, batch=1e-6 * values.get("client_batch_us", 0.0))


def cluster_of(workers: int, seconds: float) -> Cluster:
    """Return a cluster whose work is cut as lmassay does it for requests of about 250 characters."""
    chunk = REQUESTS_PER_EXAMPLE * CHUNK * min(workers, MAX_CHUNK_FACTOR)
    return Cluster(workers, seconds, chunk, smallest=8, largest=256)


def simulation_rows(costs: Costs, seed: int) -> Iterator[tuple[Cluster, Simulated]]:
    """Yield the clusters of the table with what the simulation gives."""
    for seconds in SECONDS_PER_REQUEST:
        for workers in WORKERS:
            cluster = cluster_of(workers, seconds)
            yield cluster, simulate(cluster, costs, SIMULATED_CHUNKS, seed)


def simulation_table(costs: Costs, seed: int) -> list[str]:
    """Return the table of the page, line by line."""
    lines = [
        "| seconds per request | workers | they could answer | answered | process busy | workers busy | waiting |",
        "|---|---|---|---|---|---|---|",
    ]
    for cluster, simulated in simulation_rows(costs, seed):
        offered = cluster.workers / cluster.seconds
        cells = (
            f"{cluster.seconds:g}",
            f"{cluster.workers:,}",
            f"{offered:,.0f}",
            f"{simulated.requests_per_second:,.0f}",
            f"{100 * simulated.process_busy:.0f} %",
            f"{100 * simulated.workers_busy:.0f} %",
            f"{simulated.waiting:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def shards_table(costs: Costs, seed: int) -> list[str]:
    """Return the table of several processes that share the workers, each with its own results folder."""
    lines = [
        "| processes | workers per process | requests per second in total | process busy | workers busy "
        "| days for 10^9 requests |",
        "|---|---|---|---|---|---|",
    ]
    for processes in PROCESSES:
        workers = max(WORKERS) // processes
        simulated = simulate(cluster_of(workers, SECONDS_OF_SHARDS), costs, SIMULATED_CHUNKS, seed)
        answered = processes * simulated.requests_per_second
        cells = (
            f"{processes:,}",
            f"{workers:,}",
            f"{answered:,.0f}",
            f"{100 * simulated.process_busy:.0f} %",
            f"{100 * simulated.workers_busy:.0f} %",
            f"{1e9 / answered / SECONDS_PER_DAY:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def contradictions(costs: Costs, seed: int) -> list[str]:
    """Return where the simulation differs from what must be true in its two limits."""
    problems = []
    # One worker that waits for nothing but the process: the times add up.
    slow = Cluster(workers=1, seconds=1.0, chunk=2048, smallest=8, largest=256)
    expected = 1 / (slow.seconds + costs.around)
    alone = simulate(slow, costs, 4, seed).requests_per_second
    if abs(alone / expected - 1) > TOLERANCE:
        problems.append(f"one worker answers {alone:.3f} requests per second instead of {expected:.3f}")
    # With this many workers, the process is always busy.
    fast = Cluster(workers=500, seconds=costs.around, chunk=65_536, smallest=8, largest=256)
    limit = 1 / costs.per_request(mean_batch(fast))
    most = simulate(fast, costs, 4, seed).requests_per_second
    if abs(most / limit - 1) > TOLERANCE:
        problems.append(f"too many workers get {most:,.0f} answers per second stored instead of {limit:,.0f}")
    return problems


# --- the command ------------------------------------------------------------------------------------------------------


def read_values(file: Path) -> Values:
    """Read what ``-o`` wrote."""
    values: Values = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, value = line.split("\t")
            values[name] = float(value)
    return values


def write_values(file: Path, values: Mapping[str, float], command: Sequence[str]) -> None:
    lines = [f"# python benchmarks/writer.py {' '.join(command)}".rstrip()]
    for name, value in values.items():
        lines.append(f"{name}\t{value:.1f}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def missed_targets(values: Mapping[str, float]) -> list[str]:
    problems = []
    answers_per_second = 1e6 / values["answer_us"]
    print(f"answers per CPU second: {answers_per_second:,.0f} (at least {MIN_ANSWERS_PER_SECOND:,})")
    if answers_per_second < MIN_ANSWERS_PER_SECOND:
        problems.append("answers per CPU second")
    gain = values["row_us"] / values["batch_row_us"]
    print(f"examples in batches, times as fast as single rows: {gain:.1f} (at least {MIN_GAIN_OF_BATCHES})")
    if gain < MIN_GAIN_OF_BATCHES:
        problems.append("gain of batches")
    return problems


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the simulation (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="measure less; the numbers are rough")
    parser.add_argument("--simulate", type=Path, metavar="FILE", help="do not measure, read the values from here")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the measured values here")
    options = parser.parse_args(argv)
    problems: list[str] = []
    if options.simulate is not None:
        values = read_values(options.simulate)
    else:
        values = measure(QUICK if options.quick else FULL)
        for name, value in values.items():
            print(f"{name:<24}{value:>12,.1f}")
        problems += missed_targets(values)
        if options.output is not None:
            write_values(options.output, values, ["--quick"] if options.quick else [])
    costs = costs_from(values)
    limit = 1 / costs.per_request(REQUESTS_PER_BATCH)
    print(f"at most {limit:,.0f} requests per second with {REQUESTS_PER_BATCH} requests per batch")
    print("\n".join(simulation_table(costs, options.seed)))
    print(f"{max(WORKERS):,} workers, {SECONDS_OF_SHARDS:g} seconds per request, several processes:")
    print("\n".join(shards_table(costs, options.seed)))
    problems += contradictions(costs, options.seed)
    if problems:
        print(f"missed: {'; '.join(problems)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
