"""What a scorer is: it measures the similarity of two texts as a number in [0, 1].

Your own scorer is either a function::

    @scorer("overlap")
    def overlap(hypothesis: str, reference: str) -> float: ...

or a subclass of :class:`Scorer` with ``score_sentence`` or, to see all sentences at once, ``score_corpus``. The class
has TEAPOT's interface, so custom scorers that were written for TEAPOT work here.
"""

from __future__ import annotations

import argparse
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from lmassay.errors import DataError, LmassayError, PluginError, error_with_location
from lmassay.plugins.registry import register
from lmassay.redaction import excerpt
from lmassay.storage.provenance import source_digest


class ScorerError(PluginError):
    """A scorer failed or misbehaved; ``pair`` is the number of the pair, from 1, if it is known."""

    def __init__(self, message: str, pair: int | None = None) -> None:
        super().__init__(message if pair is None else f"pair {pair}: {message}")
        self.message = message
        self.pair = pair


# BLEU of a text with itself is 1.0000000000000004. Scores may exceed [0, 1] by rounding; anything more is a bug.
ROUNDING = 1e-9
# A scorer that overrides one of these needs neither score_corpus nor score_sentence.
_WITHOUT_CORPUS_OR_SENTENCE = ("score", "score_with_sources", "checked_scores")


class Scorer:
    """Similarity of a hypothesis to a reference, in [0, 1].

    As s_src, the hypothesis is the attacked input and the reference the original one. As s_tgt, the hypothesis is an
    output; the reference is the correct output or, if there is none, the output without attack.

    >>> from lmassay.evaluations.robustness.scorers.exact import ZeroOne
    >>> ZeroOne().score(["a", "b"], ["a", "c"])
    [1.0, 0.0]
    """

    _name: ClassVar[str] = ""
    by_chunks: ClassVar[bool] = False
    """True if ``score_corpus`` (or an overridden ``score``) gives the same scores when a corpus is passed in chunks."""
    is_binary: ClassVar[bool] = False
    """True if every score is 0 (wrong) or 1 (right)."""
    needs_source: ClassVar[bool] = False
    """True if the scorer also reads the input that was translated; it then has ``score_translations``."""
    chunk: ClassVar[int] = 4096
    """Pairs per chunk, which is also the step of the progress bar."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Reset inherited members that do not fit the methods that a subclass overrides."""
        super().__init_subclass__(**options)
        members = vars(cls)
        # A class that overrides score_sentence of BLEU must not be scored by BLEU's score_corpus. The override may call
        # BLEU's score_sentence, which calls BLEU.score_corpus: self.score_corpus would call the override again.
        if "score_sentence" in members and "score_corpus" not in members:
            setattr(cls, "score_corpus", Scorer.score_corpus)  # noqa: B010 - mypy objects to a plain assignment
        overrides_scoring = any(method in members for method in ("score_corpus", *_WITHOUT_CORPUS_OR_SENTENCE))
        if overrides_scoring and "by_chunks" not in members:
            cls.by_chunks = False
        if (overrides_scoring or "score_sentence" in members) and "is_binary" not in members:
            cls.is_binary = False

    @property
    def name(self) -> str:
        """The name that reports print."""
        return self._name or type(self).__name__

    @property
    def signature(self) -> str:
        """What the score was computed with; a scorer from a user's file is identified by the hash of its source."""
        return f"{self.name}({source_digest(type(self))})"

    def check(self, lang: str | None = None) -> None:
        """Raise a UserError before a run if scoring could not work (a missing program or language)."""

    def score(
        self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None, check_tok: bool = True
    ) -> list[float]:
        """One score per pair, checked to be a number in [0, 1].

        ``check_tok`` exists for compatibility with TEAPOT and has no effect: the command itself warns about tokenized
        text.
        """
        return self.checked_scores(hyps, refs, lambda: self._scores(hyps, refs, lang))

    def score_with_sources(
        self, hyps: Sequence[str], refs: Sequence[str], sources: Sequence[str], lang: str | None = None
    ) -> list[float]:
        """Like ``score``, with the inputs of the system (``sources``), which most scorers ignore."""
        if not self.needs_source:
            return self.score(hyps, refs, lang=lang)
        if len(sources) != len(hyps):
            raise DataError(f"{self.name}: {len(hyps)} hypotheses but {len(sources)} sources; they must pair up")
        return self.checked_scores(hyps, refs, lambda: self.score_translations(hyps, refs, sources))

    def score_translations(self, hyps: Sequence[str], refs: Sequence[str], sources: Sequence[str]) -> Sequence[float]:
        """The scores of all translations, for a scorer with ``needs_source``."""
        raise PluginError(f"the scorer {self.name} has needs_source, but no score_translations; write it")

    def checked_scores(
        self, hyps: Sequence[str], refs: Sequence[str], compute: Callable[[], Sequence[float]]
    ) -> list[float]:
        """The scores that ``compute`` returns: one per pair, each a number in [0, 1]; anything else is an error."""
        if len(hyps) != len(refs):
            raise DataError(f"{self.name}: {len(hyps)} hypotheses but {len(refs)} references; they must pair up")
        try:
            scores = list(compute())
        except LmassayError:
            raise
        except (Exception, SystemExit) as error:
            # A scorer that calls sys.exit must not end the program.
            raise ScorerError(f"the scorer {self.name} failed: {error_with_location(error)}") from error
        if len(scores) != len(hyps):
            raise ScorerError(f"the scorer {self.name} gave {len(scores)} scores for {len(hyps)} pairs")
        return [self._checked(score, pair) for pair, score in enumerate(scores, 1)]

    def rd_score(
        self,
        hyps: Sequence[str],
        bases: Sequence[str],
        refs: Sequence[str],
        lang: str | None = None,
        check_tok: bool = True,
    ) -> list[float]:
        """The relative decrease d_tgt from ``bases`` to ``hyps``, in [0, 1]: equation 2 of Michel et al. (2019).

        ``bases`` are the outputs without attack, ``hyps`` those under attack. The name of the method is TEAPOT's. A
        scorer that overrides it defines d_tgt itself.
        """
        import numpy as np

        from lmassay.evaluations.robustness.criterion import relative_decrease

        before = self.score(bases, refs, lang=lang)
        after = self.score(hyps, refs, lang=lang)
        if len(before) != len(after):
            raise DataError(
                f"{self.name}: {len(bases)} base outputs but {len(hyps)} adversarial ones; they must pair up"
            )
        decreases = relative_decrease(np.asarray(before), np.asarray(after))
        return [float(decrease) for decrease in decreases]

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> Sequence[float]:
        """The scores of all pairs; by default one call of ``score_sentence`` per pair."""
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

    def _scores(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None) -> Sequence[float]:
        instance_members = getattr(self, "__dict__", {})
        if "score_sentence" in instance_members and "score_corpus" not in instance_members:
            # __init__ has set score_sentence. As in __init_subclass__, it replaces the score_corpus of a parent.
            return Scorer.score_corpus(self, hyps, refs, lang=lang)
        return self.score_corpus(hyps, refs, lang=lang)

    def _one_by_one(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None) -> Iterator[float]:
        for pair, (hyp, ref) in enumerate(zip(hyps, refs, strict=True), 1):
            try:
                yield self.score_sentence(hyp, ref, lang=lang)
            except LmassayError:
                raise
            except (Exception, SystemExit) as error:
                raise ScorerError(
                    f"the scorer {self.name} failed on {excerpt(hyp, 60)!r} against {excerpt(ref, 60)!r}: "
                    f"{error_with_location(error)}",
                    pair,
                ) from error

    def _checked(self, score: Any, pair: int) -> float:
        try:
            value = float(score)
        except (TypeError, ValueError):
            value = math.nan
        if not -ROUNDING <= value <= 1 + ROUNDING:
            raise ScorerError(f"the scorer {self.name} gave {score!r}; scores must be in [0, 1]", pair)
        return min(max(value, 0.0), 1.0)


