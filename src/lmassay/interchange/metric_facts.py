"""What must be known of a metric to hand it on: which way is better, and between which bounds it lies."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Facts:
    """``bounds`` is None for a metric without any; ``ideal`` is set where neither end is the best.

    ``is_verdict`` is True if the metric is a verdict on an example, right or wrong, and no degree: a degree may happen
    to be 0 or 1 in every example of a run and says nothing of right and wrong even then.
    """

    lower_is_better: bool = False
    bounds: tuple[float, float] | None = None
    ideal: float | None = None
    is_verdict: bool = False


_RATE, _SIGNED = (0.0, 1.0), (-1.0, 1.0)
# The first that fits. Of an attack's success and damage a system wants little; of bias, none in either direction.
_KNOWN = (
    (r"(success|ooc\w*)", Facts(True, _RATE, is_verdict=True)),
    (r"(success|d_tgt|ooc\w*)(\.\w+)?", Facts(True, _RATE)),
    (r"(diff_bias_\w+|s_amb|s_dis)", Facts(True, _SIGNED, ideal=0.0)),
    # The last ones are names of other harnesses.
    (r"(accuracy\w*|correct\w*|exact_match\w*|em|acc|acc_\w+|mc1|pass@1)", Facts(False, _RATE, is_verdict=True)),
    (r"(f1\w*|s_src|s_tgt|s_out|s_adv)", Facts(False, _RATE)),
    (r"(tse|ew|mw|mass)(@\S+)?", Facts(False, _RATE)),
    (r"(consistency\w*|parsers_agree|dev|test)", Facts(False, _RATE)),
)


def facts_of(metric: str) -> Facts:
    """What is known of a metric by its name; of others, that more is better, which most are made for.

    >>> facts_of("success").lower_is_better, facts_of("accuracy_amb").bounds, facts_of("margin").bounds
    (True, (0.0, 1.0), None)
    """
    return next((facts for pattern, facts in _KNOWN if re.fullmatch(pattern, metric)), Facts())
