# mypy: ignore-errors
"""Your own metric in refining-tse's style: how much more probable the right verb of a pair is than the wrong one.

The logits are log-probabilities of the requested words: the verbs of the pairs, the verb list, and the words listed
under ``words`` in the metric's section.
"""

from src.constants import INVALID_SCORE_VALUE
from src.metrics.metric_computer import MetricComputer


class Margin(MetricComputer):
    """log p(right verb) - log p(wrong verb)."""

    def _compute(self, logits, label, template_id, word_to_index):
        scores = []
        for row, template in zip(logits, template_id, strict=True):
            right, wrong = template.lemma_inflections
            if right in word_to_index and wrong in word_to_index:
                scores.append(float(row[word_to_index[right]] - row[word_to_index[wrong]]))
            else:
                scores.append(INVALID_SCORE_VALUE)
        return scores, [None] * len(scores), {}
