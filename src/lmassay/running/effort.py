"""Estimates how long a computation will take before it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from lmassay.contracts import Work

# An A100 computes 19.5 · 10¹² operations per second in float32, and transformers reach about 40 % of that.
GPU_NAME = "A100 GPU in float32"
GPU_OPERATIONS = 8e12
# Transformers reach about half the speed of a large matrix product on a CPU.
_CPU_SHARE = 0.5
_WIDTH = 1024
_REPETITIONS = 5
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Effort:
    """Hours on this machine's CPU and on one GPU."""

    cpu_hours: float
    gpu_hours: float


def measured_cpu_operations() -> float:
    """How many floating-point operations per second transformers should reach on this machine's CPU.

    It is half the speed of a matrix product in float32, the fastest of a few that are timed now.
    """
    matrix = np.ones((_WIDTH, _WIDTH), dtype=np.float32)
    shortest = float("inf")
    for _ in range(_REPETITIONS):
        start = time.perf_counter()
        matrix @ matrix
        shortest = min(shortest, time.perf_counter() - start)
    # A product of two n × n matrices takes n³ multiplications and n³ additions.
    return _CPU_SHARE * 2 * _WIDTH**3 / shortest


def effort(work: Work, cpu_operations: float) -> Effort:
    """How long the work takes on a CPU of this speed, and on a GPU."""
    return Effort(work.operations / cpu_operations / _HOUR, work.operations / GPU_OPERATIONS / _HOUR)
