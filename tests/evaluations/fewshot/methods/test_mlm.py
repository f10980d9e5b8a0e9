"""PET with an auxiliary masked language model."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from tests.evaluations.fewshot.methods.conftest import Opened


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global \
        torch, \
        functional, \
        Cloze, \
        Reading, \
        MlmBatch, \
        WithMlmLoss, \
        masked_tokens, \
        mlm_batches, \
        next_tokens, \
        open_network
    global Pet
    import torch
    from torch.nn import functional

    from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading
    from lmassay.evaluations.fewshot.methods.mlm import MlmBatch, WithMlmLoss, masked_tokens, mlm_batches, next_tokens
    from lmassay.evaluations.fewshot.methods.network import open_network
    from lmassay.evaluations.fewshot.methods.pet import Pet


QUICK: dict[str, Any] = {"max_steps": 3, "batch_size": 8, "learning_rate": 1e-3, "max_seq_length": 64}


def learner(tiny: Opened, task: NluTask) -> Cloze:
    cloze = Cloze(open_network(tiny("bert")), task, Reading())
    cloze.module.eval()
    return cloze


def many(cloze: Cloze, task: NluTask, seed: int = 1) -> tuple[list[list[int]], MlmBatch]:
    items = cloze.encode(task.examples("train") * 60, training=False)
    batch = masked_tokens(items, cloze.net, torch.Generator().manual_seed(seed))
    return [item.ids for item in items], batch


def test_fifteen_of_a_hundred_tokens_are_asked_for_and_treated_as_bert_was(tiny: Opened, rte: NluTask) -> None:
    cloze = learner(tiny, rte)
    whole, batch = many(cloze, rte)
    special = set(cloze.net.tokenizer.all_special_ids)
    asked = len(batch.targets) / sum(token not in special for ids in whole for token in ids)
    shown = batch.batch.ids[batch.rows, batch.columns]
    masked = (shown == cloze.net.tokenizer.mask_token_id).float().mean().item()
    kept = (shown == batch.targets).float().mean().item()
    assert asked == pytest.approx(0.15, abs=0.02)
    assert masked == pytest.approx(0.8, abs=0.04)
    assert kept == pytest.approx(0.1, abs=0.04)


def test_targets_are_the_tokens_that_stood_there_and_never_special_ones(tiny: Opened, rte: NluTask) -> None:
    cloze = learner(tiny, rte)
    whole, batch = many(cloze, rte)
    stood = [whole[row][column] for row, column in zip(batch.rows.tolist(), batch.columns.tolist(), strict=True)]
    assert batch.targets.tolist() == stood
    assert not set(stood) & set(cloze.net.tokenizer.all_special_ids)


def test_the_pattern_keeps_its_own_mask(tiny: Opened, rte: NluTask) -> None:
    cloze = learner(tiny, rte)
    items = cloze.encode(rte.examples("train"), training=False)
    batch = masked_tokens(items, cloze.net, torch.Generator().manual_seed(1))
    mask = cloze.net.tokenizer.mask_token_id
    assert all(batch.batch.ids[row, item.masks[0]] == mask for row, item in enumerate(items))


def test_the_loss_is_the_mean_over_what_is_asked_with_the_whole_vocabulary(tiny: Opened, rte: NluTask) -> None:
    cloze = learner(tiny, rte)
    items = cloze.encode(rte.examples("train"), training=False)
    batch = next(mlm_batches(items, cloze.net, 6, seed=1, sampler_seed=2))
    beside = WithMlmLoss(cloze, cloze.net, iter([batch]))
    with torch.no_grad():
        logits = cloze.net.module(**cloze.net.inputs(batch.batch)).logits[batch.rows, batch.columns]
        expected = functional.cross_entropy(logits, batch.targets)
        assert beside.mlm_loss(batch).item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.75, 0.25)])
def test_the_two_losses_are_weighed(tiny: Opened, rte: NluTask, weights: tuple[float, float]) -> None:
    cloze = learner(tiny, rte)
    items = cloze.encode(rte.examples("train")[:4], training=True)
    batch = next(mlm_batches(items, cloze.net, 4, seed=1, sampler_seed=2))
    beside = WithMlmLoss(cloze, cloze.net, iter([batch]), weights)
    with torch.no_grad():
        expected = weights[0] * cloze.loss(items) + weights[1] * beside.mlm_loss(batch)
        assert beside.loss(items).item() == pytest.approx(expected.item(), abs=1e-6)


def test_a_batch_without_masked_tokens_costs_nothing(tiny: Opened, rte: NluTask) -> None:
    cloze = learner(tiny, rte)
    items = cloze.encode(rte.examples("train")[:1], training=True)
    batch = next_tokens([replace(items[0], ids=[2], types=[0])], cloze.net)
    assert WithMlmLoss(cloze, cloze.net, iter([])).mlm_loss(batch).item() == 0.0


def test_an_update_reads_no_more_of_a_riddle_at_once_than_of_its_examples(tiny: Opened, rte: NluTask) -> None:
    cloze = learner(tiny, rte)
    items = cloze.encode(rte.examples("train"), training=True)
    batch = next(mlm_batches(items, cloze.net, 7, seed=1, sampler_seed=2))
    sizes = []

    class Watched(WithMlmLoss):
        def mlm_loss(self, batch: MlmBatch) -> torch.Tensor:
            sizes.append(len(batch.batch.ids))
            return super().mlm_loss(batch)

    with torch.no_grad():
        loss = sum(Watched(cloze, cloze.net, iter([batch])).losses([items[:3], items[3:5]]))
        expected = cloze.loss(items[:5]) + WithMlmLoss(cloze, cloze.net, iter([])).mlm_loss(batch)
    assert max(sizes) <= 3
    assert float(loss) == pytest.approx(expected.item(), abs=1e-5)


def test_batches_follow_their_seeds_and_go_on_without_end(tiny: Opened, rte: NluTask) -> None:
    cloze = learner(tiny, rte)
    items = cloze.encode(rte.examples("train")[:5], training=False)
    first, again = (list(islice(mlm_batches(items, cloze.net, 4, seed=1, sampler_seed=2), 5)) for _ in range(2))
    assert [len(batch.batch.ids) for batch in first] == [4, 1, 4, 1, 4]
    assert all(torch.equal(a.batch.ids, b.batch.ids) for a, b in zip(first, again, strict=True))


def test_alpha_has_an_effect(tiny: Opened, rte: NluTask) -> None:
    inputs = TrainingInputs(rte, tiny("bert"), rte.examples("train"), unlabeled=rte.examples("unlabeled"))
    losses = {alpha: Pet(lm_training=True, alpha=alpha, **QUICK).fit(inputs).course.losses for alpha in ("sum", 0.9, 1)}
    assert losses["sum"][0] > losses[0.9][0] > losses[1][0]


@pytest.mark.parametrize("family", ["gpt2", "albert"])
def test_other_families_learn_beside_too(tiny: Opened, rte: NluTask, family: str) -> None:
    inputs = TrainingInputs(rte, tiny(family), rte.examples("train"), unlabeled=rte.examples("unlabeled"))
    losses = Pet(lm_training=True, **{**QUICK, "max_steps": 12}).fit(inputs).course.losses
    assert sum(losses[-4:]) < sum(losses[:4])


def test_unlabeled_examples_that_are_asked_for_and_absent_are_reported(tiny: Opened, rte: NluTask) -> None:
    method = Pet(lm_training=True, **QUICK)
    assert method.uses_unlabeled
    with pytest.raises(ConfigError, match="rte has no unlabeled examples"):
        method.fit(TrainingInputs(rte, tiny("bert"), rte.examples("train")))
