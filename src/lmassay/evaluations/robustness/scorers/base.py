"""What a scorer is: similarity of two texts, a number in [0, 1].

A scorer of the user's own is either a function::

    @scorer("overlap")
    def overlap(hypothesis: str, reference: str) -> float: ...

or a subclass of :class:`Scorer` that has ``score_sentence`` or, to see all sentences at once, ``score_corpus``. That
class has TEAPOT's interface, so TEAPOT's own custom scorers are scorers here.
"""

from __future__ import annotations

import argparse
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from lmassay.errors import DataError, LmassayError, PluginError, error_with_location
from lmassay.plugins.registry import register
from lmassay.storage.provenance import source_digest


class ScorerError(PluginError):
    """A scorer failed or misbehaved; ``pair`` is the place in its input, from 1, where that is known."""

    def __init__(self, message: str, pair: int | None = None) -> None:
        super().__init__(message if pair is None else f"pair {pair}: {message}")
        self.message = message
        self.pair = pair


# BLEU of a text with itself comes out as 1.0000000000000004: rounding is forgiven, anything more is a bug.
ROUNDING = 1e-9


class Scorer:
    """Similarity of a hypothesis to a reference, in [0, 1].

    >>> from lmassay.evaluations.robustness.scorers.exact import ZeroOne
    >>> ZeroOne().score(["a", "b"], ["a", "c"])
    [1.0, 0.0]
    """

    _name: ClassVar[str] = ""
    by_chunks: ClassVar[bool] = False
    """True if ``score_corpus`` gives the same scores when a corpus comes in pieces."""
    is_binary: ClassVar[bool] = False
    """True if every score is 0 (wrong) or 1 (right)."""
    chunk: ClassVar[int] = 4096
    """Pairs to score between two steps of the progress bar, if it may come in pieces."""

    def __init_subclass__(cls, **options: Any) -> None:
        """What a subclass writes anew counts, whatever the class it extends does in bulk."""
        super().__init_subclass__(**options)
        own = vars(cls)
        if "score_sentence" in own and "score_corpus" not in own:
            setattr(cls, "score_corpus", Scorer.score_corpus)  # noqa: B010 - mypy objects to a plain assignment
        if "score_corpus" in own and "by_chunks" not in own:
            cls.by_chunks = False
        if ("score_sentence" in own or "score_corpus" in own) and "is_binary" not in own:
            cls.is_binary = False

    @property
    def name(self) -> str:
        """The name that reports print."""
        return self._name or type(self).__name__

    @property
    def signature(self) -> str:
        """What the score was computed with; a scorer from a user's file is known by the hash of its source."""
        return f"{self.name}({source_digest(type(self))})"

    def check(self, lang: str | None = None) -> None:
        """Raise a UserError now if scoring could not work later (no program, no language)."""

    def score(
        self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None, check_tok: bool = True
    ) -> list[float]:
        """One score a pair, checked: as many as there are pairs, each a number in [0, 1].

        ``check_tok`` is TEAPOT's: it is taken and changes nothing, for the command itself warns of tokenised text.
        """
        if len(hyps) != len(refs):
            raise DataError(f"{self.name}: {len(hyps)} hypotheses but {len(refs)} references; they must pair up")
        try:
            scores = list(self.score_corpus(hyps, refs, lang=lang))
        except LmassayError:
            raise
        except Exception as error:
            raise ScorerError(f"the scorer {self.name} failed: {error!r}") from error
        if len(scores) != len(hyps):
            raise ScorerError(f"the scorer {self.name} gave {len(scores)} scores for {len(hyps)} pairs")
        return [self._checked(score, place) for place, score in enumerate(scores, 1)]

    def rd_score(
        self,
        hyps: Sequence[str],
        bases: Sequence[str],
        refs: Sequence[str],
        lang: str | None = None,
        check_tok: bool = True,
    ) -> list[float]:
        """The relative decrease d_tgt from ``bases`` to ``hyps``, clamped to [0, 1]: equation 2 of the paper."""
        import numpy as np

        from lmassay.evaluations.robustness.criterion import relative_decrease

        before, after = self.score(bases, refs, lang=lang), self.score(hyps, refs, lang=lang)
        if len(before) != len(after):
            raise DataError(
                f"{self.name}: {len(bases)} base outputs but {len(hyps)} adversarial ones; they must pair up"
            )
        return [float(d) for d in relative_decrease(np.asarray(before), np.asarray(after))]

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> Sequence[float]:
        """Scores of all pairs; by default one call of ``score_sentence`` each."""
        return list(self._one_by_one(hyps, refs, lang))

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        """The score of one pair."""
        raise PluginError(f"the scorer {self.name} has neither score_sentence nor score_corpus; write one of them")

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Add the scorer's own options to the command line of ``lmassay teapot``."""

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> Self:
        """Make the scorer from the parsed command line."""
        return cls()

    def _one_by_one(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None) -> Iterator[float]:
        for place, (hyp, ref) in enumerate(zip(hyps, refs, strict=True), 1):
            try:
                yield self.score_sentence(hyp, ref, lang=lang)
            except LmassayError:
                raise
            except Exception as error:
                raise ScorerError(
                    f"the scorer {self.name} failed ({error!r}) on {hyp[:60]!r} against {ref[:60]!r}", place
                ) from error

    def _checked(self, score: Any, place: int) -> float:
        try:
            value = float(score)
        except (TypeError, ValueError):
            value = math.nan
        if not -ROUNDING <= value <= 1 + ROUNDING:
            raise ScorerError(f"the scorer {self.name} gave {score!r}; scores must lie in [0, 1]", place)
        return min(max(value, 0.0), 1.0)


