"""Find out which part of a text each token covers, from the texts of the tokens that a server returns.

Servers decode every token by itself. Usually the texts concatenate to the prompt. Three things may differ: a token
before the text (<s>), a space that decoding removes (SentencePiece), and a character that is spread over several tokens
and appears as U+FFFD in each of them, or in none but the last. All other differences mean that the tokens are not those
of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lmassay.errors import ModelError

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Whether the next character of the prompt has begun in a token without being complete: it has not; it has, and each of
# its tokens shows U+FFFD; it has, and only its last token shows it.
_NOT_BEGUN = 0
_AS_FRAGMENTS = 1
_IN_LAST_TOKEN = 2

_Position = tuple[int, int]
"""How many characters of the prompt are read, and whether the next one has begun."""
# A token that a tokenizer puts before a text, such as <s>, <|begin_of_text|> or [CLS].
_SPECIAL = re.compile(r"<[^<>\s]+>|\[[A-Z]+\]|")
# The longest first token, in characters, if the server does not name it.
_LONGEST_FIRST_TOKEN = 64
# The characters of a prompt and of a token that an error message shows.
_SHOWN = 40


def continuation_start(prompt: str, token_texts: Sequence[str | None], context_length: int) -> int:
    """The index of the first token that reaches into the text after the first ``context_length`` characters.

    The text of the first token may be None: some servers do not name a token that has no probability. Raises a
    ModelError if the tokens are not those of the prompt, or if they do not determine the index.

    >>> continuation_start("The keys are", ["The", " keys", " are"], len("The keys"))
    2
    >>> continuation_start("The keys are", ["<s>", "The", "keys", "are"], len("The keys"))
    3
    """
    if token_texts and token_texts[-1] == "":
        raise ModelError("the server adds a token after the text, so the text cannot be scored by itself")
    for index, positions in enumerate(_possible_ends(prompt, token_texts)):
        reaches = [read + (begun != _NOT_BEGUN) for read, begun in positions]
        if max(reaches) <= context_length:
            continue
        if min(reaches) <= context_length:
            raise ModelError(
                "the server's tokens do not show where the continuation begins; put a space or a punctuation mark there"
            )
        return index
    return len(token_texts)


def _possible_ends(prompt: str, token_texts: Sequence[str | None]) -> list[set[_Position]]:
    """For each token, the positions at which it may end if all tokens together cover the prompt."""
    forward: list[set[_Position]] = []
    positions: set[_Position] = {(0, _NOT_BEGUN)}
    for index, text in enumerate(token_texts):
        reached: set[_Position] = set()
        for position in positions:
            reached.update(_ends(prompt, position, text, is_first=index == 0))
        if not reached:
            raise ModelError(_mismatch(prompt, max(positions)[0], text))
        forward.append(reached)
        positions = reached
    whole = (len(prompt), _NOT_BEGUN)
    if whole not in positions:
        raise ModelError(_mismatch(prompt, max(positions)[0], None))
    # Of these positions, those remain from which the following tokens reach the end of the prompt.
    ends: list[set[_Position]] = [{whole}]
    for index in range(len(token_texts) - 1, 0, -1):
        following = ends[-1]
        usable: set[_Position] = set()
        for position in forward[index - 1]:
            if following.intersection(_ends(prompt, position, token_texts[index], is_first=False)):
                usable.add(position)
        ends.append(usable)
    ends.reverse()
    return ends


def _ends(prompt: str, position: _Position, text: str | None, *, is_first: bool) -> Iterator[_Position]:
    """The positions at which a token may end that begins at ``position``."""
    read, begun = position
    if text is None:
        if is_first:
            for end in range(min(len(prompt), _LONGEST_FIRST_TOKEN) + 1):
                yield end, _NOT_BEGUN
        return
    if is_first and _SPECIAL.fullmatch(text) and not (text and prompt.startswith(text)):
        yield position
        return
    if not text:
        # Part of a character that appears whole in a later token, or a token without a text.
        if begun == _NOT_BEGUN and _is_beyond_ascii(prompt, read):
            begun = _IN_LAST_TOKEN
        yield read, begun
        return
    if _REPLACEMENT in text and not prompt.startswith(text, read):
        yield from _ends_of_fragment(prompt, position, text)
        return
    if begun == _AS_FRAGMENTS:
        return
    if prompt.startswith(text, read):
        yield read + len(text), _NOT_BEGUN
        return
    # Decoding a SentencePiece token by itself removes the space that it begins with.
    if begun == _NOT_BEGUN and prompt.startswith(f" {text}", read):
        yield read + 1 + len(text), _NOT_BEGUN


def _ends_of_fragment(prompt: str, position: _Position, text: str) -> Iterator[_Position]:
    """The ends of a token with parts of characters beyond ASCII, each of which appears as U+FFFD."""
    positions = {position}
    for character in text:
        reached: set[_Position] = set()
        for read, begun in positions:
            if character != _REPLACEMENT:
                if begun == _NOT_BEGUN and prompt[read : read + 1] == character:
                    reached.add((read + 1, _NOT_BEGUN))
            elif _is_beyond_ascii(prompt, read):
                reached.add((read, _AS_FRAGMENTS))
                if begun == _AS_FRAGMENTS:
                    reached.add((read + 1, _NOT_BEGUN))
        positions = reached
    yield from positions


def _is_beyond_ascii(text: str, position: int) -> bool:
    return not text[position : position + 1].isascii()


def _mismatch(prompt: str, position: int, text: str | None) -> str:
    expected = prompt[position : position + _SHOWN]
    if text is None:
        return f"the server's tokens end before the prompt does: {expected!r} is missing"
    return (
        f"the server's tokens are not those of the prompt: it returned {text[:_SHOWN]!r} where the prompt continues "
        f"with {expected!r}"
    )
