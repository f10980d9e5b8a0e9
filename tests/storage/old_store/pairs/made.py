
import hashlib
import math
from lmassay.types import Candidates, Continuation, Response

def weight(*parts):
    return 1 + int(hashlib.sha256("|".join(parts).encode()).hexdigest()[:6], 16) % 1000

class Made:
    name, can = "made", frozenset({"slot", "logprobs"})

    def __init__(self, label: str = "made", masses: bool = True, unknown: list[str] = [], fails_on: str = ""):
        self.label, self.masses, self.unknown, self.fails_on = label, masses, unknown, fails_on

    def identity(self):
        return {"name": "made", "label": self.label}

    def slot(self, requests):
        for request in requests:
            if self.fails_on and self.fails_on in request.left:
                yield Response(error="the <b>server</b> is on fire")
                continue
            raw = [weight(self.label, request.left, word) for word in request.candidates]
            # A little is left for words that nobody asks about.
            shares = [r / (1.25 * sum(raw)) for r in raw]
            above = [sum(s for s in shares if s > share) for share in shares]
            below = [1 - a - share for a, share in zip(above, shares)]
            known = [w not in self.unknown for w in request.candidates]
            yield Candidates(
                [math.log(s) if k else None for s, k in zip(shares, known)],
                [sum(s > share for s in shares) for share in shares] if self.masses else None,
                above if self.masses else None,
                below if self.masses else None,
            )

    def logprobs(self, requests):
        for request in requests:
            if self.fails_on and self.fails_on in request.continuation:
                yield Response(error="the <b>server</b> is on fire")
                continue
            total = -weight(self.label, request.context, request.continuation) / 10
            yield Continuation(total, (total,))