class FunctionScorer(Scorer):
    """A plain function as a scorer."""

    by_chunks = True

    function: ClassVar[Callable[..., float]]
    takes_lang: ClassVar[bool]

    @property
    def signature(self) -> str:
        return f"{self.name}({source_digest(type(self).function)})"

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        function = type(self).function
        return function(hyp, ref, lang=lang) if self.takes_lang else function(hyp, ref)


def scorer(name: str) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Decorator: a function of (hypothesis, reference) becomes a scorer of that name; it may also take ``lang``."""

    def wrap(function: Callable[..., float]) -> Callable[..., float]:
        members = {
            "_name": name,
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "function": staticmethod(function),
            "takes_lang": "lang" in inspect.signature(function).parameters,
        }
        register("scorer", name)(type(function.__name__, (FunctionScorer,), members))
        return function

    return wrap


def register_scorer(keys: str | Sequence[str], name: str) -> Callable[[type[Scorer]], type[Scorer]]:
    """TEAPOT's decorator: the keys name the scorer on the command line, ``name`` is what reports print."""

    def wrap(cls: type[Scorer]) -> type[Scorer]:
        if not (isinstance(cls, type) and issubclass(cls, Scorer)):
            raise PluginError(f"{getattr(cls, '__name__', cls)!r} must be a subclass of Scorer")
        cls._name = name
        for key in [keys] if isinstance(keys, str) else keys:
            register("scorer", key)(cls)
        return cls

    return wrap


def has_own_decrease(scorer: Scorer) -> bool:
    """True if the scorer defines its d_tgt itself."""
    return type(scorer).rd_score is not Scorer.rd_score


def own_decrease(
    scorer: Scorer, hyps: Sequence[str], bases: Sequence[str], refs: Sequence[str], lang: str | None
) -> list[float]:
    """The d_tgt that a scorer defines itself, checked like any score."""
    try:
        scores = list(scorer.rd_score(hyps, bases, refs, lang=lang))
    except LmassayError:
        raise
    except Exception as error:
        raise ScorerError(f"the scorer {scorer.name} failed: {error_with_location(error)}") from error
    if len(scores) != len(hyps):
        raise ScorerError(f"the scorer {scorer.name} gave {len(scores)} scores for {len(hyps)} pairs")
    return [scorer._checked(score, place) for place, score in enumerate(scores, 1)]


def full_signature(scorer: Scorer, options: Mapping[str, Any]) -> str:
    """The scorer's signature; a class of the user's own also shows its source and the options it was made with."""
    if type(scorer).__module__.startswith("lmassay."):
        return scorer.signature
    parts = [scorer.signature]
    if not isinstance(scorer, FunctionScorer) and (source := source_digest(type(scorer))) not in scorer.signature:
        parts.append(source)
    return "+".join([*parts, *(f"{name}={options[name]}" for name in sorted(options))])


def works_by_chunks(scorer: Scorer) -> bool:
    """True if a corpus may be scored piece by piece: sentence scorers always, corpus scorers that say so."""
    return scorer.by_chunks or type(scorer).score_corpus is Scorer.score_corpus
