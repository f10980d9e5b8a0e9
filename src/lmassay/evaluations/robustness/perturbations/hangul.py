"""Korean syllables as key strokes on a two-set keyboard, and what a typing error does to them.

A syllable has an initial consonant, a vowel and perhaps a final consonant. These letters (jamo) are written here as the
compatibility letters (ㄱ, ㅏ) that keys show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

_INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_FINALS = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")
# Unicode lists all syllables from here on, by initial, then vowel, then final.
_FIRST = 0xAC00
_COUNT = len(_INITIALS) * len(_VOWELS) * len(_FINALS)

# Letters that need two strokes.
_PAIRS = {"ㅘ": "ㅗㅏ", "ㅙ": "ㅗㅐ", "ㅚ": "ㅗㅣ", "ㅝ": "ㅜㅓ", "ㅞ": "ㅜㅔ", "ㅟ": "ㅜㅣ", "ㅢ": "ㅡㅣ"}
_PAIRS |= {"ㄳ": "ㄱㅅ", "ㄵ": "ㄴㅈ", "ㄶ": "ㄴㅎ", "ㅄ": "ㅂㅅ"}
_PAIRS |= {"ㄺ": "ㄹㄱ", "ㄻ": "ㄹㅁ", "ㄼ": "ㄹㅂ", "ㄽ": "ㄹㅅ", "ㄾ": "ㄹㅌ", "ㄿ": "ㄹㅍ", "ㅀ": "ㄹㅎ"}
_MERGED = {strokes: letter for letter, strokes in _PAIRS.items()}
# Final consonants that take one stroke.
_PLAIN_FINALS = "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"

Strokes = tuple[str, str, str]
"""The strokes of the initial, the vowel and the final."""


def is_syllable(unit: str) -> bool:
    """True for one composed syllable, 가 to 힣."""
    return len(unit) == 1 and 0 <= ord(unit) - _FIRST < _COUNT


def initial_of(syllable: str) -> str:
    """The consonant that a syllable begins with."""
    return _split(syllable)[0]


def typos(syllable: str, neighbours: Callable[[str], Iterable[str]]) -> list[str]:
    """The syllables that result from one stroke on a neighbouring key.

    >>> typos("가", {"ㄱ": "ㄷㅅ", "ㅏ": "ㅓㅡ"}.__getitem__)
    ['다', '사', '거', '그']
    """
    syllables = []
    parts = _split(syllable)
    for part, strokes in enumerate(parts):
        for position, key in enumerate(strokes):
            for other in neighbours(key):
                changed = strokes[:position] + other + strokes[position + 1 :]
                syllables.append(_join(_with(parts, part, changed)))
    return list(filter(None, syllables))


def shorter(syllable: str) -> list[str]:
    """The syllables that result from a missing stroke.

    The initial and the first stroke of the vowel stay, so that a syllable remains.

    >>> shorter("한"), shorter("닭"), shorter("과"), shorter("나")
    (['하'], ['닥', '달'], ['고'], [])
    """
    parts = _split(syllable)
    _, vowel, final = parts
    syllables = []
    if len(vowel) == 2:
        syllables.append(_join(_with(parts, 1, vowel[0])))
    for position in range(len(final)):
        shorter_final = final[:position] + final[position + 1 :]
        syllables.append(_join(_with(parts, 2, shorter_final)))
    return list(filter(None, syllables))


def longer(syllable: str, finals: str = _PLAIN_FINALS) -> list[str]:
    """The syllables that result from one more consonant at the end.

    >>> longer("하", "ㄴ"), longer("갑", "ㅅㅇ")
    (['한'], ['값'])
    """
    parts = _split(syllable)
    syllables = [_join(_with(parts, 2, parts[2] + key)) for key in finals]
    return list(filter(None, syllables))


def _split(syllable: str) -> Strokes:
    """The strokes of a syllable."""
    initial_and_vowel, final = divmod(ord(syllable) - _FIRST, len(_FINALS))
    initial, vowel = divmod(initial_and_vowel, len(_VOWELS))
    return _INITIALS[initial], _strokes(_VOWELS[vowel]), _strokes(_FINALS[final])


def _strokes(letter: str) -> str:
    """The one or two strokes that type a letter."""
    return _PAIRS.get(letter, letter)


def _join(parts: Strokes) -> str:
    """The syllable of these strokes, or nothing if there is none."""
    initial, vowel, final = (_MERGED.get(strokes, strokes) for strokes in parts)
    # The lengths are checked because ``in`` also finds longer parts: "ab" in "abc" is True.
    if len(initial) != 1 or initial not in _INITIALS:
        return ""
    if len(vowel) != 1 or vowel not in _VOWELS:
        return ""
    if final not in _FINALS:
        return ""
    number = _INITIALS.index(initial) * len(_VOWELS) + _VOWELS.index(vowel)
    number = number * len(_FINALS) + _FINALS.index(final)
    return chr(_FIRST + number)


def _with(parts: Strokes, part: int, strokes: str) -> Strokes:
    """The parts with one of them replaced."""
    replaced = list(parts)
    replaced[part] = strokes
    initial, vowel, final = replaced
    return initial, vowel, final
