"""Sentence BLEU (Papineni et al. 2002), equal to sacrebleu's to the last digit."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from lmassay.errors import ConfigError, UserError
from lmassay.evaluations.robustness.kernels.backend import Scores, choose_engine, score_in_chunks
from lmassay.evaluations.robustness.scorers.base import Scorer
from lmassay.storage.files import require_file, sha256

# For a pair without any match, sacrebleu 2.x gives 0; 1.x gave the value of the smoothing floor, a little more than 0.
COMPAT = ("2.x", "1.x")

DEFAULT_TOKENIZER = "13a"
# Tokenizers of sacrebleu. The first five need no other package.
TOKENIZERS = ("13a", "intl", "zh", "char", "none", "ja-mecab", "ko-mecab", "flores200")
# Tokenizer → the package that it needs, and how to install it.
_PACKAGES = {
    "ja-mecab": ("MeCab", "pip install 'sacrebleu[ja]'"),
    "ko-mecab": ("mecab_ko", "pip install 'sacrebleu[ko]'"),
    "flores200": ("sentencepiece", "pip install sentencepiece"),
}

# Loading compiled code takes at least half a second, in which sacrebleu scores this many pairs.
_NUMBA_PAYS_FROM = 5_000


def bleu_scores(
    hyps: Sequence[str], refs: Sequence[str], *, compat: str = "2.x", engine: str = "auto", threads: int = 1
) -> Scores:
    """BLEU of each pair, in [0, 1]: ``sacrebleu.sentence_bleu(hyp, [ref], "floor", 0.01).score / 100``, at most 1.

    >>> bleu_scores(["the cat sat", "no"], ["the cat sat.", "yes"]).round(4).tolist()
    [0.7165, 0.0]
    """
    zero_without_match = _checked(compat) == "2.x"
    if choose_engine(len(hyps), kernel="bleu_numba", numba_pays_from=_NUMBA_PAYS_FROM, wanted=engine) == "numba":
        from lmassay.evaluations.robustness.kernels.bleu_numba import CHUNK, bleu_chunk
    else:
        from lmassay.evaluations.robustness.kernels.bleu_plain import CHUNK, bleu_chunk

    def score(hyps: Sequence[str], refs: Sequence[str]) -> Scores:
        return bleu_chunk(hyps, refs, zero_without_match)

    return score_in_chunks(score, hyps, refs, CHUNK, threads)


def _checked(compat: str) -> str:
    if compat not in COMPAT:
        raise ConfigError(f"BLEU: compat must be {' or '.join(COMPAT)}, not {compat!r}")
    return compat


class BLEU(Scorer):
    """Sentence BLEU: floor smoothing 0.01, effective order; divided by 100, at most 1.

    ``tokenize`` is one of sacrebleu's tokenizers. The default, 13a, is for languages with spaces between words; use
    ``zh`` for Chinese, ``ja-mecab`` for Japanese, ``ko-mecab`` for Korean, or ``char``. ``flores200`` reads the
    SentencePiece model in the file ``tokenizer_file``; nothing is downloaded. ``compat`` says which sacrebleu decides
    about a pair without any match: 0 in ``2.x``, a little more in ``1.x``.
    """

    _name = "BLEU"
    by_chunks = True

    def __init__(
        self,
        *,
        tokenize: str = DEFAULT_TOKENIZER,
        tokenizer_file: Path | None = None,
        compat: str = "2.x",
        threads: int = 1,
    ) -> None:
        if tokenize not in TOKENIZERS:
            raise ConfigError(f"BLEU: tokenize must be one of {', '.join(TOKENIZERS)}, not {tokenize!r}")
        if tokenize == "flores200" and tokenizer_file is None:
            raise ConfigError(
                "BLEU: tokenize: flores200 needs tokenizer_file, the path of flores200_sacrebleu_tokenizer_spm.model"
            )
        if tokenize != "flores200" and tokenizer_file is not None:
            raise ConfigError(f"BLEU: tokenizer_file is for tokenize: flores200, not for {tokenize}; leave it out")
        if tokenize != DEFAULT_TOKENIZER and compat != "2.x":
            raise ConfigError(f"BLEU: compat: {compat} is for tokenize: {DEFAULT_TOKENIZER} only; leave it out")
        self.tokenize = tokenize
        self.tokenizer_file = None if tokenizer_file is None else Path(tokenizer_file).expanduser()
        self.compat = _checked(compat)
        self.threads = threads

    @property
    def signature(self) -> str:
        tokenizer = self.tokenize
        if self.tokenizer_file is not None:
            tokenizer += f"[sha:{sha256(self.tokenizer_file)[:8]}]"
        return f"BLEU(tok:{tokenizer}|smooth:floor[0.01]|eff:yes|compat:{self.compat})"

    def check(self, lang: str | None = None) -> None:
        if self.tokenize in _PACKAGES:
            package, command = _PACKAGES[self.tokenize]
            if importlib.util.find_spec(package) is None:
                raise UserError(f"BLEU with tokenize: {self.tokenize} needs the package {package}: {command}")
        if self.tokenizer_file is not None:
            require_file(self.tokenizer_file, "tokenizer")

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--bleu-compat",
            choices=COMPAT,
            default="2.x",
            help="BLEU as in sacrebleu 2.x (0 if nothing matches) or 1.x (the smoothing floor)",
        )

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> Self:
        return cls(compat=args.bleu_compat)

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> list[float]:
        if self.tokenize == DEFAULT_TOKENIZER:
            scores = bleu_scores(hyps, refs, compat=self.compat, threads=self.threads)
        else:
            self.check(lang)
            percentages = [self._percentage(hyp, ref) for hyp, ref in zip(hyps, refs, strict=True)]
            scores = np.minimum(np.array(percentages) / 100, 1.0)
        result: list[float] = scores.tolist()
        return result

    def _percentage(self, hyp: str, ref: str) -> float:
        """BLEU in per cent by sacrebleu itself, for tokenizers other than 13a."""
        if self._sentence_pieces is not None:
            hyp = " ".join(self._sentence_pieces.encode(hyp, out_type=str))
            ref = " ".join(self._sentence_pieces.encode(ref, out_type=str))
        return float(self._metric.sentence_score(hyp, [ref]).score)

    @cached_property
    def _metric(self) -> Any:
        from sacrebleu import metrics

        # With flores200, the texts are passed as pieces, which are tokenized already: the tokenizer of that name in
        # sacrebleu would download its model.
        tokenize = "none" if self.tokenize == "flores200" else self.tokenize
        return metrics.BLEU(tokenize=tokenize, smooth_method="floor", smooth_value=0.01, effective_order=True)

    @cached_property
    def _sentence_pieces(self) -> Any:
        if self.tokenizer_file is None:
            return None
        import sentencepiece

        pieces = sentencepiece.SentencePieceProcessor()
        try:
            pieces.Load(str(self.tokenizer_file))
        except (OSError, RuntimeError) as error:
            raise UserError(f"{self.tokenizer_file} is not a SentencePiece model: {error}") from error
        return pieces

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        # Not self.score_corpus: in a subclass that overrides score_sentence, that calls score_sentence again.
        return BLEU.score_corpus(self, [hyp], [ref])[0]
