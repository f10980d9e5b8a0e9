"""How a tokenizer splits the label words of a pattern, and whether they distinguish the labels.

This needs only the tokenizer, so ``lmassay check`` can report unsuitable words before anything is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmassay.errors import UnsuitableModel
from lmassay.evaluations.fewshot.tokens import CachedTokenizer, special_ids

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


@dataclass(frozen=True)
class LabelWordTokens:
    """The label words of one pattern as a tokenizer splits them."""

    task: NluTask
    pattern: int
    words: Mapping[str, Sequence[str]]
    """Label → its words."""
    tokenizer: Any
    """A tokenizer of transformers."""

    def description(self) -> str:
        """A line of text such as ``rte, pattern 0: Yes → ĠYes (1 token), No → ĠNo (1 token)``."""
        words = []
        for _, word, ids in self._words():
            tokens = self.tokenizer.convert_ids_to_tokens(ids)
            count = "1 token" if len(tokens) == 1 else f"{len(tokens)} tokens"
            words.append(f"{word} → {' '.join(tokens)} ({count})")
        return f"{self.task.name}, pattern {self.pattern}: {', '.join(words)}"

    def check(self, *, reads_left_to_right: bool) -> None:
        """Raise an UnsuitableModel if a word is not in the vocabulary, or if two labels have the same tokens.

        If the model ``reads_left_to_right``, the tokens of a label's word must not begin with those of another label's
        word either. This is only checked for labels with a single word.
        """
        self._require_known_words()
        label_of_tokens: dict[tuple[tuple[int, ...], ...], str] = {}
        for label, tokens in self._tokens_by_label().items():
            if tokens in label_of_tokens:
                raise UnsuitableModel(
                    f"{self._where}: the labels '{label_of_tokens[tokens]}' and '{label}' have the same tokens "
                    f"({self._spelled(tokens[0])}), so no model can tell them apart",
                    "choose other words",
                )
            label_of_tokens[tokens] = label
        if reads_left_to_right:
            self._require_no_prefixes()

    def _require_known_words(self) -> None:
        """Raise an UnsuitableModel if a word is not in the vocabulary."""
        # A part of a word that the vocabulary lacks becomes the unknown token, which is a special one.
        special = special_ids(self.tokenizer)
        for label, word, ids in self._words():
            if not ids or any(token in special for token in ids):
                raise UnsuitableModel(
                    f"{self._where}: the word '{word}' for the label '{label}' is not in the vocabulary of this model "
                    f"(it becomes {self._spelled(ids) or 'nothing'})",
                    "choose another word",
                )

    def _require_no_prefixes(self) -> None:
        """Raise an UnsuitableModel if the word of a label begins with the word of another label.

        By the chain rule, a sequence of tokens is never more probable than its beginning, so a model that reads from
        left to right could never prefer the longer word.
        """
        single_words: dict[str, tuple[int, ...]] = {}
        for label, words in self._tokens_by_label().items():
            # A label with several words is not checked. Its score is the mean over its words, so it can be the highest
            # score even if one of the words begins with the word of another label.
            if len(words) == 1:
                single_words[label] = words[0]
        for label, word in single_words.items():
            for longer_label, longer_word in single_words.items():
                if longer_label != label and longer_word[: len(word)] == word:
                    raise UnsuitableModel(
                        f"{self._where}: the word for the label '{longer_label}' ({self._spelled(longer_word)}) begins "
                        f"with the word for '{label}' ({self._spelled(word)}), so a model that reads from left to "
                        f"right can never prefer '{longer_label}'",
                        "choose other words",
                    )

    def _tokens_by_label(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Label → the token ids of each of its words."""
        tokens: dict[str, tuple[tuple[int, ...], ...]] = {}
        for label, _, ids in self._words():
            tokens[label] = (*tokens.get(label, ()), tuple(ids))
        return tokens

    def _words(self) -> Iterator[tuple[str, str, list[int]]]:
        """(label, word, token ids) of every word."""
        cached = CachedTokenizer.of(self.tokenizer)
        for label, words in self.words.items():
            for word in words:
                yield label, word, cached.ids(word)

    def _spelled(self, ids: tuple[int, ...] | list[int]) -> str:
        return " ".join(self.tokenizer.convert_ids_to_tokens(list(ids)))

    @property
    def _where(self) -> str:
        return f"{self.task.name}, pattern {self.pattern}"
