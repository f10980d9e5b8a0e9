# mypy: ignore-errors
"""A metric of your own in refining-tse's style: by how much the right verb of a pair beats the wrong one.

The logits are log-probabilities of the words that were asked about: the pairs' verbs, the verb list, and what stands
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
            known = right in word_to_index and wrong in word_to_index
            scores.append(
                float(row[word_to_index[right]] - row[word_to_index[wrong]]) if known else INVALID_SCORE_VALUE
            )
        return scores, [None] * len(scores), {}
