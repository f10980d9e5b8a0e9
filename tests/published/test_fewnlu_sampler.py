"""The order in which FewNLU draws its training examples."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.published.fewnlu_gold import gold


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global epochs
    from lmassay.evaluations.fewshot.methods.engine import epochs


@pytest.mark.parametrize("seed", ["10", "42"])
def test_three_epochs_come_in_the_published_order(seed: str) -> None:
    assert list(islice(epochs(16, int(seed)), 3)) == gold("sampler")[seed]
