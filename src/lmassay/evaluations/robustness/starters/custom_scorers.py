"""Two scorers in TEAPOT's own style; they also run under the original program.

    lmassay teapot --src SRC --adv-src ADV --custom-scores-source custom_scorers.py --s-src f1

``constant`` has its own option: ``--s-src constant --value 0.3``.
"""

import teapot


@teapot.register_scorer("f1", "F-1")
class WordF1(teapot.Scorer):
    """Harmonic mean of the share of hypothesis words that the reference has, and the reverse."""

    def score_sentence(self, hyp, ref, lang=None):
        hyp_words, ref_words = hyp.split(), ref.split()
        if not hyp_words or not ref_words:
            return 0.0
        precision = sum(word in ref_words for word in hyp_words) / len(hyp_words)
        recall = sum(word in hyp_words for word in ref_words) / len(ref_words)
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@teapot.register_scorer("constant", "F-1")
class Constant(teapot.Scorer):
    """The same score for every line: shows a scorer with its own option that sees the whole corpus at once."""

    def __init__(self, value=0.5):
        self.value = value

    def score_corpus(self, hyps, refs, lang=None):
        return [self.value for _ in hyps]

    @classmethod
    def add_args(cls, parser):
        parser.add_argument("--value", type=float, default=0.5, help="the score that every line gets")

    @classmethod
    def from_args(cls, args):
        return cls(args.value)