class FunctionScorer(Scorer):
    """A plain function as a scorer."""

    by_chunks = True

    function: ClassVar[Callable[..., float]]
    takes_lang: ClassVar[bool]
    source: ClassVar[str] = ""
    """A digest of what the function depends on; if it is empty, the digest of the function's source is used."""

    @property
    def signature(self) -> str:
        return f"{self.name}({self.source or source_digest(type(self).function)})"

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        function = type(self).function
        if self.takes_lang:
            return function(hyp, ref, lang=lang)
        return function(hyp, ref)


def scorer(name: str) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Decorator: register a function of (hypothesis, reference) as a scorer. The function may also take ``lang``."""

    def wrap(function: Callable[..., float]) -> Callable[..., float]:
        register("scorer", name)(function_scorer(name, function))
        return function

    return wrap


def function_scorer(name: str, function: Callable[..., float], source: str = "") -> type[FunctionScorer]:
    """The class of a scorer that calls a function of (hypothesis, reference); see :class:`FunctionScorer`."""
    members = {
        "_name": name,
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "function": staticmethod(function),
        "takes_lang": "lang" in inspect.signature(function).parameters,
        "source": source,
    }
    return type(function.__name__, (FunctionScorer,), members)


def interface_problem(scorer: Any) -> str:
    """Why an object cannot be called as a scorer; empty if it can. This finds mistakes before anything is scored."""
    if not isinstance(scorer, Scorer):
        return "is not a scorer; write a function of two texts, or a subclass of lmassay.Scorer"
    if isinstance(scorer, FunctionScorer):
        function = type(scorer).function
        keywords = {"lang": None} if scorer.takes_lang else {}
        if not _can_be_called(function, "hypothesis", "reference", **keywords):
            return f"takes {_parameters(function)}, but a scorer takes two texts: (hypothesis, reference)"
        return ""
    if any(_overrides(scorer, method) for method in _WITHOUT_CORPUS_OR_SENTENCE):
        return ""
    if scorer.needs_source:
        if not _overrides(scorer, "score_translations"):
            return "has needs_source, but no score_translations; write it"
        if not _can_be_called(scorer.score_translations, ["hypothesis"], ["reference"], ["source"]):
            parameters = _parameters(scorer.score_translations)
            return f"has score_translations{parameters}; it must take (hyps, refs, sources)"
        return ""
    if _overrides(scorer, "score_corpus"):
        if not _can_be_called(scorer.score_corpus, ["hypothesis"], ["reference"], lang=None):
            return f"has score_corpus{_parameters(scorer.score_corpus)}; it must take (hyps, refs, lang=None)"
        return ""
    if not _overrides(scorer, "score_sentence"):
        return "has neither score_sentence nor score_corpus; write one of them"
    if not _can_be_called(scorer.score_sentence, "hypothesis", "reference", lang=None):
        return f"has score_sentence{_parameters(scorer.score_sentence)}; it must take (hyp, ref, lang=None)"
    return ""


def is_scorer_function(factory: Callable[..., Any]) -> bool:
    """Whether a plug-in is a function that scores two texts, rather than one that creates a scorer from options."""
    return inspect.isfunction(factory) and _takes_two_texts(factory) and not _creates_a_scorer(factory)


def _takes_two_texts(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with (hypothesis, reference)."""
    return _can_be_called(function, "hypothesis", "reference")


