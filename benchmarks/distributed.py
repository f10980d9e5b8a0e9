"""Requests to a local model on two Dask workers: speed against one process, and a worker that is killed midway.

    python benchmarks/distributed.py speed [--pairs 80] [--sentences 40]
    python benchmarks/distributed.py hosts [--pairs 80]      three hosts in network namespaces; needs root and iproute2
    python benchmarks/distributed.py                         both

`speed` runs minimal pairs and generation with the embedded model (`lmassay models get smollm2`): in one process with
one thread, in one process with two threads, and on two Dask workers with one thread each. It measures wall time from
the first request to the last result, with the model in memory; the time until then is printed next to it. Two plain
processes that run half of the examples each, at the same time and without Dask, show how much faster two cores of this
machine can be at all. Wall time needs two idle cores: the load is printed, and a ratio that was measured under load
says little. CPU-seconds say more then: two workers that need as many as one process are twice as fast on idle cores.

`hosts` starts a scheduler and two workers in three network namespaces, kills a worker midway, and requires that the
results are complete and equal to those of one process, and that at most one batch was computed twice.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

# This file has the name of the package `distributed`. Without its folder on the path, the package is imported.
_HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]

ROOT = Path(__file__).resolve().parents[1]
SPEEDUP = 1.8
TOLERANCE = 1e-4
SECONDS_TO_START = 120
# Enough for several batches, so that every worker gets one.
WARM_UP_PAIRS = 240
# A load above this before the start means that other programs use the cores.
QUIET_LOAD = 0.7
COUNTING_MODEL = '''
import json, os
from pathlib import Path

from lmassay.models.hf.model import HuggingFace
from lmassay.types import digest, request_as_dict

class Counting(HuggingFace):
    """A local model; every batch that a process begins is a line of a log."""

    def __init__(self, model: str, folder: str):
        super().__init__(model, device="cpu", threads=1)
        self._log = Path(folder) / "batches.log"

    def logprobs(self, requests):
        line = json.dumps([digest([request_as_dict(request) for request in requests])[:12], os.getpid()])
        with self._log.open("a", encoding="utf-8") as log:
            log.write(line + "\\n")
        return super().logprobs(requests)
'''
Values = dict[str, dict[str, float]]


# --- configurations and their results ---------------------------------------------------------------------------------


def write_configs(folder: Path, threads: int, pairs: int, sentences: int) -> list[Path]:
    """Write a configuration of minimal pairs (log-probabilities) and one of robustness (generation)."""
    model = {"name": "smollm2", "threads": threads, "device": "cpu"}
    minimal_pairs = {"task": {"name": "minimal_pairs", "data": "english", "max_per_file": pairs}, "model": model}
    source = ROOT / "src" / "lmassay" / "evaluations" / "robustness" / "sample" / "src.fr"
    robustness = {"name": "robustness", "src": str(source), "attack": "charswap", "max_tokens": 32}
    generation = {"task": robustness, "limit": sentences, "model": model}
    configs = []
    for name, config in (("pairs", minimal_pairs), ("generation", generation)):
        path = folder / f"{name}-{threads}.yaml"
        path.write_text(json.dumps(config), encoding="utf-8")
        configs.append(path)
    return configs


def values_in(results: Path) -> Values:
    """Return the scores of all examples of all runs: task and example → metric → score."""
    from lmassay.storage.store import Store

    values: Values = {}
    with Store(results) as store:
        for record in store.runs():
            if record.status != "done":
                sys.exit(f"{record.id} is {record.status}: {record.note}")
            for row in store.rows(record.id):
                values[f"{record.task}/{row.example.id}"] = dict(row.score.values)
    return values


def are_equal(values: Values, expected: Values) -> bool:
    """Return whether the same examples have the same scores, within the tolerance."""
    if values.keys() != expected.keys():
        return False
    for example, scores in expected.items():
        if scores.keys() != values[example].keys():
            return False
        for metric, score in scores.items():
            if not math.isclose(score, values[example][metric], abs_tol=TOLERANCE):
                return False
    return True


# --- speed ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Times:
    """Seconds of wall time and of CPU by task, and the seconds until the first request."""

    start: float
    wall: dict[str, float]
    cpu: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.wall.values())

    @property
    def total_cpu(self) -> float:
        return sum(self.cpu.values())

    def line(self, name: str) -> str:
        parts = ", ".join(f"{task} {self.wall[task]:.1f} s, {self.cpu[task]:.1f} CPU-seconds" for task in self.wall)
        total = f"{self.total:.1f} s, {self.total_cpu:.1f} CPU-seconds"
        return f"  {name}: {total} ({parts}); start and loading {self.start:.1f} s; load {os.getloadavg()[0]:.1f}"


def time_runs(configs: Sequence[Path], results: Path, scheduler: str, waits: bool) -> None:
    """Run the configurations in this process, and print the times as JSON."""
    started = time.perf_counter()
    from lmassay.running.config import load_runs
    from lmassay.running.executors import DaskExecutor, InProcessExecutor
    from lmassay.running.jobs import Executor
    from lmassay.running.runner import begin, new_sweep, plan, record_waiting_runs
    from lmassay.storage.store import Store

    executor: Executor = DaskExecutor(scheduler) if scheduler else InProcessExecutor()
    plans = [plan(config) for path in configs for config in load_runs(path)]
    # A small run that is not timed loads the model, on all workers.
    warm_up = [plan(config) for config in load_runs(configs[0], limit=WARM_UP_PAIRS)]
    wall: dict[str, float] = {}
    cpu: dict[str, float] = {}
    with Store(results.with_name(f"{results.name}-warm-up"), create=True) as store:
        for planned, record in zip(warm_up, record_waiting_runs(warm_up, store, new_sweep()), strict=True):
            begin(planned, record, store, executor=executor)
    if scheduler:
        require_loaded_models(scheduler)
    start = time.perf_counter() - started
    with Store(results, create=True) as store, cpu_clock(scheduler) as cpu_seconds:
        if waits:
            print("ready", flush=True)
            sys.stdin.readline()
        for planned, record in zip(plans, record_waiting_runs(plans, store, new_sweep()), strict=True):
            began, cpu_before = time.perf_counter(), cpu_seconds()
            begin(planned, record, store, executor=executor)
            wall[record.task] = time.perf_counter() - began
            cpu[record.task] = cpu_seconds() - cpu_before
    executor.close()
    print(json.dumps({"start": start, "wall": wall, "cpu": cpu}))


def require_loaded_models(scheduler: str) -> None:
    """Stop if a worker has no model in memory yet: the time for loading it would be measured, too."""
    from distributed import Client

    with Client(scheduler, set_as_default=False) as client:
        for worker, has_model in client.run(has_kept_model).items():
            if not has_model:
                sys.exit(f"the worker {worker} got no batch of the warm-up, so it would load the model later")


def has_kept_model() -> bool:
    """Return whether this worker has a model in memory."""
    from lmassay.running import worker_model

    return worker_model._kept.model is not None


@contextmanager
def cpu_clock(scheduler: str) -> Iterator[Callable[[], float]]:
    """Yield a function that returns the CPU-seconds of this process and of all workers so far."""
    if not scheduler:
        yield time.process_time
        return
    from distributed import Client

    with Client(scheduler, set_as_default=False) as client:
        yield lambda: time.process_time() + sum(client.run(time.process_time).values())


def timing_command(configs: Sequence[Path], results: Path, *options: str) -> list[str]:
    return [sys.executable, __file__, "--time", *map(str, configs), "--results", str(results), *options]


def timed(name: str, configs: Sequence[Path], results: Path, *options: str) -> Times:
    """Time the runs in a new process, and print what was measured."""
    command = timing_command(configs, results, *options)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    times = Times(**json.loads(done.stdout.splitlines()[-1]))
    print(times.line(name), flush=True)
    return times


def timed_halves(folder: Path, pairs: int, sentences: int) -> Times:
    """Time two plain processes that run half of the examples each; they begin when both have loaded the model."""
    half = folder / "half"
    half.mkdir()
    configs = write_configs(half, 1, pairs // 2, sentences // 2)
    processes = []
    for number in range(2):
        command = timing_command(configs, half / f"results-{number}", "--wait")
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for process in processes:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "ready":
            if process.poll() is not None:
                sys.exit("one of the two plain processes failed")
    outputs = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        output, _ = process.communicate()
        outputs.append(Times(**json.loads(output.splitlines()[-1])))
    slower = max(outputs, key=lambda times: times.total)
    cpu = {task: sum(times.cpu[task] for times in outputs) for task in slower.cpu}
    times = Times(slower.start, slower.wall, cpu)
    print(times.line("two plain processes, half of the examples each"), flush=True)
    return times


def speed(pairs: int, sentences: int) -> bool:
    """Compare two workers with one process."""
    load = os.getloadavg()[0]
    print(f"speed: {os.cpu_count()} cores, load {load:.1f}" + (" (NOT QUIET)" if load > QUIET_LOAD else ""))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        one_thread = write_configs(folder, 1, pairs, sentences)
        one = timed("one process, one thread", one_thread, folder / "one")
        timed("one process, two threads", write_configs(folder, 2, pairs, sentences), folder / "two")
        halves = timed_halves(folder, pairs, sentences)
        with ExitStack() as stack:
            address = stack.enter_context(scheduler_on("127.0.0.1", folder))
            for _ in range(2):
                stack.enter_context(worker_of(address, folder))
            wait_for_workers(address, 2)
            name = "two Dask workers, one thread each"
            distributed = timed(name, one_thread, folder / "dask", "--scheduler", address)
        same = are_equal(values_in(folder / "dask"), values_in(folder / "one"))
    ratio = one.total / distributed.total
    verdict = "met" if ratio >= SPEEDUP else "MISSED"
    print(f"  two plain processes, times as fast as one: {one.total / halves.total:.2f} (what this machine allows)")
    print(f"  two workers, times as fast as one process: {ratio:.2f} (at least {SPEEDUP} wanted: {verdict})")
    print(
        f"  CPU-seconds against one process: two workers {distributed.total_cpu / one.total_cpu:.2f}, two plain "
        f"processes {halves.total_cpu / one.total_cpu:.2f}"
    )
    print(f"  results are the same within {TOLERANCE:g}: {'yes' if same else 'NO'}")
    return ratio >= SPEEDUP and same


# --- scheduler and workers --------------------------------------------------------------------------------------------


@contextmanager
def scheduler_on(host: str, folder: Path, namespace: str = "") -> Iterator[str]:
    """Start a scheduler and yield its address."""
    file = folder / "scheduler.json"
    options = ["--host", host, "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    with process_of("scheduler", options, folder, namespace):
        deadline = time.monotonic() + SECONDS_TO_START
        while not file.exists():
            if time.monotonic() > deadline:
                sys.exit((folder / "dask.log").read_text(encoding="utf-8"))
            time.sleep(0.1)
        yield json.loads(file.read_text(encoding="utf-8"))["address"]


@contextmanager
def worker_of(address: str, folder: Path, namespace: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Start a worker with one thread, in its own process group."""
    options = [address, "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
    with process_of("worker", options, folder, namespace) as process:
        yield process


@contextmanager
def process_of(part: str, options: list[str], folder: Path, namespace: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "dask", part, *options]
    if namespace:
        command = ["ip", "netns", "exec", namespace, *command]
    with (folder / "dask.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, start_new_session=True
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    with Client(address, timeout=SECONDS_TO_START) as client:
        client.wait_for_workers(count, timeout=SECONDS_TO_START)


# --- three hosts ------------------------------------------------------------------------------------------------------


@contextmanager
def three_hosts() -> Iterator[list[tuple[str, str]]]:
    """Connect three network namespaces by a bridge, and yield their names and addresses."""
    prefix = f"lma{os.getpid()}"
    bridge = f"br{os.getpid()}"
    hosts = [(f"{prefix}-{number}", f"10.213.7.{number}") for number in (1, 2, 3)]
    ip("link", "add", bridge, "type", "bridge")
    try:
        ip("link", "set", bridge, "up")
        for number, (namespace, address) in enumerate(hosts):
            ip("netns", "add", namespace)
            outer, inner = f"v{os.getpid()}o{number}", f"v{os.getpid()}i{number}"
            ip("link", "add", outer, "type", "veth", "peer", "name", inner)
            ip("link", "set", outer, "master", bridge, "up")
            ip("link", "set", inner, "netns", namespace)
            ip("-n", namespace, "addr", "add", f"{address}/24", "dev", inner)
            ip("-n", namespace, "link", "set", inner, "up")
            ip("-n", namespace, "link", "set", "lo", "up")
        yield hosts
    finally:
        for namespace, _ in hosts:
            subprocess.run(["ip", "netns", "del", namespace], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", bridge], check=False, stderr=subprocess.DEVNULL)


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def hosts(pairs: int, model: str) -> bool:
    """Kill one of two workers on other hosts midway."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("hosts: skipped; it needs root and the command ip (apt install iproute2)")
        return True
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        (folder / "model.py").write_text(COUNTING_MODEL, encoding="utf-8")
        log = folder / "batches.log"
        config = {
            "task": {"name": "minimal_pairs", "data": "english", "max_per_file": pairs},
            "model": {"name": "model.py:Counting", "model": model, "folder": str(folder)},
        }
        (folder / "run.yaml").write_text(json.dumps(config), encoding="utf-8")
        run_command = [sys.executable, "-m", "lmassay", "run", str(folder / "run.yaml"), "--results"]
        alone = subprocess.run([*run_command, str(folder / "alone")], capture_output=True, text=True, check=False)
        if alone.returncode:
            sys.exit(alone.stderr)
        log.unlink()
        (scheduler, address), *worker_hosts = stack.enter_context(three_hosts())
        tcp_address = stack.enter_context(scheduler_on(address, folder, scheduler))
        workers = []
        for namespace, _ in worker_hosts:
            workers.append(stack.enter_context(worker_of(tcp_address, folder, namespace)))
        client = subprocess.Popen(
            ["ip", "netns", "exec", scheduler, *run_command, str(folder / "hosts"), "--scheduler", tcp_address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        killed_after = kill_midway(client, workers[0], log)
        _, errors = client.communicate()
        batches = [json.loads(line)[0] for line in log.read_text(encoding="utf-8").splitlines()]
        if client.returncode:
            sys.exit(errors)
        same = are_equal(values_in(folder / "hosts"), values_in(folder / "alone"))
    repeated = sum(count - 1 for count in Counter(batches).values())
    print(f"hosts: a worker was killed after {killed_after} of {len(set(batches))} batches")
    print(f"  complete, and the same as in one process within {TOLERANCE:g}: {'yes' if same else 'NO'}")
    print(f"  batches computed twice: {repeated} (at most 1 wanted: {'met' if repeated <= 1 else 'MISSED'})")
    return same and repeated <= 1


def kill_midway(client: subprocess.Popen[str], worker: subprocess.Popen[bytes], log: Path) -> int:
    """Kill a worker when it has begun its second batch; return how many batches had begun by then."""
    while client.poll() is None:
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        begun_by_worker = sum(json.loads(line)[1] in descendants(worker.pid) for line in lines)
        if begun_by_worker >= 2:
            stop(worker)
            return len(lines)
        time.sleep(0.05)
    sys.exit(f"the run ended before a worker could be killed; use more --pairs\n{client.communicate()[1]}")


def descendants(pid: int) -> set[int]:
    """Return the ids of a process and of all processes that it started, directly or indirectly."""
    pids = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text(encoding="ascii").split():
            pids |= descendants(int(child))
    return pids


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("speed", "hosts"), help="only this part")
    parser.add_argument(
        "--pairs",
        type=int,
        default=80,
        help="of each construction; hosts uses a quarter of them (default: %(default)s)",
    )
    parser.add_argument("--sentences", type=int, default=40, help="to generate from (default: %(default)s)")
    parser.add_argument("--model", default="smollm2", help="of the part hosts (default: %(default)s)")
    parser.add_argument("--time", nargs="+", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--scheduler", default="", help=argparse.SUPPRESS)
    parser.add_argument("--wait", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.time:
        time_runs(options.time, options.results, options.scheduler, options.wait)
        return 0
    met = []
    if options.part != "hosts":
        met.append(speed(options.pairs, options.sentences))
    if options.part != "speed":
        # A quarter, so that the whole benchmark takes less than four minutes.
        met.append(hosts(max(1, options.pairs // 4), options.model))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
