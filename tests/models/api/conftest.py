"""Servers here are busy for moments, not for minutes."""

from __future__ import annotations

import pytest

from lmassay.models.api import concurrency


@pytest.fixture(autouse=True)
def impatience(monkeypatch):
    monkeypatch.setattr(concurrency, "BUSY_PATIENCE", 0.0)
    monkeypatch.setattr(concurrency, "MAX_BUSY_PATIENCE", 5.0)