def _creates_a_scorer(function: Callable[..., object]) -> bool:
    """Whether a function returns a scorer when it is called without arguments: its parameters are then options."""
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    try:
        created = function()
    except (Exception, SystemExit):
        # A function of two texts may well fail without them.
        return False
    return isinstance(created, Scorer)


def _overrides(scorer: Scorer, method: str) -> bool:
    """Whether a scorer has its own method, in its class or, if ``__init__`` sets it, in the object."""
    return getattr(getattr(scorer, method), "__func__", None) is not getattr(Scorer, method)


def _can_be_called(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> bool:
    try:
        inspect.signature(function).bind(*arguments, **keywords)
    except TypeError:
        return False
    except ValueError:
        # Functions that are written in C may have no signature.
        return True
    return True


def _parameters(function: Callable[..., Any]) -> str:
    return f"({', '.join(inspect.signature(function).parameters)})"


def register_scorer(keys: str | Sequence[str], name: str) -> Callable[[type[Scorer]], type[Scorer]]:
    """TEAPOT's decorator: ``keys`` are the scorer's names on the command line, ``name`` is its name in reports."""

    def wrap(cls: type[Scorer]) -> type[Scorer]:
        if not (isinstance(cls, type) and issubclass(cls, Scorer)):
            raise PluginError(f"{getattr(cls, '__name__', cls)!r} must be a subclass of Scorer")
        cls._name = name
        for key in [keys] if isinstance(keys, str) else keys:
            register("scorer", key)(cls)
        return cls

    return wrap


def has_own_decrease(scorer: Scorer) -> bool:
    """Whether the scorer defines d_tgt itself."""
    return type(scorer).rd_score is not Scorer.rd_score


def own_decrease(
    scorer: Scorer, hyps: Sequence[str], bases: Sequence[str], refs: Sequence[str], lang: str | None
) -> list[float]:
    """The d_tgt that a scorer defines itself, checked like any score."""
    return scorer.checked_scores(hyps, refs, lambda: scorer.rd_score(hyps, bases, refs, lang=lang))


def full_signature(scorer: Scorer, options: Mapping[str, Any]) -> str:
    """The scorer's signature; for a user's own class also the hash of its source, and its options."""
    if type(scorer).__module__.startswith("lmassay."):
        return scorer.signature
    parts = [scorer.signature]
    if not isinstance(scorer, FunctionScorer):
        source = source_digest(type(scorer))
        # A class may override ``signature``, with or without the hash.
        if source not in scorer.signature:
            parts.append(source)
    parts += [f"{name}={options[name]}" for name in sorted(options)]
    return "+".join(parts)


def works_by_chunks(scorer: Scorer) -> bool:
    """Whether a corpus may be scored in chunks: true for sentence scorers, and for corpus scorers that say so."""
    sees_whole_corpus = any(_overrides(scorer, method) for method in ("score_corpus", *_WITHOUT_CORPUS_OR_SENTENCE))
    return scorer.by_chunks or not sees_whole_corpus
