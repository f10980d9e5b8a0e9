"""Runs of two sweeps find their counterparts, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmassay.statistics.run_pairs import pair_sweeps, sweep_of
from lmassay.storage.store import Store
from tests.compare_kit import add, rates


def sweeps(folder, base, new):
    """Two sweeps of runs with (label, model, signature)."""
    for name, runs in (("base", base), ("new", new)):
        for number, (label, model, signature) in enumerate(runs):
            run = f"{name}-{number}"
            add(folder, run, rates([1]), task="robustness", label=label, model=model, signature=signature, sweep=name)
    with Store(folder) as store:
        return [sweep_of(store, store.run(f"{name}-0")) for name in ("base", "new")]


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        # By label and model, whatever the order.
        ([("a", "m", {}), ("b", "m", {})], [("b", "m", {}), ("a", "m", {})], ["0-1", "1-0"]),
        # Another model with the same label.
        ([("a", "m", {}), ("b", "m", {})], [("a", "n", {}), ("b", "n", {})], ["0-0", "1-1"]),
        # Runs that differ in a setting only.
        ([("a", "m", {"k": 1}), ("a", "m", {"k": 2})], [("a", "n", {"k": 2}), ("a", "n", {"k": 1})], ["0-1", "1-0"]),
        # Two models with one label: nobody can tell which is which.
        ([("a", "m", {}), ("a", "n", {})], [("a", "x", {}), ("a", "y", {})], []),
        # What is left over of two with one label is not the same as what is left over on the other side.
        ([("a", "m", {"k": 1}), ("a", "m", {"k": 9})], [("a", "m", {"k": 1}), ("a", "m", {"k": 2})], ["0-0"]),
        # Runs with the same label but another attack are not paired. Another prompt is allowed; a warning reports it.
        ([("a", "m", {"attack": "a(0.3)"})], [("a", "m", {"attack": "a(0.9)"})], []),
        ([("a", "m", {"prompt": "x"}), ("b", "m", {})], [("a", "m", {"prompt": "y"}), ("b", "m", {})], ["0-0", "1-1"]),
        # A run of another version of lmassay is still the same run, even if it labels an attack differently.
        (
            [("a", "m", {"k": 1, "lmassay": "1"}), ("a", "m", {"k": 2, "lmassay": "1"})],
            [("a", "m", {"k": 2, "lmassay": "2"}), ("a", "m", {"k": 1, "lmassay": "2"})],
            ["0-1", "1-0"],
        ),
        (
            [("a", "m", {"attack": "a(0.1)"}), ("a", "m", {"attack": "a(0.2)"})],
            [("a, rate 0.1", "m", {"attack": "a(0.1)"}), ("a, rate 0.2", "n", {"attack": "a(0.2)"})],
            ["0-0", "1-1"],
        ),
        # An attack is recognised by what it does, whatever its label, even if something else has changed.
        (
            [("a", "m", {"attack": "a(0.1)", "k": 1}), ("b", "m", {"attack": "b", "k": 1})],
            [("mine", "m", {"attack": "a(0.1)", "k": 2}), ("b", "m", {"attack": "b", "k": 2})],
            ["0-0", "1-1"],
        ),
        # One is left over on either side.
        ([("a", "m", {}), ("b", "m", {})], [("a", "m", {}), ("c", "m", {})], ["0-0"]),
    ],
)
def test_each_run_is_paired_with_the_only_one_that_does_the_same(tmp_path, base, new, expected):
    paired = pair_sweeps(*sweeps(tmp_path, base, new))
    assert [f"{a.id[-1]}-{b.id[-1]}" for a, b in paired.pairs] == expected
    assert len(paired.only_base) == len(base) - len(expected)
    assert len(paired.only_new) == len(new) - len(expected)


def with_base(run, base):
    """A run as new versions store it: with the label that it would have outside a sweep."""
    return replace(run, provenance=replace(run.provenance, base_label=base))


def test_a_run_alone_is_paired_with_the_same_one_of_a_sweep(tmp_path):
    base, new = sweeps(
        tmp_path,
        [("q", "m", {"max_tokens": 5})],
        [("q, max_tokens=5", "m", {"max_tokens": 5}), ("q, max_tokens=6", "m", {"max_tokens": 6})],
    )
    new = [with_base(run, "q") for run in new]
    for before in (base, [with_base(run, "q") for run in base]):
        assert [(a.id, b.id) for a, b in pair_sweeps(before, new).pairs] == [("base-0", "new-0")]
        assert [(a.id, b.id) for a, b in pair_sweeps(new, before).pairs] == [("new-0", "base-0")]


def test_a_sweep_over_options_of_a_model_is_paired_with_one_of_them(tmp_path):
    base, new = sweeps(
        tmp_path,
        [("q", "m (pll=a)", {"model": "m(a)"}), ("q", "m (pll=b)", {"model": "m(b)"})],
        [("q", "m", {"model": "m(b)"})],
    )
    assert [(a.id, b.id) for a, b in pair_sweeps(base, new).pairs] == [("base-1", "new-0")]


def test_runs_whose_data_have_changed_are_paired_by_the_options_in_their_labels(tmp_path):
    scorers = ("chrf", "bleu")
    base, new = sweeps(
        tmp_path,
        [(f"a, s_src={name}", "m", {"attack": "a", "s_src": name, "src": "old"}) for name in scorers],
        [(f"a, s_src={name}", "m", {"attack": "a", "s_src": name, "src": "new"}) for name in reversed(scorers)],
    )
    base, new = ([with_base(run, "a") for run in runs] for runs in (base, new))
    assert [(a.id, b.id) for a, b in pair_sweeps(base, new).pairs] == [("base-0", "new-1"), ("base-1", "new-0")]


def test_a_run_of_an_early_version_is_paired_by_its_options_if_its_label_has_another_form(tmp_path):
    base, new = sweeps(
        tmp_path,
        [("rte pet lr=1", "m", {"method": "x"}), ("rte pet lr=2", "m", {"method": "y"})],
        [("rte pet, lr=2", "m", {"method": "y"}), ("rte pet, lr=1", "m", {"method": "x"})],
    )
    new = [with_base(run, "rte pet") for run in new]
    assert [(a.id, b.id) for a, b in pair_sweeps(base, new).pairs] == [("base-0", "new-1"), ("base-1", "new-0")]


def test_runs_of_another_command_are_not_part_of_a_sweep(tmp_path):
    add(tmp_path, "alone", rates([1]))
    first, second = sweeps(tmp_path, [("a", "m", {})], [("a", "m", {}), ("b", "m", {})])
    assert [run.id for run in first] == ["base-0"]
    assert [run.id for run in second] == ["new-0", "new-1"]
