"""The spelling of the English ending -s, which marks plural nouns and verbs in the third person singular."""

from __future__ import annotations

NOUN_ENDINGS_WITH_ES = ("s", "x", "z", "ch", "sh")
"""Sibilants. Most nouns in -o take -s (photos, pianos); the others (heroes) must be listed as irregular."""
VERB_ENDINGS_WITH_ES = (*NOUN_ENDINGS_WITH_ES, "o")
"""Sibilants, and -o as in "echoes"; after a vowel, -o takes -s ("woos"), see :func:`with_s`."""
_VOWELS = ("a", "e", "i", "o", "u")


def with_s(word: str, endings_with_es: tuple[str, ...]) -> str:
    """Return a word with the ending -s, or -es after the given endings; a -y after a consonant becomes -ies.

    An -o after a vowel takes -s in any case.

    >>> [with_s(verb, VERB_ENDINGS_WITH_ES) for verb in ("sing", "echo", "woo", "carry", "play")]
    ['sings', 'echoes', 'woos', 'carries', 'plays']
    """
    letter_before = word[-2:-1]
    if word.endswith("o") and letter_before in _VOWELS:
        return f"{word}s"
    if word.endswith(endings_with_es):
        return f"{word}es"
    if word.endswith("y") and letter_before not in _VOWELS:
        return f"{word[:-1]}ies"
    return f"{word}s"
