"""Which training belongs into which folder."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from lmassay.evaluations.fewshot.fewnlu.files import FewNluSummary, final_line, result_lines
from lmassay.evaluations.fewshot.fewnlu.trainings import FolderKey, rounds
from lmassay.evaluations.fewshot.protocol.regimes import Regime
from lmassay.evaluations.fewshot.task import FewShot, Splits


@pytest.fixture
def task(tmp_path):
    rows = [
        {"premise": f"p{i}", "hypothesis": "h", "idx": i, "label": ["entailment", "not_entailment"][i % 2]}
        for i in range(8)
    ]
    for name in ("train", "val", "unlabeled"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(seeds=(1, 2), **regime):
        return FewShot(
            "superglue/rte",
            "majority",
            data_dir=tmp_path,
            labelled=["train"],
            splits=Splits(k=2),
            regime=Regime(repetitions=2, **regime),
            sampler_seeds=list(seeds),
        )

    return make


@pytest.mark.parametrize("cross", [False, True])
def test_every_generation_has_every_seat_and_learned_from_the_one_before(task, cross):
    stages = rounds(task(name="ipet", generations=3, cross=cross), "ipet", [0], 2)
    assert [one.folder for one in stages] == ["g0", "g1", "g2"]
    seats = {FolderKey(0, fold, repetition) for fold in (0, 1) for repetition in (0, 1)}
    for before, after in pairwise(stages):
        assert set(before.trainings) == set(after.trainings) == seats
        for seat, (training,) in after.trainings.items():
            others = {s for s in seats if s != seat and (cross or s.fold == seat.fold)}
            assert {teacher.key for teacher in training.after} == {before.trainings[s][0].key for s in others}
            assert training.spec["train"] == before.trainings[seat][0].spec["train"]
            assert training.spec["sampler_seed"] == before.trainings[seat][0].spec["sampler_seed"]


def test_repetitions_in_the_same_order_are_distinguished_by_their_places(task):
    first, second, third = rounds(task((5, 5), name="ipet", generations=3), "ipet", [0], 2)
    assert first.trainings[FolderKey(0, 0, 0)][0].key == first.trainings[FolderKey(0, 0, 1)][0].key
    for later in (second, third):
        assert later.trainings[FolderKey(0, 0, 0)][0].key != later.trainings[FolderKey(0, 0, 1)][0].key
    (own,) = third.trainings[FolderKey(0, 0, 0)]
    assert [teacher.key for teacher in own.after] == [second.trainings[FolderKey(0, 0, 1)][0].key]


def test_one_generation_stands_in_the_folder_itself(task):
    (only,) = rounds(task(name="ipet", generations=1), "ipet", [0], 2)
    assert only.folder == ""
    assert FolderKey(0, 1, 1).folder == "p0/f1-i1"


@pytest.mark.parametrize("arch", ["ensemble", "distillation"])
def test_those_who_answer_together_have_their_own_folders_and_a_last_one(task, arch):
    members, final = rounds(task(name=arch), arch, [0], 2)
    assert (members.folder, final.folder) == ("", "final")
    assert set(members.trainings) == {FolderKey(0, fold, repetition) for fold in (0, 1) for repetition in (0, 1)}
    for seat, trainings in final.trainings.items():
        own = {members.trainings[FolderKey(0, seat.fold, repetition)][0].key for repetition in (0, 1)}
        together = trainings if arch == "ensemble" else trainings[0].after
        assert {training.key for training in together} == own


def test_several_metrics_stand_side_by_side():
    test = {"acc": {0: [0.5, 0.5], 3: [0.5]}, "f1-macro": {0: [0.25, 0.25], 3: [0.25]}}
    assert result_lines(test, {"acc": {0: [0.5], 3: [0.75]}}) == [
        "acc-p0: 0.5 +- 0.0",
        "acc-p3: 0.5 +- 0",
        "f1-macro-p0: 0.25 +- 0.0",
        "f1-macro-p3: 0.25 +- 0",
        "acc-all-p: 0.5 +- 0.0",
        "f1-macro-all-p: 0.25 +- 0.0",
        "acc-dev32-all-p: 0.625 +- 0.1767766952966369",
    ]
    summary = FewNluSummary({"acc": 0.5, "f1-macro": 0.25}, {"acc": 0.75, "f1-macro": 1.0}, [], 64)
    line = final_line({"output_dir": "somewhere/run7/"}, ("acc", "f1-macro"), summary, 12.9)
    assert line == "run7\t0.5\t0.75\t0.25\t1.0\t12"
