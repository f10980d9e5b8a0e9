"""A scorer of your own in a few lines: a function of two texts that gives a number from 0 to 1.

lmassay teapot --src SRC --adv-src ADV --custom-scores-source examples/my_scorer.py --s-src letters
task: {name: robustness, s_src: "my_scorer.py:letters", …}
"""

from difflib import SequenceMatcher

from lmassay import scorer


@scorer("letters")
def letters(hypothesis: str, reference: str) -> float:
    """Share of letters that the two texts have in common, in order."""
    return SequenceMatcher(None, hypothesis, reference, autojunk=False).ratio()
