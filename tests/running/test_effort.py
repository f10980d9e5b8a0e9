"""Estimates of how long a computation takes."""

from __future__ import annotations

import pytest

from lmassay.contracts import Work
from lmassay.running.effort import GPU_OPERATIONS, effort, measured_cpu_operations


def test_training_takes_three_times_as_long_as_reading():
    assert Work(1e9, read_tokens=3e6).operations == Work(1e9, trained_tokens=1e6).operations


def test_hours_follow_from_operations_per_second():
    work = Work(0.5, read_tokens=7200e12)
    assert effort(work, cpu_operations=1e12).cpu_hours == pytest.approx(2)
    assert effort(work, cpu_operations=1e12).gpu_hours == pytest.approx(7200e12 / GPU_OPERATIONS / 3600)


def test_the_speed_of_the_machine_is_measured():
    """Any machine that runs these tests multiplies matrices at more than 0.1 and less than 100,000 GFLOP/s."""
    assert 1e8 < measured_cpu_operations() < 1e14
