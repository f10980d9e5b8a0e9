"""ADAPET as a method: what PET is asked, taught with more of the signal (Tam et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.adapet_learner import UNBALANCED, AdapetHyper, AdapetLearner
from lmassay.evaluations.fewshot.methods.contract import Lesson
from lmassay.evaluations.fewshot.methods.network import open_network
from lmassay.evaluations.fewshot.methods.options import Training


@dataclass(kw_only=True)
class Adapet(Training):
    """The decoupled label loss and the label-conditioned guess of hidden words.

    ``adapet_mask_alpha``: the share of a text that is hidden at most; ``adapet_balance_alpha``: the guess's share in
    the loss, -1 for the plain sum; ``max_num_lbl_tok``: how many tokens of a choice or referent count. The label loss
    and the guess both count once an update, however many micro-batches it has; with ``reference`` as in FewNLU.
    ``draw_seed``: of the labels and words that are drawn in training, if it is to be another than the training's.
    """

    masked_only: ClassVar[bool] = True

    pattern: Annotated[int, Field(ge=0)] = 0
    adapet_mask_alpha: Annotated[float, Field(ge=0, le=1)] = 0.105
    adapet_balance_alpha: float = UNBALANCED
    max_num_lbl_tok: Annotated[int, Field(ge=1)] = 20
    draw_seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None

    def learner(self, lesson: Lesson) -> AdapetLearner:
        balance = self.adapet_balance_alpha
        if balance != UNBALANCED and not 0 <= balance <= 1:
            raise ConfigError(f"adapet_balance_alpha: must be between 0 and 1, or -1 for the plain sum, not {balance}")
        hyper = AdapetHyper(
            mask_alpha=self.adapet_mask_alpha,
            balance_alpha=balance,
            max_num_lbl_tok=self.max_num_lbl_tok,
            accumulation=max(1, self.batch_size // self.micro_batch),
            reference=self.reference,
            draw_seed=self.draw_seed,
        )
        net = open_network(lesson.model, reference=self.reference)
        reading = self.reading(lesson, pattern=self.pattern, mode="cloze")
        return AdapetLearner(net, lesson.task, reading, hyper, eval_batch_size=self.eval_batch)
