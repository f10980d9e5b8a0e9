"""What a model wrote, made plain: one spelling, no thoughts, answers taken out of JSON and LaTeX."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

# The normal form of a run of combining marks takes quadratic time; no word has more than a few.
_LONG, _MOST_MARKS = 2000, 8
_INVISIBLE = [*range(9), 11, 12, *range(14, 28), 127, 0xAD, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F)]
_INVISIBLE += [*range(0x2060, 0x2070), *range(0xFE00, 0xFE10), 0xFEFF, *range(0xE000, 0xE010)]
_REMOVED: dict[int, str] = dict.fromkeys(_INVISIBLE, "")
# White letters on black squares and discs have no normal form.
_REMOVED |= {first + n: chr(ord("A") + n) for first in (0x1F150, 0x1F170) for n in range(26)}
_REMOVED[ord("`")] = "'"
_PLAIN = {ord(c): plain for group, plain in (("‘’‚‛´′「」『』〈〉《》", "'"), ("“”„‟″«»", '"')) for c in group}
_PLAIN |= dict(zip(map(ord, "【】〔〕‐‑‒–—―−。"), "[][]-------.", strict=True))
_ODD, _FANCY = (re.compile(f"[{re.escape(''.join(map(chr, table)))}]") for table in (_REMOVED, _PLAIN))

_THOUGHT = re.compile(
    r"[<\[◁]\s{0,3}(/?)\s{0,3}(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)\s{0,3}[>\]▷]", re.IGNORECASE
)
_END_OF_TURN = re.compile(r"<\|(?:im_end|eot_id|endoftext|end|return|end_of_text)\|>|</s>|<eos>|<end_of_turn>")
_TOKEN = re.compile(r"<\|[^|<>]{0,40}\|>|<s>|<bos>|<start_of_turn>|\[/?INST\]")
_LEADING = re.compile(rf"(?:\s|{_END_OF_TURN.pattern}|{_TOKEN.pattern})*")
_LATEX = re.compile(r"\\(?!boxed|fbox)[a-zA-Z]{2,12} ?\{([^{}]{0,300})\}")
_BOXED = re.compile(r"\\(?:boxed|fbox) ?\{([^{}]{0,300})\}")
_TAG = re.compile(r"<(?:final_?)?answer>([^<>]{0,300})</(?:final_?)?answer>", re.IGNORECASE)
_NEW_QUESTION = re.compile(
    r"(?:\A|\n)[ \t]{0,8}[#*-]{0,4} ?(?:맥락|지문|내용|글|상황|이야기|질문|물음|문제|context|passage|text|question|q)"
    r"[ \d.]{0,5}\*{0,2} ?:",
    re.IGNORECASE,
)

_KEYS = """
answer finalanswer correctanswer youranswer choice finalchoice selectedchoice option selectedoption selected selection
letter prediction result response output 정답 답 답변 최종답변 최종정답 선택 선택지 보기 답안
"""
_ANSWER_KEYS = frozenset(_KEYS.split())
_DECODER = json.JSONDecoder(strict=False)
_MOST_OBJECTS = 4


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """An answer made plain. ``held_in`` says what the answer stood in, ``unfinished`` that a thought has no end."""

    text: str
    held_in: str = ""
    unfinished: bool = False


def tidy(text: str) -> str:
    """One spelling: composed Hangul, plain letters for circled and full-width ones, plain quotes; nothing invisible."""
    if _ODD.search(text) is not None:
        text = text.translate(_REMOVED)
    if not text.isascii() and not unicodedata.is_normalized("NFKC", text := _few_marks(text)):
        text = unicodedata.normalize("NFKC", text)
    return text.translate(_PLAIN) if _FANCY.search(text) is not None else text


def _few_marks(text: str) -> str:
    if len(text) < _LONG:
        return text
    kept, run = [], 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)


def lower(text: str) -> str:
    """Lower case, character by character: places stay the same."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def plain(raw: str) -> PlainAnswer:
    """The answer without thoughts, with what JSON, LaTeX and tags hold written as ``answer: …``."""
    text = tidy(raw)
    unfinished = False
    if "<" in text or "[" in text or "◁" in text:
        text, unfinished = _without_thoughts(_last_channel(text))
        text = _this_turn(text)
    held_in = ""
    if "\\" in text:
        text = _LATEX.sub(r" \1 ", text)
        text, held_in = _stated(_BOXED, text, held_in, "boxed")
    if "<" in text:
        text, held_in = _stated(_TAG, text, held_in, "answer tag")
    if "{" in text:
        text, held_in = _out_of_json(text, held_in)
    return PlainAnswer(text, held_in, unfinished)


def before_next_question(text: str) -> str:
    """What stands before a model begins to write the next question itself; the text if it does not."""
    found = _NEW_QUESTION.search(text)
    return text if found is None or not text[: found.start()].strip() else text[: found.start()]


def _last_channel(text: str) -> str:
    if "<|channel|>" not in text:
        return text
    _, found, final = text.rpartition("<|channel|>final")
    return final if found else "<think>"


def _without_thoughts(text: str) -> tuple[str, bool]:
    kept: list[str] = []
    place, inside = 0, False
    for tag in _THOUGHT.finditer(text):
        if tag[1]:
            if not inside:
                # The opening tag stood in the prompt: all before this was thought.
                kept.clear()
            inside = False
        elif not inside:
            kept.append(text[place : tag.start()])
            inside = True
        place = tag.end()
    if not inside:
        kept.append(text[place:])
    return "\n".join(kept), inside


def _this_turn(text: str) -> str:
    text = text[_LEADING.match(text).end() :]  # type: ignore[union-attr]  # it matches nothing at least
    end = _END_OF_TURN.search(text)
    return _TOKEN.sub("\n", text[: end.start()] if end else text)


def _stated(pattern: re.Pattern[str], text: str, held_in: str, name: str) -> tuple[str, str]:
    text, count = pattern.subn(lambda found: f"\nanswer: {_one_line(found[1])}\n", text)
    return text, held_in or (name if count else "")


def _out_of_json(text: str, held_in: str) -> tuple[str, str]:
    place = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if place < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            place = text.find("{", place + 1)
            continue
        answers = _answers(value)
        if answers:
            stated = "".join(f"\nanswer: {answer}\n" for answer in answers)
            text, held_in = f"{text[:place]}{stated}{text[end:]}", held_in or "json"
            end = place + len(stated)
        place = text.find("{", end)
    return text, held_in


def _answers(value: Any) -> list[str]:
    """What the keys that mean the answer say, at any depth."""
    found = []
    for key, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, dict):
            found += _answers(inner)
        elif "".join(c for c in key.lower() if c.isalnum()) in _ANSWER_KEYS:
            texts = inner if isinstance(inner, list) else [inner]
            found += [_one_line(text) for text in texts if isinstance(text, str)]
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())
