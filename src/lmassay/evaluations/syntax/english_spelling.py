"""The spelling of the English ending -s, which marks plural nouns and verbs in the third person singular."""

from __future__ import annotations

NOUN_ENDINGS_WITH_ES = ("s", "x", "z", "ch", "sh")
"""Sibilants. Most nouns in -o take -s (photos, pianos); the others (heroes) must be listed as irregular."""
VERB_ENDINGS_WITH_ES = (*NOUN_ENDINGS_WITH_ES, "o")
"""Sibilants, and -o as in "echoes"."""
_VOWELS = ("a", "e", "i", "o", "u")


def with_s(word: str, endings_with_es: tuple[str, ...]) -> str:
    """Return a word with the ending -s, or -es after the given endings; a -y after a consonant becomes -ies.

    >>> [with_s(verb, VERB_ENDINGS_WITH_ES) for verb in ("sing", "echo", "carry", "play")]
    ['sings', 'echoes', 'carries', 'plays']
    """
    if word.endswith(endings_with_es):
        return f"{word}es"
    letter_before = word[-2:-1]
    if word.endswith("y") and letter_before not in _VOWELS:
        return f"{word[:-1]}ies"
    return f"{word}s"
