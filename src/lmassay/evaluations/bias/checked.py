"""Items as they must be before anything is asked: told apart by their ids, with choices that can be told apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lmassay.errors import DataError
from lmassay.evaluations.bias.items import LETTERS, Item


def checked(items: Iterable[tuple[Item, str]]) -> Iterator[Item]:
    """The items, each given with its place; raises at the first that cannot be used."""
    seen: dict[str, str] = {}
    for item, where in items:
        if item.id in seen:
            raise DataError(f"{where}: the id '{item.id}' was given already in {seen[item.id]}; ids must differ")
        seen[item.id] = where
        _check(item, where)
        yield item


def _check(item: Item, where: str) -> None:
    count = len(item.choices)
    if not 2 <= count <= len(LETTERS):
        raise DataError(f"{where}: {count} choices; there must be 2 to {len(LETTERS)}")
    if len({choice.strip() for choice in item.choices}) < count:
        raise DataError(f"{where}: two choices are the same: {', '.join(item.choices)}")
    for name, text in (("question", item.question), *(("choice", choice) for choice in item.choices)):
        if not text.strip():
            raise DataError(f"{where}: a {name} is empty")
    for text in (item.id, item.context, item.question, *item.choices):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(f"{where}: the character {text[error.start]!a} is half of one; mend the file") from None
    for name, place in (("correct", item.correct), ("unknown", item.unknown), ("biased", item.biased)):
        if place is not None and not 0 <= place < count:
            raise DataError(f"{where}: the {name} answer is choice {place}, but they are numbered 0 to {count - 1}")
    if item.biased == item.unknown:
        raise DataError(f"{where}: the biased answer is the unknown one; it must be one of the others, or none")
