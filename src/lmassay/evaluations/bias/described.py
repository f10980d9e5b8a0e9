"""Data of the user's own in the shape of BBQ: a short YAML says which field of a row is what."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from lmassay.answers.words import CANNOT_BE_ANSWERED, CANNOT_BE_KNOWN, IS_NOT_KNOWN_TO_ME
from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.bias.bbq import bias_notes, biased_answer
from lmassay.evaluations.bias.checked import checked
from lmassay.evaluations.bias.described_keys import Column, Keys, Several
from lmassay.evaluations.bias.items import LETTERS, Dataset, Item
from lmassay.evaluations.bias.kobbq.files import parse_choices
from lmassay.evaluations.bias.records import KINDS, Record, read_records
from lmassay.storage.files import sha256
from lmassay.types import digest

_UNKNOWN = (CANNOT_BE_KNOWN, IS_NOT_KNOWN_TO_ME, CANNOT_BE_ANSWERED)
_NEITHER = ("", "none")
_Meaning = TypeVar("_Meaning")


@dataclass(frozen=True, slots=True)
class _Description:
    """What a description says; a column of None was not named, and its usual name is looked for."""

    id: Column
    category: Column
    template: Column | None
    context: Column
    question: Column
    choices: Several
    correct: Column
    count_from: int
    context_type: Column
    contexts: Mapping[str, Literal["amb", "dis"]]
    unknown: Column | None
    unknown_texts: frozenset[str]
    biased: Column | None
    groups: Several | None
    stereotyped_groups: str | None
    polarity: Column | None
    polarities: Mapping[str, bool]
    label: Column | None
    by: Mapping[str, Column]


def read_described(path: Path) -> Dataset:
    """The data set that a .yaml file describes."""
    keys = Keys.read(path)
    name, language = keys.text("name", path.stem), keys.choice("language", ("en", "ko"))
    for key in ("licence", "source"):
        keys.text(key, "")
    files = _files(keys)
    described = _description(keys)
    absent = set(described.by)

    def rows() -> Iterator[Record]:
        for file in files:
            for record in read_records(file):
                absent.difference_update([name for name in absent if described.by[name].is_in(record)])
                yield record

    items = list(checked((_item(record, described), record.where) for record in rows()))
    if items and absent:
        raise ConfigError(f"{keys.place('by')}: no row has the field of '{min(absent)}'")
    signature = digest(sha256(path), [sha256(file) for file in files])
    return Dataset(name, items, language, signature, notes=[*bias_notes(items), *_lone_questions(items)])


def _lone_questions(items: Sequence[Item]) -> list[str]:
    """Questions without a template are taken for independent, which those made from one are not."""
    if len(items) < 2 or len({item.template for item in items}) < len(items):
        return []
    return [
        "every question has a template of its own, so intervals take all for independent; name one with `template:`"
    ]


def _description(keys: Keys) -> _Description:
    contexts: dict[str, Literal["amb", "dis"]] = {}
    contexts |= dict.fromkeys(keys.values("ambiguous", ("amb", "ambig", "ambiguous")), "amb")
    contexts |= dict.fromkeys(keys.values("disambiguated", ("dis", "disambig", "disambiguated")), "dis")
    polarities = dict.fromkeys(keys.values("negative", ("neg", "negative")), True)
    polarities |= dict.fromkeys(keys.values("non_negative", ("nonneg", "non-negative", "nonnegative")), False)
    return _Description(
        id=keys.column("id"),
        category=keys.column("category"),
        template=keys.optional_column("template"),
        context=keys.column("context"),
        question=keys.column("question"),
        choices=keys.several("choices") or "choices",
        correct=keys.column("correct"),
        count_from=keys.number("count_from", 0),
        context_type=keys.column("context_type"),
        contexts=contexts,
        unknown=keys.optional_column("unknown"),
        unknown_texts=frozenset(_same(text) for text in keys.values("unknown_texts", ())),
        biased=keys.optional_column("biased"),
        groups=keys.several("groups"),
        stereotyped_groups=keys.text("stereotyped_groups", "") or None,
        polarity=keys.optional_column("polarity"),
        polarities=polarities,
        label=keys.optional_column("label"),
        by=keys.columns("by"),
    )


def _files(keys: Keys) -> list[Path]:
    found: list[Path] = []
    for pattern in keys.values("files", ()):
        matches = sorted(glob.glob(str(keys.path.parent / pattern)))  # noqa: PTH207 - takes absolute patterns too
        if not matches:
            raise ConfigError(f"{keys.place('files')}: there is no file {keys.path.parent / pattern}; check the path")
        found += [Path(match) for match in matches]
    if not found:
        raise ConfigError(f"{keys.path}: the key 'files' is required; name the files of the data, e.g. questions.jsonl")
    for file in found:
        if file.suffix not in KINDS:
            raise ConfigError(f"{keys.place('files')}: {file.name} must end in {', '.join(KINDS)}")
    return list(dict.fromkeys(found))


def _item(record: Record, described: _Description) -> Item:
    choices = tuple(_choices(record, described.choices))
    groups = _groups(record, described.groups, len(choices))
    unknown = _unknown(record, described, choices, groups)
    key = described.id.text(record)
    polarity = _polarity(record, described)
    further = {} if polarity is None else {"polarity": polarity[0]}
    further |= {name: column.text(record) for name, column in described.by.items() if column.is_in(record)}
    template = described.template or (Column(("template",)) if record.has("template") else None)
    return Item(
        id=key,
        category=described.category.text(record),
        template=template.text(record) if template else key,
        context_type=_one_of(described.contexts, described.context_type.text(record), record, "context type"),
        context=described.context.text(record),
        question=described.question.text(record),
        choices=choices,
        correct=_place(described.correct.value(record), choices, described.count_from, f"{record.where}: correct"),
        unknown=unknown,
        biased=_biased(record, described, choices, groups, unknown, polarity),
        label=described.label.text(record) if described.label else "",
        groups={name: text for name, text in further.items() if text.lower() not in _NEITHER},
    )


def _choices(record: Record, named: Several) -> list[str]:
    if not isinstance(named, str):
        return [record.text(path) for path in named]
    listed = _listed(record, named)
    if not all(isinstance(choice, str) for choice in listed):
        raise DataError(f"{record.where}: '{named}' must be a list of texts; it is {listed!r}")
    return listed


def _listed(record: Record, path: str) -> list[Any]:
    """A field that holds a list, or the text of one as JSON or Python write it."""
    value = record.get(path)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            try:
                value = list(parse_choices(value))
            except ValueError:
                raise DataError(
                    f"{record.where}: '{path}' is no list of texts: {value[:80]!r}; name several columns in its place "
                    f"if each has one"
                ) from None
    if not isinstance(value, list):
        raise DataError(f"{record.where}: '{path}' must be a list; it is {value!r}")
    return value


def _groups(record: Record, named: Several | None, count: int) -> list[list[str]] | None:
    if named is None:
        if not record.has("groups"):
            return None
        named = "groups"
    values = _listed(record, named) if isinstance(named, str) else [record.get(path) for path in named]
    if len(values) != count:
        raise DataError(f"{record.where}: groups for {len(values)} choices, but there are {count}")
    return [[str(name) for name in value] if isinstance(value, list) else [str(value)] for value in values]


def _unknown(
    record: Record, described: _Description, choices: Sequence[str], groups: Sequence[Sequence[str]] | None
) -> int:
    column = described.unknown or (Column(("unknown",)) if record.has("unknown") else None)
    if column is not None:
        return _place(column.value(record), choices, described.count_from, f"{record.where}: unknown")
    if described.unknown_texts:
        found = [place for place, choice in enumerate(choices) if _same(choice) in described.unknown_texts]
    elif groups is not None:
        found = [place for place, names in enumerate(groups) if "unknown" in map(str.lower, names)]
    else:
        found = [place for place, choice in enumerate(choices) if any(p.search(choice.lower()) for p in _UNKNOWN)]
    if len(found) != 1:
        raise DataError(
            f"{record.where}: {'no choice is' if not found else f'{len(found)} choices are'} known to mean that the "
            f"answer is unknown ({', '.join(choices)}); give the key 'unknown_texts' or a column 'unknown'"
        )
    return found[0]


def _polarity(record: Record, described: _Description) -> tuple[str, bool] | None:
    column = described.polarity or (Column(("polarity",)) if record.has("polarity") else None)
    if column is None:
        return None
    word = column.text(record)
    return word, _one_of(described.polarities, word, record, "polarity")


def _biased(
    record: Record,
    described: _Description,
    choices: Sequence[str],
    groups: Sequence[Sequence[str]] | None,
    unknown: int,
    polarity: tuple[str, bool] | None,
) -> int | None:
    column = described.biased or (Column(("biased",)) if record.has("biased") else None)
    if column is not None:
        value = column.value(record)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        return _place(value, choices, described.count_from, f"{record.where}: biased")
    path = described.stereotyped_groups or "stereotyped_groups"
    if groups is None or polarity is None or not record.has(path):
        return None
    stereotyped = record.get(path)
    names = stereotyped if isinstance(stereotyped, list) else [stereotyped]
    return biased_answer(groups, [str(name) for name in names], unknown, polarity[1])


def _place(value: Any, choices: Sequence[str], count_from: int, where: str) -> int:
    """Which choice is meant: by its text, its letter, or its number."""
    if isinstance(value, str):
        text = value.strip()
        same = [place for place, choice in enumerate(choices) if _same(choice) == _same(text)]
        if same:
            return same[0]
        if len(text) == 1 and text.upper() in LETTERS[: len(choices)]:
            return LETTERS.index(text.upper())
        if text.isdecimal() and text.isascii():
            value = int(text[:9])
    if type(value) is int and 0 <= value - count_from < len(choices):
        return value - count_from
    last = count_from + len(choices) - 1
    raise DataError(
        f"{where}: {value!r} is no choice; give its text, its letter (A to {LETTERS[len(choices) - 1]}) or its number "
        f"({count_from} to {last}; the key 'count_from' says where counting begins)"
        if 1 <= len(choices) <= len(LETTERS)
        else f"{where}: {len(choices)} choices; there must be 2 to {len(LETTERS)}"
    )


def _one_of(known: Mapping[str, _Meaning], word: str, record: Record, what: str) -> _Meaning:
    if word not in known:
        keys = "'ambiguous' and 'disambiguated'" if what == "context type" else "'negative' and 'non_negative'"
        raise DataError(
            f"{record.where}: the {what} is '{word}', which is none of {', '.join(known)}; the keys {keys} of the "
            f"description say which words mean what"
        )
    return known[word]


def _same(text: str) -> str:
    return " ".join(text.split()).casefold()
