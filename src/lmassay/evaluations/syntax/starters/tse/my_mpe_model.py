# mypy: ignore-errors
"""Your own model in refining-tse's style: its verb agrees with the noun right before it, subject or not.

    lmassay tse run tse/nearest_noun.yaml

For a model written for lmassay itself, see docs/extending/model.md.
"""

from src.models.MPE_model import MPEModel

SINGULAR = ["is", "was", "sings", "waits", "reads", "works", "listens"]
PLURAL = ["are", "were", "sing", "wait", "read", "work", "listen"]


class NearestNoun(MPEModel):
    """Sees the left context only, as a causal language model does."""

    bidirectional = False

    def __init__(self, config):
        super().__init__(config)
        self.strength = config["strength"]

    @property
    def word_to_index(self):
        return {word: place for place, word in enumerate(SINGULAR + PLURAL)}

    def predict(self, left_context, right_context):
        return [self.logits(words) for words in left_context]

    def logits(self, words):
        noun_is_plural = words[-1].endswith("s")
        return [self.strength * ((word in PLURAL) == noun_is_plural) for word in SINGULAR + PLURAL]
