"""A long run through a server that misbehaves, with two kills and a full disk: ``make soak``.

The command under test is started as a process, killed twice with SIGKILL, stopped once by a disk that is really full,
and resumed until nothing is left to do. Its rows and results must then equal those of a run without faults. What was
paid for may be requested again only if it was on its way when the process died.

    python -m tests.faults.soak --requests 100000 --seed 1

Exits with 0 if all checks pass, otherwise with 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import IO

import numpy as np
import psutil

from lmassay.storage.store import STORE_FILE, Store
from lmassay.types import RunRecord
from tests.faults.chaos import FAULTS, Behaviour, ChaosServer, chaos_server
from tests.helpers import write_config, write_lines

# Two per sentence, except for the few sentences that the perturbation leaves as they are.
REQUESTS_PER_SENTENCE = 1.88
TIMEOUT = 5.0
"""Seconds until a request that hangs is given up."""
MOST_RESUMES = 8
"""Permanent errors of single requests are sent again by ``lmassay resume``; each time 5 % of them fail again."""
MEGABYTE = 1 << 20
SAMPLES_PER_SECOND = 4
_SECONDS_BETWEEN_WATCHES = 0.01
# Requests after which memory is watched. Examples are processed in chunks of 8,192, and memory grows until the end of
# the first one, when its answers are stored and let go.
WARM_UP = 20_000
# MB per 100,000 requests after the start, and the requests that a process must have made for a slope to mean something.
LARGEST_GROWTH = 32.0
FEWEST_REQUESTS = 50_000
# MB between two samples. What the process has loaded since the sample before is reported with such a jump.
JUMP = 16.0
# The compiler for scoring takes 120 MB. By default it is loaded when 50,000 pairs have been scored, in the middle of a
# soak; with this variable, with the first pairs, before memory is watched.
ENVIRONMENT = {"LMASSAY_ENGINE": "numba"} if importlib.util.find_spec("numba") else {}
# With fewer requests, a run may be over before the disk is filled while it runs.
FEWEST_TO_WATCH = 5_000
FEWEST_SAMPLES = 5


@dataclass(frozen=True)
class Options:
    """What to do; the same options make the same faults."""

    requests: int = 100_000
    concurrency: int = 64
    rate: float = 0.05
    seed: int = 1
    kills: int = 2
    kinds: int = len(FAULTS)
    """How many kinds of faults are used, from the first."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the command; loading the compiler takes longer than a short soak, and nothing is gained."""
        return ENVIRONMENT if self.requests >= FEWEST_REQUESTS else {}

    @property
    def examples(self) -> int:
        """How many sentences are needed for this many different requests."""
        return math.ceil(self.requests / REQUESTS_PER_SENTENCE)


# --- a disk that can be full ------------------------------------------------------------------------------------------


