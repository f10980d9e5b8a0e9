"""Korean syllables as key strokes: what two-set keyboards make of them, and what a slip does to them.

A syllable has an initial consonant, a vowel and perhaps a final consonant. Jamo are written here as the compatibility
letters (ㄱ, ㅏ) that keys show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

_INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_FINALS = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")
_FIRST, _COUNT = 0xAC00, len(_INITIALS) * len(_VOWELS) * len(_FINALS)

# Letters that take two strokes.
_PAIRS = {"ㅘ": "ㅗㅏ", "ㅙ": "ㅗㅐ", "ㅚ": "ㅗㅣ", "ㅝ": "ㅜㅓ", "ㅞ": "ㅜㅔ", "ㅟ": "ㅜㅣ", "ㅢ": "ㅡㅣ"}
_PAIRS |= {"ㄳ": "ㄱㅅ", "ㄵ": "ㄴㅈ", "ㄶ": "ㄴㅎ", "ㅄ": "ㅂㅅ"}
_PAIRS |= {"ㄺ": "ㄹㄱ", "ㄻ": "ㄹㅁ", "ㄼ": "ㄹㅂ", "ㄽ": "ㄹㅅ", "ㄾ": "ㄹㅌ", "ㄿ": "ㄹㅍ", "ㅀ": "ㄹㅎ"}
_MERGED = {strokes: letter for letter, strokes in _PAIRS.items()}
_PLAIN_FINALS = "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"

Strokes = tuple[str, str, str]


def is_syllable(unit: str) -> bool:
    """True for one composed syllable, 가 to 힣."""
    return len(unit) == 1 and 0 <= ord(unit) - _FIRST < _COUNT


def initial_of(syllable: str) -> str:
    """The consonant that a syllable begins with."""
    return _split(syllable)[0]


def slips(syllable: str, neighbours: Callable[[str], Iterable[str]]) -> list[str]:
    """The syllables that come of one stroke on a neighbouring key.

    >>> slips("가", {"ㄱ": "ㄷㅅ", "ㅏ": "ㅓㅡ"}.__getitem__)
    ['다', '사', '거', '그']
    """
    found = []
    parts = _split(syllable)
    for part, strokes in enumerate(parts):
        for place, key in enumerate(strokes):
            for other in neighbours(key):
                new = strokes[:place] + other + strokes[place + 1 :]
                found.append(_join(_with(parts, part, new)))
    return [s for s in found if s]


def shorter(syllable: str) -> list[str]:
    """The syllables that come of a missing stroke; the initial and the vowel stay, lest no syllable be left.

    >>> shorter("한"), shorter("닭"), shorter("과"), shorter("나")
    (['하'], ['닥', '달'], ['고'], [])
    """
    parts = _split(syllable)
    _, vowel, final = parts
    found = [_join(_with(parts, 1, vowel[0]))] if len(vowel) == 2 else []
    found += [_join(_with(parts, 2, final[:i] + final[i + 1 :])) for i in range(len(final))]
    return [s for s in found if s]


def longer(syllable: str, finals: str = _PLAIN_FINALS) -> list[str]:
    """The syllables that come of one more consonant at the end.

    >>> longer("하", "ㄴ"), longer("갑", "ㅅㅇ")
    (['한'], ['값'])
    """
    parts = _split(syllable)
    return [s for key in finals if (s := _join(_with(parts, 2, parts[2] + key)))]


def _split(syllable: str) -> Strokes:
    rest, final = divmod(ord(syllable) - _FIRST, len(_FINALS))
    initial, vowel = divmod(rest, len(_VOWELS))
    return _INITIALS[initial], _strokes(_VOWELS[vowel]), _strokes(_FINALS[final])


def _strokes(letter: str) -> str:
    return _PAIRS.get(letter, letter)


def _join(parts: Strokes) -> str:
    """The syllable of these strokes, or nothing if there is none."""
    initial, vowel, final = (_MERGED.get(strokes, strokes) for strokes in parts)
    if len(initial) != 1 or initial not in _INITIALS or len(vowel) != 1 or vowel not in _VOWELS or final not in _FINALS:
        return ""
    place = (_INITIALS.index(initial) * len(_VOWELS) + _VOWELS.index(vowel)) * len(_FINALS) + _FINALS.index(final)
    return chr(_FIRST + place)


def _with(parts: Strokes, part: int, strokes: str) -> Strokes:
    initial, vowel, final = (strokes if i == part else old for i, old in enumerate(parts))
    return initial, vowel, final
