"""AdamW in two manners, its groups and its schedule."""

from __future__ import annotations

import math

import pytest


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global torch, linear, make_optimiser, set_rate
    import torch

    from lmassay.evaluations.fewshot.methods.optimiser import linear, make_optimiser, set_rate


def parameter(*values: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(values))


def test_the_older_manner_decays_after_the_update_and_adds_eps_before_the_correction() -> None:
    weight, gradients = parameter(1.0, -2.0), ([0.5, 0.1], [-0.2, 0.4])
    optimiser = make_optimiser("hf_adamw", [("w", weight, None)], 0.1, 0.01, 1e-2)
    mean, square, value = [0.0, 0.0], [0.0, 0.0], [1.0, -2.0]
    for step, gradient in enumerate(gradients, start=1):
        weight.grad = torch.tensor(gradient)
        optimiser.step()
        for place, g in enumerate(gradient):
            mean[place] = 0.9 * mean[place] + 0.1 * g
            square[place] = 0.999 * square[place] + 0.001 * g * g
            size = 0.1 * math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            value[place] -= size * mean[place] / (math.sqrt(square[place]) + 1e-2)
            value[place] -= 0.1 * 0.01 * value[place]
    assert weight.detach().tolist() == pytest.approx(value, abs=1e-6)


def test_torchs_own_is_the_other_manner() -> None:
    ours, theirs = parameter(1.0, -2.0), parameter(1.0, -2.0)
    optimiser = make_optimiser("adamw", [("w", ours, None)], 0.1, 0.01, 1e-8)
    other = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.01)
    for weight, chosen in ((ours, optimiser), (theirs, other)):
        weight.grad = torch.tensor([0.5, 0.1])
        chosen.step()
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", ["adamw", "hf_adamw"])
def test_parameters_without_gradient_stay(kind: str) -> None:
    used, unused = parameter(1.0), parameter(2.0)
    optimiser = make_optimiser(kind, [("a", used, None), ("b", unused, None)], 0.1, 0.5, 1e-8)  # type: ignore[arg-type]
    used.grad = torch.tensor([1.0])
    optimiser.step()
    assert unused.item() == 2.0
    assert used.item() < 1.0


def test_biases_layer_norms_and_what_has_a_rate_of_its_own_are_not_decayed() -> None:
    names = ["encoder.dense.weight", "encoder.dense.bias", "encoder.LayerNorm.weight", "lm_head.layer_norm.weight"]
    optimised = [(name, parameter(1.0), None) for name in names] + [("prompt.weight", parameter(1.0), 0.5)]
    groups = make_optimiser("hf_adamw", optimised, 0.1, 0.01, 1e-8).param_groups
    assert [(len(g["params"]), g["lr"], g["weight_decay"]) for g in groups] == [
        (2, 0.1, 0.01),
        (2, 0.1, 0.0),
        (1, 0.5, 0.0),
    ]


def test_the_schedule_scales_every_group_by_its_own_rate() -> None:
    optimised = [("a", parameter(1.0), None), ("prompt", parameter(1.0), 0.5)]
    optimiser = make_optimiser("adamw", optimised, 0.1, 0.0, 1e-8)
    set_rate(optimiser, 0.5)
    set_rate(optimiser, 0.2)
    assert [group["lr"] for group in optimiser.param_groups] == pytest.approx([0.02, 0.1])


def test_a_warmup_may_begin_above_zero() -> None:
    assert [linear(update, 4, 2, from_zero=False) for update in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1 / 2])


def test_the_schedule_never_falls_below_zero() -> None:
    assert [linear(update, 3, 0) for update in range(5)] == pytest.approx([1, 2 / 3, 1 / 3, 0, 0])