class Disk:
    """A folder whose disk can run out of space, by mounting a small file system, or else by a limit on file sizes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.is_mounted = self._mount("size=4g")
        self.largest_file: int | None = None

    @property
    def kind(self) -> str:
        return "tmpfs, ENOSPC" if self.is_mounted else "RLIMIT_FSIZE, EFBIG"

    def _mount(self, options: str) -> bool:
        program = shutil.which("mount")
        if program is None:
            return False
        command = [program, "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def fill(self, room: int) -> None:
        """Leave room for this many more bytes. Without a mounted disk, this holds for processes started from now on."""
        if self.is_mounted:
            usage = shutil.disk_usage(self.folder)
            self._mount(f"remount,size={usage.used + room}")
        else:
            self.largest_file = (self.folder / "results" / STORE_FILE).stat().st_size + room

    def free(self) -> None:
        """Make room again."""
        self.largest_file = None
        if self.is_mounted:
            self._mount("remount,size=4g")

    def limit_process(self) -> None:
        """Called in the new process before the command starts."""
        if self.largest_file is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (self.largest_file, self.largest_file))

    def close(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", str(self.folder)], check=True)


# --- the command under test -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Jump:
    """A sudden growth of memory."""

    requests: int
    megabytes: float
    libraries: Sequence[str]
    """The shared libraries that were loaded at the same time, the largest first."""

    def __str__(self) -> str:
        loaded = (
            f"{len(self.libraries)} libraries loaded, the largest is {self.libraries[0]}"
            if self.libraries
            else "no library"
        )
        return f"{self.megabytes:+.0f} MB at {self.requests:,} requests ({loaded})"


@dataclass
class Segment:
    """One process from its start to its end: how it ended, and its memory over the requests that it made."""

    command: str
    exit_code: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    requests: int = 0
    stderr: str = ""
    samples: list[tuple[int, float]] = field(default_factory=list)
    """Requests so far, and resident memory in MB."""
    jumps: list[Jump] = field(default_factory=list)
    _loaded: set[str] = field(default_factory=set)

    @property
    def peak(self) -> float:
        """The largest memory in MB, also after the last request, when results are computed."""
        return max((memory for _, memory in self.samples), default=0.0)

    def growth(self) -> float | None:
        """MB per 100,000 requests after the start: the slope of a line; None if the process made too few requests."""
        if self.requests < FEWEST_REQUESTS:
            return None
        after_start = [sample for sample in self.samples if WARM_UP < sample[0] < self.requests]
        if len(after_start) < FEWEST_SAMPLES:
            return None
        requests, memory = np.array(after_start).T
        return float(np.polyfit(requests, memory, 1)[0]) * 100_000

    def add_sample(self, requests: int, process: psutil.Process) -> None:
        """Record the memory of the process, and what it has loaded if its memory has jumped."""
        memory = process.memory_info().rss / MEGABYTE
        growth = memory - (self.samples[-1][1] if self.samples else 0.0)
        self.samples.append((requests, memory))
        if growth < JUMP:
            return
        sizes = {Path(region.path).name: region.rss for region in process.memory_maps() if ".so" in region.path}
        largest_first = sorted(sizes.keys() - self._loaded, key=lambda name: -sizes[name])
        self.jumps.append(Jump(requests, growth, largest_first))
        self._loaded = set(sizes)


def run_process(
    arguments: Sequence[object],
    server: ChaosServer,
    output: IO[bytes],
    environment: Mapping[str, str],
    prepare: Callable[[], None] | None = None,
    watch: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> Segment:
    """Run the command to its end, or until ``watch``, which is called a hundred times per second, ends it."""
    segment = Segment(str(arguments[0]))
    before = server.requests
    start = time.perf_counter()
    output.seek(0)
    output.truncate()
    process = subprocess.Popen(
        [sys.executable, "-m", "lmassay", *map(str, arguments)],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=output,
        # Between fork and exec, no thread of this process runs.
        preexec_fn=prepare,
    )
    try:
        measured = psutil.Process(process.pid)
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):
                segment.add_sample(server.requests - before, measured)
                times = measured.cpu_times()
                segment.cpu_seconds = times.user + times.system
            next_sample = time.perf_counter() + 1 / SAMPLES_PER_SECOND
            while process.poll() is None and time.perf_counter() < next_sample:
                # Often, because a fast machine answers all requests of a short run within one sample.
                if watch is not None:
                    watch(process)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_BETWEEN_WATCHES)
    finally:
        process.kill()
        process.wait()
    segment.exit_code = process.returncode
    segment.seconds = time.perf_counter() - start
    segment.requests = server.requests - before
    output.seek(0)
    segment.stderr = output.read().decode("utf-8", "replace")
    return segment


def write_task(folder: Path, url: str, options: Options) -> Path:
    """A configuration that needs this many different requests."""
    folder.mkdir()
    rng = random.Random(options.seed)
    words = ["river", "lamp", "copper", "window", "seven", "garden", "morning", "letter", "table", "winter"]
    sentences = []
    for number in range(options.examples):
        sentences.append(f"{number} " + " ".join(rng.choices(words, k=6)))
    write_lines(folder / "src.txt", sentences)
    write_lines(folder / "ref.txt", [sentence.upper() for sentence in sentences])
    task = {"name": "robustness", "src": "src.txt", "ref": "ref.txt", "attack": "charswap"}
    model = {"name": "openai", "base_url": url, "model": "m", "concurrency": options.concurrency}
    model |= {"wait": 0.05, "tries": 6, "timeout": TIMEOUT}
    return write_config(folder / "config.yaml", {"task": task, "model": model, "resamples": 200, "seed": options.seed})


# --- the two runs -----------------------------------------------------------------------------------------------------


class Soak:
    """One soak: a run without faults, a run with all of them, and the comparison."""

    def __init__(self, folder: Path, options: Options, report: Callable[[str], None]) -> None:
        self._folder = folder
        self._options = options
        self._report = report
        self._rng = random.Random(f"soak {options.seed}")
        self.needed = 0
        """Requests of the run without faults."""
        self.problems: list[str] = []

    def check(self, passed: bool, text: str) -> None:
        """Report a condition, and remember it if it does not hold."""
        self._report(f"  {'ok  ' if passed else 'FAIL'}  {text}")
        if not passed:
            self.problems.append(text)

    def run(self) -> None:
        options = self._options
        self._report(
            f"soak: {options.requests:,} requests, {options.concurrency} at a time, {options.rate:.0%} faults of "
            f"{options.kinds} kinds, {options.kills} kills, one full disk, seed {options.seed}"
        )
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(tempfile.TemporaryFile())
            disk = Disk(self._folder / "disk")
            stack.callback(disk.close)
            reference, reference_segment = self._run_without_faults(output)
            server, segments = self._run_with_faults(disk, output)
            self.needed = reference_segment.requests
            self._report("checks")
            self._check_requests(server, segments)
            self._check_rows(reference, disk.folder / "results")
            self._check_memory([reference_segment, *segments])

    def _behaviour(self, rate: float) -> Behaviour:
        kinds = dict(list(FAULTS.items())[: self._options.kinds])
        return Behaviour(seed=self._options.seed, rate=rate, faults=kinds)

    def _run_without_faults(self, output: IO[bytes]) -> tuple[Path, Segment]:
        results = self._folder / "whole"
        with chaos_server(self._behaviour(rate=0.0)) as server:
            file = write_task(self._folder / "without", server.url, self._options)
            segment = run_process(["run", file, "--results", results], server, output, self._options.environment)
            self._report_segment(segment, "without faults")
        self.check(segment.exit_code == 0, f"the run without faults exits with 0 {_last_line(segment)}")
        self.check(server.answered_twice == 0, f"{server.answered_twice} requests without faults were sent twice")
        return results, segment

    def _run_with_faults(self, disk: Disk, output: IO[bytes]) -> tuple[ChaosServer, list[Segment]]:
        options = self._options
        results = disk.folder / "results"
        segments: list[Segment] = []
        with chaos_server(self._behaviour(options.rate)) as server:
            file = write_task(self._folder / "with", server.url, options)
            arguments: list[object] = ["run", file, "--results", results]
            resume: list[object] = ["resume", "--results", results]
            for number in range(options.kills):
                # Early, so that the last process, whose memory is measured, makes most of the requests.
                share = (number + self._rng.uniform(0.3, 1)) * 0.1
                segment = run_process(
                    arguments, server, output, options.environment, watch=_Killer(server, int(share * options.requests))
                )
                self._report_segment(segment, f"kill -9 at {share:.0%}")
                self.check(segment.exit_code == -signal.SIGKILL, "the process was killed while it ran")
                segments.append(segment)
                arguments = resume
            segments.append(self._run_until_the_disk_is_full(disk, arguments, server, output))
            while len(segments) < options.kills + 1 + MOST_RESUMES:
                segment = run_process(resume, server, output, options.environment)
                segments.append(segment)
                self._report_segment(segment, "resumed")
                # 1: errors of single requests. 2: the first request of the process met a fault that ends a run.
                if segment.exit_code == 0:
                    break
            self.check(segments[-1].exit_code == 0, f"the last resume exits with 0 {_last_line(segments[-1])}")
        crashed = [segment for segment in segments if "Traceback" in segment.stderr]
        shown = "".join(f"; {_last_line(segment)}" for segment in crashed)
        self.check(not crashed, f"{len(crashed)} of {len(segments)} processes ended in a traceback{shown}")
        return server, segments

    def _run_until_the_disk_is_full(
        self, disk: Disk, arguments: Sequence[object], server: ChaosServer, output: IO[bytes]
    ) -> Segment:
        options = self._options
        # A request takes about 1 kB of the store, and SQLite's log up to 4 MB before it is used again.
        room = int(options.requests * self._rng.uniform(0.05, 0.1)) << 10
        if disk.is_mounted and options.requests < FEWEST_TO_WATCH:
            disk.fill(room)
            segment = run_process(arguments, server, output, options.environment)
        elif disk.is_mounted:
            target = server.requests + int(options.requests * self._rng.uniform(0.02, 0.05))
            watch: Callable[[object], None] = _Filler(disk, room, server, target)
            segment = run_process(arguments, server, output, options.environment, watch=watch)
        else:
            disk.fill(room)
            segment = run_process(arguments, server, output, options.environment, prepare=disk.limit_process)
        disk.free()
        self._report_segment(segment, f"disk full ({disk.kind})")
        messages = [line for line in segment.stderr.splitlines() if "disk is full" in line]
        self.check(segment.exit_code in (1, 2), f"a full disk exits with 1 or 2 {_last_line(segment)}")
        self.check(len(messages) == 1, f"a full disk is reported once: {len(messages)} messages")
        return segment

    def _report_segment(self, segment: Segment, title: str) -> None:
        growth = segment.growth()
        self._report(
            f"  {title:<28} exit {segment.exit_code:>3}  {segment.requests:>8,} requests  {segment.seconds:6.1f} s  "
            f"{segment.cpu_seconds:6.1f} CPU s  peak {segment.peak:6.1f} MB  "
            f"growth {'n/a' if growth is None else f'{growth:+.1f} MB per 100,000 requests'}"
        )
        for jump in segment.jumps:
            if jump.requests:
                self._report(f"    memory: {jump}")

    def _check_requests(self, server: ChaosServer, segments: Sequence[Segment]) -> None:
        options = self._options
        retried = 0
        for name, count in server.faults.items():
            if FAULTS[name].outcome != "answer":
                retried += count
        share = server.requests / self.needed - 1
        self._report(
            f"  {server.requests:,} requests; {self.needed:,} without faults, kills and a full disk ({share:+.2%})"
        )
        self._report(f"  {server.faults.total():,} faults of {len(server.faults)} kinds ({_counts(server)})")
        missing = self.needed - len(server.answered)
        self.check(missing == 0, f"{missing:,} requests were never answered")
        stops = options.kills + 1
        allowed = stops * options.concurrency
        self.check(
            server.answered_twice <= allowed,
            f"{server.answered_twice} answers were requested again; {stops} stops with {options.concurrency} requests "
            f"on their way may cost {allowed}",
        )
        explained = len(server.answered) + server.answered_twice + retried
        self.check(server.requests == explained, f"{server.requests - explained} requests have no explanation")
        unused = set(list(FAULTS)[: options.kinds]) - set(server.faults)
        if options.requests * options.rate > 20 * options.kinds:
            self.check(not unused, f"every kind of fault occurred; missing: {', '.join(sorted(unused)) or 'none'}")

    def _check_rows(self, reference: Path, results: Path) -> None:
        with Store(reference) as expected_store, Store(results) as store:
            expected_run, run = _only_run(expected_store), _only_run(store)
            self.check(run.status == "done", f"the run is {run.status}")
            self.check(run.results == expected_run.results, "the results equal those of the run without faults")
            ids: set[str] = set()
            rows = different = 0
            for expected, row in zip_longest(expected_store.rows(expected_run.id), store.rows(run.id)):
                rows += row is not None
                different += expected != row
                if row is not None:
                    ids.add(row.example.id)
            examples = self._options.examples
            self.check(rows == len(ids) == examples, f"{rows:,} rows with {len(ids):,} ids for {examples:,} examples")
            self.check(different == 0, f"{different} rows differ from the run without faults")
            counts = store.count(run.id)
            self._report(f"  {', '.join(f'{count:,} {state}' for state, count in sorted(counts.items()))}")

    def _check_memory(self, segments: Sequence[Segment]) -> None:
        peak = max(segment.peak for segment in segments)
        longest = max(segments[1:], key=lambda segment: segment.requests)
        growth = longest.growth()
        self._report(f"  peak memory {peak:.1f} MB, without faults {segments[0].peak:.1f} MB")
        if growth is None:
            self._report(f"  growth of memory: n/a, needs a process with {FEWEST_REQUESTS:,} requests")
        else:
            self.check(
                growth <= LARGEST_GROWTH,
                f"memory grows by {growth:+.1f} MB per 100,000 requests over {longest.requests:,} requests; "
                f"{LARGEST_GROWTH:.0f} MB are allowed",
            )


class _Killer:
    """Ends the process without warning when the server has seen enough requests."""

    def __init__(self, server: ChaosServer, target: int) -> None:
        self._server = server
        self._target = target

    def __call__(self, process: subprocess.Popen[bytes]) -> None:
        if self._server.requests >= self._target:
            process.send_signal(signal.SIGKILL)


class _Filler:
    """Fills the disk once, when the server has seen enough requests."""

    def __init__(self, disk: Disk, room: int, server: ChaosServer, target: int) -> None:
        self._disk = disk
        self._room = room
        self._server = server
        self._target = target
        self._is_full = False

    def __call__(self, _: object) -> None:
        if not self._is_full and self._server.requests >= self._target:
            self._disk.fill(self._room)
            self._is_full = True


def _only_run(store: Store) -> RunRecord:
    (run,) = store.runs()
    return run


def _last_line(segment: Segment) -> str:
    if segment.exit_code == 0 and "Traceback" not in segment.stderr:
        return ""
    lines = segment.stderr.strip().splitlines()
    return f"({lines[-1][:200]})" if lines else ""


def _counts(server: ChaosServer) -> str:
    return ", ".join(f"{name} {count}" for name, count in server.faults.most_common())


@contextlib.contextmanager
def _work_folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="lmassay-soak-") as name:
        yield Path(name)


def soak(options: Options, folder: Path, report: Callable[[str], None] = print) -> list[str]:
    """Run a soak in a folder, and return what went wrong."""
    work = Soak(folder, options, report)
    work.run()
    return work.problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run the soak and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument(
        "--requests", type=int, default=Options.requests, help="different requests (default: %(default)s)"
    )
    parser.add_argument("--concurrency", type=int, default=Options.concurrency, help="at a time (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=Options.rate, help="share of faults (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=Options.seed, help="other faults, other moments (default: %(default)s)"
    )
    parser.add_argument("--kills", type=int, default=Options.kills, help="how often to kill (default: %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work in this new folder and keep it")
    chosen = parser.parse_args(arguments)
    options = Options(chosen.requests, chosen.concurrency, chosen.rate, chosen.seed, chosen.kills)
    start = time.perf_counter()
    with _work_folder(chosen.keep) as folder:
        problems = soak(options, folder, lambda line: print(line, flush=True))
    print(f"{len(problems)} problems, {time.perf_counter() - start:.0f} s")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
