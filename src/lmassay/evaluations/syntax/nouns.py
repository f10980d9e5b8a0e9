"""Find the noun that a verb agrees with, where the data do not name it.

Template sets reuse a few nouns, so their contexts are not independent: they are clustered by the noun. Among the
contexts of one file and length, the noun is at the position whose word alone determines whether the verb is singular or
plural, and whose words are repeated often. In some languages the article determines it as well, or only the article
does: in German *der Lehrer* and *die Lehrer*, the noun is the same. The noun is then the word after the article.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence

Evidence = tuple[tuple[str, ...], str | None]
"""The words to the left of a verb, and the verb's grammatical number; None if it is unknown."""

# Words that occur this often on average fill the slot of a template; in free text nearly all words are rare.
_REPETITIONS_OF_TEMPLATES = 4.0
# Articles are few and short: der, die, das; l', le, la, les.
_MAX_ARTICLES = 4
_MAX_ARTICLE_LENGTH = 4
# Two forms of a noun share at least this part of the longer one: writer and writers, arzt and arzte.
_MIN_SHARED_PART = 0.5


def agreement_nouns(contexts: Sequence[Evidence]) -> list[str | None]:
    """Return the noun that each context agrees with, in lower case; None if it is unknown.

    The two forms of a noun get the same name, usually the singular. Forms that have too little in common, such as
    person and people, are different nouns.
    """
    indices_by_length: dict[int, list[int]] = defaultdict(list)
    for index, (left, number) in enumerate(contexts):
        if left and number is not None:
            indices_by_length[len(left)].append(index)
    nouns: list[str | None] = [None] * len(contexts)
    for length, indices in indices_by_length.items():
        position = _noun_position([contexts[index] for index in indices], length)
        if position is None:
            continue
        numbers_of_word: dict[str, set[str]] = defaultdict(set)
        for index in indices:
            left, number = contexts[index]
            assert number is not None
            numbers_of_word[left[position].lower()].add(number)
        name_of_word = _names(numbers_of_word)
        for index in indices:
            nouns[index] = name_of_word[contexts[index][0][position].lower()]
    return nouns


def _noun_position(contexts: Sequence[Evidence], length: int) -> int | None:
    """Return the position of the noun that determines the number of the verb; None if there is none."""
    best_position: int | None = None
    most_words = 0
    counts_by_position: list[Counter[str]] = []
    for position in range(length):
        words_at_position = [left[position].lower() for left, _ in contexts]
        counts_by_position.append(Counter(words_at_position))
    for position, counts in enumerate(counts_by_position):
        if not _determines_number(contexts, position) or not _is_repeated(counts):
            continue
        noun_position = position
        # Where the article shows the number (German der, die), the noun is the word after it.
        if _are_articles(counts) and position + 1 < length:
            next_counts = counts_by_position[position + 1]
            if len(next_counts) > len(counts) and _is_repeated(next_counts):
                noun_position = position + 1
        # A verb in a relative clause may determine the number as well. There are more nouns than verbs, so the position
        # with the most different words is that of the noun.
        words = len(counts_by_position[noun_position])
        if words > most_words:
            best_position, most_words = noun_position, words
    return best_position


def _determines_number(contexts: Sequence[Evidence], position: int) -> bool:
    """Return True if every word at the position occurs with one number only, and both numbers occur."""
    number_of_word: dict[str, str | None] = {}
    for left, number in contexts:
        word = left[position].lower()
        if number_of_word.setdefault(word, number) != number:
            return False
    return len(set(number_of_word.values())) > 1


def _is_repeated(counts: Counter[str]) -> bool:
    return counts.total() / len(counts) >= _REPETITIONS_OF_TEMPLATES


def _are_articles(words: Counter[str]) -> bool:
    return len(words) <= _MAX_ARTICLES and all(len(word) <= _MAX_ARTICLE_LENGTH for word in words)


def _names(numbers_of_word: dict[str, set[str]]) -> dict[str, str]:
    """Return one name for the two forms of each noun."""
    names: dict[str, str] = {}
    unpaired: dict[str, str] = {}
    for word, numbers in numbers_of_word.items():
        # The regular plural of English, French and Spanish.
        if word.endswith("s") and word[:-1] in numbers_of_word:
            names[word] = names[word[:-1]] = word[:-1]
        elif len(numbers) == 1:
            (unpaired[word],) = numbers
    for word in names:
        unpaired.pop(word, None)
    for word in unpaired:
        partner = _partner(word, unpaired)
        # Each must be the best partner of the other, so that the forms of two nouns are not mixed up.
        if partner is not None and _partner(partner, unpaired) == word:
            names[word] = min(word, partner, key=lambda form: (len(form), form))
    return {word: names.get(word, word) for word in numbers_of_word}


def _partner(word: str, number_of_word: dict[str, str]) -> str | None:
    """Return the word of the other number that begins most like this one; None if none is similar."""
    best: str | None = None
    longest = 0
    for other, number in number_of_word.items():
        if number == number_of_word[word]:
            continue
        shared = _shared_beginning(_without_accents(word), _without_accents(other))
        if shared > longest and shared >= _MIN_SHARED_PART * max(len(word), len(other)):
            best, longest = other, shared
    return best


def _shared_beginning(word: str, other: str) -> int:
    length = 0
    for letter, other_letter in zip(word, other, strict=False):
        if letter != other_letter:
            break
        length += 1
    return length


def _without_accents(word: str) -> str:
    """Return a word without umlauts and accents, which may distinguish its two forms (Arzt, Ärzte)."""
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
