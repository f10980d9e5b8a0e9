"""Find out which part of a text each token covers, from the texts of the tokens that a server returns.

Servers decode every token by itself. Usually the texts concatenate to the prompt. Three things may differ:

- A special token such as <s> may come before the text.
- Decoding may remove the space that a token begins with (SentencePiece).
- If a character is spread over several tokens, each of them may show U+FFFD in its place, or the last one may show the
  whole character and the others have an empty text.

Any other difference means that the tokens are not those of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lmassay.errors import ModelError
from lmassay.redaction import excerpt

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# A token that a tokenizer puts before a text, such as <s>, <|begin_of_text|> or [CLS]. Some servers decode special
# tokens to an empty text, which the empty alternative at the end matches.
_SPECIAL = re.compile(r"<[^<>\s]+>|\[[A-Z]+\]|")
# How many bytes of the prompt a first token may cover if the server does not name it.
_MAX_FIRST_TOKEN_LENGTH = 128
# How much an error message shows: bytes of the prompt, characters of a token.
_MAX_SHOWN = 40


class UnclearBoundaryError(ModelError):
    """The tokens spell the prompt, but do not show where its continuation begins."""

    def __init__(self) -> None:
        super().__init__(
            "the server's tokens do not show where the continuation begins; put a space or a punctuation mark there"
        )


def continuation_start(prompt: str, token_texts: Sequence[str | None], context_length: int) -> int:
    """The index of the first token that reaches into the text after the first ``context_length`` characters.

    The number of tokens if no token does. The text of the first token may be None: some servers do not name a token
    that has no probability. Raises a ModelError if the tokens are not those of the prompt, or if the last one has an
    empty text; an UnclearBoundaryError if they do not determine the index.

    >>> continuation_start("The keys are", ["The", " keys", " are"], len("The keys"))
    2
    >>> continuation_start("The keys are", ["<s>", "The", "keys", "are"], len("The keys"))
    3
    """
    if token_texts and token_texts[-1] == "":
        raise ModelError("the server adds a token after the text, so the text cannot be scored by itself")
    context_bytes = len(_encoded(prompt[:context_length]))
    for index, positions in enumerate(_Alignment(prompt).possible_ends(token_texts)):
        reaches = [position.reach for position in positions]
        if max(reaches) <= context_bytes:
            continue
        if min(reaches) <= context_bytes:
            raise UnclearBoundaryError
        return index
    return len(token_texts)


@dataclass(frozen=True, slots=True, order=True)
class _Position:
    """How far into the prompt the tokens up to some point reach."""

    offset: int
    """In bytes. It can be inside a character if the parts of the character appear as U+FFFD."""
    is_in_character: bool = False
    """Whether tokens without a text have begun a character that a later token shows as a whole."""

    @property
    def reach(self) -> int:
        """The offset, and one byte more if tokens without a text have begun the character at this offset."""
        if self.is_in_character:
            return self.offset + 1
        return self.offset


class _Alignment:
    """All ways to align the texts of tokens with a prompt."""

    def __init__(self, prompt: str) -> None:
        self._prompt = _encoded(prompt)

    def possible_ends(self, token_texts: Sequence[str | None]) -> list[set[_Position]]:
        """For each token, the positions at which it may end if all tokens together cover the prompt."""
        forward: list[set[_Position]] = []
        positions = {_Position(0)}
        for index, text in enumerate(token_texts):
            reached: set[_Position] = set()
            for position in positions:
                reached.update(self._ends(position, text, is_first=index == 0))
            if not reached:
                raise ModelError(self._mismatch(max(positions), text))
            forward.append(reached)
            positions = reached
        prompt_end = _Position(len(self._prompt))
        if prompt_end not in positions:
            raise ModelError(self._mismatch(max(positions), None))
        # Going back from the last token, keep only the positions from which the rest of the tokens can reach the end of
        # the prompt.
        ends = [{prompt_end}]
        for index in range(len(token_texts) - 1, 0, -1):
            following = ends[-1]
            usable: set[_Position] = set()
            for position in forward[index - 1]:
                if following.intersection(self._ends(position, token_texts[index], is_first=False)):
                    usable.add(position)
            ends.append(usable)
        ends.reverse()
        return ends

    def _ends(self, position: _Position, text: str | None, *, is_first: bool) -> Iterator[_Position]:
        """The positions at which a token that begins at ``position`` may end.

        Only the first token (``is_first``) may be a special token, or have no known text.
        """
        if text is None:
            if is_first:
                for end in range(min(len(self._prompt), _MAX_FIRST_TOKEN_LENGTH) + 1):
                    yield _Position(end)
            return
        content = _encoded(text)
        # A prompt may itself begin with a text such as <s>; then the token is part of the prompt.
        is_in_prompt = bool(content) and self._prompt.startswith(content)
        if is_first and _SPECIAL.fullmatch(text) and not is_in_prompt:
            yield position
            if not text and self._prompt.startswith(b" "):
                # Instead of a special token, it may be a SentencePiece token that is only a space.
                yield _Position(1)
            return
        offset = position.offset
        if not text:
            # Part of a character that appears whole in a later token, or a token without a text.
            is_beyond_ascii = self._character_end(offset) > offset + 1
            yield _Position(offset, position.is_in_character or is_beyond_ascii)
            if not position.is_in_character and self._prompt.startswith(b" ", offset):
                # A SentencePiece token that is only a space.
                yield _Position(offset + 1)
            return
        # Decoding a SentencePiece token by itself removes the space that it begins with.
        offsets = [offset]
        if not position.is_in_character and self._prompt.startswith(b" ", offset):
            offsets.append(offset + 1)
        for start in offsets:
            if _REPLACEMENT in text and not position.is_in_character:
                yield from self._ends_of_fragment(start, text)
            if self._is_boundary(start) and self._prompt.startswith(content, start):
                yield _Position(start + len(content))

    def _ends_of_fragment(self, offset: int, text: str) -> Iterator[_Position]:
        """The possible ends of a token that contains parts of characters, each of which appears as U+FFFD."""
        offsets = {offset}
        for character in text:
            reached: set[int] = set()
            for start in offsets:
                if character == _REPLACEMENT:
                    reached.update(self._ends_of_part(start))
                # The prompt itself may contain U+FFFD.
                if self._is_boundary(start) and self._prompt.startswith(_encoded(character), start):
                    reached.add(start + len(_encoded(character)))
            offsets = reached
        for end in offsets:
            yield _Position(end)

    def _ends_of_part(self, offset: int) -> range:
        """The possible ends of a token that is part of a character: at least one byte, but not the whole character."""
        end = self._character_end(offset)
        if self._is_boundary(offset):
            return range(offset + 1, end)
        return range(offset + 1, end + 1)

    def _is_boundary(self, offset: int) -> bool:
        """Whether a character begins at this byte. In UTF-8, bytes of the form 10xxxxxx continue a character."""
        return offset >= len(self._prompt) or self._prompt[offset] & 0xC0 != 0x80

    def _character_end(self, offset: int) -> int:
        """The end of the character that this byte belongs to."""
        end = min(offset + 1, len(self._prompt))
        while not self._is_boundary(end):
            end += 1
        return end

    def _mismatch(self, position: _Position, text: str | None) -> str:
        """The message for tokens that are not those of the prompt.

        ``text`` is the token that does not continue the prompt at ``position``; None if there are too few tokens.
        """
        expected = self._prompt[position.offset : position.offset + _MAX_SHOWN].decode("utf-8", "replace")
        if text is None:
            return f"the server's tokens end before the prompt does: {expected!r} is missing"
        return (
            f"the server's tokens are not those of the prompt: it returned {excerpt(text, _MAX_SHOWN)!r} where the "
            f"prompt continues with {expected!r}"
        )


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
