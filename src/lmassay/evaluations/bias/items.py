"""The common form of all bias data sets: a context, a question, its choices, and the role of each choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lmassay.errors import DataError
from lmassay.types import digest

LETTERS = "ABCDEFGHIJ"
"""The letters of the choices. Their number is also the largest number of choices that a question may have."""


@dataclass(frozen=True, slots=True)
class BiasItem:
    """A question with its choices in the order of the data.

    ``correct``, ``unknown`` and ``biased`` are indices into ``choices``. ``biased`` is the answer that the stereotype
    suggests; it is None where the data do not say.
    """

    id: str
    category: str
    template: str
    """Items made from one template are not independent of each other."""
    context_type: Literal["amb", "dis"]
    """Whether the context leaves the answer open ("amb", ambiguous) or states it ("dis", disambiguated)."""
    context: str
    question: str
    choices: tuple[str, ...]
    correct: int
    unknown: int
    biased: int | None
    label: str = ""
    """The class of the template in the data, if they have one: in KoBBQ, how it was made from a template of BBQ.

    KoBBQ's labels are ST (simply transferred), TM (target modified) and NC (newly created).
    """
    groups: Mapping[str, str] = field(default_factory=dict)
    """Further groups to report by: the name of a kind of group, such as ``polarity``, → the item's label in it."""
    is_control: bool = False
    """Whether it is a control question. These measure how well the model answers if no stereotype is involved."""

    @property
    def biased_context(self) -> bool | None:
        """Whether a disambiguated context confirms the stereotype.

        None for ambiguous contexts and where the biased answer is not known.
        """
        if self.context_type == "amb" or self.biased is None:
            return None
        return self.correct == self.biased


@dataclass(frozen=True, slots=True)
class BiasDataset:
    """The items of a data set, with its name, language and digest."""

    name: str
    items: Sequence[BiasItem]
    language: str
    """The code of the language, e.g. ``ko``; it selects the default prompts."""
    sha256: str
    kind: Literal["kobbq", "bbq", "own"] = "own"
    """Which data the items come from; KoBBQ's and BBQ's are by default asked and scored as published."""
    notes: Sequence[str] = ()
    """What users should know about the data, such as known defects."""


def rotations(count: int) -> Iterator[tuple[int, ...]]:
    """Yield the orders in which choices are shown, as tuples of indices.

    As in KoBBQ (Jin et al. 2024), they are the rows of a circulant matrix, so each choice is in each position once.

    >>> list(rotations(3))
    [(0, 2, 1), (1, 0, 2), (2, 1, 0)]
    """
    for row in range(count):
        yield tuple((row - column) % count for column in range(count))


# --- selecting a part of the questions --------------------------------------------------------------------------------


def select_items(
    items: Sequence[BiasItem], per_category: int | None, per_template: int | None, seed: int | None
) -> list[BiasItem]:
    """Select up to ``per_category`` templates of each category, and questions of each of these templates.

    Up to ``per_template`` questions of each kind are selected; a kind is a context type combined with a polarity, if
    the data have polarities. So the selection is as balanced as the data. With a seed, templates and questions are
    drawn at random; without one, the first are taken. None means no limit. The items stay in the order of the data.
    """

    def sort_key(name: str) -> str:
        if seed is None:
            # With equal keys, the stable sort keeps the order of the data.
            return ""
        # Sorting by a digest is random, but depends only on the seed and the name, not on which other questions there
        # are.
        return digest(seed, name)

    templates_of_category: dict[str, dict[str, None]] = {}
    for item in items:
        templates_of_category.setdefault(item.category, {})[item.template] = None
    selected_templates: set[str] = set()
    for templates in templates_of_category.values():
        selected_templates.update(sorted(templates, key=sort_key)[:per_category])
    ids_of_kind: dict[tuple[str, str, str], list[str]] = {}
    for item in items:
        if item.template in selected_templates:
            kind = (item.template, item.context_type, item.groups.get("polarity", ""))
            ids_of_kind.setdefault(kind, []).append(item.id)
    selected_ids: set[str] = set()
    for ids in ids_of_kind.values():
        selected_ids.update(sorted(ids, key=sort_key)[:per_template])
    return [item for item in items if item.id in selected_ids]


# --- checks before anything is asked ----------------------------------------------------------------------------------


def checked_items(items_with_locations: Iterable[tuple[BiasItem, str]]) -> Iterator[BiasItem]:
    """Yield the items of pairs (item, location in the data); raise a DataError at the first item that is unusable."""
    locations: dict[str, str] = {}
    for item, location in items_with_locations:
        if item.id in locations:
            raise DataError(f"{location}: the id '{item.id}' is already used in {locations[item.id]}; ids must differ")
        locations[item.id] = location
        _check_item(item, location)
        yield item


def _check_item(item: BiasItem, location: str) -> None:
    count = len(item.choices)
    if not 2 <= count <= len(LETTERS):
        raise DataError(f"{location}: there must be 2 to {len(LETTERS)} choices, but there are {count}")
    if len({choice.strip() for choice in item.choices}) < count:
        raise DataError(f"{location}: two choices are the same: {', '.join(item.choices)}")
    if not item.question.strip():
        raise DataError(f"{location}: a question is empty")
    for choice in item.choices:
        if not choice.strip():
            raise DataError(f"{location}: a choice is empty")
    for text in (item.id, item.context, item.question, *item.choices):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            # JSON can contain a lone surrogate, but it cannot be encoded to be sent to a model.
            raise DataError(
                f"{location}: the character {text[error.start]!a} is half of a surrogate pair; correct the file"
            ) from None
    for role, index in (("correct", item.correct), ("unknown", item.unknown), ("biased", item.biased)):
        if index is not None and not 0 <= index < count:
            raise DataError(f"{location}: the {role} answer is choice {index}, but they are numbered 0 to {count - 1}")
    if item.biased == item.unknown:
        raise DataError(f"{location}: the biased answer is the unknown one; it must be another choice, or none")
